//! The findings of the paper as conditions on the figures.

use pelton_device::PageableAccess;
use pelton_transfer::Method;

use super::{Stage, accesses, links, methods};
use crate::report::{Row, Shape, Verdict};

pub(super) fn evaluate(stage: &Stage<'_>, rows: &[Row]) -> Vec<Shape> {
    let shape = |id: &str, outcome: Result<(bool, String), String>| {
        let (holds, detail) = match outcome {
            Ok((holds, detail)) => (Verdict::of(holds), detail),
            Err(reason) => (Verdict::NotApplicable, reason),
        };
        Shape { id: id.into(), machine: stage.name.clone(), holds, detail }
    };
    vec![
        shape("D1: coherence equals zero-copy on a coherent link", coherent(stage, rows)),
        shape(
            "D2: zero-copy, staged, prefetch, migration on a link that is not coherent",
            ordered(stage, rows),
        ),
        shape("E1: device memory far above the link in bandwidth", far_above(stage, rows)),
        shape("E1: random loads lose more on the link than in device memory", random_penalty(stage, rows)),
        shape("a multi-link transfer lifts a device to 1.8 times its own", multi_link(stage, rows)),
    ]
}

fn rate(rows: &[Row], method: Method) -> Option<f64> {
    rows.iter().find(|row| row.figure == methods::RATES && row.what == method.name()).and_then(Row::value)
}

fn access(stage: &Stage<'_>) -> PageableAccess {
    stage
        .machine
        .device(stage.device)
        .map_or(PageableAccess::None, |device| device.capabilities.pageable_access)
}

fn is_gpu(stage: &Stage<'_>) -> Result<(), String> {
    let kind = stage.machine.device(stage.device).map(|device| device.kind);
    if matches!(kind, Ok(pelton_device::DeviceKind::Logical)) {
        return Err("logical devices have no link; needs a GPU".into());
    }
    Ok(())
}

fn coherent(stage: &Stage<'_>, rows: &[Row]) -> Result<(bool, String), String> {
    is_gpu(stage)?;
    if access(stage) != PageableAccess::Hardware {
        return Err("needs a cache-coherent link".into());
    }
    let both = rate(rows, Method::Coherence).zip(rate(rows, Method::ZeroCopy));
    let (coherence, zero_copy) = both.ok_or("not measured")?;
    Ok(((coherence / zero_copy - 1.0).abs() <= 0.05, format!("{coherence:.1} and {zero_copy:.1} GB/s")))
}

fn ordered(stage: &Stage<'_>, rows: &[Row]) -> Result<(bool, String), String> {
    is_gpu(stage)?;
    if access(stage) == PageableAccess::Hardware {
        return Err("needs a link that is not cache-coherent".into());
    }
    let of = |method: Method| rate(rows, method).ok_or_else(|| format!("{method} not measured"));
    let (zero_copy, staged) = (of(Method::ZeroCopy)?, of(Method::StagedCopy)?);
    let (prefetch, migration) = (of(Method::UnifiedPrefetch)?, of(Method::UnifiedMigration)?);
    let holds = zero_copy >= 0.95 * staged && zero_copy >= prefetch && prefetch >= migration;
    let detail = format!(
        "zero-copy {zero_copy:.1}, staged {staged:.1}, prefetch {prefetch:.1}, migration {migration:.1} GB/s"
    );
    Ok((holds, detail))
}

fn factor(rows: &[Row], what: &str) -> Result<f64, String> {
    let row = rows.iter().find(|row| row.figure == accesses::FACTORS && row.what == what);
    row.and_then(Row::value).ok_or_else(|| "not measured".into())
}

fn far_above(stage: &Stage<'_>, rows: &[Row]) -> Result<(bool, String), String> {
    is_gpu(stage)?;
    let in_order = factor(rows, "bandwidth in order")?;
    let latency = factor(rows, "latency, link over device memory");
    let latency = latency.map_or_else(|_| String::new(), |latency| format!(", latency {latency:.2} times"));
    Ok((in_order > 5.0, format!("{in_order:.1} times in order{latency}")))
}

fn random_penalty(stage: &Stage<'_>, rows: &[Row]) -> Result<(bool, String), String> {
    is_gpu(stage)?;
    let (in_order, at_random) = (factor(rows, "bandwidth in order")?, factor(rows, "bandwidth at random")?);
    Ok((at_random > in_order, format!("{at_random:.1} times at random, {in_order:.1} in order")))
}

fn multi_link(stage: &Stage<'_>, rows: &[Row]) -> Result<(bool, String), String> {
    is_gpu(stage)?;
    let mut values = rows.iter().filter(|row| row.figure == links::MULTI_LINK).filter_map(Row::value);
    let own = values.next().ok_or("not measured")?;
    // Neighbours behind the same switch add nothing.
    let lifted = values.max_by(f64::total_cmp).ok_or("needs a second device")?;
    Ok((lifted >= 1.8 * own, format!("{own:.1} GB/s alone, {lifted:.1} with a neighbour's link")))
}
