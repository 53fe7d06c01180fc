//! Heavy codecs decompressed where kernels read: pages go over the link compressed and are decompressed on the device.
//!
//! ```text
//!   file ─► checksum ─► compressed, pinned memory ──one copy──► compressed, device ─┬ k_place ──────┬─► buffer, as if
//!                         directory without codec                                  └ Decompressor ─┘    decompressed
//!                         sections as stored                                         statuses ─► host   by the host
//!                         words: what lies where
//! ```
//!
//! What a buffer holds in the end is, byte for byte, what the host's path writes. [`Decompressor`] is what differs
//! between devices: nvCOMP on a GPU, this crate's own codecs on a logical device, so that everything else is the same
//! on both. A section larger than [`SECTION_BYTES_MAX`](job::SECTION_BYTES_MAX) is decompressed by the host all the
//! same, and is moved so.
//!
//! Bounds: compressed bytes, decompressed bytes and what decoders work in are part of the staging buffers.

mod batch;
mod choose;
mod host;
mod job;
mod nvcomp;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use pelton_chunk::Codec;
use pelton_device::cuda::Grid;
use pelton_device::{DeviceId, DeviceKind, Machine, Stream, Work};
use pelton_error::{Error, Result};
use pelton_fabric::Rates;
use pelton_pipeline::codegen::TARGET;
use pelton_pipeline::{Compiler, Effort, Launch, Program, Target};

pub(super) use self::batch::batches;
pub(super) use self::choose::CodecBytes;
use self::choose::pays;
pub(super) use self::job::{Addresses, Batch, Body, CompressedSize, Job, Part, Words, write_body};

const PLACE: &str = include_str!("../../../cuda/pipeline/place.h");
const PLACE_ENTRY: &str = "k_place";
/// Warps of a block of `k_place`.
const PLACE_BLOCK_WARPS: u32 = 8;

/// Where the heavy codecs of a scan's chunks from disk are decompressed. Never changes results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Decompress {
    /// The device where it can and is predicted to be faster, else the host.
    #[default]
    Auto,
    /// The host's cores.
    Host,
    /// The device, whatever it can.
    Device,
}

impl FromStr for Decompress {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Self::Auto),
            "host" => Ok(Self::Host),
            "device" => Ok(Self::Device),
            _ => Err(Error::invalid_input(format!(
                "'{text}' decompresses nothing; choose auto, host or device"
            ))),
        }
    }
}

/// Decompression in a device's memory.
trait Decompressor: Send + Sync + fmt::Debug {
    /// What it is called in reports.
    fn name(&self) -> String;

    /// Bytes of device memory that it works in to decompress `count` sections of up to `section_bytes_max` bytes.
    fn temp_bytes(&self, codec: Codec, count: usize, section_bytes_max: usize) -> Result<usize>;

    /// The decompression of all sections of `job`, which writes how it went.
    fn work(&self, job: &Job) -> Work;

    /// What a status other than 0 means.
    fn meaning(&self, status: i32) -> String;
}

/// Who decompresses what the prefetchers of devices read from disk.
#[derive(Debug, Clone)]
pub struct Decompression {
    choice: Decompress,
    rates: Rates,
    /// What each device has, or why it has nothing.
    on_devices: Vec<(DeviceId, std::result::Result<Arc<OnDevice>, String>)>,
}

/// What the device has.
#[derive(Debug)]
struct OnDevice {
    decompressor: Box<dyn Decompressor>,
    place: Arc<Program>,
}

impl Default for Decompression {
    /// By the host.
    fn default() -> Self {
        Self { choice: Decompress::Host, rates: Rates::of_preset(), on_devices: Vec::new() }
    }
}

const BY_CHOICE: &str = "as was asked for";

