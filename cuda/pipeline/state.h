// What pipelines leave behind: hash tables, groups, rows.

const u64 NO_KEY = ~0ull;

// Longer runs of taken slots than this mean that a table is as good as full: at two thirds they have a probability below
// e^-70 a key. All equal hashes make one run.
#ifdef PELTON_EQUAL_HASHES
const u64 PROBES_MAX = ~0ull;
#else
const u64 PROBES_MAX = 1024;
#endif

// Rows of a lane that find no room in a sink: noted in the lane's word, and counted.
DEV void wait_for_room(u32* undone, u32 rows, u64* waiting) { *undone = rows; atomic_add(waiting, u64(ones(rows))); }
DEV u32 take_undone(u32* undone) { const u32 rows = *undone; if (rows) *undone = 0; return rows; }

// Open addressing over 64-bit keys, linear probing. Slots are a power of two. In a table that is as good as full there
// is no room for a new key, and once rows of the morsel wait for that nobody looks far for a slot.
DEV u64 slot_to_insert(u64* keys, u64 slot_mask, u64 key, const u64* waiting) {
  u64 slot = hash_of(key) & slot_mask;
  for (u64 step = 0; step <= slot_mask && step < PROBES_MAX; step++) {
    if (step == 32 && *(const volatile u64*)waiting) return NO_KEY;
    u64 seen = *(volatile u64*)(keys + slot);
    if (seen == NO_KEY) seen = atomic_swap_if(keys + slot, NO_KEY, key);
    if (seen == NO_KEY || seen == key) return slot;
    slot = (slot + 1) & slot_mask;
  }
  return NO_KEY;
}
DEV u64 slot_of(const u64* keys, u64 slot_mask, u64 key) {
  u64 slot = hash_of(key) & slot_mask;
  for (u64 step = 0; step <= slot_mask; step++) {
    const u64 seen = load(keys + slot);
    if (seen == key) return slot;
    if (seen == NO_KEY) return NO_KEY;
    slot = (slot + 1) & slot_mask;
  }
  return NO_KEY;
}

// A hash of K words.
template <u32 K>
DEV u64 hash_of_words(const u64 (&words)[K]) {
  u64 hash = 0;
  UNROLL
  for (u32 i = 0; i < K; i++) hash = hash_of(words[i] + hash * 0x9E3779B97F4A7C15ull);
  return hash;
}

// The same for keys of K words. A slot is found by a tag, the upper bits of the hash, and then all words are compared,
// which lie `stride` words apart behind `words`. A tag is even until the words of its slot are there: whoever meets it
// waits for whoever writes them.
template <u32 K>
DEV u64 slot_to_insert_wide(u64* tags, u64 slot_mask, const u64 (&key)[K], u64* words, u32 stride, const u64* waiting) {
  const u64 hash = hash_of_words(key);
  const u64 tag = hash & 0x7FFFFFFFFFFFFFFEull;
  u64 slot = (hash >> 1) & slot_mask;
  for (u64 step = 0; step <= slot_mask && step < PROBES_MAX; step++) {
    if (step == 32 && *(const volatile u64*)waiting) return NO_KEY;
    u64 seen = observe(tags + slot);
    if (seen == NO_KEY) {
      seen = atomic_swap_if(tags + slot, NO_KEY, tag);
      if (seen == NO_KEY) {
        for (u32 i = 0; i < K; i++) words[slot * stride + i] = key[i];
        publish(tags + slot, tag | 1);
        return slot;
      }
    }
    if ((seen | 1) == (tag | 1)) {
      while (!(seen & 1)) seen = observe(tags + slot);
      bool is_equal = true;
      for (u32 i = 0; i < K; i++) is_equal = is_equal && *(volatile u64*)(words + slot * stride + i) == key[i];
      if (is_equal) return slot;
    }
    slot = (slot + 1) & slot_mask;
  }
  return NO_KEY;
}
// A slot for a key that is not in the table, which has room for all that come. `start`: where to look first.
DEV u64 slot_of_new(u64* keys, u64 slot_mask, u64 start, u64 key) {
  u64 slot = start & slot_mask;
  while (*(volatile u64*)(keys + slot) != NO_KEY || atomic_swap_if(keys + slot, NO_KEY, key) != NO_KEY) {
    slot = (slot + 1) & slot_mask;
  }
  return slot;
}

