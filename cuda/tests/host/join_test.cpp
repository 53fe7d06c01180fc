/// The kernels of cuda/join on emulated blocks of threads, against maps of the standard library.
#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

// First, since it says what the marks of device code mean here.
#include "block/launch.cuh"

#include "join/partition.cuh"
#include "join/probe.cuh"
#include "join/table.cuh"

namespace {

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

template <class WORD>
struct Rows {
  std::vector<WORD> keys;
  std::vector<WORD> values;
  uint64_t count() const { return keys.size(); }
};

/// Keys of `distinct` values with the least and the greatest word among them.
template <class WORD>
Rows<WORD> random_rows(uint64_t count, uint64_t distinct) {
  Rows<WORD> rows{std::vector<WORD>(count), std::vector<WORD>(count)};
  for (uint64_t row = 0; row < count; ++row) {
    const uint64_t drawn = next_random() % distinct;
    rows.keys[row] = drawn == 0 ? WORD(0) : drawn == 1 ? static_cast<WORD>(~WORD(0)) : WORD(drawn * 0x9E3779B97F4A7C15u);
    rows.values[row] = static_cast<WORD>(next_random());
  }
  return rows;
}

template <class T>
uint8_t* bytes(std::vector<T>& of) { return reinterpret_cast<uint8_t*>(of.data()); }

template <class WORD>
using Pairs = std::vector<std::pair<WORD, WORD>>;

template <class WORD>
Pairs<WORD> reference(const Rows<WORD>& build, const Rows<WORD>& probe) {
  std::multimap<WORD, WORD> table;
  for (uint64_t row = 0; row < build.count(); ++row) table.emplace(build.keys[row], build.values[row]);
  Pairs<WORD> pairs;
  for (uint64_t row = 0; row < probe.count(); ++row) {
    const auto [begin, end] = table.equal_range(probe.keys[row]);
    for (auto at = begin; at != end; ++at) pairs.emplace_back(at->second, probe.values[row]);
  }
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

/// Memory that matches are written to.
template <class WORD>
struct Output {
  uint64_t result[2] = {0, 0};
  std::vector<WORD> build;
  std::vector<WORD> probe;

  k_join_output of(k_join_mode mode) {
    return {result, bytes(build), bytes(probe), build.size(), 0, mode};
  }

  void check_sum(const Pairs<WORD>& expected, const char* what) {
    uint64_t sum = 0;
    for (const auto& [one, other] : expected) sum += uint64_t{one} * other;
    check(result[0] == expected.size() && result[1] == sum, what, result[0], expected.size());
  }

  void check_pairs(const Pairs<WORD>& expected, const char* what) {
    Pairs<WORD> found;
    for (uint64_t at = 0; at < std::min<uint64_t>(result[0], build.size()); ++at) found.emplace_back(build[at], probe[at]);
    std::sort(found.begin(), found.end());
    check(found == expected, what, result[0], expected.size());
  }
};

template <class TABLE>
void check_table(const k_join_table& args, Rows<typename TABLE::Word>& build, Rows<typename TABLE::Word>& probe,
                 const char* what) {
  using Word = typename TABLE::Word;
  const TABLE table(args);
  const uint64_t half = build.count() / 2;
  pelton::launch(pelton::JoinBuild<TABLE>{table, build.keys.data(), build.values.data(), half, 0, args.state}, 2, nullptr);
  pelton::launch(pelton::JoinBuild<TABLE>{table, build.keys.data() + half, build.values.data() + half,
                                          build.count() - half, half, args.state}, 2, nullptr);
  const auto expected = reference(build, probe);
  Output<Word> sum;
  pelton::launch(pelton::JoinSum<TABLE>{table, {probe.keys.data(), probe.values.data(), sum.of(K_JOIN_SUM)}, probe.count()},
                 2, nullptr);
  sum.check_sum(expected, what);
  Output<Word> pairs;
  pairs.build.resize(expected.size());
  pairs.probe.resize(expected.size());
  pelton::launch(
      pelton::JoinPairs<TABLE>{table, {probe.keys.data(), probe.values.data(), pairs.of(K_JOIN_PAIRS)}, probe.count()}, 2,
      nullptr);
  pairs.check_pairs(expected, what);
}

template <class WORD>
void check_general(uint64_t build_count, uint64_t probe_count, uint64_t distinct) {
  auto build = random_rows<WORD>(build_count, distinct);
  auto probe = random_rows<WORD>(probe_count, distinct + 3);
  const uint64_t slots = build_count + 1;
  std::vector<pelton::JoinSlot<WORD>> memory(slots + 1, {static_cast<WORD>(~WORD(0)), 0});
  std::vector<uint32_t> heads(slots + 1, ~0u), next(build_count + 1, 77);
  std::vector<WORD> chain(build_count + 1, 77);
  uint64_t state[2] = {0, 0};
  const k_join_table table{bytes(memory), heads.data(), bytes(chain), next.data(), state, slots, 0, K_JOIN_GENERAL,
                           sizeof(WORD)};
  check_table<pelton::GeneralTable<WORD>>(table, build, probe, "a general table");
  std::map<WORD, int> keys;
  for (WORD key : build.keys) keys[key] = 1;
  check(state[0] == build_count - keys.size() && state[1] == 0, "rows of known keys", state[0], keys.size());
}

template <class WORD>
void check_perfect(uint64_t count, WORD first_key, bool has_holes) {
  Rows<WORD> build, probe;
  for (uint64_t key = 0; key < count; ++key) {
    if (has_holes && key % 3 == 1) continue;
    build.keys.push_back(static_cast<WORD>(first_key + key));
    build.values.push_back(static_cast<WORD>(next_random()));
  }
  for (uint64_t row = 0; row < 3 * count; ++row) {
    probe.keys.push_back(static_cast<WORD>(first_key - 5 + next_random() % (count + 10)));
    probe.values.push_back(static_cast<WORD>(next_random()));
  }
  std::vector<WORD> places(count, 77);
  std::vector<uint32_t> bits((count + 31) / 32, 0);
  uint64_t state[2] = {0, 0};
  const k_join_table table{bytes(places), bits.data(), nullptr, nullptr, state, count, first_key,
                           uint32_t(has_holes ? K_JOIN_PERFECT : K_JOIN_PERFECT_FULL), sizeof(WORD)};
  check_table<pelton::PerfectTable<WORD>>(table, build, probe, "a perfect table");
  check(state[0] == 0 && state[1] == 0, "unique keys in range", state[0], state[1]);
  // Once more: all are known now, and one more is outside.
  build.keys.push_back(static_cast<WORD>(first_key + count));
  build.values.push_back(0);
  pelton::launch(pelton::JoinBuild<pelton::PerfectTable<WORD>>{pelton::PerfectTable<WORD>(table), build.keys.data(),
                                                               build.values.data(), build.count(), 0, state},
                 1, nullptr);
  check(state[0] == build.count() - 1 && state[1] == 1, "keys again, and one outside", state[0], state[1]);
}

std::vector<uint64_t> exclusive(const std::vector<uint64_t>& counts) {
  std::vector<uint64_t> sums(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), sums.begin(), uint64_t{0});
  return sums;
}

std::vector<uint64_t> units_of(const std::vector<uint64_t>& first, const uint64_t* second, uint64_t rows, uint64_t others) {
  std::vector<uint64_t> units(first.size());
  pelton::launch(pelton::CountUnits{{first.data(), second, first.size() - 1, rows, others, units.data(), {1, 0}}}, 1, nullptr);
  check(units.back() == 0, "the last unit", units.back(), 0);
  return exclusive(units);
}

/// Partitions rows by `bits` in each of two passes; where partitions begin.
template <class WORD>
std::vector<uint64_t> partition(Rows<WORD>& rows, uint32_t bits) {
  std::vector<uint64_t> offsets{0, rows.count()};
  for (uint32_t pass = 0; pass < 2; ++pass) {
    const auto units = units_of(offsets, nullptr, K_JOIN_TILE_ROWS, 1);
    const uint64_t segments = offsets.size() - 1;
    const uint32_t begin_bit = 24 + (1 - pass) * bits;
    const pelton::RadixTile<WORD> tile{rows.keys.data(), offsets.data(), begin_bit, 1u << bits};
    std::vector<uint64_t> counts((segments << bits) + 1, 0);
    pelton::launch(pelton::RadixCount<WORD>{tile, units.data(), segments, counts.data()}, 3, nullptr);
    const auto begins = exclusive(counts);
    check(begins.back() == rows.count(), "counted rows", begins.back(), rows.count());
    auto cursors = begins;
    Rows<WORD> target{std::vector<WORD>(rows.count()), std::vector<WORD>(rows.count())};
    pelton::launch(pelton::RadixScatter<WORD>{tile, units.data(), segments, cursors.data(), rows.values.data(),
                                              target.keys.data(), target.values.data()},
                   3, nullptr);
    rows = target;
    offsets = begins;
  }
  for (uint64_t part = 0; part + 1 < offsets.size(); ++part) {
    for (uint64_t row = offsets[part]; row < offsets[part + 1]; ++row) {
      const uint64_t found = pelton::join_hash(rows.keys[row]) >> 24 & ((uint64_t{1} << 2 * bits) - 1);
      check(found == part, "a row in its partition", row, part);
    }
  }
  return offsets;
}

template <class WORD>
void check_radix(uint64_t build_count, uint64_t probe_count, uint64_t distinct, uint32_t bits) {
  auto build = random_rows<WORD>(build_count, distinct);
  auto probe = random_rows<WORD>(probe_count, distinct + 3);
  const auto expected = reference(build, probe);
  const auto build_offsets = partition(build, bits);
  const auto probe_offsets = partition(probe, bits);
  const auto units = units_of(build_offsets, probe_offsets.data(), K_JOIN_BUILD_ROWS, K_JOIN_PROBE_ROWS);
  Output<WORD> sum, pairs;
  pairs.build.resize(expected.size());
  pairs.probe.resize(expected.size());
  const auto args = [&](k_join_output output) {
    return k_join_pairs_args{bytes(build.keys), bytes(build.values), build_offsets.data(), bytes(probe.keys),
                             bytes(probe.values), probe_offsets.data(), units.data(), build_offsets.size() - 1, output,
                             sizeof(WORD), {1, 0}};
  };
  pelton::launch(pelton::SharedJoin<WORD, false>{args(sum.of(K_JOIN_SUM))}, 3, nullptr);
  sum.check_sum(expected, "partitions joined");
  pelton::launch(pelton::SharedJoin<WORD, true>{args(pairs.of(K_JOIN_PAIRS))}, 3, nullptr);
  pairs.check_pairs(expected, "pairs of partitions joined");
}

template <class WORD>
void check_word() {
  check_general<WORD>(0, 10, 5);
  check_general<WORD>(1, 100, 1);
  check_general<WORD>(300, 700, 1u << 20);
  check_general<WORD>(2000, 3000, 900);
  check_general<WORD>(100, 100, 1);
  check_perfect<WORD>(1000, 7, false);
  check_perfect<WORD>(1000, static_cast<WORD>(~WORD(0) - 999), true);
  check_radix<WORD>(0, 100, 5, 1);
  check_radix<WORD>(4097, 1, 1, 2);
}

}  // namespace

int main() {
  check_word<uint32_t>();
  check_word<uint64_t>();
  check_radix<uint32_t>(4096, 5000, 3000, 2);
  check_radix<uint64_t>(9000, 17000, 5000, 3);
  if (failures == 0) std::printf("join kernels: tables, partitions and pairs hold\n");
  return failures == 0 ? 0 : 1;
}
