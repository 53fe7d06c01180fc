//! Decompression on a GPU by nvCOMP.
#![allow(unsafe_code)]

use pelton_chunk::Codec;
use pelton_device::Work;
use pelton_device::cuda::{Nvcomp, NvcompBatch, NvcompCodec, nvcomp};
use pelton_error::{Error, Result};

use super::Decompressor;
use super::job::{Batch, Job, Words};

/// nvCOMP on a GPU.
#[derive(Debug)]
pub(super) struct Gpu(&'static Nvcomp);

impl Gpu {
    /// Finds it.
    ///
    /// # Errors
    ///
    /// `Unsupported` where it is not there, with the remedy.
    pub(super) fn open() -> Result<Self> {
        nvcomp().map(Self)
    }
}

impl Decompressor for Gpu {
    fn name(&self) -> String {
        format!("nvCOMP {}", self.0.version())
    }

    fn temp_bytes(&self, codec: Codec, count: usize, section_bytes_max: usize) -> Result<usize> {
        self.0.temp_bytes(codec_of(codec)?, count, section_bytes_max)
    }

    fn work(&self, job: &Job) -> Work {
        let nvcomp = self.0;
        let (compressed, temp) = (job.compressed.address(), job.temp.clone());
        let (words, batches) = (job.words, job.batches.clone());
        let writes = vec![job.compressed.clone(), job.target.clone(), job.temp.clone()];
        Work::new("decompress", vec![job.compressed.clone()], writes).with_cuda(move |target| {
            for batch in &batches {
                let batch = batch_of(&words, batch, compressed, (temp.address(), temp.len()))?;
                // SAFETY: the words were written for these sections, in arrays of as many; sources and targets lie in
                // the spans that the work names, which stay alive, and are its alone until the stream has come so far.
                // The chunks have passed their checksums, so that their bytes are those that the codec wrote.
                unsafe { nvcomp.decompress(target, &batch) }?;
            }
            Ok(())
        })
    }

    fn meaning(&self, status: i32) -> String {
        self.0.meaning(status)
    }
}

/// A batch by the addresses of its entries in words at `compressed`.
fn batch_of(
    words: &Words,
    batch: &Batch,
    compressed: u64,
    (temp, temp_bytes): (u64, usize),
) -> Result<NvcompBatch> {
    let entry = |array: usize, width: usize| compressed + (array + batch.first * width) as u64;
    Ok(NvcompBatch {
        codec: codec_of(batch.codec)?,
        count: batch.count,
        sources: entry(words.sources(), size_of::<u64>()),
        stored_bytes: entry(words.stored_bytes(), size_of::<u64>()),
        targets: entry(words.targets(), size_of::<u64>()),
        target_bytes: entry(words.target_bytes(), size_of::<u64>()),
        written_bytes: entry(words.written_bytes(), size_of::<u64>()),
        statuses: entry(words.statuses(), size_of::<i32>()),
        temp,
        temp_bytes,
    })
}

fn codec_of(codec: Codec) -> Result<NvcompCodec> {
    match codec {
        Codec::None => Err(Error::invalid_input("nothing to decompress")),
        Codec::Lz4 => Ok(NvcompCodec::Lz4),
        Codec::Snappy => Ok(NvcompCodec::Snappy),
        Codec::Zstd => Ok(NvcompCodec::Zstd),
        Codec::Deflate => Ok(NvcompCodec::Deflate),
    }
}
