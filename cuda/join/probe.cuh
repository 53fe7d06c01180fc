/// Building and probing tables in device memory, and writing matches.
///
/// Access: rows in order, coalesced, ITEMS of a thread in flight; the table at random. A probe row's value is loaded only
/// if the row matches. Traffic of unique keys: a sector of the table for each probe row, and 1.25 where slots are of 16
/// bytes and half of them taken.
#pragma once

#include <cstdint>

#include "block/grid.cuh"
#include "block/launch.cuh"
#include "block/reduce.cuh"
#include "block/warp.cuh"
#include "join/table.cuh"
#include "pelton/abi/join.h"

namespace pelton {

/// Random accesses need threads more than anything: as many as a multiprocessor holds. ITEMS is a guess.
struct JoinPolicy {
  static constexpr int THREADS = 256;
  static constexpr int BLOCKS_PER_MULTIPROCESSOR = 8;
  static constexpr int ITEMS = 4;
};

template <class TABLE>
struct JoinBuild {
  using Policy = JoinPolicy;
  using Word = typename TABLE::Word;
  TABLE table;
  const Word* keys;
  const Word* values;
  uint64_t count;
  uint64_t first_row;
  uint64_t* state;

  __device__ void run() const {
    uint64_t known = 0;
    uint64_t outside = 0;
    struct Row {
      Word key;
      Word value;
    };
    for_each_in_flight<Policy::ITEMS>(
        count, [&](uint64_t index) { return Row{keys[index], values[index]}; },
        [&](uint64_t index, Row row) { table.insert(row.key, row.value, first_row + index, known, outside); });
    add_block_sum<Policy::THREADS>(known, &state[0]);
    __syncthreads();
    add_block_sum<Policy::THREADS>(outside, &state[1]);
  }
};

/// Rows to look up and where matches go.
template <class WORD>
struct Lookup {
  const WORD* keys;
  const WORD* values;
  k_join_output output;

  /// Writes the pairs of rows `begin` to `end`, at most 32 * ITEMS, of this warp: one atomic operation for all of them.
  template <int ITEMS, class TABLE>
  __device__ void write_pairs(const TABLE& table, bool has_chains, uint64_t begin, uint64_t end) const {
    const uint32_t lane = threadIdx.x % 32;
    WORD found_keys[ITEMS];
    typename TABLE::First firsts[ITEMS];
    uint64_t before[ITEMS];
    bool is_match[ITEMS];
#pragma unroll
    for (int item = 0; item < ITEMS; ++item) {
      const uint64_t index = begin + item * 32 + lane;
      found_keys[item] = index < end ? keys[index] : WORD(0);
    }
#pragma unroll
    for (int item = 0; item < ITEMS; ++item) {
      if (begin + item * 32 + lane < end) firsts[item] = table.first(found_keys[item]);
    }
    uint64_t total = 0;
#pragma unroll
    for (int item = 0; item < ITEMS; ++item) {
      uint64_t matches = 0;
      if (begin + item * 32 + lane < end) {
        table.for_each(found_keys[item], firsts[item], has_chains, [&](WORD) { ++matches; });
      }
      const uint64_t inclusive = inclusive_over_warp(matches);
      before[item] = total + inclusive - matches;
      is_match[item] = matches != 0;
      total += __shfl_sync(~0u, inclusive, 31);
    }
    if (total == 0) return;
    uint64_t base = 0;
    if (lane == 0) {
      base = atomicAdd(reinterpret_cast<unsigned long long*>(output.result), static_cast<unsigned long long>(total));
    }
    base = __shfl_sync(~0u, base, 0) - output.window_begin;
    auto* build_values = reinterpret_cast<WORD*>(output.build_values);
    auto* probe_values = reinterpret_cast<WORD*>(output.probe_values);
#pragma unroll
    for (int item = 0; item < ITEMS; ++item) {
      if (!is_match[item]) continue;
      const WORD probe_value = values[begin + item * 32 + lane];
      uint64_t at = base + before[item];
      table.for_each(found_keys[item], firsts[item], has_chains, [&](WORD build_value) {
        // Before the window it is far beyond the capacity.
        if (at < output.capacity) {
          build_values[at] = build_value;
          probe_values[at] = probe_value;
        }
        ++at;
      });
    }
  }

  /// Adds the matches of one row.
  template <class TABLE>
  __device__ void sum(const TABLE& table, bool has_chains, uint64_t index, WORD key,
                      const typename TABLE::First& first, uint64_t& matches, uint64_t& products) const {
    uint64_t here = 0;
    uint64_t build_sum = 0;
    table.for_each(key, first, has_chains, [&](WORD build_value) {
      ++here;
      build_sum += build_value;
    });
    if (here == 0) return;
    matches += here;
    products += build_sum * uint64_t{values[index]};
  }
};

template <class TABLE>
struct JoinSum {
  using Policy = JoinPolicy;
  using Word = typename TABLE::Word;
  TABLE table;
  Lookup<Word> lookup;
  uint64_t count;

  __device__ void run() const {
    const bool has_chains = table.has_chains();
    uint64_t matches = 0;
    uint64_t products = 0;
    struct Row {
      Word key;
      typename TABLE::First first;
    };
    for_each_in_flight<Policy::ITEMS>(
        count,
        [&](uint64_t index) {
          const Word key = lookup.keys[index];
          return Row{key, table.first(key)};
        },
        [&](uint64_t index, const Row& row) {
          lookup.sum(table, has_chains, index, row.key, row.first, matches, products);
        });
    add_block_sum<Policy::THREADS>(matches, &lookup.output.result[0]);
    __syncthreads();
    add_block_sum<Policy::THREADS>(products, &lookup.output.result[1]);
  }
};

template <class TABLE>
struct JoinPairs {
  using Policy = JoinPolicy;
  using Word = typename TABLE::Word;
  TABLE table;
  Lookup<Word> lookup;
  uint64_t count;

  __device__ void run() const {
    constexpr uint64_t TILE = 32 * Policy::ITEMS;
    const bool has_chains = table.has_chains();
    const uint64_t step = grid_threads() / 32 * TILE;
    for (uint64_t begin = grid_thread() / 32 * TILE; begin < count; begin += step) {
      const uint64_t end = begin + TILE < count ? begin + TILE : count;
      lookup.template write_pairs<Policy::ITEMS>(table, has_chains, begin, end);
    }
  }
};

}  // namespace pelton
