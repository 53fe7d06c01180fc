//! Rows in memory of a machine: a column of keys and, if there is one, a column of payloads.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use pelton_device::{Machine, MemoryKind, OnFull, Place, Span, Stream};
use pelton_error::{Error, Result};

use crate::key::SortSpec;
use crate::report::LinkBytes;

/// A column of keys and one of payloads, as many of each.
#[derive(Debug, Clone)]
pub struct Rows {
    spec: SortSpec,
    keys: Span,
    payloads: Option<Span>,
}

impl Rows {
    /// Rows of these columns.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if a column is missing, too many, not of whole values, or not as long as the other.
    pub fn new(spec: SortSpec, keys: Span, payloads: Option<Span>) -> Result<Self> {
        let key_bytes = spec.key_bytes();
        if !keys.len().is_multiple_of(key_bytes) {
            return Err(Error::invalid_input(format!("{} bytes are no keys of {key_bytes}", keys.len())));
        }
        let count = keys.len() / key_bytes;
        let expected = count * spec.payload.bytes();
        let found = payloads.as_ref().map_or(0, Span::len);
        if found != expected {
            return Err(Error::invalid_input(format!(
                "{found} bytes of payload for {count} keys, which take {expected}"
            )));
        }
        Ok(Self { spec, keys, payloads: payloads.filter(|_| spec.payload.bytes() > 0) })
    }

    /// Memory for `count` rows; what is in it is unspecified.
    ///
    /// # Errors
    ///
    /// As [`Machine::allocate`].
    pub fn allocate(machine: &Machine, spec: SortSpec, kind: &MemoryKind, count: usize) -> Result<Self> {
        let column = |bytes: usize| {
            machine.allocate(kind.clone(), count * bytes, OnFull::Refuse).map(|buffer| buffer.span())
        };
        let payloads = match spec.payload.bytes() {
            0 => None,
            bytes => Some(column(bytes)?),
        };
        Ok(Self { spec, keys: column(spec.key_bytes())?, payloads })
    }

    /// What they are.
    pub fn spec(&self) -> SortSpec {
        self.spec
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.keys.len() / self.spec.key_bytes()
    }

    /// Their keys.
    pub fn keys(&self) -> &Span {
        &self.keys
    }

    /// Their payloads, if there are any.
    pub fn payloads(&self) -> Option<&Span> {
        self.payloads.as_ref()
    }

    /// The columns that there are.
    pub fn columns(&self) -> impl Iterator<Item = &Span> {
        std::iter::once(&self.keys).chain(&self.payloads)
    }

    /// Rows `range`.
    ///
    /// # Panics
    ///
    /// If there are not as many.
    pub fn slice(&self, range: Range<usize>) -> Rows {
        let of = |span: &Span, bytes: usize| span.slice(range.start * bytes..range.end * bytes);
        Rows {
            spec: self.spec,
            keys: of(&self.keys, self.spec.key_bytes()),
            payloads: self.payloads.as_ref().map(|span| of(span, self.spec.payload.bytes())),
        }
    }

    /// Where they lie, if at one place.
    pub fn place(&self) -> Option<Place> {
        self.keys.kind().home()
    }
}

/// Copies rows, and counts what goes over which link.
#[derive(Debug, Default, Clone)]
pub(crate) struct Traffic {
    bytes: Arc<Mutex<BTreeMap<(Place, Place), u64>>>,
}

impl Traffic {
    /// Enqueues the copy of `source` to `target`, as many rows.
    pub(crate) fn copy(&self, stream: &Stream, source: &Rows, target: &Rows) -> Result<()> {
        for (from, to) in source.columns().zip(target.columns()) {
            stream.copy(from, to)?;
            self.count(from.kind(), to.kind(), from.len());
        }
        Ok(())
    }

    fn count(&self, from: &MemoryKind, to: &MemoryKind, bytes: usize) {
        if let (Some(from), Some(to)) = (from.home(), to.home())
            && from != to
        {
            *self.bytes.lock().unwrap_or_else(PoisonError::into_inner).entry((from, to)).or_default() +=
                bytes as u64;
        }
    }

    /// What went over each link so far.
    pub(crate) fn links(&self) -> Vec<LinkBytes> {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        bytes.iter().map(|((from, to), bytes)| LinkBytes { from: *from, to: *to, bytes: *bytes }).collect()
    }
}
