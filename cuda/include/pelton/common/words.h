/// Memory of any length and alignment, seen as little-endian words of 8 bytes.
#pragma once

#include <cstdint>

#include "pelton/common/hd.h"

namespace pelton {

constexpr uint64_t WORD_BYTES = 8;

/// Words of `bytes` bytes, the last one perhaps short.
HD constexpr uint64_t word_count(uint64_t bytes) { return bytes / WORD_BYTES + (bytes % WORD_BYTES != 0); }

/// How many bytes of word `index` lie within `bytes` bytes: 8 for all but the last.
HD constexpr uint32_t word_byte_count(uint64_t bytes, uint64_t index) {
  const uint64_t rest = bytes - index * WORD_BYTES;
  return static_cast<uint32_t>(rest < WORD_BYTES ? rest : WORD_BYTES);
}

/// A word put together from `byte_count` bytes; zeros follow.
HD constexpr uint64_t load_word(const uint8_t* bytes, uint32_t byte_count) {
  uint64_t word = 0;
  for (uint32_t byte = 0; byte < byte_count; ++byte) word |= uint64_t{bytes[byte]} << (8 * byte);
  return word;
}

/// The first `byte_count` bytes of a word, stored one by one.
HD constexpr void store_word(uint8_t* bytes, uint64_t word, uint32_t byte_count) {
  for (uint32_t byte = 0; byte < byte_count; ++byte) bytes[byte] = static_cast<uint8_t>(word >> (8 * byte));
}

static_assert(word_count(0) == 0 && word_count(1) == 1 && word_count(8) == 1 && word_count(9) == 2, "rounded up");
static_assert(word_byte_count(9, 0) == 8 && word_byte_count(9, 1) == 1, "the last word is short");

}  // namespace pelton
