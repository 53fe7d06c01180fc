//! Window functions of rows that a device has sorted.
//!
//! ```text
//!   words in order ──► flags        where partitions and groups of peers begin, a bit for each level of them
//!   flags          ──► edges        the first and last row of each, where a function asks
//!   columns, rows' numbers, flags ──► scans ──► values of frames ──► columns of results, in order
//!                                     columns ──► picked values ──►
//!   keys, or scans that number groups ──► frames by distances, which stand in for the edges of peers
//! ```
//!
//! Results are arrays beside the rows; they come out with them. Levels are prefixes of the sort's keys: functions that have
//! one in common share its flags and edges. Memory beside the rows: a byte for flags, 4 for each edge, and the results; while
//! a function is computed, what its scan gives.

use std::collections::HashMap;
use std::ops::Range;

use pelton_device::{MemoryKind, OnFull, Span};
use pelton_error::{Error, Result};
use pelton_kernels::{
    Edges, FrameKeys, FrameSource, GROUP_LEVELS_MAX, GroupEdge, IndexType, KeyEdge, KeyFrame, KeyType, Pick,
    Picked, Ranking, ScanOf, ScanTarget, ScanValues, Target, frame_averages, frame_rows, frame_values,
    group_edges, key_frames, mark_groups, pick, rank, scan_scratch_bytes, segmented_scan,
    segmented_scan_scratch_bytes, take,
};
use pelton_pipeline::codegen::{Arg, Form, OrderLayout, PayloadColumn, RowsLayout};
use pelton_pipeline::ir::{
    Bounds, Frame, FrameEdge, Literal, Type, WindowFunction, WindowKind, WindowOutput, Windows,
};

use super::execution::{Execution, Kernel};
use super::memory::download_blocking;

/// Results of window functions, by row in order.
pub(super) struct WindowColumns {
    /// What comes out.
    outputs: Vec<WindowOutput>,
    columns: Vec<WindowColumn>,
}

/// What an array of rows that come out is made of.
pub(super) enum ArraySource {
    /// The array of the rows' own that this leads to.
    OfRows(Arg),
    /// Results, in order.
    Results(Span),
}

struct WindowColumn {
    layout: PayloadColumn,
    values: Span,
    valid: Option<Span>,
}

/// Prefixes of the sort's keys that tell rows apart.
pub(super) struct Levels {
    /// How many keys each has.
    keys: Vec<usize>,
    /// Of each, the bits of each word.
    masks: Vec<Vec<u64>>,
}

impl Levels {
    /// Those that functions of `order` name, if there are any functions.
    ///
    /// # Errors
    ///
    /// `Unsupported` for more than flags have bits.
    pub(super) fn of(order: &OrderLayout) -> Result<Option<Self>> {
        let Some(windows) = &order.windows else { return Ok(None) };
        let named =
            windows.functions.iter().flat_map(|function| [function.partition_keys, function.peer_keys]);
        let mut keys: Vec<usize> = named.collect();
        keys.sort_unstable();
        keys.dedup();
        if keys.len() > GROUP_LEVELS_MAX {
            return Err(Error::unsupported(format!("window functions over {} orders at once", keys.len())));
        }
        let masks = keys.iter().map(|&keys| order.masks_of(keys)).collect();
        Ok(Some(Self { keys, masks }))
    }

    /// The bits of word `index`, one mask a level.
    fn of_word(&self, index: usize) -> Vec<u64> {
        self.masks.iter().map(|masks| masks[index]).collect()
    }

    /// Whether some level asks for word `index`.
    pub(super) fn look_at(&self, index: usize) -> bool {
        self.masks.iter().any(|masks| masks[index] != 0)
    }

    fn level(&self, keys: usize) -> usize {
        self.keys.binary_search(&keys).expect("a level of a function")
    }
}

/// What windows are computed by: rows' numbers in order, and flags.
pub(super) struct Marked {
    pub(super) flags: Span,
    pub(super) levels: Levels,
}

