/// Stands in for cuda/block/launch.cuh: a kernel is run by threads of the host, one for each of a block, one block after
/// the other. Slow, and no proof of what a GPU does (memory is the host's, and more is ordered than there), but the
/// arithmetic of a kernel is its own.
#pragma once

#include <barrier>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include "pelton/abi/base.h"

#define __device__
#define __host__
// Blocks run one after the other, so what a block shares can be of the process.
#define __shared__ static

struct Index {
  uint32_t x;
};
inline thread_local Index threadIdx, blockIdx, blockDim, gridDim;

enum { cudaSuccess = 0, cudaErrorInvalidValue = 1 };

namespace emulate {

constexpr uint32_t LANES = 32;

struct Warp {
  std::barrier<> together{LANES};
  uint32_t values[LANES];
  uint64_t words[LANES];
};

inline std::unique_ptr<std::barrier<>> block_together;
inline std::vector<std::unique_ptr<Warp>> warps;

inline Warp& warp() { return *warps[threadIdx.x / LANES]; }

/// What `combine` makes of the values of all lanes.
template <class COMBINE>
uint32_t across(uint32_t value, COMBINE combine) {
  Warp& mine = warp();
  mine.values[threadIdx.x % LANES] = value;
  mine.together.arrive_and_wait();
  uint32_t bits = 0;
  for (uint32_t lane = 0; lane < LANES; ++lane) bits |= uint32_t{combine(mine.values[lane])} << lane;
  mine.together.arrive_and_wait();
  return bits;
}

/// The value of the lane that `choose` names for this one.
template <class WORD, class CHOOSE>
WORD of_lane(WORD value, CHOOSE choose) {
  Warp& mine = warp();
  const uint32_t lane = threadIdx.x % LANES;
  mine.words[lane] = value;
  mine.together.arrive_and_wait();
  const WORD other = static_cast<WORD>(mine.words[choose(lane) % LANES]);
  mine.together.arrive_and_wait();
  return other;
}

}  // namespace emulate

inline void __syncthreads() { emulate::block_together->arrive_and_wait(); }
inline void __syncwarp() { emulate::warp().together.arrive_and_wait(); }
inline uint32_t __ballot_sync(uint32_t, bool is_set) {
  return emulate::across(is_set, [](uint32_t other) { return other != 0; });
}
inline uint32_t __match_any_sync(uint32_t, uint32_t value) {
  return emulate::across(value, [=](uint32_t other) { return other == value; });
}
inline uint32_t __popc(uint32_t bits) { return static_cast<uint32_t>(__builtin_popcount(bits)); }
template <class WORD>
WORD __shfl_sync(uint32_t, WORD value, uint32_t from) {
  return emulate::of_lane(value, [=](uint32_t) { return from; });
}
template <class WORD>
WORD __shfl_up_sync(uint32_t, WORD value, uint32_t distance) {
  return emulate::of_lane(value, [=](uint32_t lane) { return lane >= distance ? lane - distance : lane; });
}
template <class WORD>
WORD __shfl_down_sync(uint32_t, WORD value, uint32_t distance) {
  return emulate::of_lane(value, [=](uint32_t lane) { return lane + distance < emulate::LANES ? lane + distance : lane; });
}
template <class WORD, class VALUE>
WORD atomicAdd(WORD* word, VALUE value) {
  return __atomic_fetch_add(word, static_cast<WORD>(value), __ATOMIC_RELAXED);
}
template <class WORD, class VALUE>
WORD atomicXor(WORD* word, VALUE value) {
  return __atomic_fetch_xor(word, value, __ATOMIC_RELAXED);
}
template <class WORD>
WORD atomicOr(WORD* word, WORD value) {
  return __atomic_fetch_or(word, value, __ATOMIC_RELAXED);
}
template <class WORD>
WORD atomicExch(WORD* word, WORD value) {
  return __atomic_exchange_n(word, value, __ATOMIC_RELAXED);
}
template <class WORD>
WORD atomicCAS(WORD* word, WORD expected, WORD wanted) {
  __atomic_compare_exchange_n(word, &expected, wanted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}

namespace pelton {

template <class POLICY>
uint32_t grid_blocks(uint64_t work_items, uint32_t multiprocessors) {
  const uint64_t block_items = uint64_t{POLICY::THREADS} * POLICY::ITEMS;
  const uint64_t needed = (work_items + block_items - 1) / block_items;
  const uint64_t most = uint64_t{multiprocessors} * POLICY::BLOCKS_PER_MULTIPROCESSOR;
  return static_cast<uint32_t>(needed < 1 ? 1 : needed < most ? needed : most);
}

template <class BODY>
int launch(const BODY& body, uint32_t blocks, void*) {
  constexpr uint32_t THREADS = BODY::Policy::THREADS;
  emulate::block_together = std::make_unique<std::barrier<>>(THREADS);
  emulate::warps.clear();
  for (uint32_t warp = 0; warp < THREADS / emulate::LANES; ++warp) {
    emulate::warps.push_back(std::make_unique<emulate::Warp>());
  }
  std::vector<std::thread> threads;
  for (uint32_t thread = 0; thread < THREADS; ++thread) {
    threads.emplace_back([=, &body] {
      threadIdx = {thread};
      blockDim = {THREADS};
      gridDim = {blocks};
      for (uint32_t block = 0; block < blocks; ++block) {
        blockIdx = {block};
        body.run();
        __syncthreads();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return cudaSuccess;
}

}  // namespace pelton
