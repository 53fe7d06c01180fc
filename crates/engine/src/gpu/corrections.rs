//! What runs of this process show of the model (`cost.rs`): how much longer or shorter pipelines took than it said.
//!
//! ```text
//!   run ─▶ took / model ─┬─▶ by step    what the pipeline does, without numbers, on which table, its columns where
//!                        └─▶ by class   where its rows come from and where they end
//!   prediction = model × that of the step, where it has been seen; else (model + a first run's cost) × that of its class
//! ```
//!
//! The first run of a step takes memory and opens files that later ones find, which costs [`FIRST_S`] and more: the second
//! replaces what it showed, and from then on the latest counts half. All is kept as logarithms, so that half and twice as
//! long cancel out.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Steps that are remembered at most; all are forgotten with the first one beyond.
const STEPS_MAX: usize = 10_000;
/// A class counts as much as its steps from this many on; below, the model's word has the rest of the weight. A guess.
const CLASS_STEPS: f64 = 4.0;
/// Steps of a class that count: older ones fade out. A guess.
const CLASS_STEPS_MAX: f64 = 64.0;
/// What the first run of a step takes besides: memory that is mapped, kernels whose code comes to the cores. A guess, after
/// the first runs of TPC-H on an H100.
const FIRST_S: f64 = 0.1e-3;
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
    /// What a step takes of which the model says `model_s`.
    pub(super) fn predicted_s(&self, kind: &StepKind, model_s: f64) -> f64 {
        let learnt = self.learnt();
        if let Some(seen) = learnt.steps.get(&kind.key) {
            return model_s * seen.error.exp();
        }
        let of_class = learnt.classes.get(&kind.class);
        let error = of_class.map_or(0.0, |class| class.sum / (class.count + CLASS_STEPS));
        (model_s + FIRST_S) * error.exp()
    }

    /// Takes note that a step took `took_s` where the model said `model_s`.
    pub(super) fn learn(&self, kind: &StepKind, model_s: f64, took_s: f64) {
        if model_s <= 0.0 || took_s <= 0.0 {
            return;
        }
        let limit = FACTOR_MAX.ln();
        let mut learnt = self.learnt();
        let first_s = if learnt.steps.contains_key(&kind.key) { 0.0 } else { FIRST_S };
        let latest = (took_s / (model_s + first_s)).ln().clamp(-limit, limit);
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

    const MODEL_S: f64 = 1e-3;

    /// Holds what is predicted of `step` against `expected` times what the model says.
    fn close(corrections: &Corrections, step: &StepKind, expected: f64) {
        let factor = corrections.predicted_s(step, MODEL_S) / MODEL_S;
        assert!((factor / expected - 1.0).abs() < 1e-9, "{factor} is not {expected}");
    }

    /// In terms of the model, of a step that has never run.
    const FIRST: f64 = 1.0 + FIRST_S / MODEL_S;

    #[test]
    fn a_step_that_was_seen_is_predicted_as_it_ran_whatever_its_numbers() {
        let corrections = Corrections::default();
        let step = StepKind::new("groups of t\n filter a < 17", &1, GROUPS);
        close(&corrections, &step, FIRST);
        corrections.learn(&step, MODEL_S, 9e-3 * FIRST); // cold
        close(&corrections, &step, 9.0);
        corrections.learn(&step, MODEL_S, 2e-3);
        close(&corrections, &step, 2.0);
        corrections.learn(&step, MODEL_S, 8e-3);
        close(&corrections, &step, 4.0);
        close(&corrections, &StepKind::new("groups of t\n filter a < 18", &1, GROUPS), 4.0);
    }

    #[test]
    fn a_step_never_seen_takes_part_of_the_error_of_its_class_and_none_of_others() {
        let corrections = Corrections::default();
        for number in 0..4 {
            corrections.learn(&StepKind::new("groups", &number, GROUPS), MODEL_S, 4e-3 * FIRST);
        }
        // Four steps weigh as much as the model: the root of 4.
        close(&corrections, &StepKind::new("groups", &"another tier", GROUPS), 2.0 * FIRST);
        close(&corrections, &StepKind::new("build", &1, BUILDS), FIRST);
        for number in 10..200 {
            corrections.learn(&StepKind::new("groups", &number, GROUPS), MODEL_S, 0.5e-3);
        }
        let another = StepKind::new("groups", &"another tier", GROUPS);
        let factor = corrections.predicted_s(&another, MODEL_S) / (MODEL_S * FIRST);
        assert!((0.45..0.7).contains(&factor), "{factor}: the latest count");
    }

    #[test]
    fn a_run_that_waited_says_no_more_than_the_limit() {
        let corrections = Corrections::default();
        let step = StepKind::new("build", &1, BUILDS);
        corrections.learn(&step, MODEL_S, 1e6);
        close(&corrections, &step, FACTOR_MAX);
        corrections.learn(&step, MODEL_S, 0.0);
        close(&corrections, &step, FACTOR_MAX);
    }
}
