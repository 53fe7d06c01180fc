/// Elements and bits at the places that an index names.
///
/// Access: indices and targets in order, coalesced; the source at random, ITEMS accesses of a thread in flight.
#pragma once

#include <cstdint>

#include "block/grid.cuh"
#include "pelton/abi/sort.h"

namespace pelton {

template <class POLICY, class ELEMENT, class INDEX>
struct Take {
  using Policy = POLICY;
  k_take_args args;

  __device__ void run() const {
    const auto* source = reinterpret_cast<const ELEMENT*>(args.source);
    const auto* indices = reinterpret_cast<const INDEX*>(args.indices);
    auto* target = reinterpret_cast<ELEMENT*>(args.target);
    const uint64_t limit = args.source_count;
    for_each_in_flight<POLICY::ITEMS>(
        args.count,
        [=](uint64_t place) {
          const INDEX index = indices[place];
          return index < limit ? source[index] : ELEMENT{};
        },
        [=](uint64_t place, ELEMENT element) { target[place] = element; });
  }
};

/// A warp makes 4 bytes of 32 bits.
template <class POLICY, class INDEX>
struct TakeBits {
  using Policy = POLICY;
  k_take_bits_args args;

  __device__ void run() const {
    const auto* indices = reinterpret_cast<const INDEX*>(args.indices);
    const uint32_t lane = threadIdx.x % 32;
    const uint64_t target_bytes = (args.count + 7) / 8;
    // All lanes of a warp go round equally often.
    for (uint64_t begin = grid_thread() - lane; begin < args.count; begin += grid_threads()) {
      const uint64_t place = begin + lane;
      const uint64_t index = place < args.count ? uint64_t{indices[place]} : args.source_count;
      const bool is_set = index < args.source_count && (args.source[index / 8] >> (index % 8) & 1) != 0;
      const uint32_t bits = __ballot_sync(0xFFFFFFFFu, is_set);
      if (lane < 4 && begin / 8 + lane < target_bytes) {
        args.target[begin / 8 + lane] = static_cast<uint8_t>(bits >> (8 * lane));
      }
    }
  }
};

}  // namespace pelton
