//! What frames of rows give: ranks, picked values, and aggregates by results of scans.
//!
//! ```text
//!   edges     partition_first, partition_last, peers_first, peers_last      by element (groups.rs)
//!   frame     from the start of the partition, of the peers, or n rows from here, to the end of one of them
//!   value     scan[last of frame] - scan[first of frame - 1]                nothing is subtracted at a partition's start
//! ```
//!
//! Each element is computed by itself. Traffic of an element: 4 bytes for each edge that is asked for, the results of the
//! scan where the frame ends and where it begins, values of rows at random, and the result.

use std::sync::Arc;

use pelton_device::{Span, Work};
use pelton_error::Result;

use crate::library::{Library, cuda_form};
use crate::memory::{with_sources, with_target};
use crate::order::KeyType;
use crate::segmented_scan::integer_at;
use crate::shape::{assert_written_apart, element_count};
use crate::sys;

/// Numbers of elements, 32 bits each, by element. What nobody asks for is not there.
#[derive(Debug, Clone, Default)]
pub struct Edges {
    /// The first of its partition.
    pub partition_first: Option<Span>,
    /// The last of its partition.
    pub partition_last: Option<Span>,
    /// The first that is equal to it.
    pub peers_first: Option<Span>,
    /// The last that is equal to it.
    pub peers_last: Option<Span>,
}

/// Where a frame begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrameEdge {
    /// With the partition.
    Partition,
    /// With the elements that are equal to this one.
    Peers,
    /// So many elements after this one, before it if negative, in the partition; at most 2^32.
    Rows(i64),
}

/// From which element to which; none where the end is before the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The first.
    pub start: FrameEdge,
    /// The last.
    pub end: FrameEdge,
}

/// Where elements are among others. Needs all edges of the partition, and those of peers that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ranking {
    /// 1 and how many come before the peers: u64. Needs `peers_first`.
    Rank,
    /// The share of the others that come before the peers: f64, 0 where there are no others. Needs `peers_first`.
    PercentRank,
    /// The share of all that come up to the peers: f64. Needs `peers_last`.
    CumeDist,
    /// Which of so many parts, as equal as can be, the longer ones first: u64, from 1.
    Ntile(u64),
}

/// Which element is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pick {
    /// The first of the frame.
    First(Frame),
    /// The last of the frame.
    Last(Frame),
    /// Of the frame: from 1 at its first, from -1 at its last.
    Nth(Frame, i64),
    /// So many after this one, before it if negative, in the partition.
    Shift(i64),
}

/// Values by row that are picked.
#[derive(Debug, Clone)]
pub struct Picked {
    /// 1, 4, 8 or 16.
    pub width_bytes: usize,
    /// One a row.
    pub source: Span,
    /// A byte a row, 0 where the value is NULL.
    pub valid: Option<Span>,
    /// The row of each element, 32 bits.
    pub indices: Span,
    /// The bits of the value where no element is picked; `None`: NULL.
    pub fallback: Option<u128>,
}

/// Results of a segmented scan over partitions, by element.
#[derive(Debug, Clone)]
pub struct FrameSource {
    /// `I32`, `I64`, `I128` or `F64`.
    pub key_type: KeyType,
    /// Results.
    pub source: Span,
    /// How many values are not NULL; `None` where all are not.
    pub counts: Option<Span>,
}

/// Where results go, by element.
#[derive(Debug, Clone)]
pub struct Target {
    /// Values.
    pub values: Span,
    /// A byte each, 0 where it is NULL; `None`: nobody asks.
    pub valid: Option<Span>,
}

impl Edges {
    fn spans(&self) -> [Option<&Span>; 4] {
        [&self.partition_first, &self.partition_last, &self.peers_first, &self.peers_last].map(Option::as_ref)
    }

    pub(crate) fn args(&self) -> sys::Edges {
        let [partition_first, partition_last, peers_first, peers_last] = self.spans().map(address);
        sys::Edges { partition_first, partition_last, peers_first, peers_last }
    }

    pub(crate) fn assert(&self, count: u64) {
        for edge in self.spans().into_iter().flatten() {
            assert_eq!(element_count(edge, 4), count, "an edge for each element");
        }
    }

