//! Damage under checksums that fit: readers may give other rows or an error, and never panic, hang or take
//! memory without bound. What a fuzzer would have to find its way to is built here.

use std::path::{Path, PathBuf};

use pelton_store::{SampleOptions, WriteMode};
use xxhash_rust::xxh3::xxh3_64;

use crate::fixture::*;

const META_HEADER: usize = 40;
const SECTION_ENTRY: usize = 32;
const DIRECTORY_ENTRY: usize = 40;

/// The three files of a table of one segment, in memory.
struct Files {
    paths: [PathBuf; 3],
    data: Vec<u8>,
    meta: Vec<u8>,
    manifest: String,
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

impl Files {
    fn load(dir: &Path) -> Self {
        let find = |prefix: &str| {
            let mut paths = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
            paths.find(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix)).unwrap()
        };
        let paths = [find("data-"), find("meta-"), find("manifest")];
        let [data, meta, manifest] = paths.each_ref().map(|path| std::fs::read(path).unwrap());
        Self { paths, data, meta, manifest: String::from_utf8(manifest).unwrap() }
    }

    fn store(&self) {
        std::fs::write(&self.paths[0], &self.data).unwrap();
        std::fs::write(&self.paths[1], &self.meta).unwrap();
        std::fs::write(&self.paths[2], &self.manifest).unwrap();
    }

    fn section_count(&self) -> usize {
        u32::from_le_bytes(self.meta[12..16].try_into().unwrap()) as usize
    }

    /// Where section `index` lies.
    fn section(&self, index: usize) -> std::ops::Range<usize> {
        let entry = META_HEADER + index * SECTION_ENTRY;
        let start = u64_at(&self.meta, entry + 8) as usize;
        start..start + u64_at(&self.meta, entry + 16) as usize
    }

    /// Changes some bytes of a chunk; the directory is section 0.
    fn forge_chunk(&mut self, random: &mut u64) {
        let entry =
            self.section(0).start + pick(random, self.section(0).len() / DIRECTORY_ENTRY) * DIRECTORY_ENTRY;
        let start = u64_at(&self.meta, entry) as usize;
        let chunk = start..start + u64_at(&self.meta, entry + 8) as usize;
        change(&mut self.data[chunk.clone()], random);
        put(&mut self.meta, entry + 24, xxh3_64(&self.data[chunk]));
        self.sign_section(0);
    }

    /// Changes some bytes of a section.
    fn forge_section(&mut self, random: &mut u64) {
        let index = pick(random, self.section_count());
        let section = self.section(index);
        change(&mut self.meta[section], random);
        self.sign_section(index);
    }

    /// Changes the section table, or the counts before it.
    fn forge_section_table(&mut self, random: &mut u64) {
        let end = META_HEADER + self.section_count() * SECTION_ENTRY;
        let at = 12 + pick(random, end - 12);
        change(&mut self.meta[at..end], random);
        self.sign_head();
    }

    /// Changes a digit of the manifest.
    fn forge_manifest(&mut self, random: &mut u64) {
        let digits: Vec<usize> =
            (25..self.manifest.len()).filter(|&at| self.manifest.as_bytes()[at].is_ascii_digit()).collect();
        let at = digits[pick(random, digits.len())];
        let digit = (pick(random, 10)).to_string();
        self.manifest.replace_range(at..=at, &digit);
        self.sign_manifest();
    }

    fn sign_section(&mut self, index: usize) {
        let checksum = xxh3_64(&self.meta[self.section(index)]);
        put(&mut self.meta, META_HEADER + index * SECTION_ENTRY + 24, checksum);
        self.sign_head();
    }

    fn sign_head(&mut self) {
        let old = u64_at(&self.meta, 32);
        let end = (META_HEADER + self.section_count() * SECTION_ENTRY).min(self.meta.len());
        let covered = [&self.meta[..32], &self.meta[META_HEADER..end]].concat();
        let new = xxh3_64(&covered);
        put(&mut self.meta, 32, new);
        self.manifest = self.manifest.replace(&format!("{old:016x}"), &format!("{new:016x}"));
        self.sign_manifest();
    }

    fn sign_manifest(&mut self) {
        let (_, body) = self.manifest.split_once('\n').unwrap();
        self.manifest = format!("PELTON 1 {:016x}\n{body}", xxh3_64(body.as_bytes()));
    }
}

fn pick(random: &mut u64, below: usize) -> usize {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*random >> 33) as usize % below
}

/// One to four bytes near the start (where lengths are) or anywhere, to an extreme or any value.
fn change(bytes: &mut [u8], random: &mut u64) {
    for _ in 0..=pick(random, 4) {
        let reach = if pick(random, 2) == 0 { bytes.len().min(160) } else { bytes.len() };
        let at = pick(random, reach);
        bytes[at] = [0, 1, 0x7f, 0x80, 0xff, pick(random, 256) as u8][pick(random, 6)];
    }
}

#[test]
fn forged_files_are_read_without_a_panic() {
    let place = place();
    let rows = batch(0, 1200);
    let plan = plan_for(&rows, &SampleOptions::default());
    write(&place.warehouse, "t", WriteMode::Create, &rows, &plan).unwrap().commit().unwrap();
    let engine = engine();
    let dir = place.dir.path().join("t");
    let forgeries: [fn(&mut Files, &mut u64); 4] =
        [Files::forge_chunk, Files::forge_section, Files::forge_section_table, Files::forge_manifest];
    let tries = tries("PELTON_FORGERIES", 600);
    let (mut random, mut refused) = (tries, 0);
    for forgery in 0..tries {
        let whole = Files::load(&dir);
        let mut forged = Files::load(&dir);
        forgeries[forgery as usize % forgeries.len()](&mut forged, &mut random);
        forged.store();
        let read = place.warehouse.table("t").and_then(|table| read_all(&engine, &table));
        refused += u64::from(read.is_err());
        whole.store();
    }
    assert!(refused > tries / 4, "only {refused} of {tries} forgeries were refused");
    assert_eq!(read(&engine, &place.warehouse.table("t").unwrap()).unwrap(), rows);
}
