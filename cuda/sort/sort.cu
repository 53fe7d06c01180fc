/// The C entries of the family `sort`: check the arguments, choose the variant, launch.
#include "block/launch.cuh"
#include "pelton/abi/sort.h"
#include "probe/policy.h"
#include "sort/families.h"
#include "sort/merge.cuh"
#include "sort/take.cuh"

namespace pelton {
namespace {

bool is_valid(k_key_order order) { return key_width_bytes(order.key_type) != 0 && order.direction < K_DIRECTION_COUNT; }

bool is_value_width(uint64_t bytes) { return bytes == 0 || bytes == 4 || bytes == 8; }

bool is_plain(const k_sort_args& args) {
  const bool is_unsigned = args.order.key_type == K_KEY_U32 || args.order.key_type == K_KEY_U64;
  return is_unsigned && args.order.direction == K_ASCENDING && args.count >> 32 == 0;
}

template <class ELEMENT>
int launch_take(const k_take_args& args, void* stream) {
  return with_policy(args.launch.policy, [&](auto policy) {
    using Policy = decltype(policy);
    const uint32_t blocks = grid_blocks<Policy>(args.count, args.launch.multiprocessors);
    return args.index_bytes == 4 ? launch(Take<Policy, ELEMENT, uint32_t>{args}, blocks, stream)
                                 : launch(Take<Policy, ELEMENT, uint64_t>{args}, blocks, stream);
  });
}

}  // namespace
}  // namespace pelton

using namespace pelton;

int k_sort(const k_sort_args* args, void* stream) {
  if (args == nullptr || !is_valid(args->launch) || !is_valid(args->order)) return cudaErrorInvalidValue;
  const uint32_t width = key_width_bytes(args->order.key_type);
  if (args->begin_bit > args->end_bit || args->end_bit > 8 * width) return cudaErrorInvalidValue;
  if (!is_value_width(args->value_bytes)) return cudaErrorInvalidValue;
  if (args->result_index != (args->end_bit - args->begin_bit + 7) / 8 % 2) return cudaErrorInvalidValue;
  if (args->count == 0 || args->begin_bit == args->end_bit) return cudaSuccess;
  switch (width) {
    case 4:
      return is_plain(*args) ? sort_plain_4(*args, stream) : sort_ordered_4(*args, stream);
    case 8:
      return is_plain(*args) ? sort_plain_8(*args, stream) : sort_ordered_8(*args, stream);
    default:
      return sort_ordered_16(*args, stream);
  }
}

int k_merge(const k_merge_args* args, void* stream) {
  if (args == nullptr || !is_valid(args->launch) || !is_valid(args->order)) return cudaErrorInvalidValue;
  if (args->counts[0] + args->counts[1] == 0) return cudaSuccess;
  switch (key_width_bytes(args->order.key_type)) {
    case 4:
      return launch_merge_with_values<uint32_t>(*args, stream);
    case 8:
      return launch_merge_with_values<uint64_t>(*args, stream);
    default:
      return launch_merge_with_values<unsigned __int128>(*args, stream);
  }
}

int k_take(const k_take_args* args, void* stream) {
  if (args == nullptr || !is_valid(args->launch)) return cudaErrorInvalidValue;
  if (args->index_bytes != 4 && args->index_bytes != 8) return cudaErrorInvalidValue;
  if (args->count == 0) return cudaSuccess;
  switch (args->width_bytes) {
    case 1:
      return launch_take<uint8_t>(*args, stream);
    case 2:
      return launch_take<uint16_t>(*args, stream);
    case 4:
      return launch_take<uint32_t>(*args, stream);
    case 8:
      return launch_take<uint64_t>(*args, stream);
    case 16:
      return launch_take<uint4>(*args, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

int k_take_bits(const k_take_bits_args* args, void* stream) {
  if (args == nullptr || !is_valid(args->launch)) return cudaErrorInvalidValue;
  if (args->index_bytes != 4 && args->index_bytes != 8) return cudaErrorInvalidValue;
  if (args->count == 0) return cudaSuccess;
  return with_policy(args->launch.policy, [&](auto policy) {
    using Policy = decltype(policy);
    const uint32_t blocks = grid_blocks<Policy>(args->count, args->launch.multiprocessors);
    return args->index_bytes == 4 ? launch(TakeBits<Policy, uint32_t>{*args}, blocks, stream)
                                  : launch(TakeBits<Policy, uint64_t>{*args}, blocks, stream);
  });
}
