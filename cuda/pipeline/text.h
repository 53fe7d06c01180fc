// Text without a dictionary of its column: views of the bytes in its chunks (docs/specs/chunk.md), what they match, and
// short texts as values.
//
//   page     lengths, packed ──decode──► starts, in scratch ──view(vector, r, lane)──► TextView
//   pattern  %special%requests% ──► text constants: a table in memory, so that other constants are no other kernel
//
// A lane reads its row's text by itself, 16 bytes a load, and those of a warp are neighbours, so what one lane leaves
// of a cache line another one takes. A search compares four bytes at each position: a shift, a logical operation and a
// comparison, and per 16 bytes some 20 instructions more, all together 4 a byte. At 132 multiprocessors of 128 lanes
// and 1.7 GHz that is 7 TB/s where all rows of a warp are equally long: reading the text once is the floor, 3 to 5 TB/s
// from device memory. What is lost is lost to rows of unequal length: a warp takes as long as the longest of its 32.
// (Instructions are counted by hand, not measured.)

// An entry of the table of text constants.
//
//   text        offset of its bytes in the table (a multiple of 4, zeros behind them), length, the first four bytes and
//               which bits of them it has
//   list        number of its first entry, how many
//   substring   characters before it, its characters; ~0 is all
//   hash key    its four words
//   pattern     number of its first step, how many, how many of them may be left out
//   step        offset of its bytes, how many; which it is; the byte that ends `UNTIL`
struct TextConstant { u32 offset, length, first, mask; };
DEV TextConstant text_constant(const u8* constants, u32 index) {
  const u32* const words = (const u32*)constants + 4 * index;
  return {load(words), load(words + 1), load(words + 2), load(words + 3)};
}

// Whether these bytes, `length` of which there are, are those of a constant.
DEV bool bytes_equal(const u8* at, const u8* constant, u32 length) {
  for (u32 i = 0; i < length; i += 4) {
    if (bytes_at(at + i, at_most_four(length - i)) != load((const u32*)(constant + i))) return false;
  }
  return true;
}

DEV bool text_equals(TextView text, const u8* constants, u32 index) {
  const TextConstant with = text_constant(constants, index);
  return text.length == with.length && bytes_equal(text.at, constants + with.offset, with.length);
}

// Less than 0, 0, or more, as the text comes before a constant, is it, or comes after it.
template <class Text> DEV i32 text_order(Text text, const u8* constants, u32 index) {
  const TextConstant with = text_constant(constants, index);
  auto words = words_of(text);
  for (u32 i = 0;; i += 4) {
    u32 count;
    const u32 word = words.next(count), with_count = at_most_four(with.length - i), both = count < with_count ? count : with_count;
    const u32 a = word & first_bytes(both), b = (both ? load((const u32*)(constants + with.offset + i)) : 0) & first_bytes(both);
    if (a != b) {
      const u32 bit = trailing_zeros(a ^ b) & ~7u;
      return (a >> bit & 255) < (b >> bit & 255) ? -1 : 1;
    }
    if (both < 4) return count < with_count ? -1 : i32(count > with_count);
  }
}

template <class Text> DEV bool text_in(Text text, const u8* constants, u32 index) {
  const TextConstant list = text_constant(constants, index);
  bool is_in = false;
  for (u32 i = 0; i < list.length && !is_in; i++) is_in = text_equals(text, constants, list.offset + i);
  return is_in;
}

