//! Buffers aligned for direct I/O, and the pool that keeps them warm.
//!
//! A fresh megabyte from the system costs 256 page faults, about as much as reading it from the page
//! cache; so buffers go back to a bounded pool, kept by capacity, and the largest are freed first where
//! the bound would be passed.
//!
//! Capacities are 4 KiB times 4, 5, 6 or 7 times a power of two (or less than 16 KiB), so at most a fifth
//! of a buffer is unused and a scan meets few distinct capacities.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use pelton_error::{Error, ErrorKind, Result, Tier};

use crate::ALIGNMENT;

/// Owned memory at a 4 KiB boundary, all of it initialised. Returns to its pool when dropped.
pub struct AlignedBytes {
    memory: Memory,
    len: usize,
    pool: Option<Arc<BufferPool>>,
}

/// The allocation itself; whoever holds it frees it, by [`Memory::free`].
struct Memory {
    start: NonNull<u8>,
    capacity: usize,
}

// SAFETY: `Memory` is the only owner of its allocation, like a `Box<[u8]>`; it may move between threads.
unsafe impl Send for Memory {}
// SAFETY: Shared references give read access only.
unsafe impl Sync for Memory {}

impl Memory {
    fn allocate(capacity: usize) -> Result<Self> {
        assert!(capacity > 0);
        assert!(capacity.is_multiple_of(ALIGNMENT));
        let layout = Layout::from_size_align(capacity, ALIGNMENT).map_err(|_| no_memory(capacity))?;
        // SAFETY: The layout has a size above zero.
        let start = unsafe { alloc_zeroed(layout) };
        NonNull::new(start).map(|start| Self { start, capacity }).ok_or_else(|| no_memory(capacity))
    }

    fn free(self) {
        let layout =
            Layout::from_size_align(self.capacity, ALIGNMENT).expect("it was allocated with this layout");
        // SAFETY: `start` came from `alloc_zeroed` with this layout, and `self` is consumed.
        unsafe { dealloc(self.start.as_ptr(), layout) }
    }
}

fn no_memory(requested: usize) -> Error {
    let kind =
        ErrorKind::OutOfMemory { tier: Tier::Host, requested_bytes: requested as u64, available_bytes: 0 };
    Error::new(kind, format!("no memory for a read buffer of {requested} bytes"))
}

impl AlignedBytes {
    /// `len` zero bytes outside any pool.
    pub fn zeroed(len: usize) -> Result<Self> {
        Ok(Self { memory: Memory::allocate(capacity_for(len))?, len, pool: None })
    }

    /// Bytes that may be written, at least `len` and a multiple of 4 KiB.
    pub(super) fn capacity(&self) -> usize {
        self.memory.capacity
    }

    /// The whole capacity, for filling.
    pub fn whole_mut(&mut self) -> &mut [u8] {
        // SAFETY: The allocation has `capacity` initialised bytes, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.memory.start.as_ptr(), self.memory.capacity) }
    }

    /// Where the bytes start, for a read the kernel completes later. The memory stays where it is
    /// however often the `AlignedBytes` moves.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.memory.start
    }
}

impl Deref for AlignedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        assert!(self.len <= self.memory.capacity);
        // SAFETY: The allocation has `capacity >= len` initialised bytes and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.memory.start.as_ptr(), self.len) }
    }
}

impl AsRef<[u8]> for AlignedBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::fmt::Debug for AlignedBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBytes({} bytes)", self.len)
    }
}

impl Drop for AlignedBytes {
    fn drop(&mut self) {
        let memory = Memory { start: self.memory.start, capacity: self.memory.capacity };
        match self.pool.take() {
            Some(pool) => pool.put(memory),
            None => memory.free(),
        }
    }
}

/// Free buffers by capacity, `bytes_max` of them at most.
pub(super) struct BufferPool {
    bytes_max: usize,
    free: Mutex<FreeBuffers>,
}

#[derive(Default)]
struct FreeBuffers {
    bytes: usize,
    by_capacity: BTreeMap<usize, Vec<Memory>>,
}

impl BufferPool {
    pub(super) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, free: Mutex::default() })
    }

    /// A buffer of `len` bytes whose contents are whatever was read into it last.
    pub(super) fn take(self: &Arc<Self>, len: usize) -> Result<AlignedBytes> {
        let capacity = capacity_for(len);
        let kept = self.lock().take(capacity);
        let memory = kept.map_or_else(|| Memory::allocate(capacity), Ok)?;
        Ok(AlignedBytes { memory, len, pool: Some(Arc::clone(self)) })
    }

    fn put(&self, memory: Memory) {
        if memory.capacity > self.bytes_max {
            return memory.free();
        }
        let mut free = self.lock();
        while free.bytes + memory.capacity > self.bytes_max {
            free.take_largest().free();
        }
        free.bytes += memory.capacity;
        free.by_capacity.entry(memory.capacity).or_default().push(memory);
    }

    #[cfg(test)]
    fn free_bytes(&self) -> usize {
        self.lock().bytes
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, FreeBuffers> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FreeBuffers {
    fn take(&mut self, capacity: usize) -> Option<Memory> {
        let memory = self.by_capacity.get_mut(&capacity)?.pop()?;
        self.bytes -= capacity;
        Some(memory)
    }

    fn take_largest(&mut self) -> Memory {
        let capacity = self
            .by_capacity
            .iter()
            .rev()
            .find_map(|(&capacity, list)| (!list.is_empty()).then_some(capacity))
            .expect("bytes are held, so a buffer is");
        self.take(capacity).expect("its list is not empty")
    }
}

impl Drop for BufferPool {
    fn drop(&mut self) {
        let free = std::mem::take(&mut *self.lock());
        free.by_capacity.into_values().flatten().for_each(Memory::free);
    }
}

/// The smallest capacity of the ladder that holds `len`.
fn capacity_for(len: usize) -> usize {
    let pages = len.div_ceil(ALIGNMENT).max(1);
    let step = (pages.next_power_of_two() / 8).max(1);
    pages.next_multiple_of(step) * ALIGNMENT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacities_hold_the_length_and_waste_a_fifth_at_most() {
        for len in (0..3_000_000).step_by(997) {
            let capacity = capacity_for(len);
            assert!(capacity >= len && capacity.is_multiple_of(ALIGNMENT));
            assert!(len < 16 * 1024 || capacity - len <= capacity / 5 + ALIGNMENT, "{len} in {capacity}");
        }
    }

    #[test]
    fn buffers_are_aligned_zeroed_and_as_long_as_asked() {
        for len in [0, 1, 4096, 4097, 100_000] {
            let bytes = AlignedBytes::zeroed(len).unwrap();
            assert_eq!(bytes.len(), len);
            assert!(bytes.start().addr().get().is_multiple_of(ALIGNMENT));
            assert!(bytes.iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn pool_reuses_and_stays_within_its_bound() {
        let pool = BufferPool::new(64 * 1024);
        let first = pool.take(30_000).unwrap();
        let start = first.start();
        drop(first);
        assert_eq!(pool.take(30_000).unwrap().start(), start);
        let many: Vec<_> = (0..10).map(|_| pool.take(20_000).unwrap()).collect();
        drop(many);
        drop(pool.take(1 << 20).unwrap());
        assert!(pool.free_bytes() <= 64 * 1024);
        assert!(pool.free_bytes() > 0);
    }
}