impl Decompression {
    /// What `choice` gives on each of `devices`: nvCOMP on a GPU where it is found; on a logical device, which `Auto`
    /// leaves to the host, the codecs of this crate. `cache` is the folder of compiled programs, as [`Compiler::new`]
    /// takes it. `Auto` chooses by `rates`.
    ///
    /// # Errors
    ///
    /// `Unsupported` where `Device` was chosen and something is missing, with the remedy; `InvalidInput` for a device
    /// that the machine lacks.
    pub fn open(
        choice: Decompress,
        machine: &Machine,
        devices: &[DeviceId],
        cache: Option<PathBuf>,
        rates: &Rates,
    ) -> Result<Self> {
        if choice == Decompress::Host {
            return Ok(Self::default());
        }
        let mut on_devices = Vec::with_capacity(devices.len());
        for &device in devices {
            let opened = match machine.device(device)?.kind {
                DeviceKind::Cuda { major, minor } => nvcomp::Gpu::open().and_then(|gpu| {
                    OnDevice::open(gpu, Target::Cuda { device, major, minor }, cache.clone())
                }),
                DeviceKind::Logical if choice == Decompress::Device => {
                    OnDevice::open(host::Logical, Target::Host, cache.clone())
                }
                _ => Err(Error::unsupported("the device is the host")),
            };
            match opened {
                Err(error) if choice == Decompress::Device => return Err(error),
                opened => on_devices.push((device, opened.map(Arc::new).map_err(|error| error.to_string()))),
            }
        }
        Ok(Self { choice, rates: rates.clone(), on_devices })
    }

    /// Whether `device` decompresses what is `scanned` of this codec, rather than `threads` of the host: on the
    /// device what does, on the host why.
    pub(super) fn choose(
        &self,
        device: DeviceId,
        scanned: &CodecBytes,
        threads: usize,
    ) -> std::result::Result<DeviceDecompressor, String> {
        let on_device = self.on_devices.iter().find(|(opened, _)| *opened == device);
        let on_device = on_device.map_or(Err(BY_CHOICE.into()), |(_, on_device)| on_device.clone())?;
        if self.choice == Decompress::Auto {
            pays(scanned, threads, &self.rates)?;
        }
        Ok(DeviceDecompressor(on_device))
    }
}

/// Decompresses morsels on a device.
#[derive(Debug, Clone)]
pub(super) struct DeviceDecompressor(Arc<OnDevice>);

impl OnDevice {
    fn open(
        decompressor: impl Decompressor + 'static,
        target: Target,
        cache: Option<PathBuf>,
    ) -> Result<Self> {
        let (place, _) = Compiler::new(cache).compile(&place_source(), target, Effort::Full)?;
        Ok(Self { decompressor: Box::new(decompressor), place })
    }
}

/// The source of `k_place`.
fn place_source() -> String {
    format!("#define PELTON_ARG_COUNT 2\n#define PELTON_SHARED_BYTES 0\n{TARGET}\n{PLACE}")
}

impl DeviceDecompressor {
    /// What it is called in reports.
    pub(super) fn name(&self) -> String {
        self.0.decompressor.name()
    }

    /// What a status of a section means.
    pub(super) fn meaning(&self, status: i32) -> String {
        self.0.decompressor.meaning(status)
    }

    /// Device memory that `count` sections of up to `section_bytes_max` bytes take at once beside their own.
    pub(super) fn temp_bytes(&self, codec: Codec, count: usize, section_bytes_max: usize) -> Result<usize> {
        self.0.decompressor.temp_bytes(codec, count, section_bytes_max)
    }

    /// Enqueues the decompression of a morsel whose compressed bytes are on the device when the stream has come so far.
    pub(super) fn enqueue(&self, stream: &Stream, job: &Job) -> Result<()> {
        let (moves, count) = job.moves();
        if count > 0 {
            let blocks = (count as u32).div_ceil(PLACE_BLOCK_WARPS);
            let grid = Grid { blocks, threads: 32 * PLACE_BLOCK_WARPS, shared_bytes: 0 };
            let (reads, writes) = (vec![job.compressed.clone()], vec![job.target.clone()]);
            let words = vec![moves, count as u64];
            let launch = Launch { grid, workers: 1 };
            stream.run(self.0.place.work("place", PLACE_ENTRY, words, launch, reads, writes)?)?;
        }
        if job.words.sections > 0 {
            stream.run(self.0.decompressor.work(job))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