    fn assert_for(&self, frame: Frame) {
        let [partition_first, partition_last, peers_first, peers_last] =
            self.spans().map(|edge| edge.is_some());
        let starts = match frame.start {
            FrameEdge::Partition => true,
            FrameEdge::Peers => peers_first,
            FrameEdge::Rows(rows) => rows >= 0 || partition_first,
        };
        let ends = match frame.end {
            FrameEdge::Partition => partition_last,
            FrameEdge::Peers => peers_last,
            FrameEdge::Rows(rows) => rows <= 0 || partition_last,
        };
        let may_be_none = matches!(frame.end, FrameEdge::Rows(rows) if rows < 0);
        assert!(starts && ends, "{frame:?} needs other edges");
        assert!(!may_be_none || partition_first, "{frame:?} needs where partitions begin");
    }
}

pub(crate) fn address(span: Option<&Span>) -> u64 {
    span.map_or(0, Span::address)
}

impl From<Frame> for sys::Frame {
    fn from(frame: Frame) -> Self {
        let parts = |edge: FrameEdge| match edge {
            FrameEdge::Partition => (0, 0),
            FrameEdge::Peers => (1, 0),
            FrameEdge::Rows(rows) => (2, rows.clamp(-(1 << 32), 1 << 32)),
        };
        let ((start, start_rows), (end, end_rows)) = (parts(frame.start), parts(frame.end));
        Self { start_rows, end_rows, start, end }
    }
}

/// Edges as bytes of the host, each where it is: those of the partition, then those of peers.
pub(crate) struct HostEdges<'a> {
    of: [Option<&'a [u8]>; 4],
}

impl<'a> HostEdges<'a> {
    /// The first of `sources` are those of `edges` that are there.
    pub(crate) fn new(edges: &Edges, sources: &mut impl Iterator<Item = &'a [u8]>) -> Self {
        Self { of: edges.spans().map(|edge| edge.and_then(|_| sources.next())) }
    }

    fn at(&self, edge: usize, element: usize) -> Option<i64> {
        self.of[edge].map(|edge| i64::from(integer_at(edge, KeyType::I32, element) as u32))
    }

    pub(crate) fn known(&self, edge: usize, element: usize) -> i64 {
        self.at(edge, element).expect("an edge that is asked for")
    }

    /// The first and the last element.
    fn range(&self, frame: Frame, element: usize) -> (i64, i64) {
        let here = element as i64;
        let first = match frame.start {
            FrameEdge::Partition => self.at(0, element).unwrap_or(0),
            FrameEdge::Peers => self.known(2, element),
            FrameEdge::Rows(rows) => (here.saturating_add(rows)).max(self.at(0, element).unwrap_or(0)),
        };
        let last = match frame.end {
            FrameEdge::Partition => self.known(1, element),
            FrameEdge::Peers => self.known(3, element),
            FrameEdge::Rows(rows) => (here.saturating_add(rows)).min(self.at(1, element).unwrap_or(i64::MAX)),
        };
        (first, last)
    }

    fn picked(&self, pick: Pick, element: usize) -> Option<usize> {
        let (there, (first, last)) = match pick {
            Pick::First(frame) => (self.range(frame, element).0, self.range(frame, element)),
            Pick::Last(frame) => (self.range(frame, element).1, self.range(frame, element)),
            Pick::Nth(frame, number) => {
                let (first, last) = self.range(frame, element);
                let there = match number {
                    0 => return None,
                    1.. => first.saturating_add(number - 1),
                    _ => last.saturating_add(number + 1),
                };
                (there, (first, last))
            }
            Pick::Shift(rows) => {
                let partition = (self.known(0, element), self.known(1, element));
                ((element as i64).saturating_add(rows), partition)
            }
        };
        (first <= there && there <= last).then_some(there as usize)
    }
}

