//! Tables of all kinds of columns, and a device that reads what a prefetcher copies to it.

use std::sync::Arc;
use std::time::Duration;

use pelton_chunk::{
    ByteValues, ChunkView, Codec, Column, DecodedColumn, Encoding, Validity, Values, decompress_chunk,
    decompressed_bytes,
};
use pelton_device::{
    Buffer, DeviceId, DeviceKind, Event, Machine, MemoryKind, OnFull, Place as DevicePlace, Stream, Work,
    host,
};
use pelton_error::{CancelFlag, Result};
use pelton_io::{IoEngine, IoOptions};
use pelton_scan::{ColumnCache, ColumnCacheOptions, Morsel, PrefetchOptions, PrefetchReport, Prefetcher};
use pelton_store::{
    ColumnChoice, ColumnSchema, LogicalType, Table, TablePlan, TableSchema, TableWriter, Warehouse,
    WriteMode, WriteOptions, encode_row_group, read_chunk,
};

pub(crate) const DEVICE: DeviceId = DeviceId(0);
pub(crate) const PAGE_ROWS: u32 = 1024;

/// Name, type and light encoding of the columns, in order.
pub(crate) const COLUMNS: [(&str, LogicalType, &str); 11] = [
    ("id", LogicalType::Int64, "delta"),
    ("quantity", LogicalType::Int32, "bitpack"),
    ("price", LogicalType::Float64, "alp+bitpack"),
    ("wide", LogicalType::Decimal { precision: 30, scale: 2 }, "bitpack"),
    ("flag", LogicalType::Bool, "rle"),
    ("plain", LogicalType::UInt16, "plain"),
    ("mode", LogicalType::Utf8, "dict+bitpack"),
    ("city", LogicalType::Utf8, "dict+rle"),
    ("one", LogicalType::Int32, "constant"),
    ("null", LogicalType::Utf8, "constant"),
    ("comment", LogicalType::Utf8, "plain"),
];
/// Those that kernels can read: all but the last.
pub(crate) const READABLE: [usize; 10] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
pub(crate) const MODE: usize = 6;
pub(crate) const NULL: usize = 9;
pub(crate) const COMMENT: usize = 10;

pub(crate) const MODES: [&str; 5] = ["TRUCK", "AIR", "", "SHIP", "RAIL"];

pub(crate) fn strings(values: impl Iterator<Item = String>) -> ByteValues {
    let mut strings = ByteValues::default();
    values.for_each(|value| strings.push(value.as_bytes()).unwrap());
    strings
}

/// The text of `mode` in a row; other row groups have other ones.
pub(crate) fn mode(row: u64) -> &'static str {
    MODES[((row / 100) % 4 + row % 2) as usize]
}

/// Column `index` of rows `first` to `first + rows`; every third row, and pages of rows, are NULL in some.
fn column(index: usize, first: u64, rows: u64) -> Column {
    let all = || first..first + rows;
    let values = match index {
        0 => Values::I64(all().map(|row| 1_000_000 + row as i64 * 3).collect()),
        1 => Values::I32(all().map(|row| (row * 7919 % 50) as i32 - 3).collect()),
        2 => Values::F64(all().map(|row| (row * 31 % 9973) as f64 / 100.0).collect()),
        3 => Values::I128(all().map(|row| i128::from(row) * 1_000_003).collect()),
        4 => Values::U8(all().map(|row| u8::from(row / 40 % 2 == 0)).collect()),
        5 => Values::U16(all().map(|row| (row / 5) as u16).collect()),
        6 => Values::Bytes(strings(all().map(|row| mode(row).into()))),
        7 => Values::Bytes(strings(all().map(|row| format!("city {}", row / 90)))),
        8 => Values::I32(all().map(|_| 42).collect()),
        9 => Values::Bytes(strings(all().map(|_| String::new()))),
        _ => Values::Bytes(strings(all().map(|row| format!("comment of row {row}")))),
    };
    let is_valid = |row: u64| match index {
        1 | 6 => !row.is_multiple_of(3),
        2 => (row / 1024).is_multiple_of(2),
        9 => false,
        _ => true,
    };
    let validity = (!all().all(is_valid))
        .then(|| Validity::from_bools(all().map(is_valid).collect::<Vec<_>>().into_iter()));
    Column { values, validity }
}

