//! Least and greatest texts of groups.
//!
//! ```text
//!   with a dictionary   numbers of entries, which are in the order of the texts: extremes of integers
//!   views, short texts  a word of state says where the best text so far lies in a heap (cuda/pipeline/heap.h)
//! ```
//!
//! Where the heap is full, the row waits until it has grown. What else the row adds to its group comes after its texts:
//! of those that are kept already nothing changes when the row comes again.

use std::sync::Arc;

use pelton_error::Result;

use super::args::Arg;
use super::block::Block;
use super::groups::Contribution;
use super::layout::WordKind;
use super::source::RowScope;
use super::value::{Form, Value};
use super::waiting::Waiting;
use crate::ir::{TextFunction, TextResults, Type};

/// Each text itself: the numbers of its results are in the order of the texts.
#[derive(Debug)]
struct Itself;

impl TextFunction for Itself {
    fn ty(&self) -> Type {
        Type::Text
    }

    fn is_nullable(&self) -> bool {
        false
    }

    fn evaluate(&self, entries: &[&[u8]]) -> Result<TextResults> {
        Ok(TextResults::Text(entries.iter().map(|entry| Some(entry.to_vec())).collect()))
    }

    fn name(&self) -> String {
        "the texts in order".into()
    }

    fn is_same_as(&self, other: &dyn TextFunction) -> bool {
        (other as &dyn std::any::Any).is::<Self>()
    }
}

/// `value`, the number of an entry, as a number of a dictionary whose entries are in order. Those of tables are already.
pub(super) fn in_order(value: Value, scope: &mut RowScope<'_, '_>, block: &mut Block) -> Result<Value> {
    let Some(dictionary) = value.dictionary.clone() else { return Ok(value) };
    if dictionary.is_sorted() {
        return Ok(value);
    }
    let itself: Arc<dyn TextFunction> = Arc::new(Itself);
    scope.of_entries(&value, &dictionary, &itself, block)
}

/// The texts among `contributions`, where `condition` holds, become what the words `at` say if they are better; a row that
/// finds no room for one waits.
pub(super) fn keep(
    contributions: &[Contribution],
    condition: Option<&str>,
    at: impl Fn(usize) -> String,
    arrived: &Waiting,
    scope: &mut RowScope<'_, '_>,
    block: &mut Block,
) {
    let heap = scope.kernel.args.pointer(Arg::TextHeap, "u64");
    for contribution in contributions.iter().filter(|contribution| contribution.kind.is_text()) {
        let value = &contribution.value;
        let text = match value.form {
            Form::Short => format!("short_of({})", value.code),
            _ => value.code.clone(),
        };
        let is_greatest = contribution.kind == WordKind::GreatestText;
        let keep = format!("!keep_text<{is_greatest}>({}, {text}, {heap})", at(contribution.word));
        let conditions = condition.into_iter().chain(value.valid.as_deref()).map(str::to_owned);
        let conditions: Vec<String> = conditions.chain([keep]).collect();
        arrived.wait_if(&conditions.join(" && "), scope, block);
    }
}
