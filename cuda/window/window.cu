/// The C entries of the family `window`: check the arguments, choose the variant, launch.
#include "window/window.cuh"

#include <cub/device/device_scan.cuh>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/reverse_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include "block/launch.cuh"
#include "probe/policy.h"

namespace pelton {
namespace {

bool is_scanned(uint32_t key_type) {
  return key_type == K_KEY_I32 || key_type == K_KEY_I64 || key_type == K_KEY_I128 || key_type == K_KEY_F64;
}

/// The number of an element where a group begins, else 0: their maximum so far is where the group began.
struct BeginsAt {
  const uint8_t* flags;
  uint32_t flag;

  __host__ __device__ uint32_t operator()(uint64_t element) const {
    return (flags[element] & flag) != 0 ? static_cast<uint32_t>(element) : 0;
  }
};

/// From the last element to the first: the number of an element where a group ends, else the greatest number.
struct EndsAt {
  const uint8_t* flags;
  uint64_t count;
  uint32_t flag;

  __host__ __device__ uint32_t operator()(uint64_t from_last) const {
    const uint64_t element = count - 1 - from_last;
    const bool ends = from_last == 0 || (flags[element + 1] & flag) != 0;
    return ends ? static_cast<uint32_t>(element) : ~uint32_t{0};
  }
};

struct Greater {
  __host__ __device__ uint32_t operator()(uint32_t a, uint32_t b) const { return a > b ? a : b; }
};

struct Lesser {
  __host__ __device__ uint32_t operator()(uint32_t a, uint32_t b) const { return a < b ? a : b; }
};

template <class POLICY, class ELEMENT>
int launch_pick(const k_pick_args& args, void* stream) {
  return launch(Pick<POLICY, ELEMENT>{args}, grid_blocks<POLICY>(args.count, args.launch.multiprocessors), stream);
}

template <class POLICY, class VALUE>
int launch_frame(const k_frame_args& args, void* stream) {
  return launch(FrameValues<POLICY, VALUE>{args}, grid_blocks<POLICY>(args.count, args.launch.multiprocessors), stream);
}

template <class POLICY, class KEY>
int launch_key_frames(const k_key_frames_args& args, void* stream) {
  return launch(KeyFrames<POLICY, KEY>{args}, grid_blocks<POLICY>(args.count, args.launch.multiprocessors), stream);
}

bool is_valid(const k_frame& frame) { return frame.start < K_EDGE_COUNT && frame.end < K_EDGE_COUNT; }

}  // namespace
}  // namespace pelton

using namespace pelton;

int k_mark_groups(const k_mark_groups_args* args, void* stream) {
  if (args == nullptr || !is_valid(args->launch)) return cudaErrorInvalidValue;
  if (args->count == 0) return cudaSuccess;
  return with_policy(args->launch.policy, [&](auto policy) {
    using Policy = decltype(policy);
    return launch(MarkGroups<Policy>{*args}, grid_blocks<Policy>(args->count, args->launch.multiprocessors), stream);
  });
}

int k_group_edges(const k_group_edges_args* args, void* stream) {
  if (args == nullptr || !is_valid(args->launch)) return cudaErrorInvalidValue;
  if (args->count == 0) return cudaSuccess;
  if (args->count >> 32 != 0) return cudaErrorInvalidValue;
  const auto queue = static_cast<cudaStream_t>(stream);
  const auto count = static_cast<int64_t>(args->count);
  const thrust::counting_iterator<uint64_t> elements(0);
  size_t bytes = args->scratch_bytes;
  if (args->is_last == 0) {
    const auto begins = thrust::make_transform_iterator(elements, BeginsAt{args->flags, args->flag});
    return cub::DeviceScan::InclusiveScan(args->scratch, bytes, begins, args->target, Greater{}, count, queue);
  }
  const auto ends = thrust::make_transform_iterator(elements, EndsAt{args->flags, args->count, args->flag});
  const thrust::reverse_iterator<uint32_t*> target(args->target + args->count);
  return cub::DeviceScan::InclusiveScan(args->scratch, bytes, ends, target, Lesser{}, count, queue);
}

int k_rank(const k_rank_args* args, void* stream) {
  if (args == nullptr || !is_valid(args->launch)) return cudaErrorInvalidValue;
  if (args->ranking >= K_RANKING_COUNT || (args->ranking == K_NTILE && args->tiles == 0)) return cudaErrorInvalidValue;
  if (args->count == 0) return cudaSuccess;
  return with_policy(args->launch.policy, [&](auto policy) {
    using Policy = decltype(policy);
    return launch(Rank<Policy>{*args}, grid_blocks<Policy>(args->count, args->launch.multiprocessors), stream);
  });
}

int k_pick(const k_pick_args* args, void* stream) {
  if (args == nullptr || !is_valid(args->launch) || !is_valid(args->frame)) return cudaErrorInvalidValue;
  if (args->pick >= K_PICK_COUNT) return cudaErrorInvalidValue;
  if (args->count == 0) return cudaSuccess;
  return with_policy(args->launch.policy, [&](auto policy) {
    using Policy = decltype(policy);
    switch (args->width_bytes) {
      case 1:
        return launch_pick<Policy, uint8_t>(*args, stream);
      case 4:
        return launch_pick<Policy, uint32_t>(*args, stream);
      case 8:
        return launch_pick<Policy, uint64_t>(*args, stream);
      case 16:
        return launch_pick<Policy, uint4>(*args, stream);
      default:
        return static_cast<int>(cudaErrorInvalidValue);
    }
  });
}

int k_frame_values(const k_frame_args* args, void* stream) {
  if (args == nullptr || !is_valid(args->launch) || !is_valid(args->frame)) return cudaErrorInvalidValue;
  if (args->operation >= K_FRAME_OPERATION_COUNT || !is_scanned(args->source_type)) return cudaErrorInvalidValue;
  if (args->count == 0) return cudaSuccess;
  return with_policy(args->launch.policy, [&](auto policy) {
    using Policy = decltype(policy);
    switch (args->source_type) {
      case K_KEY_I32:
        return launch_frame<Policy, int32_t>(*args, stream);
      case K_KEY_I64:
        return launch_frame<Policy, int64_t>(*args, stream);
      case K_KEY_I128:
        return launch_frame<Policy, __int128>(*args, stream);
      default:
        return launch_frame<Policy, double>(*args, stream);
    }
  });
}

int k_key_frames(const k_key_frames_args* args, void* stream) {
  if (args == nullptr || !is_valid(args->launch) || !is_valid(args->frame)) return cudaErrorInvalidValue;
  if (args->source_type != K_KEY_I32 && args->source_type != K_KEY_I64) return cudaErrorInvalidValue;
  if (args->count == 0) return cudaSuccess;
  return with_policy(args->launch.policy, [&](auto policy) {
    using Policy = decltype(policy);
    return args->source_type == K_KEY_I32 ? launch_key_frames<Policy, int32_t>(*args, stream)
                                          : launch_key_frames<Policy, int64_t>(*args, stream);
  });
}
