/// Mixing of words: the output function of splitmix64, and its sequence by index.
///
/// Guy Steele, Doug Lea, Christine Flood: Fast Splittable Pseudorandom Number Generators, 2014, Figure 16, with the
/// multipliers of its variant 13 (Stafford).
#pragma once

#include <cstdint>

#include "pelton/common/hd.h"

namespace pelton {

/// 2^64 divided by the golden ratio, odd: the step of the sequence.
constexpr uint64_t GOLDEN_GAMMA = 0x9E3779B97F4A7C15ull;

/// A bijection of words in which every bit of the result depends on every bit of the word.
HD constexpr uint64_t mix(uint64_t word) {
  word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ull;
  word = (word ^ (word >> 27)) * 0x94D049BB133111EBull;
  return word ^ (word >> 31);
}

/// The output number `index`, from 0, of splitmix64 seeded with `seed`.
HD constexpr uint64_t random_word(uint64_t seed, uint64_t index) { return mix(seed + (index + 1) * GOLDEN_GAMMA); }

static_assert(random_word(0, 0) == 0xE220A8397B1DCDAFull, "the first output of splitmix64 seeded with 0");
static_assert(random_word(0, 2) == 0x06C45D188009454Full, "the third output of splitmix64 seeded with 0");

}  // namespace pelton
