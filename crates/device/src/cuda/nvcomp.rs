//! nvCOMP, general-purpose codecs on the GPU, found at run time. Of it only the decoders of LZ4 blocks, raw Snappy,
//! Zstd frames and bare Deflate streams are used, in their batched form: pages that are independent of each other.
//!
//! ```text
//!   in device memory     sources[i] ── stored_bytes[i] ──► targets[i], room of target_bytes[i]
//!                        written_bytes[i], statuses[i]     what came of it, once the stream has come so far
//! ```
//!
//! Where it is looked for: [`libraries`](crate::libraries).
//!
//! It brings a CUDA runtime of its own, which uses the primary context of the device that is current, as this crate
//! does. It allocates nothing: whoever calls brings the memory that it works in. Its decoders trust their input: bytes
//! that a codec did not write may make them read and write out of bounds, so only bytes that have passed a checksum
//! are given to them.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::path::Path;
use std::sync::OnceLock;

use libloading::Library;
use pelton_error::{Error, ErrorKind, Result};

use crate::libraries;
use crate::work::LaunchTarget;

/// Others declare other options.
const VERSION_MAJOR: u32 = 6;

/// `NVCOMP_DECOMPRESS_BACKEND_CUDA`: kernels. Engines of hardware report no damage.
const BACKEND_CUDA: c_int = 2;

type Status = c_int;

/// Every decoder's options are 64 bytes that start with the backend; zero is the default of all others.
#[repr(C)]
#[derive(Clone, Copy)]
struct Options {
    backend: c_int,
    zero: [u8; 60],
}

const OPTIONS: Options = Options { backend: BACKEND_CUDA, zero: [0; 60] };

/// `nvcompAlignmentRequirements_t`.
#[repr(C)]
#[derive(Default)]
struct Alignments {
    input: usize,
    output: usize,
    temp: usize,
}

/// `nvcompProperties_t`.
#[repr(C)]
#[derive(Default)]
struct Properties {
    version: u32,
    runtime_version: u32,
}

type GetProperties = unsafe extern "C" fn(*mut Properties) -> Status;
type StatusText = unsafe extern "C" fn(Status) -> *const c_char;
type GetAlignments = unsafe extern "C" fn(Options, *mut Alignments) -> Status;
type GetTempSize = unsafe extern "C" fn(usize, usize, Options, *mut usize, usize, *mut c_void) -> Status;
type Decompress = unsafe extern "C" fn(
    *const *const c_void,
    *const usize,
    *const usize,
    *mut usize,
    usize,
    *mut c_void,
    usize,
    *const *mut c_void,
    Options,
    *mut Status,
    *mut c_void,
) -> Status;

/// A codec of which nvCOMP has the decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NvcompCodec {
    /// LZ4 block format.
    Lz4,
    /// Snappy raw format.
    Snappy,
    /// Zstandard frames.
    Zstd,
    /// Deflate without header.
    Deflate,
}

impl NvcompCodec {
    const ALL: [Self; 4] = [Self::Lz4, Self::Snappy, Self::Zstd, Self::Deflate];

    /// As nvCOMP's entries spell it.
    fn name(self) -> &'static str {
        match self {
            Self::Lz4 => "LZ4",
            Self::Snappy => "Snappy",
            Self::Zstd => "Zstd",
            Self::Deflate => "Deflate",
        }
    }
}

/// The entries of a codec, as its header declares them.
struct Entries {
    temp_size: GetTempSize,
    decompress: Decompress,
}

/// The library, loaded for the life of the process. It may be used from many threads at once.
pub struct Nvcomp {
    place: String,
    version: u32,
    status_text: StatusText,
    /// By codec.
    entries: Vec<Entries>,
}

/// Pages to decompress in one go, all addresses of device memory, the arrays aligned to 8 bytes (statuses to 4).
#[derive(Debug, Clone, Copy)]
pub struct NvcompBatch {
    /// Of all pages.
    pub codec: NvcompCodec,
    /// Pages; at least 1.
    pub count: usize,
    /// Where each page's stored bytes start: a multiple of 4.
    pub sources: u64,
    /// How many they are, 64 bits each.
    pub stored_bytes: u64,
    /// Where each page goes.
    pub targets: u64,
    /// How many bytes have room there, 64 bits each.
    pub target_bytes: u64,
    /// Takes how many bytes came of each page, 64 bits each.
    pub written_bytes: u64,
    /// Takes the status of each page, 32 bits each; 0 is success.
    pub statuses: u64,
    /// Memory to work in: a multiple of 8.
    pub temp: u64,
    /// Its length: [`Nvcomp::temp_bytes`] of this batch at least.
    pub temp_bytes: usize,
}

