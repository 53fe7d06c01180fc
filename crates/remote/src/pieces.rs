//! A range of an object in pieces, of which some are on their way before they are asked for.
//!
//! ```text
//!   object  ....[────────────── range ──────────────]....
//!   pieces       held │ on the way │ on the way │ not yet
//!                  ▲ last read; what lies before the piece in front of it is let go
//! ```
//!
//! The first piece is as large as the caller says, each next one twice as large up to [`Pieces::PIECE_BYTES_MAX`];
//! the more pieces were read one after the other, the more are on their way, up to `AHEAD_MAX`. A jump starts over.
//! Bound: `AHEAD_MAX` pieces and the two last read.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use pelton_error::Result;

use crate::named::PIECE_BYTES;
use crate::objects::{Object, Pending};

/// Pieces on their way at once.
const AHEAD_MAX: usize = 4;

/// Reads a range of an object mostly from front to back.
#[derive(Debug)]
pub struct Pieces {
    object: Object,
    /// What may be read.
    range: Range<u64>,
    /// Neighbours, in order.
    pieces: VecDeque<Piece>,
    first_bytes: u64,
    max_bytes: u64,
    /// Bytes of the next piece to begin.
    next_bytes: u64,
    /// Pieces to have on the way.
    ahead: usize,
}

#[derive(Debug)]
struct Piece {
    range: Range<u64>,
    state: State,
}

#[derive(Debug)]
enum State {
    OnTheWay(Option<Pending<Bytes>>),
    Held(Bytes),
}

impl Piece {
    /// Its bytes, waited for. A piece that failed once is asked for again by the next call, through a jump.
    fn bytes_blocking(&mut self) -> Result<Bytes> {
        if let State::OnTheWay(pending) = &mut self.state {
            let pending = pending.take().expect("a piece that failed is dropped");
            self.state = State::Held(pending.wait_blocking()?);
        }
        match &self.state {
            State::Held(bytes) => Ok(bytes.clone()),
            State::OnTheWay(_) => unreachable!("it was just waited for"),
        }
    }
}

impl Pieces {
    /// The largest piece, in bytes.
    pub const PIECE_BYTES_MAX: u64 = PIECE_BYTES;

    /// Of `range` of `object`; the first piece has `first_bytes`, later ones at most `max_bytes`.
    pub fn new(object: Object, range: Range<u64>, first_bytes: u64, max_bytes: u64) -> Self {
        let max_bytes = max_bytes.clamp(1, Self::PIECE_BYTES_MAX);
        let first_bytes = first_bytes.clamp(1, max_bytes);
        Self {
            object,
            range,
            pieces: VecDeque::new(),
            first_bytes,
            max_bytes,
            next_bytes: first_bytes,
            ahead: 1,
        }
    }

    /// The range that may be read.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Starts the first piece, before anything is asked for.
    pub fn begin(&mut self) {
        if self.pieces.is_empty() && !self.range.is_empty() {
            self.begin_piece(self.range.start);
        }
    }

    /// The bytes from `start` to the end of the piece that holds it, at most `length`; none at the end of the range.
    /// Waits.
    ///
    /// # Errors
    ///
    /// Of [`Object::read_blocking`].
    pub fn some_blocking(&mut self, start: u64, length: usize) -> Result<Bytes> {
        if start >= self.range.end || start < self.range.start || length == 0 {
            return Ok(Bytes::new());
        }
        let index = self.piece_at(start);
        let piece = &mut self.pieces[index];
        let skipped = (start - piece.range.start) as usize;
        let bytes = match piece.bytes_blocking() {
            Ok(bytes) => bytes,
            Err(error) => {
                self.pieces.clear();
                return Err(error);
            }
        };
        let end = bytes.len().min(skipped + length);
        Ok(bytes.slice(skipped..end))
    }

    /// The bytes from `start` on, `length` of them or as many as the range has. Waits.
    ///
    /// # Errors
    ///
    /// Of [`Object::read_blocking`].
    pub fn all_blocking(&mut self, start: u64, length: usize) -> Result<Bytes> {
        let first = self.some_blocking(start, length)?;
        if first.len() == length {
            return Ok(first);
        }
        let wanted = (length as u64).min(self.range.end.saturating_sub(start)) as usize;
        let mut whole = BytesMut::with_capacity(wanted);
        whole.extend_from_slice(&first);
        while whole.len() < wanted {
            let next = self.some_blocking(start + whole.len() as u64, wanted - whole.len())?;
            whole.extend_from_slice(&next);
        }
        Ok(whole.freeze())
    }

    /// The index of the piece that holds `start`, which is begun where none does; begins those after it.
    fn piece_at(&mut self, start: u64) -> usize {
        while self.pieces.len() > 1 && self.pieces[1].range.end <= start {
            self.pieces.pop_front();
        }
        let found = self.pieces.iter().position(|piece| piece.range.contains(&start));
        let index = match (found, self.pieces.back().map(|piece| piece.range.end)) {
            (Some(index), _) => index,
            (None, Some(end)) if end == start => {
                self.begin_piece(start);
                self.pieces.len() - 1
            }
            _ => {
                self.pieces.clear();
                (self.next_bytes, self.ahead) = (self.first_bytes, 1);
                self.begin_piece(start);
                0
            }
        };
        if index > 0 && matches!(self.pieces[index].state, State::OnTheWay(_)) {
            self.ahead = (self.ahead + 1).min(AHEAD_MAX);
            self.begin_ahead(index);
        }
        index
    }

    /// Begins pieces until as many follow `index` as are to be on their way.
    fn begin_ahead(&mut self, index: usize) {
        while self.pieces.len() - index <= self.ahead {
            let Some(end) = self.pieces.back().map(|piece| piece.range.end) else { return };
            if end >= self.range.end {
                return;
            }
            self.begin_piece(end);
        }
    }

    fn begin_piece(&mut self, start: u64) {
        let range = start..(start + self.next_bytes).min(self.range.end);
        let pending = self.object.begin(range.clone());
        self.pieces.push_back(Piece { range, state: State::OnTheWay(Some(pending)) });
        self.next_bytes = (self.next_bytes * 2).min(self.max_bytes);
    }
}
