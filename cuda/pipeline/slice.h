// Slices of pages, for the host alone: the 32 rows of all lanes at one r follow each other (position_of), and so do
// their packed words. So what a slice goes through is a loop over lanes without branches, which compilers make vectors
// of.
//
//   live    bit `lane`: the row counts. What lies in other lanes is some value, or one that was stored there.
//
// Decoding looks at all lanes where a page has bytes for them: packed words, bitmaps of validity. Elsewhere (plain
// values, numbers by row) it ends with the last row that is live.

#define SLICE for (u32 lane = 0; lane < 32; lane++)
#define EACH_LIVE_LANE for (u32 left = live, lane; left && (lane = trailing_zeros(left), true); left &= left - 1)

// The rows of slice r that a vector of `rows` rows has.
DEV u32 rows_of_slice(u32 rows, u32 r) {
  const u32 first = position_of(r, 0);
  return rows >= first + 32 ? ~0u : rows > first ? (1u << (rows - first)) - 1 : 0;
}
// The same of masks that lanes hold.
DEV u32 slice_of_masks(const u32* mask, u32 r) { u32 live = 0; SLICE live |= (mask[lane] >> r & 1) << lane; return live; }

// A bit for each of 32 bytes that are 0 or 1: the product brings those of eight side by side.
DEV u32 bits_of_bools(const bool* bools) {
  u32 bits = 0;
  for (u32 i = 0; i < 4; i++) {
    u64 eight; memcpy(&eight, bools + 8 * i, 8);
    bits |= u32((eight * 0x0102040810204080ull) >> 56) << (8 * i);
  }
  return bits;
}

template <u32 T> struct WordOf;
template <> struct WordOf<8> { typedef u8 Word; };
template <> struct WordOf<16> { typedef u16 Word; };
template <> struct WordOf<32> { typedef u32 Word; };
template <> struct WordOf<64> { typedef u64 Word; };

// Bits [bit, bit + width) of COUNT streams that lie beside each other, each `stride` words from one word to the next.
template <u32 COUNT, class Word> DEV void unpack(const Word* words, u32 stride, u32 bit, u32 width, Word* out) {
  constexpr u32 T = sizeof(Word) * 8;
  if (width == 0) { for (u32 i = 0; i < COUNT; i++) out[i] = 0; return; }
  const u32 s = bit & (T - 1);
  const Word* low = words + bit / T * stride;
  const Word most = Word(Word(~Word(0)) >> (T - width));
  if (s + width <= T) { for (u32 i = 0; i < COUNT; i++) out[i] = Word(low[i] >> s) & most; return; }
  const Word* high = low + stride;
  for (u32 i = 0; i < COUNT; i++) out[i] = Word(Word(low[i] >> s) | Word(high[i] << (T - s))) & most;
}

// As packed_at, of all lanes.
template <u32 T> DEV void packed_slice(const u8* vector, u32 width, u32 r, typename WordOf<T>::Word* out) {
  typedef typename WordOf<T>::Word Word;
  const Word* words = (const Word*)vector;
  const u32 q = r >> 3;
  if constexpr (T == 64) { unpack<16>(words, 16, r * width, width, out); unpack<16>(words, 16, (r + 32) * width, width, out + 16); }
  else if constexpr (T == 32) unpack<32>(words, 32, r * width, width, out);
  else if constexpr (T == 16) unpack<32>(words + ((r >> 4) << 5), 64, (r & 15) * width, width, out);
  else unpack<32>(words + ((q & 1) << 6 | (q & 2) << 4), 128, (r & 7) * width, width, out);
}

// What follows from `at` on, up to the last row that is live; zeros behind that.
template <class S> DEV void copy_slice(const S* at, u32 live, S* out) {
  if (live >> 31) { SLICE out[lane] = at[lane]; return; }
  const u32 count = live ? 32 - u32(__builtin_clz(live)) : 0;
  SLICE out[lane] = S(0);
  for (u32 i = 0; i < count; i++) out[i] = at[i];
}

// Numbers of runs, from that of the row `first` on: `of(run)` once for each run.
template <class P, class T, class Of> DEV void run_slice(const P& page, u32 first, T* out, Of of) {
  const u64* ends = (const u64*)page.body;
  const u64* values = ends + ((u64(page.count) * page.extra) >> 6) + 2;
  u32 run = 0, high = page.count - 1;
  while (run < high) { const u32 middle = (run + high) >> 1; if (stream_at(ends, page.extra, middle) < first) run = middle + 1; else high = middle; }
  for (u32 i = 0; i < 32; run++) {
    const u64 end = run + 1 < page.count ? stream_at(ends, page.extra, run) : ~0ull;
    const T value = of(stream_at(values, page.width(), run));
    for (; i < 32 && first + i <= end; i++) out[i] = value;
  }
}

template <class S, u32 F, int KNOWN> DEV void slice_codes(const Page<S, F, KNOWN>& p, u32 vector, u32 r, u32* codes) {
  if (p.nulls == 1) { SLICE codes[lane] = 0; return; }
  if ((F & DICTIONARY_PACKED) && p.is(DICTIONARY_PACKED)) {
    u32 packed[32];
    packed_slice<32>(p.packed_vector(vector), p.width(), r, packed);
    SLICE codes[lane] = p.code_base + packed[lane];
  } else if ((F & DICTIONARY_RUNS) && p.is(DICTIONARY_RUNS)) {
    run_slice(p, vector * 1024 + position_of(r, 0), codes, [&](u64 code) { return p.code_base + u32(code); });
  } else { SLICE codes[lane] = 0; }
  SLICE codes[lane] = codes[lane] < p.dictionary_count ? codes[lane] : 0;
}

