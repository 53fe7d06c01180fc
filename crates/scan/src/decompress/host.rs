//! Decompression in the memory of a logical device, by the thread of its stream: what nvCOMP does on a GPU, from the
//! same words.
#![allow(unsafe_code)]

use pelton_chunk::Codec;
use pelton_device::{Span, Work};
use pelton_error::{Error, Result};

use super::Decompressor;
use super::job::{Batch, Job, Words};

/// nvCOMP's number for it.
const CANNOT_DECOMPRESS: i32 = 12;

/// This crate's codecs on a logical device.
#[derive(Debug)]
pub(super) struct Logical;

impl Decompressor for Logical {
    fn name(&self) -> String {
        "the logical device".into()
    }

    fn temp_bytes(&self, _: Codec, _: usize, _: usize) -> Result<usize> {
        Ok(0)
    }

    fn work(&self, job: &Job) -> Work {
        let (compressed, target) = (job.compressed.clone(), job.target.clone());
        let (words, batches) = (job.words, job.batches.clone());
        let writes = vec![compressed.clone(), target.clone()];
        Work::new("decompress", vec![compressed.clone()], writes).with_host(move || {
            // SAFETY: logical devices' memory is the host's, both spans are in bounds, and their buffers live while the
            // stream holds leases on them. They do not overlap: they are different parts of a buffer. Only this stream
            // is given the buffer until it has come so far.
            let (compressed_bytes, target_bytes) = unsafe { (bytes_of(&compressed), bytes_of(&target)) };
            let mut memory = Memory {
                compressed: compressed_bytes,
                compressed_address: compressed.address(),
                target: target_bytes,
                target_address: target.address(),
                words,
            };
            batches.iter().try_for_each(|batch| memory.decompress(batch))
        })
    }

    fn meaning(&self, status: i32) -> String {
        format!("status {status}")
    }
}

/// The bytes of `span`.
///
/// # Safety
///
/// The host's cores reach them, they outlive the slice, and nobody else touches them meanwhile.
unsafe fn bytes_of<'a>(span: &Span) -> &'a mut [u8] {
    if span.is_empty() {
        return &mut [];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(span.address() as *mut u8, span.len()) }
}

/// A morsel on the device, compressed and decompressed.
struct Memory<'a> {
    compressed: &'a mut [u8],
    compressed_address: u64,
    target: &'a mut [u8],
    target_address: u64,
    words: Words,
}

impl Memory<'_> {
    fn decompress(&mut self, batch: &Batch) -> Result<()> {
        for index in batch.first..batch.first + batch.count {
            let stored =
                self.range(self.words.sources(), self.words.stored_bytes(), index, self.compressed_address);
            let target =
                self.range(self.words.targets(), self.words.target_bytes(), index, self.target_address);
            let outside = || Error::invalid_input(format!("section {index} of a morsel lies outside of it"));
            let stored = self.compressed.get(stored).ok_or_else(outside)?;
            let target = self.target.get_mut(target).ok_or_else(outside)?;
            let (written, status) = match batch.codec.decompress(stored, target) {
                Ok(()) => (target.len() as u64, 0),
                Err(_) => (0, CANNOT_DECOMPRESS),
            };
            let at = self.words.written_bytes() + index * size_of::<u64>();
            self.compressed[at..at + size_of::<u64>()].copy_from_slice(&written.to_le_bytes());
            let at = self.words.statuses() + index * size_of::<i32>();
            self.compressed[at..at + size_of::<i32>()].copy_from_slice(&status.to_le_bytes());
        }
        Ok(())
    }

    /// The bytes whose address and length are entry `index` of two arrays, in memory that starts at `base`.
    fn range(&self, addresses: usize, lengths: usize, index: usize, base: u64) -> std::ops::Range<usize> {
        let word = |array: usize| {
            let at = array + index * size_of::<u64>();
            u64::from_le_bytes(self.compressed[at..at + size_of::<u64>()].try_into().expect("8 bytes"))
        };
        let start = word(addresses).wrapping_sub(base) as usize;
        start..start.saturating_add(word(lengths) as usize)
    }
}
