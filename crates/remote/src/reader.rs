//! An object as a file that is read, and sought in.

use std::io::{Error, ErrorKind, Read, Result, Seek, SeekFrom};

use crate::objects::Object;
use crate::pieces::Pieces;

/// The first request of a reader: enough for a header, little enough to be at once.
const FIRST_BYTES: u64 = 256 << 10;

/// Reads an object from its start; see [`Pieces`] for what is held.
#[derive(Debug)]
pub struct ObjectReader {
    pieces: Pieces,
    position: u64,
}

impl ObjectReader {
    /// At the start of `object`. Nothing is asked for yet.
    pub fn new(object: Object) -> Self {
        let end = object.bytes();
        Self { pieces: Pieces::new(object, 0..end, FIRST_BYTES, Pieces::PIECE_BYTES_MAX), position: 0 }
    }
}

impl Read for ObjectReader {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let bytes = self.pieces.some_blocking(self.position, buffer.len()).map_err(to_io)?;
        buffer[..bytes.len()].copy_from_slice(&bytes);
        self.position += bytes.len() as u64;
        Ok(bytes.len())
    }
}

impl Seek for ObjectReader {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        let end = self.pieces.range().end;
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(offset) => end.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        let before = || Error::new(ErrorKind::InvalidInput, "a position before the start of the object");
        self.position = position.ok_or_else(before)?;
        Ok(self.position)
    }
}

/// Our error within one of the standard library, from which [`pelton_error::Error`] can be taken again.
fn to_io(error: pelton_error::Error) -> Error {
    Error::new(ErrorKind::ConnectionAborted, error)
}
