//! Segmented scans: of each element, the sum, the least or the greatest of the values of its segment up to it.
//!
//! ```text
//!   flags     1 0 0 1 0                    a segment begins (groups.rs)
//!   indices   4 0 2 1 3                    the row of each element
//!   values    of the rows, some NULL
//!   target    a  a+b  a+b+c  d  d+e        and how many of these are not NULL
//! ```
//!
//! Values are gathered while they are scanned. For CUDA it is CUB's scan with flags beside values (D. Merrill, M. Garland,
//! "Single-pass Parallel Prefix Scan with Decoupled Look-back", 2016). Traffic of an element: 4 bytes of its row's number, 1 of
//! flags, its value at random, the result; 1 at random where some are NULL, and 4 for counts.
//!
//! Sums of integers are exact modulo 2 to their bits. Sums of doubles are added in an order that the device chooses.

use std::sync::Arc;

use pelton_device::{Span, Work};

use crate::library::{Library, cuda_form};
use crate::memory::{with_sources, with_target};
use crate::order::KeyType;
use crate::shape::{assert_written_apart, element_count};
use crate::sys;

/// Values by row.
#[derive(Debug, Clone)]
pub struct ScanValues {
    /// `I32`, `I64`, `I128` or `F64`.
    pub key_type: KeyType,
    /// One a row.
    pub source: Span,
    /// A byte a row, 0 where the value is NULL.
    pub valid: Option<Span>,
    /// The row of each element, 32 bits.
    pub indices: Span,
}

/// What is scanned.
#[derive(Debug, Clone)]
pub enum ScanOf {
    /// Sums of values that are not NULL.
    Sum(ScanValues),
    /// The least of them, of doubles in their total order.
    Min(ScanValues),
    /// The greatest, likewise.
    Max(ScanValues),
    /// How many are not NULL.
    Count {
        /// A byte a row, 0 where the value is NULL.
        valid: Span,
        /// The row of each element, 32 bits.
        indices: Span,
    },
    /// Elements.
    Elements,
    /// Groups of this level that begin.
    Groups(usize),
}

/// Where the results go, by element.
#[derive(Debug, Clone)]
pub struct ScanTarget {
    /// That of the values or a wider one; `I64` for all counts. `F64` is as wide as itself alone.
    pub key_type: KeyType,
    /// One an element; any value as long as all values are NULL.
    pub target: Span,
    /// How many values were not NULL, 32 bits, where somebody asks.
    pub counts: Option<Span>,
}

/// Bytes of scratch for a scan of `count` elements; needs no device. A bound of what CUB asks for, some 70 bytes for a
/// tile of values of 128 bits; that tiles have 64 elements at least is a guess of ours, and scratch that is too short is an
/// error at launch.
pub const fn segmented_scan_scratch_bytes(count: u64) -> usize {
    8192 + (count / 64 * 80) as usize
}

