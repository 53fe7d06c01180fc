//! Programs: generated sources, compiled once, kept, and launched as work.
//!
//! ```text
//!   source, target ──► key ──► in memory? ──► in the cache folder? ──► compile ──► into the folder
//!                                  │                  │                   │
//!                                  └──────────────────┴───────────────────┴──► Program ── work ──► Stream::run
//!
//!   Target::Cuda   NVRTC      a cubin, or PTX where the device is newer than NVRTC      a kernel launch
//!   Target::Host   c++        a shared library                                          a function on threads
//! ```
//!
//! The key is a hash of everything that the result depends on: this crate's version, the compiler and its options, the
//! architecture, the source. Bounds: [`PROGRAMS_MAX`] programs in memory, [`cache::FOLDER_BYTES_MAX`] in the folder;
//! of both, the least recently used go first.
//!
//! Sources are trusted as code of this process: they come from this crate's generator and from nowhere else.

mod cache;
mod cuda;
mod host;
mod image;
mod programs;
mod scratch;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use pelton_device::cuda::Grid;
use pelton_device::{DeviceId, Span, Work};
use pelton_error::{CancelFlag, Error, ErrorKind, Result, ResultExt};

use cache::Cache;
use cuda::CudaCompiler;
use host::HostCompiler;
use image::Image;
use programs::Programs;
use scratch::Scratch;

/// How many programs a compiler holds ready. A query has a handful; a guess at what a busy service repeats.
const PROGRAMS_MAX: usize = 512;

/// What a program is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// A GPU.
    Cuda {
        /// Where it is loaded.
        device: DeviceId,
        /// Compute capability, major.
        major: u32,
        /// Compute capability, minor.
        minor: u32,
    },
    /// Threads of the host.
    Host,
}

/// What a compiler for GPUs is to do for a program that is not there yet; the one for the host always does all it can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effort {
    /// Little: the program is wanted soon, and runs a little slower.
    Quick,
    /// All that makes the program faster.
    Full,
}

/// How a program came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// It was found in this compiler.
    Memory,
    /// It was found in the cache folder.
    Disk,
    /// It was compiled now.
    Compiled,
}

/// What [`Compiler::compile`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompileReport {
    /// Where the program came from.
    pub origin: Origin,
    /// How long it took, with waiting for another thread that was compiling the same.
    pub elapsed: Duration,
}

/// How work of a program is spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// On a GPU.
    pub grid: Grid,
    /// Threads on the host, at least 1.
    pub workers: u32,
}

/// Compiles sources and keeps what it compiled. One per process or session; any thread may use it.
pub struct Compiler {
    folder: Option<PathBuf>,
    /// Opened when first needed; `None` inside where the folder cannot be used.
    cache: OnceLock<Option<Cache>>,
    host: OnceLock<HostCompiler>,
    programs: Mutex<Programs>,
}

/// A compiled source, loaded and ready to launch; unloaded when it and all its work are gone.
pub struct Program {
    image: Image,
}

/// One of the two compilers, with what it is asked for.
enum Toolchain<'a> {
    Cuda(CudaCompiler, DeviceId),
    Host(&'a HostCompiler),
}

impl Compiler {
    /// A compiler that keeps programs in the folder `cache`; `None` is the default, `programs` in `$PELTON_CACHE`,
    /// `$XDG_CACHE_HOME/pelton` or `~/.cache/pelton`. Where the folder cannot be written, or others may write to it,
    /// programs are kept in memory alone.
    pub fn new(cache: Option<PathBuf>) -> Self {
        Self {
            folder: cache.or_else(Cache::default_folder),
            cache: OnceLock::new(),
            host: OnceLock::new(),
            programs: Mutex::new(Programs::new(PROGRAMS_MAX)),
        }
    }

    /// The program that `source` is. Two threads that ask for the same at once compile it once. What is there already is taken
    /// whatever the effort that made it, of two in the folder the faster one.
    ///
    /// # Errors
    ///
    /// `Unsupported` without a compiler for `target`, with the remedy, and for a source that does not compile, with the
    /// compiler's log and the file where the source was kept; `Io` if no folder for temporary files can be written;
    /// the driver's refusal of the result.
    pub fn compile(
        &self,
        source: &str,
        target: Target,
        effort: Effort,
    ) -> Result<(Arc<Program>, CompileReport)> {
        self.compile_in_turn(source, target, effort, &CancelFlag::new())
    }

