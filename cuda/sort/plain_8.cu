/// Radix sort of unsigned keys of 8 bytes, ascending, fewer than 2^32: CUB as it is.
#include "sort/families.h"
#include "sort/radix.cuh"

int pelton::sort_plain_8(const k_sort_args& args, void* stream) {
  return radix_sort_with_values<uint64_t, uint32_t>(args, cub::detail::identity_decomposer_t{}, stream);
}
