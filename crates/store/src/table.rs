//! A table as it was at one commit, open for reading.
//!
//! ```text
//!   open        manifest read; data and metadata files opened and their lengths compared, nothing else read
//!   chunk       first use: section table and chunk directory of a segment
//!   zone_maps   first use: one section a segment
//! ```
//!
//! What was read stays. The open files are the snapshot: a replace unlinks them, and they are read on.
//!
//! Tables of the same rows can be put side by side: one table then, whose columns lie in the segments of several.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::datatypes::SchemaRef;
use pelton_chunk::ChunkView;
use pelton_error::{Error, Result, ResultExt};
use pelton_io::OpenFile;
use pelton_zone::{Sketch, ZoneMap, read_zone_maps};

use crate::format::data_header::check_header;
use crate::format::directory::{ChunkLocation, read_directory};
use crate::format::manifest::{Manifest, SegmentEntry};
use crate::format::meta::{MetaExpectation, MetaFile, SectionKind};
use crate::format::{SegmentId, checksum};
use crate::plan::ColumnChoice;
use crate::schema::TableSchema;
use crate::segment::open_data_file;
use crate::sideways::{SidewaysColumn, TableId};
use crate::summary::ColumnSummary;
use crate::warehouse::read_manifest;

/// A replace may unlink a segment between reading the manifest and opening the segment; the new manifest
/// is read then.
const OPEN_TRIES: usize = 5;

type CachedZoneMaps = OnceLock<Arc<Vec<ZoneMap>>>;

/// An immutable snapshot. `Send` and `Sync`; share it in an [`Arc`].
#[derive(Debug)]
pub struct Table {
    name: String,
    dir: PathBuf,
    manifest: Manifest,
    arrow_schema: SchemaRef,
    row_groups: Vec<RowGroup>,
    /// Those with the first columns, then those with the next ones.
    segments: Vec<Segment>,
    places: Vec<ColumnPlace>,
    zone_maps: Vec<CachedZoneMaps>,
    sideways_zone_maps: Vec<CachedZoneMaps>,
    /// A bit a chunk, row group by row group: its checksum was found right.
    verified: Vec<AtomicU64>,
}

/// A horizontal slice of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowGroup {
    /// The segment it lies in, as [`Table::segment_file`] counts them; of the first of several tables side by side.
    pub segment: usize,
    /// Its rows.
    pub row_count: u32,
    /// Rows of the table before it.
    pub row_offset: u64,
}

/// In which segments a column lies, and where in them.
#[derive(Debug, Clone, Copy)]
struct ColumnPlace {
    /// The segment with the first rows, among those of the table.
    first_segment: usize,
    /// Its position among the columns of these segments.
    index: usize,
    /// How many columns these segments have.
    of: usize,
}

#[derive(Debug)]
struct Segment {
    id: SegmentId,
    /// Of the table.
    row_group_offset: usize,
    row_group_count: usize,
    data: Arc<OpenFile>,
    meta: Arc<MetaFile>,
    directory: OnceLock<Vec<ChunkLocation>>,
}

impl Table {
    /// Opens the table in `dir`; `None` where there is none.
    pub(crate) fn open(dir: &Path, name: &str) -> Result<Option<Self>> {
        let doing = || format!("opening table '{name}'");
        let Some(mut manifest) = read_manifest(dir).context(doing)? else { return Ok(None) };
        for _ in 1..OPEN_TRIES {
            let id = manifest.id;
            let error = match Self::from_manifest(dir, name, manifest) {
                Ok(table) => return Ok(Some(table)),
                Err(error) => error,
            };
            // Only a table that has changed meanwhile is worth another try; one in its place may count as many commits.
            let Some(newer) = read_manifest(dir).context(doing)? else { return Ok(None) };
            if newer.id == id {
                return Err(error.context(doing()));
            }
            manifest = newer;
        }
        Self::from_manifest(dir, name, manifest).map(Some).context(doing)
    }

    fn from_manifest(dir: &Path, name: &str, manifest: Manifest) -> Result<Self> {
        let mut segments = Vec::with_capacity(manifest.segments.len());
        let mut row_groups = Vec::new();
        let mut row_offset = 0;
        for (index, entry) in manifest.segments.iter().enumerate() {
            segments.push(open_segment(dir, &manifest, entry, row_groups.len())?);
            for row_count in row_group_lengths(entry.row_count, manifest.row_group_rows) {
                row_groups.push(RowGroup { segment: index, row_count, row_offset });
                row_offset += u64::from(row_count);
            }
        }
        let columns = manifest.schema.columns.len();
        let places = (0..columns).map(|index| ColumnPlace { first_segment: 0, index, of: columns }).collect();
        Ok(Self::of_parts(name, dir, manifest, row_groups, segments, places))
    }

