//! Zone maps as bytes: one section holds those of all chunks of a column.
//!
//! ```text
//!   header   32 bytes
//!   records  80 bytes a chunk: counts, flags, numeric bounds, where the rest lies
//!   heap     for each chunk in order: min, max (byte strings only), histogram, Bloom filter
//!            an item starts at the next multiple of 8 bytes, a filter of 32; the gaps are zero
//! ```
//!
//! Fixed records are what a GPU thread a chunk reads; everything it can want lies aligned. The items are
//! where the order puts them and nowhere else, so a reader never holds more than a small multiple of the
//! section, whatever its bytes say. Byte tables are in `docs/specs/zone.md`; checksums are the caller's.

use pelton_error::{Error, Result, ResultExt};

use crate::{
    BOUND_BYTES_MAX, Bloom, Histogram, Scalar, ZoneMap,
    bloom::{BLOCK_BYTES, HASHES_MAX},
    zone_map::{BINS_MAX, BLOOM_BYTES_MAX},
};

const MAGIC: [u8; 4] = *b"PZON";
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 32;
const RECORD_BYTES: usize = 80;

const HAS_NAN: u8 = 1 << 0;
const BOUNDS_EXACT: u8 = 1 << 1;
const HAS_MIN: u8 = 1 << 2;
const HAS_MAX: u8 = 1 << 3;
const FLAGS: u8 = HAS_NAN | BOUNDS_EXACT | HAS_MIN | HAS_MAX;

const DOMAIN_NONE: u8 = 0;
const DOMAIN_INT: u8 = 1;
const DOMAIN_FLOAT: u8 = 2;
const DOMAIN_BYTES: u8 = 3;

const ITEM_ALIGN: usize = 8;

/// The section of a column's zone maps, one a row group in order.
pub fn write_zone_maps(zones: &[ZoneMap]) -> Vec<u8> {
    let heap_offset = HEADER_BYTES + zones.len() * RECORD_BYTES;
    let mut heap = Heap { base: heap_offset, bytes: Vec::new() };
    let mut records = Vec::with_capacity(heap_offset);
    for zone in zones {
        write_record(zone, &mut records, &mut heap);
    }
    let count = u32::try_from(zones.len()).expect("a table has fewer than 2^32 row groups");
    heap.align(ITEM_ALIGN);
    let mut section = Vec::with_capacity(heap_offset + heap.bytes.len());
    section.extend(MAGIC);
    section.extend(VERSION.to_le_bytes());
    section.extend((RECORD_BYTES as u16).to_le_bytes());
    section.extend(count.to_le_bytes());
    section.extend([0; 4]);
    section.extend((heap_offset as u64).to_le_bytes());
    section.extend((heap.bytes.len() as u64).to_le_bytes());
    section.extend(records);
    section.extend(heap.bytes);
    section
}

/// Bytes that `zone` takes in a section, without gaps.
pub(crate) fn stored_bytes(zone: &ZoneMap) -> u64 {
    let bound_bytes = |bound: &Option<Scalar>| match bound {
        Some(Scalar::Bytes(bytes)) => bytes.len(),
        _ => 0,
    };
    let histogram = zone.histogram.as_ref().map_or(0, Histogram::bin_count);
    let bloom = zone.bloom.as_ref().map_or(0, Bloom::size_bytes);
    (RECORD_BYTES + bound_bytes(&zone.min) + bound_bytes(&zone.max) + histogram + bloom) as u64
}

fn write_record(zone: &ZoneMap, records: &mut Vec<u8>, heap: &mut Heap) {
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    let flags = flag(zone.has_nan, HAS_NAN)
        | flag(zone.bounds_exact, BOUNDS_EXACT)
        | flag(zone.min.is_some(), HAS_MIN)
        | flag(zone.max.is_some(), HAS_MAX);
    let domain = match &zone.min {
        None => DOMAIN_NONE,
        Some(Scalar::Int(_)) => DOMAIN_INT,
        Some(Scalar::Float(_)) => DOMAIN_FLOAT,
        Some(Scalar::Bytes(_)) => DOMAIN_BYTES,
    };
    let hashes = zone.bloom.as_ref().map_or(0, Bloom::hashes);
    records.extend(zone.row_count.to_le_bytes());
    records.extend(zone.null_count.to_le_bytes());
    records.extend(zone.distinct_count.to_le_bytes());
    records.extend([flags, domain, hashes as u8, 0]);
    for bound in [&zone.min, &zone.max] {
        records.extend(bound_field(bound, heap));
    }
    let histogram = zone.histogram.as_ref().map_or(&[][..], Histogram::as_bytes);
    let bloom = zone.bloom.as_ref().map(Bloom::to_bytes).unwrap_or_default();
    let histogram_offset = heap.push(histogram, ITEM_ALIGN);
    let bloom_offset = heap.push(&bloom, BLOCK_BYTES);
    records.extend(histogram_offset.to_le_bytes());
    records.extend(bloom_offset.to_le_bytes());
    records.extend((histogram.len() as u32).to_le_bytes());
    records.extend((bloom.len() as u32).to_le_bytes());
    records.extend([0; 8]);
}