impl Execution<'_> {
    /// Flags of the levels of rows with the numbers `places`, sorted by `words`, of which the first is `first` once it is in
    /// order. `other`: memory for a word of each row.
    pub(super) fn mark(
        &self,
        levels: Levels,
        words: &[Span],
        first: Option<&Span>,
        places: &Span,
        other: Span,
    ) -> Result<Marked> {
        let library = self.library()?;
        let flags = self.window_array(places.len() / 4, 1)?;
        match first {
            Some(first) => {
                let masks = levels.of_word(0);
                self.stream().run(mark_groups(library, first.clone(), &masks, flags.clone(), true))?;
            }
            // No words: whatever is there, no bit of it counts.
            None => self.stream().run(mark_groups(library, other.clone(), &[], flags.clone(), true))?,
        }
        for index in (1..words.len()).filter(|index| levels.look_at(*index)) {
            let (word, places) = (words[index].clone(), places.clone());
            self.stream().run(take(library, 8, word, IndexType::U32, places, other.clone()))?;
            let masks = levels.of_word(index);
            self.stream().run(mark_groups(library, other.clone(), &masks, flags.clone(), false))?;
        }
        Ok(Marked { flags, levels })
    }

    /// Marks in addition where rows differ by texts that words do not tell apart: in which place, and by which key's.
    pub(super) fn mark_breaks(&self, marked: &Marked, breaks: &[(usize, usize)]) -> Result<()> {
        if breaks.is_empty() {
            return Ok(());
        }
        let mut flags = download_blocking(self.stream(), &marked.flags)?;
        for &(place, key) in breaks {
            let levels = marked.levels.keys.iter().enumerate().filter(|(_, keys)| **keys > key);
            levels.for_each(|(level, _)| flags[place] |= 1 << level);
        }
        self.send(&flags, &marked.flags)
    }

    /// An array of `count` elements on the device.
    pub(super) fn window_array(&self, count: usize, width: usize) -> Result<Span> {
        let (machine, device) = (self.runtime.machine(), MemoryKind::Device(self.device()));
        let bytes = count * width;
        self.making_room(|| {
            self.refuse_first(Arg::OutputCount, bytes)?;
            let padded = bytes.max(8).next_multiple_of(16);
            Ok(machine.allocate(device.clone(), padded, OnFull::Refuse)?.span().slice(0..bytes))
        })
    }

    /// The results of all window functions of the rows of `kernel`, which are in the order of `places`.
    pub(super) fn window_columns(
        &self,
        kernel: &Kernel,
        layout: &RowsLayout,
        windows: &Windows,
        places: &Span,
        marked: Marked,
    ) -> Result<WindowColumns> {
        let mut computing = Computing {
            execution: self,
            kernel,
            layout,
            places,
            marked,
            count: places.len() / 4,
            edges: HashMap::new(),
            key_frames: HashMap::new(),
        };
        let columns = windows.functions.iter().map(|function| {
            self.cancel.check()?;
            computing.column(function)
        });
        let columns = columns.collect::<Result<_>>()?;
        self.stream().wait_blocking()?;
        Ok(WindowColumns { outputs: windows.outputs.clone(), columns })
    }
}

impl WindowColumns {
    /// How the rows come out: without what functions are over, with their results.
    pub(super) fn layout(&self, layout: &RowsLayout) -> RowsLayout {
        let columns = self.outputs.iter().map(|output| match *output {
            WindowOutput::Column(column) => layout.columns[column].clone(),
            WindowOutput::Function(function) => self.columns[function].layout.clone(),
        });
        RowsLayout { columns: columns.collect(), top: None, order: None }
    }

