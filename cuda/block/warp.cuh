/// Sums over the lanes of a warp. All 32 lanes call, together.
#pragma once

#include <cstdint>

namespace pelton {

/// The sum of the values of this lane and of those before it.
template <class WORD>
__device__ inline WORD inclusive_over_warp(WORD value) {
  const uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (uint32_t distance = 1; distance < 32; distance *= 2) {
    const WORD before = __shfl_up_sync(~0u, value, distance);
    if (lane >= distance) value += before;
  }
  return value;
}

/// The sum of the values of all threads of the block before this one. `warp_sums` has a place for each warp. All threads
/// of the block call it, and again only after a barrier.
template <int THREADS>
__device__ inline uint32_t exclusive_over_block(uint32_t value, uint32_t* warp_sums) {
  const uint32_t inclusive = inclusive_over_warp(value);
  if (threadIdx.x % 32 == 31) warp_sums[threadIdx.x / 32] = inclusive;
  __syncthreads();
  uint32_t before = 0;
#pragma unroll
  for (uint32_t warp = 0; warp < THREADS / 32; ++warp) {
    if (warp < threadIdx.x / 32) before += warp_sums[warp];
  }
  return before + inclusive - value;
}

}  // namespace pelton
