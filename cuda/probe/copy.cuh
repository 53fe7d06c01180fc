/// Copying by loads and stores: to and from whatever memory the device reaches, where no copy engine is wanted.
#pragma once

#include <cstdint>

#include "block/grid.cuh"
#include "pelton/abi/probe.h"

namespace pelton {

/// Copies in units of UNIT, to which source and target are equally misaligned.
///
/// ```text
///   │ head, < one unit │ body: whole units, aligned │ tail, < one unit │
/// ```
///
/// Access: the body by loads and stores of UNIT, ITEMS of a thread in flight; head and tail by the first threads of
/// the grid, a byte each. Traffic: each byte read once and written once.
template <class POLICY, class UNIT>
struct Copy {
  using Policy = POLICY;
  static constexpr uint64_t UNIT_BYTES = sizeof(UNIT);
  k_copy_args args;

  __device__ void run() const {
    const uint64_t misaligned = reinterpret_cast<uintptr_t>(args.source) % UNIT_BYTES;
    const uint64_t to_boundary = (UNIT_BYTES - misaligned) % UNIT_BYTES;
    const uint64_t head = to_boundary < args.bytes ? to_boundary : args.bytes;
    const uint64_t units = (args.bytes - head) / UNIT_BYTES;
    copy_bytes(0, head);
    copy_units(head, units);
    copy_bytes(head + units * UNIT_BYTES, args.bytes);
  }

  __device__ void copy_bytes(uint64_t begin, uint64_t end) const {
    for (uint64_t byte = begin + grid_thread(); byte < end; byte += grid_threads()) {
      args.target[byte] = args.source[byte];
    }
  }

  __device__ void copy_units(uint64_t begin, uint64_t count) const {
    const auto* source = reinterpret_cast<const UNIT*>(args.source + begin);
    auto* target = reinterpret_cast<UNIT*>(args.target + begin);
    for_each_in_flight<POLICY::ITEMS>(
        count, [=](uint64_t index) { return source[index]; },
        [=](uint64_t index, UNIT unit) { target[index] = unit; });
  }
};

/// True if both addresses are equally far from a multiple of `unit_bytes`.
inline bool is_equally_aligned(const void* a, const void* b, uintptr_t unit_bytes) {
  return reinterpret_cast<uintptr_t>(a) % unit_bytes == reinterpret_cast<uintptr_t>(b) % unit_bytes;
}

}  // namespace pelton
