// Column chunks as kernels read them (docs/specs/chunk.md), all pages without codec.
//
//   chunk ──open──► Page: where values are and how ──at(vector, r, lane)──► value
//
// Row r of lane l of a vector is the position p(r, l) of the packed order for 32-bit words. For words of other widths
// the same position is another row of another lane, which the functions below work out: FastLanes order (Afroozeh,
// Boncz 2023) is such that one lane of 32 rows is half a lane of 64, or two of 16, or four of 8.

enum Format : u32 { CONSTANT = 1, PLAIN = 2, PACKED = 4, RUNS = 8, DICTIONARY_PACKED = 16, DICTIONARY_RUNS = 32, ALP = 64, DELTA = 128, FSST = 256 };

DEV u32 position_of(u32 r, u32 lane) { const u32 q = r >> 3; return ((q & 1) << 6 | (q & 2) << 4) + ((r & 7) << 7) + lane; }

// The rows of a lane that a vector of `rows` rows has.
DEV u32 first_mask(u32 rows, u32 lane) {
  if (rows >= 1024) return ~0u;
  u32 mask = 0;
  for (u32 r = 0; r < 32; r++) mask |= u32(position_of(r, lane) < rows) << r;
  return mask;
}

// Bits [bit, bit + width) of a lane's stream of words, the words `stride` apart.
DEV u32 bits32(const u32* lane_words, u32 stride, u32 bit, u32 width) {
  if (width == 0) return 0;
  const u32 i = bit >> 5, s = bit & 31, low = load(lane_words + i * stride);
  const u32 high = s + width > 32 ? load(lane_words + (i + 1) * stride) : 0;
  return shift_pair(low, high, s) & (~0u >> (32 - width));
}
DEV u64 bits64(const u64* lane_words, u32 stride, u32 bit, u32 width) {
  if (width == 0) return 0;
  const u32 i = bit >> 6, s = bit & 63;
  u64 value = load(lane_words + i * stride) >> s;
  if (s + width > 64) value |= load(lane_words + (i + 1) * stride) << (64 - s);
  return value & (~0ull >> (64 - width));
}
template <class Word> DEV u32 bits_small(const Word* lane_words, u32 stride, u32 bit, u32 width) {
  if (width == 0) return 0;
  constexpr u32 T = sizeof(Word) * 8, LOG = T == 16 ? 4 : 3;
  const u32 i = bit >> LOG, s = bit & (T - 1);
  u32 value = load(lane_words + i * stride);
  if (s + width > T) value |= u32(load(lane_words + (i + 1) * stride)) << T;
  return (value >> s) & (~0u >> (32 - width));
}

// The packed word of row r, lane: T is the bits of a word.
template <u32 T> DEV u64 packed_at(const u8* vector, u32 width, u32 r, u32 lane) {
  if constexpr (T == 64) return bits64((const u64*)vector + (lane & 15), 16, (r + ((lane >> 4) << 5)) * width, width);
  else if constexpr (T == 32) return bits32((const u32*)vector + lane, 32, r * width, width);
  else if constexpr (T == 16) return bits_small((const u16*)vector + lane + ((r >> 4) << 5), 64, (r & 15) * width, width);
  else { const u32 q = r >> 3; return bits_small((const u8*)vector + lane + ((q & 1) << 6 | (q & 2) << 4), 128, (r & 7) * width, width); }
}

// All 32 values of a lane whose width is known to the compiler, in registers: N words of 32 bits.
template <u32 T, u32 N> struct LaneWords {
  u32 word[N ? N : 1];
  DEV void load_from(const u8* vector, u32 lane) {
    UNROLL
    for (u32 i = 0; i < N; i++) {
      if constexpr (T == 32) word[i] = load_once((const u32*)vector + i * 32 + lane);
      else { const u32 j = N * (lane >> 4) + i; word[i] = load_once((const u32*)vector + (((j >> 1) << 4) + (lane & 15)) * 2 + (j & 1)); }
    }
  }
  // Value r in the upper N bits of a word; what is below them is left over from its neighbours.
  DEV u32 top(u32 r) const {
    if constexpr (N == 0) return 0;
    else { const u32 bit = r * N, i = bit >> 5, end = (bit & 31) + N;
      if (end <= 32) return word[i] << (32 - end);
      return shift_pair(word[i], word[i + 1 < N ? i + 1 : i], end - 32); }
  }
};

