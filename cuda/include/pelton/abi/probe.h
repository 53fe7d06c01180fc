/* Entries that fill, check, read and copy memory: for measuring a machine and for testing transfers.
 *
 * A word is 8 bytes, little-endian, counted from the start of the memory whatever its alignment; a last word that is
 * cut short counts as if zeros followed. An accumulator is what results are added to, so that many pieces of work can
 * share one; whoever makes it sets it to zero.
 */
#ifndef PELTON_ABI_PROBE_H
#define PELTON_ABI_PROBE_H

#include "pelton/abi/base.h"

/* Word i becomes the i-th output of splitmix64 seeded with `seed`. */
typedef struct k_fill_random_args {
  uint8_t *target;
  uint64_t bytes;
  uint64_t seed;
  k_launch launch;
} k_fill_random_args;

/* Every word becomes `word`. */
typedef struct k_fill_word_args {
  uint8_t *target;
  uint64_t bytes;
  uint64_t word;
  k_launch launch;
} k_fill_word_args;

/* Slots of a cycle for k_chase: the uint32_t at the start of each slot names the next slot. */
typedef struct k_fill_cycle_args {
  /* Aligned to 4 bytes; slot_count * stride_bytes long. */
  uint8_t *target;
  /* From slot to slot, a multiple of 4. */
  uint64_t stride_bytes;
  /* A power of two, at most 2^32. */
  uint64_t slot_count;
  uint64_t seed;
  k_launch launch;
} k_fill_cycle_args;

/* Adds the fingerprint of the bytes to the accumulator: sum and exclusive or of a mix of each word and its number. */
typedef struct k_fingerprint_args {
  const uint8_t *source;
  uint64_t bytes;
  /* Number of the first word, where the bytes are a piece of something longer. */
  uint64_t first_word;
  /* Two words: sum, exclusive or. Aligned to 8 bytes. */
  uint64_t *accumulator;
  k_launch launch;
} k_fingerprint_args;

/* Adds the sum of all words, modulo 2^64, to the accumulator. Sources aligned to 16 bytes are read fastest. */
typedef struct k_read_args {
  const uint8_t *source;
  uint64_t bytes;
  /* One word. Aligned to 8 bytes. */
  uint64_t *accumulator;
  k_launch launch;
} k_read_args;

/* Adds the sum of `count` elements at random indexes: the i-th is splitmix64's i-th output and `mask`. */
typedef struct k_gather_args {
  /* Aligned to the width of an element. */
  const uint8_t *source;
  /* Number of elements less 1; their number is a power of two. */
  uint64_t mask;
  uint64_t count;
  uint64_t seed;
  /* One word. Aligned to 8 bytes. */
  uint64_t *accumulator;
  /* Bytes of an element: 4 or 8. */
  uint64_t width_bytes;
  k_launch launch;
} k_gather_args;

/* Lets one thread follow a cycle of k_fill_cycle, and adds the number of the slot where it ends. Numbers are taken
 * modulo slot_count, so that other memory is not left either. */
typedef struct k_chase_args {
  /* Aligned to 4 bytes. */
  const uint8_t *source;
  uint64_t stride_bytes;
  /* A power of two, at most 2^32. */
  uint64_t slot_count;
  uint64_t first_slot;
  uint64_t step_count;
  /* One word. Aligned to 8 bytes. */
  uint64_t *accumulator;
  k_launch launch;
} k_chase_args;

/* Copies bytes that do not overlap; fastest where source and target are equally far from a multiple of 16. */
typedef struct k_copy_args {
  const uint8_t *source;
  uint8_t *target;
  uint64_t bytes;
  k_launch launch;
} k_copy_args;

static_assert(sizeof(k_fill_random_args) == 32 && offsetof(k_fill_random_args, launch) == 24, "layout");
static_assert(sizeof(k_fill_word_args) == 32 && offsetof(k_fill_word_args, launch) == 24, "layout");
static_assert(sizeof(k_fill_cycle_args) == 40 && offsetof(k_fill_cycle_args, seed) == 24, "layout");
static_assert(sizeof(k_fingerprint_args) == 40 && offsetof(k_fingerprint_args, accumulator) == 24, "layout");
static_assert(sizeof(k_read_args) == 32 && offsetof(k_read_args, accumulator) == 16, "layout");
static_assert(sizeof(k_gather_args) == 56 && offsetof(k_gather_args, width_bytes) == 40, "layout");
static_assert(sizeof(k_chase_args) == 56 && offsetof(k_chase_args, accumulator) == 40, "layout");
static_assert(sizeof(k_copy_args) == 32 && offsetof(k_copy_args, launch) == 24, "layout");

K_ENTRY int k_fill_random(const k_fill_random_args *args, void *stream);
K_ENTRY int k_fill_word(const k_fill_word_args *args, void *stream);
K_ENTRY int k_fill_cycle(const k_fill_cycle_args *args, void *stream);
K_ENTRY int k_fingerprint(const k_fingerprint_args *args, void *stream);
K_ENTRY int k_read(const k_read_args *args, void *stream);
K_ENTRY int k_gather(const k_gather_args *args, void *stream);
K_ENTRY int k_chase(const k_chase_args *args, void *stream);
K_ENTRY int k_copy(const k_copy_args *args, void *stream);

#endif
