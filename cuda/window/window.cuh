/// Bodies of window functions that look at each element by itself.
///
/// Access: results in order, coalesced. Edges of groups and results of scans are read where frames end, which is near where
/// their neighbours do; values of rows at random, ITEMS accesses of a thread in flight.
#pragma once

#include <cstdint>
#include <cstring>

#include "block/grid.cuh"
#include "pelton/abi/window.h"
#include "pelton/common/frame.h"

namespace pelton {

/// Traffic: 8 bytes read and 1 written an element, 1 more read unless it is the first word.
template <class POLICY>
struct MarkGroups {
  using Policy = POLICY;
  k_mark_groups_args args;

  __device__ void run() const {
    for_each_in_flight<POLICY::ITEMS>(
        args.count,
        [=](uint64_t element) {
          return element == 0 ? ~uint64_t{0} : args.words[element] ^ args.words[element - 1];
        },
        [=](uint64_t element, uint64_t difference) {
          uint32_t bits = args.is_first != 0 ? 0 : args.flags[element];
#pragma unroll
          for (uint32_t level = 0; level < K_GROUP_LEVELS; ++level) {
            const bool begins = element == 0 || (difference & args.masks[level]) != 0;
            bits |= uint32_t{begins} << level;
          }
          args.flags[element] = static_cast<uint8_t>(bits);
        });
  }
};

template <class POLICY>
struct Rank {
  using Policy = POLICY;
  k_rank_args args;

  __device__ void run() const {
    for_each_in_flight<POLICY::ITEMS>(
        args.count, [=](uint64_t element) { return args.edges.partition_first[element]; },
        [=](uint64_t element, uint32_t first) {
          if (args.ranking == K_PERCENT_RANK || args.ranking == K_CUME_DIST) {
            reinterpret_cast<double*>(args.target)[element] = share(element, first);
          } else {
            reinterpret_cast<uint64_t*>(args.target)[element] = number(element, first);
          }
        });
  }

  __device__ uint64_t rows(uint64_t element, uint32_t first) const {
    return uint64_t{args.edges.partition_last[element]} - first + 1;
  }

  __device__ uint64_t number(uint64_t element, uint32_t first) const {
    if (args.ranking == K_NTILE) return tile_of(element - first, rows(element, first), args.tiles);
    return uint64_t{args.edges.peers_first[element]} - first + 1;
  }

  __device__ double share(uint64_t element, uint32_t first) const {
    const uint64_t all = rows(element, first);
    if (args.ranking == K_CUME_DIST) {
      return static_cast<double>(uint64_t{args.edges.peers_last[element]} - first + 1) / static_cast<double>(all);
    }
    const uint64_t before = uint64_t{args.edges.peers_first[element]} - first;
    return all > 1 ? static_cast<double>(before) / static_cast<double>(all - 1) : 0.0;
  }
};

template <class POLICY, class ELEMENT>
struct Pick {
  using Policy = POLICY;
  k_pick_args args;

  struct Picked {
    ELEMENT value;
    bool is_valid;
  };