fn bound_field(bound: &Option<Scalar>, heap: &mut Heap) -> [u8; 16] {
    let mut field = [0; 16];
    match bound {
        None => {}
        Some(Scalar::Int(value)) => field = value.to_le_bytes(),
        Some(Scalar::Float(value)) => field[..8].copy_from_slice(&value.to_bits().to_le_bytes()),
        Some(Scalar::Bytes(bytes)) => {
            field[..8].copy_from_slice(&heap.push(bytes, ITEM_ALIGN).to_le_bytes());
            field[8..].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        }
    }
    field
}

/// The items, written.
struct Heap {
    /// Where the heap starts in the section.
    base: usize,
    bytes: Vec<u8>,
}

impl Heap {
    fn align(&mut self, align: usize) {
        self.bytes.resize((self.base + self.bytes.len()).next_multiple_of(align) - self.base, 0);
    }

    /// Appends an item; returns where in the section it starts, 0 for an empty one.
    fn push(&mut self, item: &[u8], align: usize) -> u64 {
        if item.is_empty() {
            return 0;
        }
        self.align(align);
        let offset = self.base + self.bytes.len();
        self.bytes.extend_from_slice(item);
        offset as u64
    }
}

/// The `count` zone maps of a section.
///
/// Any bytes may be given: what no writer makes is refused as [`Corrupt`](pelton_error::ErrorKind::Corrupt).
pub fn read_zone_maps(bytes: &[u8], count: usize) -> Result<Vec<ZoneMap>> {
    let heap_offset = check_header(bytes, count)?;
    let mut items = Items { section: bytes, end: heap_offset };
    let mut zones = Vec::with_capacity(count);
    for (index, record) in bytes[HEADER_BYTES..heap_offset].chunks_exact(RECORD_BYTES).enumerate() {
        zones.push(read_record(record, &mut items).context(|| format!("zone map {index}"))?);
    }
    items.align(ITEM_ALIGN)?;
    if items.end != bytes.len() {
        return Err(Error::corrupt(format!("{} bytes after the last zone map", bytes.len() - items.end)));
    }
    Ok(zones)
}

/// Where the heap starts, after everything in the header has been held against the bytes there are.
fn check_header(bytes: &[u8], count: usize) -> Result<usize> {
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
        return Err(Error::corrupt(format!(
            "zone maps start with {HEADER_BYTES} bytes, found {}",
            bytes.len()
        )));
    };
    if header[..4] != MAGIC {
        return Err(Error::corrupt("zone maps do not start with 'PZON'"));
    }
    let version = u16::from_le_bytes(field(header, 4));
    if version != VERSION {
        return Err(Error::unsupported(format!(
            "zone maps of format version {version}, this program reads {VERSION}; use the newer program"
        )));
    }
    let expected_heap = count.checked_mul(RECORD_BYTES).and_then(|bytes| bytes.checked_add(HEADER_BYTES));
    let is_whole = u16::from_le_bytes(field(header, 6)) as usize == RECORD_BYTES
        && u32::from_le_bytes(field(header, 8)) as usize == count
        && u32::from_le_bytes(field(header, 12)) == 0
        && expected_heap.map(|offset| offset as u64) == Some(u64::from_le_bytes(field(header, 16)));
    let heap_offset = expected_heap.filter(|offset| is_whole && *offset <= bytes.len()).ok_or_else(|| {
        Error::corrupt(format!(
            "the header of the zone maps does not describe {count} of them in {} bytes",
            bytes.len()
        ))
    })?;
    if u64::from_le_bytes(field(header, 24)) != (bytes.len() - heap_offset) as u64 {
        return Err(Error::corrupt("the zone maps are cut short or have bytes after them"));
    }
    Ok(heap_offset)
}

fn read_record(record: &[u8], items: &mut Items) -> Result<ZoneMap> {
    let [row_count, null_count, distinct_count] = [0, 4, 8].map(|at| u32::from_le_bytes(field(record, at)));
    let [flags, domain, hashes, reserved] = field(record, 12);
    check(null_count <= row_count, "more NULLs than rows")?;
    check(distinct_count <= row_count, "more distinct values than rows")?;
    check(flags & !FLAGS == 0 && reserved == 0 && record[72..80] == [0; 8], "reserved bits are set")?;
    check(
        (domain == DOMAIN_NONE) == (flags & HAS_MIN == 0),
        "bounds without a domain, or a domain without bounds",
    )?;
    check(flags & HAS_MAX == 0 || flags & HAS_MIN != 0, "an upper bound without a lower one")?;
    check(
        flags & HAS_MAX != 0 || matches!(domain, DOMAIN_NONE | DOMAIN_BYTES),
        "a number without an upper bound",
    )?;
    let min = read_bound(field(record, 16), flags & HAS_MIN != 0, domain, items)?;
    let max = read_bound(field(record, 32), flags & HAS_MAX != 0, domain, items)?;
    if let (Some(min), Some(max)) = (&min, &max) {
        check(min.compare(max).is_some_and(|order| order.is_le()), "bounds out of order")?;
    }
    let histogram = read_histogram(record, &min, &max, items)?;
    let bloom = read_bloom(record, hashes, items)?;
    check(bloom.is_none() || min.is_some(), "a filter without bounds")?;
    Ok(ZoneMap {
        row_count,
        null_count,
        has_nan: flags & HAS_NAN != 0,
        min,
        max,
        bounds_exact: flags & BOUNDS_EXACT != 0,
        distinct_count,
        histogram,
        bloom,
    })
}

