/// Fingerprints of memory that do not depend on the order in which it is scanned.
///
/// The fingerprint of n words is the sum modulo 2^64, and the exclusive or, of one term a word. A term mixes the word
/// with its number, so that equal words at other places, or the same words in another order, give other fingerprints.
/// It finds accidents, not attacks.
#pragma once

#include <cstdint>

#include "pelton/common/mix.h"

namespace pelton {

/// What word number `index` adds; `byte_count` of its bytes (1 to 8) are there, the others count as zeros.
HD constexpr uint64_t fingerprint_term(uint64_t index, uint64_t word, uint32_t byte_count) {
  return mix(word ^ ((index + 1) * GOLDEN_GAMMA + (8 - byte_count)));
}

static_assert(fingerprint_term(0, 0, 8) != fingerprint_term(1, 0, 8), "zeros at two places are told apart");
static_assert(fingerprint_term(0, 0, 8) != fingerprint_term(0, 0, 7), "a missing byte is not a zero");
static_assert(fingerprint_term(0, 0, 8) != 0, "a word of zeros is not nothing");

}  // namespace pelton
