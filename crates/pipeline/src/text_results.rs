//! Functions of text, evaluated once per dictionary entry and looked up by its number inside kernels.
//!
//! Results are kept for the next kernel over the same dictionary: of a million entries they take longer than the kernel.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use pelton_chunk::ByteValues;
use pelton_error::{Error, Result};

use crate::codegen::Form;
use crate::ir::{Bounds, TextFunction, TextResults, Type};
use crate::text::Dictionary;

/// The results of one function over one dictionary.
#[derive(Debug, Clone)]
pub struct Lut {
    name: String,
    source: Arc<Dictionary>,
    results: Arc<LutResults>,
}

/// The results, as an array in memory.
#[derive(Debug)]
pub struct LutResults {
    pub(crate) ty: Type,
    pub(crate) form: Form,
    pub(crate) bounds: Option<Bounds>,
    /// Of results that are texts.
    pub(crate) dictionary: Option<Arc<Dictionary>>,
    /// One value an entry, in `form`; at least one.
    pub bytes: Vec<u8>,
    /// Whether each is not NULL; `None` where none is.
    pub valid: Option<Vec<u8>>,
    /// What all of it takes, about.
    host_bytes: usize,
}

/// Of the widest results.
const ENTRY_BYTES_MAX: usize = 16;

impl Deref for Lut {
    type Target = LutResults;

    fn deref(&self) -> &LutResults {
        &self.results
    }
}

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
        // A statement of its own: the lock ends with it.
        let kept = Kept::lock().find(dictionary, function.as_ref());
        let results = match kept {
            Some(results) => results,
            None => {
                let results = Arc::new(LutResults::evaluate(dictionary, function)?);
                Kept::lock().add(dictionary, function, &results);
                results
            }
        };
        luts.push(Self { name, source: Arc::clone(dictionary), results });
        Ok(luts.len() - 1)
    }
}

/// Host memory that kept results take. A guess: those of some queries over dictionaries of millions of entries.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// What results without entries take: their function and their place.
const LEAST_BYTES: usize = 4096;

/// Results by dictionary and function, of all sessions of the process; the ones used last are at the end.
#[derive(Debug)]
struct Kept(Vec<KeptResults>);

#[derive(Debug)]
struct KeptResults {
    source: Weak<Dictionary>,
    function: Arc<dyn TextFunction>,
    results: Arc<LutResults>,
}

impl Kept {
    fn lock() -> MutexGuard<'static, Self> {
        static KEPT: Mutex<Kept> = Mutex::new(Kept(Vec::new()));
        KEPT.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&mut self, dictionary: &Arc<Dictionary>, function: &dyn TextFunction) -> Option<Arc<LutResults>> {
        let source = Arc::downgrade(dictionary);
        let is_it =
            |kept: &KeptResults| Weak::ptr_eq(&kept.source, &source) && kept.function.is_same_as(function);
        let at = self.0.iter().position(is_it)?;
        let found = self.0.remove(at);
        let results = Arc::clone(&found.results);
        self.0.push(found);
        Some(results)
    }

    fn add(
        &mut self,
        dictionary: &Arc<Dictionary>,
        function: &Arc<dyn TextFunction>,
        results: &Arc<LutResults>,
    ) {
        self.0.retain(|kept| kept.source.strong_count() > 0);
        if !function.is_same_as(function.as_ref()) || results.host_bytes > KEPT_BYTES_MAX / 2 {
            return;
        }
        self.0.push(KeptResults {
            source: Arc::downgrade(dictionary),
            function: Arc::clone(function),
            results: Arc::clone(results),
        });
        let mut bytes: usize = self.0.iter().map(|kept| kept.results.host_bytes).sum();
        while bytes > KEPT_BYTES_MAX {
            bytes -= self.0.remove(0).results.host_bytes;
        }
    }
}

