//! Every reader of stored bytes, fed with any bytes at all: whatever they are, it answers or refuses, and
//! neither panics nor hangs nor allocates what no input of this size could mean.
//!
//! ```text
//!   chunk      type, row count, a chunk's bytes         ─▶ parse, decode, decode pages
//!   zone_maps  count, a section's bytes                 ─▶ read, test, write and read again; sketch
//!   table      patches to a manifest or metadata file   ─▶ checksums made right again ─▶ open, read all
//! ```
//!
//! Checksums would stop nearly every input at the door, so they are put right where a reader checks them
//! before it parses: what is tested is the parsing behind them.

use std::fs;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use pelton_chunk::{
    ByteValues, ChunkView, Codec, Column, PhysicalType, Validity, Values, candidates, encode_chunk,
};
use pelton_io::{IoEngine, IoMode, IoOptions};
use pelton_load::{CancelFlag, LoadOptions, LoadRequest, NoProgress, StarLink, load_batches};
use pelton_store::{
    SampleOptions, Table, TableWriter, Warehouse, WriteMode, WriteOptions, column_to_arrow, read_chunk,
};
use pelton_testkit::{Random, random_rows};
use pelton_zone::{
    ColumnTest, CompareOp, Scalar, Sketch, SkipKinds, ZoneMap, ZoneOptions, read_zone_maps, write_zone_maps,
};
use tempfile::TempDir;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Rows that an input may claim: a constant chunk repeats its value as often.
const ROWS_MAX: u32 = 4096;
/// Bytes in front of a chunk: type, row count, pages to select.
const CHUNK_HEAD: usize = 8;

/// `data`: a type tag, a byte of no meaning, a row count (2 bytes), a page pattern (4 bytes), then a chunk.
pub fn chunk(data: &[u8]) {
    let Some((head, bytes)) = data.split_at_checked(CHUNK_HEAD) else { return };
    let Some(ty) = PhysicalType::from_tag(head[0]) else { return };
    let row_count = u32::from(u16::from_le_bytes([head[2], head[3]])) % (ROWS_MAX + 1);
    let Ok(view) = ChunkView::parse(bytes, ty, row_count) else { return };
    let pattern = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
    let pages: Vec<bool> = (0..view.page_count()).map(|page| pattern >> (page % 32) & 1 == 1).collect();
    let all = view.decode();
    let some = view.decode_pages(&pages);
    // Pages are checked as they are decoded: where all are fine, any of them are.
    assert!(all.is_err() || some.is_ok(), "a page that decodes among others does not decode alone");
}

/// `data`: a count of zone maps (2 bytes), then their section.
pub fn zone_maps(data: &[u8]) {
    let Some((head, bytes)) = data.split_at_checked(2) else { return };
    let _ = Sketch::from_bytes(bytes).map(|sketch| sketch.estimate());
    let count = usize::from(u16::from_le_bytes([head[0], head[1]]));
    let Ok(zones) = read_zone_maps(bytes, count) else { return };
    assert_eq!(zones.len(), count);
    for zone in &zones {
        for test in tests_of(zone) {
            let _ = zone.test(&test, SkipKinds::ALL);
            let share = zone.selectivity(&test);
            assert!((0.0..=1.0).contains(&share), "selectivity {share} of {test:?}");
        }
    }
    let again =
        read_zone_maps(&write_zone_maps(&zones), count).expect("what was read can be written and read");
    assert_eq!(format!("{again:?}"), format!("{zones:?}"));
}

/// One test of every form, with constants of every type and from the zone map itself.
fn tests_of(zone: &ZoneMap) -> Vec<ColumnTest> {
    let mut constants = vec![
        Scalar::Int(0),
        Scalar::Int(i128::MAX),
        Scalar::Float(f64::NAN),
        Scalar::Float(-0.0),
        Scalar::Bytes(vec![]),
    ];
    constants.extend(zone.min.clone().into_iter().chain(zone.max.clone()));
    let mut tests = vec![ColumnTest::IsNull, ColumnTest::IsNotNull, ColumnTest::In(constants.clone())];
    for constant in &constants {
        use CompareOp::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        tests.extend([Eq, NotEq, Lt, LtEq, Gt, GtEq].map(|op| ColumnTest::Compare(op, constant.clone())));
        let (lower, upper) = (Bound::Excluded(constant.clone()), Bound::Included(constants[0].clone()));
        tests.push(ColumnTest::Range { lower, upper });
        if let Scalar::Bytes(bytes) = constant {
            tests.push(ColumnTest::StartsWith(bytes.clone()));
        }
    }
    tests
}

