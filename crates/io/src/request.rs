//! One read, from when it is asked for until its bytes are answered.

use std::io::IoSliceMut;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use futures::channel::oneshot;
use pelton_error::{Error, Result};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use crate::ALIGNMENT;
use crate::buffer::AlignedBytes;
use crate::engine::{Shared, Tally};
use crate::file::OpenFile;

/// Owns the buffer, keeps the file open, and knows whom to answer.
pub(super) struct Request {
    pub(super) file: Arc<OpenFile>,
    pub(super) byte_offset: u64,
    /// What the caller asked for.
    len: usize,
    pub(super) buffer: AlignedBytes,
    /// Bytes already in the buffer, from its start.
    pub(super) filled: usize,
    pub(super) direct: bool,
    pub(super) tally: Arc<Tally>,
    reply: oneshot::Sender<Result<AlignedBytes>>,
}

impl Request {
    pub(super) fn new(
        file: Arc<OpenFile>,
        byte_offset: u64,
        len: usize,
        buffer: AlignedBytes,
        direct: bool,
        tally: Arc<Tally>,
        reply: oneshot::Sender<Result<AlignedBytes>>,
    ) -> Self {
        assert!(buffer.capacity() >= len.next_multiple_of(ALIGNMENT));
        Self { file, byte_offset, len, buffer, filled: 0, direct, tally, reply }
    }

    /// Bytes to read: what was asked for, in whole pages where the page cache is passed by.
    pub(super) fn total(&self) -> usize {
        if self.direct { self.len.next_multiple_of(ALIGNMENT) } else { self.len }
    }

    /// The bytes asked for; reading may end here although `total` is more (the last page of a file).
    pub(super) fn needed(&self) -> usize {
        self.len
    }

    /// Nobody waits for it any more.
    pub(super) fn is_abandoned(&self) -> bool {
        self.reply.is_canceled()
    }

    /// Copies what lies in the page cache, without waiting for the disk; true where that was everything.
    pub(super) fn take_from_page_cache(&mut self) -> bool {
        while self.filled < self.len {
            let target = &mut self.buffer.whole_mut()[self.filled..self.len];
            let at = self.byte_offset + self.filled as u64;
            match preadv2(self.file.buffered(), &mut [IoSliceMut::new(target)], at, ReadWriteFlags::NOWAIT) {
                Ok(0) => break,
                Ok(bytes) => {
                    self.filled += bytes;
                    self.tally.count_cached(bytes);
                }
                Err(Errno::INTR) => {}
                // Not in the cache, or a file system that cannot say.
                Err(_) => break,
            }
        }
        self.filled == self.len
    }

    /// Reads the rest, waiting for the disk.
    pub(super) fn read_blocking(&mut self, shared: &Shared) -> Result<()> {
        shared.throttle(self.total() - self.filled);
        while self.filled < self.len {
            self.direct &= self.filled.is_multiple_of(ALIGNMENT);
            let (total, at) = (self.total(), self.byte_offset + self.filled as u64);
            let file = if self.direct {
                self.file.direct().expect("checked when asked for")
            } else {
                self.file.buffered()
            };
            match file.read_at(&mut self.buffer.whole_mut()[self.filled..total], at) {
                Ok(0) => return Err(self.ended(at)),
                Ok(bytes) => {
                    self.filled += bytes;
                    self.tally.count(self.direct, bytes);
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if self.direct && error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                    shared.refuse_direct(&self.file, &error.to_string());
                    self.direct = false;
                }
                Err(error) => return Err(self.failed(at, error)),
            }
        }
        Ok(())
    }

    /// The file ended before the bytes did.
    pub(super) fn ended(&self, at: u64) -> Error {
        let bytes_now = self.file.buffered().metadata().map_or(at, |file| file.len());
        Error::corrupt(format!(
            "{} has {bytes_now} bytes and had {} when it was opened; it was truncated: restore it from a copy or write it \
             anew",
            self.file.path().display(),
            self.file.bytes()
        ))
    }

    /// The operating system refused.
    pub(super) fn failed(&self, at: u64, error: std::io::Error) -> Error {
        Error::io(format!("reading {} at byte {at}", self.file.path().display()), error)
    }

    /// The filled buffer.
    pub(super) fn into_buffer(self) -> AlignedBytes {
        self.buffer
    }

    /// Tells the caller that the engine is gone and leaves the buffer to a kernel that may still write to it.
    pub(super) fn leak(self) {
        let Self { buffer, file, .. } = self;
        std::mem::forget((buffer, file));
    }

    /// Answers with the buffer or the error; a caller that left is no error.
    pub(super) fn answer(self, result: Result<()>) {
        let Self { buffer, reply, .. } = self;
        let _ = reply.send(result.map(|()| buffer));
    }
}
