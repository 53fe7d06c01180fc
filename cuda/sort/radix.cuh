/// Radix sort by CUB: how its kernels are instantiated here, few times for many types.
///
/// ```text
///   unsigned ascending, below 2^32 keys ──► CUB as it is, with counts of 32 bits           each for keys alone and
///   every other 4- or 8-byte key        ──► CUB on ordered words, counts of 32 or 64 bits  for values of 4 and 8 bytes
///   16-byte keys                        ──► the same on words of 128 bits
/// ```
///
/// An ordered word is made of a key where CUB converts keys anyway, in registers, by numbers that come with the launch,
/// so one kernel serves every type of its width and both directions, for a few instructions per key and pass.
///
/// CUB is used below its public interface (version 13.0.85 of nvidia-cuda-cccl): `DispatchRadixSort`, whose result
/// stays in either buffer, and the traits of key types. Read its `dispatch_radix_sort.cuh` before raising that version.
#pragma once

#include <cub/device/dispatch/dispatch_radix_sort.cuh>

#include "block/launch.cuh"
#include "pelton/abi/sort.h"
#include "pelton/common/order.h"

namespace pelton {

/// A key whose order is known when the kernel is launched. WORD has its width.
template <class WORD>
struct OrderedKey {
  WORD bits;
};

}  // namespace pelton

CUB_NAMESPACE_BEGIN
namespace detail {
namespace radix {

/// What CUB wants to know of keys; the order takes the place of what it calls a decomposer.
template <class WORD>
struct traits_t<pelton::OrderedKey<WORD>, false> {
  using bit_ordered_type = WORD;
  using Order = pelton::KeyOrder<WORD>;
  template <class, class>
  using digit_extractor_t =
      ::cuda::std::conditional_t<sizeof(WORD) == 4, BFEDigitExtractor<uint32_t>, ShiftDigitExtractor<WORD>>;

  struct bit_ordered_conversion_policy {
    static __host__ __device__ __forceinline__ WORD to_bit_ordered(Order order, WORD key) { return order.word(key); }
    static __host__ __device__ __forceinline__ WORD from_bit_ordered(Order order, WORD word) { return order.key(word); }
  };

  struct bit_ordered_inversion_policy {
    static __host__ __device__ __forceinline__ WORD inverse(Order, WORD word) { return ~word; }
  };

  static __host__ __device__ WORD min_raw_binary_key(Order order) { return order.key(0); }
  static __host__ __device__ WORD max_raw_binary_key(Order order) { return order.key(~WORD(0)); }

  template <class>
  static __host__ __device__ __forceinline__ digit_extractor_t<void, Order> digit_extractor(int begin, int count, Order) {
    return digit_extractor_t<void, Order>(begin, count);
  }
};

}  // namespace radix
}  // namespace detail
CUB_NAMESPACE_END

namespace pelton {

/// CUB's tuning for compute capability 9.0 on every device, so that the scratch needed does not depend on the device.
/// It is the one that CUB takes for keys of these sizes on 10.0 as well. Keys of 4 bytes alone are sorted 1.16 times as fast
/// by its tuning for counts of 64 bits, on an H200, whatever their number is counted in (docs/perf/sort.md).
template <class WORD, class VALUE, class OFFSET>
struct SortTuning {
  static constexpr bool IS_SHORT = sizeof(WORD) == 4 && ::cuda::std::is_same_v<VALUE, cub::NullType>;
  using Counts = ::cuda::std::conditional_t<IS_SHORT, uint64_t, OFFSET>;
  using Tuned = typename cub::detail::radix::policy_hub<WORD, VALUE, Counts>::Policy900;

  struct MaxPolicy : cub::ChainedPolicy<800, MaxPolicy, MaxPolicy> {
    static constexpr bool ONESWEEP = true;
    static constexpr int ONESWEEP_RADIX_BITS = 8;
    using HistogramPolicy = typename Tuned::HistogramPolicy;
    using ExclusiveSumPolicy = typename Tuned::ExclusiveSumPolicy;
    using OnesweepPolicy = typename Tuned::OnesweepPolicy;
    using SingleTilePolicy = typename Tuned::SingleTilePolicy;
  };

