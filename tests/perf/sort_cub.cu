// The radix sort of CUB called directly: what the sort of Pelton's library is held against, in the same run.
//
//   nvcc -std=c++17 -O3 -arch=sm_90 -I CCCL_INCLUDE tests/perf/sort_cub.cu -o sort_cub && ./sort_cub [LOG2_COUNT...]
//
// CCCL_INCLUDE is where cub/ of nvidia-cuda-cccl 13.0.85 is (cuda/requirements.txt), so that both are of one version.
// Each line is the median of 7 sorts of fresh random keys, timed by events: the very keys that the example sort_rate of
// crates/kernels sorts. Counts of 32 and of 64 bits are two instantiations of CUB; the faster one is the baseline.
#include <cub/device/device_radix_sort.cuh>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                            \
  do {                                                                                         \
    const cudaError_t error = (call);                                                          \
    if (error != cudaSuccess) {                                                                \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));      \
      std::exit(1);                                                                            \
    }                                                                                          \
  } while (0)

constexpr int REPEATS = 7;

__global__ void fill(uint64_t* target, uint64_t words, uint64_t seed) {
  const uint64_t step = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t index = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; index < words; index += step) {
    uint64_t word = seed + (index + 1) * 0x9E3779B97F4A7C15u;
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9u;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBu;
    target[index] = word ^ (word >> 31);
  }
}

template <class KEY>
__global__ void count_descents(const KEY* keys, uint64_t count, unsigned long long* descents) {
  const uint64_t step = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t index = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; index + 1 < count; index += step) {
    if (keys[index + 1] < keys[index]) atomicAdd(descents, 1ull);
  }
}

template <class KEY, class VALUE, class COUNT>
void measure(const char* name, COUNT count) {
  constexpr bool HAS_VALUES = !std::is_same<VALUE, cub::NullType>::value;
  KEY* keys[2];
  VALUE* values[2] = {nullptr, nullptr};
  for (auto& buffer : keys) CHECK(cudaMalloc(&buffer, uint64_t(count) * sizeof(KEY)));
  if (HAS_VALUES) {
    for (auto& buffer : values) CHECK(cudaMalloc(&buffer, uint64_t(count) * sizeof(VALUE)));
  }
  const auto sort = [&](void* scratch, size_t& bytes, cub::DoubleBuffer<KEY>& from, cub::DoubleBuffer<VALUE>& with) {
    if constexpr (HAS_VALUES) {
      return cub::DeviceRadixSort::SortPairs(scratch, bytes, from, with, count);
    } else {
      return cub::DeviceRadixSort::SortKeys(scratch, bytes, from, count);
    }
  };
  size_t scratch_bytes = 0;
  void* scratch = nullptr;
  cub::DoubleBuffer<KEY> from(keys[0], keys[1]);
  cub::DoubleBuffer<VALUE> with(values[0], values[1]);
  CHECK(sort(nullptr, scratch_bytes, from, with));
  CHECK(cudaMalloc(&scratch, scratch_bytes));
  cudaEvent_t start, end;
  CHECK(cudaEventCreate(&start));
  CHECK(cudaEventCreate(&end));
  std::vector<float> times;
  // The first one is not counted.
  for (int repeat = 0; repeat <= REPEATS; ++repeat) {
    fill<<<2048, 256>>>(reinterpret_cast<uint64_t*>(keys[0]), uint64_t(count) * sizeof(KEY) / 8, repeat);
    if constexpr (HAS_VALUES) {
      fill<<<2048, 256>>>(reinterpret_cast<uint64_t*>(values[0]), uint64_t(count) * sizeof(VALUE) / 8, repeat + 1000);
    }
    from = cub::DoubleBuffer<KEY>(keys[0], keys[1]);
    with = cub::DoubleBuffer<VALUE>(values[0], values[1]);
    CHECK(cudaEventRecord(start));
    CHECK(sort(scratch, scratch_bytes, from, with));
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    float milliseconds = 0;
    CHECK(cudaEventElapsedTime(&milliseconds, start, end));
    if (repeat > 0) times.push_back(milliseconds);
  }
  unsigned long long* descents;
  CHECK(cudaMalloc(&descents, sizeof(*descents)));
  CHECK(cudaMemset(descents, 0, sizeof(*descents)));
  count_descents<<<2048, 256>>>(from.Current(), uint64_t(count), descents);
  unsigned long long found = 0;
  CHECK(cudaMemcpy(&found, descents, sizeof(found), cudaMemcpyDeviceToHost));
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  std::printf("cub %-12s count of %zu bits %12llu keys  %8.3f ms (%.3f to %.3f)  %8.3f Gkeys/s  scratch %.1f MB%s\n", name,
              8 * sizeof(COUNT), static_cast<unsigned long long>(count), median, times.front(), times.back(),
              double(count) / median / 1e6, scratch_bytes / 1e6, found == 0 ? "" : "  NOT SORTED");
  std::fflush(stdout);
  for (auto* buffer : keys) CHECK(cudaFree(buffer));
  for (auto* buffer : values) CHECK(cudaFree(buffer));
  CHECK(cudaFree(scratch));
  CHECK(cudaFree(descents));
  CHECK(cudaEventDestroy(start));
  CHECK(cudaEventDestroy(end));
}

template <class COUNT>
void measure_all(COUNT count) {
  measure<uint32_t, cub::NullType>("u32", count);
  measure<uint64_t, cub::NullType>("u64", count);
  measure<uint32_t, uint32_t>("u32/u32", count);
  measure<uint64_t, uint64_t>("u64/u64", count);
}

int main(int argument_count, char** arguments) {
  std::vector<int> sizes;
  for (int index = 1; index < argument_count; ++index) sizes.push_back(std::atoi(arguments[index]));
  if (sizes.empty()) sizes = {28, 29, 30};
  cudaDeviceProp device;
  CHECK(cudaGetDeviceProperties(&device, 0));
  std::printf("cub %d on %s\n", CUB_VERSION, device.name);
  for (const int bits : sizes) {
    if (bits < 32) measure_all<uint32_t>(uint32_t{1} << bits);
    measure_all<int64_t>(int64_t{1} << bits);
  }
  return 0;
}
