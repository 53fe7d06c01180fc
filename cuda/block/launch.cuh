/// From a body to a kernel, and from an argument struct to a launch.
///
/// A body is a trivially copyable struct that says what the grid does: its `Policy` is a type with constants, its
/// `run` is called by every thread. The kernel around it is always the same.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "pelton/abi/base.h"

namespace pelton {

template <class BODY>
__global__ void __launch_bounds__(BODY::Policy::THREADS) body_kernel(const BODY body) {
  body.run();
}

/// Blocks for `work_items` items, ITEMS a thread: as many as needed, at most the policy's share of the device.
template <class POLICY>
uint32_t grid_blocks(uint64_t work_items, uint32_t multiprocessors) {
  constexpr uint64_t block_items = uint64_t{POLICY::THREADS} * POLICY::ITEMS;
  const uint64_t needed = work_items / block_items + (work_items % block_items != 0);
  const uint64_t most = uint64_t{multiprocessors} * POLICY::BLOCKS_PER_MULTIPROCESSOR;
  const uint64_t blocks = needed < most ? needed : most;
  return static_cast<uint32_t>(blocks > 0 ? blocks : 1);
}

/// Launches `blocks` blocks of `body`. The code is the launch's own: errors of earlier work are left to their owner.
template <class BODY>
int launch(const BODY& body, uint32_t blocks, void* stream) {
  static_assert(std::is_trivially_copyable_v<BODY>, "a body is copied to the device as it is");
  BODY copy = body;
  void* parameters[] = {&copy};
  const dim3 grid(blocks);
  const dim3 block(BODY::Policy::THREADS);
  const auto kernel = reinterpret_cast<const void*>(&body_kernel<BODY>);
  return cudaLaunchKernel(kernel, grid, block, parameters, 0, static_cast<cudaStream_t>(stream));
}

/// True if `where` tells of a device and a policy that exist.
inline bool is_valid(const k_launch& where) { return where.multiprocessors > 0 && where.policy < K_POLICY_COUNT; }

}  // namespace pelton
