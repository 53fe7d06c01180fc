/// Sums over the threads of a block.
#pragma once

#include <cstdint>

namespace pelton {

/// Combines one word of every thread of the block, and of nobody else.
///
/// All THREADS threads of a one-dimensional block call `all`, once per Scratch or with a barrier between; the result
/// is valid on thread 0. Shared memory: 8 bytes a warp. `COMBINE` is associative and commutative, with unit 0.
template <int THREADS, class COMBINE>
struct BlockReduce {
  static constexpr int WARP = 32;
  static constexpr int WARPS = THREADS / WARP;
  static_assert(THREADS % WARP == 0 && WARPS <= WARP, "whole warps, and no more than one warp can reduce");

  struct Scratch {
    uint64_t of_warp[WARPS];
  };

  Scratch& scratch;

  __device__ uint64_t all(uint64_t value) {
    value = over_warp(value);
    if (threadIdx.x % WARP == 0) scratch.of_warp[threadIdx.x / WARP] = value;
    __syncthreads();
    if (threadIdx.x < WARP) {
      value = threadIdx.x < WARPS ? scratch.of_warp[threadIdx.x] : 0;
      value = over_warp(value);
    }
    return value;
  }

  __device__ static uint64_t over_warp(uint64_t value) {
#pragma unroll
    for (int distance = WARP / 2; distance > 0; distance /= 2) {
      value = COMBINE{}(value, __shfl_down_sync(~0u, value, distance));
    }
    return value;
  }
};

struct Sum {
  __device__ uint64_t operator()(uint64_t a, uint64_t b) const { return a + b; }
};

struct ExclusiveOr {
  __device__ uint64_t operator()(uint64_t a, uint64_t b) const { return a ^ b; }
};

/// Adds every thread's `value` to `accumulator`, with one atomic a block. All threads of the block call this.
template <int THREADS>
__device__ void add_block_sum(uint64_t value, uint64_t* accumulator) {
  __shared__ typename BlockReduce<THREADS, Sum>::Scratch scratch;
  const uint64_t sum = BlockReduce<THREADS, Sum>{scratch}.all(value);
  if (threadIdx.x == 0) atomicAdd(reinterpret_cast<unsigned long long*>(accumulator), sum);
}

/// Combines every thread's `value` into `accumulator` by exclusive or, likewise.
template <int THREADS>
__device__ void add_block_exclusive_or(uint64_t value, uint64_t* accumulator) {
  __shared__ typename BlockReduce<THREADS, ExclusiveOr>::Scratch scratch;
  const uint64_t combined = BlockReduce<THREADS, ExclusiveOr>{scratch}.all(value);
  if (threadIdx.x == 0) atomicXor(reinterpret_cast<unsigned long long*>(accumulator), combined);
}

}  // namespace pelton
