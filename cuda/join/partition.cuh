/// Radix partitions by bits of hashes, segment by segment, and the join of pairs of segments in shared memory.
///
/// ```text
///   segments   │   0   │      1      │ 2 │        offsets; of the first pass one
///   units      │ t │ t │ t │ t │ t │ t │ t │      tiles of segments; a block has consecutive ones
///
///   count      a block's counts in shared memory ──► counts of digits of segments ──► exclusive sums: where each begins
///   scatter    tile ──► in shared memory by digit ──► runs of each digit side by side: writes are combined
/// ```
///
/// Blocks take places in a digit by one atomic operation a tile, so rows of a digit are in any order. Traffic of a pass:
/// keys read twice, values once, both written once. A tile of 4096 rows and 256 digits writes runs of 16 rows.
#pragma once

#include <cstdint>

#include "block/grid.cuh"
#include "block/launch.cuh"
#include "block/reduce.cuh"
#include "block/warp.cuh"
#include "join/probe.cuh"
#include "pelton/abi/join.h"
#include "pelton/common/join.h"

namespace pelton {

/// One block takes all counts of a pass, one thread each. Four blocks of 47 KB fit the shared memory of a multiprocessor.
struct RadixPolicy {
  static constexpr int THREADS = 512;
  static constexpr int BLOCKS_PER_MULTIPROCESSOR = 4;
  static constexpr int ITEMS = 8;
};

constexpr uint32_t JOIN_DIGITS_MAX = 1u << K_JOIN_BITS_MAX;
static_assert(JOIN_DIGITS_MAX <= RadixPolicy::THREADS, "a thread for each digit");
static_assert(K_JOIN_TILE_ROWS == RadixPolicy::THREADS * RadixPolicy::ITEMS, "a tile is what a block takes");

/// The units of this block, one after the other, and their segments.
struct UnitShare {
  const uint64_t* units;
  uint64_t unit;
  uint64_t end;
  uint64_t segment;

  __device__ UnitShare(const uint64_t* units, uint64_t segment_count) : units(units), segment(0) {
    const uint64_t total = units[segment_count];
    const uint64_t share = total / gridDim.x;
    const uint64_t rest = total % gridDim.x;
    unit = share * blockIdx.x + (blockIdx.x < rest ? blockIdx.x : rest);
    end = unit + share + (blockIdx.x < rest ? 1 : 0);
    // The last segment that begins at this unit or before it.
    uint64_t high = segment_count;
    while (segment < high) {
      const uint64_t middle = segment + (high - segment) / 2;
      if (units[middle + 1] <= unit) {
        segment = middle + 1;
      } else {
        high = middle;
      }
    }
  }

  __device__ bool is_some() const { return unit < end; }
  /// Of the unit in its segment.
  __device__ uint64_t number() const { return unit - units[segment]; }

  __device__ void advance() {
    ++unit;
    while (unit < end && units[segment + 1] <= unit) ++segment;
  }
};

struct CountUnits {
  using Policy = JoinPolicy;
  k_join_units_args args;

  __device__ static uint64_t pieces(const uint64_t* offsets, uint64_t segment, uint64_t rows) {
    return (offsets[segment + 1] - offsets[segment] + rows - 1) / rows;
  }

  __device__ void run() const {
    for (uint64_t segment = grid_thread(); segment <= args.segment_count; segment += grid_threads()) {
      uint64_t units = 0;
      if (segment < args.segment_count) {
        units = pieces(args.first_offsets, segment, args.first_rows);
        if (args.second_offsets != nullptr) units *= pieces(args.second_offsets, segment, args.second_rows);
      }
      args.units[segment] = units;
    }
  }
};

template <class WORD>
struct RadixTile {
  const WORD* keys;
  const uint64_t* offsets;
  uint32_t begin_bit;
  uint32_t digit_count;

  __device__ uint32_t digit(WORD key) const {
    return static_cast<uint32_t>(join_hash(key) >> begin_bit) & (digit_count - 1);
  }

  /// Where the tile begins, and how many rows it has.
  __device__ uint64_t begin(const UnitShare& share) const {
    return offsets[share.segment] + share.number() * K_JOIN_TILE_ROWS;
  }

  __device__ uint32_t rows(const UnitShare& share, uint64_t begin) const {
    const uint64_t rest = offsets[share.segment + 1] - begin;
    return rest < K_JOIN_TILE_ROWS ? static_cast<uint32_t>(rest) : K_JOIN_TILE_ROWS;
  }
};

template <class WORD>
struct RadixCount {
  using Policy = RadixPolicy;
  RadixTile<WORD> tile;
  const uint64_t* units;
  uint64_t segment_count;
  uint64_t* counts;

