// Views of texts, and reading them from front to back.
//
//   TextView    bytes in a chunk, or in the heap of groups
//   CodedText   codes of a chunk's symbols, or bytes as they are; a part of what they stand for
//
//   text ──words_of──► four bytes a call      coded text ──TextCursor──► a symbol of up to 8 bytes a step
//
// Codes are decoded where they are read: what a lane holds is one symbol. A symbol and its length are two loads from a
// table of 2 KiB, which stays in the first-level cache; what is read from memory is the codes.

struct TextView { const u8* at; u32 length; };

// The part from byte `skip` on, of `limit` bytes at most, of what these codes stand for (docs/specs/chunk.md). Without
// symbols the codes are the bytes.
struct CodedText {
  const u8* at;
  u32 length, skip, limit;
  const u8* symbols;
  u32 symbol_count;
};

// The first `count` bytes of a word.
DEV u32 first_bytes(u32 count) { return count >= 4 ? ~0u : (1u << (8 * count)) - 1; }

// At least one byte and at most four from `at` on, the first one lowest; no word is read that has none of them.
DEV u32 bytes_at(const u8* at, u32 count) {
  const u32 skip = u32(u64(at)) & 3;
  const u32* const word = (const u32*)(at - skip);
  const u32 low = load(word), high = skip + count > 4 ? load(word + 1) : 0;
  return shift_pair(low, high, 8 * skip) & first_bytes(count);
}
DEV u32 at_most_four(u32 count) { return count < 4 ? count : 4; }

// Bytes of a text, four a call, the first one lowest and zeros behind the last: `count` is below four at the end alone.
struct ViewWords {
  const u8* at;
  u32 left;
  DEV u32 next(u32& count) {
    count = at_most_four(left);
    const u32 word = count ? bytes_at(at, count) : 0;
    at += count; left -= count;
    return word;
  }
};
DEV ViewWords words_of(TextView text) { return {text.at, text.length}; }
DEV u32 byte_length(TextView text) { return text.length; }

const u32 ESCAPE = 255;

// A place in a coded text. `has_byte` loads the next symbol where the last one is used up, and comes before each look at
// a byte. Of damaged codes nothing is read but symbols that there are.
struct TextCursor {
  const u8 *at, *end, *symbols;
  u32 symbol_count;
  // The next bytes of the text, `left` of which there are; how many more there may be.
  u32 left, limit;
  u64 symbol;

  DEV TextCursor(CodedText text) : at(text.at), end(text.at + text.length), symbols(text.symbols), symbol_count(text.symbol_count), left(0), limit(~0u), symbol(0) {
    if (text.skip) skip(text.skip);
    // What is loaded already is of the part too, up to its limit.
    left = left < text.limit ? left : text.limit;
    limit = text.limit - left;
  }
  DEV bool has_byte() {
    while (left == 0) {
      if (at >= end || limit == 0) return false;
      if (!symbols) {
        left = at_most_four(u32(end - at));
        symbol = bytes_at(at, left);
        at += left;
      } else {
        const u32 code = load(at++);
        if (code < symbol_count) {
          symbol = load((const u64*)symbols + code);
          left = load(symbols + 8 * symbol_count + code);
        } else if (code == ESCAPE && at < end) {
          symbol = load(at++);
          left = 1;
        }
      }
      left = left < limit ? left : limit;
      limit -= left;
    }
    return true;
  }
  DEV u32 byte() const { return u32(symbol) & 255; }
  // Goes on by so many of the bytes of the symbol.
  DEV void advance(u32 count) { symbol = count < 8 ? symbol >> (8 * count) : 0; left -= count; }
  DEV u32 next(u32& count) {
    u32 word = 0;
    count = 0;
    while (count < 4 && has_byte()) {
      const u32 taken = left < 4 - count ? left : 4 - count;
      word |= (u32(symbol) & first_bytes(taken)) << (8 * count);
      advance(taken);
      count += taken;
    }
    return word;
  }
  DEV void skip(u32 count) {
    while (count && has_byte()) {
      const u32 taken = left < count ? left : count;
      advance(taken);
      count -= taken;
    }
  }
};
DEV TextCursor words_of(CodedText text) { return TextCursor(text); }

DEV u32 byte_length(CodedText text) {
  u32 length = text.length;
  if (text.symbols) {
    length = 0;
    for (const u8 *at = text.at, *const end = at + text.length; at < end; at++) {
      const u32 code = load(at);
      if (code < text.symbol_count) length += load(text.symbols + 8 * text.symbol_count + code);
      else if (code == ESCAPE && ++at < end) length++;
    }
  }
  length = length > text.skip ? length - text.skip : 0;
  return length < text.limit ? length : text.limit;
}