pub(crate) fn work(
    name: &'static str,
    reads: Vec<Span>,
    target: &Target,
    host: impl FnOnce(&[&[u8]], &mut [u8], &mut [u8]) + Send + 'static,
) -> Work {
    let writes: Vec<Span> = [&target.values].into_iter().chain(&target.valid).cloned().collect();
    assert_written_apart(&reads, &writes);
    let target = target.clone();
    Work::new(name, reads.clone(), writes).with_host(move || -> Result<()> {
        with_sources(&reads.iter().collect::<Vec<_>>(), |sources| {
            with_target(&target.values, |values| match &target.valid {
                Some(valid) => with_target(valid, |valid| host(sources, values, valid)),
                None => {
                    host(sources, values, &mut []);
                    Ok(())
                }
            })
        })??
    })
}

pub(crate) fn edges_of(edges: &Edges) -> Vec<Span> {
    edges.spans().into_iter().flatten().cloned().collect()
}

/// Element i of `target`, 8 bytes, becomes its rank.
///
/// # Panics
///
/// If edges lack that are needed, arrays are not of as many elements, not whole or not aligned, or spans overlap; for no
/// tiles.
pub fn rank(library: Option<&Arc<Library>>, ranking: Ranking, edges: Edges, target: Span) -> Work {
    let count = element_count(&target, 8);
    edges.assert(count);
    let [partition_first, partition_last, peers_first, peers_last] = edges.spans().map(|edge| edge.is_some());
    let has_peers = match ranking {
        Ranking::Rank | Ranking::PercentRank => peers_first,
        Ranking::CumeDist => peers_last,
        Ranking::Ntile(tiles) => tiles > 0,
    };
    assert!(partition_first && partition_last && has_peers, "{ranking:?} needs other edges");
    let (number, tiles) = match ranking {
        Ranking::Rank => (0, 1),
        Ranking::PercentRank => (1, 1),
        Ranking::CumeDist => (2, 1),
        Ranking::Ntile(tiles) => (3, tiles),
    };
    let args = sys::RankArgs {
        edges: edges.args(),
        target: target.address(),
        count,
        tiles,
        ranking: number,
        reserved: 0,
        launch: sys::Launch { multiprocessors: 0, policy: 0 },
    };
    let form = move |launch| sys::RankArgs { launch, ..args };
    let cuda = cuda_form(library, |entries| entries.rank, form);
    let reads = edges_of(&edges);
    let target = Target { values: target, valid: None };
    work("rank", reads, &target, move |sources, values, _| {
        let edges = HostEdges::new(&edges, &mut sources.iter().copied());
        for (element, value) in values.chunks_exact_mut(8).enumerate() {
            let first = edges.known(0, element);
            let all = (edges.known(1, element) - first + 1) as u64;
            let bits = match ranking {
                Ranking::Rank => (edges.known(2, element) - first + 1) as u64,
                Ranking::PercentRank if all == 1 => 0,
                Ranking::PercentRank => {
                    ((edges.known(2, element) - first) as f64 / (all - 1) as f64).to_bits()
                }
                Ranking::CumeDist => ((edges.known(3, element) - first + 1) as f64 / all as f64).to_bits(),
                Ranking::Ntile(tiles) => tile_of(element as u64 - first as u64, all, tiles),
            };
            value.copy_from_slice(&bits.to_le_bytes());
        }
    })
    .with_cuda(cuda)
}

/// The number of the tile, from 1, that row `row` of `rows` is in: the first `rows % tiles` tiles have one row more.
fn tile_of(row: u64, rows: u64, tiles: u64) -> u64 {
    let (least, longer) = (rows / tiles, rows % tiles);
    let in_longer = longer * (least + 1);
    if row < in_longer { row / (least + 1) + 1 } else { longer + (row - in_longer) / least + 1 }
}

