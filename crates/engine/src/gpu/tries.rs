//! What became of lowering parts of a plan, kept until somebody needs it: a part is lowered once, however often the rule
//! asks whether the device can run it before it puts it there.
//!
//! ```text
//!   ProjectionExec     is it over a sort that the device does?      ─▶ lowered, kept
//!     SortExec           is it one that a threshold does better?    ─▶ lowered, kept
//!       FilterExec …     on the device                              ─▶ taken
//! ```

use std::cell::RefCell;
use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;

use super::device::DeviceHandle;
use super::lower::{Asked, Lowered};
use super::rule::attempt;
use super::sort::Sorted;
use super::top::FirstRows;

/// The tries of one plan on one device.
pub(super) struct Tries<'d> {
    /// Where the plan may run.
    pub(super) device: &'d Arc<DeviceHandle>,
    known: RefCell<Vec<Try>>,
}

struct Try {
    /// The very part; held, so that no other takes its place in memory.
    input: Arc<dyn ExecutionPlan>,
    asked: Kept,
    /// With the reason why it should run there; `None` where it stays on the CPU.
    outcome: Option<(Lowered, String)>,
}

/// As [`Asked`], for as long as a try is kept.
enum Kept {
    All,
    First(FirstRows),
    InOrder(Sorted),
}

impl Kept {
    /// `None` for what nobody asks twice.
    fn of(asked: Asked<'_>) -> Option<Self> {
        match asked {
            Asked::All => Some(Self::All),
            Asked::First(first) => Some(Self::First(first.clone())),
            Asked::InOrder(sorted) => Some(Self::InOrder(sorted.clone())),
            Asked::Windowed(_) => None,
        }
    }

    fn is(&self, asked: Asked<'_>) -> bool {
        match (self, asked) {
            (Self::All, Asked::All) => true,
            (Self::First(known), Asked::First(first)) => known.asks_alike(first),
            (Self::InOrder(known), Asked::InOrder(sorted)) => known.asks_alike(sorted),
            _ => false,
        }
    }
}

impl<'d> Tries<'d> {
    /// None yet.
    pub(super) fn on(device: &'d Arc<DeviceHandle>) -> Self {
        Self { device, known: RefCell::default() }
    }

    /// Whether the device should run what is `asked` of the rows of `input`, and `is_good` once it is lowered.
    pub(super) fn would_run(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        asked: Asked<'_>,
        is_good: impl Fn(&Lowered) -> bool,
    ) -> bool {
        let is_good = |outcome: &Option<(Lowered, String)>| {
            outcome.as_ref().is_some_and(|(lowered, _)| is_good(lowered))
        };
        let mut known = self.known.borrow_mut();
        if let Some(tried) = known.iter().find(|tried| tried.is_of(input, asked)) {
            return is_good(&tried.outcome);
        }
        let outcome = attempt(input, asked, self.device).ok();
        let would = is_good(&outcome);
        if let Some(asked) = Kept::of(asked) {
            known.push(Try { input: Arc::clone(input), asked, outcome });
        }
        would
    }

    /// What is `asked` of the rows of `input`, lowered, and why the device should run it; `None` where the CPU is to.
    pub(super) fn take(&self, input: &Arc<dyn ExecutionPlan>, asked: Asked<'_>) -> Option<(Lowered, String)> {
        let mut known = self.known.borrow_mut();
        match known.iter().position(|tried| tried.is_of(input, asked)) {
            Some(place) if known[place].outcome.is_some() => known.swap_remove(place).outcome,
            Some(_) => None,
            None => attempt(input, asked, self.device).ok(),
        }
    }
}

impl Try {
    fn is_of(&self, input: &Arc<dyn ExecutionPlan>, asked: Asked<'_>) -> bool {
        Arc::ptr_eq(&self.input, input) && self.asked.is(asked)
    }
}
