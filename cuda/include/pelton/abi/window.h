/* Entries for window functions: groups of sorted elements, segmented scans, and what frames of rows give.
 *
 * Elements are in order. An array of flags, a byte each, has a bit for each level of grouping: bit l is set where a group
 * of level l begins. An element with number i is of the row with number indices[i]: arrays of values are by row, results
 * are by element. A byte for each row says whether its value is one, 0 for NULL.
 */
#ifndef PELTON_ABI_WINDOW_H
#define PELTON_ABI_WINDOW_H

#include "pelton/abi/sort.h"

/* Levels of grouping at most: bits of a flag. */
#define K_GROUP_LEVELS 8u

/* Sets bit l of flags[i] where bits masks[l] of words[i] and words[i - 1] differ, and for i = 0. */
typedef struct k_mark_groups_args {
  const uint64_t *words;
  uint8_t *flags;
  uint64_t count;
  uint64_t masks[K_GROUP_LEVELS];
  /* Not 0: flags become these bits. 0: these bits are added to those that are there. */
  uint64_t is_first;
  k_launch launch;
} k_mark_groups_args;

/* target[i] becomes the number of the first, or the last, element of the group that element i is in. */
typedef struct k_group_edges_args {
  const uint8_t *flags;
  uint32_t *target;
  uint64_t count;
  uint8_t *scratch;
  uint64_t scratch_bytes;
  /* The bit of the level. */
  uint32_t flag;
  /* Not 0: the last element. */
  uint32_t is_last;
  k_launch launch;
} k_group_edges_args;

typedef enum k_scan_operation {
  /* Of integers modulo 2^64 or 2^128. */
  K_SCAN_SUM = 0,
  /* Of doubles in their total order. */
  K_SCAN_MIN = 1,
  K_SCAN_MAX = 2,
  /* Of values that are not NULL; of elements where there is no array that says which are. */
  K_SCAN_COUNT = 3,
  /* Of elements that have `counted_flag`. */
  K_SCAN_COUNT_FLAGS = 4,
  K_SCAN_COUNT_OPERATIONS = 5
} k_scan_operation;

/* target[i] becomes what the operation makes of the values of all elements of the group up to i. Where all of them are
 * NULL, it is some value. */
typedef struct k_segmented_scan_args {
  /* Null for counts. */
  const uint8_t *source;
  /* Null where none is NULL. */
  const uint8_t *valid;
  const uint32_t *indices;
  const uint8_t *flags;
  uint8_t *target;
  /* How many of the values are not NULL; null: not asked for. */
  uint32_t *target_counts;
  uint64_t count;
  uint8_t *scratch;
  uint64_t scratch_bytes;
  /* Of the source, and of the target: K_KEY_I32, K_KEY_I64, K_KEY_I128 or K_KEY_F64. Counts are K_KEY_I64. */
  uint32_t source_type;
  uint32_t target_type;
  uint32_t operation;
  uint32_t flag;
  uint32_t counted_flag;
  uint32_t reserved;
  k_launch launch;
} k_segmented_scan_args;

/* The first and the last element of the partition, and of those in it that are equal to an element. Null where nobody
 * asks. */
typedef struct k_edges {
  const uint32_t *partition_first;
  const uint32_t *partition_last;
  const uint32_t *peers_first;
  const uint32_t *peers_last;
} k_edges;

typedef enum k_ranking {
  K_RANK = 0,
  /* Doubles from here on. */
  K_PERCENT_RANK = 1,
  K_CUME_DIST = 2,
  /* An integer again. */
  K_NTILE = 3,
  K_RANKING_COUNT = 4
} k_ranking;

/* target[i], 8 bytes, becomes the rank of element i. */
typedef struct k_rank_args {
  k_edges edges;
  uint8_t *target;
  uint64_t count;
  /* Of K_NTILE: at least 1. */
  uint64_t tiles;
  uint32_t ranking;
  uint32_t reserved;
  k_launch launch;
} k_rank_args;

typedef enum k_frame_edge {
  /* Where the partition begins or ends. */
  K_EDGE_PARTITION = 0,
  /* Where the elements that are equal to this one begin or end. */
  K_EDGE_PEERS = 1,
  /* So many elements after this one, or before it if negative; in the partition. */
  K_EDGE_ROWS = 2,
  K_EDGE_COUNT = 3
} k_frame_edge;

/* From which element to which; none where the first comes after the last. */
typedef struct k_frame {
  int64_t start_rows;
  int64_t end_rows;
  uint32_t start;
  uint32_t end;
} k_frame;

