//! Reads through io_uring: one thread owns the ring.
//!
//! ```text
//!   submit ──queue──► waiting requests ──pieces of <= 1 MiB──► ring (<= depth in flight)
//!      └─a byte down a pipe, whose read is always in the ring, wakes the thread
//!   completion: short -> the rest again; EINTR, EAGAIN -> again; EINVAL past the page cache -> through it;
//!               last piece of a request -> its caller is answered
//! ```
//!
//! Safety rests on one invariant: a request stays in `requests`, with its buffer and its open file,
//! until every piece of it that the kernel was given has come back.

#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, TryRecvError, unbounded};
use io_uring::{IoUring, Probe, opcode, squeue, types};
use pelton_error::Error;
use rustix::io::Errno;

use crate::ALIGNMENT;
use crate::engine::Shared;
use crate::request::Request;

/// The most one entry of the ring reads; larger requests are cut, so that all of them progress.
const PIECE_BYTES_MAX: usize = 1 << 20;
/// `user_data` of the read on the wake pipe; pieces are numbered from 0.
const WAKE: u64 = u64::MAX;

/// The callers' side.
pub(super) struct Ring {
    /// `None` once shutting down.
    queue: Option<Sender<Request>>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

struct Waker {
    pipe: PipeWriter,
    /// A byte is in the pipe and has not been read: another would say nothing new.
    pending: AtomicBool,
}

impl Waker {
    fn wake(&self) {
        if !self.pending.swap(true, Ordering::AcqRel) {
            // The pipe holds at most this one byte, so the write cannot block; it fails only when the
            // thread is gone, and then its queue says so.
            let _ = (&self.pipe).write(&[1]);
        }
    }
}

impl Ring {
    /// Sets the ring up and starts its thread.
    pub(super) fn start(depth: u32, shared: &Arc<Shared>) -> io::Result<Self> {
        let ring = IoUring::new((depth + 1).next_power_of_two())?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Read::CODE) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the kernel's io_uring has no read"));
        }
        let (pipe_reader, pipe) = io::pipe()?;
        let waker = Arc::new(Waker { pipe, pending: AtomicBool::new(false) });
        let (queue, arrivals) = unbounded();
        let ring_loop = RingLoop {
            ring,
            depth: depth as usize,
            arrivals,
            waker: Arc::clone(&waker),
            pipe_reader,
            wake_bytes: Box::new([0; 16]),
            wake_armed: false,
            requests: Vec::new(),
            free_slots: Vec::new(),
            waiting: VecDeque::new(),
            retries: VecDeque::new(),
            pieces: Vec::new(),
            free_pieces: Vec::new(),
            in_flight: 0,
            shared: Arc::clone(shared),
        };
        let thread =
            std::thread::Builder::new().name("pelton-read".into()).spawn(move || ring_loop.serve())?;
        Ok(Self { queue: Some(queue), waker, thread: Some(thread) })
    }

    pub(super) fn submit(&self, request: Request) {
        let queue = self.queue.as_ref().expect("it is taken only in drop");
        // A closed queue drops the request, and its future says that the engine is gone.
        let _ = queue.send(request);
        self.waker.wake();
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.queue = None;
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A panic in it has answered its callers by dropping their requests.
            let _ = thread.join();
        }
    }
}

/// A request the ring works on.
struct Active {
    request: Request,
    /// Bytes given out as pieces so far, from the start of the buffer.
    issued: usize,
    /// Pieces given out and not finished.
    pending: usize,
    error: Option<Error>,
}

/// A part of a request's buffer: `start..end`.
#[derive(Clone, Copy)]
struct Piece {
    slot: usize,
    start: usize,
    end: usize,
    direct: bool,
}

