/// Hashes of the keys of joins.
///
/// ```text
///   bit   63        48 47            24 23             0
///         slots, in shared memory │ partitions on a device │ partitions that do not fit a device
///         └──── slots of tables in device memory: hash * slot_count / 2^64, from the top ────┘
/// ```
#pragma once

#include <cstdint>

#include "pelton/common/mix.h"

namespace pelton {

/// A bijection of words, so that different keys of 8 bytes have different hashes.
HD constexpr uint64_t join_hash(uint64_t key) { return mix(key); }

/// The slot of `slot_count` where a search for a key of this hash begins.
HD constexpr uint64_t join_slot(uint64_t hash, uint64_t slot_count) {
  __extension__ typedef unsigned __int128 Wide;
  return static_cast<uint64_t>((static_cast<Wide>(hash) * slot_count) >> 64);
}

static_assert(join_slot(~uint64_t{0}, 10) == 9 && join_slot(0, 10) == 0, "all slots, and no other");

}  // namespace pelton
