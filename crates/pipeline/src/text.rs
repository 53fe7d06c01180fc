//! Dictionaries: text columns that have one are numbers of entries inside kernels. (Of others kernels read the bytes:
//! `codegen/text.rs`.)

use std::fmt;
use std::sync::Arc;

use pelton_chunk::ByteValues;
use pelton_error::Result;

/// The distinct values of a text column. Entry *i* is the text that the number *i* stands for; no two are equal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dictionary {
    /// The entries.
    pub entries: ByteValues,
}

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
