//! Frames by distances of keys: from which element to which, for each element.
//!
//! ```text
//!   keys in order   1 1 3 4 7 7 9     frame of 4, from 1 before to 3 after: the elements of 3, 4, 7, 7
//! ```
//!
//! A frame by groups of peers is one by the groups' numbers. What is found stands in for where peers begin and end
//! ([`Edges`](crate::Edges)), so that all that goes by frames goes by these. Traffic of an element: its key, keys at random in two
//! searches through its partition, its edges, and the result.

use std::sync::Arc;

use pelton_device::{Span, Work};

use crate::frame::{Edges, HostEdges, Target, address, edges_of, work};
use crate::library::{Library, cuda_form};
use crate::order::KeyType;
use crate::segmented_scan::integer_at;
use crate::shape::element_count;
use crate::sys;

/// Where a frame of keys begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyEdge {
    /// With the partition.
    Partition,
    /// With the elements that are equal to this one.
    Peers,
    /// So far after the key of this one in their order, before it if negative. Of a NULL it is its peers.
    Distance(i64),
}

/// From where to where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyFrame {
    /// Its first element.
    pub start: KeyEdge,
    /// Its last.
    pub end: KeyEdge,
}

/// Keys that elements are in the order of within each partition. No key and distance together pass 64 bits.
#[derive(Debug, Clone)]
pub struct FrameKeys {
    /// `I32` or `I64`.
    pub key_type: KeyType,
    /// One a row.
    pub source: Span,
    /// A byte a row, 0 where the key is NULL.
    pub valid: Option<Span>,
    /// The row of each element, 32 bits; `None`: elements are rows.
    pub indices: Option<Span>,
    /// The greatest comes first.
    pub is_descending: bool,
    /// NULLs come first.
    pub has_nulls_first: bool,
}

/// The frame of element i becomes [`first[i]`, `last[i]`], 32 bits each; of an empty one they are 1 and 0.
///
/// # Panics
///
/// Without the edges of partitions, or of peers where the frame names them or a key may be NULL; if arrays are not of as many
/// elements, not whole or not aligned, or overlap; for keys of another type.
pub fn key_frames(
    library: Option<&Arc<Library>>,
    frame: KeyFrame,
    keys: FrameKeys,
    edges: Edges,
    first: Span,
    last: Span,
) -> Work {
    let count = element_count(&first, 4);
    assert_eq!(element_count(&last, 4), count, "an end for each start");
    assert!(matches!(keys.key_type, KeyType::I32 | KeyType::I64), "keys of type {:?}", keys.key_type);
    let rows = element_count(&keys.source, keys.key_type.width_bytes());
    match &keys.indices {
        Some(indices) => assert_eq!(element_count(indices, 4), count, "a row for each element"),
        None => assert_eq!(rows, count, "a key for each element"),
    }
    assert!(keys.valid.as_ref().is_none_or(|valid| valid.len() as u64 == rows), "a validity for each row");
    edges.assert(count);
    let may_be_peers = |edge| match edge {
        KeyEdge::Partition => false,
        KeyEdge::Peers => true,
        KeyEdge::Distance(_) => keys.valid.is_some(),
    };
    assert!(edges.partition_first.is_some() && edges.partition_last.is_some(), "where partitions are");
    assert!(!may_be_peers(frame.start) || edges.peers_first.is_some(), "where peers begin");
    assert!(!may_be_peers(frame.end) || edges.peers_last.is_some(), "where peers end");
    let parts = |edge| match edge {
        KeyEdge::Partition => (0, 0),
        KeyEdge::Peers => (1, 0),
        KeyEdge::Distance(distance) => (2, distance),
    };
    let ((start, start_rows), (end, end_rows)) = (parts(frame.start), parts(frame.end));
    let args = sys::KeyFramesArgs {
        source: keys.source.address(),
        valid: address(keys.valid.as_ref()),
        indices: address(keys.indices.as_ref()),
        edges: edges.args(),
        frame: sys::Frame { start_rows, end_rows, start, end },
        first: first.address(),
        last: last.address(),
        count,
        source_type: keys.key_type as u32,
        order: u32::from(keys.is_descending) | u32::from(keys.has_nulls_first) << 1,
        launch: sys::Launch { multiprocessors: 0, policy: 0 },
    };
    let form = move |launch| sys::KeyFramesArgs { launch, ..args };
    let cuda = cuda_form(library, |entries| entries.key_frames, form);
    let mut reads = vec![keys.source.clone()];
    reads.extend(edges_of(&edges));
    reads.extend([&keys.valid, &keys.indices].into_iter().flatten().cloned());
    let target = Target { values: first, valid: Some(last) };
    work("frames of keys", reads, &target, move |sources, firsts, lasts| {
        let source = sources[0];
        let mut rest = sources[1..].iter().copied();
        let edges = HostEdges::new(&edges, &mut rest);
        let valid = keys.valid.as_ref().and_then(|_| rest.next());
        let indices = keys.indices.as_ref().and_then(|_| rest.next());
        let search = Search { keys: &keys, source, valid, indices };
        for element in 0..count as usize {
            let (first, last) = search.frame(frame, &edges, element);
            let (first, last) = if first > last { (1, 0) } else { (first, last) };
            let place = element * 4..element * 4 + 4;
            firsts[place.clone()].copy_from_slice(&(first as u32).to_le_bytes());
            lasts[place].copy_from_slice(&(last as u32).to_le_bytes());
        }
    })
    .with_cuda(cuda)
}