typedef enum k_pick_kind {
  K_PICK_FIRST = 0,
  K_PICK_LAST = 1,
  /* Of the frame: from 1 at its first element, from -1 at its last. */
  K_PICK_NTH = 2,
  /* Of the partition: so many elements after this one. */
  K_PICK_SHIFT = 3,
  K_PICK_COUNT = 4
} k_pick_kind;

/* target[i] becomes the value of the element that is picked for i; the fallback where there is none. */
typedef struct k_pick_args {
  const uint8_t *source;
  const uint8_t *valid;
  const uint32_t *indices;
  k_edges edges;
  k_frame frame;
  uint8_t *target;
  uint8_t *target_valid;
  uint64_t count;
  uint64_t fallback[2];
  int64_t number;
  uint32_t pick;
  /* 1, 4, 8 or 16. */
  uint32_t width_bytes;
  uint64_t has_fallback;
  k_launch launch;
} k_pick_args;

typedef enum k_frame_operation {
  /* What a segmented scan over partitions gives for the frame. Of a frame that begins with the partition it is what is at its
   * end; of others, the difference of sums of integers. */
  K_FRAME_VALUE = 0,
  /* How many elements: K_KEY_I64. */
  K_FRAME_ROWS = 1,
  /* The sum as a double, divided by the number of values times `unit`: K_KEY_F64. */
  K_FRAME_AVERAGE = 2,
  K_FRAME_OPERATION_COUNT = 3
} k_frame_operation;

/* target[i] becomes what the operation makes of the frame of element i. */
typedef struct k_frame_args {
  /* The results of the scan, by element; null for rows. */
  const uint8_t *source;
  /* Its counts; null where no value is NULL. */
  const uint32_t *counts;
  k_edges edges;
  k_frame frame;
  uint8_t *target;
  /* 0 where no value is in the frame; null where nobody asks. */
  uint8_t *target_valid;
  uint64_t count;
  double unit;
  /* Of the source: K_KEY_I32, K_KEY_I64, K_KEY_I128 or K_KEY_F64. */
  uint32_t source_type;
  uint32_t operation;
  k_launch launch;
} k_frame_args;

/* The frame of element i becomes [first[i], last[i]], where `frame` is of keys: K_EDGE_ROWS is so far from the key of the
 * element, along their order. Of an empty frame, first is 1 and last is 0. The frame of a NULL begins and ends with its peers
 * in place of a distance. No key and distance together may pass 64 bits. */
typedef struct k_key_frames_args {
  /* Keys, in order within each partition: by row where there are indices, else by element. */
  const uint8_t *source;
  /* Null where none is NULL. */
  const uint8_t *valid;
  const uint32_t *indices;
  /* Those of the partition; of peers where the frame names them, or a key may be NULL. */
  k_edges edges;
  k_frame frame;
  uint32_t *first;
  uint32_t *last;
  uint64_t count;
  /* K_KEY_I32 or K_KEY_I64. */
  uint32_t source_type;
  /* Bits: 1 for keys that descend, 2 for NULLs that come first. */
  uint32_t order;
  k_launch launch;
} k_key_frames_args;

static_assert(sizeof(k_mark_groups_args) == 104 && offsetof(k_mark_groups_args, is_first) == 88, "layout");
static_assert(sizeof(k_group_edges_args) == 56 && offsetof(k_group_edges_args, flag) == 40, "layout");
static_assert(sizeof(k_segmented_scan_args) == 104 && offsetof(k_segmented_scan_args, source_type) == 72, "layout");
static_assert(sizeof(k_edges) == 32 && sizeof(k_frame) == 24, "layout");
static_assert(sizeof(k_rank_args) == 72 && offsetof(k_rank_args, ranking) == 56, "layout");
static_assert(sizeof(k_pick_args) == 152 && offsetof(k_pick_args, number) == 120, "layout");
static_assert(sizeof(k_frame_args) == 120 && offsetof(k_frame_args, source_type) == 104, "layout");
static_assert(sizeof(k_key_frames_args) == 120 && offsetof(k_key_frames_args, source_type) == 104, "layout");

K_ENTRY int k_mark_groups(const k_mark_groups_args *args, void *stream);
K_ENTRY int k_group_edges(const k_group_edges_args *args, void *stream);
K_ENTRY int k_segmented_scan(const k_segmented_scan_args *args, void *stream);
K_ENTRY int k_rank(const k_rank_args *args, void *stream);
K_ENTRY int k_pick(const k_pick_args *args, void *stream);
K_ENTRY int k_frame_values(const k_frame_args *args, void *stream);
K_ENTRY int k_key_frames(const k_key_frames_args *args, void *stream);

#endif