pub(crate) fn schema() -> TableSchema {
    let columns = COLUMNS.iter().map(|(name, logical, _)| ColumnSchema {
        name: (*name).into(),
        logical: logical.clone(),
        nullable: true,
    });
    TableSchema::new(columns.collect()).unwrap()
}

/// The plan that writes `encodings`, one a column.
pub(crate) fn plan(schema: &TableSchema, encodings: &[Encoding], row_group_rows: u32) -> TablePlan {
    let choices = schema.columns.iter().zip(encodings);
    let choices = choices.map(|(column, encoding)| ColumnChoice::fixed(&column.name, *encoding)).collect();
    TablePlan { row_group_rows, page_rows: PAGE_ROWS, ..TablePlan::new(choices) }
}

/// A warehouse that is gone when dropped, with one table `t`.
pub(crate) struct Place {
    _dir: tempfile::TempDir,
    pub(crate) table: Arc<Table>,
}

/// A table of `COLUMNS`: two segments of `rows` rows each, under `codec`.
pub(crate) fn table(codec: Codec, row_group_rows: u32, rows: u64) -> Place {
    let encodings = COLUMNS.map(|(_, _, light)| light.parse::<Encoding>().unwrap().with_codec(codec));
    let columns = |first, count| (0..COLUMNS.len()).map(|index| column(index, first, count)).collect();
    place(schema(), &encodings, row_group_rows, rows, columns)
}

/// A table with two segments of `rows` rows each; `columns` gives those of rows from a first one on.
pub(crate) fn place(
    schema: TableSchema,
    encodings: &[Encoding],
    row_group_rows: u32,
    rows: u64,
    columns: impl Fn(u64, u64) -> Vec<Column>,
) -> Place {
    let dir = tempfile::tempdir().unwrap();
    let warehouse = Warehouse::open(dir.path()).unwrap();
    let plan = plan(&schema, encodings, row_group_rows);
    let mut table = None;
    for (segment, mode) in [WriteMode::Create, WriteMode::Append].into_iter().enumerate() {
        let mut writer =
            TableWriter::begin(&warehouse, "t", schema.clone(), mode, WriteOptions::default()).unwrap();
        writer.set_plan(&plan).unwrap();
        for start in (0..rows).step_by(row_group_rows as usize) {
            let count = u64::from(row_group_rows).min(rows - start);
            let columns = columns(segment as u64 * rows + start, count);
            writer.append(encode_row_group(&columns, &plan).unwrap()).unwrap();
        }
        table = Some(writer.commit().unwrap());
    }
    Place { _dir: dir, table: table.unwrap() }
}

pub(crate) fn engine() -> Arc<IoEngine> {
    Arc::new(IoEngine::start(IoOptions::default()).unwrap())
}

/// One logical device with these limits.
pub(crate) fn machine(device_bytes: u64, pinned_bytes: u64) -> Machine {
    host::open(&host::HostOptions {
        device_memory_limit_bytes: device_bytes,
        pinned_memory_limit_bytes: pinned_bytes,
        ..host::HostOptions::default()
    })
}

/// The column cache of a device with plenty of memory; extents are small, so that there are several.
pub(crate) fn cache() -> Arc<ColumnCache> {
    cache_of(machine(64 << 20, 64 << 20), 32 << 20)
}

pub(crate) fn cache_of(machine: Machine, device_cache_bytes: u64) -> Arc<ColumnCache> {
    Arc::new(ColumnCache::new(
        machine,
        engine(),
        ColumnCacheOptions { device_cache_bytes, ..cache_options() },
    ))
}

