//! Prints a plan with the estimated rows of each node and, once executed, the actual ones beside them.
//!
//! ```text
//! HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(a@0, b@1)], rows est=60000 actual=59432 q=1.01
//!   DataSourceExec: ..., rows est=200 actual=200 q=1.00
//! ```
//!
//! `q` is the q-error, max(est / actual, actual / est): by how much the estimate is off, in either
//! direction. Moerkotte, Neumann and Steidl, "Preventing bad plans by bounding the impact of
//! cardinality estimation errors" (2009).

use std::fmt::Write;
use std::sync::Arc;

use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::{ExecutionPlan, displayable};

use crate::estimate::Estimates;
use crate::quoted::printable;

/// The plan as an indented tree, one line per node, with its `estimates`; with the actual rows and the
/// q-error too if `with_metrics` and the plan has been executed.
///
/// An estimate that cannot be made is printed as `?`. A scan that a join's dynamic filter prunes at
/// run time emits fewer rows than estimated: the estimate is of the scan alone. Nodes that only let go of their thread
/// are left out.
pub fn annotate(plan: &Arc<dyn ExecutionPlan>, estimates: &Estimates, with_metrics: bool) -> String {
    let mut text = String::new();
    write_node(plan, 0, estimates, with_metrics, &mut text);
    text
}

fn write_node(
    plan: &Arc<dyn ExecutionPlan>,
    depth: usize,
    estimates: &Estimates,
    with_metrics: bool,
    text: &mut String,
) {
    if plan.is::<CooperativeExec>() {
        return write_node(plan.children()[0], depth, estimates, with_metrics, text);
    }
    let line = displayable(printable(plan).as_ref()).one_line().to_string();
    let estimated = estimates.rows(plan);
    let actual = with_metrics.then(|| actual_rows(plan)).flatten();
    let indent = 2 * depth;
    let _ = write!(text, "{:indent$}{}, rows est=", "", line.trim_end());
    let _ = match estimated {
        Some(rows) => write!(text, "{rows:.0}"),
        None => write!(text, "?"),
    };
    if let Some(actual) = actual {
        let _ = write!(text, " actual={actual}");
    }
    if let (Some(estimated), Some(actual)) = (estimated, actual) {
        let _ = write!(text, " q={:.2}", q_error(estimated, actual));
    }
    text.push('\n');
    for child in plan.children() {
        write_node(child, depth + 1, estimates, with_metrics, text);
    }
}

fn actual_rows(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    plan.metrics()?.output_rows()
}

/// By how much `estimated` is off; less than one row counts as one.
fn q_error(estimated: f64, actual: usize) -> f64 {
    let (estimated, actual) = (estimated.max(1.0), (actual as f64).max(1.0));
    (estimated / actual).max(actual / estimated)
}
