//! Machines to try kernels on, and the way of bytes there and back.

// Every test program uses a part of it.
#![allow(dead_code)]

use std::sync::{Arc, OnceLock};

use pelton_device::{Buffer, DeviceId, Machine, MemoryKind, OnFull, Place, Span, Stream, Work, cuda, host};
use pelton_kernels::{Library, Policy, fill_word};

/// What lies around the span under test; its bytes show writes that go astray.
const GUARD_BYTES: usize = 64;
const GUARD: u8 = 0xA5;

/// A machine, a stream of its first device, and the library if it has use for one.
pub(crate) struct Bench {
    /// For messages.
    pub(crate) name: String,
    pub(crate) library: Option<Arc<Library>>,
    pub(crate) machine: Machine,
    stream: Stream,
}

/// Memory of the device with guards on both sides.
pub(crate) struct Guarded {
    buffer: Buffer,
    /// What is between the guards.
    pub(crate) span: Span,
}

/// Calls `check` for logical devices and, if there are GPUs and the library, for these under every policy.
pub(crate) fn on_every_machine(check: impl Fn(&Bench)) {
    check(&Bench::new("host".into(), host::open(&host::HostOptions::default()), None));
    let Some((machine, library)) = gpus() else { return };
    for policy in Policy::ALL {
        check(&Bench::new(format!("CUDA, {policy:?}"), machine.clone(), Some(library.with_policy(policy))));
    }
}

/// The GPUs and the library, opened once; says on standard error why not.
pub(crate) fn gpus() -> Option<&'static (Machine, Arc<Library>)> {
    static GPUS: OnceLock<Option<(Machine, Arc<Library>)>> = OnceLock::new();
    let open = || {
        let library = Library::open()?;
        Ok((cuda::open(&cuda::CudaOptions::default())?, library))
    };
    let found = GPUS.get_or_init(|| match open() {
        Ok((machine, library)) => {
            eprintln!("kernels: on the host and on {machine:?}, {library:?}");
            Some((machine, library))
        }
        Err(error) => {
            let error: pelton_error::Error = error;
            eprintln!("kernels: SKIPPED on GPUs: {error}");
            None
        }
    });
    found.as_ref()
}

impl Bench {
    fn new(name: String, machine: Machine, library: Option<Arc<Library>>) -> Self {
        let stream = machine.stream(Place::Device(DeviceId(0))).unwrap();
        Self { name, library, machine, stream }
    }

    /// False on a GPU under another policy than the default.
    pub(crate) fn is_default(&self) -> bool {
        self.library.as_ref().is_none_or(|library| library.policy() == Policy::Default)
    }

    pub(crate) fn library(&self) -> Option<&Arc<Library>> {
        self.library.as_ref()
    }

    /// Runs `work` and waits for it.
    pub(crate) fn run(&self, work: Work) {
        self.stream.run(work).unwrap_or_else(|error| panic!("{}: {error}", self.name));
        self.stream.wait_blocking().unwrap_or_else(|error| panic!("{}: {error}", self.name));
    }

    /// `bytes` in device memory, `misaligned` bytes beyond a multiple of 64.
    pub(crate) fn upload(&self, bytes: &[u8], misaligned: usize) -> Guarded {
        let start = GUARD_BYTES + misaligned;
        let mut all = vec![GUARD; start + bytes.len() + GUARD_BYTES];
        all[start..start + bytes.len()].copy_from_slice(bytes);
        let buffer = self.allocate(MemoryKind::Device(DeviceId(0)), all.len());
        let staging = self.allocate(MemoryKind::PINNED, all.len());
        staging.with_bytes_mut(|staging| staging.copy_from_slice(&all)).unwrap();
        self.stream.copy(&staging.span(), &buffer.span()).unwrap();
        self.stream.wait_blocking().unwrap();
        Guarded { span: buffer.slice(start..start + bytes.len()), buffer }
    }

    /// Memory for results, cleared by a kernel.
    pub(crate) fn accumulator(&self, bytes: usize) -> Guarded {
        let accumulator = self.upload(&vec![0xFF; bytes], 0);
        self.run(fill_word(self.library(), accumulator.span.clone(), 0));
        accumulator
    }

    /// Memory of the device whose content is of no use.
    pub(crate) fn scratch(&self, bytes: usize) -> Span {
        self.allocate(MemoryKind::Device(DeviceId(0)), bytes).span()
    }

    /// What is between the guards now; the guards are unharmed.
    pub(crate) fn download(&self, guarded: &Guarded) -> Vec<u8> {
        let staging = self.allocate(MemoryKind::PINNED, guarded.buffer.len());
        self.stream.copy(&guarded.buffer.span(), &staging.span()).unwrap();
        self.stream.wait_blocking().unwrap();
        let all = staging.with_bytes(<[u8]>::to_vec).unwrap();
        let (start, end) = (guarded.span.offset(), guarded.span.offset() + guarded.span.len());
        let is_unharmed = |guard: &[u8]| guard.iter().all(|byte| *byte == GUARD);
        assert!(is_unharmed(&all[..start]), "{}: written before the span", self.name);
        assert!(is_unharmed(&all[end..]), "{}: written behind the span", self.name);
        all[start..end].to_vec()
    }

    /// The bytes of a span that was uploaded; what is around it is unharmed.
    pub(crate) fn bytes_of(&self, span: &Span) -> Vec<u8> {
        self.download(&Guarded { buffer: span.buffer().clone(), span: span.clone() })
    }

    /// The first word of an accumulator.
    pub(crate) fn word(&self, accumulator: &Guarded) -> u64 {
        u64::from_le_bytes(self.download(accumulator)[..8].try_into().unwrap())
    }

    fn allocate(&self, kind: MemoryKind, bytes: usize) -> Buffer {
        self.machine.allocate(kind, bytes, OnFull::Refuse).unwrap()
    }
}
