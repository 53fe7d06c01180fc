/// Radix sort of keys of 4 bytes of every type, in both directions, any number of them.
#include "sort/families.h"
#include "sort/radix.cuh"

int pelton::sort_ordered_4(const k_sort_args& args, void* stream) {
  using Key = OrderedKey<uint32_t>;
  const auto order = key_order<uint32_t>(args.order);
  return args.count >> 32 == 0 ? radix_sort_with_values<Key, uint32_t>(args, order, stream)
                               : radix_sort_with_values<Key, unsigned long long>(args, order, stream);
}
