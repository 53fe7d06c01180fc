//! NVRTC, the compiler of CUDA C++ as a library, found at run time. It needs neither a driver nor a device.
//!
//! ```text
//!   nvrtc ──► search ──► dlopen builtins, then NVRTC ──► version, architectures
//!                                                          │
//!   source ──► architecture_for(9, 0) ──► compile ──► machine code (cubin), or intermediate code (PTX)
//! ```
//!
//! Where it is looked for: [`libraries`](crate::libraries).
//!
//! The library that PyPI offers does not know its own folder and asks the loader for its builtins by name alone. They
//! are loaded before it from the same folder, which answers that.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::path::Path;
use std::sync::OnceLock;

use libloading::Library;
use pelton_error::{Error, ErrorKind, Result};

use crate::libraries::{self, NVRTC_VARIABLE};

const BUILTINS_PREFIX: &str = "libnvrtc-builtins.so";

type Status = c_int;
type Handle = *mut c_void;
type Number = unsafe extern "C" fn(*mut c_int) -> Status;
type Length = unsafe extern "C" fn(Handle, *mut usize) -> Status;
type Bytes = unsafe extern "C" fn(Handle, *mut c_char) -> Status;

/// The entries, as `nvrtc.h` declares them.
struct Entries {
    error_text: unsafe extern "C" fn(Status) -> *const c_char,
    create: unsafe extern "C" fn(
        *mut Handle,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> Status,
    destroy: unsafe extern "C" fn(*mut Handle) -> Status,
    compile: unsafe extern "C" fn(Handle, c_int, *const *const c_char) -> Status,
    log: (Length, Bytes),
    cubin: (Length, Bytes),
    ptx: (Length, Bytes),
}

/// The compiler, loaded for the life of the process. It may be used from many threads at once.
pub struct Nvrtc {
    place: String,
    version: (i32, i32),
    /// Ascending, such as 90 for compute capability 9.0; not empty.
    architectures: Vec<u32>,
    entries: Entries,
}

/// What NVRTC compiles for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NvrtcArchitecture {
    /// Machine code of this compute capability, 90 for 9.0.
    Machine(u32),
    /// Intermediate code, which the driver compiles for devices of this compute capability and later ones.
    Intermediate(u32),
}

impl fmt::Display for NvrtcArchitecture {
    /// As compilers name it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NvrtcArchitecture::Machine(number) => write!(f, "sm_{number}"),
            NvrtcArchitecture::Intermediate(number) => write!(f, "compute_{number}"),
        }
    }
}

/// The compiler of this process, loaded on first use.
///
/// # Errors
///
/// `Unsupported` if there is none, with the places and the remedy; the same each time.
pub fn nvrtc() -> Result<&'static Nvrtc> {
    static NVRTC: OnceLock<std::result::Result<Nvrtc, (ErrorKind, String)>> = OnceLock::new();
    let found = NVRTC.get_or_init(|| {
        libraries::open_nvrtc(open_at).map_err(|error| (error.kind().clone(), error.to_string()))
    });
    found.as_ref().map_err(|(kind, message)| Error::new(kind.clone(), message.clone()))
}

impl Nvrtc {
    /// Its CUDA version, major and minor.
    pub fn version(&self) -> (i32, i32) {
        self.version
    }

    /// Its file, or its name where the dynamic loader found it.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The compute capabilities that it compiles for, ascending, 90 for 9.0.
    pub fn architectures(&self) -> &[u32] {
        &self.architectures
    }

    /// What to compile for so that a device of this compute capability runs it: its own machine code, or, where this
    /// NVRTC does not know it, intermediate code of the newest that came before.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a device older than any that this NVRTC knows.
    pub fn architecture_for(&self, major: u32, minor: u32) -> Result<NvrtcArchitecture> {
        choose_architecture(&self.architectures, major, minor).ok_or_else(|| {
            let (oldest, version) = (self.architectures[0], self.version);
            Error::unsupported(format!(
                "compute capability {major}.{minor}: NVRTC {}.{} compiles for {}.{} and later; let {NVRTC_VARIABLE} \
                 name one of an older CUDA toolkit",
                version.0,
                version.1,
                oldest / 10,
                oldest % 10
            ))
        })
    }

    /// Compiles `source`: a cubin, or PTX that ends with a zero byte.
    ///
    /// # Errors
    ///
    /// `Unsupported` with the compiler's whole log if it refuses the source or the options.
    pub fn compile(
        &self,
        source: &str,
        architecture: NvrtcArchitecture,
        options: &[&str],
    ) -> Result<Vec<u8>> {
        let program = Program::new(self, source)?;
        let architecture_option = format!("--gpu-architecture={architecture}");
        program.compile(std::iter::once(architecture_option.as_str()).chain(options.iter().copied()))?;
        match architecture {
            NvrtcArchitecture::Machine(_) => program.output(self.entries.cubin),
            NvrtcArchitecture::Intermediate(_) => program.output(self.entries.ptx),
        }
    }

