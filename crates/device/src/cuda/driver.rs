//! The driver: is it there, is it new enough, what does its answer mean.

use std::ffi::CStr;
use std::sync::OnceLock;

use cudarc::driver::sys;
use pelton_error::{Error, ErrorKind, Result, Tier};

use crate::place::DeviceId;

/// The oldest driver whose every entry point used here exists, as the driver numbers itself: CUDA 12.8 (R570), for
/// `cuEventElapsedTime_v2`.
const DRIVER_VERSION_MIN: i32 = 12_080;

/// What is known of the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverStatus {
    /// The CUDA version that the driver supports, such as "13.0".
    pub version: Option<String>,
    /// How many devices it shows.
    pub device_count: u32,
    /// What is missing and the remedy, if it cannot be used.
    pub problem: Option<String>,
}

/// Looks for the driver; never fails, never panics, prints nothing.
pub fn status() -> DriverStatus {
    match driver() {
        Ok(driver) => DriverStatus {
            version: Some(version_text(driver.version)),
            device_count: driver.devices.len() as u32,
            problem: None,
        },
        Err(error) => DriverStatus {
            version: loaded_version().map(version_text),
            device_count: 0,
            problem: Some(error.to_string()),
        },
    }
}

/// The driver of this process, its devices and their primary contexts.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) version: i32,
    pub(crate) devices: Vec<Context>,
}

/// A device with its primary context, which the runtime API of loaded libraries shares.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context {
    pub(crate) id: DeviceId,
    pub(crate) device: sys::CUdevice,
    context: sys::CUcontext,
}

// SAFETY: a primary context is retained for the life of the process and may be made current on any thread.
unsafe impl Send for Context {}
// SAFETY: as above; the driver serialises what it must.
unsafe impl Sync for Context {}

impl Context {
    /// Makes it current on this thread.
    pub(crate) fn bind(&self) -> Result<()> {
        // SAFETY: the context is retained for the life of the process.
        check(unsafe { sys::cuCtxSetCurrent(self.context) }, || {
            format!("{}: making its context current", self.id)
        })
    }

    /// Lets kernels and copies of this device reach the memory of `peer`, if the hardware can.
    pub(crate) fn enable_peer(&self, peer: &Context) -> Result<bool> {
        if !self.reaches(peer) {
            return Ok(false);
        }
        self.bind()?;
        // SAFETY: the peer's context is retained for the life of the process.
        let code = unsafe { sys::cuCtxEnablePeerAccess(peer.context, 0) };
        match code {
            sys::CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => return Ok(true),
            sys::CUresult::CUDA_ERROR_PEER_ACCESS_UNSUPPORTED | sys::CUresult::CUDA_ERROR_TOO_MANY_PEERS => {
                return Ok(false);
            }
            _ => {}
        }
        check(code, || format!("{}: enabling access to {}", self.id, peer.id)).map(|()| true)
    }

    /// True if address ranges of the device may hold pages of host nodes.
    pub(crate) fn maps_host_pages(&self) -> bool {
        let attribute =
            sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
        self.attribute(attribute) != 0
    }

    /// True if the hardware lets this device reach the memory of `peer`.
    pub(crate) fn reaches(&self, peer: &Context) -> bool {
        let mut can = 0;
        // SAFETY: both devices exist; `can` outlives the call.
        let code = unsafe { sys::cuDeviceCanAccessPeer(&raw mut can, self.device, peer.device) };
        code == sys::CUresult::CUDA_SUCCESS && can != 0
    }

    /// An attribute of the device, 0 if the driver does not know it.
    pub(crate) fn attribute(&self, attribute: sys::CUdevice_attribute) -> i32 {
        let mut value = 0;
        // SAFETY: the device exists; `value` outlives the call.
        let code = unsafe { sys::cuDeviceGetAttribute(&raw mut value, attribute, self.device) };
        if code == sys::CUresult::CUDA_SUCCESS { value } else { 0 }
    }
}

/// The driver, opened on first use.
///
/// # Errors
///
/// `Unsupported` with what is missing and the remedy, the same each time.
pub(crate) fn driver() -> Result<&'static Driver> {
    static DRIVER: OnceLock<std::result::Result<Driver, (ErrorKind, String)>> = OnceLock::new();
    let driver =
        DRIVER.get_or_init(|| open_driver().map_err(|error| (error.kind().clone(), error.to_string())));
    driver.as_ref().map_err(|(kind, message)| Error::new(kind.clone(), message.clone()))
}

