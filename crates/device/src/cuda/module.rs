//! Kernels compiled at run time: loaded from a cubin or PTX image, launched with arguments by position.

use std::ffi::{CString, c_void};

use cudarc::driver::sys;
use pelton_error::{Error, Result};

use super::driver::{Context, check, driver};
use crate::place::DeviceId;
use crate::work::LaunchTarget;

/// An image loaded on one device; unloaded when it and all its functions are gone.
#[derive(Debug, Clone)]
pub struct Module {
    inner: std::sync::Arc<ModuleInner>,
}

#[derive(Debug)]
struct ModuleInner {
    context: Context,
    module: sys::CUmodule,
}

// SAFETY: the driver allows a module to be used from any thread once it is loaded.
unsafe impl Send for ModuleInner {}
// SAFETY: as above.
unsafe impl Sync for ModuleInner {}

/// A kernel of a module.
#[derive(Debug, Clone)]
pub struct Function {
    module: Module,
    function: sys::CUfunction,
    name: String,
}

// SAFETY: as for the module, which it keeps loaded.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// How many threads a launch has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Blocks.
    pub blocks: u32,
    /// Threads of each block.
    pub threads: u32,
    /// Dynamic shared memory of each block, bytes.
    pub shared_bytes: u32,
}

impl Module {
    /// Loads `image`, a cubin, or PTX that ends with a zero byte.
    ///
    /// # Errors
    ///
    /// `InvalidInput` without a device of that number; the driver's refusal of the image.
    ///
    /// # Safety
    ///
    /// The image is whole: the driver is not told where it ends, and follows what its head says.
    pub unsafe fn load(device: DeviceId, image: &[u8]) -> Result<Self> {
        let context = *driver()?
            .devices
            .get(device.0 as usize)
            .ok_or_else(|| Error::invalid_input(format!("no {device}")))?;
        context.bind()?;
        let mut module = std::ptr::null_mut();
        // SAFETY: the image outlives the call; the driver checks its form.
        check(unsafe { sys::cuModuleLoadData(&raw mut module, image.as_ptr().cast()) }, || {
            format!("{device}: loading a kernel image of {} bytes", image.len())
        })?;
        let loaded = Self { inner: std::sync::Arc::new(ModuleInner { context, module }) };
        loaded.load_functions()?;
        Ok(loaded)
    }

    /// Brings all kernels to the device, which the driver would do with the first launch of each.
    fn load_functions(&self) -> Result<()> {
        let doing = || format!("{}: loading the kernels of an image", self.inner.context.id);
        let mut count = 0;
        // SAFETY: the module is loaded; the result outlives the call.
        check(unsafe { sys::cuModuleGetFunctionCount(&raw mut count, self.inner.module) }, doing)?;
        let mut functions = vec![std::ptr::null_mut(); count as usize];
        // SAFETY: as above, with room for as many as are asked for.
        let code =
            unsafe { sys::cuModuleEnumerateFunctions(functions.as_mut_ptr(), count, self.inner.module) };
        check(code, doing)?;
        for function in functions {
            // SAFETY: a function of the module, which is loaded.
            check(unsafe { sys::cuFuncLoad(function) }, doing)?;
        }
        Ok(())
    }

    /// The kernel called `name`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the module has none of that name.
    pub fn function(&self, name: &str) -> Result<Function> {
        let symbol =
            CString::new(name).map_err(|_| Error::invalid_input("a kernel's name with a zero byte"))?;
        self.inner.context.bind()?;
        let mut function = std::ptr::null_mut();
        // SAFETY: the module is loaded; name and result outlive the call.
        let code = unsafe { sys::cuModuleGetFunction(&raw mut function, self.inner.module, symbol.as_ptr()) };
        check(code, || format!("{}: looking for kernel '{name}'", self.inner.context.id))?;
        Ok(Function { module: self.clone(), function, name: name.into() })
    }
}

impl Drop for ModuleInner {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: no function of it is left; the driver waits for kernels that run.
            let _ = unsafe { sys::cuModuleUnload(self.module) };
        }
    }
}

impl Function {
    /// Enqueues the kernel. `arguments` point to its parameters, in order.
    ///
    /// # Errors
    ///
    /// `InvalidInput` on a stream of another device; the driver's refusal.
    ///
    /// # Safety
    ///
    /// The arguments are as many and of the types that the kernel declares; what they point to on the device is alive
    /// until the kernel has ended, which the spans of the [`Work`](crate::Work) that launches it see to.
    pub unsafe fn launch(
        &self,
        target: LaunchTarget,
        grid: Grid,
        arguments: &mut [*mut c_void],
    ) -> Result<()> {
        if target.device != self.module.inner.context.id {
            return Err(Error::invalid_input(format!(
                "kernel '{}' was loaded on {}, not on {}",
                self.name, self.module.inner.context.id, target.device
            )));
        }
        // SAFETY: the stream is of this device and alive during the call; the rest is the caller's promise.
        let code = unsafe {
            sys::cuLaunchKernel(
                self.function,
                grid.blocks,
                1,
                1,
                grid.threads,
                1,
                1,
                grid.shared_bytes,
                target.stream.cast(),
                arguments.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        check(code, || format!("launching '{}' as {grid:?}", self.name))
    }
}
