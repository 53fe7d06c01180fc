//! One segment being written: chunks go to the data file as they come, metadata is kept until the end.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use pelton_error::{Result, ResultExt};
use pelton_zone::{Sketch, ZoneMap, write_zone_maps};

use crate::disk::{random_u64, write_error, write_synced};
use crate::encode::EncodedRowGroup;
use crate::format::data_header::header_page;
use crate::format::directory::{ChunkLocation, write_directory};
use crate::format::manifest::SegmentEntry;
use crate::format::meta::{Section, SectionKind, write_meta};
use crate::format::{ALIGNMENT, SegmentId};
use crate::schema::TableSchema;

/// A data file open for writing, and what its metadata file will say.
pub(super) struct SegmentWriter {
    dir: PathBuf,
    id: SegmentId,
    path: PathBuf,
    file: File,
    byte_offset: u64,
    row_count: u64,
    row_group_count: usize,
    is_last_full: bool,
    chunks: Vec<ChunkLocation>,
    /// One list a column.
    zone_maps: Vec<Vec<ZoneMap>>,
    sketches: Vec<Sketch>,
    /// One list a sideways column.
    sideways: Vec<Vec<ZoneMap>>,
    /// Nobody waits for the disk.
    is_scratch: bool,
}

/// A segment whose two files are on the disk.
pub(super) struct FinishedSegment {
    pub(super) entry: SegmentEntry,
    /// Of zone maps and sketch, for each column.
    pub(super) metadata_bytes: Vec<u64>,
}

impl SegmentWriter {
    pub(super) fn create(dir: &Path, schema: &TableSchema, sideways_count: usize) -> Result<Self> {
        let id = SegmentId(random_u64()?);
        let path = id.data_path(dir);
        let file = File::create_new(&path).context(|| format!("creating {}", path.display()))?;
        let columns = schema.columns.len();
        let mut segment = Self {
            dir: dir.to_path_buf(),
            id,
            path,
            file,
            byte_offset: 0,
            row_count: 0,
            row_group_count: 0,
            is_last_full: true,
            chunks: Vec::new(),
            zone_maps: vec![Vec::new(); columns],
            sketches: vec![Sketch::new(); columns],
            sideways: vec![Vec::new(); sideways_count],
            is_scratch: false,
        };
        match segment.write_padded(&header_page(id)) {
            Ok(()) => Ok(segment),
            Err(error) => {
                // The writer does not know this segment yet, so it is removed here.
                let _ = std::fs::remove_file(&segment.path);
                Err(error)
            }
        }
    }

    /// This segment, for whose bytes nobody waits until they are on the disk if it `is_scratch`.
    pub(super) fn scratch(self, is_scratch: bool) -> Self {
        Self { is_scratch, ..self }
    }

    pub(super) fn id(&self) -> SegmentId {
        self.id
    }

    pub(super) fn row_group_count(&self) -> usize {
        self.row_group_count
    }

    pub(super) fn is_last_full(&self) -> bool {
        self.is_last_full
    }

    /// Writes the chunks of one row group and keeps its metadata.
    pub(super) fn append(&mut self, row_group: EncodedRowGroup, is_full: bool) -> Result<()> {
        for (index, column) in row_group.columns.into_iter().enumerate() {
            self.chunks.push(ChunkLocation {
                segment: 0,
                byte_offset: self.byte_offset,
                stored_bytes: column.chunk.len() as u64,
                raw_bytes: column.raw_bytes,
                checksum: column.checksum,
                encoding: column.encoding,
            });
            self.write_padded(&column.chunk)?;
            self.zone_maps[index].push(column.zone_map);
            self.sketches[index].merge(&column.sketch);
        }
        for (list, zone_map) in self.sideways.iter_mut().zip(row_group.sideways) {
            assert_eq!(zone_map.row_count, row_group.row_count);
            list.push(zone_map);
        }
        self.row_count += u64::from(row_group.row_count);
        self.row_group_count += 1;
        self.is_last_full = is_full;
        Ok(())
    }

    /// Writes `bytes` and zeros up to the next 4 KiB boundary.
    fn write_padded(&mut self, bytes: &[u8]) -> Result<()> {
        const ZEROS: [u8; ALIGNMENT] = [0; ALIGNMENT];
        let padding = bytes.len().next_multiple_of(ALIGNMENT) - bytes.len();
        let written = self.file.write_all(bytes).and_then(|()| self.file.write_all(&ZEROS[..padding]));
        let total = (bytes.len() + padding) as u64;
        written.map_err(|error| write_error(&self.path, total, error))?;
        self.byte_offset += total;
        Ok(())
    }

    /// Writes the metadata file and waits until both are on the disk, unless they are scratch.
    pub(super) fn finish(self) -> Result<FinishedSegment> {
        let result = self.write_metadata();
        if result.is_err() {
            // The caller has given this segment away, so it is removed here.
            let _ = std::fs::remove_file(&self.path);
            let _ = std::fs::remove_file(self.id.meta_path(&self.dir));
        }
        result
    }

    fn write_metadata(&self) -> Result<FinishedSegment> {
        let (sections, metadata_bytes) = self.sections();
        let row_group_count =
            u32::try_from(self.row_group_count).expect("row groups of a segment are bounded");
        let meta = write_meta(self.id, row_group_count, self.zone_maps.len() as u32, &sections);
        let path = self.id.meta_path(&self.dir);
        if self.is_scratch {
            let written = std::fs::write(&path, &meta.bytes);
            written.map_err(|error| write_error(&path, meta.bytes.len() as u64, error))?;
        } else {
            write_synced(&path, &meta.bytes)?;
            self.file.sync_all().map_err(|error| write_error(&self.path, self.byte_offset, error))?;
        }
        let entry = SegmentEntry {
            id: self.id,
            data_bytes: self.byte_offset,
            meta_bytes: meta.bytes.len() as u64,
            meta_checksum: meta.table_checksum,
            row_count: self.row_count,
            sideways: Vec::new(),
        };
        Ok(FinishedSegment { entry, metadata_bytes })
    }

    fn sections(&self) -> (Vec<Section>, Vec<u64>) {
        let mut sections = vec![Section {
            kind: SectionKind::ChunkDirectory,
            index: 0,
            bytes: write_directory(&self.chunks),
        }];
        let mut metadata_bytes = Vec::new();
        for (index, (zone_maps, sketch)) in (0u32..).zip(self.zone_maps.iter().zip(&self.sketches)) {
            let (zone_maps, sketch) = (write_zone_maps(zone_maps), sketch.to_bytes());
            metadata_bytes.push((zone_maps.len() + sketch.len()) as u64);
            sections.push(Section { kind: SectionKind::ZoneMaps, index, bytes: zone_maps });
            sections.push(Section { kind: SectionKind::Sketch, index, bytes: sketch });
        }
        for (index, zone_maps) in (0u32..).zip(&self.sideways) {
            let bytes = write_zone_maps(zone_maps);
            sections.push(Section { kind: SectionKind::SidewaysZoneMaps, index, bytes });
        }
        (sections, metadata_bytes)
    }
}