fn open_driver() -> Result<Driver> {
    let Some(version) = loaded_version() else {
        return Err(Error::unsupported(
            "no CUDA driver (libcuda.so.1) on this machine; with an NVIDIA GPU in it, install the driver: \
             'apt-get install nvidia-driver' (Debian), 'ubuntu-drivers install' (Ubuntu), or run a container with \
             '--gpus all'",
        ));
    };
    if version < DRIVER_VERSION_MIN {
        return Err(Error::unsupported(format!(
            "the CUDA driver is too old: it supports CUDA {}, Pelton needs {}; install NVIDIA driver 570 or later",
            version_text(version),
            version_text(DRIVER_VERSION_MIN)
        )));
    }
    // SAFETY: the library is loaded and has the entry point.
    let started = check(unsafe { sys::cuInit(0) }, || {
        "starting the CUDA driver; 'nvidia-smi' shows whether it sees a GPU (is one visible: CUDA_VISIBLE_DEVICES, \
         container options?)"
            .into()
    });
    started.map_err(|error| Error::unsupported(error.to_string()))?;
    let mut count = 0;
    // SAFETY: `count` outlives the call.
    check(unsafe { sys::cuDeviceGetCount(&raw mut count) }, || "counting CUDA devices".into())?;
    let devices = (0..count).map(retain).collect::<Result<Vec<Context>>>()?;
    Ok(Driver { version, devices })
}

/// Version of the driver's library if there is one; does not start it.
fn loaded_version() -> Option<i32> {
    // SAFETY: opening libcuda runs its initialisers, which every CUDA program does.
    if !unsafe { sys::is_culib_present() } {
        return None;
    }
    let mut version = 0;
    // SAFETY: the library is present, and every version has this entry; `version` outlives the call.
    let code = unsafe { sys::cuDriverGetVersion(&raw mut version) };
    (code == sys::CUresult::CUDA_SUCCESS).then_some(version)
}

fn retain(ordinal: i32) -> Result<Context> {
    let id = DeviceId(ordinal as u32);
    let mut device = 0;
    // SAFETY: the ordinal is below the count; `device` outlives the call.
    check(unsafe { sys::cuDeviceGet(&raw mut device, ordinal) }, || format!("{id}: opening"))?;
    let mut context = std::ptr::null_mut();
    // SAFETY: the device exists; the context is never released, so that it outlives everything made in it.
    check(unsafe { sys::cuDevicePrimaryCtxRetain(&raw mut context, device) }, || {
        format!("{id}: making a context")
    })?;
    Ok(Context { id, device, context })
}

fn version_text(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// Turns an answer of the driver into a result; `doing` names device and operation.
pub(crate) fn check(code: sys::CUresult, doing: impl FnOnce() -> String) -> Result<()> {
    if code == sys::CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let message = format!("{}: {} ({})", doing(), describe(code), code as u32);
    Err(match code {
        sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
            let kind = ErrorKind::OutOfMemory { tier: Tier::Device, requested_bytes: 0, available_bytes: 0 };
            Error::new(kind, message)
        }
        sys::CUresult::CUDA_ERROR_NOT_SUPPORTED
        | sys::CUresult::CUDA_ERROR_NO_DEVICE
        | sys::CUresult::CUDA_ERROR_NOT_PERMITTED
        | sys::CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH => Error::unsupported(message),
        sys::CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
        | sys::CUresult::CUDA_ERROR_LAUNCH_FAILED
        | sys::CUresult::CUDA_ERROR_LAUNCH_TIMEOUT
        | sys::CUresult::CUDA_ERROR_MISALIGNED_ADDRESS
        | sys::CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION
        | sys::CUresult::CUDA_ERROR_ECC_UNCORRECTABLE
        | sys::CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR
        | sys::CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE
        | sys::CUresult::CUDA_ERROR_INVALID_PC
        | sys::CUresult::CUDA_ERROR_ASSERT
        | sys::CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE
        | sys::CUresult::CUDA_ERROR_CONTAINED
        | sys::CUresult::CUDA_ERROR_EXTERNAL_DEVICE
        | sys::CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED
        | sys::CUresult::CUDA_ERROR_UNKNOWN => Error::device_lost(message),
        sys::CUresult::CUDA_ERROR_NOT_FOUND | sys::CUresult::CUDA_ERROR_NOT_READY => {
            Error::invalid_input(message)
        }
        _ => Error::new(ErrorKind::Io, message),
    })
}

fn describe(code: sys::CUresult) -> String {
    let mut text = std::ptr::null();
    // SAFETY: the library is loaded, since it gave the code; `text` outlives the call.
    let found = unsafe { sys::cuGetErrorString(code, &raw mut text) };
    if found != sys::CUresult::CUDA_SUCCESS || text.is_null() {
        return "unknown error".into();
    }
    // SAFETY: the driver gives a string that lives as long as the library.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_driver_is_an_error_that_names_the_remedy() {
        let status = status();
        if let Some(problem) = &status.problem {
            assert_eq!(status.device_count, 0);
            assert!(problem.contains("driver"), "{problem}");
            let error = driver().unwrap_err();
            assert_eq!(error.kind(), &ErrorKind::Unsupported);
            assert_eq!(error.to_string(), driver().unwrap_err().to_string());
        } else {
            assert!(status.version.is_some());
        }
    }

    #[test]
    fn versions_read_as_vendors_write_them() {
        assert_eq!(version_text(13_000), "13.0");
        assert_eq!(version_text(12_080), "12.8");
    }
}