/// nvCOMP of this process, loaded on first use.
///
/// # Errors
///
/// `Unsupported` if there is none, with the places and the remedy; the same each time.
pub fn nvcomp() -> Result<&'static Nvcomp> {
    static NVCOMP: OnceLock<std::result::Result<Nvcomp, (ErrorKind, String)>> = OnceLock::new();
    let found = NVCOMP.get_or_init(|| {
        libraries::open_nvcomp(open_at).map_err(|error| (error.kind().clone(), error.to_string()))
    });
    found.as_ref().map_err(|(kind, message)| Error::new(kind.clone(), message.clone()))
}

impl Nvcomp {
    /// Its version, such as "6.0.0".
    pub fn version(&self) -> String {
        format!("{}.{}.{}", self.version / 1000, self.version % 1000 / 100, self.version % 100)
    }

    /// Its file, or its name where the dynamic loader found it.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Bytes of device memory that it works in to decompress `count` pages of up to `page_bytes_max` bytes each.
    ///
    /// # Errors
    ///
    /// `Unsupported` where it refuses, with what it says.
    pub fn temp_bytes(&self, codec: NvcompCodec, count: usize, page_bytes_max: usize) -> Result<usize> {
        let mut bytes = 0;
        let total = count.saturating_mul(page_bytes_max);
        let entry = self.entries[codec as usize].temp_size;
        // SAFETY: the result outlives the call; nothing is enqueued, so no stream is looked at.
        let status =
            unsafe { entry(count, page_bytes_max, OPTIONS, &raw mut bytes, total, std::ptr::null_mut()) };
        self.check(status, || {
            format!("memory for {count} pages of {page_bytes_max} bytes, {}", codec.name())
        })?;
        Ok(bytes)
    }

    /// Enqueues the decompression of `batch`; statuses and lengths are there when the stream has come so far.
    ///
    /// # Errors
    ///
    /// `Unsupported` where it is refused at once, with what it says.
    ///
    /// # Safety
    ///
    /// The arrays of the batch have `count` entries; what their entries say is memory of the device, alive until the
    /// stream has come so far, and nobody else's meanwhile. The stored bytes are what the codec's compressor wrote.
    pub unsafe fn decompress(&self, target: LaunchTarget, batch: &NvcompBatch) -> Result<()> {
        let entry = self.entries[batch.codec as usize].decompress;
        // SAFETY: the stream is of the device whose context is current; the rest is the caller's promise.
        let status = unsafe {
            entry(
                batch.sources as *const *const c_void,
                batch.stored_bytes as *const usize,
                batch.target_bytes as *const usize,
                batch.written_bytes as *mut usize,
                batch.count,
                batch.temp as *mut c_void,
                batch.temp_bytes,
                batch.targets as *const *mut c_void,
                OPTIONS,
                batch.statuses as *mut Status,
                target.stream,
            )
        };
        self.check(status, || format!("decompressing {} pages, {}", batch.count, batch.codec.name()))
    }

    /// What a status of a page means.
    pub fn meaning(&self, status: i32) -> String {
        // SAFETY: the entry takes any number and returns a string constant.
        let text = unsafe { (self.status_text)(status) };
        if text.is_null() {
            return format!("status {status}");
        }
        // SAFETY: the string ends with a zero byte and lives as long as the library.
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
        format!("{text} ({status})")
    }

    fn check(&self, status: Status, doing: impl FnOnce() -> String) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        Err(Error::unsupported(format!("nvCOMP ({}): {}: {}", self.place, doing(), self.meaning(status))))
    }
}

impl fmt::Debug for Nvcomp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nvCOMP {} ({})", self.version(), self.place)
    }
}

