//! What the chunk directory says of a column, without reading a chunk.

use pelton_chunk::{Codec, Layout, PhysicalType, Transform};
use pelton_error::{Error, Result};
use pelton_store::{ChunkLocation, Table};

use super::extent::CHUNK_ALIGN;

/// The distinct formats of a column's chunks in these row groups, in ascending order: what a kernel that reads them
/// must be able to decode.
///
/// # Errors
///
/// Of reading the chunk directory.
pub fn formats(table: &Table, column: usize, row_groups: &[u32]) -> Result<Vec<(Transform, Layout)>> {
    let mut formats = Vec::new();
    for row_group in row_groups {
        let encoding = table.chunk(*row_group as usize, column)?.encoding;
        let format = (encoding.transform, encoding.layout);
        if !formats.contains(&format) {
            formats.push(format);
        }
    }
    formats.sort_unstable();
    Ok(formats)
}

/// How kernels read a text column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextForm {
    /// As numbers of the column's dictionary: every chunk is made of codes or of one value.
    Dictionary,
    /// As views of its bytes: chunks of any format.
    Views,
}

/// Rows of a table at most whose texts are made a dictionary of where they have none: read on the host once, in some
/// 300 ns a row. A guess.
const DICTIONARY_ROWS_MAX: u64 = 1 << 18;

/// Whether a text column can be read by dictionary: it is stored so, or its table is small.
///
/// # Errors
///
/// As [`text_form`].
pub fn may_have_dictionary(table: &Table, column: usize) -> Result<bool> {
    Ok(text_form(table, column)? == TextForm::Dictionary || table.row_count() <= DICTIONARY_ROWS_MAX)
}

/// How kernels read a text column by default.
///
/// # Errors
///
/// `InvalidInput` for a column that is not text; of reading the chunk directory.
pub fn text_form(table: &Table, column: usize) -> Result<TextForm> {
    let schema = &table.schema().columns[column];
    if schema.logical.physical_type() != PhysicalType::Bytes {
        return Err(Error::invalid_input(format!("column '{}' is not text", schema.name)));
    }
    Ok(if plain_count(table, column)? == 0 { TextForm::Dictionary } else { TextForm::Views })
}

/// Row groups in which a text column has no dictionary.
fn plain_count(table: &Table, column: usize) -> Result<usize> {
    let mut count = 0;
    for row_group in 0..table.row_group_count() {
        let encoding = table.chunk(row_group, column)?.encoding;
        let has_codes = encoding.transform == Transform::Dictionary || encoding.layout == Layout::Constant;
        count += usize::from(!has_codes);
    }
    Ok(count)
}

/// Whether every chunk of a column is made of codes or of one value, so that kernels can read it as numbers of
/// dictionary entries; columns of fixed width are. Otherwise why not, and what to do about it.
///
/// # Errors
///
/// The reason, which is that of reading where the chunk directory cannot be read.
pub fn text_supported(table: &Table, column: usize) -> std::result::Result<(), String> {
    let schema = &table.schema().columns[column];
    if schema.logical.physical_type() != PhysicalType::Bytes {
        return Ok(());
    }
    let plain_count = plain_count(table, column).map_err(|error| error.to_string())?;
    if plain_count == 0 {
        return Ok(());
    }
    Err(format!(
        "column '{}' of table '{}' is text with layout plain, without a dictionary, in {plain_count} of {} row groups; \
         leave it out of the query, or load the table again with `pelton load --objective smallest`, which takes a \
         dictionary wherever that is smaller (none is made where more than half of a row group's values differ)",
        schema.name,
        table.name(),
        table.row_group_count()
    ))
}

/// Passes columns that have a dictionary, and those of fixed width.
pub(super) fn check_has_dictionary(table: &Table, column: usize) -> Result<()> {
    text_supported(table, column).map_err(Error::unsupported)
}

/// The bytes that a chunk will have without its codec, as far as the directory shows: exact where it has none.
///
/// A layout seldom takes more than 5/4 of the raw bytes (run length of values without runs; delta with its bases);
/// codes take at most 16 bits a row, and a dictionary has at most 65,536 entries. A guess all the same.
pub(super) fn estimated_bytes(location: &ChunkLocation, row_count: u32, page_rows: u32) -> usize {
    if location.encoding.codec == Codec::None {
        return (location.stored_bytes as usize).next_multiple_of(CHUNK_ALIGN);
    }
    let rows = u64::from(row_count).max(1);
    let raw = location.raw_bytes;
    let values = match location.encoding.transform {
        Transform::Dictionary => (2 * rows + raw * rows.min(65_536) / rows).min(raw + raw / 4),
        _ => raw + raw / 4,
    };
    // Header, page entries and alignment.
    let pages = rows.div_ceil(u64::from(page_rows.max(1)));
    let whole = values.max(location.stored_bytes) + 256 + 256 * pages;
    (whole as usize).next_multiple_of(CHUNK_ALIGN)
}

/// Pages and dictionary of a chunk of a row group, at most.
pub(super) fn section_count(table: &Table, row_group: usize) -> usize {
    table.row_group(row_group).row_count.div_ceil(table.page_rows().max(1)) as usize + 1
}

/// As [`estimated_bytes`], of a chunk by number.
pub(super) fn estimated_chunk_bytes(table: &Table, row_group: usize, column: usize) -> Result<usize> {
    let location = table.chunk(row_group, column)?;
    Ok(estimated_bytes(location, table.row_group(row_group).row_count, table.page_rows()))
}