/// The thread's side. `requests` and `pieces` are slabs: a free entry is `None` and listed.
struct RingLoop {
    ring: IoUring,
    depth: usize,
    arrivals: Receiver<Request>,
    waker: Arc<Waker>,
    pipe_reader: PipeReader,
    /// Boxed, so that it stays where the kernel writes to.
    wake_bytes: Box<[u8; 16]>,
    wake_armed: bool,
    requests: Vec<Option<Active>>,
    free_slots: Vec<usize>,
    /// Slots with bytes not yet given out, first come first served.
    waiting: VecDeque<usize>,
    /// Pieces to be given to the kernel again.
    retries: VecDeque<Piece>,
    pieces: Vec<Option<Piece>>,
    free_pieces: Vec<usize>,
    /// Pieces the kernel has.
    in_flight: usize,
    shared: Arc<Shared>,
}

impl RingLoop {
    fn serve(mut self) {
        loop {
            let is_closed = self.take_arrivals();
            if is_closed {
                return; // drop waits for what the kernel has
            }
            self.arm_wake();
            self.fill_ring();
            if let Err(error) = self.ring.submit_and_wait(1)
                && !is_transient(&error)
            {
                return;
            }
            self.reap();
        }
    }

    /// Moves the queue into slots; true where the engine is being dropped.
    fn take_arrivals(&mut self) -> bool {
        loop {
            match self.arrivals.try_recv() {
                Ok(request) => self.admit(request),
                Err(TryRecvError::Empty) => return false,
                Err(TryRecvError::Disconnected) => return true,
            }
        }
    }

