/// Merging two sorted runs along their merge path.
///
/// A block takes a contiguous share of the target, tile by tile: a warp finds where the path crosses the end of the
/// tile, the block brings the keys of the tile to shared memory as ordered words, each thread merges ITEMS of them,
/// and the block stores them. Values are fetched where the keys came from.
///
/// Source: O. Green, R. McColl, D. Bader, "GPU Merge Path: A GPU Merging Algorithm", 2012. Tile sizes are a guess that
/// fits 48 KiB of shared memory; an odd number of items keeps threads on different banks.
#pragma once

#include <cstdint>

#include "block/launch.cuh"
#include "pelton/abi/sort.h"
#include "pelton/common/order.h"

namespace pelton {

template <class WORD>
struct MergePolicy {
  static constexpr int THREADS = 256;
  static constexpr int BLOCKS_PER_MULTIPROCESSOR = 8;
  static constexpr int ITEMS = sizeof(WORD) == 16 ? 7 : 15;
  static constexpr int TILE = THREADS * ITEMS;
};

/// How many of the first `diagonal` elements of the merged whole are of run A: between `low` and `high`.
///
/// The lanes of a warp call this together, with the same arguments. `a` and `b` give the word at a place.
template <class A, class B>
__device__ uint64_t merge_path(uint64_t diagonal, uint64_t low, uint64_t high, A a, B b) {
  constexpr uint64_t LANES = 32;
  const uint64_t lane = threadIdx.x % LANES;
  while (low < high) {
    // One probe a lane, in ascending order; a prefix of them is on the path's side of A.
    const uint64_t span = high - low;
    const auto probe = [=](uint64_t of_lane) { return low + span * (of_lane + 1) / (LANES + 1); };
    const uint64_t mine = probe(lane);
    const bool is_taken = a(mine) <= b(diagonal - 1 - mine);
    const uint64_t taken = __popc(__ballot_sync(0xFFFFFFFFu, is_taken));
    if (taken < LANES) high = probe(taken);
    if (taken > 0) low = probe(taken - 1) + 1;
  }
  return low;
}

/// VALUE is void if there are none.
template <class WORD, class VALUE>
struct Merge {
  using Policy = MergePolicy<WORD>;
  static constexpr int ITEMS = Policy::ITEMS;
  static constexpr int TILE = Policy::TILE;
  static constexpr bool HAS_VALUES = !std::is_same_v<VALUE, void>;
  using Value = std::conditional_t<HAS_VALUES, VALUE, uint32_t>;

  k_merge_args args;
  KeyOrder<WORD> order;
  /// Tiles of a block.
  uint64_t share;

  __device__ WORD word(int run, uint64_t index) const {
    return order.word(reinterpret_cast<const WORD*>(args.keys[run])[index]);
  }

  __device__ void run() const {
    const uint64_t count = args.counts[0] + args.counts[1];
    uint64_t begin = blockIdx.x * share * TILE;
    if (begin >= count) return;
    const uint64_t rest = count - begin;
    const uint64_t end = begin + (share * TILE < rest ? share * TILE : rest);
    uint64_t first = crossing(begin, 0, args.counts[0]);
    while (begin < end) {
      const uint32_t tile = end - begin < TILE ? static_cast<uint32_t>(end - begin) : TILE;
      const uint64_t next = crossing(begin + tile, first, first + tile);
      merge_tile(begin, tile, first, static_cast<uint32_t>(next - first));
      begin += tile;
      first = next;
    }
  }

  /// Where the path crosses a diagonal; known to be between `low` and `high`. All threads of the block get it.
  __device__ uint64_t crossing(uint64_t diagonal, uint64_t low, uint64_t high) const {
    __shared__ uint64_t result;
    if (threadIdx.x < 32) {
      const uint64_t least = diagonal > args.counts[1] ? diagonal - args.counts[1] : 0;
      const uint64_t most = diagonal < args.counts[0] ? diagonal : args.counts[0];
      low = low > least ? low : least;
      high = high < most ? high : most;
      const auto a = [this](uint64_t index) { return word(0, index); };
      const auto b = [this](uint64_t index) { return word(1, index); };
      const uint64_t found = merge_path(diagonal, low, high, a, b);
      if (threadIdx.x == 0) result = found;
    }
    __syncthreads();
    const uint64_t found = result;
    __syncthreads();
    return found;
  }

