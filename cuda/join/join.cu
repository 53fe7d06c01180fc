/// The C entries of the family `join`: check the arguments, choose the variant, launch.
#include "join/partition.cuh"
#include "join/probe.cuh"
#include "join/table.cuh"
#include "pelton/abi/join.h"

namespace pelton {
namespace {

bool is_table(const k_join_table& table) {
  const bool has_width = table.width_bytes == 4 || table.width_bytes == 8;
  return has_width && table.kind <= K_JOIN_PERFECT_FULL && table.slot_count > 0;
}

/// Calls `launch_with` with a word of `width_bytes`.
template <class LAUNCH>
int with_word(uint64_t width_bytes, LAUNCH launch_with) {
  switch (width_bytes) {
    case 4:
      return launch_with(uint32_t{});
    case 8:
      return launch_with(uint64_t{});
    default:
      return cudaErrorInvalidValue;
  }
}

template <class WORD, class TABLE>
int build(const k_join_build_args& args, void* stream) {
  const JoinBuild<TABLE> body{TABLE(args.table),
                              reinterpret_cast<const WORD*>(args.keys),
                              reinterpret_cast<const WORD*>(args.values),
                              args.count,
                              args.first_row,
                              args.table.state};
  return launch(body, grid_blocks<JoinPolicy>(args.count, args.launch.multiprocessors), stream);
}

template <class WORD, class TABLE>
int probe(const k_join_probe_args& args, void* stream) {
  const Lookup<WORD> lookup{reinterpret_cast<const WORD*>(args.keys), reinterpret_cast<const WORD*>(args.values),
                            args.output};
  const uint32_t blocks = grid_blocks<JoinPolicy>(args.count, args.launch.multiprocessors);
  const TABLE table(args.table);
  return args.output.mode == K_JOIN_PAIRS ? launch(JoinPairs<TABLE>{table, lookup, args.count}, blocks, stream)
                                          : launch(JoinSum<TABLE>{table, lookup, args.count}, blocks, stream);
}

/// Blocks for units whose number only the device knows: as many as there can be at a time.
template <class POLICY>
uint32_t all_blocks(const k_launch& where) { return where.multiprocessors * POLICY::BLOCKS_PER_MULTIPROCESSOR; }

bool is_partition(const k_join_partition_args& args) {
  return is_valid(args.launch) && args.bits <= K_JOIN_BITS_MAX && args.begin_bit + args.bits <= 64;
}

template <class WORD>
RadixTile<WORD> tile_of(const k_join_partition_args& args) {
  // No bits may be asked for at the very end, where a shift would be by the width.
  const uint32_t begin_bit = args.bits == 0 ? 0 : args.begin_bit;
  return {reinterpret_cast<const WORD*>(args.keys), args.offsets, begin_bit, 1u << args.bits};
}

}  // namespace
}  // namespace pelton

using namespace pelton;

int k_join_build(const k_join_build_args* args, void* stream) {
  if (args == nullptr || !is_valid(args->launch) || !is_table(args->table)) return cudaErrorInvalidValue;
  if (args->count == 0) return cudaSuccess;
  return with_word(args->table.width_bytes, [&](auto word) {
    using Word = decltype(word);
    return args->table.kind == K_JOIN_GENERAL ? build<Word, GeneralTable<Word>>(*args, stream)
                                              : build<Word, PerfectTable<Word>>(*args, stream);
  });
}

int k_join_probe(const k_join_probe_args* args, void* stream) {
  if (args == nullptr || !is_valid(args->launch) || !is_table(args->table)) return cudaErrorInvalidValue;
  if (args->output.mode > K_JOIN_PAIRS) return cudaErrorInvalidValue;
  if (args->count == 0) return cudaSuccess;
  return with_word(args->table.width_bytes, [&](auto word) {
    using Word = decltype(word);
    return args->table.kind == K_JOIN_GENERAL ? probe<Word, GeneralTable<Word>>(*args, stream)
                                              : probe<Word, PerfectTable<Word>>(*args, stream);
  });
}

int k_join_units(const k_join_units_args* args, void* stream) {
  if (args == nullptr || !is_valid(args->launch) || args->first_rows == 0) return cudaErrorInvalidValue;
  if (args->second_offsets != nullptr && args->second_rows == 0) return cudaErrorInvalidValue;
  const uint32_t blocks = grid_blocks<JoinPolicy>(args->segment_count + 1, args->launch.multiprocessors);
  return launch(CountUnits{*args}, blocks, stream);
}

int k_join_count(const k_join_partition_args* args, void* stream) {
  if (args == nullptr || !is_partition(*args)) return cudaErrorInvalidValue;
  if (args->segment_count == 0) return cudaSuccess;
  return with_word(args->width_bytes, [&](auto word) {
    using Word = decltype(word);
    const RadixCount<Word> body{tile_of<Word>(*args), args->units, args->segment_count, args->counts};
    return launch(body, all_blocks<RadixPolicy>(args->launch), stream);
  });
}

int k_join_scatter(const k_join_partition_args* args, void* stream) {
  if (args == nullptr || !is_partition(*args)) return cudaErrorInvalidValue;
  if (args->segment_count == 0) return cudaSuccess;
  return with_word(args->width_bytes, [&](auto word) {
    using Word = decltype(word);
    const RadixScatter<Word> body{tile_of<Word>(*args),
                                  args->units,
                                  args->segment_count,
                                  args->counts,
                                  reinterpret_cast<const Word*>(args->values),
                                  reinterpret_cast<Word*>(args->target),
                                  reinterpret_cast<Word*>(args->target_values)};
    return launch(body, all_blocks<RadixPolicy>(args->launch), stream);
  });
}

int k_join_pairs(const k_join_pairs_args* args, void* stream) {
  if (args == nullptr || !is_valid(args->launch) || args->output.mode > K_JOIN_PAIRS) return cudaErrorInvalidValue;
  if (args->segment_count == 0) return cudaSuccess;
  return with_word(args->width_bytes, [&](auto word) {
    using Word = decltype(word);
    const uint32_t blocks = all_blocks<SharedJoinPolicy>(args->launch);
    return args->output.mode == K_JOIN_PAIRS ? launch(SharedJoin<Word, true>{*args}, blocks, stream)
                                             : launch(SharedJoin<Word, false>{*args}, blocks, stream);
  });
}