// Whether a value, in the upper N bits of a word, lies between two: compared without cutting off what is below.
template <u32 N> struct TopRange {
  u32 low, span;
  bool is_empty;
  DEV TopRange() : low(0), span(0), is_empty(true) {}
  // Bounds of packed values, which are below 2^N.
  DEV TopRange(u64 from, u64 width) {
    constexpr u64 MOST = N == 32 ? 0xFFFFFFFFull : (1ull << (N & 31)) - 1;
    is_empty = from > MOST;
    const u64 end = width > MOST - from ? MOST : from + width;
    low = N == 0 ? 0 : u32(from) << ((32 - N) & 31);
    span = is_empty ? 0 : N == 0 ? ~0u : (u32(end - from) << ((32 - N) & 31)) | u32((1ull << (32 - N)) - 1);
  }
  DEV bool holds(u32 top) const { return top - low <= span; }
};

// Which of a lane's 32 packed values lie in [low, low + span].
template <u32 T, u32 N> DEV u32 range_known(const u8* vector, u32 lane, u64 low, u64 span) {
  const TopRange<N> range(low, span);
  if (range.is_empty) return 0;
  LaneWords<T, N> words;
  words.load_from(vector, lane);
  u32 inside = 0;
  UNROLL
  for (u32 r = 0; r < 32; r++) inside |= u32(range.holds(words.top(r))) << r;
  return inside;
}
template <u32 T> DEV u32 range_any(const u8* vector, u32 width, u32 lane, u64 low, u64 span, u32 mask) {
  u32 inside = 0;
  UNROLL_4
  for (u32 r = 0; r < 32; r++) if (mask >> r & 1) inside |= u32(packed_at<T>(vector, width, r, lane) - low <= span) << r;
  return inside;
}
template <u32 T, u32... N> struct Widths;
template <u32 T> struct Widths<T> {
  DEV static u32 range(const u8* vector, u32 width, u32 lane, u64 low, u64 span, u32 mask) { return range_any<T>(vector, width, lane, low, span, mask); }
};
template <u32 T, u32 FIRST, u32... REST> struct Widths<T, FIRST, REST...> {
  DEV static u32 range(const u8* vector, u32 width, u32 lane, u64 low, u64 span, u32 mask) {
    if (width == FIRST) return mask & range_known<T, FIRST>(vector, lane, low, span);
    return Widths<T, REST...>::range(vector, width, lane, low, span, mask);
  }
};

DEV u64 stream_at(const u64* words, u32 width, u32 index) { return bits64(words, 1, index * width, width); }

// How the packed words of a stored type are cut: 64 bits for i128, its own width for integers.
template <class S> struct Stored { static constexpr u32 T = sizeof(S) * 8; };
template <> struct Stored<i128> { static constexpr u32 T = 64; };

