/// The C entries of the family `probe`: check the arguments, choose the variant, launch.
#include "block/launch.cuh"
#include "pelton/abi/probe.h"
#include "probe/copy.cuh"
#include "probe/fill.cuh"
#include "probe/policy.h"
#include "probe/read.cuh"

namespace pelton {
namespace {

/// Launches `BODY<policy, ...>{fields...}` over `work_items` items.
template <template <class> class BODY, class... FIELDS>
int launch_over(uint64_t work_items, const k_launch& where, void* stream, FIELDS... fields) {
  return with_policy(where.policy, [&](auto policy) {
    using Policy = decltype(policy);
    const uint32_t blocks = grid_blocks<Policy>(work_items, where.multiprocessors);
    return launch(BODY<Policy>{fields...}, blocks, stream);
  });
}

template <class POLICY> using ReadAligned = Read<POLICY, true>;
template <class POLICY> using ReadUnaligned = Read<POLICY, false>;
template <class POLICY> using FingerprintAligned = FingerprintOf<POLICY, true>;
template <class POLICY> using FingerprintUnaligned = FingerprintOf<POLICY, false>;
template <class POLICY> using FillRandomAligned = Fill<POLICY, true, RandomWords>;
template <class POLICY> using FillRandomUnaligned = Fill<POLICY, false, RandomWords>;
template <class POLICY> using FillWordAligned = Fill<POLICY, true, EqualWords>;
template <class POLICY> using FillWordUnaligned = Fill<POLICY, false, EqualWords>;
template <class POLICY> using Gather4 = Gather<POLICY, uint32_t>;
template <class POLICY> using Gather8 = Gather<POLICY, uint64_t>;
template <class POLICY> using Copy16 = Copy<POLICY, uint4>;
template <class POLICY> using Copy4 = Copy<POLICY, uint32_t>;
template <class POLICY> using Copy1 = Copy<POLICY, uint8_t>;

bool is_word_aligned(const void* address) { return reinterpret_cast<uintptr_t>(address) % WORD_BYTES == 0; }

bool is_slot_count(uint64_t value) {
  return value != 0 && (value & (value - 1)) == 0 && value <= (uint64_t{1} << 32);
}

}  // namespace
}  // namespace pelton

using namespace pelton;

int k_fill_random(const k_fill_random_args* args, void* stream) {
  if (args == nullptr || !is_valid(args->launch)) return cudaErrorInvalidValue;
  if (args->bytes == 0) return cudaSuccess;
  const uint64_t words = word_count(args->bytes);
  const RandomWords random{args->seed};
  return is_word_aligned(args->target)
             ? launch_over<FillRandomAligned>(words, args->launch, stream, args->target, args->bytes, random)
             : launch_over<FillRandomUnaligned>(words, args->launch, stream, args->target, args->bytes, random);
}

int k_fill_word(const k_fill_word_args* args, void* stream) {
  if (args == nullptr || !is_valid(args->launch)) return cudaErrorInvalidValue;
  if (args->bytes == 0) return cudaSuccess;
  const uint64_t words = word_count(args->bytes);
  const EqualWords equal{args->word};
  return is_word_aligned(args->target)
             ? launch_over<FillWordAligned>(words, args->launch, stream, args->target, args->bytes, equal)
             : launch_over<FillWordUnaligned>(words, args->launch, stream, args->target, args->bytes, equal);
}

int k_fill_cycle(const k_fill_cycle_args* args, void* stream) {
  if (args == nullptr || !is_valid(args->launch)) return cudaErrorInvalidValue;
  if (!is_slot_count(args->slot_count)) return cudaErrorInvalidValue;
  return launch_over<FillCycle>(args->slot_count, args->launch, stream, *args, log2_exact(args->slot_count));
}

int k_fingerprint(const k_fingerprint_args* args, void* stream) {
  if (args == nullptr || !is_valid(args->launch)) return cudaErrorInvalidValue;
  if (args->bytes == 0) return cudaSuccess;
  return is_vector_aligned(args->source)
             ? launch_over<FingerprintAligned>(args->bytes / VECTOR_BYTES, args->launch, stream, *args)
             : launch_over<FingerprintUnaligned>(word_count(args->bytes), args->launch, stream, *args);
}

int k_read(const k_read_args* args, void* stream) {
  if (args == nullptr || !is_valid(args->launch)) return cudaErrorInvalidValue;
  if (args->bytes == 0) return cudaSuccess;
  return is_vector_aligned(args->source)
             ? launch_over<ReadAligned>(args->bytes / VECTOR_BYTES, args->launch, stream, *args)
             : launch_over<ReadUnaligned>(word_count(args->bytes), args->launch, stream, *args);
}

int k_gather(const k_gather_args* args, void* stream) {
  if (args == nullptr || !is_valid(args->launch)) return cudaErrorInvalidValue;
  if (args->count == 0) return cudaSuccess;
  switch (args->width_bytes) {
    case 4:
      return launch_over<Gather4>(args->count, args->launch, stream, *args);
    case 8:
      return launch_over<Gather8>(args->count, args->launch, stream, *args);
    default:
      return cudaErrorInvalidValue;
  }
}

int k_chase(const k_chase_args* args, void* stream) {
  if (args == nullptr || !is_valid(args->launch)) return cudaErrorInvalidValue;
  if (!is_slot_count(args->slot_count)) return cudaErrorInvalidValue;
  return launch_over<Chase>(1, args->launch, stream, *args);
}

int k_copy(const k_copy_args* args, void* stream) {
  if (args == nullptr || !is_valid(args->launch)) return cudaErrorInvalidValue;
  if (args->bytes == 0) return cudaSuccess;
  if (is_equally_aligned(args->source, args->target, 16)) {
    return launch_over<Copy16>(args->bytes / 16, args->launch, stream, *args);
  }
  if (is_equally_aligned(args->source, args->target, 4)) {
    return launch_over<Copy4>(args->bytes / 4, args->launch, stream, *args);
  }
  return launch_over<Copy1>(args->bytes, args->launch, stream, *args);
}
