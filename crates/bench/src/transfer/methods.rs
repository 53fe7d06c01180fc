//! The eight methods.

use pelton_error::{ErrorKind, Result};
use pelton_transfer::Method;
use pelton_transfer::measure::time_method;

use super::{GB_PER_S, Stage, summary};
use crate::report::{Outcome, Quoted, Row};

/// Figure of the rows in GB/s and of those that are shares of Zero-Copy.
pub(super) const RATES: &str = "12";
pub(super) const SHARES: &str = "12, share of zero-copy";

/// What the paper's text gives over PCIe 3, as shares of Zero-Copy.
fn paper_share(method: Method) -> Option<Quoted> {
    match method {
        Method::ZeroCopy => Some(Quoted::stated(1.0).derived()),
        // "Within 5 % of Zero Copy".
        Method::StagedCopy => Some(Quoted::between(0.95, 1.0)),
        // "68 % and 30 % slower than Zero Copy".
        Method::UnifiedMigration => Some(Quoted::stated(0.32).derived()),
        Method::UnifiedPrefetch => Some(Quoted::stated(0.70).derived()),
        _ => None,
    }
}

pub(super) fn measure(stage: &Stage<'_>) -> Result<Vec<Row>> {
    let bytes = stage.options.bytes();
    let mut rates = Vec::new();
    for method in Method::ALL {
        let ours = outcome(stage, method, bytes)?;
        rates.push((method, stage.row(RATES, method.name(), "GB/s", ours)));
    }
    let zero_copy =
        rates.iter().find(|(method, _)| *method == Method::ZeroCopy).and_then(|(_, row)| row.value());
    let shares: Vec<Row> = rates.iter().map(|(method, row)| share(stage, *method, row, zero_copy)).collect();
    Ok(rates.into_iter().map(|(_, row)| row).chain(shares).collect())
}

fn outcome(stage: &Stage<'_>, method: Method, bytes: usize) -> Result<Outcome> {
    let library = stage.options.library.as_ref();
    let repetitions = stage.options.repetitions;
    let times = time_method(
        stage.machine,
        library,
        stage.device,
        method,
        bytes,
        repetitions,
        &stage.options.transfer,
    );
    match times {
        Ok(times) => {
            let rate = |time: &std::time::Duration| bytes as f64 / time.as_secs_f64() / GB_PER_S;
            Ok(summary(&times.sequential.iter().map(rate).collect::<Vec<f64>>()))
        }
        Err(error) if error.kind() == &ErrorKind::Unsupported => Ok(Outcome::Missing(error.to_string())),
        Err(error) => Err(error),
    }
}

fn share(stage: &Stage<'_>, method: Method, rate: &Row, zero_copy: Option<f64>) -> Row {
    let ours = match (&rate.ours, zero_copy) {
        (Outcome::Done(measured), Some(zero_copy)) => {
            let mut share = *measured;
            share.mean /= zero_copy;
            share.standard_error /= zero_copy;
            share.best /= zero_copy;
            Outcome::Done(share)
        }
        (Outcome::Missing(reason), _) => Outcome::Missing(reason.clone()),
        (Outcome::Done(_), None) => Outcome::Missing("no zero-copy to compare with".into()),
    };
    Row { paper: paper_share(method), ..stage.row(SHARES, method.name(), "share", ours) }
}
