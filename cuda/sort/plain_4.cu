/// Radix sort of unsigned keys of 4 bytes, ascending, fewer than 2^32: CUB as it is.
#include "sort/families.h"
#include "sort/radix.cuh"

int pelton::sort_plain_4(const k_sort_args& args, void* stream) {
  return radix_sort_with_values<uint32_t, uint32_t>(args, cub::detail::identity_decomposer_t{}, stream);
}