    /// What these of the rows that come out are made of, in the array that `arg` leads to.
    pub(super) fn source(&self, arg: Arg, width: usize, rows: Range<usize>) -> ArraySource {
        match arg {
            Arg::Output(index) => match self.outputs[index] {
                WindowOutput::Column(column) => ArraySource::OfRows(Arg::Output(column)),
                WindowOutput::Function(function) => {
                    let values = &self.columns[function].values;
                    ArraySource::Results(values.slice(rows.start * width..rows.end * width))
                }
            },
            Arg::OutputValid(index) => match self.outputs[index] {
                WindowOutput::Column(column) => ArraySource::OfRows(Arg::OutputValid(column)),
                WindowOutput::Function(function) => {
                    let valid = self.columns[function].valid.as_ref().expect("results that may be NULL");
                    ArraySource::Results(valid.slice(rows))
                }
            },
            other => ArraySource::OfRows(other),
        }
    }
}

/// A column of the rows.
struct Input {
    column: PayloadColumn,
    values: Span,
    valid: Option<Span>,
}

/// The computation of one function after the other.
struct Computing<'e, 'r> {
    execution: &'e Execution<'r>,
    kernel: &'e Kernel,
    layout: &'e RowsLayout,
    places: &'e Span,
    marked: Marked,
    count: usize,
    /// By end and level.
    edges: HashMap<(GroupEdge, usize), Span>,
    /// First and last rows of frames by distances, by frame and the levels of partitions and peers.
    key_frames: HashMap<(Frame, usize, usize), (Span, Span)>,
}

impl Computing<'_, '_> {
    fn column(&mut self, function: &WindowFunction) -> Result<WindowColumn> {
        let partition = self.marked.levels.level(function.partition_keys);
        let peers = self.marked.levels.level(function.peer_keys);
        let number = || PayloadColumn {
            ty: Type::I64,
            form: Form::I64,
            bounds: Some(Bounds { min: 0, max: self.count as i128 }),
            is_nullable: false,
            dictionary: None,
        };
        let double = |is_nullable| PayloadColumn {
            ty: Type::F64,
            form: Form::F64,
            bounds: None,
            is_nullable,
            dictionary: None,
        };
        match &function.kind {
            WindowKind::RowNumber => {
                let layout = number();
                let (values, _) = self.scan(ScanOf::Elements, partition, KeyType::I64, false)?;
                Ok(WindowColumn { layout, values, valid: None })
            }
            WindowKind::DenseRank => {
                let layout = number();
                let (values, _) = self.scan(ScanOf::Groups(peers), partition, KeyType::I64, false)?;
                Ok(WindowColumn { layout, values, valid: None })
            }
            WindowKind::Rank => {
                let layout = number();
                self.ranked(Ranking::Rank, layout, partition, peers)
            }
            WindowKind::PercentRank => self.ranked(Ranking::PercentRank, double(false), partition, peers),
            WindowKind::CumeDist => self.ranked(Ranking::CumeDist, double(false), partition, peers),
            WindowKind::Ntile(tiles) => {
                let layout = number();
                self.ranked(Ranking::Ntile(*tiles), layout, partition, peers)
            }
            WindowKind::Shift { column, rows, default } => {
                let input = self.input(*column)?;
                let fallback =
                    default.as_ref().map(|default| bits_of(default, input.column.form)).transpose()?;
                let fallback = fallback.flatten();
                let edges = self.partition_edges(partition)?;
                self.picked(Pick::Shift(*rows), input, fallback, edges)
            }
            WindowKind::Pick { column, number, frame } => {
                let input = self.input(*column)?;
                let (of_frame, mut edges) = self.frame(*frame, partition, peers)?;
                edges.partition_first = Some(self.edge(GroupEdge::First, partition)?);
                let pick = match number {
                    1 => Pick::First(of_frame),
                    -1 => Pick::Last(of_frame),
                    number => Pick::Nth(of_frame, *number),
                };
                self.picked(pick, input, None, edges)
            }
            WindowKind::Count { column, frame } => {
                let layout = number();
                self.counted(*column, *frame, layout, partition, peers)
            }
            WindowKind::Sum { column, frame } => {
                let input = self.input(*column)?;
                let layout = sum_of(&input.column, self.count as u64)?;
                self.aggregated(ScanOf::Sum, input, layout, *frame, partition, peers)
            }
            WindowKind::Min { column, frame } => {
                let input = self.input(*column)?;
                let layout = input.column.clone();
                self.aggregated(ScanOf::Min, input, layout, *frame, partition, peers)
            }
            WindowKind::Max { column, frame } => {
                let input = self.input(*column)?;
                let layout = input.column.clone();
                self.aggregated(ScanOf::Max, input, layout, *frame, partition, peers)
            }
            WindowKind::Average { column, unit, frame } => {
                let input = self.input(*column)?;
                let key_type = key_type_of(sum_of(&input.column, self.count as u64)?.form)?;
                let is_nullable = input.valid.is_some() || frame.may_be_empty();
                let (frame, mut edges) = self.frame(*frame, partition, peers)?;
                if input.valid.is_none() {
                    edges.partition_first = Some(self.edge(GroupEdge::First, partition)?);
                }
                let (source, counts) = self.scan_input(ScanOf::Sum, input, partition, key_type)?;
                let target = self.target(8, is_nullable)?;
                let source = FrameSource { key_type, source, counts };
                let library = self.execution.library()?;
                let work = frame_averages(library, frame, source, *unit, edges, target.clone());
                self.execution.stream().run(work)?;
                Ok(WindowColumn { layout: double(is_nullable), values: target.values, valid: target.valid })
            }
        }
    }

