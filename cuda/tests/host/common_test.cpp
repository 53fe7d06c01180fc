/// Tests of the functions that host and device share, without a GPU. Prints what failed; the status is their number.
#include <cstdio>
#include <set>
#include <vector>

#include "pelton/abi/library.h"
#include "pelton/abi/probe.h"
#include "pelton/common/fingerprint.h"
#include "pelton/common/mix.h"
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

}  // namespace

int main() {
  random_words_are_those_of_splitmix64();
  permutations_are_bijections_with_one_cycle_of_links();
  short_words_are_loaded_and_stored_whole();
  powers_of_two_have_their_logarithms();
  std::printf("common headers: %s\n", failures == 0 ? "ok" : "FAILED");
  return failures;
}
