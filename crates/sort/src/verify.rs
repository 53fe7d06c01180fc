//! Whether rows are sorted, and whether they are the rows that there were: order and a fingerprint of the multiset.
//!
//! The fingerprint does not depend on the order of rows, and ties each payload to its key. It finds accidents (rows
//! lost, doubled, changed, payloads at other keys), not attacks.

use pelton_error::{Error, Result};
use pelton_kernels::random_word;

use crate::key::{Bits, Carried, Key, SortSpec, keys_of, mask, with_types};
use crate::rows::Rows;

/// What a multiset of rows adds up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fingerprint {
    /// Rows.
    pub count: u64,
    /// Sum of keys' words, modulo 2^64.
    pub sum: u64,
    /// Exclusive or of the same.
    pub exclusive_or: u64,
    /// Sum of a hash of each row, modulo 2^64.
    pub hash_sum: u64,
}

impl Fingerprint {
    fn with(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            sum: self.sum.wrapping_add(other.sum),
            exclusive_or: self.exclusive_or ^ other.exclusive_or,
            hash_sum: self.hash_sum.wrapping_add(other.hash_sum),
        }
    }
}

/// The fingerprint of rows in host memory, with `thread_count` threads.
///
/// # Errors
///
/// `InvalidInput` if the host does not reach them, or something writes to them.
pub fn fingerprint(rows: &Rows, thread_count: usize) -> Result<Fingerprint> {
    look(rows, thread_count, false)
}

/// Checks that rows are in the order of their spec and have this fingerprint.
///
/// # Errors
///
/// `Corrupt` if not: the first row that is out of order, or what differs. Else as [`fingerprint`].
pub fn verify(rows: &Rows, expected: Fingerprint, thread_count: usize) -> Result<()> {
    let found = look(rows, thread_count, true)?;
    if found != expected {
        return Err(Error::corrupt(format!(
            "sorted rows are not those that there were: {found:?}, not {expected:?}"
        )));
    }
    Ok(())
}

fn look(rows: &Rows, thread_count: usize, checks_order: bool) -> Result<Fingerprint> {
    let keys = rows.keys().host_bytes()?;
    let payloads = rows.payloads().map(pelton_device::Span::host_bytes).transpose()?;
    let payloads = payloads.as_ref().map_or(&[][..], AsRef::as_ref);
    let spec = rows.spec();
    with_types!(spec, look_at(spec, keys.as_ref(), payloads, thread_count, checks_order))
}

fn look_at<K: Key, P: Carried>(
    spec: SortSpec,
    keys: &[u8],
    payloads: &[u8],
    thread_count: usize,
    checks_order: bool,
) -> Result<Fingerprint> {
    let keys = keys_of::<K>(keys);
    let payloads = P::slice(payloads, keys.len());
    let mask = mask::<K::Bits>(spec.order.direction);
    let part = keys.len().div_ceil(thread_count.max(1)).max(1);
    let outcomes: Vec<Result<Fingerprint>> = std::thread::scope(|scope| {
        let parts = keys.chunks(part).zip(payloads.chunks(part)).enumerate();
        let threads: Vec<_> = parts
            .map(|(number, (part_keys, part_payloads))| {
                scope.spawn(move || {
                    if checks_order {
                        // The first key of the next part as well.
                        let first = number * part;
                        let end = (first + part + 1).min(keys.len());
                        in_order(&keys[first..end], mask, first)?;
                    }
                    Ok(fingerprint_of(part_keys, part_payloads))
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("looking does not panic")).collect()
    });
    outcomes.into_iter().try_fold(Fingerprint::default(), |all, part| Ok(all.with(part?)))
}

fn in_order<K: Key>(keys: &[K], mask: K::Bits, first: usize) -> Result<()> {
    let is_wrong = |pair: &[K]| pair[0].bits() ^ mask > pair[1].bits() ^ mask;
    match keys.windows(2).position(is_wrong) {
        None => Ok(()),
        Some(row) => {
            Err(Error::corrupt(format!("row {} of a sorted result is out of order", first + row + 1)))
        }
    }
}

fn fingerprint_of<K: Key, P: Carried>(keys: &[K], payloads: &[P]) -> Fingerprint {
    let mut all = Fingerprint { count: keys.len() as u64, ..Fingerprint::default() };
    for (key, payload) in keys.iter().zip(payloads) {
        let word = key.bits().word();
        let folded = (word >> 64) as u64 ^ word as u64;
        all.sum = all.sum.wrapping_add(folded);
        all.exclusive_or ^= folded;
        let hashed = random_word(random_word(word as u64, (word >> 64) as u64), payload.word());
        all.hash_sum = all.hash_sum.wrapping_add(hashed);
    }
    all
}
