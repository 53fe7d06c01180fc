/// Radix sort of keys of 16 bytes of every type, in both directions, any number of them.
#include "sort/families.h"
#include "sort/radix.cuh"

int pelton::sort_ordered_16(const k_sort_args& args, void* stream) {
  using Word = unsigned __int128;
  return radix_sort_with_values<OrderedKey<Word>, unsigned long long>(args, key_order<Word>(args.order), stream);
}