impl LutResults {
    fn evaluate(dictionary: &Dictionary, function: &Arc<dyn TextFunction>) -> Result<Self> {
        let entries: Vec<&[u8]> = dictionary.entries.iter().collect();
        let results = evaluate_in_threads(function.as_ref(), &entries)?;
        let mut lut = Self {
            ty: function.ty(),
            form: Form::Bool,
            bounds: None,
            dictionary: None,
            bytes: Vec::new(),
            valid: None,
            host_bytes: 0,
        };
        let count = match results {
            TextResults::Bool(values) => lut.fill(&values, Form::Bool, |value| [u8::from(*value)]),
            TextResults::I32(values) => {
                lut.bounds = bounds_of(values.iter().flatten().map(|value| i128::from(*value)));
                lut.fill(&values, Form::I32, |value| value.to_le_bytes())
            }
            TextResults::I64(values) => {
                lut.bounds = bounds_of(values.iter().flatten().map(|value| i128::from(*value)));
                lut.fill(&values, Form::I64, |value| value.to_le_bytes())
            }
            TextResults::I128(values) => lut.fill(&values, Form::I128, |value| value.to_le_bytes()),
            TextResults::F64(values) => lut.fill(&values, Form::F64, |value| value.to_le_bytes()),
            TextResults::Text(values) => {
                let (ids, dictionary) = number(&values)?;
                lut.dictionary = Some(Arc::new(dictionary));
                lut.fill(&ids, Form::Id, |id| id.to_le_bytes())
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
        let of_texts = |texts: &Arc<Dictionary>| texts.entries.iter().map(|text| text.len() + 4).sum();
        let texts: usize = lut.dictionary.as_ref().map_or(0, of_texts);
        lut.host_bytes = LEAST_BYTES + lut.bytes.len() + lut.valid.as_ref().map_or(0, Vec::len) + texts;
        Ok(lut)
    }

    fn fill<T: Default, const N: usize>(
        &mut self,
        values: &[Option<T>],
        form: Form,
        bytes: impl Fn(&T) -> [u8; N],
    ) -> usize {
        self.form = form;
        let nothing = T::default();
        self.bytes = values.iter().flat_map(|value| bytes(value.as_ref().unwrap_or(&nothing))).collect();
        if values.iter().any(Option::is_none) {
            self.valid = Some(values.iter().map(|value| u8::from(value.is_some())).collect());
        }
        values.len()
    }
}

/// Entries that a thread evaluates at least: of fewer, starting it takes longer.
const ENTRIES_PER_THREAD: usize = 1 << 14;

/// The results of `function` for `entries`, by as many threads as there are cores.
fn evaluate_in_threads(function: &dyn TextFunction, entries: &[&[u8]]) -> Result<TextResults> {
    let cores = std::thread::available_parallelism().map_or(1, |count| count.get());
    let threads = cores.min(entries.len() / ENTRIES_PER_THREAD);
    if threads < 2 {
        return function.evaluate(entries);
    }
    std::thread::scope(|scope| {
        let parts = entries.chunks(entries.len().div_ceil(threads));
        let running: Vec<_> = parts.map(|part| scope.spawn(move || function.evaluate(part))).collect();
        // A panic of the function is a bug, and stays one.
        let mut ended = running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        let first = ended.next().expect("there are two threads at least")?;
        ended.try_fold(first, |mut results, more| results.append(more?).map(|()| results))
    })
}

impl TextResults {
    /// `more` after these.
    fn append(&mut self, more: Self) -> Result<()> {
        match (self, more) {
            (Self::Bool(values), Self::Bool(more)) => values.extend(more),
            (Self::I32(values), Self::I32(more)) => values.extend(more),
            (Self::I64(values), Self::I64(more)) => values.extend(more),
            (Self::I128(values), Self::I128(more)) => values.extend(more),
            (Self::F64(values), Self::F64(more)) => values.extend(more),
            (Self::Text(values), Self::Text(more)) => values.extend(more),
            _ => return Err(Error::invalid_input("results of one function have two types")),
        }
        Ok(())
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
    Ok((ids, Dictionary::new(entries)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The length of a text, plus `more`.
    #[derive(Debug)]
    struct Longer {
        more: i32,
        is_kept: bool,
    }

    impl TextFunction for Longer {
        fn ty(&self) -> Type {
            Type::I32
        }

        fn is_nullable(&self) -> bool {
            false
        }

        fn evaluate(&self, entries: &[&[u8]]) -> Result<TextResults> {
            Ok(TextResults::I32(entries.iter().map(|entry| Some(entry.len() as i32 + self.more)).collect()))
        }

        fn name(&self) -> String {
            "length".into() // whatever is added: names are compared within a kernel alone
        }

        fn is_same_as(&self, other: &dyn TextFunction) -> bool {
            let other = (other as &dyn std::any::Any).downcast_ref::<Self>();
            self.is_kept && other.is_some_and(|other| other.more == self.more && other.is_kept)
        }
    }

    fn dictionary(texts: &[&str]) -> Arc<Dictionary> {
        let mut entries = ByteValues::default();
        texts.iter().for_each(|text| entries.push(text.as_bytes()).unwrap());
        Arc::new(Dictionary::new(entries))
    }

    fn results(dictionary: &Arc<Dictionary>, more: i32, is_kept: bool) -> Arc<LutResults> {
        let mut luts = Vec::new();
        let function: Arc<dyn TextFunction> = Arc::new(Longer { more, is_kept });
        let index = Lut::find_or_add(&mut luts, dictionary, &function).unwrap();
        Arc::clone(&luts[index].results)
    }

    #[test]
    fn results_are_kept_by_dictionary_and_function() {
        let (words, others) = (dictionary(&["a", "bcd"]), dictionary(&["a", "bcd"]));
        let first = results(&words, 0, true);
        assert_eq!(first.bytes, [1, 0, 0, 0, 3, 0, 0, 0]);
        assert!(Arc::ptr_eq(&first, &results(&words, 0, true)));
        assert_eq!(results(&words, 5, true).bytes[..4], [6, 0, 0, 0], "another function of that name");
        assert!(!Arc::ptr_eq(&first, &results(&others, 0, true)), "another dictionary with these entries");
        assert!(Arc::ptr_eq(&first, &results(&words, 0, true)), "it is still there");
    }

    #[test]
    fn functions_that_do_not_know_their_like_are_evaluated_each_time() {
        let words = dictionary(&["a", "bcd"]);
        assert!(!Arc::ptr_eq(&results(&words, 0, false), &results(&words, 0, false)));
    }

    #[test]
    fn results_go_with_their_dictionary() {
        let words = dictionary(&["e"]);
        let kept = Arc::downgrade(&results(&words, 70, true));
        assert!(kept.upgrade().is_some());
        drop(words);
        results(&dictionary(&["f"]), 71, true);
        assert!(kept.upgrade().is_none());
    }

    #[test]
    fn many_entries_are_evaluated_in_threads_and_stay_in_order() {
        let count = 3 * ENTRIES_PER_THREAD + 7;
        let texts: Vec<String> = (0..count).map(|number| number.to_string()).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let expected: Vec<u8> = texts.iter().flat_map(|text| (text.len() as i32).to_le_bytes()).collect();
        assert_eq!(results(&dictionary(&texts), 0, false).bytes, expected);
    }

    #[test]
    fn of_no_entries_there_is_one_result_to_read() {
        assert_eq!(results(&dictionary(&[]), 0, true).bytes, [0; ENTRY_BYTES_MAX]);
    }
}