    /// Column `index` of the rows.
    fn input(&self, index: usize) -> Result<Input> {
        let column = self.layout.columns[index].clone();
        let state = &self.kernel.state;
        // Arrays are padded, each by its own width.
        let of_rows = |arg, width| Ok::<_, Error>(state.span(arg)?.slice(0..self.count * width));
        let values = of_rows(Arg::Output(index), column.form.bytes())?;
        let valid = column.is_nullable.then(|| of_rows(Arg::OutputValid(index), 1)).transpose()?;
        Ok(Input { column, values, valid })
    }

    fn target(&self, width: usize, is_nullable: bool) -> Result<Target> {
        let values = self.execution.window_array(self.count, width)?;
        let valid = is_nullable.then(|| self.execution.window_array(self.count, 1)).transpose()?;
        Ok(Target { values, valid })
    }

    /// An end of all groups of `level`.
    fn edge(&mut self, edge: GroupEdge, level: usize) -> Result<Span> {
        if let Some(known) = self.edges.get(&(edge, level)) {
            return Ok(known.clone());
        }
        let execution = self.execution;
        let target = execution.window_array(self.count, 4)?;
        let scratch = execution.window_array(scan_scratch_bytes(self.count as u64), 1)?;
        let flags = self.marked.flags.clone();
        let work = group_edges(execution.library()?, edge, level, flags, target.clone(), scratch);
        execution.stream().run(work)?;
        self.edges.insert((edge, level), target.clone());
        Ok(target)
    }

    fn partition_edges(&mut self, partition: usize) -> Result<Edges> {
        Ok(Edges {
            partition_first: Some(self.edge(GroupEdge::First, partition)?),
            partition_last: Some(self.edge(GroupEdge::Last, partition)?),
            ..Edges::default()
        })
    }

    /// `frame` as kernels know it, and the edges that it is found by.
    fn frame(
        &mut self,
        frame: Frame,
        partition: usize,
        peers: usize,
    ) -> Result<(pelton_kernels::Frame, Edges)> {
        use pelton_kernels::FrameEdge as Edge;
        let is_distance = |edge| matches!(edge, FrameEdge::Groups(_) | FrameEdge::Distance(_));
        if !is_distance(frame.start) && !is_distance(frame.end) {
            let edge = |edge| match edge {
                FrameEdge::Partition => Edge::Partition,
                FrameEdge::Rows(rows) => Edge::Rows(rows),
                FrameEdge::Peers | FrameEdge::Groups(_) | FrameEdge::Distance(_) => Edge::Peers,
            };
            let edges = self.edges_for(frame, partition, peers)?;
            return Ok((pelton_kernels::Frame { start: edge(frame.start), end: edge(frame.end) }, edges));
        }
        let (first, last) = self.key_frames(frame, partition, peers)?;
        // Of an empty frame the first row says nothing by itself.
        let begins_with_it = frame.start == FrameEdge::Partition && !frame.may_be_empty();
        let start = if begins_with_it { Edge::Partition } else { Edge::Peers };
        let edges = Edges {
            partition_first: Some(self.edge(GroupEdge::First, partition)?),
            partition_last: None,
            peers_first: Some(first),
            peers_last: Some(last),
        };
        Ok((pelton_kernels::Frame { start, end: Edge::Peers }, edges))
    }

