//! Host memory in whole pages, from the operating system.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::ptr;

use pelton_error::{Error, ErrorKind, Result, Tier};
use rustix::mm::{self, Advice, MapFlags, MprotectFlags, ProtFlags};

use crate::backend::RawMemory;
use crate::page_lock::HOST_PAGE_BYTES;
use crate::place::NodeId;

/// From this size on huge pages are asked for: fewer TLB misses, and page-locking is faster.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Kernels read so many bytes at once, aligned.
const GUARD_BYTES: usize = 16;

/// Anonymous pages, unmapped on drop.
#[derive(Debug)]
pub(crate) struct Mapped {
    address: *mut c_void,
    bytes: usize,
}

// SAFETY: the pages belong to the process, not to the thread that mapped them, and the type offers no access.
unsafe impl Send for Mapped {}

impl Mapped {
    /// Maps `bytes`, bound to `node` if one is named.
    pub(crate) fn new(bytes: usize, node: Option<NodeId>) -> Result<Self> {
        let length = mapped_length(bytes);
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches no memory of ours.
        let address = unsafe {
            mm::mmap_anonymous(ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        }
        .map_err(|errno| {
            let kind = ErrorKind::OutOfMemory {
                tier: Tier::Host,
                requested_bytes: bytes as u64,
                available_bytes: 0,
            };
            Error::new(kind, format!("host memory: mapping {bytes} bytes; free some or raise the limit"))
                .with_source(std::io::Error::from(errno))
        })?;
        let mapped = Self { address, bytes };
        if length >= HUGE_PAGE_BYTES {
            // SAFETY: the range is the mapping just made. Refusal only costs speed.
            let _ = unsafe { mm::madvise(address, length, Advice::LinuxHugepage) };
        }
        if let Some(node) = node {
            bind(address, length, node)?;
        }
        Ok(mapped)
    }

    /// Gives ownership up; [`from_raw`](Self::from_raw) takes it again.
    pub(crate) fn into_raw(self) -> RawMemory {
        let raw = RawMemory { address: self.address as u64, bytes: self.bytes, holds_bytes: true };
        std::mem::forget(self);
        raw
    }

    /// Takes ownership of what [`into_raw`](Self::into_raw) gave.
    ///
    /// # Safety
    ///
    /// `raw` comes from `into_raw` and is given once.
    pub(crate) unsafe fn from_raw(raw: RawMemory) -> Self {
        Self { address: raw.address as *mut c_void, bytes: raw.bytes }
    }

    /// Where it starts.
    pub(crate) fn address(&self) -> u64 {
        self.address as u64
    }

    /// Its bytes rounded up to what is mapped.
    pub(crate) fn mapped_bytes(&self) -> usize {
        mapped_length(self.bytes)
    }

    /// True if `bytes` would take as many pages.
    pub(crate) fn is_length_of(&self, bytes: usize) -> bool {
        self.mapped_bytes() == mapped_length(bytes)
    }

    /// The same pages, said to be `bytes`.
    pub(crate) fn resized(mut self, bytes: usize) -> Self {
        assert!(self.is_length_of(bytes), "pages are reused, not grown");
        self.bytes = bytes;
        self
    }

    /// Touches every page, so that each has memory behind it, on several cores if there is much.
    pub(crate) fn populate(&self) {
        let bytes = self.mapped_bytes();
        let start = self.address as usize;
        // SAFETY: in bounds of the mapping, which nobody else knows yet.
        let touch = move |offset: usize| unsafe { ((start + offset) as *mut u8).write_volatile(0) };
        let touch_all = move |first: usize, end: usize| {
            (first..end).step_by(HOST_PAGE_BYTES as usize).for_each(touch);
        };
        if bytes <= HUGE_PAGE_BYTES {
            return touch_all(0, bytes);
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let share = bytes.div_ceil(cores.min(16)).next_multiple_of(HUGE_PAGE_BYTES);
        std::thread::scope(|scope| {
            for first in (0..bytes).step_by(share) {
                let end = bytes.min(first + share);
                let spawned = std::thread::Builder::new().spawn_scoped(scope, move || touch_all(first, end));
                if spawned.is_err() {
                    touch_all(first, end);
                }
            }
        });
    }
}

/// Memory of a device of this target: what a kernel reads or writes behind its end is a page that nobody may touch, as
/// on a GPU it may be anything. The end is exact to [`GUARD_BYTES`], which kernels read at once.
pub(crate) fn map_guarded(bytes: usize) -> Result<RawMemory> {
    let whole = Mapped::new(mapped_length(bytes) + HOST_PAGE_BYTES as usize, None)?;
    whole.populate();
    let guard = whole.address() as usize + mapped_length(bytes);
    // SAFETY: the last page of the mapping just made, which nobody else knows yet.
    unsafe { mm::mprotect(guard as *mut c_void, HOST_PAGE_BYTES as usize, MprotectFlags::empty()) }
        .map_err(|errno| Error::io("host memory: protecting a page", errno.into()))?;
    std::mem::forget(whole);
    let address = guard - bytes.next_multiple_of(GUARD_BYTES);
    Ok(RawMemory { address: address as u64, bytes, holds_bytes: true })
}

/// Pages that were used and are kept for whoever needs as many: clearing new ones takes longer than most kernels.
#[derive(Debug)]
pub(crate) struct IdlePages {
    /// The longest kept first.
    kept: VecDeque<Idle>,
    bytes: usize,
    bytes_max: usize,
}

#[derive(Debug)]
struct Idle {
    memory: RawMemory,
    is_guarded: bool,
}

impl IdlePages {
    /// None yet, and `bytes_max` at most.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { kept: VecDeque::new(), bytes: 0, bytes_max }
    }

    /// Memory of `bytes`, with whatever was in it.
    pub(crate) fn take(&mut self, bytes: usize, is_guarded: bool) -> Option<RawMemory> {
        let length = mapped_length(bytes);
        let fits = |idle: &Idle| idle.is_guarded == is_guarded && mapped_length(idle.memory.bytes) == length;
        let place = self.kept.iter().rposition(fits)?;
        let Idle { memory, .. } = self.kept.remove(place).expect("it was just found");
        self.bytes -= length;
        let address = match is_guarded {
            true => guard_of(&memory) - bytes.next_multiple_of(GUARD_BYTES) as u64,
            false => memory.address,
        };
        Some(RawMemory { address, bytes, holds_bytes: true })
    }

    /// Keeps `memory`, and unmaps what there is too much of.
    ///
    /// # Safety
    ///
    /// `memory` comes from [`map_guarded`] if `is_guarded`, else from [`Mapped::into_raw`], is given once, and nobody uses it
    /// any more.
    pub(crate) unsafe fn keep(&mut self, memory: RawMemory, is_guarded: bool) {
        self.bytes += mapped_length(memory.bytes);
        self.kept.push_back(Idle { memory, is_guarded });
        while self.bytes > self.bytes_max {
            let Some(idle) = self.kept.pop_front() else { break };
            self.bytes -= mapped_length(idle.memory.bytes);
            idle.unmap();
        }
    }
}

impl IdlePages {
    /// Unmaps all; false where there was nothing.
    pub(crate) fn give_back(&mut self) -> bool {
        let is_any = !self.kept.is_empty();
        self.kept.drain(..).for_each(Idle::unmap);
        self.bytes = 0;
        is_any
    }
}

impl Drop for IdlePages {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl Idle {
    fn unmap(self) {
        // SAFETY: as `keep` was promised.
        unsafe {
            match self.is_guarded {
                true => unmap_guarded(self.memory),
                false => drop(Mapped::from_raw(self.memory)),
            }
        }
    }
}

/// The address of the page behind guarded memory.
fn guard_of(memory: &RawMemory) -> u64 {
    memory.address + memory.bytes.next_multiple_of(GUARD_BYTES) as u64
}

/// Unmaps what [`map_guarded`] gave.
///
/// # Safety
///
/// `raw` comes from `map_guarded`, is given once, and nobody uses it any more.
unsafe fn unmap_guarded(raw: RawMemory) {
    let guard = guard_of(&raw) as usize;
    let length = mapped_length(raw.bytes);
    drop(Mapped { address: (guard - length) as *mut c_void, bytes: length + HOST_PAGE_BYTES as usize });
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing uses it any more.
        let outcome = unsafe { mm::munmap(self.address, self.mapped_bytes()) };
        debug_assert!(outcome.is_ok(), "unmapping what was mapped");
    }
}

fn mapped_length(bytes: usize) -> usize {
    bytes.max(1).next_multiple_of(HOST_PAGE_BYTES as usize)
}

/// Asks that the pages be taken from `node` (mbind, MPOL_PREFERRED). Where a container forbids it, they come from where
/// they are first touched.
fn bind(address: *mut c_void, bytes: usize, node: NodeId) -> Result<()> {
    const MPOL_PREFERRED: libc::c_ulong = 1;
    let mask: [libc::c_ulong; 16] =
        std::array::from_fn(|word| if word == node.0 as usize / 64 { 1 << (node.0 % 64) } else { 0 });
    let max_node = (mask.len() * 64) as libc::c_ulong;
    // SAFETY: the range is a mapping of ours; the mask outlives the call and is as long as said.
    let status =
        unsafe { libc::syscall(libc::SYS_mbind, address, bytes, MPOL_PREFERRED, mask.as_ptr(), max_node, 0) };
    let error = std::io::Error::last_os_error();
    let is_forbidden = matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS | libc::EINVAL));
    if status != 0 && !is_forbidden {
        return Err(Error::io(format!("{node}: preferring it for {bytes} bytes"), error));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = HOST_PAGE_BYTES as usize;

    fn write_all(memory: &RawMemory, value: u8) {
        // SAFETY: so many bytes there are ours, and nobody else knows them.
        unsafe { ptr::write_bytes(memory.address as *mut u8, value, memory.bytes) };
    }

    #[test]
    fn guarded_pages_serve_again_and_end_where_they_did() {
        let mut idle = IdlePages::new(1 << 20);
        let first = map_guarded(100).unwrap();
        let guard = guard_of(&first);
        write_all(&first, 1);
        // SAFETY: it is guarded, and given once.
        unsafe { idle.keep(first, true) };
        assert!(idle.take(100, false).is_none(), "it was asked for without a guard");
        assert!(idle.take(PAGE + 1, true).is_none(), "it was asked for with more pages");
        let second = idle.take(PAGE, true).expect("as many pages");
        assert_eq!((guard_of(&second), second.bytes), (guard, PAGE));
        write_all(&second, 2);
        assert!(idle.take(100, true).is_none(), "it is in use");
        // SAFETY: as above.
        unsafe { idle.keep(second, true) };
        assert!(idle.give_back());
        assert!(!idle.give_back());
    }

    #[test]
    fn what_is_too_much_is_unmapped_the_longest_kept_first() {
        let mut idle = IdlePages::new(4 * PAGE);
        for pages in [1, 2, 3] {
            let memory = Mapped::new(pages * PAGE, None).unwrap().into_raw();
            // SAFETY: it comes from `into_raw`, and is given once.
            unsafe { idle.keep(memory, false) };
        }
        assert_eq!((idle.bytes, idle.kept.len()), (3 * PAGE, 1));
        let memory = idle.take(3 * PAGE - 7, false).expect("it is the latest");
        write_all(&memory, 3);
        assert_eq!(idle.bytes, 0);
        // SAFETY: as above.
        unsafe { idle.keep(memory, false) };
    }
}
