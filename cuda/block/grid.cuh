/// How the threads of a grid share work: strided, so that neighbours touch neighbouring memory.
#pragma once

#include <cstdint>

namespace pelton {

/// This thread's number in the grid.
__device__ inline uint64_t grid_thread() { return uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; }

/// Threads in the grid.
__device__ inline uint64_t grid_threads() { return uint64_t{gridDim.x} * blockDim.x; }

/// Loads items 0 to count - 1 and uses each, ITEMS loads of a thread in flight before the first is used.
///
/// All threads of the grid call this with the same count. Item i belongs to one thread; consecutive threads load
/// consecutive items. `load` takes an index and returns a value, `use` takes the index and the value.
template <int ITEMS, class LOAD, class USE>
__device__ void for_each_in_flight(uint64_t count, LOAD load, USE use) {
  const uint64_t step = grid_threads();
  uint64_t index = grid_thread();
  // ITEMS says how many loads are in flight; the compiler shall not add to them.
#pragma unroll 1
  for (; index + (ITEMS - 1) * step < count; index += ITEMS * step) {
    decltype(load(index)) values[ITEMS];
#pragma unroll
    for (int item = 0; item < ITEMS; ++item) values[item] = load(index + item * step);
#pragma unroll
    for (int item = 0; item < ITEMS; ++item) use(index + item * step, values[item]);
  }
#pragma unroll 1
  for (; index < count; index += step) use(index, load(index));
}

}  // namespace pelton