    /// The first and the last row of `frame`, which goes by distances, for each row.
    fn key_frames(&mut self, frame: Frame, partition: usize, peers: usize) -> Result<(Span, Span)> {
        if let Some(known) = self.key_frames.get(&(frame, partition, peers)) {
            return Ok(known.clone());
        }
        let keys = match frame.key {
            Some(key) => {
                let Input { column, values, valid } = self.input(key.column)?;
                FrameKeys {
                    key_type: key_type_of(column.form)?,
                    source: values,
                    valid,
                    indices: Some(self.places.clone()),
                    is_descending: key.is_descending,
                    has_nulls_first: key.has_nulls_first,
                }
            }
            None => FrameKeys {
                key_type: KeyType::I64,
                source: self.scan(ScanOf::Groups(peers), partition, KeyType::I64, false)?.0,
                valid: None,
                indices: None,
                is_descending: false,
                has_nulls_first: false,
            },
        };
        let edge = |edge| match edge {
            FrameEdge::Partition => KeyEdge::Partition,
            FrameEdge::Groups(distance) | FrameEdge::Distance(distance) => KeyEdge::Distance(distance),
            FrameEdge::Peers | FrameEdge::Rows(_) => KeyEdge::Peers,
        };
        let of_keys = KeyFrame { start: edge(frame.start), end: edge(frame.end) };
        let edges = Edges {
            peers_first: Some(self.edge(GroupEdge::First, peers)?),
            peers_last: Some(self.edge(GroupEdge::Last, peers)?),
            ..self.partition_edges(partition)?
        };
        let execution = self.execution;
        let (first, last) = (execution.window_array(self.count, 4)?, execution.window_array(self.count, 4)?);
        let work = key_frames(execution.library()?, of_keys, keys, edges, first.clone(), last.clone());
        execution.stream().run(work)?;
        self.key_frames.insert((frame, partition, peers), (first.clone(), last.clone()));
        Ok((first, last))
    }

    /// The edges that `frame`, which goes by no distances of keys or groups, is found by.
    fn edges_for(&mut self, frame: Frame, partition: usize, peers: usize) -> Result<Edges> {
        let Frame { start, end, .. } = frame;
        let begins_later = start != FrameEdge::Partition;
        let ends_before = matches!(end, FrameEdge::Rows(rows) if rows < 0);
        let ends_after = matches!(end, FrameEdge::Rows(rows) if rows > 0);
        let mut asked = |edge, level, is_asked: bool| is_asked.then(|| self.edge(edge, level)).transpose();
        Ok(Edges {
            partition_first: asked(GroupEdge::First, partition, begins_later || ends_before)?,
            partition_last: asked(GroupEdge::Last, partition, end == FrameEdge::Partition || ends_after)?,
            peers_first: asked(GroupEdge::First, peers, start == FrameEdge::Peers)?,
            peers_last: asked(GroupEdge::Last, peers, end == FrameEdge::Peers)?,
        })
    }

    /// A scan over groups of `level`; with how many values were not NULL where `is_counted`.
    fn scan(
        &self,
        of: ScanOf,
        level: usize,
        key_type: KeyType,
        is_counted: bool,
    ) -> Result<(Span, Option<Span>)> {
        let execution = self.execution;
        let target = execution.window_array(self.count, key_type.width_bytes())?;
        let counts = is_counted.then(|| execution.window_array(self.count, 4)).transpose()?;
        let scratch = execution.window_array(segmented_scan_scratch_bytes(self.count as u64), 1)?;
        let results = ScanTarget { key_type, target: target.clone(), counts: counts.clone() };
        let flags = self.marked.flags.clone();
        let work = segmented_scan(execution.library()?, of, level, flags, results, scratch);
        execution.stream().run(work)?;
        Ok((target, counts))
    }

