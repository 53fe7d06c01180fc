/// How probes are mapped to the machine. Never changes a result.
///
/// Source of DEFAULT: 16 blocks of 512 threads a multiprocessor read 4535 GB/s of an H200's memory and 51 GB/s of
/// pinned host memory with one 16-byte load in flight a thread (CUDA 13.0, 4 GiB, November 2026). ITEMS is a guess:
/// it brings the bytes in flight without which fewer resident threads would not reach that.
#pragma once

#include "pelton/abi/base.h"

namespace pelton {

struct DefaultPolicy {
  static constexpr int THREADS = 512;
  static constexpr int BLOCKS_PER_MULTIPROCESSOR = 16;
  static constexpr int ITEMS = 4;
};

struct DeepPolicy {
  static constexpr int THREADS = 256;
  static constexpr int BLOCKS_PER_MULTIPROCESSOR = 8;
  static constexpr int ITEMS = 8;
};

struct NarrowPolicy {
  static constexpr int THREADS = 64;
  static constexpr int BLOCKS_PER_MULTIPROCESSOR = 1;
  static constexpr int ITEMS = 1;
};

/// Calls `launch_with` with the policy that `policy` names; the caller has seen that there is one.
template <class LAUNCH>
int with_policy(uint32_t policy, LAUNCH launch_with) {
  switch (policy) {
    case K_POLICY_DEEP:
      return launch_with(DeepPolicy{});
    case K_POLICY_NARROW:
      return launch_with(NarrowPolicy{});
    default:
      return launch_with(DefaultPolicy{});
  }
}

}  // namespace pelton