    fn admit(&mut self, request: Request) {
        let issued = request.filled;
        let active = Some(Active { request, issued, pending: 0, error: None });
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.requests.push(None);
            self.requests.len() - 1
        });
        self.requests[slot] = active;
        self.waiting.push_back(slot);
    }

    fn arm_wake(&mut self) {
        if self.wake_armed {
            return;
        }
        let fd = types::Fd(self.pipe_reader.as_raw_fd());
        let entry = opcode::Read::new(fd, self.wake_bytes.as_mut_ptr(), self.wake_bytes.len() as u32);
        // SAFETY: The pipe and the boxed bytes are owned by `self`, which drop keeps until the kernel has
        // returned or cancelled this read.
        unsafe { push(&mut self.ring, &entry.build().user_data(WAKE)) };
        self.wake_armed = true;
    }

    fn fill_ring(&mut self) {
        while self.in_flight < self.depth {
            let Some(piece) = self.next_piece() else { return };
            self.issue(piece);
        }
    }

    /// The next bytes to ask for: what must be asked again first, then requests in order.
    fn next_piece(&mut self) -> Option<Piece> {
        if let Some(piece) = self.retries.pop_front() {
            return Some(piece);
        }
        while let Some(&slot) = self.waiting.front() {
            let active = self.requests[slot].as_mut().expect("a waiting slot is taken");
            let total = active.request.total();
            if active.pending == 0 && active.request.is_abandoned() || active.issued >= total {
                self.waiting.pop_front();
                if active.pending == 0 {
                    self.finish(slot);
                }
                continue;
            }
            let (start, end) = (active.issued, total.min(active.issued + PIECE_BYTES_MAX));
            active.issued = end;
            active.pending += 1;
            let direct = active.request.direct;
            if end == total {
                self.waiting.pop_front();
            }
            return Some(Piece { slot, start, end, direct });
        }
        None
    }

    fn issue(&mut self, piece: Piece) {
        self.shared.throttle(piece.end - piece.start);
        let index = self.free_pieces.pop().unwrap_or_else(|| {
            self.pieces.push(None);
            self.pieces.len() - 1
        });
        self.pieces[index] = Some(piece);
        let request = &self.requests[piece.slot].as_ref().expect("a piece's slot is taken").request;
        assert!(piece.end <= request.buffer.capacity());
        let file = match piece.direct {
            true => request.file.direct().expect("checked when asked for"),
            false => request.file.buffered(),
        };
        // SAFETY: `start` is within the buffer's capacity, asserted above.
        let target = unsafe { request.buffer.start().as_ptr().add(piece.start) };
        let entry = opcode::Read::new(types::Fd(file.as_raw_fd()), target, (piece.end - piece.start) as u32)
            .offset(request.byte_offset + piece.start as u64)
            .build()
            .user_data(index as u64);
        // SAFETY: The buffer and the file belong to the request, which stays in its slot while pieces are
        // pending (the module's invariant); pieces of one request do not overlap.
        unsafe { push(&mut self.ring, &entry) };
        self.in_flight += 1;
    }

    fn reap(&mut self) {
        while let Some(entry) = { self.ring.completion().next() } {
            if entry.user_data() == WAKE {
                self.wake_armed = false;
                self.waker.pending.store(false, Ordering::Release);
                continue;
            }
            let index = entry.user_data() as usize;
            let piece = self.pieces[index].take().expect("a piece completes once");
            self.free_pieces.push(index);
            self.in_flight -= 1;
            self.complete(piece, entry.result());
        }
    }

    fn complete(&mut self, piece: Piece, result: i32) {
        let active = self.requests[piece.slot].as_mut().expect("a piece's slot is taken");
        let at = active.request.byte_offset + piece.start as u64;
        match result {
            0 if piece.start < active.request.needed() => active.error = Some(active.request.ended(at)),
            0 => {}
            bytes if bytes > 0 => {
                let bytes = bytes as usize;
                active.request.tally.count(piece.direct, bytes);
                let rest = Piece {
                    start: piece.start + bytes,
                    direct: piece.direct && bytes.is_multiple_of(ALIGNMENT),
                    ..piece
                };
                if rest.start < rest.end.min(active.request.needed()) {
                    return self.retries.push_back(rest);
                }
            }
            refusal => {
                let error = io::Error::from_raw_os_error(-refusal);
                if is_transient(&error) {
                    return self.retries.push_back(piece);
                }
                if piece.direct && -refusal == Errno::INVAL.raw_os_error() {
                    self.shared.refuse_direct(&active.request.file, &error.to_string());
                    active.request.direct = false;
                    let end = piece.end.min(active.request.needed());
                    return self.retries.push_back(Piece { direct: false, end, ..piece });
                }
                active.error = Some(active.request.failed(at, error));
            }
        }
        active.pending -= 1;
        if active.error.is_some() {
            active.issued = usize::MAX;
        }
        if active.pending == 0 && active.issued >= active.request.total() {
            self.waiting.retain(|&slot| slot != piece.slot);
            self.finish(piece.slot);
        }
    }

    /// Frees the slot and answers; the kernel has nothing of this request any more.
    fn finish(&mut self, slot: usize) {
        let active = self.requests[slot].take().expect("a slot is finished once");
        assert_eq!(active.pending, 0);
        self.free_slots.push(slot);
        active.request.answer(active.error.map_or(Ok(()), Err));
    }
}

impl Drop for RingLoop {
    /// Waits until the kernel has given back every buffer. Where it will not even say, the buffers are
    /// leaked: it may still write to them.
    fn drop(&mut self) {
        while self.in_flight > 0 {
            match self.ring.submit_and_wait(1) {
                Err(error) if !is_transient(&error) => {
                    self.requests.drain(..).flatten().for_each(|active| active.request.leak());
                    break;
                }
                _ => self.reap(),
            }
            self.retries.clear();
        }
        if self.wake_armed {
            // The read on the pipe may outlive the ring by a moment; its 16 bytes are left to it.
            std::mem::forget(std::mem::replace(&mut self.wake_bytes, Box::new([0; 16])));
        }
    }
}

/// Worth trying again.
fn is_transient(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INTR | Errno::AGAIN | Errno::BUSY))
}

/// Puts an entry into the submission queue.
///
/// # Safety
///
/// What `entry` points to must stay valid until its completion has been reaped.
unsafe fn push(ring: &mut IoUring, entry: &squeue::Entry) {
    // SAFETY: The caller's promise. There is room: the ring has more entries than `depth` + 1.
    unsafe { ring.submission().push(entry) }.expect("the submission queue has room for depth + 1 entries");
}
