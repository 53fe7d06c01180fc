/// Segmented scans by CUB: one pass over values that are gathered on the way.
///
/// ```text
///   element  (value, how many are not NULL, whether a group begins)
///   a then b  ──► b where a group begins in b, else (a op b, sum of counts, whether a group begins in a)
/// ```
///
/// That is associative, so CUB's scan, in which blocks look back at those before them (D. Merrill, M. Garland, "Single-pass
/// Parallel Prefix Scan with Decoupled Look-back", 2016), takes it (segments by flags: S. Sengupta and others, "Scan
/// Primitives for GPU Computing", 2007). Traffic an element: 4 bytes of its row's number, 1 of flags, the value at
/// random, and the result; 4 more where counts are asked for.
#include <cub/device/device_scan.cuh>
#include <cuda/std/type_traits>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/tabulate_output_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include "block/launch.cuh"
#include "pelton/abi/window.h"
#include "pelton/common/frame.h"

namespace pelton {
namespace {

template <class VALUE>
struct Scanned {
  VALUE value;
  uint32_t values;
  uint32_t begins;
};

template <class VALUE>
__host__ __device__ VALUE value_at(const k_segmented_scan_args& args, uint32_t row) {
  switch (args.source_type) {
    case K_KEY_I32:
      return static_cast<VALUE>(reinterpret_cast<const int32_t*>(args.source)[row]);
    case K_KEY_I64:
      return static_cast<VALUE>(reinterpret_cast<const int64_t*>(args.source)[row]);
    case K_KEY_F64:
      return static_cast<VALUE>(reinterpret_cast<const double*>(args.source)[row]);
    default:
      return static_cast<VALUE>(reinterpret_cast<const __int128*>(args.source)[row]);
  }
}

template <class VALUE>
__host__ __device__ VALUE sum(VALUE a, VALUE b) {
  if constexpr (::cuda::std::is_same_v<VALUE, double>) {
    return a + b;
  } else if constexpr (sizeof(VALUE) == 16) {
    return static_cast<VALUE>(static_cast<unsigned __int128>(a) + static_cast<unsigned __int128>(b));
  } else {
    return static_cast<VALUE>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
}

template <class VALUE>
struct Load {
  k_segmented_scan_args args;

  __host__ __device__ Scanned<VALUE> operator()(uint64_t element) const {
    const uint32_t flags = args.flags[element];
    Scanned<VALUE> loaded{VALUE{}, 1, (flags & args.flag) != 0};
    if (args.operation == K_SCAN_COUNT_FLAGS) {
      loaded.value = static_cast<VALUE>((flags & args.counted_flag) != 0);
      return loaded;
    }
    if (args.operation == K_SCAN_COUNT && args.valid == nullptr) {
      loaded.value = static_cast<VALUE>(1);
      return loaded;
    }
    const uint32_t row = args.indices[element];
    if (args.valid != nullptr && args.valid[row] == 0) {
      loaded.values = 0;
      return loaded;
    }
    loaded.value = args.operation == K_SCAN_COUNT ? static_cast<VALUE>(1) : value_at<VALUE>(args, row);
    // Sums begin with 0: that of -0 is 0.
    if (args.operation == K_SCAN_SUM) loaded.value = sum(VALUE{}, loaded.value);
    return loaded;
  }
};

__host__ __device__ inline bool is_less(double a, double b) {
  union Bits {
    double value;
    int64_t bits;
  };
  return ordered_bits(Bits{a}.bits) < ordered_bits(Bits{b}.bits);
}
template <class VALUE> __host__ __device__ bool is_less(VALUE a, VALUE b) { return a < b; }

template <class VALUE>
struct Combine {
  uint32_t operation;

  __host__ __device__ Scanned<VALUE> operator()(const Scanned<VALUE>& a, const Scanned<VALUE>& b) const {
    if (b.begins != 0) return b;
    Scanned<VALUE> both{b.value, a.values + b.values, a.begins};
    if (operation != K_SCAN_MIN && operation != K_SCAN_MAX) {
      both.value = sum(a.value, b.value);
    } else if (b.values == 0 || (a.values != 0 && (operation == K_SCAN_MIN ? is_less(a.value, b.value)
                                                                          : is_less(b.value, a.value)))) {
      both.value = a.value;
    }
    return both;
  }
};

template <class VALUE>
struct Store {
  k_segmented_scan_args args;

  __host__ __device__ void operator()(int64_t element, const Scanned<VALUE>& scanned) const {
    if (args.target_type == K_KEY_I32) {
      reinterpret_cast<int32_t*>(args.target)[element] = static_cast<int32_t>(scanned.value);
    } else {
      reinterpret_cast<VALUE*>(args.target)[element] = scanned.value;
    }
    if (args.target_counts != nullptr) args.target_counts[element] = scanned.values;
  }
};

template <class VALUE>
int scan(const k_segmented_scan_args& args, void* stream) {
  const auto loaded = thrust::make_transform_iterator(thrust::counting_iterator<uint64_t>(0), Load<VALUE>{args});
  const auto stored = thrust::make_tabulate_output_iterator(Store<VALUE>{args});
  size_t bytes = 0;
  const auto count = static_cast<int64_t>(args.count);
  const auto queue = static_cast<cudaStream_t>(stream);
  const Combine<VALUE> combine{args.operation};
  // CUB does not look whether scratch is too short. This is arithmetic on the host.
  cudaError_t error = cub::DeviceScan::InclusiveScan(nullptr, bytes, loaded, stored, combine, count, queue);
  if (error != cudaSuccess) return error;
  if (bytes > args.scratch_bytes) return cudaErrorInvalidValue;
  return cub::DeviceScan::InclusiveScan(args.scratch, bytes, loaded, stored, combine, count, queue);
}

bool is_scanned(uint32_t key_type) {
  return key_type == K_KEY_I32 || key_type == K_KEY_I64 || key_type == K_KEY_I128 || key_type == K_KEY_F64;
}

}  // namespace
}  // namespace pelton

using namespace pelton;

int k_segmented_scan(const k_segmented_scan_args* args, void* stream) {
  if (args == nullptr || !is_valid(args->launch)) return cudaErrorInvalidValue;
  if (args->operation >= K_SCAN_COUNT_OPERATIONS) return cudaErrorInvalidValue;
  if (!is_scanned(args->source_type) || !is_scanned(args->target_type)) return cudaErrorInvalidValue;
  if (args->count == 0) return cudaSuccess;
  switch (args->target_type) {
    case K_KEY_F64:
      return scan<double>(*args, stream);
    case K_KEY_I128:
      return scan<__int128>(*args, stream);
    default:
      return scan<int64_t>(*args, stream);
  }
}
