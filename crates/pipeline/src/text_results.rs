//! Functions of text, evaluated once per dictionary entry and looked up by its number inside kernels.

use std::collections::HashMap;
use std::sync::Arc;

use pelton_chunk::ByteValues;
use pelton_error::{Error, Result};

use crate::codegen::Form;
use crate::ir::{Bounds, TextFunction, TextResults, Type};
use crate::text::Dictionary;

/// The results of one function over one dictionary, as an array in memory.
#[derive(Debug, Clone)]
pub struct Lut {
    name: String,
    source: Arc<Dictionary>,
    pub(crate) ty: Type,
    pub(crate) form: Form,
    pub(crate) bounds: Option<Bounds>,
    /// Of results that are texts.
    pub(crate) dictionary: Option<Arc<Dictionary>>,
    /// One value an entry, in `form`; at least one.
    pub bytes: Vec<u8>,
    /// Whether each is not NULL; `None` where none is.
    pub valid: Option<Vec<u8>>,
}

/// Of the widest results.
const ENTRY_BYTES_MAX: usize = 16;

impl Lut {
    /// The number of the results of `function` over `dictionary` in `luts`, evaluated now if they are new.
    pub(crate) fn find_or_add(
        luts: &mut Vec<Lut>,
        dictionary: &Arc<Dictionary>,
        function: &Arc<dyn TextFunction>,
    ) -> Result<usize> {
        let name = function.name();
        let known = luts.iter().position(|lut| lut.name == name && Arc::ptr_eq(&lut.source, dictionary));
        if let Some(index) = known {
            return Ok(index);
        }
        luts.push(Self::evaluate(name, dictionary, function)?);
        Ok(luts.len() - 1)
    }

    fn evaluate(
        name: String,
        dictionary: &Arc<Dictionary>,
        function: &Arc<dyn TextFunction>,
    ) -> Result<Self> {
        let entries: Vec<&[u8]> = dictionary.entries.iter().collect();
        let results = function.evaluate(&entries)?;
        let mut lut = Self {
            name,
            source: Arc::clone(dictionary),
            ty: function.ty(),
            form: Form::Bool,
            bounds: None,
            dictionary: None,
            bytes: Vec::new(),
            valid: None,
        };
        let count = match results {
            TextResults::Bool(values) => lut.fill(&values, Form::Bool, |value| vec![u8::from(*value)]),
            TextResults::I32(values) => {
                lut.bounds = bounds_of(values.iter().flatten().map(|value| i128::from(*value)));
                lut.fill(&values, Form::I32, |value| value.to_le_bytes().to_vec())
            }
            TextResults::I64(values) => {
                lut.bounds = bounds_of(values.iter().flatten().map(|value| i128::from(*value)));
                lut.fill(&values, Form::I64, |value| value.to_le_bytes().to_vec())
            }
            TextResults::I128(values) => lut.fill(&values, Form::I128, |value| value.to_le_bytes().to_vec()),
            TextResults::F64(values) => lut.fill(&values, Form::F64, |value| value.to_le_bytes().to_vec()),
            TextResults::Text(values) => {
                let (ids, dictionary) = number(&values)?;
                lut.dictionary = Some(Arc::new(dictionary));
                lut.fill(&ids, Form::Id, |id| id.to_le_bytes().to_vec())
            }
        };
        if entries.is_empty() {
            // NULL is read as entry 0, and is told to be NULL elsewhere.
            lut.bytes = vec![0; ENTRY_BYTES_MAX];
            lut.valid = lut.valid.map(|_| vec![0]);
        }
        if count != entries.len() {
            return Err(Error::invalid_input(format!("{count} results for {} texts", entries.len())));
        }
        Ok(lut)
    }

    fn fill<T: Default>(&mut self, values: &[Option<T>], form: Form, bytes: impl Fn(&T) -> Vec<u8>) -> usize {
        self.form = form;
        let nothing = T::default();
        self.bytes = values.iter().flat_map(|value| bytes(value.as_ref().unwrap_or(&nothing))).collect();
        if values.iter().any(Option::is_none) {
            self.valid = Some(values.iter().map(|value| u8::from(value.is_some())).collect());
        }
        values.len()
    }
}

fn bounds_of(values: impl Iterator<Item = i128>) -> Option<Bounds> {
    values
        .map(|value| Bounds { min: value, max: value })
        .reduce(|a, b| Bounds { min: a.min.min(b.min), max: a.max.max(b.max) })
}

/// Numbers the distinct texts, in sorted order.
fn number(values: &[Option<Vec<u8>>]) -> Result<(Vec<Option<u32>>, Dictionary)> {
    let mut distinct: Vec<&[u8]> = values.iter().flatten().map(Vec::as_slice).collect();
    distinct.sort_unstable();
    distinct.dedup();
    let mut entries = ByteValues::default();
    for text in &distinct {
        entries.push(text)?;
    }
    let numbers: HashMap<&[u8], u32> = distinct.iter().zip(0..).map(|(text, id)| (*text, id)).collect();
    let ids = values.iter().map(|value| value.as_deref().map(|text| numbers[text])).collect();
    Ok((ids, Dictionary { entries }))
}
