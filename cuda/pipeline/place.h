// Puts bytes of a morsel where they belong: parts that need no decompression, and zeros between parts.
//
//   words   moves, their number
//   move    source, target (both multiples of 16), bytes to copy, zeros behind them
//
// A warp takes a move.

ENTRY(k_place) {
  const u64* const moves = (const u64*)W(0);
  const u64 count = W(1);
  for (u64 move = WARP; move < count; move += WARP_COUNT) {
    const u64* const words = moves + 4 * move;
    const u8* const source = (const u8*)words[0];
    u8* const target = (u8*)words[1];
    const u64 bytes = words[2], end = bytes + words[3], wide = bytes & ~u64(15);
    EACH_LANE {
      for (u64 at = 16 * u64(lane); at < wide; at += 16 * 32) *(u128*)(target + at) = *(const u128*)(source + at);
      for (u64 at = wide + lane; at < end; at += 32) target[at] = at < bytes ? source[at] : u8(0);
    }
  }
}