/// Valid chunks of every type in every encoding that applies, under every codec, as [`chunk`] takes them.
pub fn chunk_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let mut random = Random::new(3);
    for column in columns(&mut random) {
        for light in candidates(&column) {
            let codec = *random.pick(&Codec::ALL);
            for encoding in [light, light.with_codec(codec)] {
                let Ok(bytes) = encode_chunk(&column, encoding, 1024) else { continue };
                let mut seed = vec![column.values.physical_type() as u8, 0];
                seed.extend((column.len() as u16).to_le_bytes());
                seed.extend((random.next_u64() as u32).to_le_bytes());
                seed.extend(bytes);
                seeds.push(seed);
            }
        }
    }
    seeds
}

/// Zone maps of columns of every type, as [`zone_maps`] takes them.
pub fn zone_seeds() -> Vec<Vec<u8>> {
    let mut random = Random::new(4);
    let options = ZoneOptions::default();
    let mut seeds = Vec::new();
    for column in columns(&mut random) {
        let (zone, sketch) = ZoneMap::build(&column, &options);
        let section = write_zone_maps(&[zone.clone(), zone]);
        seeds.push([&[2, 0][..], &section].concat());
        seeds.push([&[0, 0][..], &sketch.to_bytes()].concat());
    }
    seeds
}

/// Short columns of every type: few distinct values, rising ones, any, with and without NULLs.
fn columns(random: &mut Random) -> Vec<Column> {
    let mut columns = Vec::new();
    for tag in 1..=12 {
        let ty = PhysicalType::from_tag(tag).expect("twelve types");
        for rows in [1, 40, 1500] {
            for style in 0..3 {
                let numbers: Vec<u64> = (0..rows)
                    .map(|row| match style {
                        0 => random.below(5),
                        1 => row as u64 * 3,
                        _ => random.next_u64(),
                    })
                    .collect();
                let validity = random
                    .one_in(2)
                    .then(|| Validity::from_bools(numbers.iter().map(|number| number % 7 != 0)));
                columns.push(Column { values: values(ty, &numbers), validity });
            }
        }
    }
    columns
}

fn values(ty: PhysicalType, numbers: &[u64]) -> Values {
    macro_rules! cast {
        ($variant:ident, $native:ty) => {
            Values::$variant(numbers.iter().map(|&number| number as $native).collect())
        };
    }
    match ty {
        PhysicalType::U8 => cast!(U8, u8),
        PhysicalType::U16 => cast!(U16, u16),
        PhysicalType::U32 => cast!(U32, u32),
        PhysicalType::U64 => cast!(U64, u64),
        PhysicalType::I8 => cast!(I8, i8),
        PhysicalType::I16 => cast!(I16, i16),
        PhysicalType::I32 => cast!(I32, i32),
        PhysicalType::I64 => cast!(I64, i64),
        PhysicalType::I128 => cast!(I128, i128),
        PhysicalType::F32 => {
            Values::F32(numbers.iter().map(|&number| (number % 1000) as f32 / 4.0).collect())
        }
        PhysicalType::F64 => {
            Values::F64(numbers.iter().map(|&number| (number % 1000) as f64 / 100.0).collect())
        }
        PhysicalType::Bytes => {
            let mut bytes = ByteValues::default();
            for number in numbers {
                bytes.push(format!("text {}", number % 1000).as_bytes()).expect("short texts");
            }
            Values::Bytes(bytes)
        }
    }
}