  /// Merges `tile` elements to `target`: the first `a_count` that are left of run A from `a_begin`, the rest of run B.
  __device__ void merge_tile(uint64_t target, uint32_t tile, uint64_t a_begin, uint32_t a_count) const {
    __shared__ WORD words[TILE];
    __shared__ uint16_t places[HAS_VALUES ? TILE : 1];
    const uint64_t b_begin = target - a_begin;
    for (uint32_t index = threadIdx.x; index < tile; index += Policy::THREADS) {
      words[index] = index < a_count ? word(0, a_begin + index) : word(1, b_begin + (index - a_count));
    }
    __syncthreads();
    WORD merged[ITEMS];
    uint16_t from[ITEMS];
    const uint32_t mine = threadIdx.x * ITEMS < tile ? threadIdx.x * ITEMS : tile;
    uint32_t a = crossing_in_tile(words, mine, a_count, tile);
    uint32_t b = a_count + (mine - a);
#pragma unroll
    for (int item = 0; item < ITEMS; ++item) {
      if (mine + item < tile) {
        const bool is_a = b >= tile || (a < a_count && words[a] <= words[b]);
        const uint32_t place = is_a ? a++ : b++;
        merged[item] = words[place];
        from[item] = static_cast<uint16_t>(place);
      }
    }
    __syncthreads();
#pragma unroll
    for (int item = 0; item < ITEMS; ++item) {
      if (mine + item < tile) {
        words[mine + item] = merged[item];
        if (HAS_VALUES) places[mine + item] = from[item];
      }
    }
    __syncthreads();
    for (uint32_t index = threadIdx.x; index < tile; index += Policy::THREADS) {
      reinterpret_cast<WORD*>(args.target)[target + index] = order.key(words[index]);
      if (HAS_VALUES) {
        const uint32_t place = places[index];
        const auto* a_values = reinterpret_cast<const Value*>(args.values[0]) + a_begin;
        const auto* b_values = reinterpret_cast<const Value*>(args.values[1]) + b_begin;
        reinterpret_cast<Value*>(args.target_values)[target + index] =
            place < a_count ? a_values[place] : b_values[place - a_count];
      }
    }
    __syncthreads();
  }

  /// How many of the first `diagonal` elements of the merged tile are of its part of run A.
  __device__ static uint32_t crossing_in_tile(const WORD* words, uint32_t diagonal, uint32_t a_count, uint32_t tile) {
    const uint32_t b_count = tile - a_count;
    uint32_t low = diagonal > b_count ? diagonal - b_count : 0;
    uint32_t high = diagonal < a_count ? diagonal : a_count;
    while (low < high) {
      const uint32_t middle = (low + high) / 2;
      if (words[middle] <= words[a_count + diagonal - 1 - middle]) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

template <class WORD, class VALUE>
int launch_merge(const k_merge_args& args, void* stream) {
  using Body = Merge<WORD, VALUE>;
  const uint64_t count = args.counts[0] + args.counts[1];
  const uint64_t tiles = (count + Body::TILE - 1) / Body::TILE;
  const uint64_t most = uint64_t{args.launch.multiprocessors} * Body::Policy::BLOCKS_PER_MULTIPROCESSOR;
  const uint64_t share = (tiles + most - 1) / most;
  const uint64_t blocks = (tiles + share - 1) / share;
  return launch(Body{args, key_order<WORD>(args.order), share}, static_cast<uint32_t>(blocks), stream);
}

template <class WORD>
int launch_merge_with_values(const k_merge_args& args, void* stream) {
  switch (args.value_bytes) {
    case 0:
      return launch_merge<WORD, void>(args, stream);
    case 4:
      return launch_merge<WORD, uint32_t>(args, stream);
    case 8:
      return launch_merge<WORD, uint64_t>(args, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace pelton
