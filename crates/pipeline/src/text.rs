//! Dictionaries: text columns that have one are numbers of entries inside kernels. (Of others kernels read the bytes:
//! `codegen/text.rs`.)

use std::fmt;
use std::sync::{Arc, OnceLock};

use pelton_chunk::ByteValues;
use pelton_error::Result;

/// The distinct values of a text column. Entry *i* is the text that the number *i* stands for; no two are equal.
#[derive(Debug, Clone, Default)]
pub struct Dictionary {
    /// The entries.
    pub entries: ByteValues,
    /// Whether they are in order, once somebody has asked: of a million entries that takes longer than most kernels.
    is_sorted: OnceLock<bool>,
}

impl Dictionary {
    /// A dictionary of these entries, no two of which are equal.
    pub fn new(entries: ByteValues) -> Self {
        Self { entries, is_sorted: OnceLock::new() }
    }

    /// A dictionary of one entry.
    pub(crate) fn of_one(entry: &[u8]) -> Self {
        let mut entries = ByteValues::default();
        entries.push(entry).expect("one short entry has room");
        Self::new(entries)
    }

    /// Whether the numbers of entries are in the order of the texts.
    pub(crate) fn is_sorted(&self) -> bool {
        *self.is_sorted.get_or_init(|| self.entries.iter().is_sorted())
    }
}

impl PartialEq for Dictionary {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
    }
}

impl Eq for Dictionary {}

/// Where a text column's dictionary comes from, when it is needed.
pub trait TextSource: fmt::Debug + Send + Sync {
    /// The whole dictionary. The first call may read files; later ones answer at once.
    ///
    /// # Errors
    ///
    /// Of reading; `Unsupported` for a column that is not stored by dictionary.
    fn dictionary(&self) -> Result<Arc<Dictionary>>;
}

/// A dictionary that is there already.
impl TextSource for Dictionary {
    fn dictionary(&self) -> Result<Arc<Dictionary>> {
        Ok(Arc::new(self.clone()))
    }
}