/// A warehouse whose table is patched and read, again and again.
pub struct PatchedTable {
    directory: TempDir,
    io: IoEngine,
    /// The files as they were loaded.
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl PatchedTable {
    /// Loads a dimension and a table that refers to it, with every type between them, below `base`.
    pub fn new(base: &Path) -> Self {
        let directory = tempfile::tempdir_in(base).expect("a temporary directory");
        let warehouse = Warehouse::open_or_create(directory.path()).expect("an empty warehouse");
        load(&warehouse, "dim", random_rows(1, 40), Vec::new());
        let star =
            StarLink { fact_column: "id".into(), dimension_table: "dim".into(), dimension_key: "id".into() };
        load(&warehouse, "t", random_rows(2, 150), vec![star]);
        let mut files = Vec::new();
        for entry in fs::read_dir(directory.path().join("t")).expect("the table's files") {
            let path = entry.expect("an entry").path();
            if !path.ends_with("lock") {
                let bytes = fs::read(&path).expect("a file of the table");
                files.push((path, bytes));
            }
        }
        let io = IoEngine::start(IoOptions { mode: IoMode::Buffered, ring: false, ..IoOptions::default() });
        Self { directory, io: io.expect("a read engine"), files }
    }

    /// `data`: which file (even: the manifest, odd: the metadata), then patches of 4 bytes: where (2 bytes, as a
    /// share of the file), how, with what.
    pub fn table(&self, data: &[u8]) {
        let Some((&which, patches)) = data.split_first() else { return };
        let mut manifest = self.file("manifest").1.to_vec();
        let (meta_path, meta) = self.file("meta-");
        let mut meta = meta.to_vec();
        if which % 2 == 0 {
            let body = manifest.iter().position(|&byte| byte == b'\n').expect("a header line") + 1;
            let mut text = manifest.split_off(body);
            patch(&mut text, patches);
            manifest = seal_manifest(&text);
        } else {
            let old = format!("{:016x}", u64::from_le_bytes(meta[32..40].try_into().expect("8 bytes")));
            let old_bytes = format!("\"meta_bytes\":{},", meta.len());
            patch(&mut meta, patches);
            let Some(new) = seal_meta(&mut meta) else { return };
            let text = String::from_utf8(manifest).expect("the manifest is text");
            let (_, body) = text.split_once('\n').expect("a header line");
            let body = body.replace(&old, &format!("{new:016x}"));
            manifest = seal_manifest(
                body.replace(&old_bytes, &format!("\"meta_bytes\":{},", meta.len())).as_bytes(),
            );
        }
        let (data_path, data_bytes) = self.file("data-");
        if !data_path.exists() {
            fs::write(data_path, data_bytes).expect("restoring the data file");
        }
        fs::write(meta_path, meta).expect("writing the metadata file");
        fs::write(self.file("manifest").0, manifest).expect("writing the manifest");
        self.read_all();
    }

    fn file(&self, prefix: &str) -> (&Path, &[u8]) {
        let named =
            |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix));
        let (path, bytes) = self.files.iter().find(|(path, _)| named(path)).expect("a table has three files");
        (path, bytes)
    }

    /// Asks the table everything that a query or an append would.
    fn read_all(&self) {
        let warehouse = Warehouse::open(self.directory.path()).expect("the directory is there");
        let Ok(table) = warehouse.table("t") else { return };
        for column in 0..table.schema().columns.len() {
            let _ = (table.column_summary(column), table.zone_maps(column));
        }
        for index in 0..table.sideways().len() {
            let _ = table.sideways_zone_maps(index);
        }
        for row_group in 0..table.row_group_count().min(8) {
            for column in 0..table.schema().columns.len() {
                let _ = self.read(&table, row_group, column);
            }
        }
        let schema = table.schema().clone();
        let _ = TableWriter::begin(&warehouse, "t", schema, WriteMode::Append, WriteOptions::default());
    }

    fn read(&self, table: &Arc<Table>, row_group: usize, column: usize) -> pelton_error::Result<ArrayRef> {
        let bytes = read_chunk(&self.io, table, row_group, column)?.wait_blocking()?;
        let decoded = table.chunk_view(row_group, column, &bytes)?.decode()?;
        column_to_arrow(decoded, &table.schema().columns[column].logical)
    }
}

fn load(warehouse: &Warehouse, name: &str, rows: RecordBatch, star: Vec<StarLink>) {
    let choose = SampleOptions { row_group_rows: vec![64], page_rows: 1024, ..SampleOptions::default() };
    let request = LoadRequest {
        star,
        options: LoadOptions { choose, ..LoadOptions::default() },
        ..LoadRequest::new(name, WriteMode::Create, Vec::new())
    };
    let schema = rows.schema();
    load_batches(
        warehouse,
        &request,
        &schema,
        Box::new([Ok(rows)].into_iter()),
        &NoProgress,
        &CancelFlag::new(),
    )
    .expect("the rows load");
}

fn patch(bytes: &mut Vec<u8>, patches: &[u8]) {
    for patch in patches.chunks_exact(4).take(16) {
        if bytes.is_empty() {
            return;
        }
        let share = usize::from(u16::from_le_bytes([patch[0], patch[1]]));
        let at = (share * bytes.len()) >> 16;
        match patch[2] % 4 {
            0 => bytes[at] = patch[3],
            1 => bytes[at] ^= 1 << (patch[3] % 8),
            2 => bytes.insert(at, patch[3]),
            _ => drop(bytes.remove(at)),
        }
    }
}

/// The manifest of this body, with the checksum that it should have.
fn seal_manifest(body: &[u8]) -> Vec<u8> {
    [format!("PELTON 2 {:016x}\n", xxh3_64(body)).as_bytes(), body].concat()
}