    fn scan_input(
        &self,
        of: impl FnOnce(ScanValues) -> ScanOf,
        input: Input,
        level: usize,
        target: KeyType,
    ) -> Result<(Span, Option<Span>)> {
        let is_counted = input.valid.is_some();
        let key_type = key_type_of(input.column.form)?;
        let indices = self.places.clone();
        let values = ScanValues { key_type, source: input.values, valid: input.valid, indices };
        self.scan(of(values), level, target, is_counted)
    }

    fn ranked(
        &mut self,
        ranking: Ranking,
        layout: PayloadColumn,
        partition: usize,
        peers: usize,
    ) -> Result<WindowColumn> {
        let mut edges = self.partition_edges(partition)?;
        match ranking {
            Ranking::Rank | Ranking::PercentRank => {
                edges.peers_first = Some(self.edge(GroupEdge::First, peers)?);
            }
            Ranking::CumeDist => edges.peers_last = Some(self.edge(GroupEdge::Last, peers)?),
            Ranking::Ntile(_) => {}
        }
        let values = self.execution.window_array(self.count, 8)?;
        self.execution.stream().run(rank(self.execution.library()?, ranking, edges, values.clone()))?;
        Ok(WindowColumn { layout, values, valid: None })
    }

    fn picked(
        &self,
        which: Pick,
        input: Input,
        fallback: Option<u128>,
        edges: Edges,
    ) -> Result<WindowColumn> {
        let Input { column, values: source, valid } = input;
        let width_bytes = column.form.bytes();
        let target = self.target(width_bytes, true)?;
        let values = Picked { width_bytes, source, valid, indices: self.places.clone(), fallback };
        let work = pick(self.execution.library()?, which, values, edges, target.clone());
        self.execution.stream().run(work)?;
        let bounds = match (fallback, column.form) {
            // What stands in may lie outside.
            (Some(_), _) => None,
            (None, _) => column.bounds,
        };
        let layout = PayloadColumn { is_nullable: true, bounds, ..column };
        Ok(WindowColumn { layout, values: target.values, valid: target.valid })
    }

    fn counted(
        &mut self,
        column: Option<usize>,
        frame: Frame,
        layout: PayloadColumn,
        partition: usize,
        peers: usize,
    ) -> Result<WindowColumn> {
        let valid = column.map(|column| self.input(column)).transpose()?.and_then(|input| input.valid);
        let values = match (valid, frame) {
            (None, Frame { start: FrameEdge::Partition, end: FrameEdge::Rows(0), .. }) => {
                self.scan(ScanOf::Elements, partition, KeyType::I64, false)?.0
            }
            (None, frame) => {
                let (frame, mut edges) = self.frame(frame, partition, peers)?;
                edges.partition_first = Some(self.edge(GroupEdge::First, partition)?);
                let values = self.execution.window_array(self.count, 8)?;
                let work = frame_rows(self.execution.library()?, frame, edges, values.clone());
                self.execution.stream().run(work)?;
                values
            }
            (Some(valid), frame) => {
                let of = ScanOf::Count { valid, indices: self.places.clone() };
                let (counts, _) = self.scan(of, partition, KeyType::I64, false)?;
                let target = self.target(8, false)?;
                self.of_frame(frame, (KeyType::I64, counts, None), target, partition, peers)?.values
            }
        };
        Ok(WindowColumn { layout, values, valid: None })
    }

