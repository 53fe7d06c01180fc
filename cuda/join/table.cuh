/// Tables of a no-partitioning hash join in device memory.
///
/// ```text
///   general   slots    │ k v │     │ k v │ k v │ ... │ slot of the empty key │     a search goes on to the right
///             heads    │  4  │     │  -  │  -  │                                   further rows of a key: a chain
///             chain    │ row 4: v, next 1 │ row 1: v, next - │
///   perfect   values   │ v │ v │   │ v │      place = key - first key
///             bits     │ 1 │ 1 │ 0 │ 1 │
/// ```
///
/// A key of a general table has one slot however often it occurs, so that inserting equal keys takes constant time each.
/// Key and value lie side by side: a search of a unique key reads one sector (two slots of 16 bytes), and the next one if
/// it goes on. Chains are looked at only if there are any.
#pragma once

#include <cstdint>

#include "pelton/abi/join.h"
#include "pelton/common/join.h"

namespace pelton {

__device__ inline uint32_t compare_and_swap(uint32_t* word, uint32_t expected, uint32_t wanted) {
  return atomicCAS(word, expected, wanted);
}

__device__ inline uint64_t compare_and_swap(uint64_t* word, uint64_t expected, uint64_t wanted) {
  return atomicCAS(reinterpret_cast<unsigned long long*>(word), static_cast<unsigned long long>(expected),
                   static_cast<unsigned long long>(wanted));
}

constexpr uint32_t JOIN_NO_ROW = 0xFFFFFFFFu;

template <class WORD>
struct alignas(2 * sizeof(WORD)) JoinSlot {
  WORD key;
  WORD value;
};

template <class WORD>
struct GeneralTable {
  using Word = WORD;
  static constexpr WORD EMPTY = static_cast<WORD>(~WORD(0));
  JoinSlot<WORD>* slots;
  uint32_t* heads;
  WORD* chain_values;
  uint32_t* chain_next;
  const uint64_t* state;
  uint64_t slot_count;

  explicit GeneralTable(const k_join_table& table)
      : slots(reinterpret_cast<JoinSlot<WORD>*>(table.slots)),
        heads(table.marks),
        chain_values(reinterpret_cast<WORD*>(table.chain_values)),
        chain_next(table.chain_next),
        state(table.state),
        slot_count(table.slot_count) {}

  /// What is known when the first slot of a key is there.
  struct First {
    uint64_t slot;
    JoinSlot<WORD> found;
  };

  __device__ uint64_t slot_of(WORD key) const {
    return key == EMPTY ? slot_count : join_slot(join_hash(key), slot_count);
  }

  __device__ First first(WORD key) const {
    const uint64_t slot = slot_of(key);
    return {slot, slots[slot]};
  }

  /// Whether keys have chains; the same for all threads.
  __device__ bool has_chains() const { return state[0] != 0; }

  /// Calls `use` with the value of every row of this key.
  template <class USE>
  __device__ void for_each(WORD key, const First& first, bool has_chains, USE use) const {
    uint64_t slot = first.slot;
    JoinSlot<WORD> found = first.found;
    if (key == EMPTY) {
      // Its slot has another key once it is taken.
      if (found.key == EMPTY) return;
    } else {
      while (found.key != key) {
        if (found.key == EMPTY) return;
        slot = slot + 1 == slot_count ? 0 : slot + 1;
        found = slots[slot];
      }
    }
    use(found.value);
    if (!has_chains) return;
    for (uint32_t row = heads[slot]; row != JOIN_NO_ROW; row = chain_next[row]) use(chain_values[row]);
  }

  /// Inserts a row; adds to one of the two counts of the table's state.
  __device__ void insert(WORD key, WORD value, uint64_t row, uint64_t& known, uint64_t&) const {
    const WORD wanted = key == EMPTY ? WORD(0) : key;
    uint64_t slot = slot_of(key);
    for (;;) {
      const WORD old = compare_and_swap(&slots[slot].key, EMPTY, wanted);
      if (old == EMPTY) {
        // Values are read by later kernels only.
        slots[slot].value = value;
        return;
      }
      if (old == wanted) {
        chain_values[row] = value;
        chain_next[row] = atomicExch(&heads[slot], static_cast<uint32_t>(row));
        ++known;
        return;
      }
      slot = slot + 1 == slot_count ? 0 : slot + 1;
    }
  }
};

template <class WORD>
struct PerfectTable {
  using Word = WORD;
  WORD* values;
  uint32_t* bits;
  uint64_t slot_count;
  WORD first_key;
  bool is_full;

  explicit PerfectTable(const k_join_table& table)
      : values(reinterpret_cast<WORD*>(table.slots)),
        bits(table.marks),
        slot_count(table.slot_count),
        first_key(static_cast<WORD>(table.first_key)),
        is_full(table.kind == K_JOIN_PERFECT_FULL) {}

  struct First {
    bool is_match;
    WORD value;
  };

  /// Beyond all places if the key has none.
  __device__ uint64_t place(WORD key) const { return static_cast<WORD>(key - first_key); }

  __device__ First first(WORD key) const {
    const uint64_t at = place(key);
    bool is_match = at < slot_count;
    if (is_match && !is_full) is_match = (bits[at / 32] >> (at % 32) & 1) != 0;
    return {is_match, is_match ? values[at] : WORD(0)};
  }

  __device__ bool has_chains() const { return false; }

  template <class USE>
  __device__ void for_each(WORD, const First& first, bool, USE use) const {
    if (first.is_match) use(first.value);
  }

  __device__ void insert(WORD key, WORD value, uint64_t, uint64_t& known, uint64_t& outside) const {
    const uint64_t at = place(key);
    if (at >= slot_count) {
      ++outside;
      return;
    }
    const uint32_t bit = 1u << (at % 32);
    if ((atomicOr(&bits[at / 32], bit) & bit) != 0) {
      ++known;
    } else {
      values[at] = value;
    }
  }
};

}  // namespace pelton
