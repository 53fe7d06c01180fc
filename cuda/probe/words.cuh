/// All words of some memory, shared by the threads of the grid.
#pragma once

#include <cstdint>

#include "block/grid.cuh"
#include "pelton/common/words.h"

namespace pelton {

/// Bytes of the widest load.
constexpr uint64_t VECTOR_BYTES = 16;

inline bool is_vector_aligned(const void* address) {
  return reinterpret_cast<uintptr_t>(address) % VECTOR_BYTES == 0;
}

/// Calls `use(index, word, byte_count)` once for each word of `bytes` bytes at `source`.
///
/// Access: aligned memory by loads of 16 bytes, ITEMS of a thread in flight, the end of less than 16 bytes by one
/// thread; other memory byte by byte, which is right but slow. Traffic: each byte once.
template <int ITEMS, bool IS_ALIGNED, class USE>
__device__ void for_each_word(const uint8_t* source, uint64_t bytes, USE use) {
  if constexpr (IS_ALIGNED) {
    const auto* vectors = reinterpret_cast<const ulonglong2*>(source);
    for_each_in_flight<ITEMS>(
        bytes / VECTOR_BYTES, [=](uint64_t index) { return vectors[index]; },
        [&](uint64_t index, ulonglong2 vector) {
          use(2 * index, vector.x, 8);
          use(2 * index + 1, vector.y, 8);
        });
    if (grid_thread() == 0) {
      for (uint64_t index = bytes / VECTOR_BYTES * 2; index < word_count(bytes); ++index) {
        const uint32_t byte_count = word_byte_count(bytes, index);
        use(index, load_word(source + index * WORD_BYTES, byte_count), byte_count);
      }
    }
  } else {
#pragma unroll 1
    for (uint64_t index = grid_thread(); index < word_count(bytes); index += grid_threads()) {
      const uint32_t byte_count = word_byte_count(bytes, index);
      use(index, load_word(source + index * WORD_BYTES, byte_count), byte_count);
    }
  }
}

}  // namespace pelton