pub(crate) fn cache_options() -> ColumnCacheOptions {
    ColumnCacheOptions { threads: 3, extent_bytes: 40 << 10, ..ColumnCacheOptions::default() }
}

pub(crate) fn stream(cache: &ColumnCache) -> Stream {
    cache.machine().stream(DevicePlace::Device(DEVICE)).unwrap()
}

pub(crate) fn options() -> PrefetchOptions {
    PrefetchOptions { morsel_bytes: 48 << 10, row_groups_max: 5, staging_buffers: 3, reads_ahead: 4 }
}

pub(crate) fn all_row_groups(table: &Table) -> Vec<u32> {
    (0..table.row_group_count() as u32).collect()
}

/// The values of a chunk as the table has them.
pub(crate) fn expected(table: &Arc<Table>, row_group: u32, column: usize) -> DecodedColumn {
    let bytes = read_chunk(&engine_of_tests(), table, row_group as usize, column).unwrap();
    let bytes = bytes.wait_blocking().unwrap();
    table.chunk_view(row_group as usize, column, &bytes).unwrap().decode().unwrap()
}

/// The bytes of a chunk as the host decompresses them.
fn decompressed(table: &Arc<Table>, row_group: u32, column: usize) -> Vec<u8> {
    let bytes = read_chunk(&engine_of_tests(), table, row_group as usize, column).unwrap();
    let bytes = bytes.wait_blocking().unwrap();
    let view = table.chunk_view(row_group as usize, column, &bytes).unwrap();
    let mut decompressed = vec![0; decompressed_bytes(&view)];
    decompress_chunk(&view, &mut decompressed).unwrap();
    decompressed
}

pub(crate) fn engine_of_tests() -> Arc<IoEngine> {
    static ENGINE: std::sync::OnceLock<Arc<IoEngine>> = std::sync::OnceLock::new();
    Arc::clone(ENGINE.get_or_init(engine))
}

/// What a kernel saw of a morsel: the morsel, and the bytes of its spans as they were when it read them.
struct Seen {
    morsel: Morsel,
    copies: Vec<Buffer>,
}

/// A device that reads morsels on a stream of its own, slowly: a prefetcher that does not wait for it would overwrite
/// them.
pub(crate) struct Reader {
    cache: Arc<ColumnCache>,
    pub(crate) copying: Stream,
    reading: Stream,
    seen: Vec<Seen>,
}

impl Reader {
    pub(crate) fn new(cache: &Arc<ColumnCache>) -> Self {
        Self { cache: Arc::clone(cache), copying: stream(cache), reading: stream(cache), seen: Vec::new() }
    }

    /// Enqueues the reading of a morsel; answers when it will be over.
    pub(crate) fn read(&mut self, morsel: Morsel) -> Event {
        self.reading.wait_for(&self.copying.record().unwrap()).unwrap();
        self.pause();
        let copies = morsel.reads.iter().map(|span| {
            let bytes = span.len();
            let copy = self.cache.machine().allocate(MemoryKind::PAGEABLE, bytes, OnFull::Refuse).unwrap();
            self.reading.copy(span, &copy.span()).unwrap();
            copy
        });
        let copies = copies.collect();
        self.seen.push(Seen { morsel, copies });
        self.reading.record().unwrap()
    }

    /// Makes logical devices slow; real ones have no form of it.
    fn pause(&self) {
        if self.cache.machine().device(DEVICE).unwrap().kind != DeviceKind::Logical {
            return;
        }
        let pause = Work::new("pause", vec![], vec![]).with_host(|| {
            std::thread::sleep(Duration::from_micros(300));
            Ok(())
        });
        self.reading.run(pause).unwrap();
    }