  __device__ void run() const {
    __shared__ uint32_t block_counts[JOIN_DIGITS_MAX];
    block_counts[threadIdx.x] = 0;
    __syncthreads();
    UnitShare share(units, segment_count);
    while (share.is_some()) {
      const uint64_t segment = share.segment;
      const uint64_t begin = tile.begin(share);
      const uint32_t rows = tile.rows(share, begin);
#pragma unroll
      for (int item = 0; item < Policy::ITEMS; ++item) {
        const uint32_t index = item * Policy::THREADS + threadIdx.x;
        if (index < rows) atomicAdd(&block_counts[tile.digit(tile.keys[begin + index])], 1u);
      }
      share.advance();
      if (share.is_some() && share.segment == segment) continue;
      __syncthreads();
      if (threadIdx.x < tile.digit_count && block_counts[threadIdx.x] != 0) {
        auto* count = reinterpret_cast<unsigned long long*>(&counts[segment * tile.digit_count + threadIdx.x]);
        atomicAdd(count, static_cast<unsigned long long>(block_counts[threadIdx.x]));
        block_counts[threadIdx.x] = 0;
      }
      __syncthreads();
    }
  }
};

template <class WORD>
struct RadixScatter {
  using Policy = RadixPolicy;
  static constexpr int ITEMS = Policy::ITEMS;
  RadixTile<WORD> tile;
  const uint64_t* units;
  uint64_t segment_count;
  uint64_t* cursors;
  const WORD* values;
  WORD* target;
  WORD* target_values;

  __device__ void run() const {
    __shared__ WORD staged[K_JOIN_TILE_ROWS];
    __shared__ uint16_t digits[K_JOIN_TILE_ROWS];
    // How many rows of the tile have each digit; then where they begin in it.
    __shared__ uint32_t starts[JOIN_DIGITS_MAX];
    // What is added to a place in the tile to get the place in the target.
    __shared__ uint64_t shifts[JOIN_DIGITS_MAX];
    __shared__ uint32_t warp_sums[Policy::THREADS / 32];
    for (UnitShare share(units, segment_count); share.is_some(); share.advance()) {
      const uint64_t begin = tile.begin(share);
      const uint32_t rows = tile.rows(share, begin);
      starts[threadIdx.x] = 0;
      __syncthreads();
      WORD keys[ITEMS];
      uint16_t row_digits[ITEMS];
      uint16_t places[ITEMS];
#pragma unroll
      for (int item = 0; item < ITEMS; ++item) {
        const uint32_t index = item * Policy::THREADS + threadIdx.x;
        keys[item] = index < rows ? tile.keys[begin + index] : WORD(0);
      }
#pragma unroll
      for (int item = 0; item < ITEMS; ++item) {
        const uint32_t digit = tile.digit(keys[item]);
        row_digits[item] = static_cast<uint16_t>(digit);
        places[item] = 0;
        if (item * Policy::THREADS + threadIdx.x < rows) {
          places[item] = static_cast<uint16_t>(atomicAdd(&starts[digit], 1u));
        }
      }
      __syncthreads();
      const uint32_t here = starts[threadIdx.x];
      const uint32_t start = exclusive_over_block<Policy::THREADS>(here, warp_sums);
      starts[threadIdx.x] = start;
      if (here != 0) {
        auto* cursor =
            reinterpret_cast<unsigned long long*>(&cursors[share.segment * tile.digit_count + threadIdx.x]);
        shifts[threadIdx.x] = uint64_t{atomicAdd(cursor, static_cast<unsigned long long>(here))} - start;
      }
      __syncthreads();
#pragma unroll
      for (int item = 0; item < ITEMS; ++item) {
        if (item * Policy::THREADS + threadIdx.x >= rows) continue;
        places[item] = static_cast<uint16_t>(places[item] + starts[row_digits[item]]);
        staged[places[item]] = keys[item];
        digits[places[item]] = row_digits[item];
      }
      __syncthreads();
      write(staged, digits, shifts, rows, target);
      __syncthreads();
#pragma unroll
      for (int item = 0; item < ITEMS; ++item) {
        const uint32_t index = item * Policy::THREADS + threadIdx.x;
        if (index < rows) staged[places[item]] = values[begin + index];
      }
      __syncthreads();
      write(staged, digits, shifts, rows, target_values);
      __syncthreads();
    }
  }

  __device__ static void write(const WORD* staged, const uint16_t* digits, const uint64_t* shifts, uint32_t rows,
                               WORD* target) {
#pragma unroll
    for (int item = 0; item < ITEMS; ++item) {
      const uint32_t place = item * Policy::THREADS + threadIdx.x;
      if (place < rows) target[shifts[digits[place]] + place] = staged[place];
    }
  }
};

/// A piece of a build partition in shared memory: chains of rows by hash.
template <class WORD>
struct SharedTable {
  using Word = WORD;
  static constexpr uint32_t HEADS = K_JOIN_BUILD_ROWS;
  static constexpr uint16_t NONE = 0xFFFF;
  struct Memory {
    WORD keys[K_JOIN_BUILD_ROWS];
    WORD values[K_JOIN_BUILD_ROWS];
    uint32_t heads[HEADS];
    uint16_t next[K_JOIN_BUILD_ROWS];
  };
  Memory& memory;

  struct First {
    uint32_t row;
  };

  __device__ static uint32_t head(WORD key) { return static_cast<uint32_t>(join_hash(key) >> 50) % HEADS; }