    /// Reads `source` as [`compile`](Self::compile) does for this compute capability or a later one, and makes no code of it:
    /// a third of the work.
    ///
    /// # Errors
    ///
    /// `Unsupported` with the compiler's whole log if it refuses the source or the options.
    pub fn read(&self, source: &str, number: u32, options: &[&str]) -> Result<()> {
        let program = Program::new(self, source)?;
        let architecture = format!("--gpu-architecture={}", NvrtcArchitecture::Intermediate(number));
        program.compile([architecture.as_str(), "-dlto"].into_iter().chain(options.iter().copied()))
    }

    fn check(&self, status: Status, doing: &str) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the entry takes any number and returns a string constant.
        let meaning = unsafe { CStr::from_ptr((self.entries.error_text)(status)) }.to_string_lossy();
        Err(Error::unsupported(format!("NVRTC ({}): {doing}: {meaning} ({status})", self.place)))
    }
}

impl fmt::Debug for Nvrtc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NVRTC {}.{} ({})", self.version.0, self.version.1, self.place)
    }
}

fn choose_architecture(known: &[u32], major: u32, minor: u32) -> Option<NvrtcArchitecture> {
    let wanted = major * 10 + minor;
    let newest = known.iter().copied().rfind(|number| *number <= wanted)?;
    Some(if newest == wanted {
        NvrtcArchitecture::Machine(newest)
    } else {
        NvrtcArchitecture::Intermediate(newest)
    })
}

/// A compilation.
struct Program<'a> {
    nvrtc: &'a Nvrtc,
    handle: Handle,
}

impl<'a> Program<'a> {
    fn new(nvrtc: &'a Nvrtc, source: &str) -> Result<Self> {
        let source =
            CString::new(source).map_err(|_| Error::invalid_input("a CUDA source with a zero byte"))?;
        let mut handle = std::ptr::null_mut();
        let none = std::ptr::null();
        // SAFETY: strings and result outlive the call; there are no headers.
        let status = unsafe {
            (nvrtc.entries.create)(&raw mut handle, source.as_ptr(), c"program.cu".as_ptr(), 0, none, none)
        };
        nvrtc.check(status, "taking a source")?;
        Ok(Self { nvrtc, handle })
    }

    fn compile<'o>(&self, options: impl Iterator<Item = &'o str>) -> Result<()> {
        let options: std::result::Result<Vec<CString>, _> = options.map(CString::new).collect();
        let options = options.map_err(|_| Error::invalid_input("a compiler option with a zero byte"))?;
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: the program exists; the options, as many as said, outlive the call.
        let status =
            unsafe { (self.nvrtc.entries.compile)(self.handle, pointers.len() as c_int, pointers.as_ptr()) };
        self.nvrtc.check(status, "compiling").map_err(|error| {
            let log = self.output(self.nvrtc.entries.log).unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            Error::unsupported(format!("{error}; its log:\n{}", log.trim_end_matches(['\0', '\n'])))
        })
    }

    /// What a pair of entries gives: its length, then its bytes.
    fn output(&self, (length, bytes): (Length, Bytes)) -> Result<Vec<u8>> {
        let mut size = 0_usize;
        // SAFETY: the program exists; `size` outlives the call.
        self.nvrtc.check(unsafe { length(self.handle, &raw mut size) }, "asking for an output's length")?;
        let mut output = vec![0_u8; size];
        // SAFETY: the program exists; the entry writes as many bytes as it announced.
        let status = unsafe { bytes(self.handle, output.as_mut_ptr().cast()) };
        self.nvrtc.check(status, "asking for an output")?;
        Ok(output)
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // SAFETY: the program exists and is not used again.
        let _ = unsafe { (self.nvrtc.entries.destroy)(&raw mut self.handle) };
    }
}

/// Loads the library at `path`, or the one of that name where the dynamic loader looks.
fn open_at(path: &Path) -> Result<Nvrtc> {
    load_builtins(path);
    // SAFETY: what runs on loading are the library's own initialisers; that the file is NVRTC is the word of whoever
    // installed it there.
    let loaded = unsafe { Library::new(path) };
    let library =
        loaded.map_err(|error| Error::unsupported(format!("{}: {}", path.display(), whole(&error))))?;
    // Its threads and its builtins refer to it until the process ends.
    Nvrtc::new(path.display().to_string(), Box::leak(Box::new(library)))
}

/// An error of the loader with its causes, which hold the text of the system.
fn whole(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(|error| error.to_string()).collect::<Vec<String>>().join(": ")
}

/// Loads the builtins that lie beside `path`; without them NVRTC itself says what it misses.
fn load_builtins(path: &Path) {
    let Some(folder) = path.parent().filter(|folder| folder.is_absolute()) else { return };
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(BUILTINS_PREFIX) {
            // SAFETY: as for the library itself, which would load it under this name.
            if let Ok(builtins) = unsafe { Library::new(entry.path()) } {
                std::mem::forget(builtins);
            }
        }
    }
}