/// Loads the library at `path`, or the one of that name where the dynamic loader looks.
fn open_at(path: &Path) -> Result<Nvcomp> {
    // SAFETY: what runs on loading are the library's own initialisers; that the file is nvCOMP is the word of whoever
    // installed it there.
    let loaded = unsafe { Library::new(path) };
    let library = loaded.map_err(|error| {
        let cause = std::error::Error::source(&error).map_or(String::new(), |cause| format!(": {cause}"));
        Error::unsupported(format!("{}: {error}{cause}", path.display()))
    })?;
    // Its CUDA runtime refers to it until the process ends.
    Nvcomp::new(path.display().to_string(), Box::leak(Box::new(library)))
}

impl Nvcomp {
    fn new(place: String, library: &'static Library) -> Result<Self> {
        let status_text = symbol(library, "nvcompGetStatusString")?;
        let mut nvcomp = Self { place, version: 0, status_text, entries: Vec::new() };
        nvcomp.version = nvcomp.read_version(library)?;
        if nvcomp.version / 1000 != VERSION_MAJOR {
            return Err(Error::unsupported(format!(
                "{}: version {}, Pelton knows {VERSION_MAJOR}.x",
                nvcomp.place,
                nvcomp.version()
            )));
        }
        for codec in NvcompCodec::ALL {
            nvcomp.check_alignments(library, codec)?;
            let entry = |what: &str| format!("nvcompBatched{}Decompress{what}", codec.name());
            nvcomp.entries.push(Entries {
                temp_size: symbol(library, &entry("GetTempSize"))?,
                decompress: symbol(library, &entry("Async"))?,
            });
        }
        Ok(nvcomp)
    }

    fn read_version(&self, library: &'static Library) -> Result<u32> {
        let entry: GetProperties = symbol(library, "nvcompGetProperties")?;
        let mut properties = Properties::default();
        // SAFETY: the result outlives the call.
        self.check(unsafe { entry(&raw mut properties) }, || "asking for its version".into())?;
        Ok(properties.version)
    }

    /// Holds what a decoder asks of addresses against what [`NvcompBatch`] promises.
    fn check_alignments(&self, library: &'static Library, codec: NvcompCodec) -> Result<()> {
        let name = format!("nvcompBatched{}DecompressGetRequiredAlignments", codec.name());
        let entry: GetAlignments = symbol(library, &name)?;
        let mut alignments = Alignments::default();
        // SAFETY: the result outlives the call.
        let status = unsafe { entry(OPTIONS, &raw mut alignments) };
        self.check(status, || format!("asking what {} is aligned to", codec.name()))?;
        let Alignments { input, output, temp } = alignments;
        if input > 4 || output > 4 || temp > 8 {
            return Err(Error::unsupported(format!(
                "{}: {} pages aligned to {input}, {output} and {temp} bytes",
                self.place,
                codec.name()
            )));
        }
        Ok(())
    }
}

/// An entry by name, of the type that the caller gives.
fn symbol<T: Copy>(library: &'static Library, name: &str) -> Result<T> {
    // SAFETY: every caller gives the type that nvCOMP 6's headers declare for the name. The library is never unloaded.
    let symbol = unsafe { library.get::<T>(name) };
    symbol.map(|symbol| *symbol).map_err(|error| Error::unsupported(format!("not nvCOMP 6: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_there_or_the_error_says_how_to_get_it() {
        let nvcomp = match nvcomp() {
            Ok(nvcomp) => nvcomp,
            Err(error) => {
                println!("SKIPPED: {error}");
                assert_eq!(error.kind(), &ErrorKind::Unsupported);
                assert!(error.to_string().contains("pip install nvidia-libnvcomp-cu13==6.0.0.12"), "{error}");
                return;
            }
        };
        assert!(nvcomp.version().starts_with("6."), "{nvcomp:?}");
        // Needs no device: what the decoders keep beside their output is arithmetic.
        let zstd = |count| nvcomp.temp_bytes(NvcompCodec::Zstd, count, 1 << 16).unwrap();
        assert!(zstd(1) > 1 << 16 && zstd(64) > zstd(1), "{} {}", zstd(1), zstd(64));
        for codec in NvcompCodec::ALL {
            nvcomp.temp_bytes(codec, 1000, 1 << 16).unwrap();
        }
        assert!(nvcomp.meaning(12).contains("cannot be decompressed"), "{}", nvcomp.meaning(12));
    }
}
