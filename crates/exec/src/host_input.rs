//! Rows that a caller gives, as chunks on the device.

use std::collections::BTreeSet;
use std::ops::Range;

use pelton_chunk::{ChunkView, Column, PhysicalType, Validity, Values, encode_chunk};
use pelton_device::{Buffer, DeviceId, Event, MemoryKind, OnFull, Span, Stream};
use pelton_error::{Error, Result};
use pelton_pipeline::codegen::{SourceColumn, StoredAs};
use pelton_pipeline::{RowColumn, RowValues, Rows};

use super::memory::host_buffer;

/// Rows of a row group of a host input.
const ROW_GROUP_ROWS: usize = 1 << 20;
/// Rows of its pages.
const PAGE_ROWS: u32 = 16 * 1024;
/// Chunks start at multiples of this.
const CHUNK_ALIGN: usize = 128;

/// A host input that is on the device once its stream gets there.
pub(crate) struct CopiedInput {
    /// Of all chunks.
    pub(crate) span: Span,
    /// Where in `span` the chunks of each row group begin; then its first row.
    places: Vec<u64>,
    /// Rows of each row group.
    pub(crate) row_counts: Vec<u32>,
    pub(crate) columns: Vec<SourceColumn>,
    pub(crate) bytes: u64,
    /// Before and after the copy, for a trace.
    pub(crate) copy: Option<(Event, Event)>,
    /// Kept until the copy is complete.
    _staged: Buffer,
}

impl CopiedInput {
    /// Addresses of the chunks of each row group; then its first row.
    pub(crate) fn addresses(&self) -> Vec<u64> {
        let words = self.columns.len() + 1;
        let of_group = |group: &[u64]| {
            let (first_row, chunks) = group.split_last().expect("a row group has a first row");
            let addresses = chunks.iter().map(|place| self.span.address() + place);
            addresses.chain([*first_row]).collect::<Vec<_>>()
        };
        self.places.chunks(words).flat_map(of_group).collect()
    }

    /// Rows of all row groups.
    pub(crate) fn rows(&self) -> u64 {
        self.row_counts.iter().map(|count| u64::from(*count)).sum()
    }
}

/// Encodes some of `rows` plainly and sends them to `device`; where that `is_traced`, between two events.
pub(crate) fn copy_rows(
    rows: &Rows,
    range: Range<usize>,
    device: DeviceId,
    stream: &Stream,
    is_traced: bool,
) -> Result<CopiedInput> {
    let mut chunks: Vec<Vec<u8>> = Vec::new();
    let mut row_counts = Vec::new();
    for first in range.clone().step_by(ROW_GROUP_ROWS) {
        let count = ROW_GROUP_ROWS.min(range.end - first);
        row_counts.push(count as u32);
        for column in &rows.columns {
            chunks.push(encode_chunk(&piece(column, first, count), "plain".parse()?, PAGE_ROWS)?);
        }
    }
    let columns = source_columns(rows, range.len(), &chunks)?;
    let bytes =
        chunks.iter().map(|chunk| chunk.len().next_multiple_of(CHUNK_ALIGN)).sum::<usize>().max(CHUNK_ALIGN);
    let machine = stream.machine();
    let staged = host_buffer(machine, bytes)?;
    let span = machine.allocate(MemoryKind::Device(device), bytes, OnFull::Refuse)?.span();
    let mut places = Vec::with_capacity(chunks.len());
    staged.with_bytes_mut(|target| {
        let mut offset = 0;
        for (at, chunk) in chunks.iter().enumerate() {
            target[offset..offset + chunk.len()].copy_from_slice(chunk);
            places.push(offset as u64);
            offset += chunk.len().next_multiple_of(CHUNK_ALIGN);
            if (at + 1) % rows.columns.len() == 0 {
                places.push((at / rows.columns.len() * ROW_GROUP_ROWS) as u64);
            }
        }
    })?;
    let before = is_traced.then(|| stream.record()).transpose()?;
    stream.copy(&staged.span(), &span)?;
    let copy = before.map(|before| Ok::<_, Error>((before, stream.record()?))).transpose()?;
    Ok(CopiedInput { span, places, row_counts, columns, bytes: bytes as u64, copy, _staged: staged })
}

fn source_columns(rows: &Rows, rows_of_chunks: usize, chunks: &[Vec<u8>]) -> Result<Vec<SourceColumn>> {
    let count = rows.columns.len();
    let mut columns = Vec::with_capacity(count);
    for (index, column) in rows.columns.iter().enumerate() {
        let physical = physical_type(&column.values);
        let mut formats = BTreeSet::new();
        for (at, chunk) in chunks.iter().skip(index).step_by(count).enumerate() {
            let row_count = ROW_GROUP_ROWS.min(rows_of_chunks - at * ROW_GROUP_ROWS) as u32;
            let encoding = ChunkView::parse(chunk, physical, row_count)?.encoding();
            formats.insert((encoding.transform, encoding.layout));
        }
        columns.push(SourceColumn { stored: stored_as(&column.values), formats, widths: None });
    }
    Ok(columns)
}

/// What chunks of `values` hold.
pub(super) fn stored_as(values: &RowValues) -> StoredAs {
    match values {
        RowValues::Text { .. } => StoredAs::TextIds,
        _ => StoredAs::Values(physical_type(values)),
    }
}

fn physical_type(values: &RowValues) -> PhysicalType {
    match values {
        RowValues::Bool(_) => PhysicalType::U8,
        RowValues::I32(_) => PhysicalType::I32,
        RowValues::I64(_) => PhysicalType::I64,
        RowValues::I128(_) => PhysicalType::I128,
        RowValues::F64(_) => PhysicalType::F64,
        RowValues::Text { .. } => PhysicalType::U32,
    }
}

/// Rows `first` to `first + count` of a column.
fn piece(column: &RowColumn, first: usize, count: usize) -> Column {
    let range = first..first + count;
    let values = match &column.values {
        RowValues::Bool(values) => Values::U8(values[range.clone()].to_vec()),
        RowValues::I32(values) => Values::I32(values[range.clone()].to_vec()),
        RowValues::I64(values) => Values::I64(values[range.clone()].to_vec()),
        RowValues::I128(values) => Values::I128(values[range.clone()].to_vec()),
        RowValues::F64(values) => Values::F64(values[range.clone()].to_vec()),
        RowValues::Text { ids, .. } => Values::U32(ids[range.clone()].to_vec()),
    };
    match &column.valid {
        Some(valid) => Column { values, validity: Some(Validity::from_bools(valid[range].iter().copied())) },
        None => Column::new(values),
    }
}