/// Element i of `target` becomes the value of the row that is picked for it.
///
/// # Panics
///
/// If edges lack that are needed (`Shift` needs those of the partition), arrays are not of as many elements, not whole or not
/// aligned, or overlap; for another width, or a target without validity.
pub fn pick(
    library: Option<&Arc<Library>>,
    pick: Pick,
    values: Picked,
    edges: Edges,
    target: Target,
) -> Work {
    let width = values.width_bytes;
    assert!(matches!(width, 1 | 4 | 8 | 16), "values of {width} bytes");
    let count = element_count(&values.indices, 4);
    edges.assert(count);
    assert_eq!(element_count(&target.values, width), count, "a value for each element");
    let valid = target.valid.as_ref().expect("what is picked may be NULL");
    assert_eq!(valid.len() as u64, count, "a validity for each element");
    let none = Frame { start: FrameEdge::Partition, end: FrameEdge::Rows(0) };
    let (number, frame, nth) = match pick {
        Pick::First(frame) => (0, frame, 0),
        Pick::Last(frame) => (1, frame, 0),
        Pick::Nth(frame, number) => (2, frame, number),
        Pick::Shift(rows) => (3, none, rows),
    };
    edges.assert_for(frame);
    assert!(edges.partition_first.is_some(), "{pick:?} needs where partitions begin");
    assert!(
        !matches!(pick, Pick::Shift(_)) || edges.partition_last.is_some(),
        "{pick:?} needs where they end"
    );
    let fallback = values.fallback.unwrap_or(0);
    let args = sys::PickArgs {
        source: values.source.address(),
        valid: address(values.valid.as_ref()),
        indices: values.indices.address(),
        edges: edges.args(),
        frame: frame.into(),
        target: target.values.address(),
        target_valid: valid.address(),
        count,
        fallback: [fallback as u64, (fallback >> 64) as u64],
        number: nth.clamp(-(1 << 40), 1 << 40),
        pick: number,
        width_bytes: width as u32,
        has_fallback: values.fallback.is_some().into(),
        launch: sys::Launch { multiprocessors: 0, policy: 0 },
    };
    let form = move |launch| sys::PickArgs { launch, ..args };
    let cuda = cuda_form(library, |entries| entries.pick, form);
    let mut reads = vec![values.source.clone(), values.indices.clone()];
    reads.extend(edges_of(&edges));
    reads.extend(values.valid.clone());
    work("pick", reads, &target, move |sources, targets, target_valid| {
        let (source, indices) = (sources[0], sources[1]);
        let mut rest = sources[2..].iter().copied();
        let edges = HostEdges::new(&edges, &mut rest);
        let valid = rest.next();
        for (element, target) in targets.chunks_exact_mut(width).enumerate() {
            let row = edges
                .picked(pick, element)
                .map(|there| integer_at(indices, KeyType::I32, there) as u32 as usize);
            let is_valid = match row {
                Some(row) => {
                    target.copy_from_slice(&source[row * width..(row + 1) * width]);
                    valid.is_none_or(|valid| valid[row] != 0)
                }
                None => {
                    target.copy_from_slice(&fallback.to_le_bytes()[..width]);
                    values.fallback.is_some()
                }
            };
            target_valid[element] = is_valid.into();
        }
    })
    .with_cuda(cuda)
}

/// Element i of `target` becomes what the scan gives for its frame: for a frame that begins with the partition what is at its
/// end, else a difference of sums of integers. NULL where no value is in the frame.
///
/// # Panics
///
/// If edges lack that are needed (a frame that does not begin with the partition needs where that begins), arrays are not of
/// as many elements, not whole or not aligned, or overlap.
pub fn frame_values(
    library: Option<&Arc<Library>>,
    frame: Frame,
    source: FrameSource,
    edges: Edges,
    target: Target,
) -> Work {
    let width = source.key_type.width_bytes();
    frame_work(library, (0, 1.0), width, frame, Some(source), edges, target)
}

/// Element i of `target`, a double, becomes the sum that the scan gives for its frame divided by the number of its values
/// times `unit`. NULL where no value is in the frame.
///
/// # Panics
///
/// As [`frame_values`]; all frames need where partitions begin unless values are counted.
pub fn frame_averages(
    library: Option<&Arc<Library>>,
    frame: Frame,
    source: FrameSource,
    unit: f64,
    edges: Edges,
    target: Target,
) -> Work {
    assert!(source.counts.is_some() || edges.partition_first.is_some(), "where partitions begin");
    frame_work(library, (2, unit), 8, frame, Some(source), edges, target)
}

