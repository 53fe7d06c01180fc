//! What runs of this process show of the model (`cost.rs`): how much longer or shorter pipelines took than it said.
//!
//! ```text
//!   run ─▶ took / model ─┬─▶ by step    what the pipeline does, without numbers, on which table, its columns where
//!                        └─▶ by class   where its rows come from and where they end
//!   prediction = model × that of the step, where it has been seen; else what a first run takes × that of its class
//! ```
//!
//! The first run of a step takes memory, opens files and looks texts up, which later ones find done: what it took longer than
//! a first run is expected to counts for less, the second run for more, and from then on the latest half. All is kept as
//! logarithms, so that half and twice as long cancel out.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Steps that are remembered at most; all are forgotten with the first one beyond.
const STEPS_MAX: usize = 10_000;
/// A class counts as much as its steps from this many on; below, the model's word has the rest of the weight. A guess.
const CLASS_STEPS: f64 = 4.0;
/// Steps of a class that count: older ones fade out. A guess.
const CLASS_STEPS_MAX: f64 = 64.0;
/// What the first run of a step takes besides, and so many times as long: memory that is mapped, kernels whose code comes to
/// the cores. These and the weights below are fitted to runs of TPC-H on an H100 (docs/perf/predictions.md).
const FIRST_S: f64 = 0.1e-3;
const FIRST_TIMES: f64 = 1.2;
/// What the excess of a first run counts for a second.
const FIRST_WEIGHT: f64 = 0.4;
/// What the second run counts beside the first, and the latest beside those before.
const SECOND_WEIGHT: f64 = 0.6;
const LATEST_WEIGHT: f64 = 0.5;
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

/// What a first run takes of which the model says `model_s`.
fn first_s(model_s: f64) -> f64 {
    (model_s + FIRST_S) * FIRST_TIMES
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
        first_s(model_s) * error.exp()
    }

    /// Takes note that a step took `took_s` where the model said `model_s`.
    pub(super) fn learn(&self, kind: &StepKind, model_s: f64, took_s: f64) {
        if model_s <= 0.0 || took_s <= 0.0 {
            return;
        }
        let limit = FACTOR_MAX.ln();
        let mut learnt = self.learnt();
        let is_first = !learnt.steps.contains_key(&kind.key);
        let expected_s = if is_first { first_s(model_s) } else { model_s };
        let latest = (took_s / expected_s).ln().clamp(-limit, limit);
        if learnt.steps.len() > STEPS_MAX {
            learnt.steps.clear();
        }
        let start = if latest > 0.0 { latest * FIRST_WEIGHT } else { latest };
        let seen = learnt.steps.entry(kind.key).or_insert(Seen { error: start, runs: 0 });
        let weight = match seen.runs {
            0 => 0.0,
            1 => SECOND_WEIGHT,
            _ => LATEST_WEIGHT,
        };
        seen.error += (latest - seen.error) * weight;
        seen.runs = seen.runs.saturating_add(1);
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
    const FIRST: f64 = (1.0 + FIRST_S / MODEL_S) * FIRST_TIMES;

    #[test]
    fn a_step_that_was_seen_is_predicted_as_it_ran_whatever_its_numbers() {
        let corrections = Corrections::default();
        let step = StepKind::new("groups of t\n filter a < 17", &1, GROUPS);
        close(&corrections, &step, FIRST);
        corrections.learn(&step, MODEL_S, 9e-3 * FIRST); // cold
        let cold = 9_f64.powf(FIRST_WEIGHT);
        close(&corrections, &step, cold);
        corrections.learn(&step, MODEL_S, 2e-3);
        let second = cold.powf(1.0 - SECOND_WEIGHT) * 2_f64.powf(SECOND_WEIGHT);
        close(&corrections, &step, second);
        corrections.learn(&step, MODEL_S, 8e-3);
        let third = (second * 8.0).sqrt();
        close(&corrections, &step, third);
        close(&corrections, &StepKind::new("groups of t\n filter a < 18", &1, GROUPS), third);
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
            corrections.learn(&StepKind::new("groups", &number, GROUPS), MODEL_S, 0.5e-3 * FIRST);
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
        close(&corrections, &step, FACTOR_MAX.powf(FIRST_WEIGHT));
        corrections.learn(&step, MODEL_S, 0.0);
        close(&corrections, &step, FACTOR_MAX.powf(FIRST_WEIGHT));
        (0..60).for_each(|_| corrections.learn(&step, MODEL_S, 1e6));
        close(&corrections, &step, FACTOR_MAX);
    }
}
