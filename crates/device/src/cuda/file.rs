//! Storage to device memory by cuFile (GPUDirect Storage).
//!
//! cuFile is *real* if the `nvidia-fs` kernel module is there: then the storage device writes into GPU memory. Without
//! it the library runs in compatibility mode, which is a bounce through host memory that Pelton does better itself;
//! so that mode is opened only on request.

use std::ffi::c_void;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::OnceLock;

use libloading::Library;
use pelton_error::{Error, Result};

use super::driver::driver;
use crate::libraries;
use crate::memory::{Purpose, Span};
use crate::place::{DeviceKind, MemoryKind};

const KERNEL_MODULE: &str = "/proc/driver/nvidia-fs";
const HANDLE_TYPE_OPAQUE_FD: i32 = 1;

/// `CUfileError_t`: the library's own code, then the driver's.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Status {
    code: i32,
    driver_code: i32,
}

/// `CUfileDescr_t`.
#[repr(C)]
struct Descriptor {
    kind: i32,
    /// A union of a file descriptor and a pointer.
    handle: u64,
    operations: *const c_void,
}
const _: () = assert!(size_of::<Descriptor>() == 24);
const _: () = assert!(std::mem::offset_of!(Descriptor, handle) == 8);

type RegisterHandle = unsafe extern "C" fn(*mut *mut c_void, *mut Descriptor) -> Status;
type DeregisterHandle = unsafe extern "C" fn(*mut c_void);
type Read = unsafe extern "C" fn(*mut c_void, *mut c_void, usize, i64, i64) -> isize;
type DriverCall = unsafe extern "C" fn() -> Status;

/// The library, opened and started.
#[derive(Debug, Clone, Copy)]
pub struct CuFile {
    library: &'static Library,
    is_real: bool,
}

/// A file that cuFile reads from.
#[derive(Debug)]
pub struct CuFileHandle {
    cu_file: CuFile,
    handle: *mut c_void,
    _file: File,
}

// SAFETY: cuFile's handles may be used from any thread.
unsafe impl Send for CuFileHandle {}
// SAFETY: reads through one handle may run at the same time.
unsafe impl Sync for CuFileHandle {}

impl CuFile {
    /// Opens the library; with `allow_compatibility_mode` also where the kernel module is missing.
    ///
    /// # Errors
    ///
    /// `Unsupported` without driver, library or kernel module, saying what to install.
    pub fn open(allow_compatibility_mode: bool) -> Result<Self> {
        driver()?;
        let is_real = Path::new(KERNEL_MODULE).exists();
        if !is_real && !allow_compatibility_mode {
            return Err(Error::unsupported(
                "GPUDirect Storage: the kernel module nvidia-fs is not loaded ('apt-get install nvidia-gds', then \
                 'modprobe nvidia-fs'); storage is read through pinned host memory",
            ));
        }
        Ok(Self { library: library()?, is_real })
    }

    /// True if storage writes into device memory itself, false in compatibility mode.
    pub fn is_real(&self) -> bool {
        self.is_real
    }

    /// Makes `file` readable; open it with `O_DIRECT`.
    ///
    /// # Errors
    ///
    /// `Unsupported` if cuFile refuses the file system.
    pub fn register(&self, file: File) -> Result<CuFileHandle> {
        let mut handle = std::ptr::null_mut();
        let mut descriptor = Descriptor {
            kind: HANDLE_TYPE_OPAQUE_FD,
            handle: file.as_raw_fd() as u64,
            operations: std::ptr::null(),
        };
        // SAFETY: the entry has this type; both pointers outlive the call; the file outlives the handle.
        let status = unsafe {
            let register = self.symbol::<RegisterHandle>(b"cuFileHandleRegister")?;
            register(&raw mut handle, &raw mut descriptor)
        };
        if status.code != 0 {
            return Err(Error::unsupported(format!(
                "cuFile refuses the file: code {}, driver code {}{}",
                status.code,
                status.driver_code,
                if self.is_real {
                    ""
                } else {
                    "; compatibility mode may be off: CUFILE_ALLOW_COMPAT_MODE=true"
                }
            )));
        }
        Ok(CuFileHandle { cu_file: *self, handle, _file: file })
    }

    unsafe fn symbol<T>(&self, name: &[u8]) -> Result<libloading::Symbol<'_, T>> {
        // SAFETY: the caller names the type of the entry.
        unsafe { self.library.get(name) }.map_err(|error| {
            Error::unsupported(format!("libcufile lacks {}", String::from_utf8_lossy(name)))
                .with_source(error)
        })
    }
}

impl CuFileHandle {
    /// Reads `target.len()` bytes at `file_offset` into device memory, and waits for them.
    ///
    /// # Errors
    ///
    /// `InvalidInput` unless the target is device memory, `Io` if the file ends early or cannot be read.
    pub fn read_blocking(&self, file_offset: u64, target: &Span) -> Result<()> {
        let MemoryKind::Device(device) = target.kind() else {
            return Err(Error::invalid_input(format!(
                "cuFile reads into device memory, not {}",
                target.kind()
            )));
        };
        let info = target.buffer().machine().device(*device)?;
        if !matches!(info.kind, DeviceKind::Cuda { .. }) {
            return Err(Error::invalid_input(format!("cuFile reads into CUDA devices; {device} is none")));
        }
        let _lease = target.lease(Purpose::OperationWrites)?;
        driver()?.devices[device.0 as usize].bind()?;
        let mut done = 0;
        while done < target.len() {
            // SAFETY: the span is device memory in bounds, kept alive by the lease until the call returns.
            let read = unsafe {
                let read = self.cu_file.symbol::<Read>(b"cuFileRead")?;
                let base = target.address() as *mut c_void;
                read(self.handle, base, target.len() - done, (file_offset + done as u64) as i64, done as i64)
            };
            if read <= 0 {
                let reason = if read == 0 { "the file ends early".into() } else { format!("code {read}") };
                let message = format!("{device}: cuFile read at {}: {reason}", file_offset + done as u64);
                return Err(Error::new(pelton_error::ErrorKind::Io, message));
            }
            done += read as usize;
        }
        Ok(())
    }
}

impl Drop for CuFileHandle {
    fn drop(&mut self) {
        // SAFETY: the entry has this type; the handle is ours, and nothing reads through it any more.
        unsafe {
            if let Ok(deregister) = self.cu_file.symbol::<DeregisterHandle>(b"cuFileHandleDeregister") {
                deregister(self.handle);
            }
        }
    }
}

/// The library, opened and started once and never closed: its threads and exit handlers outlive every use of it.
fn library() -> Result<&'static Library> {
    static LIBRARY: OnceLock<std::result::Result<Library, String>> = OnceLock::new();
    let started = LIBRARY.get_or_init(|| start().map_err(|error| error.to_string()));
    started.as_ref().map_err(|message| Error::unsupported(message.clone()))
}

fn start() -> Result<Library> {
    // SAFETY: opening cuFile runs its initialisers, which it is made for.
    let library = libraries::open_cufile(|name| unsafe { Library::new(name) })?;
    // SAFETY: the entry has this type in every version of cuFile.
    let status = unsafe { library.get::<DriverCall>(b"cuFileDriverOpen").map(|open| open()) };
    match status {
        Ok(Status { code: 0, .. }) => Ok(library),
        Ok(Status { code, driver_code }) => {
            // It may have started threads before it gave up.
            std::mem::forget(library);
            Err(Error::unsupported(format!("cuFile does not start: code {code}, driver code {driver_code}")))
        }
        Err(error) => Err(Error::unsupported("libcufile lacks cuFileDriverOpen").with_source(error)),
    }
}