impl Nvrtc {
    fn new(place: String, library: &'static Library) -> Result<Self> {
        let entries = Entries {
            error_text: symbol(library, "nvrtcGetErrorString")?,
            create: symbol(library, "nvrtcCreateProgram")?,
            destroy: symbol(library, "nvrtcDestroyProgram")?,
            compile: symbol(library, "nvrtcCompileProgram")?,
            log: (symbol(library, "nvrtcGetProgramLogSize")?, symbol(library, "nvrtcGetProgramLog")?),
            cubin: (symbol(library, "nvrtcGetCUBINSize")?, symbol(library, "nvrtcGetCUBIN")?),
            ptx: (symbol(library, "nvrtcGetPTXSize")?, symbol(library, "nvrtcGetPTX")?),
        };
        let mut nvrtc = Self { place, version: (0, 0), architectures: Vec::new(), entries };
        nvrtc.version = nvrtc.read_version(library)?;
        nvrtc.architectures = nvrtc.read_architectures(library)?;
        Ok(nvrtc)
    }

    fn read_version(&self, library: &'static Library) -> Result<(i32, i32)> {
        type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> Status;
        let version: Version = symbol(library, "nvrtcVersion")?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both results outlive the call.
        self.check(unsafe { version(&raw mut major, &raw mut minor) }, "asking for its version")?;
        Ok((major, minor))
    }

    fn read_architectures(&self, library: &'static Library) -> Result<Vec<u32>> {
        let count_entry: Number = symbol(library, "nvrtcGetNumSupportedArchs")?;
        let list_entry: Number = symbol(library, "nvrtcGetSupportedArchs")?;
        let mut count = 0;
        // SAFETY: the result outlives the call.
        self.check(unsafe { count_entry(&raw mut count) }, "counting its architectures")?;
        let mut numbers = vec![0 as c_int; usize::try_from(count).unwrap_or(0)];
        // SAFETY: the entry writes as many numbers as it announced.
        self.check(unsafe { list_entry(numbers.as_mut_ptr()) }, "listing its architectures")?;
        let mut architectures: Vec<u32> = numbers.iter().map(|number| *number as u32).collect();
        architectures.sort_unstable();
        if architectures.is_empty() {
            return Err(Error::unsupported(format!("{}: it compiles for no architecture", self.place)));
        }
        Ok(architectures)
    }
}

/// An entry by name, of the type that the caller gives.
fn symbol<T: Copy>(library: &'static Library, name: &'static str) -> Result<T> {
    // SAFETY: every caller gives the type that `nvrtc.h` declares for the name, the same since CUDA 11.2. The library
    // is never unloaded.
    let symbol = unsafe { library.get::<T>(name) };
    symbol
        .map(|symbol| *symbol)
        .map_err(|error| Error::unsupported(format!("not NVRTC of CUDA 12 or 13: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_known_gets_its_machine_code_and_a_newer_one_intermediate_code() {
        let known = [75, 80, 86, 90, 100];
        let check = |major, minor, expected: Option<&str>| {
            let chosen = choose_architecture(&known, major, minor).map(|chosen| chosen.to_string());
            assert_eq!(chosen.as_deref(), expected, "{major}.{minor}");
        };
        check(9, 0, Some("sm_90"));
        check(8, 9, Some("compute_86"));
        check(12, 1, Some("compute_100"));
        check(7, 5, Some("sm_75"));
        check(7, 0, None);
    }

    #[test]
    fn a_source_is_compiled_or_refused_with_the_log() {
        let nvrtc = match nvrtc() {
            Ok(nvrtc) => nvrtc,
            Err(error) => {
                println!("SKIPPED: {error}");
                assert!(error.to_string().contains("pip install"), "{error}");
                return;
            }
        };
        let machine = nvrtc.architecture_for(9, 0).unwrap();
        let source = "extern \"C\" __global__ void k(int* p) { p[threadIdx.x] = 1; }";
        assert!(nvrtc.compile(source, machine, &[]).unwrap().starts_with(b"\x7fELF"));
        let text = nvrtc.compile(source, NvrtcArchitecture::Intermediate(90), &[]).unwrap();
        assert!(text.ends_with(b"\0") && text.windows(7).any(|part| part == b".target"));
        let refusal = nvrtc.compile("this is no source", machine, &[]).unwrap_err();
        assert_eq!(refusal.kind(), &ErrorKind::Unsupported);
        assert!(refusal.to_string().contains("program.cu(1): error"), "{refusal}");
        assert!(nvrtc.compile(source, machine, &["--no-such-option"]).is_err());
        assert!(nvrtc.architecture_for(1, 0).is_err());
    }
}