    /// As [`compile`](Self::compile). Those that are to take little effort wait for their turn, as the pace of `cancel` has it:
    /// so few at once, and the one that saves most goes first.
    ///
    /// # Errors
    ///
    /// As [`compile`](Self::compile); `Cancelled` while it waits for its turn.
    pub fn compile_in_turn(
        &self,
        source: &str,
        target: Target,
        effort: Effort,
        cancel: &CancelFlag,
    ) -> Result<(Arc<Program>, CompileReport)> {
        let started = Instant::now();
        let toolchain = self.toolchain(target)?;
        let key = toolchain.key(Effort::Full, source);
        let slot =
            self.programs.lock().unwrap_or_else(PoisonError::into_inner).slot((key, toolchain.device()));
        let mut held = slot.lock().unwrap_or_else(PoisonError::into_inner);
        let (program, origin) = match &*held {
            Some(program) => (Arc::clone(program), Origin::Memory),
            None => self.load_or_compile(&toolchain, (effort, cancel), source)?,
        };
        *held = Some(Arc::clone(&program));
        Ok((program, CompileReport { origin, elapsed: started.elapsed() }))
    }

    fn toolchain(&self, target: Target) -> Result<Toolchain<'_>> {
        match target {
            Target::Cuda { device, major, minor } => {
                Ok(Toolchain::Cuda(CudaCompiler::for_capability(major, minor)?, device))
            }
            Target::Host => match self.host.get() {
                Some(found) => Ok(Toolchain::Host(found)),
                None => {
                    let found = HostCompiler::find()?;
                    Ok(Toolchain::Host(self.host.get_or_init(|| found)))
                }
            },
        }
    }

    fn load_or_compile(
        &self,
        toolchain: &Toolchain,
        (effort, cancel): (Effort, &CancelFlag),
        source: &str,
    ) -> Result<(Arc<Program>, Origin)> {
        let cache = self.cache.get_or_init(|| self.folder.as_deref().and_then(Cache::open)).as_ref();
        let keys = [Effort::Full, Effort::Quick].map(|effort| toolchain.key(effort, source));
        // What does not load although it is whole is of a compiler or driver that has changed: compiling replaces it.
        let kept = keys.iter().filter_map(|key| cache.and_then(|cache| cache.find(*key)));
        if let Some(image) = kept.filter_map(|(path, bytes)| toolchain.load(&path, &bytes).ok()).next() {
            return Ok((Arc::new(Program { image }), Origin::Disk));
        }
        let scratch = Scratch::in_one_of(cache.map(Cache::folder))?;
        let bytes =
            compile_in(scratch.folder(), toolchain, (effort, cancel), source).inspect_err(|error| {
                if !is_cancelled(error) {
                    scratch.keep()
                }
            })?;
        let key = toolchain.key(effort, source);
        let path = cache::seal(scratch.folder(), key, &bytes)?;
        let path = cache.and_then(|cache| cache.take(&path, key)).unwrap_or(path);
        let image = toolchain.load(&path, &bytes)?;
        Ok((Arc::new(Program { image }), Origin::Compiled))
    }
}

impl fmt::Debug for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiler").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Toolchain<'_> {
    /// Everything that the result depends on but the source.
    fn identity(&self, effort: Effort) -> String {
        match self {
            Toolchain::Cuda(compiler, _) => compiler.identity(effort),
            Toolchain::Host(compiler) => compiler.identity(),
        }
    }

    /// Of everything that the result depends on.
    fn key(&self, effort: Effort, source: &str) -> u128 {
        cache::key(&[env!("CARGO_PKG_VERSION"), &self.identity(effort), source])
    }

    fn device(&self) -> Option<DeviceId> {
        match self {
            Toolchain::Cuda(_, device) => Some(*device),
            Toolchain::Host(_) => None,
        }
    }

    fn extension(&self) -> &'static str {
        match self {
            Toolchain::Cuda(..) => "cu",
            Toolchain::Host(_) => "cpp",
        }
    }

    /// Compiles the file `source_path`, whose text is `source`, and returns the result's bytes.
    fn compile(
        &self,
        source_path: &Path,
        (effort, cancel): (Effort, &CancelFlag),
        source: &str,
    ) -> Result<Vec<u8>> {
        match self {
            Toolchain::Cuda(compiler, _) => compiler.compile(source, effort, cancel),
            Toolchain::Host(compiler) => compiler.compile(source_path),
        }
    }

    /// Loads a result: `bytes`, which the file `path` begins with.
    fn load(&self, path: &Path, bytes: &[u8]) -> Result<Image> {
        match self {
            Toolchain::Cuda(compiler, device) => Image::load_cuda(*device, bytes)
                .context(|| format!("compiled by {}", compiler.identity(Effort::Full))),
            Toolchain::Host(_) => Image::load_host(path),
        }
    }
}

