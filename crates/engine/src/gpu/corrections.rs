//! What runs of this process show of the model (`cost.rs`): how much longer or shorter pipelines took than it said.
//!
//! ```text
//!   run ─▶ took / model ─┬─▶ by step    what the pipeline does, without numbers, on which table, its columns where
//!                        └─▶ by class   where its rows come from and where they end
//!   prediction = model × (of the step, where it has been seen; else of its class)
//! ```
//!
//! The first run of a step opens programs and takes memory that later ones find: the second replaces what it showed,
//! and from then on the latest counts half. All is kept as logarithms, so that half and twice as long cancel out.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Steps that are remembered at most; all are forgotten with the first one beyond.
const STEPS_MAX: usize = 10_000;
/// A class counts as much as its steps from this many on; below, the model's word has the rest of the weight. A guess.
const CLASS_STEPS: f64 = 4.0;
/// Steps of a class that count: older ones fade out. A guess.
const CLASS_STEPS_MAX: f64 = 64.0;
/// No run says more than this factor: one that waited for something else says nothing of the step.
const FACTOR_MAX: f64 = 1000.0;

/// Where rows come from and where they end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct StepClass {
    pub(super) source: u8,
    pub(super) sink: u8,
}

/// What a pipeline does, without the numbers in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct StepKind {
    key: u64,
    class: StepClass,
}

impl StepKind {
    /// What EXPLAIN says in `text`, and `of`, which tells apart what that leaves open.
    pub(super) fn new(text: &str, of: &impl Hash, class: StepClass) -> Self {
        let mut hasher = DefaultHasher::new();
        hash_without_numbers(text, &mut hasher);
        of.hash(&mut hasher);
        Self { key: hasher.finish(), class }
    }
}

/// Hashes the words of `text` but for numbers and what stands in parentheses, such as tiers: these change from run to
/// run.
pub(super) fn hash_without_numbers(text: &str, hasher: &mut impl Hasher) {
    for word in text.split_whitespace().filter(|word| !word.starts_with('(')) {
        word.trim_matches(|c: char| c.is_ascii_digit() || "-.,()".contains(c)).hash(hasher);
    }
}

/// What was learnt so far; of one device.
#[derive(Default)]
pub(super) struct Corrections(Mutex<Learnt>);

#[derive(Default)]
struct Learnt {
    steps: HashMap<u64, Seen>,
    classes: HashMap<StepClass, ClassError>,
}

/// Of a step: the logarithm of took / model.
struct Seen {
    error: f64,
    runs: u32,
}

/// Of a class: the sum of these logarithms, and of how many.
#[derive(Default)]
struct ClassError {
    sum: f64,
    count: f64,
}

impl Corrections {
    /// What the model's time of a step is to be multiplied by.
    pub(super) fn factor(&self, kind: &StepKind) -> f64 {
        let learnt = self.learnt();
        let of_class =
            || learnt.classes.get(&kind.class).map(|class| class.sum / (class.count + CLASS_STEPS));
        let error = learnt.steps.get(&kind.key).map(|seen| seen.error).or_else(of_class);
        error.unwrap_or(0.0).exp()
    }

    /// Takes note that a step took `took_s` where the model said `model_s`.
    pub(super) fn learn(&self, kind: &StepKind, model_s: f64, took_s: f64) {
        if model_s <= 0.0 || took_s <= 0.0 {
            return;
        }
        let limit = FACTOR_MAX.ln();
        let latest = (took_s / model_s).ln().clamp(-limit, limit);
        let mut learnt = self.learnt();
        if learnt.steps.len() > STEPS_MAX {
            learnt.steps.clear();
        }
        let seen = learnt.steps.entry(kind.key).or_insert(Seen { error: latest, runs: 0 });
        seen.runs = seen.runs.saturating_add(1);
        seen.error = if seen.runs <= 2 { latest } else { (seen.error + latest) / 2.0 };
        let class = learnt.classes.entry(kind.class).or_default();
        if class.count >= CLASS_STEPS_MAX {
            let kept = (CLASS_STEPS_MAX - 1.0) / class.count;
            (class.sum, class.count) = (class.sum * kept, class.count * kept);
        }
        class.sum += latest;
        class.count += 1.0;
    }

    fn learnt(&self) -> MutexGuard<'_, Learnt> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILDS: StepClass = StepClass { source: 0, sink: 0 };
    const GROUPS: StepClass = StepClass { source: 0, sink: 2 };

    fn close(factor: f64, expected: f64) {
        assert!((factor / expected - 1.0).abs() < 1e-9, "{factor} is not {expected}");
    }

    #[test]
    fn a_step_that_was_seen_is_predicted_as_it_ran_whatever_its_numbers() {
        let corrections = Corrections::default();
        let step = StepKind::new("groups of t\n filter a < 17", &1, GROUPS);
        close(corrections.factor(&step), 1.0);
        corrections.learn(&step, 1e-3, 9e-3); // cold
        close(corrections.factor(&step), 9.0);
        corrections.learn(&step, 1e-3, 2e-3);
        close(corrections.factor(&step), 2.0);
        corrections.learn(&step, 1e-3, 8e-3);
        close(corrections.factor(&step), 4.0);
        close(corrections.factor(&StepKind::new("groups of t\n filter a < 18", &1, GROUPS)), 4.0);
    }

    #[test]
    fn a_step_never_seen_takes_part_of_the_error_of_its_class_and_none_of_others() {
        let corrections = Corrections::default();
        for number in 0..4 {
            corrections.learn(&StepKind::new("groups", &number, GROUPS), 1e-3, 4e-3);
        }
        // Four steps weigh as much as the model: the root of 4.
        close(corrections.factor(&StepKind::new("groups", &"another tier", GROUPS)), 2.0);
        close(corrections.factor(&StepKind::new("build", &1, BUILDS)), 1.0);
        for number in 10..200 {
            corrections.learn(&StepKind::new("groups", &number, GROUPS), 1e-3, 0.5e-3);
        }
        let factor = corrections.factor(&StepKind::new("groups", &"another tier", GROUPS));
        assert!((0.5..0.7).contains(&factor), "{factor}: the latest count");
    }

    #[test]
    fn a_run_that_waited_says_no_more_than_the_limit() {
        let corrections = Corrections::default();
        let step = StepKind::new("build", &1, BUILDS);
        corrections.learn(&step, 1e-3, 1e6);
        close(corrections.factor(&step), FACTOR_MAX);
        corrections.learn(&step, 1e-3, 0.0);
        close(corrections.factor(&step), FACTOR_MAX);
    }
}