template <class S, u32 F, int KNOWN> DEV void slice_values(const Page<S, F, KNOWN>& p, u32 vector, u32 r, u32 live, S* out) {
  constexpr u32 T = Page<S, F, KNOWN>::T;
  if ((F & CONSTANT) && p.is(CONSTANT)) { const S value = p.nulls ? S(0) : p.dictionary[0]; SLICE out[lane] = value; return; }
  if (p.nulls == 1) { SLICE out[lane] = S(0); return; }
  const u32 first = vector * 1024 + position_of(r, 0);
  if ((F & PACKED) && p.is(PACKED)) {
    typename WordOf<T>::Word packed[32];
    packed_slice<T>(p.packed_vector(vector), p.width(), r, packed);
    const S base = p.base;
    SLICE out[lane] = S(base + S(packed[lane]));
  } else if ((F & (DICTIONARY_PACKED | DICTIONARY_RUNS)) && (p.is(DICTIONARY_PACKED) || p.is(DICTIONARY_RUNS))) {
    u32 codes[32];
    slice_codes(p, vector, r, codes);
    const S* dictionary = p.dictionary;
    SLICE out[lane] = dictionary[codes[lane]];
  } else if ((F & PLAIN) && p.is(PLAIN)) {
    copy_slice((const S*)p.body + first, live, out);
  } else if ((F & RUNS) && p.is(RUNS)) {
    run_slice(p, first, out, [&](u64 value) { return S(p.base + S(value)); });
  } else { SLICE out[lane] = S(0); }
}

template <u32 F, int KNOWN> DEV void slice_doubles(const DoublePage<F, KNOWN>& p, u32 vector, u32 r, u32 live, f64* out) {
  u64 bits[32];
  if (!(F & ALP) || !p.is(ALP)) {
    slice_values(p, vector, r, live, bits);
    SLICE out[lane] = of_bits(bits[lane]);
    return;
  }
  if (p.nulls == 1) { SLICE out[lane] = 0; return; }
  packed_slice<64>(p.packed_vector(vector), p.width(), r, bits);
  f64 power = 1; for (u32 i = 0; i < p.extra; i++) power *= 10;
  const u64 base = p.base;
  SLICE out[lane] = f64(i64(base + bits[lane])) / power;
  const u32 first = vector * 1024 + position_of(r, 0);
  const u8* exceptions = p.body + u64(p.vectors) * 128 * p.width();
  u32 low = 0, high = p.count;
  while (low < high) { const u32 middle = (low + high) >> 1; if (load((const u32*)exceptions + middle) < first) low = middle + 1; else high = middle; }
  for (; low < p.count; low++) {
    const u32 row = load((const u32*)exceptions + low);
    if (row >= first + 32) break;
    u64 exact; memcpy(&exact, exceptions + 4 * u64(p.count) + 8 * u64(low), 8);
    out[row - first] = of_bits(exact);
  }
}

// A bit for each row that is not NULL.
template <class S, u32 F, int KNOWN> DEV u32 slice_valid(const Page<S, F, KNOWN>& p, u32 vector, u32 r) {
  if (p.nulls != 2) return p.nulls == 0 ? ~0u : 0;
  u32 bits; memcpy(&bits, p.valid_bits + vector * 128 + (position_of(r, 0) >> 3), 4);
  return bits;
}

// The words in [from, from + span], the end of which lies below 2^T.
template <class Word> DEV u32 words_between(const Word* words, u64 from, u64 span) {
  const u64 most = Word(~Word(0));
  if (from > most) return 0;
  const Word low = Word(from), width = Word(span < most - from ? span : most - from);
  bool inside[32];
  SLICE inside[lane] = Word(words[lane] - low) <= width;
  return bits_of_bools(inside);
}

// As in_range, of all lanes.
template <class S, u32 F, int KNOWN>
DEV u32 slice_in_range(const Page<S, F, KNOWN>& p, u32 vector, u32 r, u32 live, i64 low, i64 high, u32 code_low, u32 code_end) {
  constexpr u32 T = Page<S, F, KNOWN>::T;
  if (low > high || p.nulls == 1) return 0;
  if ((F & PACKED) && p.is(PACKED)) {
    const i64 first = i64(p.base);
    if (high < first) return 0;
    const u64 from = low <= first ? 0 : u64(low) - u64(first);
    typename WordOf<T>::Word packed[32];
    packed_slice<T>(p.packed_vector(vector), p.width(), r, packed);
    return live & words_between(packed, from, u64(high) - u64(first) - from);
  }
  if ((F & DICTIONARY_PACKED) && p.is(DICTIONARY_PACKED)) {
    if (code_low >= code_end || code_end <= p.code_base) return 0;
    const u32 from = code_low < p.code_base ? 0 : code_low - p.code_base;
    u32 packed[32];
    packed_slice<32>(p.packed_vector(vector), p.width(), r, packed);
    return live & words_between(packed, from, code_end - 1 - p.code_base - from);
  }
  S values[32];
  slice_values(p, vector, r, live, values);
  bool inside[32];
  SLICE inside[lane] = i64(values[lane]) >= low && i64(values[lane]) <= high;
  return live & bits_of_bools(inside);
}
