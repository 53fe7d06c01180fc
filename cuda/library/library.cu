/// What the library says of itself. `PELTON_BUILD_TEXT` comes from the build: compiler and architectures.
#include <cuda_runtime.h>

#include "pelton/abi/join.h"
#include "pelton/abi/library.h"
#include "pelton/abi/partition.h"
#include "pelton/abi/probe.h"
#include "pelton/abi/sort.h"
#include "pelton/abi/window.h"
#include "pelton/common/fingerprint.h"
#include "pelton/common/order.h"
#include "pelton/common/permutation.h"

#ifndef PELTON_BUILD_TEXT
#error "build with cuda/build.sh, which says what the library is compiled for"
#endif

int k_abi_version(void) { return K_ABI_VERSION; }

int k_abi_report(k_abi_report_result* result, uint64_t result_bytes) {
  if (result == nullptr || result_bytes != sizeof(k_abi_report_result)) return cudaErrorInvalidValue;
  *result = k_abi_report_result{
      sizeof(k_launch),
      sizeof(k_fill_random_args),
      sizeof(k_fill_word_args),
      sizeof(k_fill_cycle_args),
      sizeof(k_fingerprint_args),
      sizeof(k_read_args),
      sizeof(k_gather_args),
      sizeof(k_chase_args),
      sizeof(k_copy_args),
      sizeof(k_sort_args),
      sizeof(k_merge_args),
      sizeof(k_take_args),
      sizeof(k_take_bits_args),
      sizeof(k_count_digits_args),
      sizeof(k_count_buckets_args),
      sizeof(k_partition_args),
      sizeof(k_scan_args),
      sizeof(k_number_segments_args),
      sizeof(k_mark_groups_args),
      sizeof(k_group_edges_args),
      sizeof(k_segmented_scan_args),
      sizeof(k_rank_args),
      sizeof(k_pick_args),
      sizeof(k_frame_args),
      sizeof(k_key_frames_args),
      K_POLICY_COUNT,
      pelton::GOLDEN_GAMMA,
      pelton::mix(1),
      pelton::random_word(42, 7),
      pelton::permuted(5, 10, 42),
      pelton::fingerprint_term(7, 42, 8),
      pelton::fingerprint_term(7, 42, 3),
      pelton::key_order<uint32_t>({K_KEY_F32, K_DESCENDING}).word(0xFF800001u),
      pelton::key_order<uint64_t>({K_KEY_F64, K_ASCENDING}).word(0xBFF8000000000000u),
      sizeof(k_join_build_args),
      sizeof(k_join_probe_args),
      sizeof(k_join_units_args),
      sizeof(k_join_partition_args),
      sizeof(k_join_pairs_args),
  };
  return cudaSuccess;
}

const char* k_build_text(void) { return PELTON_BUILD_TEXT; }

const char* k_error_text(int code) { return cudaGetErrorString(static_cast<cudaError_t>(code)); }