// A page of a column whose values are stored as S, in one of the formats F (a set). KNOWN is the width of every
// packed page, or negative.
template <class S, u32 F, int KNOWN = -1> struct Page {
  static constexpr u32 T = Stored<S>::T;
  static constexpr bool HAS_DICTIONARY = (F & (DICTIONARY_PACKED | DICTIONARY_RUNS | CONSTANT)) != 0;
  const u8* body;
  const S* dictionary;
  S base;
  u32 stored_width, format, count, dictionary_count, extra, nulls, code_base;
  u64 base_of_bases;
  const u8* valid_bits;

  DEV u32 is(u32 one) const { return F == one ? 1 : format == one; }
  DEV u32 width() const { return KNOWN >= 0 ? u32(KNOWN) : stored_width; }

  // Page `page` of the `pages` that a chunk of this table's row group has unless it is constant; it has `rows` rows.
  DEV void open(const u8* chunk, u32 page, u32 pages, u32 rows) {
    const u32 transform = chunk[2], layout = chunk[3];
    format = layout == 0 ? CONSTANT : transform == 1 ? (layout == 2 ? DICTIONARY_PACKED : DICTIONARY_RUNS)
           : transform == 2 ? ALP : transform == 3 ? FSST : layout == 1 ? PLAIN : layout == 2 ? PACKED : layout == 3 ? DELTA : RUNS;
    const u32 page_count = layout == 0 ? 0 : pages;
    if (HAS_DICTIONARY) {
      dictionary_count = load((const u32*)(chunk + 32));
      dictionary = (const S*)(chunk + ((64 + 48 * page_count + 127) & ~127u));
    }
    stored_width = 0; nulls = chunk[5] & 1; valid_bits = 0; body = chunk;
    if ((F & CONSTANT) && layout == 0) return;
    const u8* entry = chunk + 64 + 48 * page;
    body = chunk + load((const u64*)entry);
    base = base_from(entry + 16);
    code_base = load((const u32*)(entry + 16));
    stored_width = entry[45]; nulls = entry[44]; extra = entry[46];
    count = load((const u32*)(entry + 40)); base_of_bases = load((const u64*)(entry + 32));
    valid_bits = body;
    if (nulls == 2) body += ((rows + 1023) >> 10) << 7;
    if (nulls == 1) { stored_width = 0; count = 0; }  // a page without values has no bytes
  }
  DEV static S base_from(const u8* at) {
    if constexpr (sizeof(S) == 16) return S((u128(load((const u64*)(at + 8))) << 64) | load((const u64*)at));
    else return S(load((const u64*)at));
  }

  DEV bool is_valid(u32 vector, u32 r, u32 lane) const {
    if (nulls == 0) return true;
    if (nulls == 1) return false;
    const u32 p = position_of(r, lane);
    return load(valid_bits + vector * 128 + (p >> 3)) >> (p & 7) & 1;
  }
  DEV u32 code_at(u32 vector, u32 r, u32 lane) const {
    u32 code = 0;
    if (nulls == 1) return 0;
    if ((F & DICTIONARY_PACKED) && is(DICTIONARY_PACKED)) code = code_base + u32(packed_at<32>(body + vector * 128 * width(), width(), r, lane));
    if ((F & DICTIONARY_RUNS) && is(DICTIONARY_RUNS)) code = code_base + u32(run_value(vector * 1024 + position_of(r, lane)));
    return code < dictionary_count ? code : 0;
  }
  // The value of the run that the row is in: the first whose last row is not before it.
  DEV u64 run_value(u32 row) const {
    const u64* ends = (const u64*)body;
    u32 low = 0, high = count - 1;
    while (low < high) { const u32 middle = (low + high) >> 1; if (stream_at(ends, extra, middle) < row) low = middle + 1; else high = middle; }
    return stream_at(ends + ((u64(count) * extra) >> 6) + 2, width(), low);
  }
  DEV S at(u32 vector, u32 r, u32 lane) const {
    if ((F & PACKED) && is(PACKED)) return KNOWN >= 0 && nulls == 1 ? S(0) : S(base + S(packed_at<T>(body + u64(vector) * 128 * width(), width(), r, lane)));
    if ((F & (DICTIONARY_PACKED | DICTIONARY_RUNS)) && (is(DICTIONARY_PACKED) || is(DICTIONARY_RUNS))) return dictionary[code_at(vector, r, lane)];
    if ((F & CONSTANT) && is(CONSTANT)) return nulls ? S(0) : dictionary[0];
    const u32 row = vector * 1024 + position_of(r, lane);
    if (nulls == 1) return S(0);
    if ((F & PLAIN) && is(PLAIN)) return ((const S*)body)[row];
    if ((F & RUNS) && is(RUNS)) return S(base + S(run_value(row)));
    return S(0);
  }

  // The packed values of this page that stand for values in [low, high], or for codes from low to before the end.
  template <u32 N> DEV TopRange<N> packed_range(i64 low, i64 high, u32 code_low, u32 code_end) const {
    if (low > high || nulls == 1) return TopRange<N>();
    if ((F & PACKED) && is(PACKED)) {
      const i64 first = i64(base);
      if (high < first) return TopRange<N>();
      const u64 from = low <= first ? 0 : u64(low) - u64(first);
      return TopRange<N>(from, u64(high) - u64(first) - from);
    }
    if (code_low >= code_end || code_end <= code_base) return TopRange<N>();
    const u32 from = code_low < code_base ? 0 : code_low - code_base;
    return TopRange<N>(from, code_end - 1 - code_base - from);
  }
  DEV const u8* packed_vector(u32 vector) const { return body + u64(vector) * 128 * width(); }

  // Which rows hold values in [low, high], of those in the mask; NULL rows may or may not be among them.
  template <u32... N> DEV u32 in_range(u32 vector, u32 lane, i64 low, i64 high, u32 code_low, u32 code_end, u32 mask) const {
    if (low > high || nulls == 1) return 0;
    if ((F & PACKED) && is(PACKED)) {
      const i64 first = i64(base);
      if (high < first) return 0;
      const u64 from = low <= first ? 0 : u64(low) - u64(first);
      return Widths<T, N...>::range(body + u64(vector) * 128 * width(), width(), lane, from, u64(high) - u64(first) - from, mask);
    }
    if ((F & DICTIONARY_PACKED) && is(DICTIONARY_PACKED)) {
      if (code_low >= code_end || code_end <= code_base) return 0;
      const u32 from = code_low < code_base ? 0 : code_low - code_base;
      return Widths<32, N...>::range(body + u64(vector) * 128 * width(), width(), lane, from, code_end - 1 - code_base - from, mask);
    }
    u32 inside = 0;
    for (u32 r = 0; r < 32; r++) if (mask >> r & 1) { const i64 value = i64(at(vector, r, lane)); inside |= u32(value >= low && value <= high) << r; }
    return inside;
  }
  DEV u32 valid_mask(u32 vector, u32 lane, u32 mask) const {
    if (nulls == 0) return mask;
    if (nulls == 1) return 0;
    u32 valid = 0;
    for (u32 r = 0; r < 32; r++) valid |= u32(is_valid(vector, r, lane)) << r;
    return mask & valid;
  }
  // The first code whose value is not below the bound.
  DEV u32 code_from(i64 bound) const {
    if (!(F & DICTIONARY_PACKED) || !is(DICTIONARY_PACKED)) return 0;
    return count_of_first(dictionary_count, [&](u32 code) { return i64(dictionary[code]) < bound; });
  }
  // The first code whose value is above the bound.
  DEV u32 code_after(i64 bound) const {
    if (!(F & DICTIONARY_PACKED) || !is(DICTIONARY_PACKED)) return 0;
    return count_of_first(dictionary_count, [&](u32 code) { return i64(dictionary[code]) <= bound; });
  }
};

