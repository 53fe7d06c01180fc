//! Rows in memory of a machine: a column of keys and a column of values, words of one width.

use std::ops::Range;

use pelton_device::{DeviceId, Machine, MemoryKind, OnFull, Span, Stream};
use pelton_error::{Error, Result};

/// As many keys as values.
#[derive(Debug, Clone)]
pub struct Rows {
    keys: Span,
    values: Span,
    width_bytes: usize,
}

impl Rows {
    /// Rows of these columns, words of `width_bytes` bytes.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the width is neither 4 nor 8, or columns are not of as many whole words.
    pub fn new(keys: Span, values: Span, width_bytes: usize) -> Result<Self> {
        if width_bytes != 4 && width_bytes != 8 {
            return Err(Error::invalid_input(format!("keys of {width_bytes} bytes; take 4 or 8")));
        }
        if keys.len() != values.len() || !keys.len().is_multiple_of(width_bytes) {
            return Err(Error::invalid_input(format!(
                "{} bytes of keys and {} of values are not as many words of {width_bytes}",
                keys.len(),
                values.len()
            )));
        }
        Ok(Self { keys, values, width_bytes })
    }

    /// Memory for `count` rows; what is in it is unspecified.
    ///
    /// # Errors
    ///
    /// As [`Machine::allocate`].
    pub fn allocate(machine: &Machine, kind: &MemoryKind, count: usize, width_bytes: usize) -> Result<Self> {
        let column = || {
            machine.allocate(kind.clone(), count * width_bytes, OnFull::Refuse).map(|buffer| buffer.span())
        };
        Self::new(column()?, column()?, width_bytes)
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.keys.len() / self.width_bytes
    }

    /// Bytes of a key, and of a value.
    pub fn width_bytes(&self) -> usize {
        self.width_bytes
    }

    /// Their keys.
    pub fn keys(&self) -> &Span {
        &self.keys
    }

    /// Their values.
    pub fn values(&self) -> &Span {
        &self.values
    }

    /// Bytes of both columns.
    pub fn bytes(&self) -> u64 {
        (self.keys.len() + self.values.len()) as u64
    }

    /// Rows `range`.
    ///
    /// # Panics
    ///
    /// If there are not as many.
    pub fn slice(&self, range: Range<usize>) -> Rows {
        let bytes = range.start * self.width_bytes..range.end * self.width_bytes;
        Rows {
            keys: self.keys.slice(bytes.clone()),
            values: self.values.slice(bytes),
            width_bytes: self.width_bytes,
        }
    }

    /// True if both columns are in memory of `device`.
    pub(crate) fn is_on(&self, device: DeviceId) -> bool {
        [&self.keys, &self.values].into_iter().all(|column| is_on(column, device))
    }

    /// True if the host reads both columns.
    pub(crate) fn is_host_visible(&self) -> bool {
        self.keys.kind().is_host_visible() && self.values.kind().is_host_visible()
    }

    /// Enqueues the copy to `target`, as many rows.
    pub(crate) fn copy_to(&self, stream: &Stream, target: &Rows) -> Result<()> {
        stream.copy(&self.keys, &target.keys)?;
        stream.copy(&self.values, &target.values)
    }
}

pub(crate) fn is_on(span: &Span, device: DeviceId) -> bool {
    span.is_empty() || *span.kind() == MemoryKind::Device(device)
}

/// What becomes of matches.
#[derive(Debug, Clone)]
pub enum Target {
    /// They are counted, and the products of their values added up, modulo 2^64.
    Sum,
    /// The values of the build and of the probe side are written, each match at one place, in any order, as many as there
    /// is room for. The report has the number of all: where it is greater than the room, join again with as much.
    Pairs {
        /// Values of the build side.
        build_values: Span,
        /// Values of the probe side.
        probe_values: Span,
    },
}

impl Target {
    /// Room for pairs.
    pub(crate) fn check(&self, width_bytes: usize) -> Result<()> {
        if let Target::Pairs { build_values, probe_values } = self {
            Rows::new(build_values.clone(), probe_values.clone(), width_bytes)?;
        }
        Ok(())
    }

    /// The same with sides that have changed places.
    pub(crate) fn swapped(&self) -> Target {
        match self {
            Target::Sum => Target::Sum,
            Target::Pairs { build_values, probe_values } => {
                Target::Pairs { build_values: probe_values.clone(), probe_values: build_values.clone() }
            }
        }
    }
}
