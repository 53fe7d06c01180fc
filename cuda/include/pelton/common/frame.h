/// Which elements a frame is, and the order of doubles as integers.
#pragma once

#include <cstdint>

#include "pelton/abi/window.h"
#include "pelton/common/hd.h"

namespace pelton {

/// The first and the last element; none where `first` is greater.
struct ElementRange {
  int64_t first;
  int64_t last;
};

HD inline ElementRange range_of(const k_edges& edges, const k_frame& frame, uint64_t element) {
  const int64_t here = static_cast<int64_t>(element);
  ElementRange range{0, here};
  const auto at = [&](const uint32_t* edge) { return static_cast<int64_t>(edge[element]); };
  if (frame.start == K_EDGE_PEERS) {
    range.first = at(edges.peers_first);
  } else {
    const int64_t least = edges.partition_first == nullptr ? 0 : at(edges.partition_first);
    range.first = frame.start == K_EDGE_PARTITION || here + frame.start_rows < least ? least : here + frame.start_rows;
  }
  if (frame.end == K_EDGE_PEERS) {
    range.last = at(edges.peers_last);
  } else if (frame.end == K_EDGE_PARTITION) {
    range.last = at(edges.partition_last);
  } else {
    range.last = here + frame.end_rows;
    if (edges.partition_last != nullptr && range.last > at(edges.partition_last)) range.last = at(edges.partition_last);
  }
  return range;
}

/// The element that is picked, or -1.
HD inline int64_t picked_of(const k_edges& edges, const k_frame& frame, uint32_t pick, int64_t number, uint64_t element) {
  if (pick == K_PICK_SHIFT) {
    const int64_t there = static_cast<int64_t>(element) + number;
    const bool is_within = there >= static_cast<int64_t>(edges.partition_first[element]) &&
                           there <= static_cast<int64_t>(edges.partition_last[element]);
    return is_within ? there : -1;
  }
  const ElementRange range = range_of(edges, frame, element);
  if (range.first > range.last) return -1;
  if (pick == K_PICK_FIRST) return range.first;
  if (pick == K_PICK_LAST) return range.last;
  const int64_t there = number > 0 ? range.first + number - 1 : range.last + number + 1;
  return number != 0 && there >= range.first && there <= range.last ? there : -1;
}

/// The number of the tile, from 1, that row `row` of `rows` is in: the first `rows % tiles` tiles have one row more.
HD inline uint64_t tile_of(uint64_t row, uint64_t rows, uint64_t tiles) {
  const uint64_t least = rows / tiles;
  const uint64_t longer = rows % tiles;
  const uint64_t in_longer = longer * (least + 1);
  return row < in_longer ? row / (least + 1) + 1 : longer + (row - in_longer) / least + 1;
}

/// Bits of a double as an integer in the total order, and back.
HD inline int64_t ordered_bits(int64_t bits) { return bits ^ static_cast<int64_t>(static_cast<uint64_t>(bits >> 63) >> 1); }

}  // namespace pelton