  __device__ void run() const {
    const auto* source = reinterpret_cast<const ELEMENT*>(args.source);
    auto* target = reinterpret_cast<ELEMENT*>(args.target);
    for_each_in_flight<POLICY::ITEMS>(
        args.count,
        [=](uint64_t element) {
          const int64_t there = picked_of(args.edges, args.frame, args.pick, args.number, element);
          if (there < 0) {
            // Arguments are not aligned to 16 bytes.
            Picked none{ELEMENT{}, args.has_fallback != 0};
            memcpy(&none.value, args.fallback, sizeof(ELEMENT));
            return none;
          }
          const uint32_t row = args.indices[there];
          return Picked{source[row], args.valid == nullptr || args.valid[row] != 0};
        },
        [=](uint64_t element, const Picked& picked) {
          target[element] = picked.value;
          args.target_valid[element] = picked.is_valid;
        });
  }
};

template <class VALUE> HD inline VALUE difference(VALUE a, VALUE b) { return a - b; }
template <> HD inline int32_t difference(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) - static_cast<uint32_t>(b));
}
template <> HD inline int64_t difference(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
template <> HD inline __int128 difference(__int128 a, __int128 b) {
  return static_cast<__int128>(static_cast<unsigned __int128>(a) - static_cast<unsigned __int128>(b));
}

template <class POLICY, class VALUE>
struct FrameValues {
  using Policy = POLICY;
  k_frame_args args;

  struct Found {
    VALUE value;
    uint64_t values;
  };

  __device__ void run() const {
    for_each_in_flight<POLICY::ITEMS>(
        args.count, [=](uint64_t element) { return find(element); },
        [=](uint64_t element, const Found& found) {
          if (args.target_valid != nullptr) args.target_valid[element] = found.values > 0;
          if (args.operation == K_FRAME_VALUE) {
            reinterpret_cast<VALUE*>(args.target)[element] = found.value;
          } else if (args.operation == K_FRAME_ROWS) {
            reinterpret_cast<uint64_t*>(args.target)[element] = found.values;
          } else {
            const double divisor = static_cast<double>(found.values) * args.unit;
            reinterpret_cast<double*>(args.target)[element] = static_cast<double>(found.value) / divisor;
          }
        });
  }

  __device__ Found find(uint64_t element) const {
    const auto* source = reinterpret_cast<const VALUE*>(args.source);
    const ElementRange range = range_of(args.edges, args.frame, element);
    if (range.first > range.last) return {VALUE{}, 0};
    const bool begins_later = args.frame.start != K_EDGE_PARTITION && range.first > args.edges.partition_first[element];
    Found found{source == nullptr ? VALUE{} : source[range.last], 0};
    if (args.counts == nullptr) {
      // Where nobody counts them, it is enough that there is one.
      found.values = args.frame.start == K_EDGE_PARTITION && args.edges.partition_first == nullptr
                         ? 1
                         : static_cast<uint64_t>(range.last - range.first + 1);
    } else {
      found.values = args.counts[range.last] - (begins_later ? args.counts[range.first - 1] : 0);
    }
    if (begins_later && source != nullptr) found.value = difference(found.value, source[range.first - 1]);
    return found;
  }
};

/// Traffic of an element: its key and, in both searches together, twice the logarithm of its partition's rows of keys at
/// random, of which those near the ends of searches lie close together; 8 bytes of edges and 8 of results.
template <class POLICY, class KEY>
struct KeyFrames {
  using Policy = POLICY;
  k_key_frames_args args;

  __device__ void run() const {
    for_each_in_flight<POLICY::ITEMS>(
        args.count, [=](uint64_t element) { return find(element); },
        [=](uint64_t element, const ElementRange& range) {
          const bool is_empty = range.first > range.last;
          args.first[element] = is_empty ? 1 : static_cast<uint32_t>(range.first);
          args.last[element] = is_empty ? 0 : static_cast<uint32_t>(range.last);
        });
  }

  __device__ ElementRange find(uint64_t element) const {
    const int64_t first = args.edges.partition_first[element];
    const int64_t last = args.edges.partition_last[element];
    const bool is_descending = (args.order & 1) != 0;
    const bool has_nulls_first = (args.order & 2) != 0;
    const auto row_of = [&](int64_t place) { return args.indices == nullptr ? place : int64_t{args.indices[place]}; };
    const auto is_null = [&](int64_t row) { return args.valid != nullptr && args.valid[row] == 0; };
    const auto key_of = [&](int64_t row) { return int64_t{reinterpret_cast<const KEY*>(args.source)[row]}; };
    const int64_t own = row_of(static_cast<int64_t>(element));
    const auto is_by_key = [&](uint32_t edge) { return edge == K_EDGE_ROWS && !is_null(own); };
    const auto wanted_of = [&](int64_t distance) { return is_descending ? key_of(own) - distance : key_of(own) + distance; };
    // The first place of the partition for which `is_beyond` holds, which does for all after it.
    const auto search = [&](const auto& is_beyond) {
      int64_t low = first, high = last + 1;
      while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (is_beyond(row_of(middle))) high = middle; else low = middle + 1;
      }
      return low;
    };
    ElementRange range{first, last};
    if (is_by_key(args.frame.start)) {
      const int64_t wanted = wanted_of(args.frame.start_rows);
      range.first = search([&](int64_t row) {
        if (is_null(row)) return !has_nulls_first;
        return is_descending ? key_of(row) <= wanted : key_of(row) >= wanted;
      });
    } else if (args.frame.start != K_EDGE_PARTITION) {
      range.first = args.edges.peers_first[element];
    }
    if (is_by_key(args.frame.end)) {
      const int64_t wanted = wanted_of(args.frame.end_rows);
      range.last = search([&](int64_t row) {
        if (is_null(row)) return !has_nulls_first;
        return is_descending ? key_of(row) < wanted : key_of(row) > wanted;
      }) - 1;
    } else if (args.frame.end != K_EDGE_PARTITION) {
      range.last = args.edges.peers_last[element];
    }
    return range;
  }
};

}  // namespace pelton