// Whether constants `piece` to before `pieces_end`, none of them empty, are found one after the other in [from, end).
// One pass: where one is found, the search goes on behind it for the next. The leftmost place of each leaves the most
// room for those after it.
#ifdef PELTON_GPU
DEV bool finds(const u8* from, const u8* end, const u8* constants, u32 piece, u32 pieces_end) {
  TextConstant wanted = text_constant(constants, piece);
  if (u64(end - from) < wanted.length) return false;
  const u8* last = end - wanted.length;
  // Blocks of 16 bytes as they are aligned in memory: each has a byte of the text, and no other one is read.
  const u8* block = from - (u64(from) & 15);
  u32 words[5], ahead[4];
  load_block(block, words);
  for (;;) {
    const u8* next = block + 16;
    if (next < end) load_block(next, ahead);
    else { UNROLL for (u32 i = 0; i < 4; i++) ahead[i] = 0; }
    words[4] = ahead[0];
    bool is_candidate = false;
    UNROLL
    for (u32 i = 0; i < 16; i++) is_candidate |= ((shift_pair(words[i >> 2], words[(i >> 2) + 1], 8 * (i & 3)) ^ wanted.first) & wanted.mask) == 0;
    if (is_candidate) {
      u32 candidates = 0;
      UNROLL
      for (u32 i = 0; i < 16; i++) candidates |= u32(((shift_pair(words[i >> 2], words[(i >> 2) + 1], 8 * (i & 3)) ^ wanted.first) & wanted.mask) == 0) << i;
      while (candidates) {
        const u8* const at = block + trailing_zeros(candidates);
        candidates &= candidates - 1;
        if (at < from || at > last) continue;
        if (wanted.length > 4 && !bytes_equal(at + 4, constants + wanted.offset + 4, wanted.length - 4)) continue;
        if (++piece == pieces_end) return true;
        from = at + wanted.length;
        wanted = text_constant(constants, piece);
        if (u64(end - from) < wanted.length) return false;
        last = end - wanted.length;
        next = from - (u64(from) & 15);
        load_block(next, ahead);
        break;
      }
    }
    if (next > last) return false;
    block = next;
    UNROLL
    for (u32 i = 0; i < 4; i++) words[i] = ahead[i];
  }
}
#else
// The first place of `length` bytes, one or more, in [from, end); 0 where there is none. WIDTH places at a time, where there
// are so many: whole texts are compared only where the first and the last byte fit.
#ifdef __x86_64__
template <u32 WIDTH> struct Bytes { typedef u8 Vector __attribute__((vector_size(WIDTH))); typedef char Mask __attribute__((vector_size(WIDTH))); };
DEV u32 bits_of(Bytes<16>::Mask mask) { return u32(__builtin_ia32_pmovmskb128(mask)); }
#ifdef __AVX2__
DEV u32 bits_of(Bytes<32>::Mask mask) { return u32(__builtin_ia32_pmovmskb256(mask)); }
#endif
// A bit for each of the bytes from `at` on that is `byte`.
template <u32 WIDTH> DEV u32 equal_bytes(const u8* at, u8 byte) {
  typename Bytes<WIDTH>::Vector bytes; memcpy(&bytes, at, WIDTH);
  return bits_of((typename Bytes<WIDTH>::Mask)(bytes == byte));
}
// The first of the places [from, last], of which there are WIDTH or more, where it is; 0 where it is at none.
template <u32 WIDTH> DEV const u8* find_among(const u8* from, const u8* last, const u8* wanted, u32 length) {
  for (;;) {
    u32 fits = equal_bytes<WIDTH>(from, wanted[0]) & equal_bytes<WIDTH>(from + length - 1, wanted[length - 1]);
    for (; fits; fits &= fits - 1) {
      const u8* const at = from + trailing_zeros(fits);
      if (memcmp(at, wanted, length) == 0) return at;
    }
    const u64 left = u64(last - from);
    if (left < WIDTH) return 0;
    // The last of them are as many again: some are looked at twice.
    from = left < 2 * WIDTH ? last + 1 - WIDTH : from + WIDTH;
  }
}
#endif
DEV const u8* find_bytes(const u8* from, const u8* end, const u8* wanted, u32 length) {
  if (u64(end - from) < length) return 0;
  const u8* const last = end - length;
#ifdef __AVX2__
  if (last - from >= 31) return find_among<32>(from, last, wanted, length);
#endif
#ifdef __x86_64__
  if (last - from >= 15) return find_among<16>(from, last, wanted, length);
#endif
  for (; from <= last; from++) if (*from == *wanted && memcmp(from, wanted, length) == 0) return from;
  return 0;
}
DEV bool finds(const u8* from, const u8* end, const u8* constants, u32 piece, u32 pieces_end) {
  for (; piece < pieces_end; piece++) {
    const TextConstant wanted = text_constant(constants, piece);
    from = find_bytes(from, end, constants + wanted.offset, wanted.length);
    if (!from) return false;
    from += wanted.length;
  }
  return true;
}
#endif

// Whether the text matches a pattern of PIECES constants from `piece` on; START: the first one starts it, END: the last
// one ends it. Without pieces only the empty text is both.
template <bool START, bool END, u32 PIECES> DEV bool text_like(TextView text, const u8* constants, u32 piece) {
  if constexpr (PIECES == 0) return !START || text.length == 0;
  const u8 *from = text.at, *end = from + text.length;
  u32 pieces_end = piece + PIECES;
  if constexpr (START) {
    const TextConstant first = text_constant(constants, piece);
    if (END && PIECES == 1 ? text.length != first.length : text.length < first.length) return false;
    if (!bytes_equal(from, constants + first.offset, first.length)) return false;
    from += first.length;
    piece++;
  }
  if constexpr (END && !(START && PIECES == 1)) {
    const TextConstant last = text_constant(constants, --pieces_end);
    if (u64(end - from) < last.length || !bytes_equal(end - last.length, constants + last.offset, last.length)) return false;
    end -= last.length;
  }
  if constexpr (PIECES > u32(START) + u32(END)) return finds(from, end, constants, piece, pieces_end);
  return true;
}

