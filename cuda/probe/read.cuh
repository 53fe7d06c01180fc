/// Reading memory: all of it in order, some of it at random, one thread along a chain.
///
/// Each body adds what it read to an accumulator, so that no load can be left out.
#pragma once

#include <cstdint>

#include "block/grid.cuh"
#include "block/reduce.cuh"
#include "pelton/abi/probe.h"
#include "pelton/common/fingerprint.h"
#include "pelton/common/mix.h"
#include "probe/words.cuh"

namespace pelton {

/// The sum of all words. Shared memory: 8 bytes a warp. Traffic: each byte once, and one atomic a block.
template <class POLICY, bool IS_ALIGNED>
struct Read {
  using Policy = POLICY;
  k_read_args args;

  __device__ void run() const {
    uint64_t sum = 0;
    for_each_word<POLICY::ITEMS, IS_ALIGNED>(args.source, args.bytes,
                                             [&](uint64_t, uint64_t word, uint32_t) { sum += word; });
    add_block_sum<POLICY::THREADS>(sum, args.accumulator);
  }
};

/// The fingerprint of all words. Shared memory: 16 bytes a warp. Traffic: each byte once, and two atomics a block.
template <class POLICY, bool IS_ALIGNED>
struct FingerprintOf {
  using Policy = POLICY;
  k_fingerprint_args args;

  __device__ void run() const {
    uint64_t sum = 0;
    uint64_t exclusive_or = 0;
    for_each_word<POLICY::ITEMS, IS_ALIGNED>(
        args.source, args.bytes, [&](uint64_t index, uint64_t word, uint32_t byte_count) {
          const uint64_t term = fingerprint_term(args.first_word + index, word, byte_count);
          sum += term;
          exclusive_or ^= term;
        });
    add_block_sum<POLICY::THREADS>(sum, args.accumulator);
    add_block_exclusive_or<POLICY::THREADS>(exclusive_or, args.accumulator + 1);
  }
};

/// The sum of elements at random indexes. Traffic: one sector of 32 bytes an element, at random.
template <class POLICY, class ELEMENT>
struct Gather {
  using Policy = POLICY;
  k_gather_args args;

  __device__ void run() const {
    const auto* elements = reinterpret_cast<const ELEMENT*>(args.source);
    const uint64_t mask = args.mask;
    const uint64_t seed = args.seed;
    uint64_t sum = 0;
    for_each_in_flight<POLICY::ITEMS>(
        args.count, [=](uint64_t index) { return elements[random_word(seed, index) & mask]; },
        [&](uint64_t, ELEMENT element) { sum += element; });
    add_block_sum<POLICY::THREADS>(sum, args.accumulator);
  }
};

/// The slot at the end of a chain of dependent loads: one thread, one load in flight, whatever the policy.
template <class POLICY>
struct Chase {
  using Policy = POLICY;
  k_chase_args args;

  __device__ void run() const {
    if (grid_thread() != 0) return;
    const uint64_t mask = args.slot_count - 1;
    uint64_t slot = args.first_slot & mask;
    for (uint64_t step = 0; step < args.step_count; ++step) {
      slot = *reinterpret_cast<const uint32_t*>(args.source + slot * args.stride_bytes) & mask;
    }
    atomicAdd(reinterpret_cast<unsigned long long*>(args.accumulator), slot);
  }
};

}  // namespace pelton