fn read_bound(field16: [u8; 16], is_known: bool, domain: u8, items: &mut Items) -> Result<Option<Scalar>> {
    if !is_known {
        check(field16 == [0; 16], "an unknown bound has bytes")?;
        return Ok(None);
    }
    let [low, high] = [0, 8].map(|at| u64::from_le_bytes(field(&field16, at)));
    Ok(Some(match domain {
        DOMAIN_INT => Scalar::Int(i128::from_le_bytes(field16)),
        DOMAIN_FLOAT => {
            check(high == 0 && !f64::from_bits(low).is_nan(), "a bound is no number")?;
            Scalar::Float(f64::from_bits(low))
        }
        DOMAIN_BYTES => {
            check(high <= BOUND_BYTES_MAX as u64, "a bound of more than 64 bytes")?;
            Scalar::Bytes(items.take(low, high as usize, ITEM_ALIGN)?.to_vec())
        }
        _ => return Err(Error::corrupt(format!("unknown domain {domain}"))),
    }))
}

fn read_histogram(
    record: &[u8],
    min: &Option<Scalar>,
    max: &Option<Scalar>,
    items: &mut Items,
) -> Result<Option<Histogram>> {
    let offset = u64::from_le_bytes(field(record, 48));
    let bins = u32::from_le_bytes(field(record, 64));
    check(bins <= BINS_MAX, "more than 65536 histogram bins")?;
    let logs = items.take(offset, bins as usize, ITEM_ALIGN)?;
    if bins == 0 {
        return Ok(None);
    }
    check(logs.iter().any(|log| *log > 0), "a histogram without rows")?;
    let (Some(min), Some(max)) = (min, max) else { return Err(Error::corrupt("a histogram without bounds")) };
    let histogram = Histogram::from_bytes(min, max, logs)
        .ok_or_else(|| Error::corrupt(format!("{bins} histogram bins are more than the bounds make")))?;
    Ok(Some(histogram))
}

fn read_bloom(record: &[u8], hashes: u8, items: &mut Items) -> Result<Option<Bloom>> {
    let offset = u64::from_le_bytes(field(record, 56));
    let len = u32::from_le_bytes(field(record, 68)) as usize;
    check(len <= BLOOM_BYTES_MAX && len.is_multiple_of(BLOCK_BYTES), "a Bloom filter of a wrong size")?;
    let bits = items.take(offset, len, BLOCK_BYTES)?;
    if len == 0 {
        check(hashes == 0, "hashes without a Bloom filter")?;
        return Ok(None);
    }
    check((1..=HASHES_MAX).contains(&u32::from(hashes)), "a Bloom filter of no or too many hashes")?;
    Ok(Some(Bloom::from_bytes(bits, u32::from(hashes))))
}

/// The items, read: each must start where the one before it ends.
struct Items<'a> {
    section: &'a [u8],
    end: usize,
}

impl<'a> Items<'a> {
    /// Passes over the gap before the next multiple of `align`, which must be zero.
    fn align(&mut self, align: usize) -> Result<()> {
        let start = self.end.next_multiple_of(align);
        let gap = self.section.get(self.end..start).ok_or_else(|| Error::corrupt("the heap is cut short"))?;
        check(gap.iter().all(|byte| *byte == 0), "a gap in the heap is not zero")?;
        self.end = start;
        Ok(())
    }

    /// The next item, which a record says is at `offset` with `len` bytes.
    fn take(&mut self, offset: u64, len: usize, align: usize) -> Result<&'a [u8]> {
        if len == 0 {
            check(offset == 0, "an empty item has a place")?;
            return Ok(&[]);
        }
        self.align(align)?;
        check(offset == self.end as u64, "an item is not where the one before it ends")?;
        let item =
            self.section[self.end..].get(..len).ok_or_else(|| Error::corrupt("the heap is cut short"))?;
        self.end += len;
        Ok(item)
    }
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    *bytes[at..].first_chunk().expect("records have a fixed size")
}

fn check(holds: bool, otherwise: &str) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::corrupt(otherwise)) }
}
