// Groups of several parts made one: each part adds the state of its groups to a table that may hold groups of the same
// keys. What a word does is read from an array, so one program serves all queries.

// What a word of state does with values: the numbers of WordKind. The bits from the eighth on are the number of the check
// of a sum of 128 bits, 0 where it fits.
enum CombinedWord : u32 { WORD_ADD, WORD_ADD_LOW, WORD_ADD_HIGH, WORD_ADD_DOUBLE, WORD_MIN, WORD_MAX, WORD_KEY, WORD_LEAST_TEXT, WORD_GREATEST_TEXT };

// The partition of a group among `count`, by bits of the hash that its slot does not depend on unless there are more than
// 2^30 slots. The tag of a wide group is its hash.
DEV u64 partition_of(u64 key, bool is_wide, u64 count) {
  const u64 hash = is_wide ? key >> 1 : hash_of(key) >> 2;
  return (hash >> 30 & 0xFFFFFFFF) * count >> 32;
}

// As slot_to_insert, in a table that nobody waits for: NO_KEY only where every slot is taken.
DEV u64 slot_to_combine(u64* keys, u64 slot_mask, u64 key) {
  u64 slot = hash_of(key) & slot_mask;
  for (u64 step = 0; step <= slot_mask; step++) {
    u64 seen = *(volatile u64*)(keys + slot);
    if (seen == NO_KEY) seen = atomic_swap_if(keys + slot, NO_KEY, key);
    if (seen == NO_KEY || seen == key) return slot;
    slot = (slot + 1) & slot_mask;
  }
  return NO_KEY;
}

// As slot_to_insert_wide, for a key whose tag is known and whose `count` words lie at `key`.
DEV u64 slot_to_combine_wide(u64* tags, u64 slot_mask, u64 tag, const u64* key, u32 count, u64* words, u64 stride) {
  u64 slot = (tag >> 1) & slot_mask;
  for (u64 step = 0; step <= slot_mask; step++) {
    u64 seen = observe(tags + slot);
    if (seen == NO_KEY) {
      seen = atomic_swap_if(tags + slot, NO_KEY, tag & ~1ull);
      if (seen == NO_KEY) {
        for (u32 i = 0; i < count; i++) words[slot * stride + i] = key[i];
        publish(tags + slot, tag | 1);
        return slot;
      }
    }
    if ((seen | 1) == (tag | 1)) {
      while (!(seen & 1)) seen = observe(tags + slot);
      bool is_equal = true;
      for (u32 i = 0; i < count; i++) is_equal = is_equal && *(volatile u64*)(words + slot * stride + i) == key[i];
      if (is_equal) return slot;
    }
    slot = (slot + 1) & slot_mask;
  }
  return NO_KEY;
}

// Adds the groups of one part, of one partition of it. Groups found by position lead from their key to their place.
ENTRY(k_combine) {
  const u64* const keys = (const u64*)W(0);  // null: the key of a group is its place
  const u64* const groups = (const u64*)W(1);
  const u64 key_stride = W(2), group_stride = W(3), count = W(4), first_place = W(5);
  u64* const new_keys = (u64*)W(6);  // null: found by position
  u64* const new_groups = (u64*)W(7);
  const u64 slot_mask = W(8), words = W(9), partition = W(12), partition_count = W(13);
  const u64* const kinds = (const u64*)W(10);
  const u32 first_key_word = u32(W(11)), key_word_count = u32(W(11) >> 32);
  const bool is_wide = key_word_count != 0;
  u32* const flags = (u32*)W(14);
  u64* const without_room = (u64*)W(14) + 1;
#ifdef PELTON_TEXT_HEAP
  const u64* const heap = (const u64*)W(15);
  u64* const new_heap = (u64*)W(16);
#endif
  EACH_PLACE(i, count) {
    const u64* const from = groups + i * group_stride;
    if (from[0] == 0) continue;
    const u64 key = keys ? keys[i * key_stride] : first_place + i;
    if (partition_count > 1 && partition_of(key, is_wide, partition_count) != partition) continue;
    u64 slot = key;
    if (is_wide) {
      slot = slot_to_combine_wide(new_keys, slot_mask, key, from + first_key_word, key_word_count,
                                  new_groups + first_key_word, words);
    } else if (new_keys) {
      slot = slot_to_combine(new_keys, slot_mask, key);
    }
    if (slot == NO_KEY) { atomic_add(without_room, u64(1)); continue; }
    u64* const to = new_groups + slot * words;
    for (u64 word = 0; word < words; word++) {
      const u64 value = from[word];
      switch (u32(kinds[word]) & 0xFF) {
        case WORD_ADD: atomic_add(to + word, value); break;
        case WORD_ADD_LOW: {
          const i128 wide = i128((u128(from[word + 1]) << 64) | value);
          const u32 check = u32(kinds[word]) >> 8;
          if (!check) atomic_add_128(to + word, wide);
          else if (atomic_add_128_overflows(to + word, wide)) report_overflow(flags, check);
          break;
        }
        case WORD_ADD_DOUBLE: atomic_add((f64*)(to + word), of_bits(value)); break;
        case WORD_MIN: atomic_min((i64*)(to + word), i64(value)); break;
        case WORD_MAX: atomic_max((i64*)(to + word), i64(value)); break;
#ifdef PELTON_TEXT_HEAP
        case WORD_LEAST_TEXT:
          if (value && !keep_text<false>(to + word, kept_text(heap, value), new_heap)) atomic_add(without_room, u64(1));
          break;
        case WORD_GREATEST_TEXT:
          if (value && !keep_text<true>(to + word, kept_text(heap, value), new_heap)) atomic_add(without_room, u64(1));
          break;
#endif
        default: break;  // WORD_ADD_HIGH goes with the word before, WORD_KEY was written with its group
      }
    }
  }
}
