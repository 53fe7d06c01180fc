//! E7: choosing encodings from 1, 5 and 10 % of a table, as `pelton bench sampling` measures it (Table 1).

use crate::{Quoted, Shape};
use pelton_datagen::Dataset;
use pelton_error::Result;
use pelton_load::ClusterBy;

use super::stage::{derived, row, shape, with};
use super::{Findings, Stage};
use crate::sampling::{self, SamplingResult};
use crate::workload::Workload;

/// The paper's rows are of SSB and taxi trips.
pub(super) fn run(stage: &Stage<'_>) -> Result<Findings> {
    let datasets: &[Dataset] =
        if stage.options.is_quick { &[Dataset::Ssb] } else { &[Dataset::Ssb, Dataset::Taxi] };
    let mut findings = Findings::default();
    for dataset in datasets {
        let workload = Workload {
            dataset: *dataset,
            scale: stage.options.scale,
            seed: stage.options.seed,
            dir: stage.options.dir.clone(),
            cluster_by: ClusterBy::None,
            threads: stage.options.threads,
        };
        let results = sampling::run(&workload, stage.options.seed, stage.cancel, stage.say)?;
        for result in &results {
            push(stage, *dataset, result, &mut findings);
        }
        findings.shapes.push(ratio_is_easy(stage, *dataset, &results));
    }
    Ok(findings)
}

fn push(stage: &Stage<'_>, dataset: Dataset, result: &SamplingResult, findings: &mut Findings) {
    let sample = result.sample_ratio * 100.0;
    let figures = [
        ("mean", result.deviation_mean, result.paper_mean),
        ("worst", result.deviation_max, result.paper_max),
    ];
    for (name, value, paper) in figures {
        let what = format!("{dataset}, {}, {sample:.0} % sample, {name}", result.objective);
        let note = format!("same choice for {} of {} columns", result.same_choice, result.columns);
        let ours = row(&stage.cpu, "Table 1", what, "x the best choice", derived(value));
        findings.rows.push(with(ours, paper.map(Quoted::stated), note));
    }
}

/// "For compression ratio close to optimal configurations even for small samples." Fails where what loads choose takes a
/// tenth more bytes than the best encoding of the whole column, in the mean over the columns.
fn ratio_is_easy(stage: &Stage<'_>, dataset: Dataset, results: &[SamplingResult]) -> Shape {
    let worst = |objective: &str| {
        let of = results.iter().filter(|result| result.objective == objective);
        of.map(|result| result.deviation_mean).fold(0.0, f64::max)
    };
    let (ratio, time) = (worst("ratio"), worst("time"));
    let detail = format!("mean deviation at most {ratio:.3} by ratio, {time:.3} by time");
    shape(
        &stage.cpu,
        &format!("E7: the best ratio is found from samples of {dataset}"),
        Ok((ratio <= 1.1, detail)),
    )
}