  __device__ First first(WORD key) const { return {memory.heads[head(key)]}; }

  template <class USE>
  __device__ void for_each(WORD key, const First& first, bool, USE use) const {
    for (uint32_t row = first.row; row != NONE; row = memory.next[row]) {
      if (memory.keys[row] == key) use(memory.values[row]);
    }
  }

  /// All threads of the block call it.
  template <int THREADS>
  __device__ void fill(const WORD* keys, const WORD* values, uint32_t rows) const {
    __syncthreads();
    for (uint32_t at = threadIdx.x; at < HEADS; at += THREADS) memory.heads[at] = NONE;
    __syncthreads();
    for (uint32_t row = threadIdx.x; row < rows; row += THREADS) {
      const WORD key = keys[row];
      memory.keys[row] = key;
      memory.values[row] = values[row];
      memory.next[row] = static_cast<uint16_t>(atomicExch(&memory.heads[head(key)], row));
    }
    __syncthreads();
  }
};

/// Five blocks of 44 KB fit the shared memory of a multiprocessor.
struct SharedJoinPolicy {
  static constexpr int THREADS = 256;
  static constexpr int BLOCKS_PER_MULTIPROCESSOR = 5;
  static constexpr int ITEMS = 4;
};

template <class WORD, bool IS_PAIRS>
struct SharedJoin {
  using Policy = SharedJoinPolicy;
  k_join_pairs_args args;

  __device__ void run() const {
    __shared__ typename SharedTable<WORD>::Memory memory;
    const SharedTable<WORD> table{memory};
    const Lookup<WORD> lookup{reinterpret_cast<const WORD*>(args.probe_keys),
                              reinterpret_cast<const WORD*>(args.probe_values), args.output};
    constexpr uint64_t NOTHING = ~uint64_t{0};
    uint64_t built_segment = NOTHING;
    uint64_t built_piece = NOTHING;
    uint64_t matches = 0;
    uint64_t products = 0;
    for (UnitShare share(args.units, args.segment_count); share.is_some(); share.advance()) {
      const uint64_t build_begin = args.build_offsets[share.segment];
      const uint64_t build_end = args.build_offsets[share.segment + 1];
      const uint64_t probe_begin = args.probe_offsets[share.segment];
      const uint64_t probe_end = args.probe_offsets[share.segment + 1];
      const uint64_t probe_pieces = (probe_end - probe_begin + K_JOIN_PROBE_ROWS - 1) / K_JOIN_PROBE_ROWS;
      const uint64_t piece = share.number() / probe_pieces;
      if (share.segment != built_segment || piece != built_piece) {
        const uint64_t begin = build_begin + piece * K_JOIN_BUILD_ROWS;
        const uint64_t rest = build_end - begin;
        table.template fill<Policy::THREADS>(
            reinterpret_cast<const WORD*>(args.build_keys) + begin,
            reinterpret_cast<const WORD*>(args.build_values) + begin,
            rest < K_JOIN_BUILD_ROWS ? static_cast<uint32_t>(rest) : K_JOIN_BUILD_ROWS);
        built_segment = share.segment;
        built_piece = piece;
      }
      const uint64_t begin = probe_begin + share.number() % probe_pieces * K_JOIN_PROBE_ROWS;
      const uint64_t end = begin + K_JOIN_PROBE_ROWS < probe_end ? begin + K_JOIN_PROBE_ROWS : probe_end;
      probe(table, lookup, begin, end, matches, products);
    }
    if (IS_PAIRS) return;
    __syncthreads();
    add_block_sum<Policy::THREADS>(matches, &args.output.result[0]);
    __syncthreads();
    add_block_sum<Policy::THREADS>(products, &args.output.result[1]);
  }

  __device__ static void probe(const SharedTable<WORD>& table, const Lookup<WORD>& lookup, uint64_t begin,
                               uint64_t end, uint64_t& matches, uint64_t& products) {
    constexpr int ITEMS = Policy::ITEMS;
    if (IS_PAIRS) {
      constexpr uint64_t TILE = 32 * ITEMS;
      for (uint64_t tile = begin + threadIdx.x / 32 * TILE; tile < end; tile += Policy::THREADS / 32 * TILE) {
        lookup.template write_pairs<ITEMS>(table, true, tile, tile + TILE < end ? tile + TILE : end);
      }
      return;
    }
    for (uint64_t index = begin + threadIdx.x; index < end; index += uint64_t{Policy::THREADS} * ITEMS) {
      WORD keys[ITEMS];
#pragma unroll
      for (int item = 0; item < ITEMS; ++item) {
        const uint64_t at = index + item * Policy::THREADS;
        keys[item] = at < end ? lookup.keys[at] : WORD(0);
      }
#pragma unroll
      for (int item = 0; item < ITEMS; ++item) {
        const uint64_t at = index + item * Policy::THREADS;
        if (at < end) lookup.sum(table, true, at, keys[item], table.first(keys[item]), matches, products);
      }
    }
  }
};

}  // namespace pelton
