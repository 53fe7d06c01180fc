/// Filling memory: with random words, with one word, with a cycle of slots.
#pragma once

#include <cstdint>

#include "block/grid.cuh"
#include "pelton/abi/probe.h"
#include "pelton/common/mix.h"
#include "pelton/common/permutation.h"
#include "pelton/common/words.h"

namespace pelton {

/// Stores one word a thread and turn, neighbours side by side.
///
/// Access: memory aligned to words by stores of 8 bytes, other memory and a short last word byte by byte.
/// Traffic: each byte once. WORDS is called with a word's number and returns the word.
template <class POLICY, bool IS_ALIGNED, class WORDS>
struct Fill {
  using Policy = POLICY;
  uint8_t* target;
  uint64_t bytes;
  WORDS words;

  __device__ void run() const {
    for (uint64_t index = grid_thread(); index < word_count(bytes); index += grid_threads()) {
      store(index, words(index));
    }
  }

  __device__ void store(uint64_t index, uint64_t word) const {
    const uint32_t byte_count = word_byte_count(bytes, index);
    if (IS_ALIGNED && byte_count == WORD_BYTES) {
      reinterpret_cast<uint64_t*>(target)[index] = word;
    } else {
      store_word(target + index * WORD_BYTES, word, byte_count);
    }
  }
};

struct RandomWords {
  uint64_t seed;
  __device__ uint64_t operator()(uint64_t index) const { return random_word(seed, index); }
};

struct EqualWords {
  uint64_t word;
  __device__ uint64_t operator()(uint64_t) const { return word; }
};

/// Writes a cycle through all slots, in the order of a permutation: slot permuted(i) names slot permuted(i + 1).
///
/// Traffic: one sector of 32 bytes a slot, at random.
template <class POLICY>
struct FillCycle {
  using Policy = POLICY;
  k_fill_cycle_args args;
  uint32_t slot_bits;

  __device__ void run() const {
    for (uint64_t position = grid_thread(); position < args.slot_count; position += grid_threads()) {
      const uint64_t next = (position + 1) & (args.slot_count - 1);
      const uint64_t slot = permuted(static_cast<uint32_t>(position), slot_bits, args.seed);
      uint8_t* const link = args.target + slot * args.stride_bytes;
      *reinterpret_cast<uint32_t*>(link) = permuted(static_cast<uint32_t>(next), slot_bits, args.seed);
    }
  }
};

}  // namespace pelton
