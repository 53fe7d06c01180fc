/* Entries that join keys: tables of a no-partitioning hash join, radix partitions, and the join of pairs of partitions.
 *
 * Keys and values are words of `width_bytes` bytes, 4 or 8, and lie in memory aligned to that. Every key is legal, also
 * that of all ones, which marks an empty slot: it has a slot of its own behind the others. Keys may occur any number
 * of times on both sides. The order of what is written by entries is unspecified, what it is of is not. What a
 * key's hash is, pelton/common/join.h says.
 */
#ifndef PELTON_ABI_JOIN_H
#define PELTON_ABI_JOIN_H

#include "pelton/abi/base.h"

/* Most bits that one pass partitions by. */
#define K_JOIN_BITS_MAX 9u
/* Rows of a tile that a block partitions at a time. */
#define K_JOIN_TILE_ROWS 4096u
/* Rows of a build partition that are a table in shared memory, and rows that are probed by a block at a time. */
#define K_JOIN_BUILD_ROWS 2048u
#define K_JOIN_PROBE_ROWS 16384u

typedef enum k_join_kind {
  /* Open addressing with linear probing; further rows of a key in a chain beside. */
  K_JOIN_GENERAL = 0,
  /* An array by key with a bit for each place. */
  K_JOIN_PERFECT = 1,
  /* The same, and every place is taken: bits are not read. */
  K_JOIN_PERFECT_FULL = 2
} k_join_kind;

typedef enum k_join_mode {
  /* Adds the number of matches to result[0], and the sum of the products of their values, modulo 2^64, to result[1]. */
  K_JOIN_SUM = 0,
  /* Writes the values of both sides of each match, and adds the number of matches to result[0]. */
  K_JOIN_PAIRS = 1
} k_join_mode;

/* A table of build rows.
 *
 *   general    slots   slot_count + 1 of {key, value}; of all ones where empty, the last one is the empty key's
 *              marks   slot_count + 1 of uint32_t: the first row of the chain of the slot's key; all ones: none
 *              chain   chain_values[row], chain_next[row] of rows whose key was there before
 *   perfect    slots   slot_count values, of key first_key + place
 *              marks   ceil(slot_count / 32) of uint32_t: bits of the places that are taken
 */
typedef struct k_join_table {
  uint8_t *slots;
  uint32_t *marks;
  uint8_t *chain_values;
  uint32_t *chain_next;
  /* Two words: rows whose key was there before; rows whose key a perfect table has no place for. */
  uint64_t *state;
  /* Of a general table more than there are build rows, so that a search ends. */
  uint64_t slot_count;
  uint64_t first_key;
  /* A k_join_kind. */
  uint32_t kind;
  uint32_t width_bytes;
} k_join_table;

/* Where matches go. */
typedef struct k_join_output {
  /* Two words of an accumulator. */
  uint64_t *result;
  uint8_t *build_values;
  uint8_t *probe_values;
  /* Pairs numbered window_begin to window_begin + capacity - 1 are written, in the order in which result[0] counts. */
  uint64_t capacity;
  uint64_t window_begin;
  /* A k_join_mode. */
  uint64_t mode;
} k_join_output;

/* Inserts rows; a general table numbers them from first_row, fewer than 2^32 - 1 in all. */
typedef struct k_join_build_args {
  k_join_table table;
  const uint8_t *keys;
  const uint8_t *values;
  uint64_t count;
  uint64_t first_row;
  k_launch launch;
} k_join_build_args;

/* Looks rows up. */
typedef struct k_join_probe_args {
  k_join_table table;
  const uint8_t *keys;
  const uint8_t *values;
  uint64_t count;
  k_join_output output;
  k_launch launch;
} k_join_probe_args;

/* units[s] becomes the pieces of first_rows rows of segment s, times those of second_rows rows of the same segment of the
 * second offsets, if there are any; the last unit, behind those of all segments, becomes 0. */
typedef struct k_join_units_args {
  const uint64_t *first_offsets;
  const uint64_t *second_offsets;
  uint64_t segment_count;
  uint64_t first_rows;
  uint64_t second_rows;
  uint64_t *units;
  k_launch launch;
} k_join_units_args;

/* Partitions each segment by `bits` bits of the hash from begin_bit on. k_join_count adds to counts[s << bits | d] how
 * many rows of segment s have digit d; k_join_scatter puts rows where counts say that they begin, and advances them. */
typedef struct k_join_partition_args {
  const uint8_t *keys;
  const uint8_t *values;
  /* segment_count + 1 offsets; units are exclusive sums of those of k_join_units with first_rows K_JOIN_TILE_ROWS. */
  const uint64_t *offsets;
  const uint64_t *units;
  uint64_t segment_count;
  uint64_t *counts;
  uint8_t *target;
  uint8_t *target_values;
  uint32_t begin_bit;
  uint32_t bits;
  uint64_t width_bytes;
  k_launch launch;
} k_join_partition_args;

/* Joins each segment of the build side with that of the probe side by tables in shared memory. */
typedef struct k_join_pairs_args {
  const uint8_t *build_keys;
  const uint8_t *build_values;
  const uint64_t *build_offsets;
  const uint8_t *probe_keys;
  const uint8_t *probe_values;
  const uint64_t *probe_offsets;
  /* Exclusive sums of k_join_units with K_JOIN_BUILD_ROWS of the build side and K_JOIN_PROBE_ROWS of the probe side. */
  const uint64_t *units;
  uint64_t segment_count;
  k_join_output output;
  uint64_t width_bytes;
  k_launch launch;
} k_join_pairs_args;

static_assert(sizeof(k_join_table) == 64 && offsetof(k_join_table, kind) == 56, "layout");
static_assert(sizeof(k_join_output) == 48 && offsetof(k_join_output, mode) == 40, "layout");
static_assert(sizeof(k_join_build_args) == 104 && offsetof(k_join_build_args, first_row) == 88, "layout");
static_assert(sizeof(k_join_probe_args) == 144 && offsetof(k_join_probe_args, output) == 88, "layout");
static_assert(sizeof(k_join_units_args) == 56 && offsetof(k_join_units_args, units) == 40, "layout");
static_assert(sizeof(k_join_partition_args) == 88 && offsetof(k_join_partition_args, begin_bit) == 64, "layout");
static_assert(sizeof(k_join_pairs_args) == 128 && offsetof(k_join_pairs_args, output) == 64, "layout");

K_ENTRY int k_join_build(const k_join_build_args *args, void *stream);
K_ENTRY int k_join_probe(const k_join_probe_args *args, void *stream);
K_ENTRY int k_join_units(const k_join_units_args *args, void *stream);
K_ENTRY int k_join_count(const k_join_partition_args *args, void *stream);
K_ENTRY int k_join_scatter(const k_join_partition_args *args, void *stream);
K_ENTRY int k_join_pairs(const k_join_pairs_args *args, void *stream);

#endif