    fn aggregated(
        &mut self,
        of: impl FnOnce(ScanValues) -> ScanOf,
        input: Input,
        layout: PayloadColumn,
        frame: Frame,
        partition: usize,
        peers: usize,
    ) -> Result<WindowColumn> {
        let key_type = key_type_of(layout.form)?;
        let is_nullable = input.valid.is_some() || frame.may_be_empty();
        let layout = PayloadColumn { is_nullable, ..layout };
        let (scanned, counts) = self.scan_input(of, input, partition, key_type)?;
        let is_there = frame == Frame::new(FrameEdge::Partition, FrameEdge::Rows(0));
        if is_there && !is_nullable {
            return Ok(WindowColumn { layout, values: scanned, valid: None });
        }
        let target = self.target(key_type.width_bytes(), is_nullable)?;
        let Target { values, valid } =
            self.of_frame(frame, (key_type, scanned, counts), target, partition, peers)?;
        Ok(WindowColumn { layout, values, valid })
    }

    /// What a scan gives for each row's frame.
    fn of_frame(
        &mut self,
        frame: Frame,
        (key_type, source, counts): (KeyType, Span, Option<Span>),
        target: Target,
        partition: usize,
        peers: usize,
    ) -> Result<Target> {
        let (frame, edges) = self.frame(frame, partition, peers)?;
        let source = FrameSource { key_type, source, counts };
        let library = self.execution.library()?;
        let work = frame_values(library, frame, source, edges, target.clone());
        self.execution.stream().run(work)?;
        Ok(target)
    }
}

fn key_type_of(form: Form) -> Result<KeyType> {
    match form {
        Form::I32 => Ok(KeyType::I32),
        Form::I64 => Ok(KeyType::I64),
        Form::I128 => Ok(KeyType::I128),
        Form::F64 => Ok(KeyType::F64),
        other => Err(Error::unsupported(format!("an aggregate of values in the form {other:?} as a window"))),
    }
}

/// How the sums of at most `count` values of `column` are held.
fn sum_of(column: &PayloadColumn, count: u64) -> Result<PayloadColumn> {
    let bounds = match (column.form, column.bounds) {
        (Form::F64, _) => {
            return Ok(PayloadColumn { bounds: None, ..column.clone() });
        }
        (_, Some(bounds)) => bounds,
        (Form::I32, None) => Bounds { min: i32::MIN.into(), max: i32::MAX.into() },
        (Form::I64, None) => Bounds { min: i64::MIN.into(), max: i64::MAX.into() },
        (_, None) => Bounds { min: -(10_i128.pow(38)), max: 10_i128.pow(38) },
    };
    let most = bounds.min.unsigned_abs().max(bounds.max.unsigned_abs());
    let most = most.checked_mul(count.max(1).into()).and_then(|most| i128::try_from(most).ok());
    let most = most.ok_or_else(|| Error::unsupported("window sums that might pass 128 bits".to_owned()))?;
    let is_narrow = most <= i64::MAX.into() && column.form != Form::I128;
    let form = if is_narrow { Form::I64 } else { Form::I128 };
    let ty = if is_narrow && column.ty != Type::I128 { Type::I64 } else { Type::I128 };
    let bounds = Some(Bounds { min: -most, max: most });
    Ok(PayloadColumn { ty, form, bounds, is_nullable: column.is_nullable, dictionary: None })
}

/// The bits of a constant as a value of `form`; `None` for NULL.
fn bits_of(literal: &Literal, form: Form) -> Result<Option<u128>> {
    let integer = match (literal, form) {
        (Literal::Null(_), _) => return Ok(None),
        (Literal::Bool(value), Form::Bool) => i128::from(*value),
        (Literal::F64(value), Form::F64) => value.to_bits().into(),
        (Literal::I32(value), Form::I32) => i128::from(*value),
        (Literal::I64(value), Form::I64) => i128::from(*value),
        (Literal::I128(value), Form::I128) => *value,
        (Literal::I128(value), Form::I64) if i64::try_from(*value).is_ok() => *value,
        _ => return Err(Error::unsupported(format!("{literal:?} in place of a value in the form {form:?}"))),
    };
    Ok(Some(integer as u128))
}
