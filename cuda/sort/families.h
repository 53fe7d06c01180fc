/// The families of radix sort, one file each, so that they compile side by side.
#pragma once

#include "pelton/abi/sort.h"

namespace pelton {

/// Unsigned keys, ascending, fewer than 2^32.
int sort_plain_4(const k_sort_args& args, void* stream);
int sort_plain_8(const k_sort_args& args, void* stream);
/// All others, by width.
int sort_ordered_4(const k_sort_args& args, void* stream);
int sort_ordered_8(const k_sort_args& args, void* stream);
int sort_ordered_16(const k_sort_args& args, void* stream);

}  // namespace pelton
