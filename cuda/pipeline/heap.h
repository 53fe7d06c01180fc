// Least and greatest texts of groups: their bytes are copied to a heap in device memory, and the word of a group's state
// says where the best one so far lies.
//
//   heap    bytes used (more than there are: it is full) | bytes that there are | text | text | ...
//   text    length (u64) | bytes, up to a multiple of 8
//   word    0: NULL; else the offset of a text
//
// A text that is better is written to new room, and then takes the place of the word that it was compared with. Where
// another one was faster, it is compared again and needs no further room. What was replaced stays in the heap: of rows in
// no particular order a group replaces its text about as often as the logarithm of their number says.
//
// Most rows read the word and some bytes of a text, both of which are in the cache where groups are few, and write
// nothing.

// The text that a word says; of NULL anything.
DEV TextView kept_text(const u64* heap, u64 word) {
  const u64* const text = heap + (word >> 3);
  return {(const u8*)(text + 1), word ? u32(*text) : 0};
}

// A short text (text.h) with its length.
struct ShortText { u128 value; u32 length; };
DEV ShortText short_of(u128 value) { return {value, u32(value) & 255}; }

struct ShortWords {
  u128 value;
  u32 left;
  DEV u32 next(u32& count) {
    count = at_most_four(left);
    const u32 word = swap_bytes(u32(value >> 96)) & first_bytes(count);
    value <<= 32; left -= count;
    return word;
  }
};
DEV ShortWords words_of(ShortText text) { return {text.value, text.length}; }
DEV u32 byte_length(ShortText text) { return text.length; }

// Less than 0, 0, or more, as `text` comes before what is kept at `kept`, is it, or comes after it. What is kept may have
// been written by this launch: no read of it goes through a cache that does not notice that.
template <class Text> DEV i32 order_beside(Text text, const u64* kept) {
  const u32 length = u32(*(const volatile u64*)kept);
  const volatile u32* const words = (const volatile u32*)(kept + 1);
  auto own = words_of(text);
  for (u32 i = 0;; i += 4) {
    u32 count;
    const u32 word = own.next(count), kept_count = at_most_four(length - i), both = count < kept_count ? count : kept_count;
    const u32 a = word & first_bytes(both), b = (both ? words[i >> 2] : 0) & first_bytes(both);
    if (a != b) {
      const u32 bit = trailing_zeros(a ^ b) & ~7u;
      return (a >> bit & 255) < (b >> bit & 255) ? -1 : 1;
    }
    if (both < 4) return count < kept_count ? -1 : i32(count > kept_count);
  }
}

// Room for a text of so many bytes; 0 where there is none. In a full heap nobody looks for any.
DEV u64 reserve_text(u64* heap, u32 length) {
  const u64 bytes = 8 + ((u64(length) + 7) & ~7ull), limit = heap[1];
  if (*(const volatile u64*)heap > limit) return 0;
  const u64 at = atomic_add(heap, bytes);
  return at + bytes <= limit ? at : 0;
}

// Makes `text` what the word at `at` says where it is better; false where the heap has no room for it.
template <bool GREATEST, class Text> DEV bool keep_text(u64* at, Text text, u64* heap) {
  u64 seen = observe(at), own = 0;
  for (;;) {
    if (seen) {
      const i32 order = order_beside(text, heap + (seen >> 3));
      if (GREATEST ? order <= 0 : order >= 0) return true;
    }
    if (!own) {
      const u32 length = byte_length(text);
      own = reserve_text(heap, length);
      if (!own) return false;
      u64* const to = heap + (own >> 3);
      to[0] = length;
      u32* const words = (u32*)(to + 1);
      auto bytes = words_of(text);
      for (u32 i = 0, count; i < length; i += 4) words[i >> 2] = bytes.next(count);
      fence();
    }
    const u64 was = atomic_swap_if(at, seen, own);
    if (was == seen) return true;
    fence();
    seen = was;
  }
}