// Characters are UTF-8: a byte that goes on with one is 10xxxxxx.
const u8 ANY_CHARACTER = 0xFF;
DEV bool continues_character(u8 byte) { return (byte & 0xC0) == 0x80; }
DEV const u8* after_character(const u8* at, const u8* end) {
  do at++; while (at < end && continues_character(load(at)));
  return at;
}
DEV const u8* before_character(const u8* begin, const u8* at) {
  do at--; while (at > begin && continues_character(load(at)));
  return at;
}

// Where a piece with ANY_CHARACTER ends that starts at `at`, or starts that ends at `at`; 0 where it does not match.
DEV const u8* end_of_match(const u8* at, const u8* end, const u8* constants, TextConstant piece) {
  for (u32 i = 0; i < piece.length; i++) {
    const u8 byte = load(constants + piece.offset + i);
    if (at == end || (byte != ANY_CHARACTER && load(at) != byte)) return 0;
    at = byte == ANY_CHARACTER ? after_character(at, end) : at + 1;
  }
  return at;
}
DEV const u8* start_of_match(const u8* begin, const u8* at, const u8* constants, TextConstant piece) {
  for (u32 i = piece.length; i > 0; i--) {
    const u8 byte = load(constants + piece.offset + i - 1);
    if (at == begin) return 0;
    at = byte == ANY_CHARACTER ? before_character(begin, at) : at - 1;
    if (byte != ANY_CHARACTER && load(at) != byte) return 0;
  }
  return at;
}

// As text_like, of pieces with ANY_CHARACTER. A piece is a number of characters, so the leftmost match ends first.
template <bool START, bool END, u32 PIECES> DEV bool text_like_characters(TextView text, const u8* constants, u32 piece) {
  const u8 *from = text.at, *end = from + text.length;
  u32 pieces_end = piece + PIECES;
  if constexpr (START) {
    from = end_of_match(from, end, constants, text_constant(constants, piece++));
    if (!from) return false;
    if constexpr (END && PIECES == 1) return from == end;
  }
  if constexpr (END) {
    end = start_of_match(from, end, constants, text_constant(constants, --pieces_end));
    if (!end) return false;
  }
  for (; piece < pieces_end; piece++) {
    const TextConstant wanted = text_constant(constants, piece);
    const u8* found = 0;
    while (!(found = end_of_match(from, end, constants, wanted))) {
      if (from == end) return false;
      from = after_character(from, end);
    }
    from = found;
  }
  return true;
}

DEV TextView text_part(TextView text, const u8* constants, u32 index) {
  const TextConstant part = text_constant(constants, index);
  const u8 *at = text.at, *const end = at + text.length;
  for (u32 i = 0; i < part.offset && at < end; i++) at = after_character(at, end);
  const u8* const first = at;
  if (part.length == ~0u) return {first, u32(end - first)};
  for (u32 i = 0; i < part.length && at < end; i++) at = after_character(at, end);
  return {first, u32(at - first)};
}

// The steps of a pattern: bytes, and bytes or nothing; as many bytes of a set of 256 bits as there are, at least so many,
// and the same of all bytes but one; where the part begins, and where it ends.
enum : u32 { STEP_LITERAL, STEP_OPTIONAL, STEP_SET, STEP_UNTIL, STEP_BEGIN, STEP_END };

// Where a byte is first, else `end`.
DEV const u8* find_byte(const u8* at, const u8* end, u32 byte) {
  while (at < end) {
    const u32 count = at_most_four(u32(end - at)), word = bytes_at(at, count) ^ byte * 0x01010101;
    // The highest bit of each byte that is 0; of those above the lowest such one it may say so wrongly.
    const u32 zeros = (word - 0x01010101) & ~word & 0x80808080;
    if (zeros) {
      const u32 place = trailing_zeros(zeros) >> 3;
      return place < count ? at + place : end;
    }
    at += count;
  }
  return end;
}

