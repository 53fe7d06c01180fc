/// Tests of the functions that host and device share, without a GPU. Prints what failed; the status is their number.
#include <cstdio>
#include <set>
#include <vector>

#include "pelton/abi/library.h"
#include "pelton/abi/partition.h"
#include "pelton/abi/probe.h"
#include "pelton/common/fingerprint.h"
#include "pelton/common/mix.h"
#include "pelton/common/order.h"
#include "pelton/common/permutation.h"
#include "pelton/common/words.h"

namespace {

int failures = 0;

void check(bool holds, const char* what) {
  if (!holds) {
    std::printf("FAILED: %s\n", what);
    ++failures;
  }
}

void random_words_are_those_of_splitmix64() {
  const uint64_t expected[] = {0xE220A8397B1DCDAFull, 0x6E789E6AA1B965F4ull, 0x06C45D188009454Full,
                               0xF88BB8A8724C81ECull, 0x1B39896A51A8749Bull};
  for (uint64_t index = 0; index < 5; ++index) {
    check(pelton::random_word(0, index) == expected[index], "splitmix64 seeded with 0");
  }
}

void permutations_are_bijections_with_one_cycle_of_links() {
  for (uint32_t bits = 0; bits <= 16; ++bits) {
    for (uint64_t seed : {0ull, 1ull, 42ull}) {
      const uint64_t count = uint64_t{1} << bits;
      std::vector<uint32_t> links(count, ~0u);
      for (uint64_t position = 0; position < count; ++position) {
        const uint32_t slot = pelton::permuted(static_cast<uint32_t>(position), bits, seed);
        check(slot < count, "a slot is in range");
        links[slot] = pelton::permuted(static_cast<uint32_t>((position + 1) % count), bits, seed);
      }
      std::set<uint32_t> seen;
      for (uint32_t slot = 0; seen.insert(slot).second;) slot = links[slot];
      check(seen.size() == count, "the cycle goes through all slots");
    }
  }
  check(pelton::permuted(7, 32, 1) != pelton::permuted(8, 32, 1), "32 bits are not too many");
}

void short_words_are_loaded_and_stored_whole() {
  const uint8_t bytes[] = {1, 2, 3, 4, 5, 6, 7, 8};
  check(pelton::load_word(bytes, 8) == 0x0807060504030201ull, "little-endian");
  check(pelton::load_word(bytes, 3) == 0x030201ull, "zeros follow");
  uint8_t stored[] = {9, 9, 9, 9};
  pelton::store_word(stored, 0x0807060504030201ull, 3);
  check(stored[0] == 1 && stored[2] == 3 && stored[3] == 9, "no byte more is stored");
}

void powers_of_two_have_their_logarithms() {
  for (uint32_t bits = 0; bits <= 32; ++bits) {
    check(pelton::log2_exact(uint64_t{1} << bits) == bits, "log2 of a power of two");
  }
}

__extension__ typedef unsigned __int128 Word128;

/// Keys in ascending order: their words are too, or are in the reverse if descending, and keys come back.
template <class WORD>
void check_order(uint32_t key_type, const std::vector<WORD>& keys) {
  for (uint32_t direction : {K_ASCENDING, K_DESCENDING}) {
    const auto order = pelton::key_order<WORD>({key_type, direction});
    for (size_t index = 0; index < keys.size(); ++index) {
      check(order.key(order.word(keys[index])) == keys[index], "a key comes back from its word");
      if (index == 0) continue;
      const bool is_less = order.word(keys[index - 1]) < order.word(keys[index]);
      check(is_less == (direction == K_ASCENDING), "words are ordered as their keys");
      check(order.word(keys[index - 1]) != order.word(keys[index]), "words of two keys differ");
    }
  }
}

void words_are_ordered_as_their_keys() {
  check_order<uint32_t>(K_KEY_U32, {0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF});
  check_order<uint32_t>(K_KEY_I32, {0x80000000, 0x80000001, 0xFFFFFFFF, 0, 1, 0x7FFFFFFF});
  // Infinities, -1, the least subnormals, zeros, 1; then NaNs, those with the sign set last.
  check_order<uint32_t>(K_KEY_F32, {0xFF800000, 0xBF800000, 0x80000001, 0x80000000, 0, 1, 0x3F800000, 0x7F800000,
                                    0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0xFFFFFFFF, 0xFFC00000, 0xFF800001});
  check_order<uint64_t>(K_KEY_U64, {0, 1, ~uint64_t{0}});
  check_order<uint64_t>(K_KEY_I64, {uint64_t{1} << 63, ~uint64_t{0}, 0, 1, ~uint64_t{0} >> 1});
  check_order<uint64_t>(K_KEY_F64, {0xFFF0000000000000, 0xBFF0000000000000, 0x8000000000000001, 0x8000000000000000, 0, 1,
                                    0x3FF0000000000000, 0x7FF0000000000000, 0x7FF0000000000001, 0x7FFFFFFFFFFFFFFF,
                                    0xFFFFFFFFFFFFFFFF, 0xFFF0000000000001});
  const Word128 sign = Word128{1} << 127;
  check_order<Word128>(K_KEY_I128, {sign, sign + 1, ~Word128{0}, 0, 1, Word128{1} << 64, sign - 1});
  check(pelton::key_width_bytes(K_KEY_TYPE_COUNT) == 0, "there are no more types");
}

}  // namespace

int main() {
  random_words_are_those_of_splitmix64();
  permutations_are_bijections_with_one_cycle_of_links();
  short_words_are_loaded_and_stored_whole();
  powers_of_two_have_their_logarithms();
  words_are_ordered_as_their_keys();
  std::printf("common headers: %s\n", failures == 0 ? "ok" : "FAILED");
  return failures;
}
