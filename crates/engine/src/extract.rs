//! `regexp_replace` where it takes a part out of a text, as it does with a pattern of the whole text and `\1`.
//!
//! ```text
//!   regexp_replace(url, '^https?://(?:www\.)?([^/]+)/.*$', '\1')   ─▶   TextExtract of seven steps and a part
//! ```
//!
//! Such patterns are matched in one pass over the bytes, by kernels too (`pelton_pipeline::ir::TextExtract`), in about a
//! tenth of the time of a search with groups; all others stay with the library, as do flags. Patterns are read as the
//! library reads them, and refused where a piece is not understood.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringBuilder, StringViewBuilder};
use datafusion::arrow::datatypes::DataType;
use datafusion::functions::regex::regexpreplace::RegexpReplaceFunc;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF};
use pelton_pipeline::ir::{ByteSet, ExtractStep, TextExtract};
use regex_syntax::hir::{Class, Hir, HirKind, Look, Repetition};

/// Patterns that are kept once they were read; the oldest goes first. A guess: those of a dashboard.
const KEPT_MAX: usize = 64;

/// The result of `function` for `args`, where it is `regexp_replace` of a column and takes a part out.
pub(crate) fn of_args(function: &ScalarUDF, args: &[ColumnarValue]) -> Option<ColumnarValue> {
    let [ColumnarValue::Array(texts), ColumnarValue::Scalar(pattern), ColumnarValue::Scalar(replacement)] =
        args
    else {
        return None;
    };
    if !function.inner().is::<RegexpReplaceFunc>() {
        return None;
    }
    let extract = pattern_of(pattern.try_as_str().flatten()?, replacement.try_as_str().flatten()?)?;
    parts_of(texts, &extract).map(ColumnarValue::Array)
}

/// The parts of `texts` that `extract` takes out; `None` where they are no texts that it looks into.
pub(crate) fn parts_of(texts: &ArrayRef, extract: &TextExtract) -> Option<ArrayRef> {
    fn part<'t>(text: &'t str, extract: &TextExtract) -> &'t str {
        &text[extract.part_of(text.as_bytes())]
    }
    match texts.data_type() {
        DataType::Utf8View => {
            let mut parts = StringViewBuilder::with_capacity(texts.len());
            for text in texts.as_string_view() {
                parts.append_option(text.map(|text| part(text, extract)));
            }
            Some(Arc::new(parts.finish()))
        }
        DataType::Utf8 => {
            let texts = texts.as_string::<i32>();
            let mut parts = StringBuilder::with_capacity(texts.len(), 0);
            for text in texts {
                parts.append_option(text.map(|text| part(text, extract)));
            }
            Some(Arc::new(parts.finish()))
        }
        _ => None,
    }
}

/// What `regexp_replace` with this pattern and replacement takes out; `None` where it does something else.
pub(crate) fn pattern_of(pattern: &str, replacement: &str) -> Option<Arc<TextExtract>> {
    type Kept = VecDeque<(String, String, Option<Arc<TextExtract>>)>;
    static KEPT: Mutex<Kept> = Mutex::new(VecDeque::new());
    let lock = || KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let is_it = |kept: &&(String, String, _)| kept.0 == pattern && kept.1 == replacement;
    if let Some((_, _, known)) = lock().iter().find(is_it) {
        return known.clone();
    }
    let read = read(pattern, replacement).map(Arc::new);
    let mut kept = lock();
    if kept.len() == KEPT_MAX {
        kept.pop_front();
    }
    kept.push_back((pattern.to_owned(), replacement.to_owned(), read.clone()));
    read
}

fn read(pattern: &str, replacement: &str) -> Option<TextExtract> {
    if !matches!(replacement, r"\1" | r"\\1" | "$1" | "${1}") {
        return None;
    }
    let hir = regex_syntax::parse(pattern).ok()?;
    let HirKind::Concat(pieces) = hir.kind() else { return None };
    let [start, pieces @ .., end] = &pieces[..] else { return None };
    if !is_look(start, Look::Start)
        || !is_look(end, Look::End)
        || hir.properties().explicit_captures_len() != 1
    {
        return None;
    }
    let mut steps = Vec::with_capacity(pieces.len() + 2);
    for piece in pieces {
        add_steps(piece, &mut steps)?;
    }
    TextExtract::new(steps)
}

fn is_look(hir: &Hir, look: Look) -> bool {
    matches!(hir.kind(), HirKind::Look(other) if *other == look)
}

fn add_steps(hir: &Hir, steps: &mut Vec<ExtractStep>) -> Option<()> {
    match hir.kind() {
        HirKind::Empty => {}
        HirKind::Literal(literal) => steps.push(ExtractStep::Literal(literal.0.to_vec())),
        HirKind::Capture(capture) => {
            steps.push(ExtractStep::Begin);
            add_steps(&capture.sub, steps)?;
            steps.push(ExtractStep::End);
        }
        HirKind::Concat(pieces) => pieces.iter().try_for_each(|piece| add_steps(piece, steps))?,
        HirKind::Repetition(repetition) => steps.push(repeated(repetition)?),
        HirKind::Class(_) | HirKind::Look(_) | HirKind::Alternation(_) => return None,
    }
    Some(())
}

/// `x?` of a text, `x*` and `x+` of bytes.
fn repeated(repetition: &Repetition) -> Option<ExtractStep> {
    if !repetition.greedy {
        return None;
    }
    match (repetition.min, repetition.max, repetition.sub.kind()) {
        (0, Some(1), HirKind::Literal(literal)) => Some(ExtractStep::Optional(literal.0.to_vec())),
        (min @ (0 | 1), None, repeated) => {
            let set = match repeated {
                HirKind::Class(class) => bytes_of(class)?,
                HirKind::Literal(literal) => match literal.0[..] {
                    [byte] => set_of(byte..=byte),
                    _ => return None,
                },
                _ => return None,
            };
            Some(ExtractStep::Bytes { set, is_some: min == 1 })
        }
        _ => None,
    }
}

/// The bytes of characters of `class`, which has all characters of several bytes or none.
fn bytes_of(class: &Class) -> Option<ByteSet> {
    let Class::Unicode(class) = class else { return None };
    let mut set = ByteSet([0; 4]);
    for range in class.ranges() {
        let (first, last) = (u32::from(range.start()), u32::from(range.end()));
        let has_all = first <= 0x80 && last == u32::from(char::MAX);
        if last > 0x7F && !has_all {
            return None;
        }
        let of_range = set_of(first as u8..=if has_all { u8::MAX } else { last as u8 });
        (0..4).for_each(|word| set.0[word] |= of_range.0[word]);
    }
    Some(set)
}

fn set_of(bytes: std::ops::RangeInclusive<u8>) -> ByteSet {
    let mut set = [0; 4];
    bytes.for_each(|byte| set[usize::from(byte >> 6)] |= 1 << (byte & 63));
    ByteSet(set)
}

#[cfg(test)]
mod tests;