// The part that a pattern of the whole text takes out; the text where it does not match. As crates/pipeline/src/text_extract.rs:
// what may be left out is there before it is not, the first one most of all.
DEV TextView text_extract(TextView text, const u8* constants, u32 index) {
  const TextConstant pattern = text_constant(constants, index);
  const u8* const end = text.at + text.length;
  for (u32 left_out = 0; left_out >> pattern.first == 0; left_out++) {
    const u8 *at = text.at, *from = at, *to = at;
    u32 optional = pattern.first;
    bool is_match = true;
    for (u32 i = 0; i < pattern.length && is_match; i++) {
      const TextConstant step = text_constant(constants, pattern.offset + i);
      const u8* const bytes = constants + step.offset;
      if (step.first == STEP_BEGIN) from = at;
      else if (step.first == STEP_END) to = at;
      else if (step.first <= STEP_OPTIONAL) {
        if (step.first == STEP_OPTIONAL && left_out >> --optional & 1) continue;
        is_match = u64(end - at) >= step.length && bytes_equal(at, bytes, step.length);
        if (is_match) at += step.length;
      } else {
        const u8* const first = at;
        if (step.first == STEP_UNTIL) at = find_byte(at, end, step.mask);
        else for (; at < end; at++) {
          const u32 byte = load(at);
          if (!(load((const u32*)bytes + (byte >> 5)) >> (byte & 31) & 1)) break;
        }
        is_match = u64(at - first) >= step.length;
      }
    }
    if (is_match && at == end) return {from, u32(to - from)};
  }
  return text;
}

template <class Text> DEV i32 text_characters(Text text) {
  auto words = words_of(text);
  u32 characters = 0, count;
  do {
    const u32 bytes = words.next(count);
    characters += count - ones((bytes >> 7) & ~(bytes >> 6) & 0x01010101);
  } while (count == 4);
  return i32(characters);
}

// A short text as a value: its bytes from the highest on, then zeros, in the lowest byte its length. Equal values are
// equal texts, and the order of unsigned numbers is that of texts. What is too long is empty.
const u32 SHORT_TEXT_BYTES = 15;
DEV u128 short_text(TextView text) {
  if (text.length > SHORT_TEXT_BYTES) return 0;
  u64 halves[2] = {0, text.length};
  UNROLL
  for (u32 i = 0; i < 16; i += 4) {
    if (i < text.length) halves[i >> 3] |= u64(swap_bytes(bytes_at(text.at + i, at_most_four(text.length - i)))) << (i & 4 ? 0 : 32);
  }
  return (u128(halves[0]) << 64) | halves[1];
}

// The beginning of a text of any length, likewise: in the lowest byte of one that goes on beyond it is one more than any
// short text has. Where that is not so, equal values are equal texts; the order of the values is never against that of texts.
template <class Text> DEV u128 text_prefix(Text text) {
  auto words = words_of(text);
  u64 halves[2] = {0, 0};
  u32 length = 0;
  UNROLL
  for (u32 i = 0; i <= SHORT_TEXT_BYTES; i += 4) {
    u32 count;
    const u32 word = words.next(count);
    halves[i >> 3] |= u64(swap_bytes(word)) << (i & 4 ? 0 : 32);
    length += count;
  }
  return (u128(halves[0]) << 64) | (halves[1] & ~u64(255)) | length;
}

// SipHash with one round a word and three at the end, 128 bits wide, keyed by an entry of the table: what the host computes
// too (crates/pipeline/src/text_hash.rs). A round is 14 operations of 64 bits, and takes in 8 bytes of the text.
DEV u64 rotated(u64 x, u32 bits) { return (x << bits) | (x >> (64 - bits)); }
struct HashState {
  u64 a, b, c, d;
  DEV void round() {
    a += b; b = rotated(b, 13) ^ a; a = rotated(a, 32);
    c += d; d = rotated(d, 16) ^ c;
    a += d; d = rotated(d, 21) ^ a;
    c += b; b = rotated(b, 17) ^ c; c = rotated(c, 32);
  }
  DEV void add(u64 word) { d ^= word; round(); a ^= word; }
  DEV u64 after_rounds() { round(); round(); round(); return a ^ b ^ c ^ d; }
};
DEV HashState hash_start(const u8* constants, u32 index) {
  const u32* const key = (const u32*)constants + 4 * index;
  const u64 first = load(key) | u64(load(key + 1)) << 32, second = load(key + 2) | u64(load(key + 3)) << 32;
  return {first ^ 0x736f6d6570736575ull, second ^ 0x646f72616e646f6dull ^ 0xee, first ^ 0x6c7967656e657261ull, second ^ 0x7465646279746573ull};
}
// `last` has the bytes behind the last eight, and in its highest byte the length.
DEV i128 hash_end(HashState state, u64 last) {
  state.add(last);
  state.c ^= 0xee;
  const u64 low = state.after_rounds();
  state.b ^= 0xdd;
  const u64 high = state.after_rounds();
  return i128((u128(high) << 64) | low);
}
DEV i128 text_hash(TextView text, const u8* constants, u32 index) {
  HashState state = hash_start(constants, index);
  // Of each 8 bytes the first two words have some whatever the alignment, the third one only where that is odd.
  const u32 skip = u32(u64(text.at)) & 3, end = text.length & ~7u;
  for (u32 i = 0; i < end; i += 8) {
    const u32* const word = (const u32*)(text.at - skip + i);
    const u32 low = load(word), middle = load(word + 1), high = skip ? load(word + 2) : 0;
    state.add(shift_pair(low, middle, 8 * skip) | u64(shift_pair(middle, high, 8 * skip)) << 32);
  }
  const u32 rest = text.length & 7;
  u64 last = u64(text.length) << 56;
  if (rest) last |= bytes_at(text.at + end, at_most_four(rest));
  if (rest > 4) last |= u64(bytes_at(text.at + end + 4, rest - 4)) << 32;
  return hash_end(state, last);
}

