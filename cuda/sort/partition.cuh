/// Counting keys by digit or bucket, and placing them in buckets.
///
/// ```text
///   keys │ share 0 │ share 1 │ ...     counts, bucket by bucket: │ b0 s0, b0 s1, ... │ b1 s0, ... │
///          count ──────────────────►   their exclusive sums: where each share puts its first key of each bucket
///          place ◄──────────────────
/// ```
///
/// A block has one share, which it goes through in tiles, a warp through 32 keys at a time in their order; so keys of a
/// bucket keep their order. Traffic: keys read twice, keys and values moved once. Sizes of tiles are a guess.
#pragma once

#include <cstdint>

#include "block/grid.cuh"
#include "block/launch.cuh"
#include "pelton/abi/partition.h"
#include "pelton/common/order.h"

namespace pelton {

struct PartitionPolicy {
  static constexpr int THREADS = 256;
  static constexpr int BLOCKS_PER_MULTIPROCESSOR = 8;
  static constexpr int ITEMS = 8;
};

constexpr uint32_t PARTITION_WARPS = PartitionPolicy::THREADS / 32;
constexpr uint32_t PARTITION_TILE = PartitionPolicy::THREADS * PartitionPolicy::ITEMS;
constexpr uint32_t BUCKETS_MAX = K_SPLITTERS_MAX + 1;

/// Buckets are digits.
template <class WORD>
struct DigitBuckets {
  static constexpr uint32_t COUNT_MAX = 1u << K_DIGIT_BITS_MAX;
  struct Shared {};
  const WORD* keys;
  KeyOrder<WORD> order;
  uint32_t begin_bit;
  uint32_t bits;

  __device__ void prepare(Shared&) const {}
  __device__ uint32_t count() const { return 1u << bits; }
  __device__ uint32_t bucket(const Shared&, WORD key) const {
    return static_cast<uint32_t>(order.word(key) >> begin_bit) & (count() - 1);
  }
};

/// Buckets are between splitters.
template <class WORD>
struct SplitterBuckets {
  static constexpr uint32_t COUNT_MAX = BUCKETS_MAX;
  struct Shared {
    WORD splitters[K_SPLITTERS_MAX];
  };
  const WORD* keys;
  KeyOrder<WORD> order;
  const WORD* splitters;
  uint32_t splitter_count;

  /// All threads of the block call it, and wait for each other before they ask for buckets.
  __device__ void prepare(Shared& shared) const {
    for (uint32_t index = threadIdx.x; index < splitter_count; index += blockDim.x) {
      shared.splitters[index] = order.word(splitters[index]);
    }
  }

  __device__ uint32_t count() const { return splitter_count + 1; }