/// Keys as bytes of the host.
struct Search<'a> {
    keys: &'a FrameKeys,
    source: &'a [u8],
    valid: Option<&'a [u8]>,
    indices: Option<&'a [u8]>,
}

impl Search<'_> {
    /// The first and the last element of the frame of `element`.
    fn frame(&self, frame: KeyFrame, edges: &HostEdges<'_>, element: usize) -> (i64, i64) {
        let partition = edges.known(0, element)..edges.known(1, element) + 1;
        let own = self.key(element);
        let wanted = |distance: i64, key: i128| match self.keys.is_descending {
            true => key - i128::from(distance),
            false => key + i128::from(distance),
        };
        let first = match (frame.start, own) {
            (KeyEdge::Partition, _) => partition.start,
            (KeyEdge::Distance(distance), Some(key)) => {
                let wanted = wanted(distance, key);
                self.first_beyond(partition.clone(), |key| self.is_after(key, wanted) || key == wanted)
            }
            (KeyEdge::Peers | KeyEdge::Distance(_), _) => edges.known(2, element),
        };
        let last = match (frame.end, own) {
            (KeyEdge::Partition, _) => partition.end - 1,
            (KeyEdge::Distance(distance), Some(key)) => {
                let wanted = wanted(distance, key);
                self.first_beyond(partition, |key| self.is_after(key, wanted)) - 1
            }
            (KeyEdge::Peers | KeyEdge::Distance(_), _) => edges.known(3, element),
        };
        (first, last)
    }

    fn is_after(&self, key: i128, other: i128) -> bool {
        if self.keys.is_descending { key < other } else { key > other }
    }

    /// The first place of `places` whose key `is_beyond`, as those after it are.
    fn first_beyond(&self, places: std::ops::Range<i64>, is_beyond: impl Fn(i128) -> bool) -> i64 {
        let (mut low, mut high) = (places.start, places.end);
        while low < high {
            let middle = low + (high - low) / 2;
            let is_beyond = self.key(middle as usize).map_or(!self.keys.has_nulls_first, &is_beyond);
            (low, high) = if is_beyond { (low, middle) } else { (middle + 1, high) };
        }
        low
    }

    /// The key of an element; `None`: NULL.
    fn key(&self, element: usize) -> Option<i128> {
        let row = self
            .indices
            .map_or(element, |indices| integer_at(indices, KeyType::I32, element) as u32 as usize);
        let is_valid = self.valid.is_none_or(|valid| valid[row] != 0);
        is_valid.then(|| integer_at(self.source, self.keys.key_type, row))
    }
}