// Adds a key to `list`, which begins with their number; where they are more than `max` nobody wants to know.
DEV void note_key(u64* list, u32 max, u64 key) {
  if (*(volatile u64*)list > max) return;
  const u64 place = atomic_add(list, u64(1));
  if (place < max) list[1 + place] = key;
}

// Two bits of one 64-bit word a key: what they do not both hold was never inserted (register-blocked Bloom filter,
// Putze, Sanders, Singler 2007).
DEV u64 bloom_bits(u64 hash) { return (1ull << (hash >> 52 & 63)) | (1ull << (hash >> 58)); }
DEV void bloom_insert(u32* words, u64 word_mask, u64 key) {
  const u64 hash = hash_of(key), bits = bloom_bits(hash);
  u32* at = words + 2 * ((hash >> 20) & word_mask);
  if (u32(bits)) atomic_or(at, u32(bits));
  if (u32(bits >> 32)) atomic_or(at + 1, u32(bits >> 32));
}
DEV bool bloom_may_hold(const u64* words, u64 word_mask, u64 key) {
  const u64 hash = hash_of(key), bits = bloom_bits(hash);
  return (load(words + ((hash >> 20) & word_mask)) & bits) == bits;
}

DEV bool bitmap_holds(const u32* bitmap, u64 index) { return load(bitmap + (index >> 5)) >> (index & 31) & 1; }

DEV void atomic_add_128(u64* at, i128 value) {
  const u64 low = u64(u128(value)), high = u64(u128(value) >> 64);
  const u64 before = atomic_add(at, low);
  const u64 carry = before + low < low ? 1 : 0;
  if (high + carry) atomic_add(at + 1, high + carry);
}
// The same; true where the sum may have left 128 bits on its way. The upper half by itself stays in 64 bits as long as
// no addition to it overflows, whatever the order in which carries come.
DEV bool atomic_add_128_overflows(u64* at, i128 value) {
  const u64 low = u64(u128(value));
  const u64 before = atomic_add(at, low);
  const u64 high = u64(u128(value) >> 64) + (before + low < low ? 1 : 0);
  if (high == 0) return false;
  const u64 was = atomic_add(at + 1, high), sum = was + high;
  return i64((was ^ sum) & (high ^ sum)) < 0 || (value > 0 && i64(high) < 0);
}

// The same among the threads of a block, which on the host is one.
#ifdef PELTON_GPU
DEV void block_add(u64* at, u64 value) { atomic_add(at, value); }
DEV void block_add(f64* at, f64 value) { atomic_add(at, value); }
DEV void block_min(i64* at, i64 value) { atomic_min(at, value); }
DEV void block_max(i64* at, i64 value) { atomic_max(at, value); }
DEV void block_add_128(u64* at, i128 value) { atomic_add_128(at, value); }
DEV bool block_add_128_overflows(u64* at, i128 value) { return atomic_add_128_overflows(at, value); }
#else
DEV void block_add(u64* at, u64 value) { *at += value; }
DEV void block_add(f64* at, f64 value) { *at += value; }
DEV void block_min(i64* at, i64 value) { if (value < *at) *at = value; }
DEV void block_max(i64* at, i64 value) { if (value > *at) *at = value; }
DEV bool block_add_128_overflows(u64* at, i128 value) {
  const Checked<i128> sum = checked_add(i128((u128(at[1]) << 64) | at[0]), value);
  at[0] = u64(u128(sum.value)); at[1] = u64(u128(sum.value) >> 64);
  return sum.overflows;
}
DEV void block_add_128(u64* at, i128 value) { block_add_128_overflows(at, value); }
#endif

// Each of the threads takes some of `count` places. On a GPU every so many, as the threads of a warp go to memory
// together; on the host some that follow each other, as cores that write to one cache line wait for each other.
#ifdef PELTON_GPU
#define THREAD (u64(blockIdx.x) * blockDim.x + threadIdx.x)
#define THREAD_COUNT (u64(gridDim.x) * blockDim.x)
#define EACH_PLACE(place, count) for (u64 place = THREAD; place < count; place += THREAD_COUNT)
#else
#define PLACES 4096
#define EACH_BLOCK(first, end, count) \
  for (u64 first = u64(worker) * PLACES, end; end = first + PLACES < count ? first + PLACES : count, first < count; \
       first += u64(worker_count) * PLACES)
#define EACH_PLACE(place, count) EACH_BLOCK(first_place_, end_place_, count) \
  for (u64 place = first_place_; place < end_place_; place++)
#endif