  static constexpr int TILE = Tuned::OnesweepPolicy::BLOCK_THREADS * Tuned::OnesweepPolicy::ITEMS_PER_THREAD;
  static constexpr int LEAST = sizeof(WORD) == 4 ? 5376 : sizeof(WORD) == 8 ? 4608 : 2304;
  static_assert(TILE >= LEAST && TILE <= 1 << 14, "the caller's side computes the scratch from such tiles");
  static_assert(Tuned::ONESWEEP && Tuned::ONESWEEP_RADIX_BITS == 8, "and from digits of 8 bits, one pass for each");
};

template <class KEY> struct WordOf { using Type = KEY; };
template <class WORD> struct WordOf<OrderedKey<WORD>> { using Type = WORD; };

/// Enqueues the sort; the result ends in `args.result_index` also where CUB leaves it in the other buffer, as it does
/// for what fits one block.
template <class KEY, class VALUE, class OFFSET, class ORDER>
int radix_sort(const k_sort_args& args, ORDER order, void* stream) {
  using Tuning = SortTuning<typename WordOf<KEY>::Type, VALUE, OFFSET>;
  using Sort = cub::DispatchRadixSort<cub::SortOrder::Ascending, KEY, VALUE, OFFSET, ORDER, Tuning>;
  constexpr bool HAS_VALUES = !::cuda::std::is_same_v<VALUE, cub::NullType>;
  const auto queue = static_cast<cudaStream_t>(stream);
  cub::DoubleBuffer<KEY> keys(reinterpret_cast<KEY*>(args.keys[0]), reinterpret_cast<KEY*>(args.keys[1]));
  cub::DoubleBuffer<VALUE> values;
  if (HAS_VALUES) {
    values.d_buffers[0] = reinterpret_cast<VALUE*>(args.values[0]);
    values.d_buffers[1] = reinterpret_cast<VALUE*>(args.values[1]);
  }
  const auto count = static_cast<OFFSET>(args.count);
  const int begin = static_cast<int>(args.begin_bit);
  const int end = static_cast<int>(args.end_bit);
  // CUB does not look whether scratch is too short. This is arithmetic on the host.
  size_t scratch_bytes = 0;
  cudaError_t error = Sort::Dispatch(nullptr, scratch_bytes, keys, values, count, begin, end, true, queue, order);
  if (error != cudaSuccess) return error;
  if (scratch_bytes > args.scratch_bytes) return cudaErrorInvalidValue;
  error = Sort::Dispatch(args.scratch, scratch_bytes, keys, values, count, begin, end, true, queue, order);
  const uint32_t result = static_cast<uint32_t>(keys.selector);
  if (error != cudaSuccess || result == args.result_index) return error;
  const uint32_t wanted = args.result_index;
  error = cudaMemcpyAsync(args.keys[wanted], args.keys[result], args.count * sizeof(KEY), cudaMemcpyDeviceToDevice, queue);
  if (error != cudaSuccess || !HAS_VALUES) return error;
  const size_t value_bytes = args.count * args.value_bytes;
  return cudaMemcpyAsync(args.values[wanted], args.values[result], value_bytes, cudaMemcpyDeviceToDevice, queue);
}

/// One file compiles each of these.
template <class KEY, class OFFSET, class ORDER>
int radix_sort_with_values(const k_sort_args& args, ORDER order, void* stream) {
  switch (args.value_bytes) {
    case 0:
      return radix_sort<KEY, cub::NullType, OFFSET>(args, order, stream);
    case 4:
      return radix_sort<KEY, uint32_t, OFFSET>(args, order, stream);
    case 8:
      return radix_sort<KEY, uint64_t, OFFSET>(args, order, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace pelton
