/* Entries that count keys by digit or bucket, place them in buckets, and add up counts.
 *
 * n splitters, ascending in the order of the keys, make n + 1 buckets: a key's bucket is the number of splitters that
 * do not come after it. Counts are words of an accumulator: what is counted is added to them.
 */
#ifndef PELTON_ABI_PARTITION_H
#define PELTON_ABI_PARTITION_H

#include "pelton/abi/sort.h"

/* Most bits of a digit that is counted, and most splitters. */
#define K_DIGIT_BITS_MAX 12u
#define K_SPLITTERS_MAX 1024u
/* Shares of the keys that partitioning counts apart, at most; its scratch holds a count for each and each bucket. */
#define K_PARTITION_SHARES 2048u

/* Adds to counts[d] how many keys have d in bits begin_bit to end_bit of their words. */
typedef struct k_count_digits_args {
  const uint8_t *keys;
  uint64_t count;
  uint64_t *counts;
  k_key_order order;
  uint32_t begin_bit;
  uint32_t end_bit;
  k_launch launch;
} k_count_digits_args;

/* Adds to counts[b] how many keys are of bucket b. */
typedef struct k_count_buckets_args {
  const uint8_t *keys;
  uint64_t count;
  const uint8_t *splitters;
  uint64_t splitter_count;
  uint64_t *counts;
  k_key_order order;
  k_launch launch;
} k_count_buckets_args;

/* Puts keys and values one bucket after the other, each in the order in which it was. */
typedef struct k_partition_args {
  const uint8_t *keys;
  const uint8_t *values;
  uint64_t count;
  const uint8_t *splitters;
  uint64_t splitter_count;
  uint8_t *target;
  uint8_t *target_values;
  uint8_t *scratch;
  uint64_t scratch_bytes;
  k_key_order order;
  uint64_t value_bytes;
  k_launch launch;
} k_partition_args;

/* Element i of the target becomes the sum, modulo 2^bits, of the elements of the source before i. */
typedef struct k_scan_args {
  const uint8_t *source;
  /* The source, or apart from it. */
  uint8_t *target;
  uint64_t count;
  uint8_t *scratch;
  uint64_t scratch_bytes;
  /* Bytes of an element: 4 or 8. */
  uint64_t width_bytes;
  k_launch launch;
} k_scan_args;

static_assert(sizeof(k_count_digits_args) == 48 && offsetof(k_count_digits_args, order) == 24, "layout");
static_assert(sizeof(k_count_buckets_args) == 56 && offsetof(k_count_buckets_args, order) == 40, "layout");
static_assert(sizeof(k_partition_args) == 96 && offsetof(k_partition_args, order) == 72, "layout");
static_assert(sizeof(k_scan_args) == 56 && offsetof(k_scan_args, width_bytes) == 40, "layout");

K_ENTRY int k_count_digits(const k_count_digits_args *args, void *stream);
K_ENTRY int k_count_buckets(const k_count_buckets_args *args, void *stream);
K_ENTRY int k_partition(const k_partition_args *args, void *stream);
K_ENTRY int k_scan(const k_scan_args *args, void *stream);

#endif
