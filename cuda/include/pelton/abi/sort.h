/* Entries that order, merge, place and count keys.
 *
 * Keys and values lie in memory aligned to their width. Values are of 4 or 8 bytes; where there are none, `value_bytes`
 * is 0 and their addresses mean nothing. What a word of a key is, pelton/common/order.h says: words compare as unsigned
 * numbers the way that keys are ordered.
 */
#ifndef PELTON_ABI_SORT_H
#define PELTON_ABI_SORT_H

#include "pelton/abi/base.h"

typedef enum k_key_type {
  K_KEY_U32 = 0,
  K_KEY_I32 = 1,
  K_KEY_U64 = 2,
  K_KEY_I64 = 3,
  K_KEY_F32 = 4,
  K_KEY_F64 = 5,
  K_KEY_I128 = 6,
  K_KEY_TYPE_COUNT = 7
} k_key_type;

typedef enum k_direction { K_ASCENDING = 0, K_DESCENDING = 1, K_DIRECTION_COUNT = 2 } k_direction;

typedef struct k_key_order {
  /* A k_key_type. */
  uint32_t key_type;
  /* A k_direction. */
  uint32_t direction;
} k_key_order;

/* Sorts, stable, by bits begin_bit to end_bit of the words of keys. */
typedef struct k_sort_args {
  /* keys[0] and values[0] hold what is sorted, the others nothing. */
  uint8_t *keys[2];
  uint8_t *values[2];
  uint64_t count;
  uint8_t *scratch;
  /* At least what RadixSort::scratch_bytes of the caller's side says. */
  uint64_t scratch_bytes;
  k_key_order order;
  uint32_t begin_bit;
  uint32_t end_bit;
  uint32_t value_bytes;
  /* Where the result goes: ceil((end_bit - begin_bit) / 8) modulo 2. */
  uint32_t result_index;
  k_launch launch;
} k_sort_args;

/* Merges two sorted runs, stable: of equal keys those of the first come first. */
typedef struct k_merge_args {
  const uint8_t *keys[2];
  const uint8_t *values[2];
  uint64_t counts[2];
  uint8_t *target;
  uint8_t *target_values;
  k_key_order order;
  uint64_t value_bytes;
  k_launch launch;
} k_merge_args;

/* Element i of the target becomes element indices[i] of the source, zeros where there is none. */
typedef struct k_take_args {
  const uint8_t *source;
  /* Elements of the source. */
  uint64_t source_count;
  const uint8_t *indices;
  /* Indices, and elements of the target. */
  uint64_t count;
  uint8_t *target;
  /* Bytes of an element: 1, 2, 4, 8 or 16. */
  uint32_t width_bytes;
  /* Bytes of an index: 4 or 8. */
  uint32_t index_bytes;
  k_launch launch;
} k_take_args;

/* The same for bits, bit i being bit i modulo 8 of byte i / 8. Bits of the last byte beyond `count` become 0. */
typedef struct k_take_bits_args {
  const uint8_t *source;
  uint64_t source_count;
  const uint8_t *indices;
  uint64_t count;
  uint8_t *target;
  uint64_t index_bytes;
  k_launch launch;
} k_take_bits_args;

static_assert(sizeof(k_key_order) == 8, "k_key_order has no padding");
static_assert(sizeof(k_sort_args) == 88 && offsetof(k_sort_args, order) == 56, "layout");
static_assert(offsetof(k_sort_args, launch) == 80, "layout");
static_assert(sizeof(k_merge_args) == 88 && offsetof(k_merge_args, order) == 64, "layout");
static_assert(sizeof(k_take_args) == 56 && offsetof(k_take_args, width_bytes) == 40, "layout");
static_assert(sizeof(k_take_bits_args) == 56 && offsetof(k_take_bits_args, index_bytes) == 40, "layout");

K_ENTRY int k_sort(const k_sort_args *args, void *stream);
K_ENTRY int k_merge(const k_merge_args *args, void *stream);
K_ENTRY int k_take(const k_take_args *args, void *stream);
K_ENTRY int k_take_bits(const k_take_bits_args *args, void *stream);

#endif