    fn of_parts(
        name: &str,
        dir: &Path,
        manifest: Manifest,
        row_groups: Vec<RowGroup>,
        segments: Vec<Segment>,
        places: Vec<ColumnPlace>,
    ) -> Self {
        let chunks = row_groups.len() * manifest.schema.columns.len();
        Self {
            name: name.to_string(),
            dir: dir.to_path_buf(),
            verified: (0..chunks.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            arrow_schema: manifest.schema.to_arrow(),
            zone_maps: manifest.schema.columns.iter().map(|_| OnceLock::new()).collect(),
            sideways_zone_maps: manifest.sideways.iter().map(|_| OnceLock::new()).collect(),
            manifest,
            row_groups,
            segments,
            places,
        }
    }

    /// Tables of the same rows as one table called `name` that has the columns of all of them, those of `tables[0]` first.
    /// Its id is that of `tables[0]`, and so is what is known of it elsewhere by id and position of a column: more tables
    /// added at the end change nothing of the columns before.
    ///
    /// # Errors
    ///
    /// `InvalidInput` where rows or row groups differ or a name comes twice.
    pub fn side_by_side(name: &str, tables: &[Arc<Self>]) -> Result<Self> {
        let first = tables.first().expect("a table has columns");
        let mut manifest = first.manifest.clone();
        (manifest.sideways, manifest.cluster_by) = (Vec::new(), Vec::new());
        manifest.segments.iter_mut().for_each(|segment| segment.sideways.clear());
        let (mut segments, mut places) = (Vec::new(), Vec::new());
        for (index, table) in tables.iter().enumerate() {
            first.check_same_rows(table)?;
            let first_segment = segments.len();
            segments.extend(table.segments.iter().map(Segment::again));
            let moved = |place: &ColumnPlace| ColumnPlace {
                first_segment: first_segment + place.first_segment,
                ..*place
            };
            places.extend(table.places.iter().map(moved));
            if index == 0 {
                continue;
            }
            for (own, other) in manifest.segments.iter_mut().zip(&table.manifest.segments) {
                own.data_bytes += other.data_bytes;
                own.meta_bytes += other.meta_bytes;
            }
            manifest.schema.columns.extend(table.manifest.schema.columns.iter().cloned());
            manifest.summaries.extend(table.manifest.summaries.iter().cloned());
            manifest.choices.extend(table.manifest.choices.iter().cloned());
        }
        if manifest.choices.len() != places.len() {
            manifest.choices.clear();
        }
        let mut names: Vec<&str> =
            manifest.schema.columns.iter().map(|column| column.name.as_str()).collect();
        names.sort_unstable();
        if names.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Error::invalid_input(format!("'{name}' would have two columns of one name")));
        }
        Ok(Self::of_parts(name, &first.dir, manifest, first.row_groups.clone(), segments, places))
    }

    fn check_same_rows(&self, other: &Self) -> Result<()> {
        let alike = |a: &RowGroup, b: &RowGroup| (a.segment, a.row_count) == (b.segment, b.row_count);
        let is_same = self.row_group_rows() == other.row_group_rows()
            && self.page_rows() == other.page_rows()
            && self.row_groups.len() == other.row_groups.len()
            && self.row_groups.iter().zip(&other.row_groups).all(|(a, b)| alike(a, b));
        if is_same {
            return Ok(());
        }
        Err(Error::invalid_input(format!(
            "tables side by side have the same rows in the same row groups, and these have {} and {} rows",
            self.row_count(),
            other.row_count()
        )))
    }

    /// This table, whose columns may be NULL where `nullable` says so, in order.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a column that has a NULL and may not.
    pub fn with_nullable(mut self, nullable: &[bool]) -> Result<Self> {
        let columns = self.manifest.schema.columns.iter_mut().zip(&self.manifest.summaries);
        for ((column, summary), &nullable) in columns.zip(nullable) {
            if !nullable && summary.null_count > 0 {
                return Err(Error::invalid_input(format!("column '{}' has a NULL", column.name)));
            }
            column.nullable = nullable;
        }
        self.arrow_schema = self.manifest.schema.to_arrow();
        Ok(self)
    }

    /// Its name in the warehouse.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Counts the commits.
    pub fn generation(&self) -> u64 {
        self.manifest.generation
    }

    /// Names this state: random, another after every commit.
    pub fn id(&self) -> TableId {
        self.manifest.id
    }

    /// The columns.
    pub fn schema(&self) -> &TableSchema {
        &self.manifest.schema
    }

    /// The columns in the types in which rows go out.
    pub fn arrow_schema(&self) -> SchemaRef {
        Arc::clone(&self.arrow_schema)
    }

    /// Row groups of all segments, in order.
    pub fn row_group_count(&self) -> usize {
        self.row_groups.len()
    }

    /// Row group `row_group`.
    pub fn row_group(&self, row_group: usize) -> &RowGroup {
        &self.row_groups[row_group]
    }

    /// Rows.
    pub fn row_count(&self) -> u64 {
        self.manifest.row_count()
    }

    /// Rows of every row group but the last of a segment.
    pub fn row_group_rows(&self) -> u32 {
        self.manifest.row_group_rows
    }

    /// Rows of every page but the last of a chunk.
    pub fn page_rows(&self) -> u32 {
        self.manifest.page_rows
    }

    /// Bytes of all its files but the manifest.
    pub fn stored_bytes(&self) -> u64 {
        self.manifest.stored_bytes()
    }

    /// Segments: one a commit, more for very large ones, and as many for each of several tables side by side.
    pub fn segment_count(&self) -> usize {
        self.segments.len()
    }

    /// The open data file of segment `segment`.
    pub fn segment_file(&self, segment: usize) -> &Arc<OpenFile> {
        &self.segments[segment].data
    }

    /// What the manifest knows of column `column`.
    pub fn column_summary(&self, column: usize) -> &ColumnSummary {
        &self.manifest.summaries[column]
    }

    /// Per column what was chosen and from what; empty for a table that never had rows.
    pub fn choices(&self) -> &[ColumnChoice] {
        &self.manifest.choices
    }

    /// The columns of other tables whose zone maps are kept for this table's row groups.
    pub fn sideways(&self) -> &[SidewaysColumn] {
        &self.manifest.sideways
    }

    /// The columns (or attributes of dimensions) by which the rows of each write are sorted, most significant
    /// first; empty where they are as they came, or where writes differ.
    pub fn cluster_by(&self) -> &[String] {
        &self.manifest.cluster_by
    }

    /// Where column `column` of row group `row_group` lies. Reads the segment's chunk directory on first use.
    pub fn chunk(&self, row_group: usize, column: usize) -> Result<&ChunkLocation> {
        assert!(column < self.schema().columns.len());
        let place = self.places[column];
        let segment_index = place.first_segment + self.row_groups[row_group].segment;
        let segment = &self.segments[segment_index];
        let directory = match segment.directory.get() {
            Some(directory) => directory,
            None => {
                let directory = self
                    .read_directory(segment_index, place.of)
                    .context(|| self.reading("the chunk directory"))?;
                segment.directory.get_or_init(|| directory)
            }
        };
        Ok(&directory[(row_group - segment.row_group_offset) * place.of + place.index])
    }

    fn read_directory(&self, segment_index: usize, columns: usize) -> Result<Vec<ChunkLocation>> {
        let segment = &self.segments[segment_index];
        check_header(segment.data.buffered(), segment.data.path(), segment.id)?;
        let bytes = segment.meta.section(SectionKind::ChunkDirectory, 0)?;
        let count = segment.row_group_count * columns;
        read_directory(&bytes, count, segment_index, segment.data.bytes())
            .context(|| segment.meta.path().display().to_string())
    }

    /// The zone maps of column `column`, one a row group. Read and verified on first use, then kept.
    pub fn zone_maps(&self, column: usize) -> Result<Arc<Vec<ZoneMap>>> {
        let place = self.places[column];
        cached(&self.zone_maps[column], || {
            self.read_zone_maps(SectionKind::ZoneMaps, place, |_| place.index as u32).context(|| {
                self.reading(&format!("the zone maps of column '{}'", self.schema().columns[column].name))
            })
        })
    }

    /// The zone maps of sideways column `index`, one a row group. Read and verified on first use, then kept.
    pub fn sideways_zone_maps(&self, index: usize) -> Result<Arc<Vec<ZoneMap>>> {
        let place = ColumnPlace { first_segment: 0, index, of: self.schema().columns.len() };
        cached(&self.sideways_zone_maps[index], || {
            self.read_zone_maps(SectionKind::SidewaysZoneMaps, place, |entry| entry.sideways[index])
                .context(|| self.reading(&format!("the zone maps of '{}'", self.sideways()[index].column)))
        })
    }

    fn read_zone_maps(
        &self,
        kind: SectionKind,
        place: ColumnPlace,
        section: impl Fn(&SegmentEntry) -> u32,
    ) -> Result<Vec<ZoneMap>> {
        let mut all = Vec::with_capacity(self.row_group_count());
        let segments = &self.segments[place.first_segment..];
        for (segment, entry) in segments.iter().zip(&self.manifest.segments) {
            let file = || segment.meta.path().display().to_string();
            let bytes = segment.meta.section(kind, section(entry))?;
            let zone_maps = read_zone_maps(&bytes, segment.row_group_count).context(file)?;
            let lengths = row_group_lengths(entry.row_count, self.row_group_rows());
            if !zone_maps.iter().map(|zone_map| zone_map.row_count).eq(lengths) {
                return Err(Error::corrupt("zone maps are of other row groups").context(file()));
            }
            all.extend(zone_maps);
        }
        Ok(all)
    }

    /// The distinct-count sketch of column `column` over all segments.
    pub(crate) fn sketch(&self, column: usize) -> Result<Sketch> {
        let mut all = Sketch::new();
        let place = self.places[column];
        for segment in self.segments[place.first_segment..].iter().take(self.manifest.segments.len()) {
            let bytes = segment.meta.section(SectionKind::Sketch, place.index as u32)?;
            all.merge(&Sketch::from_bytes(&bytes).context(|| segment.meta.path().display().to_string())?);
        }
        Ok(all)
    }

    /// Checks `bytes` read for a chunk against its checksum.
    pub fn verify_chunk(&self, row_group: usize, column: usize, bytes: &[u8]) -> Result<()> {
        let location = self.chunk(row_group, column)?;
        if bytes.len() as u64 == location.stored_bytes && checksum(bytes) == location.checksum {
            let (word, bit) = self.verified_bit(row_group, column);
            self.verified[word].fetch_or(bit, Ordering::Relaxed);
            return Ok(());
        }
        let error = Error::corrupt(
            "the checksum of its bytes differs; restore the file from a copy or load the table again",
        );
        Err(self.of_chunk(row_group, column, error))
    }

    /// Whether a chunk was read whole before, and its checksum was right: files of a table never change.
    pub fn is_verified(&self, row_group: usize, column: usize) -> bool {
        let (word, bit) = self.verified_bit(row_group, column);
        self.verified[word].load(Ordering::Relaxed) & bit != 0
    }

    fn verified_bit(&self, row_group: usize, column: usize) -> (usize, u64) {
        let chunk = row_group * self.schema().columns.len() + column;
        (chunk / 64, 1 << (chunk % 64))
    }

    /// The decoder of verified `bytes` of a chunk.
    pub fn chunk_view<'a>(&self, row_group: usize, column: usize, bytes: &'a [u8]) -> Result<ChunkView<'a>> {
        let ty = self.schema().columns[column].logical.physical_type();
        ChunkView::parse(bytes, ty, self.row_groups[row_group].row_count)
            .map_err(|error| self.of_chunk(row_group, column, error))
    }

    /// Puts table, row group, column and file in front of an error met with a chunk.
    pub fn of_chunk(&self, row_group: usize, column: usize, error: Error) -> Error {
        let segment = self.places[column].first_segment + self.row_groups[row_group].segment;
        let file = self.segment_file(segment).path();
        error.context(format!(
            "table '{}', row group {row_group}, column '{}' in {}",
            self.name,
            self.schema().columns[column].name,
            file.display()
        ))
    }

    fn reading(&self, what: &str) -> String {
        format!("table '{}', reading {what}", self.name)
    }

    pub(crate) fn manifest(&self) -> &Manifest {
        &self.manifest
    }
}