// Doubles: bits are stored in 64-bit words.
template <u32 F, int KNOWN = -1> struct DoublePage : Page<u64, F, KNOWN> {
  DEV f64 at_double(u32 vector, u32 r, u32 lane) const {
    if ((F & ALP) && this->is(ALP)) {
      const u32 row = vector * 1024 + position_of(r, lane);
      const u8* exceptions = this->body + u64(vectors) * 128 * this->width();
      u32 low = 0, high = this->count;
      while (low < high) { const u32 middle = (low + high) >> 1; if (load((const u32*)exceptions + middle) < row) low = middle + 1; else high = middle; }
      if (low < this->count && load((const u32*)exceptions + low) == row) {
        const u8* values = exceptions + 4 * u64(this->count) + 8 * u64(low);
        return of_bits(u64(load((const u32*)values)) | u64(load((const u32*)values + 1)) << 32);
      }
      const i64 digits = i64(this->base + packed_at<64>(this->body + u64(vector) * 128 * this->width(), this->width(), r, lane));
      f64 power = 1; for (u32 i = 0; i < this->extra; i++) power *= 10;
      return f64(digits) / power;
    }
    return of_bits(Page<u64, F, KNOWN>::at(vector, r, lane));
  }
  u32 vectors;
  DEV void open(const u8* chunk, u32 page, u32 pages, u32 rows) {
    Page<u64, F, KNOWN>::open(chunk, page, pages, rows);
    vectors = (rows + 1023) >> 10;
  }
};

// Decodes a vector of a delta page into scratch, in row order: 1024 values and a gap after each 32.
DEV u32 scratch_index(u32 row) { return row + (row >> 5); }
template <class S> DEV void delta_vector(const u8* body, u32 width, u32 extra, u64 base, u64 base_of_bases, u32 rows, u32 vector, S* scratch, u32 lane) {
  constexpr u32 T = sizeof(S) * 8, L = 1024 / T;
  const u32 vectors = (rows + 1023) >> 10;
  const u32 bases_bytes = (vectors * L * extra + 127) & ~127u;
  const u8* packed = body + bases_bytes + u64(vector) * 128 * width;
  const u8* bases = body + u64(vector) * L * extra;
  for (u32 l = lane; l < L; l += 32) {
    u64 start = 0;
    for (u32 b = 0; b < extra; b++) start |= u64(bases[l * extra + b]) << (8 * b);
    u64 value = start + base_of_bases;
    const u32 o = (l >> 4) & 7, row = (l & 15) * 64 + ((o & 1) << 2 | (o & 2) | (o & 4) >> 2) * 8;
    for (u32 r = 0; r < T; r++) {
      u64 step;
      if constexpr (T == 64) step = bits64((const u64*)packed + l, L, r * width, width);
      else if constexpr (T == 32) step = bits32((const u32*)packed + l, L, r * width, width);
      else if constexpr (T == 16) step = bits_small((const u16*)packed + l, L, r * width, width);
      else step = bits_small(packed + l, L, r * width, width);
      value += base + step;
      scratch[scratch_index(row + r)] = S(value);
    }
  }
}