    /// Holds all that was read against the table; answers the row groups in the order in which they came.
    pub(crate) fn check(self, table: &Arc<Table>, columns: &[usize]) -> Vec<u32> {
        self.reading.wait_blocking().unwrap();
        let mut row_groups = Vec::new();
        for seen in &self.seen {
            assert_eq!(seen.morsel.addresses.len(), seen.morsel.row_groups.len() * columns.len());
            for (index, address) in seen.morsel.addresses.iter().enumerate() {
                let row_group = seen.morsel.row_groups[index / columns.len()];
                let column = columns[index % columns.len()];
                check_chunk(table, row_group, column, *address, seen);
            }
            row_groups.extend(&seen.morsel.row_groups);
        }
        row_groups
    }
}

fn check_chunk(table: &Arc<Table>, row_group: u32, column: usize, address: u64, seen: &Seen) {
    assert_eq!(address % 128, 0);
    let what = format!("row group {row_group} of column {column} at {address:#x}");
    let holder = seen
        .morsel
        .reads
        .iter()
        .zip(&seen.copies)
        .find(|(span, _)| (span.address()..span.address() + span.len() as u64).contains(&address));
    let (span, copy) = holder.unwrap_or_else(|| panic!("{what} lies in no span that is read"));
    let start = (address - span.address()) as usize;
    copy.with_bytes(|bytes| {
        let bytes = &bytes[start..];
        let chunk_bytes = u64::from_le_bytes(bytes[16..24].try_into().unwrap()) as usize;
        let ty = table.schema().columns[column].logical.physical_type();
        let row_count = table.row_group(row_group as usize).row_count;
        let view = ChunkView::parse(&bytes[..chunk_bytes], ty, row_count).unwrap();
        assert_eq!(view.encoding().codec, Codec::None, "{what}");
        assert_eq!(view.decode().unwrap(), expected(table, row_group, column), "{what}");
        assert!(bytes[..chunk_bytes] == decompressed(table, row_group, column)[..], "{what}");
    })
    .unwrap();
}

/// Prefetches, reads and checks these columns of these row groups; answers the row groups that came, and the report.
pub(crate) fn run_and_check(
    cache: &Arc<ColumnCache>,
    table: &Arc<Table>,
    columns: &[usize],
    row_groups: &[u32],
    options: PrefetchOptions,
    mut drop_row_group: impl FnMut(u32) -> bool,
) -> Result<(Vec<u32>, PrefetchReport)> {
    let mut prefetcher =
        Prefetcher::new(cache, DEVICE, table, columns, row_groups, options, CancelFlag::new())?;
    let mut reader = Reader::new(cache);
    for turn in 0.. {
        let buffer = turn % prefetcher.buffer_count();
        let Some(morsel) = prefetcher.next(buffer, &reader.copying, &mut drop_row_group)? else { break };
        assert!(morsel.row_groups.len() <= options.row_groups_max);
        assert!(!morsel.row_groups.is_empty());
        let done = reader.read(morsel);
        prefetcher.release(buffer, done);
    }
    let report = prefetcher.report();
    Ok((reader.check(table, columns), report))
}

/// As [`run_and_check`], all of it, which must come in order.
pub(crate) fn run_all(cache: &Arc<ColumnCache>, table: &Arc<Table>, columns: &[usize]) -> PrefetchReport {
    let row_groups = all_row_groups(table);
    let (came, report) = run_and_check(cache, table, columns, &row_groups, options(), |_| false).unwrap();
    assert_eq!(came, row_groups);
    assert_eq!(report.row_groups, row_groups.len() as u64);
    report
}

/// Flips a bit in the middle of a chunk's file bytes.
pub(crate) fn damage(table: &Table, row_group: usize, column: usize) {
    use std::os::unix::fs::FileExt;
    let location = table.chunk(row_group, column).unwrap();
    let path = table.segment_file(location.segment).path();
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let at = location.byte_offset + location.stored_bytes / 2;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}