fn open_segment(
    dir: &Path,
    manifest: &Manifest,
    entry: &SegmentEntry,
    row_group_offset: usize,
) -> Result<Segment> {
    let row_group_count = entry.row_group_count(manifest.row_group_rows) as u32;
    let expected = MetaExpectation {
        id: entry.id,
        bytes: entry.meta_bytes,
        table_checksum: entry.meta_checksum,
        row_group_count,
        column_count: manifest.schema.columns.len() as u32,
    };
    Ok(Segment {
        id: entry.id,
        row_group_offset,
        row_group_count: row_group_count as usize,
        data: Arc::new(open_data_file(entry.id.data_path(dir), entry.data_bytes, manifest.stored_bytes())?),
        meta: Arc::new(MetaFile::open(dir, expected)?),
        directory: OnceLock::new(),
    })
}

impl Segment {
    /// The same files, for another table: its chunk directory counts segments anew.
    fn again(&self) -> Self {
        let (data, meta) = (Arc::clone(&self.data), Arc::clone(&self.meta));
        Self { data, meta, directory: OnceLock::new(), ..*self }
    }
}

/// Every row group is full but the last.
fn row_group_lengths(row_count: u64, row_group_rows: u32) -> impl Iterator<Item = u32> {
    let full = row_count / u64::from(row_group_rows);
    let rest = (row_count % u64::from(row_group_rows)) as u32;
    (0..full).map(move |_| row_group_rows).chain((rest > 0).then_some(rest))
}

fn cached(cell: &CachedZoneMaps, read: impl FnOnce() -> Result<Vec<ZoneMap>>) -> Result<Arc<Vec<ZoneMap>>> {
    if let Some(zone_maps) = cell.get() {
        return Ok(Arc::clone(zone_maps));
    }
    let zone_maps = Arc::new(read()?);
    Ok(Arc::clone(cell.get_or_init(|| zone_maps)))
}
