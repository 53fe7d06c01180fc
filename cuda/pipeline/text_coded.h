// What cuda/pipeline/text.h computes of views, of coded texts: from front to back, a symbol at a time, without room for the
// decoded text. Where a pattern has to look ahead, the place where it stands is kept: a cursor is copied.
//
// Per byte of the text a search has about as many instructions as over plain bytes, and a symbol some 10 more; what it
// reads from memory is a half to a third. (Counted by hand, not measured.)

#ifndef PELTON_GPU
// On the host a text is decoded at once to be searched, where it is of so many bytes at most: 8 a step instead of one.
const u32 DECODED_MAX = 4096;
struct DecodedText { TextView view; u8 bytes[DECODED_MAX + 8]; };
// Whether `decoded` has it now.
DEV bool decode(CodedText text, DecodedText& decoded) {
  u32 length = text.length;
  decoded.view.at = text.at;
  if (text.symbols) {
    if (length > DECODED_MAX / 8) return false;
    const u8* const lengths = text.symbols + 8 * text.symbol_count;
    u8* out = decoded.bytes;
    for (const u8 *at = text.at, *const end = at + length; at < end; at++) {
      const u32 code = *at;
      if (code < text.symbol_count) { memcpy(out, text.symbols + 8 * code, 8); out += lengths[code] < 8 ? lengths[code] : 8; }
      else if (code == ESCAPE && at + 1 < end) *out++ = *++at;
    }
    decoded.view.at = decoded.bytes;
    length = u32(out - decoded.bytes);
  }
  const u32 skip = text.skip < length ? text.skip : length, rest = length - skip;
  decoded.view.at += skip;
  decoded.view.length = rest < text.limit ? rest : text.limit;
  return true;
}
#define SEARCH_DECODED(search) { DecodedText decoded; if (decode(text, decoded)) return search<START, END, PIECES>(decoded.view, constants, piece); }
#else
#define SEARCH_DECODED(search)
#endif

DEV bool text_equals(CodedText text, const u8* constants, u32 index) {
  const TextConstant with = text_constant(constants, index);
  if (text.symbols ? u64(text.length) * 8 < with.length : text.length < with.length) return false;
  TextCursor cursor(text);
  for (u32 i = 0; i < with.length; i += 4) {
    u32 count;
    const u32 word = cursor.next(count);
    if (count != at_most_four(with.length - i) || word != load((const u32*)(constants + with.offset + i))) return false;
  }
  return !cursor.has_byte();
}

// Goes on behind these bytes, which lie in the table of constants, where the text goes on with them.
DEV bool goes_on_with(TextCursor& cursor, const u8* bytes, u32 length) {
  for (u32 i = 0; i < length;) {
    if (!cursor.has_byte()) return false;
    const u32 count = at_most_four(cursor.left < length - i ? cursor.left : length - i);
    if (((u32(cursor.symbol) ^ bytes_at(bytes + i, count)) & first_bytes(count)) != 0) return false;
    cursor.advance(count);
    i += count;
  }
  return true;
}

// As of a view; of the text from the cursor on, of which `room` bytes may be used.
DEV bool finds(TextCursor cursor, u32 room, const u8* constants, u32 piece, u32 pieces_end) {
  TextConstant wanted = text_constant(constants, piece);
  // The last four bytes, the last one highest, and how many of them are behind the piece before.
  u32 window = 0, seen = 0;
  while (room && cursor.has_byte()) {
    window = window >> 8 | cursor.byte() << 24;
    cursor.advance(1);
    room--; seen++;
    const u32 head = at_most_four(wanted.length);
    if (seen < head || (((window >> (32 - 8 * head)) ^ wanted.first) & wanted.mask) != 0) continue;
    if (wanted.length > 4) {
      const u32 rest = wanted.length - 4;
      if (room < rest) return false;
      TextCursor ahead = cursor;
      if (!goes_on_with(ahead, constants + wanted.offset + 4, rest)) continue;
      cursor = ahead;
      room -= rest;
    }
    if (++piece == pieces_end) return true;
    wanted = text_constant(constants, piece);
    seen = 0;
  }
  return false;
}

template <bool START, bool END, u32 PIECES> DEV bool text_like(CodedText text, const u8* constants, u32 piece) {
  SEARCH_DECODED(text_like)
  TextCursor cursor(text);
  if constexpr (PIECES == 0) return !START || !cursor.has_byte();
  u32 pieces_end = piece + PIECES, room = ~0u, used = 0;
  if constexpr (START) {
    const TextConstant first = text_constant(constants, piece++);
    if (!goes_on_with(cursor, constants + first.offset, first.length)) return false;
    if (END && PIECES == 1) return !cursor.has_byte();
    used = first.length;
  }
  if constexpr (END && !(START && PIECES == 1)) {
    const TextConstant last = text_constant(constants, --pieces_end);
    const u32 rest = byte_length(text) - used;
    if (rest < last.length) return false;
    room = rest - last.length;
    TextCursor tail = cursor;
    tail.skip(room);
    if (!goes_on_with(tail, constants + last.offset, last.length)) return false;
  }
  if constexpr (PIECES > u32(START) + u32(END)) return finds(cursor, room, constants, piece, pieces_end);
  return true;
}