/// Compiles `source` in `folder`, where the source stays.
fn compile_in(
    folder: &Path,
    toolchain: &Toolchain,
    wanted: (Effort, &CancelFlag),
    source: &str,
) -> Result<Vec<u8>> {
    let source_path = folder.join("program").with_extension(toolchain.extension());
    std::fs::write(&source_path, source).context(|| format!("writing {}", source_path.display()))?;
    toolchain.compile(&source_path, wanted, source).or_else(|error| {
        if is_cancelled(&error) {
            return Err(error);
        }
        Err(error).context(|| {
            format!(
                "a generated program does not compile, which is a bug; its source is {}",
                source_path.display()
            )
        })
    })
}

fn is_cancelled(error: &Error) -> bool {
    *error.kind() == ErrorKind::Cancelled
}

impl Program {
    /// Work that runs `entry` with these argument words. `reads` and `writes` hold all memory that the words lead to.
    ///
    /// On a GPU the entry is `extern "C" __global__ void ENTRY(PeltonArgs args)`, where
    /// `struct PeltonArgs { unsigned long long w[N]; }` and N is the number of words. On the host it is
    /// `extern "C" void ENTRY(const unsigned long long* words, unsigned worker, unsigned worker_count)`, called once
    /// for each worker, all at once; a single worker is the calling thread.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the program has no such entry.
    ///
    /// # Panics
    ///
    /// Without any word, or for 0 workers.
    pub fn work(
        self: &Arc<Self>,
        name: &'static str,
        entry: &str,
        words: Vec<u64>,
        launch: Launch,
        reads: Vec<Span>,
        writes: Vec<Span>,
    ) -> Result<Work> {
        assert!(!words.is_empty(), "'{entry}' without argument words");
        assert!(launch.workers > 0, "'{entry}' without workers");
        self.image.bind(self, entry, words, launch, Work::new(name, reads, writes))
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Program").field(&self.image).finish()
    }
}

/// Compiles `source` for a compute capability, without any GPU or driver, to check it: a cubin, or PTX for one that
/// this NVRTC does not know.
///
/// # Errors
///
/// `Unsupported` without NVRTC, and with the log for a source that does not compile.
pub fn compile_for_check(source: &str, major: u32, minor: u32, effort: Effort) -> Result<Vec<u8>> {
    CudaCompiler::for_capability(major, minor)?.compile(source, effort, &CancelFlag::new())
}

/// Whether `source` can be read for a compute capability, once a process for each; no code is made of it.
///
/// # Errors
///
/// `Corrupt` for what does not compile: that is no reason to take another path.
pub fn check_source(source: &str, major: u32, minor: u32) -> Result<()> {
    static PASSED: Mutex<BTreeSet<(u64, u32, u32)>> = Mutex::new(BTreeSet::new());
    let key = (xxhash_rust::xxh3::xxh3_64(source.as_bytes()), major, minor);
    let passed = || PASSED.lock().unwrap_or_else(PoisonError::into_inner);
    if !passed().contains(&key) {
        CudaCompiler::for_capability(major, minor)?.check(source).map_err(|error| {
            Error::corrupt(format!("a source of kernels, for sm_{major}{minor}: {error}"))
        })?;
        passed().insert(key);
    }
    Ok(())
}

/// Whether there is a C++ compiler by name. Starts nothing: it may turn out not to run.
pub fn may_compile_for_host() -> bool {
    HostCompiler::is_named()
}

/// Where NVRTC was found, its version and what it compiles for.
///
/// # Errors
///
/// `Unsupported` if there is none, with the remedy.
pub fn nvrtc_status() -> Result<String> {
    cuda::status()
}