  __device__ uint32_t bucket(const Shared& shared, WORD key) const {
    const WORD word = order.word(key);
    uint32_t low = 0;
    uint32_t high = splitter_count;
    while (low < high) {
      const uint32_t middle = (low + high) / 2;
      if (shared.splitters[middle] <= word) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

/// Adds to counts[b] how many keys are of bucket b.
template <class BUCKETS>
struct Count {
  using Policy = PartitionPolicy;
  BUCKETS buckets;
  uint64_t key_count;
  uint64_t* counts;

  __device__ void run() const {
    __shared__ typename BUCKETS::Shared shared;
    __shared__ uint32_t block_counts[BUCKETS::COUNT_MAX];
    buckets.prepare(shared);
    for (uint32_t bucket = threadIdx.x; bucket < buckets.count(); bucket += Policy::THREADS) block_counts[bucket] = 0;
    __syncthreads();
    // At most 2^31 keys at a time, so that a count of 32 bits is enough also where all are of one block and bucket.
    for (uint64_t begin = 0; begin < key_count; begin += uint64_t{1} << 31) {
      const uint64_t rest = key_count - begin;
      const uint64_t here = rest < uint64_t{1} << 31 ? rest : uint64_t{1} << 31;
      for_each_in_flight<Policy::ITEMS>(
          here, [&](uint64_t index) { return buckets.keys[begin + index]; },
          [&](uint64_t, auto key) { atomicAdd(&block_counts[buckets.bucket(shared, key)], 1u); });
      __syncthreads();
      for (uint32_t bucket = threadIdx.x; bucket < buckets.count(); bucket += Policy::THREADS) {
        const uint32_t found = block_counts[bucket];
        if (found != 0) atomicAdd(reinterpret_cast<unsigned long long*>(&counts[bucket]), found);
        block_counts[bucket] = 0;
      }
      __syncthreads();
    }
  }
};

/// Writes to counts[b * shares + s] how many keys of share s are of bucket b.
template <class WORD>
struct CountShares {
  using Policy = PartitionPolicy;
  SplitterBuckets<WORD> buckets;
  uint64_t key_count;
  /// Keys of a share; below 2^32.
  uint64_t share_keys;
  uint64_t* counts;

  __device__ void run() const {
    __shared__ typename SplitterBuckets<WORD>::Shared shared;
    __shared__ uint32_t block_counts[BUCKETS_MAX];
    buckets.prepare(shared);
    for (uint32_t bucket = threadIdx.x; bucket < buckets.count(); bucket += Policy::THREADS) block_counts[bucket] = 0;
    __syncthreads();
    const uint64_t begin = blockIdx.x * share_keys;
    const uint64_t end = begin + share_keys < key_count ? begin + share_keys : key_count;
    for (uint64_t index = begin + threadIdx.x; index < end; index += Policy::THREADS) {
      atomicAdd(&block_counts[buckets.bucket(shared, buckets.keys[index])], 1u);
    }
    __syncthreads();
    for (uint32_t bucket = threadIdx.x; bucket < buckets.count(); bucket += Policy::THREADS) {
      counts[uint64_t{bucket} * gridDim.x + blockIdx.x] = block_counts[bucket];
    }
  }
};

/// Places keys and values, from where counts[b * shares + s] says that share s begins in bucket b.
template <class WORD, class VALUE>
struct PlaceShares {
  using Policy = PartitionPolicy;
  static constexpr int ITEMS = Policy::ITEMS;
  static constexpr bool HAS_VALUES = !std::is_same_v<VALUE, void>;
  using Value = std::conditional_t<HAS_VALUES, VALUE, uint32_t>;
  SplitterBuckets<WORD> buckets;
  uint64_t key_count;
  uint64_t share_keys;
  const uint64_t* counts;
  WORD* target;
  const Value* values;
  Value* target_values;

  __device__ void run() const {
    __shared__ typename SplitterBuckets<WORD>::Shared shared;
    // Where the next key of each bucket goes; and before it, how many of the tile are of each warp, then before it.
    __shared__ uint64_t next[BUCKETS_MAX];
    __shared__ uint16_t of_warp[PARTITION_WARPS][BUCKETS_MAX];
    const uint32_t bucket_count = buckets.count();
    buckets.prepare(shared);
    for (uint32_t bucket = threadIdx.x; bucket < bucket_count; bucket += Policy::THREADS) {
      next[bucket] = counts[uint64_t{bucket} * gridDim.x + blockIdx.x];
      for (uint32_t warp = 0; warp < PARTITION_WARPS; ++warp) of_warp[warp][bucket] = 0;
    }
    __syncthreads();
    const uint64_t begin = blockIdx.x * share_keys;
    const uint64_t end = begin + share_keys < key_count ? begin + share_keys : key_count;
    for (uint64_t tile = begin; tile < end; tile += PARTITION_TILE) {
      place_tile(shared, next, of_warp, tile, end);
    }
  }

  template <class SHARED>
  __device__ void place_tile(
      const SHARED& shared, uint64_t* next, uint16_t (*of_warp)[BUCKETS_MAX], uint64_t tile, uint64_t end) const {
    constexpr uint32_t NONE = 0xFFFFFFFFu;
    const uint32_t warp = threadIdx.x / 32;
    const uint32_t lane = threadIdx.x % 32;
    const uint64_t first = tile + warp * (32 * ITEMS) + lane;
    WORD keys[ITEMS];
    uint32_t places[ITEMS];
    uint32_t ranks[ITEMS];
#pragma unroll
    for (int item = 0; item < ITEMS; ++item) {
      const uint64_t index = first + item * 32;
      keys[item] = index < end ? buckets.keys[index] : WORD(0);
    }
#pragma unroll
    for (int item = 0; item < ITEMS; ++item) {
      const bool is_key = first + item * 32 < end;
      const uint32_t bucket = is_key ? buckets.bucket(shared, keys[item]) : NONE;
      const uint32_t peers = __match_any_sync(0xFFFFFFFFu, bucket);
      const uint32_t before = __popc(peers & ((1u << lane) - 1));
      places[item] = bucket;
      ranks[item] = is_key ? of_warp[warp][bucket] + before : 0;
      __syncwarp();
      if (is_key && before == 0) of_warp[warp][bucket] += static_cast<uint16_t>(__popc(peers));
      __syncwarp();
    }
    __syncthreads();
    // Counts of warps become what is before each warp; the total is kept until all have read where buckets begin.
    uint32_t totals[(BUCKETS_MAX + Policy::THREADS - 1) / Policy::THREADS];
#pragma unroll
    for (uint32_t round = 0; round < sizeof(totals) / sizeof(totals[0]); ++round) {
      const uint32_t bucket = round * Policy::THREADS + threadIdx.x;
      uint32_t sum = 0;
      if (bucket < buckets.count()) {
        for (uint32_t of = 0; of < PARTITION_WARPS; ++of) {
          const uint32_t here = of_warp[of][bucket];
          of_warp[of][bucket] = static_cast<uint16_t>(sum);
          sum += here;
        }
      }
      totals[round] = sum;
    }
    __syncthreads();
#pragma unroll
    for (int item = 0; item < ITEMS; ++item) {
      const uint64_t index = first + item * 32;
      if (index < end) {
        const uint64_t place = next[places[item]] + of_warp[warp][places[item]] + ranks[item];
        target[place] = keys[item];
        if (HAS_VALUES) target_values[place] = values[index];
      }
    }
    __syncthreads();
#pragma unroll
    for (uint32_t round = 0; round < sizeof(totals) / sizeof(totals[0]); ++round) {
      const uint32_t bucket = round * Policy::THREADS + threadIdx.x;
      if (bucket < buckets.count()) {
        next[bucket] += totals[round];
        for (uint32_t of = 0; of < PARTITION_WARPS; ++of) of_warp[of][bucket] = 0;
      }
    }
    __syncthreads();
  }
};

}  // namespace pelton