/// Scans segments of elements, which begin where `flags` have the bit of `level`.
///
/// # Panics
///
/// If types are none that are scanned, arrays do not have as many elements as there are flags, are not whole or not aligned,
/// or overlap where they are written, or scratch is shorter than [`segmented_scan_scratch_bytes`].
pub fn segmented_scan(
    library: Option<&Arc<Library>>,
    of: ScanOf,
    level: usize,
    flags: Span,
    target: ScanTarget,
    scratch: Span,
) -> Work {
    let count = flags.len() as u64;
    let (operation, values, counted) = match &of {
        ScanOf::Sum(values) => (Operation::Sum, Some(values), 0),
        ScanOf::Min(values) => (Operation::Min, Some(values), 0),
        ScanOf::Max(values) => (Operation::Max, Some(values), 0),
        ScanOf::Count { .. } | ScanOf::Elements => (Operation::Count, None, 0),
        ScanOf::Groups(level) => (Operation::CountFlags, None, *level),
    };
    assert!(level < sys::GROUP_LEVELS && counted < sys::GROUP_LEVELS, "levels {level} and {counted}");
    let is_count = values.is_none();
    let source_type = values.map_or(KeyType::I64, |values| values.key_type);
    assert_types(source_type, target.key_type, is_count);
    let results = element_count(&target.target, target.key_type.width_bytes());
    assert_eq!(results, count, "a result for each element");
    let (valid, indices) = match (&of, values) {
        (ScanOf::Count { valid, indices }, _) => (Some(valid.clone()), Some(indices.clone())),
        (_, Some(values)) => (values.valid.clone(), Some(values.indices.clone())),
        _ => (None, None),
    };
    let source = values.map(|values| values.source.clone());
    if let Some(indices) = &indices {
        assert_eq!(element_count(indices, 4), count, "a row for each element");
    }
    if let (Some(source), Some(valid)) = (&source, &valid) {
        let rows = element_count(source, source_type.width_bytes());
        assert!(valid.len() as u64 >= rows, "a byte a row");
    }
    if let Some(counts) = &target.counts {
        assert_eq!(element_count(counts, 4), count, "a count for each element");
    }
    assert!(
        scratch.len() >= segmented_scan_scratch_bytes(count),
        "scratch of {} bytes is short",
        scratch.len()
    );
    let reads: Vec<Span> =
        [Some(flags.clone()), source.clone(), valid.clone(), indices.clone()].into_iter().flatten().collect();
    let mut writes = vec![target.target.clone(), scratch.clone()];
    writes.extend(target.counts.clone());
    assert_written_apart(&reads, &writes);
    let address = |span: &Option<Span>| span.as_ref().map_or(0, Span::address);
    let args = sys::SegmentedScanArgs {
        source: address(&source),
        valid: address(&valid),
        indices: address(&indices),
        flags: flags.address(),
        target: target.target.address(),
        target_counts: address(&target.counts),
        count,
        scratch: scratch.address(),
        scratch_bytes: scratch.len() as u64,
        source_type: source_type as u32,
        target_type: target.key_type as u32,
        operation: operation as u32,
        flag: 1 << level,
        counted_flag: 1 << counted,
        reserved: 0,
        launch: sys::Launch { multiprocessors: 0, policy: 0 },
    };
    let form = move |launch| sys::SegmentedScanArgs { launch, ..args };
    let cuda = cuda_form(library, |entries| entries.segmented_scan, form);
    Work::new("segmented scan", reads, writes).with_cuda(cuda).with_host(move || {
        let scan = HostScan { operation, flag: 1 << level, counted_flag: 1 << counted, source_type };
        let known = [source.is_some(), valid.is_some(), indices.is_some()];
        let spans: Vec<&Span> = [&source, &valid, &indices].into_iter().flatten().collect();
        let spans: Vec<&Span> = [&flags].into_iter().chain(spans).collect();
        let (results, counts) = with_sources(&spans, |sources| {
            let mut rest = sources[1..].iter().copied();
            let [source, valid, indices] = known.map(|is_there| is_there.then(|| rest.next()).flatten());
            scan.run(sources[0], HostValues { source, valid, indices }, target.key_type)
        })?;
        with_target(&target.target, |bytes| bytes.copy_from_slice(&results))?;
        match &target.counts {
            Some(span) => with_target(span, |bytes| bytes.copy_from_slice(&counts)),
            None => Ok(()),
        }
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum Operation {
    Sum = 0,
    Min = 1,
    Max = 2,
    Count = 3,
    CountFlags = 4,
}

fn assert_types(source: KeyType, target: KeyType, is_count: bool) {
    if is_count {
        assert_eq!(target, KeyType::I64, "counts have 64 bits");
        return;
    }
    let may_be = match source {
        KeyType::I32 => matches!(target, KeyType::I32 | KeyType::I64),
        KeyType::I64 => matches!(target, KeyType::I64 | KeyType::I128),
        KeyType::I128 => target == KeyType::I128,
        KeyType::F64 => target == KeyType::F64,
        _ => false,
    };
    assert!(may_be, "a scan of {source:?} into {target:?}");
}

/// Element `index` of integers or bits of doubles, with its sign.
pub(crate) fn integer_at(bytes: &[u8], key_type: KeyType, index: usize) -> i128 {
    let width = key_type.width_bytes();
    let bytes = &bytes[index * width..(index + 1) * width];
    match bytes.try_into() {
        Ok(bytes) => i32::from_le_bytes(bytes).into(),
        Err(_) => match bytes.try_into() {
            Ok(bytes) => i64::from_le_bytes(bytes).into(),
            Err(_) => i128::from_le_bytes(bytes.try_into().expect("4, 8 or 16 bytes")),
        },
    }
}

struct HostScan {
    operation: Operation,
    flag: u8,
    counted_flag: u8,
    source_type: KeyType,
}

/// Bytes of what is there.
struct HostValues<'a> {
    source: Option<&'a [u8]>,
    valid: Option<&'a [u8]>,
    indices: Option<&'a [u8]>,
}

impl HostScan {
    fn run(&self, flags: &[u8], values: HostValues<'_>, target: KeyType) -> (Vec<u8>, Vec<u8>) {
        let width = target.width_bytes();
        let (mut results, mut counts) = (Vec::with_capacity(flags.len() * width), Vec::new());
        let (mut value, mut seen) = (0_i128, 0_u32);
        for (element, flags) in flags.iter().enumerate() {
            if flags & self.flag != 0 {
                (value, seen) = (0, 0);
            }
            let row = values.indices.map(|rows| integer_at(rows, KeyType::I32, element) as u32 as usize);
            let is_valid = row.zip(values.valid).is_none_or(|(row, valid)| valid[row] != 0);
            if is_valid {
                let found = match (self.operation, row.zip(values.source)) {
                    (Operation::CountFlags, _) => (flags & self.counted_flag != 0).into(),
                    (Operation::Count, _) | (_, None) => 1,
                    (_, Some((row, source))) => integer_at(source, self.source_type, row),
                };
                value = self.with(value, seen, found);
                seen += 1;
            }
            results.extend_from_slice(&value.to_le_bytes()[..width]);
            counts.extend_from_slice(&seen.to_le_bytes());
        }
        (results, counts)
    }

    fn with(&self, value: i128, seen: u32, found: i128) -> i128 {
        let is_double = self.source_type == KeyType::F64;
        let before = |a: i128, b: i128| match is_double {
            true => word_of(a) < word_of(b),
            false => a < b,
        };
        match self.operation {
            Operation::Min if seen > 0 && !before(found, value) => value,
            Operation::Max if seen > 0 && !before(value, found) => value,
            Operation::Min | Operation::Max => found,
            Operation::Sum if is_double => {
                let double = |bits: i128| f64::from_bits(bits as u64);
                ((double(value) + double(found)).to_bits() as i64).into()
            }
            _ => value.wrapping_add(found),
        }
    }
}

/// Bits of a double as a number in the total order of their signs and bits, in which NaNs with the sign set come first.
fn word_of(bits: i128) -> i64 {
    let bits = bits as i64;
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}