// A page of text: lengths and bytes or codes of symbols, codes of the chunk's dictionary, or one value.
template <u32 F> struct TextPage : Page<u32, F> {
  static constexpr bool HAS_STARTS = (F & (PLAIN | FSST)) != 0;
  const u8 *text, *symbols;
  // Where vector `next_vector` starts in the page's bytes.
  u32 next_vector, next_start;
  u32 dictionary_bytes, symbol_count;

  DEV void open(const u8* chunk, u32 page, u32 pages, u32 rows) {
    Page<u32, F>::open(chunk, page, pages, rows);
    next_vector = 0; next_start = 0;
    text = this->body + u64((rows + 1023) >> 10) * 128 * this->stored_width;
    symbols = (F & FSST) && this->is(FSST) ? chunk + ((64 + 48 * pages + 127) & ~127u) : 0;
    symbol_count = symbols ? load((const u32*)(chunk + 32)) : 0;
    dictionary_bytes = load((const u32*)(chunk + 36));
    if (this->HAS_DICTIONARY) dictionary_bytes = dictionary_bytes / 4 > this->dictionary_count ? dictionary_bytes - 4 * (this->dictionary_count + 1) : 0;
  }
  DEV u32 length_at(u32 vector, u32 r, u32 lane) const {
    return this->code_base + bits32((const u32*)(this->body + u64(vector) * 128 * this->stored_width) + lane, 32, r * this->stored_width, this->stored_width);
  }

  DEV bool has_starts() const { return HAS_STARTS && (this->is(PLAIN) || this->is(FSST)); }

  // Where each of a vector's 1024 texts starts, in bytes or codes, and the last one ends; all lanes of a warp together. The lengths of
  // vectors that were left out since the last one are added up: a page has 16 of them by default.
  DEV void decode(u32 vector, u32* starts) {
    if (!has_starts() || this->nulls == 1) return;
    for (; next_vector < vector; next_vector++) {
      next_start += sum_over_lanes([&](u32 lane) {
        u32 sum = 0;
        for (u32 r = 0; r < 32; r++) sum += length_at(next_vector, r, lane);
        return sum;
      });
    }
    // The rows of the packed order that are neighbours: positions 32 i + lane.
    next_start = running_sums(next_start, [&](u32 i, u32 lane) { return length_at(vector, (i & 1) << 4 | (i & 2) << 2 | i >> 2, lane); }, starts);
    next_vector = vector + 1;
  }

  // The text of a row. Of damaged chunks it lies within the page's bytes, or the dictionary's.
  DEV auto view(u32 vector, u32 r, u32 lane, const u32* starts) const {
    const TextView bytes = view_of_bytes(vector, r, lane, starts);
    if constexpr ((F & FSST) != 0) return CodedText{bytes.at, bytes.length, 0, ~0u, symbols, symbol_count};
    else return bytes;
  }
  DEV TextView view_of_bytes(u32 vector, u32 r, u32 lane, const u32* starts) const {
    if (this->nulls == 1) return {this->body, 0};
    if (has_starts()) {
      const u32 p = position_of(r, lane);
      return within(text, starts[p], starts[p + 1], this->count);
    }
    if constexpr (!Page<u32, F>::HAS_DICTIONARY) return {this->body, 0};
    const u32 code = this->is(CONSTANT) ? 0 : this->code_at(vector, r, lane);
    return within((const u8*)(this->dictionary + this->dictionary_count + 1), load(this->dictionary + code), load(this->dictionary + code + 1), dictionary_bytes);
  }
  DEV static TextView within(const u8* bytes, u32 start, u32 end, u32 byte_count) {
    end = end < byte_count ? end : byte_count;
    return {bytes + (start < end ? start : 0), start < end ? end - start : 0};
  }
};
