/// The kernels of cuda/sort that are not CUB's, on emulated blocks of threads, against the standard library.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "sort/merge.cuh"
#include "sort/partition.cuh"
#include "sort/take.cuh"

namespace {

using pelton::key_order;
__extension__ typedef unsigned __int128 Word128;

constexpr k_launch WHERE{1, 0};
int failures = 0;

void check(bool holds, const char* what, uint64_t a, uint64_t b) {
  if (holds) return;
  std::printf("FAILED: %s (%llu, %llu)\n", what, static_cast<unsigned long long>(a), static_cast<unsigned long long>(b));
  ++failures;
}

uint64_t next_random() {
  static uint64_t state = 88172645463325252u;
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state * 0x2545F4914F6CDD1Du;
}

/// Keys with many equal ones, as few distinct as `distinct` says.
template <class WORD>
std::vector<WORD> random_keys(uint64_t count, uint64_t distinct) {
  std::vector<WORD> keys(count);
  for (auto& key : keys) {
    const uint64_t drawn = next_random() % distinct;
    key = WORD(drawn * 0x9E3779B97F4A7C15u);
    if (sizeof(WORD) == 16) key |= WORD(drawn % 3) << (8 * sizeof(WORD) - 4);
  }
  return keys;
}

template <class T>
uint8_t* bytes(std::vector<T>& of) { return reinterpret_cast<uint8_t*>(of.data()); }

template <class WORD, class VALUE>
void check_merge(uint32_t key_type, uint32_t direction, uint64_t first, uint64_t second, uint64_t distinct) {
  const k_key_order named{key_type, direction};
  const auto order = key_order<WORD>(named);
  const auto is_before = [&](WORD a, WORD b) { return order.word(a) < order.word(b); };
  std::vector<WORD> a = random_keys<WORD>(first, distinct), b = random_keys<WORD>(second, distinct);
  std::sort(a.begin(), a.end(), is_before);
  std::sort(b.begin(), b.end(), is_before);
  std::vector<VALUE> a_values(first), b_values(second);
  std::iota(a_values.begin(), a_values.end(), VALUE(0));
  std::iota(b_values.begin(), b_values.end(), VALUE(first));
  std::vector<WORD> whole = a;
  whole.insert(whole.end(), b.begin(), b.end());
  std::vector<VALUE> places(first + second);
  std::iota(places.begin(), places.end(), VALUE(0));
  std::stable_sort(places.begin(), places.end(), [&](VALUE x, VALUE y) { return is_before(whole[x], whole[y]); });

  std::vector<WORD> target(first + second);
  std::vector<VALUE> target_values(first + second);
  const k_merge_args args{{bytes(a), bytes(b)}, {bytes(a_values), bytes(b_values)}, {first, second}, bytes(target),
                          bytes(target_values), named, sizeof(VALUE), WHERE};
  if (first + second > 0) pelton::launch_merge<WORD, VALUE>(args, nullptr);
  check(target_values == places, "values of merged runs", first, second);
  bool is_sorted = true;
  for (size_t place = 0; place < target.size(); ++place) is_sorted &= target[place] == whole[places[place]];
  check(is_sorted, "keys of merged runs", first, second);
  std::vector<WORD> alone(first + second);
  k_merge_args keys_only = args;
  keys_only.target = bytes(alone);
  if (first + second > 0) pelton::launch_merge<WORD, void>(keys_only, nullptr);
  check(alone == target, "merged keys alone", first, second);
}

template <class WORD>
void check_partition(uint32_t key_type, uint64_t count, uint32_t splitter_count, uint64_t share_tiles) {
  const k_key_order named{key_type, K_DESCENDING};
  const auto order = key_order<WORD>(named);
  const auto is_before = [&](WORD a, WORD b) { return order.word(a) < order.word(b); };
  std::vector<WORD> keys = random_keys<WORD>(count, 1000), splitters = random_keys<WORD>(splitter_count, 1000);
  std::sort(splitters.begin(), splitters.end(), is_before);
  const auto bucket = [&](WORD key) {
    return std::upper_bound(splitters.begin(), splitters.end(), key, is_before) - splitters.begin();
  };
  std::vector<uint64_t> values(count), places(count), counts(splitter_count + 1), expected(splitter_count + 1);
  std::iota(values.begin(), values.end(), 0);
  places = values;
  std::stable_sort(places.begin(), places.end(), [&](uint64_t x, uint64_t y) { return bucket(keys[x]) < bucket(keys[y]); });
  for (const WORD key : keys) ++expected[bucket(key)];

  const pelton::SplitterBuckets<WORD> buckets{keys.data(), order, splitters.data(), splitter_count};
  pelton::launch(pelton::Count<pelton::SplitterBuckets<WORD>>{buckets, count, counts.data()},
                 pelton::grid_blocks<pelton::PartitionPolicy>(count, 1), nullptr);
  check(counts == expected, "counts of buckets", count, splitter_count);

  const uint64_t share_keys = share_tiles * pelton::PARTITION_TILE;
  const uint32_t shares = static_cast<uint32_t>((count + share_keys - 1) / share_keys);
  std::vector<uint64_t> of_shares((splitter_count + 1) * uint64_t{shares});
  pelton::launch(pelton::CountShares<WORD>{buckets, count, share_keys, of_shares.data()}, shares, nullptr);
  std::exclusive_scan(of_shares.begin(), of_shares.end(), of_shares.begin(), uint64_t{0});
  std::vector<WORD> target(count);
  std::vector<uint64_t> target_values(count);
  pelton::launch(pelton::PlaceShares<WORD, uint64_t>{buckets, count, share_keys, of_shares.data(), target.data(),
                                                     values.data(), target_values.data()},
                 shares, nullptr);
  check(target_values == places, "partitioned values", count, splitter_count);
  bool is_placed = true;
  for (uint64_t place = 0; place < count; ++place) is_placed &= target[place] == keys[places[place]];
  check(is_placed, "partitioned keys", count, splitter_count);
}

void digits_are_counted() {
  std::vector<uint64_t> keys = random_keys<uint64_t>(9000, 1u << 30);
  const auto order = key_order<uint64_t>({K_KEY_F64, K_ASCENDING});
  std::vector<uint64_t> counts(1 << 12), expected(1 << 12);
  for (const uint64_t key : keys) ++expected[order.word(key) >> 52];
  const pelton::DigitBuckets<uint64_t> buckets{keys.data(), order, 52, 12};
  pelton::launch(pelton::Count<pelton::DigitBuckets<uint64_t>>{buckets, keys.size(), counts.data()}, 3, nullptr);
  check(counts == expected, "counts of digits", keys.size(), 12);
}

struct SomePolicy {
  static constexpr int THREADS = 64;
  static constexpr int ITEMS = 4;
};

void elements_and_bits_are_taken() {
  for (const uint64_t count : {1u, 31u, 33u, 1000u}) {
    std::vector<uint32_t> source(777), indices(count), target(count), expected(count);
    std::iota(source.begin(), source.end(), 5u);
    std::vector<uint8_t> bits((count + 7) / 8, 0xFF), expected_bits((count + 7) / 8);
    for (uint64_t place = 0; place < count; ++place) {
      const uint32_t index = indices[place] = static_cast<uint32_t>(next_random() % 900);
      expected[place] = index < source.size() ? source[index] : 0;
      const bool is_set = index < 700 && (bytes(source)[index / 8] >> (index % 8) & 1) != 0;
      expected_bits[place / 8] = static_cast<uint8_t>(expected_bits[place / 8] | is_set << (place % 8));
    }
    const k_take_args args{bytes(source), source.size(), bytes(indices), count, bytes(target), 4, 4, WHERE};
    pelton::launch(pelton::Take<SomePolicy, uint32_t, uint32_t>{args}, 2, nullptr);
    check(target == expected, "taken elements", count, 0);
    const k_take_bits_args of_bits{bytes(source), 700, bytes(indices), count, bits.data(), 4, WHERE};
    pelton::launch(pelton::TakeBits<SomePolicy, uint32_t>{of_bits}, 2, nullptr);
    check(bits == expected_bits, "taken bits", count, 0);
  }
}

}  // namespace

