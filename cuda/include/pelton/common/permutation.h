/// Permutations of 2^bits positions by arithmetic: nothing is stored, any position is computed alone.
#pragma once

#include <cstdint>

#include "pelton/common/mix.h"

namespace pelton {

/// Where position `position` (below 2^bits, bits at most 32) goes under the permutation chosen by `seed`.
///
/// Three rounds of: multiply by an odd number, add a key, fold the upper half into the lower. Each step is a bijection
/// of 2^bits values, hence the whole.
HD constexpr uint32_t permuted(uint32_t position, uint32_t bits, uint64_t seed) {
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  const uint32_t half = (bits + 1) / 2;
  uint64_t value = position & mask;
  for (uint64_t round = 0; round < 3; ++round) {
    value = (value * 0xD6E8FEB86659FD93ull + random_word(seed, round)) & mask;
    value ^= value >> half;
  }
  return static_cast<uint32_t>(value);
}

static_assert(permuted(0, 0, 42) == 0, "one position stays where it is");
static_assert(permuted(0, 1, 42) + permuted(1, 1, 42) == 1, "two positions go to two positions");

/// log2 of a power of two.
HD constexpr uint32_t log2_exact(uint64_t power) {
  uint32_t bits = 0;
  while (power > 1) {
    power >>= 1;
    ++bits;
  }
  return bits;
}

}  // namespace pelton