/// Element i of `target`, 64 bits, becomes the number of elements in its frame.
///
/// # Panics
///
/// As [`frame_values`]; all frames need where partitions begin.
pub fn frame_rows(library: Option<&Arc<Library>>, frame: Frame, edges: Edges, target: Span) -> Work {
    assert!(edges.partition_first.is_some(), "where partitions begin");
    frame_work(library, (1, 1.0), 8, frame, None, edges, Target { values: target, valid: None })
}

fn frame_work(
    library: Option<&Arc<Library>>,
    (operation, unit): (u32, f64),
    width: usize,
    frame: Frame,
    source: Option<FrameSource>,
    edges: Edges,
    target: Target,
) -> Work {
    let count = element_count(&target.values, width);
    edges.assert(count);
    edges.assert_for(frame);
    let begins_with_it = frame.start == FrameEdge::Partition;
    assert!(begins_with_it || edges.partition_first.is_some(), "{frame:?} needs where partitions begin");
    let key_type = source.as_ref().map_or(KeyType::I64, |source| source.key_type);
    if let Some(source) = &source {
        assert_eq!(element_count(&source.source, key_type.width_bytes()), count, "a result for each element");
        assert!(begins_with_it || key_type != KeyType::F64, "doubles are not subtracted");
    }
    let counts = source.as_ref().and_then(|source| source.counts.clone());
    assert!(
        counts.as_ref().is_none_or(|counts| element_count(counts, 4) == count),
        "a count for each element"
    );
    assert!(
        target.valid.as_ref().is_none_or(|valid| valid.len() as u64 == count),
        "a validity for each element"
    );
    let args = sys::FrameArgs {
        source: address(source.as_ref().map(|source| &source.source)),
        counts: address(counts.as_ref()),
        edges: edges.args(),
        frame: frame.into(),
        target: target.values.address(),
        target_valid: address(target.valid.as_ref()),
        count,
        unit,
        source_type: key_type as u32,
        operation,
        launch: sys::Launch { multiprocessors: 0, policy: 0 },
    };
    let form = move |launch| sys::FrameArgs { launch, ..args };
    let cuda = cuda_form(library, |entries| entries.frame_values, form);
    let mut reads = edges_of(&edges);
    reads.extend(source.as_ref().map(|source| source.source.clone()));
    reads.extend(counts.clone());
    work("values of frames", reads, &target, move |sources, targets, target_valid| {
        let mut sources = sources.iter().copied();
        let edges = HostEdges::new(&edges, &mut sources);
        let values = source.as_ref().and_then(|_| sources.next());
        let counts = counts.as_ref().and_then(|_| sources.next());
        for (element, target) in targets.chunks_exact_mut(width).enumerate() {
            let (first, last) = edges.range(frame, element);
            let is_some = first <= last;
            let before =
                (!begins_with_it && is_some && first > edges.known(0, element)).then(|| first as usize - 1);
            let at = |place: i64| values.map_or(0, |values| integer_at(values, key_type, place as usize));
            let count_at = |counts: &[u8], place: usize| integer_at(counts, KeyType::I32, place) as u32;
            let value = match before {
                _ if !is_some => 0,
                Some(before) => at(last).wrapping_sub(at(before as i64)),
                None => at(last),
            };
            let number = match counts {
                _ if !is_some => 0,
                Some(counts) => u64::from(
                    count_at(counts, last as usize) - before.map_or(0, |before| count_at(counts, before)),
                ),
                None if begins_with_it && edges.at(0, element).is_none() => 1,
                None => (last - first + 1) as u64,
            };
            let bits = match operation {
                0 => value as u128,
                1 => number.into(),
                _ => {
                    let sum = match key_type {
                        KeyType::F64 => f64::from_bits(value as u64),
                        _ => value as f64,
                    };
                    (sum / (number as f64 * unit)).to_bits().into()
                }
            };
            target.copy_from_slice(&bits.to_le_bytes()[..width]);
            if let Some(valid) = target_valid.get_mut(element) {
                *valid = (number > 0).into();
            }
        }
    })
    .with_cuda(cuda)
}
