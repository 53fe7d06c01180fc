//! What planning found out about predicates on one snapshot of a table, kept for as long as the snapshot is.
//!
//! The planner asks a scan for its statistics again and again, every filter that is pushed down decides anew which row
//! groups are left, and the same predicates come back with the next query. Zone maps of a snapshot never change, so
//! each answer is worked out once: going through those of thousands of row groups takes longer than all other planning.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::physical_expr::PhysicalExpr;
use pelton_error::Result;
use pelton_store::Table;
use pelton_zone::{Predicate, SkipKinds};

use crate::prune::Pruned;
use crate::scan::Counted;
use crate::statistics;

/// Answers that are kept of each kind; the oldest goes first. A guess: a dashboard's queries.
const KEPT_MAX: usize = 128;

/// Filters that rows have to pass.
type Conjuncts = Vec<Arc<dyn PhysicalExpr>>;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ZoneMemo {
    estimates: Mutex<Recent<Predicate<usize>, f64>>,
    pruned: Mutex<Recent<PruneQuestion, Arc<Pruned>>>,
    counted: Mutex<Recent<Conjuncts, Option<Arc<Counted>>>>,
}

/// Everything that [`Pruned`] depends on besides the snapshot.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PruneQuestion {
    /// Over the table's own columns.
    pub(crate) own: Predicate<usize>,
    /// Over its sideways columns, one predicate a dimension.
    pub(crate) sideways: Vec<Predicate<usize>>,
    /// The metadata that may be used.
    pub(crate) kinds: SkipKinds,
}

impl ZoneMemo {
    /// As [`statistics::estimated_rows`].
    pub(crate) fn estimated_rows(&self, table: &Table, predicate: &Predicate<usize>) -> Result<f64> {
        answer(&self.estimates, predicate, || statistics::estimated_rows(table, predicate))
    }

    /// As [`Pruned::of`].
    pub(crate) fn pruned(&self, table: &Table, question: &PruneQuestion) -> Result<Arc<Pruned>> {
        answer(&self.pruned, question, || Pruned::of(table, question).map(Arc::new))
    }

    /// What passes `conjuncts`: what is kept if it `is_enough`, or what `count` finds.
    pub(crate) fn counted(
        &self,
        conjuncts: &[Arc<dyn PhysicalExpr>],
        is_enough: impl Fn(&Counted) -> bool,
        count: impl FnOnce() -> Option<Counted>,
    ) -> Option<Arc<Counted>> {
        let lock = || self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let question = conjuncts.to_vec();
        if let Some(known) = lock().get(&question)
            && known.as_deref().is_none_or(is_enough)
        {
            return known;
        }
        let counted = count().map(Arc::new);
        lock().insert(question, counted.clone());
        counted
    }
}

/// The answer to `question` that is kept, or the one that `work` finds. Two that ask at once both work it out.
fn answer<Q: Clone + PartialEq, A: Clone>(
    kept: &Mutex<Recent<Q, A>>,
    question: &Q,
    work: impl FnOnce() -> Result<A>,
) -> Result<A> {
    let lock = || kept.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = lock().get(question) {
        return Ok(known);
    }
    let found = work()?;
    lock().insert(question.clone(), found.clone());
    Ok(found)
}

#[derive(Debug)]
struct Recent<Q, A>(VecDeque<(Q, A)>);

impl<Q, A> Default for Recent<Q, A> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<Q: PartialEq, A: Clone> Recent<Q, A> {
    fn get(&self, question: &Q) -> Option<A> {
        self.0.iter().rev().find(|(known, _)| known == question).map(|(_, answer)| answer.clone())
    }

    fn insert(&mut self, question: Q, answer: A) {
        if self.0.len() == KEPT_MAX {
            self.0.pop_front();
        }
        self.0.push_back((question, answer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_worked_out_once_while_its_answer_is_kept() {
        let kept = Mutex::new(Recent::default());
        let mut worked = 0;
        let mut ask = |question: usize| {
            answer(&kept, &question, || {
                worked += 1;
                Ok(question * 2)
            })
        };
        assert_eq!((ask(1).unwrap(), ask(1).unwrap(), ask(2).unwrap()), (2, 2, 4));
        (3..KEPT_MAX + 3).for_each(|question| assert_eq!(ask(question).unwrap(), question * 2));
        assert_eq!(ask(1).unwrap(), 2);
        assert_eq!(worked, KEPT_MAX + 3, "1 and 2 were pushed out, and 1 came back");
    }
}
