/* What the library says of itself, so that its callers can refuse one that is not theirs. */
#ifndef PELTON_ABI_LIBRARY_H
#define PELTON_ABI_LIBRARY_H

#include "pelton/abi/base.h"

/* Sizes and constants that the library was compiled with, and results of the functions that both sides have. */
typedef struct k_abi_report_result {
  uint64_t launch_bytes;
  uint64_t fill_random_bytes;
  uint64_t fill_word_bytes;
  uint64_t fill_cycle_bytes;
  uint64_t fingerprint_bytes;
  uint64_t read_bytes;
  uint64_t gather_bytes;
  uint64_t chase_bytes;
  uint64_t copy_bytes;
  uint64_t sort_bytes;
  uint64_t merge_bytes;
  uint64_t take_bytes;
  uint64_t take_bits_bytes;
  uint64_t count_digits_bytes;
  uint64_t count_buckets_bytes;
  uint64_t partition_bytes;
  uint64_t scan_bytes;
  uint64_t number_segments_bytes;
  uint64_t mark_groups_bytes;
  uint64_t group_edges_bytes;
  uint64_t segmented_scan_bytes;
  uint64_t rank_bytes;
  uint64_t pick_bytes;
  uint64_t frame_values_bytes;
  uint64_t key_frames_bytes;
  uint64_t policy_count;
  uint64_t golden_gamma;
  /* mix(1). */
  uint64_t mixed_one;
  /* Word 7 of seed 42. */
  uint64_t random_word;
  /* Position 5 of 2^10 under seed 42. */
  uint64_t permuted;
  /* Term of word 7 of value 42 in a fingerprint: whole, and with 3 bytes present. */
  uint64_t whole_term;
  uint64_t short_term;
  /* Ordered words: of the f32 0xFF800001, descending, and of the f64 -1.5, ascending. */
  uint64_t single_word;
  uint64_t double_word;
  uint64_t join_build_bytes;
  uint64_t join_probe_bytes;
  uint64_t join_units_bytes;
  uint64_t join_partition_bytes;
  uint64_t join_pairs_bytes;
} k_abi_report_result;

static_assert(sizeof(k_abi_report_result) == 312, "k_abi_report_result has no padding");

/* K_ABI_VERSION of the library. */
K_ENTRY int k_abi_version(void);
/* Fills `result`; needs no device. Fails if `result_bytes` is not the size of the struct. */
K_ENTRY int k_abi_report(k_abi_report_result *result, uint64_t result_bytes);
/* Compiler and architectures, for people. Never null. */
K_ENTRY const char *k_build_text(void);
/* What a code that an entry returned means, for people. Never null. */
K_ENTRY const char *k_error_text(int code);

#endif