// Goes on behind a character; gives its bytes.
DEV u32 skip_character(TextCursor& cursor) {
  u32 bytes = 0;
  do { cursor.advance(1); bytes++; } while (cursor.has_byte() && continues_character(u8(cursor.byte())));
  return bytes;
}
// Goes on behind so many characters, or to the end; gives their bytes.
DEV u32 skip_characters(TextCursor& cursor, u32 count) {
  u32 bytes = 0;
  for (u32 i = 0; i < count && cursor.has_byte(); i++) bytes += skip_character(cursor);
  return bytes;
}
// Goes on behind a piece with ANY_CHARACTER, where it matches.
DEV bool goes_on_with_piece(TextCursor& cursor, const u8* constants, TextConstant piece) {
  for (u32 i = 0; i < piece.length; i++) {
    const u32 byte = load(constants + piece.offset + i);
    if (!cursor.has_byte()) return false;
    if (byte == ANY_CHARACTER) skip_character(cursor);
    else if (cursor.byte() != byte) return false;
    else cursor.advance(1);
  }
  return true;
}
DEV u32 characters_of(const u8* constants, TextConstant piece) {
  u32 count = 0;
  for (u32 i = 0; i < piece.length; i++) count += !continues_character(load(constants + piece.offset + i));
  return count;
}

// As of a view. A piece is a number of characters, so the last one begins where so many are left.
template <bool START, bool END, u32 PIECES> DEV bool text_like_characters(CodedText text, const u8* constants, u32 piece) {
  SEARCH_DECODED(text_like_characters)
  TextCursor cursor(text);
  u32 pieces_end = piece + PIECES, room = ~0u;
  if constexpr (START) {
    if (!goes_on_with_piece(cursor, constants, text_constant(constants, piece++))) return false;
    if constexpr (END && PIECES == 1) return !cursor.has_byte();
  }
  if constexpr (END) {
    const TextConstant last = text_constant(constants, --pieces_end);
    const u32 wanted = characters_of(constants, last);
    u32 rest = 0;
    for (TextCursor counting = cursor; counting.has_byte(); rest++) skip_character(counting);
    if (rest < wanted) return false;
    room = rest - wanted;
    TextCursor tail = cursor;
    skip_characters(tail, room);
    if (!goes_on_with_piece(tail, constants, last) || tail.has_byte()) return false;
  }
  for (; piece < pieces_end; piece++) {
    const TextConstant wanted = text_constant(constants, piece);
    const u32 characters = characters_of(constants, wanted);
    for (;; room--) {
      if (room < characters) return false;
      TextCursor ahead = cursor;
      if (goes_on_with_piece(ahead, constants, wanted)) { cursor = ahead; break; }
      if (!cursor.has_byte()) return false;
      skip_character(cursor);
    }
    room -= characters;
  }
  return true;
}

DEV CodedText text_part(CodedText text, const u8* constants, u32 index) {
  const TextConstant part = text_constant(constants, index);
  TextCursor cursor(text);
  const u32 before = skip_characters(cursor, part.offset);
  text.skip += before;
  text.limit = part.length == ~0u ? text.limit - before : skip_characters(cursor, part.length);
  return text;
}

DEV CodedText text_extract(CodedText text, const u8* constants, u32 index) {
  const TextConstant pattern = text_constant(constants, index);
  for (u32 left_out = 0; left_out >> pattern.first == 0; left_out++) {
    TextCursor cursor(text);
    u32 at = 0, from = 0, to = 0, optional = pattern.first;
    bool is_match = true;
    for (u32 i = 0; i < pattern.length && is_match; i++) {
      const TextConstant step = text_constant(constants, pattern.offset + i);
      const u8* const bytes = constants + step.offset;
      if (step.first == STEP_BEGIN) from = at;
      else if (step.first == STEP_END) to = at;
      else if (step.first <= STEP_OPTIONAL) {
        if (step.first == STEP_OPTIONAL && left_out >> --optional & 1) continue;
        is_match = goes_on_with(cursor, bytes, step.length);
        at += step.length;
      } else {
        const u32 first = at;
        for (; cursor.has_byte(); cursor.advance(1), at++) {
          const u32 byte = cursor.byte();
          if (step.first == STEP_UNTIL ? byte == step.mask : !(load((const u32*)bytes + (byte >> 5)) >> (byte & 31) & 1)) break;
        }
        is_match = at - first >= step.length;
      }
    }
    if (is_match && !cursor.has_byte()) {
      text.skip += from;
      text.limit = to - from;
      return text;
    }
  }
  return text;
}

DEV u128 short_text(CodedText text) {
  TextCursor cursor(text);
  u64 halves[2] = {0, 0};
  u32 length = 0;
  UNROLL
  for (u32 i = 0; i < 16; i += 4) {
    u32 count;
    halves[i >> 3] |= u64(swap_bytes(cursor.next(count))) << (i & 4 ? 0 : 32);
    length += count;
  }
  return length > SHORT_TEXT_BYTES ? 0 : (u128(halves[0]) << 64) | halves[1] | length;
}

DEV i128 text_hash(CodedText text, const u8* constants, u32 index) {
  HashState state = hash_start(constants, index);
  TextCursor cursor(text);
  for (u32 length = 0;;) {
    u32 count, more = 0;
    u64 word = cursor.next(count);
    if (count == 4) word |= u64(cursor.next(more)) << 32;
    length += count + more;
    if (count + more < 8) return hash_end(state, u64(length) << 56 | word);
    state.add(word);
  }
}
