//! From columns to the bytes of a row group: pure, so that a loader runs one on every core.
//!
//! ```text
//!   column ──► planned encoding ──fits?──► chunk ──► checksum
//!          │        └─ no, or much larger than the sample promised: best light encoding, same codec
//!          └─► zone map, sketch
//! ```

use pelton_chunk::{ChunkView, Codec, Column, Encoding, best_light, encode_chunk};
use pelton_error::{Error, ErrorKind, Result, ResultExt};
use pelton_zone::{Sketch, ZoneMap};

use crate::format::checksum;
use crate::plan::{ColumnChoice, TablePlan};

/// A chunk larger than the sample promised by this factor is encoded again, the best way for itself. A
/// guess; it costs encoding time only, in row groups unlike the sample.
const WORSE_THAN_SAMPLE: f64 = 1.3;

/// One row group, ready to be written.
#[derive(Debug)]
pub struct EncodedRowGroup {
    pub(crate) row_count: u32,
    pub(crate) columns: Vec<EncodedColumn>,
    pub(crate) sideways: Vec<ZoneMap>,
}

#[derive(Debug)]
pub(crate) struct EncodedColumn {
    pub(crate) chunk: Vec<u8>,
    pub(crate) checksum: u64,
    pub(crate) encoding: Encoding,
    pub(crate) raw_bytes: u64,
    pub(crate) zone_map: ZoneMap,
    pub(crate) sketch: Sketch,
}

impl EncodedRowGroup {
    /// Its rows.
    pub fn row_count(&self) -> u32 {
        self.row_count
    }

    /// Bytes of its chunks.
    pub fn stored_bytes(&self) -> u64 {
        self.columns.iter().map(|column| column.chunk.len() as u64).sum()
    }

    /// Uncompressed bytes, as [`Values::raw_bytes`](pelton_chunk::Values::raw_bytes) counts.
    pub fn raw_bytes(&self) -> u64 {
        self.columns.iter().map(|column| column.raw_bytes).sum()
    }

    /// Adds the zone maps of the sideways columns the writer was begun with, in that order.
    #[must_use]
    pub fn with_sideways(mut self, zone_maps: Vec<ZoneMap>) -> Self {
        self.sideways = zone_maps;
        self
    }
}

/// Encodes one row group as `plan` says. Columns and plan are of one table and the columns of one length:
/// anything else is a bug and panics.
///
/// # Errors
///
/// Text beyond 4 GiB in one chunk.
pub fn encode_row_group(columns: &[Column], plan: &TablePlan) -> Result<EncodedRowGroup> {
    assert_eq!(columns.len(), plan.columns.len());
    let row_count = columns.first().expect("a table has a column").len();
    assert!(row_count > 0);
    assert!(columns.iter().all(|column| column.len() == row_count));
    let encoded = columns
        .iter()
        .zip(&plan.columns)
        .map(|(column, choice)| {
            encode_column(column, choice, plan).context(|| format!("encoding column '{}'", choice.column))
        })
        .collect::<Result<_>>()?;
    let row_count = u32::try_from(row_count).map_err(|_| {
        Error::invalid_input("a row group has at most 2^24 rows; use fewer rows per row group")
    })?;
    Ok(EncodedRowGroup { row_count, columns: encoded, sideways: Vec::new() })
}

fn encode_column(column: &Column, choice: &ColumnChoice, plan: &TablePlan) -> Result<EncodedColumn> {
    let chunk = chunk_of(column, choice, plan.page_rows)?;
    let (zone_map, sketch) = ZoneMap::build(column, &plan.zone);
    let view = ChunkView::parse(&chunk, column.values.physical_type(), column.len() as u32)
        .expect("a chunk just written can be read");
    Ok(EncodedColumn {
        checksum: checksum(&chunk),
        encoding: view.encoding(),
        raw_bytes: column.values.raw_bytes(),
        zone_map,
        sketch,
        chunk,
    })
}

fn chunk_of(column: &Column, choice: &ColumnChoice, page_rows: u32) -> Result<Vec<u8>> {
    let planned = match encode_chunk(column, choice.encoding, page_rows) {
        Ok(chunk) if choice.forced || !is_clearly_worse(&chunk, column.len(), choice) => return Ok(chunk),
        Ok(chunk) => Some(chunk),
        Err(error) if *error.kind() == ErrorKind::Unsupported => None,
        Err(error) => return Err(error),
    };
    let (light, mut best) = best_light(column, page_rows)?;
    if choice.encoding.codec != Codec::None {
        best = encode_chunk(column, light.with_codec(choice.encoding.codec), page_rows)?;
    }
    Ok(match planned {
        Some(planned) if planned.len() <= best.len() => planned,
        _ => best,
    })
}

fn is_clearly_worse(chunk: &[u8], rows: usize, choice: &ColumnChoice) -> bool {
    choice
        .expected_bytes_per_row()
        .is_some_and(|expected| chunk.len() as f64 > expected * rows as f64 * WORSE_THAN_SAMPLE)
}
