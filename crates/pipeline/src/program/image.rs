//! A compiled program in this process: loaded, its entries bound to arguments as work.
#![allow(unsafe_code)]

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use pelton_device::cuda::Module;
use pelton_device::priority::{Priority, start};
use pelton_device::{DeviceId, Work};
use pelton_error::{Error, Result};
use rayon_core::{ThreadPool, ThreadPoolBuilder};

use super::{Launch, Program};

const ELF_MAGIC: &[u8] = b"\x7fELF";

/// `extern "C" void ENTRY(const unsigned long long* words, unsigned worker, unsigned worker_count)`.
type HostEntry = unsafe extern "C" fn(*const u64, u32, u32);

/// What was loaded.
#[derive(Debug)]
pub(super) enum Image {
    Cuda(Module),
    Host(libloading::Library),
}

impl Image {
    /// Loads `bytes`, whole as NVRTC made them, on a device.
    pub(super) fn load_cuda(device: DeviceId, bytes: &[u8]) -> Result<Self> {
        if !bytes.starts_with(ELF_MAGIC) && !bytes.ends_with(&[0]) {
            return Err(Error::corrupt("a compiled program that is neither a cubin nor PTX"));
        }
        // SAFETY: the bytes come from NVRTC just now, or from a file whose hash says that they are those that did; the
        // driver finds the end of text by its zero byte and that of a cubin by its headers.
        Ok(Image::Cuda(unsafe { Module::load(device, bytes) }?))
    }

    /// Loads the shared library at `path`, a full path.
    pub(super) fn load_host(path: &Path) -> Result<Self> {
        // SAFETY: the library was compiled from a source of this crate's generator, which has no initialisers; only
        // this user may write to the folder that it lies in.
        let loaded = unsafe { libloading::Library::new(path) };
        loaded.map(Image::Host).map_err(|error| {
            let cause = std::error::Error::source(&error).map_or(String::new(), |cause| format!(": {cause}"));
            Error::unsupported(format!(
                "loading the compiled program {}: {error}{cause}; if its file system forbids execution, let \
                 PELTON_CACHE name a folder on another",
                path.display()
            ))
        })
    }

    /// Gives `work` the form that calls `entry` of `program`, whose image this is.
    pub(super) fn bind(
        &self,
        program: &Arc<Program>,
        entry: &str,
        words: Vec<u64>,
        launch: Launch,
        work: Work,
    ) -> Result<Work> {
        match self {
            Image::Cuda(module) => bind_cuda(module, entry, words, launch, work),
            Image::Host(library) => {
                let entry = host_entry(library, entry)?;
                let program = Arc::clone(program);
                let priority = Priority::of_this_thread();
                Ok(work.with_host(move || {
                    let done = run_workers(entry, &words, launch.workers, priority);
                    // The code stays loaded until its last call has returned.
                    drop(program);
                    done
                }))
            }
        }
    }
}

fn bind_cuda(module: &Module, entry: &str, mut words: Vec<u64>, launch: Launch, work: Work) -> Result<Work> {
    let function = module.function(entry)?;
    Ok(work.with_cuda(move |target| {
        let mut arguments = [words.as_mut_ptr().cast()];
        // SAFETY: the generator declares the kernel with one parameter, a struct of as many words as it passes here;
        // the memory that they lead to is of spans that the work names.
        unsafe { function.launch(target, launch.grid, &mut arguments) }
    }))
}

fn host_entry(library: &libloading::Library, name: &str) -> Result<HostEntry> {
    // SAFETY: every function that the generator exports has this type.
    let symbol = unsafe { library.get::<HostEntry>(name) };
    symbol
        .map(|symbol| *symbol)
        .map_err(|_| Error::invalid_input(format!("no entry '{name}' in the compiled program")))
}

/// Calls `entry` for each worker: the first of them on this thread, unless that gives way to others less than they are to,
/// the others on threads that are kept. A worker never waits for one that has not begun.
fn run_workers(entry: HostEntry, words: &[u64], worker_count: u32, priority: Priority) -> Result<()> {
    let call = |worker: u32| {
        // SAFETY: the library is loaded, as the caller holds its program. The words are as many as the generator
        // wrote the entry for; the memory that they lead to is of spans whose leases the stream holds, and the
        // generator makes workers that share memory use atomics.
        unsafe { entry(words.as_ptr(), worker, worker_count) }
    };
    let gives_way = priority > Priority::of_this_thread();
    if worker_count == 1 && !gives_way {
        call(0);
        return Ok(());
    }
    let call = &call;
    crew(priority)?.in_place_scope(|scope| {
        (u32::from(!gives_way)..worker_count).for_each(|worker| scope.spawn(move |_| call(worker)));
        if !gives_way {
            call(0);
        }
    });
    Ok(())
}

/// Threads of this priority, one a core, which are kept: starting them takes longer than many a kernel.
fn crew(priority: Priority) -> Result<Arc<ThreadPool>> {
    static CREWS: Mutex<Vec<(Priority, Arc<ThreadPool>)>> = Mutex::new(Vec::new());
    let mut crews = CREWS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, crew)) = crews.iter().find(|(of, _)| *of == priority) {
        return Ok(Arc::clone(crew));
    }
    let builder = ThreadPoolBuilder::new().spawn_handler(move |thread| {
        let work = move || {
            if priority > Priority::of_this_thread() {
                priority.take();
            }
            thread.run();
        };
        start("pelton-worker".to_owned(), work).map(drop)
    });
    let crew = builder.build().map_err(|error| Error::unsupported(format!("starting workers: {error}")))?;
    let crew = Arc::new(crew);
    crews.push((priority, Arc::clone(&crew)));
    Ok(crew)
}