int main() {
  const uint64_t splits[][2] = {{0, 0},       {0, 1},       {1, 0},      {1, 1},        {0, 5000},    {5000, 0},
                                {3840, 3840}, {3839, 3842}, {1, 9000},   {9000, 1},     {100, 20000}, {20000, 11111},
                                {1792, 1791}, {255, 257},   {7680, 7681}};
  for (const auto& [first, second] : splits) {
    for (const uint64_t distinct : {uint64_t{1}, uint64_t{7}, uint64_t{1} << 40}) {
      check_merge<uint32_t, uint32_t>(K_KEY_F32, K_ASCENDING, first, second, distinct);
      check_merge<uint64_t, uint32_t>(K_KEY_I64, K_DESCENDING, first, second, distinct);
      check_merge<Word128, uint64_t>(K_KEY_I128, K_ASCENDING, first, second, distinct);
    }
  }
  for (const uint32_t splitter_count : {0u, 1u, 255u, 256u, 1024u}) {
    for (const uint64_t count : {1u, 31u, 2047u, 2049u, 9000u}) {
      // Shares of several tiles, and of one.
      check_partition<uint32_t>(K_KEY_I32, count, splitter_count, 3);
      check_partition<Word128>(K_KEY_I128, count, splitter_count, 1);
    }
  }
  digits_are_counted();
  elements_and_bits_are_taken();
  std::printf("kernels of sort: %s\n", failures == 0 ? "ok" : "FAILED");
  return failures != 0;
}
