/// The C entries that count, partition and scan: check the arguments, choose the variant, launch.
#include "sort/partition.cuh"

#include <cub/device/device_scan.cuh>

#include "pelton/abi/partition.h"

namespace pelton {
namespace {

bool is_valid(k_key_order order) { return key_width_bytes(order.key_type) != 0 && order.direction < K_DIRECTION_COUNT; }

/// Calls `launch_with` with a key of the width of `key_type`.
template <class LAUNCH>
int with_key(uint32_t key_type, LAUNCH launch_with) {
  switch (key_width_bytes(key_type)) {
    case 4:
      return launch_with(uint32_t{});
    case 8:
      return launch_with(uint64_t{});
    default:
      return launch_with(static_cast<unsigned __int128>(0));
  }
}

template <class BUCKETS>
int launch_count(const BUCKETS& buckets, uint64_t count, uint64_t* counts, const k_launch& where, void* stream) {
  const uint32_t blocks = grid_blocks<PartitionPolicy>(count, where.multiprocessors);
  return launch(Count<BUCKETS>{buckets, count, counts}, blocks, stream);
}

template <class WORD, class ARGS>
SplitterBuckets<WORD> buckets_of(const ARGS& args) {
  return {reinterpret_cast<const WORD*>(args.keys), key_order<WORD>(args.order),
          reinterpret_cast<const WORD*>(args.splitters), static_cast<uint32_t>(args.splitter_count)};
}

template <class ELEMENT>
int scan(const uint8_t* source, uint8_t* target, uint64_t count, uint8_t* scratch, uint64_t scratch_bytes, void* stream) {
  size_t bytes = scratch_bytes;
  return cub::DeviceScan::ExclusiveSum(scratch, bytes, reinterpret_cast<const ELEMENT*>(source),
                                       reinterpret_cast<ELEMENT*>(target), static_cast<int64_t>(count),
                                       static_cast<cudaStream_t>(stream));
}

template <class WORD, class VALUE>
int launch_place(const k_partition_args& args, uint64_t share_keys, uint32_t shares, uint64_t* counts, void* stream) {
  using Body = PlaceShares<WORD, VALUE>;
  using Value = typename Body::Value;
  const Body body{buckets_of<WORD>(args),
                  args.count,
                  share_keys,
                  counts,
                  reinterpret_cast<WORD*>(args.target),
                  reinterpret_cast<const Value*>(args.values),
                  reinterpret_cast<Value*>(args.target_values)};
  return launch(body, shares, stream);
}

/// Counts first, in the scratch; what the scan needs comes behind them.
template <class WORD>
int partition(const k_partition_args& args, void* stream) {
  const uint64_t tiles = (args.count + PARTITION_TILE - 1) / PARTITION_TILE;
  const uint64_t share_tiles = (tiles + K_PARTITION_SHARES - 1) / K_PARTITION_SHARES;
  const uint32_t shares = static_cast<uint32_t>((tiles + share_tiles - 1) / share_tiles);
  const uint64_t share_keys = share_tiles * PARTITION_TILE;
  const uint64_t entries = (args.splitter_count + 1) * shares;
  const uint64_t misaligned = reinterpret_cast<uintptr_t>(args.scratch) % 8;
  const uint64_t begin = misaligned == 0 ? 0 : 8 - misaligned;
  if (share_keys >> 32 != 0 || args.scratch_bytes < begin + 8 * entries) return cudaErrorInvalidValue;
  uint8_t* counted = args.scratch + begin;
  auto* counts = reinterpret_cast<uint64_t*>(counted);
  const uint64_t rest = args.scratch_bytes - begin - 8 * entries;
  int error = launch(CountShares<WORD>{buckets_of<WORD>(args), args.count, share_keys, counts}, shares, stream);
  if (error != cudaSuccess) return error;
  error = scan<uint64_t>(counted, counted, entries, counted + 8 * entries, rest, stream);
  if (error != cudaSuccess) return error;
  switch (args.value_bytes) {
    case 0:
      return launch_place<WORD, void>(args, share_keys, shares, counts, stream);
    case 4:
      return launch_place<WORD, uint32_t>(args, share_keys, shares, counts, stream);
    case 8:
      return launch_place<WORD, uint64_t>(args, share_keys, shares, counts, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace
}  // namespace pelton

using namespace pelton;

int k_count_digits(const k_count_digits_args* args, void* stream) {
  if (args == nullptr || !is_valid(args->launch) || !is_valid(args->order)) return cudaErrorInvalidValue;
  if (args->begin_bit > args->end_bit || args->end_bit > 8 * key_width_bytes(args->order.key_type)) {
    return cudaErrorInvalidValue;
  }
  const uint32_t bits = args->end_bit - args->begin_bit;
  if (bits > K_DIGIT_BITS_MAX) return cudaErrorInvalidValue;
  if (args->count == 0) return cudaSuccess;
  return with_key(args->order.key_type, [&](auto key) {
    using Word = decltype(key);
    // No bits may be asked for at the very end, where a shift would be by the width.
    const uint32_t begin_bit = bits == 0 ? 0 : args->begin_bit;
    const DigitBuckets<Word> buckets{reinterpret_cast<const Word*>(args->keys), key_order<Word>(args->order), begin_bit,
                                     bits};
    return launch_count(buckets, args->count, args->counts, args->launch, stream);
  });
}

int k_count_buckets(const k_count_buckets_args* args, void* stream) {
  if (args == nullptr || !is_valid(args->launch) || !is_valid(args->order)) return cudaErrorInvalidValue;
  if (args->splitter_count > K_SPLITTERS_MAX) return cudaErrorInvalidValue;
  if (args->count == 0) return cudaSuccess;
  return with_key(args->order.key_type, [&](auto key) {
    return launch_count(buckets_of<decltype(key)>(*args), args->count, args->counts, args->launch, stream);
  });
}

int k_partition(const k_partition_args* args, void* stream) {
  if (args == nullptr || !is_valid(args->launch) || !is_valid(args->order)) return cudaErrorInvalidValue;
  if (args->splitter_count > K_SPLITTERS_MAX) return cudaErrorInvalidValue;
  if (args->count == 0) return cudaSuccess;
  return with_key(args->order.key_type, [&](auto key) { return partition<decltype(key)>(*args, stream); });
}

int k_scan(const k_scan_args* args, void* stream) {
  if (args == nullptr || !is_valid(args->launch)) return cudaErrorInvalidValue;
  if (args->count == 0) return cudaSuccess;
  switch (args->width_bytes) {
    case 4:
      return scan<uint32_t>(args->source, args->target, args->count, args->scratch, args->scratch_bytes, stream);
    case 8:
      return scan<uint64_t>(args->source, args->target, args->count, args->scratch, args->scratch_bytes, stream);
    default:
      return cudaErrorInvalidValue;
  }
}
