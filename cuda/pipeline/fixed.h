// Kernels that are the same for every query: they make room in what pipelines leave behind, and gather it. They are a program
// of their own: in that of each pipeline they would be compiled again and again, for a third of the time that it takes.

// Sets every stride-th of a range of 64-bit words; or each to what its word of a state starts with, where states have
// so many words: two bits of `starts` a word say whether that is 0, the greatest number or the least.
ENTRY(k_fill) {
  u64* const target = (u64*)W(0);
  const u64 count = W(1), value = W(2), stride = W(3), words = W(4), starts = W(5);
  if (words == 0) {
    EACH_PLACE(i, count) target[i * stride] = value;
    return;
  }
#ifdef PELTON_GPU
  const u32 step = u32(THREAD_COUNT % words);
  u32 word = u32(THREAD % words);
  EACH_PLACE(i, count) {
    const u32 start = u32(starts >> (2 * word)) & 3;
    target[i] = start == 0 ? 0ull : start == 1 ? ~0ull >> 1 : 1ull << 63;
    word += step;
    if (word >= words) word -= u32(words);
  }
#else
  EACH_BLOCK(first, end, count) {
    u32 word = u32(first % words);
    for (u64 i = first; i < end; i++) {
      const u32 start = u32(starts >> (2 * word)) & 3;
      target[i] = start == 0 ? 0ull : start == 1 ? ~0ull >> 1 : 1ull << 63;
      if (++word == words) word = 0;
    }
  }
#endif
}

DEV void copy_group(const u64* groups, u64 place, u64 words, const u64* keys, u64* out, u64 row) {
  u64* const to = out + row * (words + 1);
  to[0] = keys ? keys[place] : place;
  for (u64 word = 0; word < words; word++) to[1 + word] = groups[place * words + word];
}

// Copies the groups that have rows to one place: the packed key of each, then its words. Without any room they are
// counted, by each thread for itself, since all meet at one address.
ENTRY(k_compact) {
  const u64* const groups = (const u64*)W(0);
  const u64 places = W(1), words = W(2), capacity = W(6);
  const u64* const keys = (const u64*)W(3);
  u64* const out = (u64*)W(4);
  u64* const count = (u64*)W(5);
  if (capacity == 0) {
    u64 own = 0;
    EACH_PLACE(place, places) own += load_once(groups + place * words) != 0;
    add_of_threads(count, own);
    return;
  }
#ifdef PELTON_GPU
  EACH_PLACE(place, places) {
    if (groups[place * words] == 0) continue;
    const u64 row = reserve_row(count);
    if (row < capacity) copy_group(groups, place, words, keys, out, row);
  }
#else
  EACH_BLOCK(first, end, places) {
    u64 own = 0;
    for (u64 place = first; place < end; place++) own += groups[place * words] != 0;
    if (own == 0) continue;
    u64 row = atomic_add(count, own);
    for (u64 place = first; place < end; place++) {
      if (groups[place * words] == 0) continue;
      if (row < capacity) copy_group(groups, place, words, keys, out, row);
      row++;
    }
  }
#endif
}

// Moves groups to a table with more slots. Wide groups are found by the bits of their tag, which are those of the hash.
ENTRY(k_move_groups) {
  const u64* const keys = (const u64*)W(0);
  const u64 places = W(1), words = W(3), slot_mask = W(5);
  const u64* const groups = (const u64*)W(2);
  u64* const new_keys = (u64*)W(4);
  u64* const new_groups = (u64*)W(6);
  const bool is_wide = W(7) != 0;
  EACH_PLACE(place, places) {
    const u64 key = keys[place];
    if (key == NO_KEY) continue;
    const u64 slot = slot_of_new(new_keys, slot_mask, is_wide ? key >> 1 : hash_of(key), key);
    for (u64 word = 0; word < words; word++) new_groups[slot * words + word] = groups[place * words + word];
  }
}

// Moves keys of a hash table, with the chains of rows that they lead to, to one with more slots. A key without rows
// stays behind: its row waits.
ENTRY(k_move_keys) {
  const u64* const keys = (const u64*)W(0);
  const u64 places = W(1), slot_mask = W(4), bloom_mask = W(7);
  const u32* const heads = (const u32*)W(2);
  u64* const new_keys = (u64*)W(3);
  u32* const new_heads = (u32*)W(5);
  u32* const bloom = (u32*)W(6);
  EACH_PLACE(place, places) {
    if (heads[place] == 0) continue;
    new_heads[slot_of_new(new_keys, slot_mask, hash_of(keys[place]), keys[place])] = heads[place];
    bloom_insert(bloom, bloom_mask, keys[place]);
  }
}