/// Changes the bytes of a chunk of a table of one segment, and puts the checksums right that its readers check.
pub fn change_chunk(table: &Table, row_group: usize, column: usize, change: impl FnOnce(&mut [u8])) {
    let chunk = table.chunk(row_group, column).expect("a directory of chunks");
    let (start, bytes) = (chunk.byte_offset as usize, chunk.stored_bytes as usize);
    let path = |prefix: &str| {
        let files = fs::read_dir(table.dir()).expect("the table's files");
        let mut paths = files.map(|entry| entry.expect("an entry").path());
        let named =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix));
        paths.find(named).expect("a table has three files")
    };
    let (data_path, meta_path, manifest_path) = (path("data-"), path("meta-"), path("manifest"));
    let mut data = fs::read(&data_path).expect("the data file");
    change(&mut data[start..start + bytes]);
    let checksum = xxh3_64(&data[start..start + bytes]).to_le_bytes();
    fs::write(data_path, data).expect("writing the data file");

    let mut meta = fs::read(&meta_path).expect("the metadata file");
    let old_checksum = chunk.checksum.to_le_bytes();
    let at = meta.windows(8).position(|bytes| bytes == old_checksum).expect("the chunk's checksum");
    meta[at..at + 8].copy_from_slice(&checksum);
    let old = format!("{:016x}", u64::from_le_bytes(meta[32..40].try_into().expect("8 bytes")));
    let new = seal_meta(&mut meta).expect("the head is whole");
    fs::write(meta_path, meta).expect("writing the metadata file");

    let manifest = fs::read_to_string(&manifest_path).expect("the manifest");
    let (_, body) = manifest.split_once('\n').expect("a header line");
    let body = body.replace(&old, &format!("{new:016x}"));
    fs::write(manifest_path, seal_manifest(body.as_bytes())).expect("writing the manifest");
}

/// Puts the checksums of a metadata file right; gives that of its head. `None` where there is no head left.
fn seal_meta(bytes: &mut [u8]) -> Option<u64> {
    const HEADER: usize = 40;
    const ENTRY: usize = 32;
    let word = |bytes: &[u8], at: usize| {
        bytes.get(at..at + 8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")))
    };
    let count = u32::from_le_bytes(bytes.get(12..16)?.try_into().expect("4 bytes")) as usize;
    let table_end = count.checked_mul(ENTRY)?.checked_add(HEADER).filter(|&end| end <= bytes.len())?;
    for entry in (HEADER..table_end).step_by(ENTRY) {
        let (offset, len) = (word(bytes, entry + 8)? as usize, word(bytes, entry + 16)? as usize);
        let section = offset.checked_add(len).and_then(|end| bytes.get(offset..end));
        if let Some(checksum) = section.map(xxh3_64) {
            bytes[entry + 24..entry + 32].copy_from_slice(&checksum.to_le_bytes());
        }
    }
    let mut hasher = Xxh3::new();
    hasher.update(&bytes[..32]);
    hasher.update(&bytes[HEADER..table_end]);
    let checksum = hasher.digest();
    bytes[32..HEADER].copy_from_slice(&checksum.to_le_bytes());
    Some(checksum)
}

/// Patches to start from, as [`PatchedTable::table`] takes them.
pub fn table_seeds() -> Vec<Vec<u8>> {
    let mut random = Random::new(5);
    let mut seed = |which: u8| {
        let patches = 1 + random.below(3) as usize;
        let bytes = (0..patches * 4).map(|_| random.next_u64() as u8);
        std::iter::once(which).chain(bytes).collect()
    };
    (0..64).map(|index| seed(index % 2)).collect()
}

/// One to four changes to `seed`: bits, bytes, words that sit on edges, a cut, a repeated stretch.
pub fn mutate(seed: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..1 + random.below(4) {
        if bytes.is_empty() {
            return bytes;
        }
        let at = random.below(bytes.len() as u64) as usize;
        match random.below(7) {
            0 | 1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes[at] = random.next_u64() as u8,
            3 => {
                let edge = *random.pick(&[0u32, 1, 0xff, 0x7fff_ffff, 0x8000_0000, u32::MAX, 0x0001_0000]);
                let end = bytes.len().min(at + 4);
                bytes[at..end].copy_from_slice(&edge.to_le_bytes()[..end - at]);
            }
            4 => bytes.truncate(at),
            5 => {
                let end = bytes.len().min(at + random.below(64) as usize);
                let stretch = bytes[at..end].to_vec();
                bytes.splice(at..at, stretch);
            }
            _ => {
                let end = bytes.len().min(at + random.below(16) as usize);
                bytes.drain(at..end);
            }
        }
    }
    bytes
}
