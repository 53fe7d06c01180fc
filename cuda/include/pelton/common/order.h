/// The order of keys: every type as an unsigned word whose order is the order of the keys, and back.
///
/// ```text
///   word = x ^ ((x >> top, signed) & flip) + shift, then inverted if descending
///
///             flip                              shift
///   unsigned  0                                 0
///   signed    0                                 2^top
///   float     all bits below the top            2^top - (number of NaNs with the sign set)
/// ```
///
/// Every step is one to one. Floats: -infinity, ..., -0, +0, ..., +infinity, NaNs with the sign clear by their bits,
/// NaNs with it set from the greatest bits to the least; so NaNs are last. Descending is the exact reverse.
#pragma once

#include <cstdint>

#include "pelton/abi/sort.h"
#include "pelton/common/hd.h"

namespace pelton {

/// What makes a word of a key; WORD has the width of the key. Plain numbers, so that one kernel serves every type.
template <class WORD>
struct KeyOrder {
  static constexpr int TOP = 8 * sizeof(WORD) - 1;
  WORD flip;
  WORD shift;
  /// All bits if the order is descending, else none.
  WORD inversion;

  HD WORD word(WORD key) const {
    const WORD is_set = WORD(0) - (key >> TOP);
    return ((key ^ (is_set & flip)) + shift) ^ inversion;
  }

  HD WORD key(WORD word) const {
    const WORD flipped = (word ^ inversion) - shift;
    const WORD is_set = WORD(0) - (flipped >> TOP);
    return flipped ^ (is_set & flip);
  }
};

/// Bytes of a key, 0 if there is no such type.
HD inline uint32_t key_width_bytes(uint32_t key_type) {
  switch (key_type) {
    case K_KEY_U32:
    case K_KEY_I32:
    case K_KEY_F32:
      return 4;
    case K_KEY_U64:
    case K_KEY_I64:
    case K_KEY_F64:
      return 8;
    case K_KEY_I128:
      return 16;
    default:
      return 0;
  }
}

/// The order that `order` names, of keys that are as wide as WORD.
template <class WORD>
HD KeyOrder<WORD> key_order(k_key_order order) {
  const WORD sign = WORD(1) << KeyOrder<WORD>::TOP;
  // NaNs with the sign set: one less than a mantissa's values.
  constexpr int MANTISSA_BITS = sizeof(WORD) == 4 ? 23 : 52;
  KeyOrder<WORD> result{0, 0, 0};
  if (order.key_type == K_KEY_F32 || order.key_type == K_KEY_F64) {
    result.flip = sign - 1;
    result.shift = sign - ((WORD(1) << MANTISSA_BITS) - 1);
  } else if (order.key_type != K_KEY_U32 && order.key_type != K_KEY_U64) {
    result.shift = sign;
  }
  if (order.direction == K_DESCENDING) result.inversion = ~WORD(0);
  return result;
}

}  // namespace pelton
