//! EXPLAIN and EXPLAIN ANALYZE: the plan with estimated and actual rows; the pipelines that run on a device, and why
//! the rest does not; then what each table's scan skipped and by which metadata, what it read, and the effective
//! bandwidth that came of it.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use pelton_error::Result;
use pelton_limits::bytes_text;

use crate::error::from_datafusion;
use crate::expected;
use crate::gpu::{DeviceHandle, PeltonGpuExec, StepTime, device_text, why_text};
use crate::scan::{PeltonScanExec, ScanReport};

/// What running the query gave.
pub(crate) struct Ran {
    pub(crate) rows: usize,
    pub(crate) planning: Duration,
    pub(crate) elapsed: Duration,
}

/// Two text columns, as DataFusion's own EXPLAIN.
pub(crate) fn schema() -> SchemaRef {
    let text = |name: &str| Field::new(name, DataType::Utf8, false);
    Arc::new(Schema::new(vec![text("plan_type"), text("plan")]))
}

/// The explanation as rows.
pub(crate) fn stream(
    plan: &Arc<dyn ExecutionPlan>,
    device: &Arc<DeviceHandle>,
    ran: Option<Ran>,
) -> Result<SendableRecordBatchStream> {
    let tree = pelton_planner::annotate(plan, &expected::estimates(), ran.is_some());
    let title = if ran.is_some() { "physical plan with metrics" } else { "physical plan" };
    let mut sections = vec![(title, tree)];
    if device.is_any() {
        sections.extend(device_text(plan).map(|text| (device.where_text(), text)));
        // Where there is no GPU nobody asks why something is not on one.
        let why = if device.tries_host() { None } else { why_text(plan, device) };
        sections.extend(why.map(|text| ("on the CPU", text)));
    }
    sections.push(("skipping", skipping_text(&scan_reports(plan)?, ran.as_ref())));
    let (kinds, texts): (Vec<&str>, Vec<String>) = sections.into_iter().unzip();
    let columns: Vec<Arc<dyn datafusion::arrow::array::Array>> =
        vec![Arc::new(StringArray::from(kinds)), Arc::new(StringArray::from(texts))];
    let batch = RecordBatch::try_new(schema(), columns).expect("two text columns of the same length");
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema(), futures::stream::iter([Ok(batch)]))))
}

/// The scans of Pelton tables in `plan`, left to right.
pub(crate) fn scan_reports(plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<ScanReport>> {
    let mut reports = Vec::new();
    collect_reports(plan, &mut reports)?;
    Ok(reports)
}

/// Of each pipeline of `plan` that ran on a device, what it was predicted to take and what it took.
pub(crate) fn step_times(plan: &Arc<dyn ExecutionPlan>) -> Vec<StepTime> {
    let own = plan.downcast_ref::<PeltonGpuExec>().map(PeltonGpuExec::step_times);
    let below = plan.children().into_iter().flat_map(step_times);
    own.into_iter().flatten().chain(below).collect()
}

fn collect_reports(plan: &Arc<dyn ExecutionPlan>, reports: &mut Vec<ScanReport>) -> Result<()> {
    if let Some(scan) = plan.downcast_ref::<PeltonScanExec>() {
        reports.push(scan.report().map_err(from_datafusion)?);
    }
    if let Some(node) = plan.downcast_ref::<PeltonGpuExec>() {
        if let Some(instead) = node.fallback_plan() {
            return collect_reports(&instead, reports);
        }
        reports.extend(node.scan_reports().map_err(from_datafusion)?);
    }
    plan.children().into_iter().try_for_each(|child| collect_reports(child, reports))
}

fn skipping_text(reports: &[ScanReport], ran: Option<&Ran>) -> String {
    let mut text = String::new();
    for report in reports {
        describe(report, ran.is_some(), &mut text);
    }
    if let Some(ran) = ran {
        let raw_bytes: u64 = reports.iter().map(|report| report.raw_bytes).sum();
        let bandwidth = raw_bytes as f64 / ran.elapsed.as_secs_f64().max(1e-9);
        let seconds = ran.elapsed.as_secs_f64();
        writeln!(
            text,
            "{} in {seconds:.3} s, planned in {:.1} ms before; {} uncompressed answered for: {}/s effective",
            counted(ran.rows as u64, "row"),
            ran.planning.as_secs_f64() * 1e3,
            bytes_text(raw_bytes),
            bytes_text(bandwidth as u64),
        )
        .expect("writing to a string");
    } else if reports.is_empty() {
        text.push_str("no Pelton table is read\n");
    }
    text
}

fn describe(report: &ScanReport, ran: bool, text: &mut String) {
    let mut line =
        |arguments: std::fmt::Arguments| writeln!(text, "{arguments}").expect("writing to a string");
    line(format_args!(
        "{}: {}, {} stored for {} uncompressed in the columns needed",
        report.table,
        counted(report.row_groups_total, "row group"),
        bytes_text(report.stored_bytes),
        bytes_text(report.raw_bytes),
    ));
    for (by, skipped) in &report.skipped {
        line(format_args!(
            "  skipped by {}: {}, {}",
            by.name(),
            counted(skipped.row_groups, "row group"),
            bytes_text(skipped.stored_bytes)
        ));
    }
    if ran {
        line(format_args!(
            "  read: {}, {}; rows out {}, dropped by filters {}",
            counted(report.row_groups_read, "row group"),
            tiers_text(report),
            report.output_rows,
            report.rows_filtered,
        ));
        line(format_args!(
            "  thread time: waiting for reads {}, decoding {}, filtering {}",
            milliseconds(report.read_wait_ns),
            milliseconds(report.decode_ns),
            milliseconds(report.filter_ns),
        ));
        line(format_args!("  io: {}", report.io));
    }
    for note in &report.notes {
        line(format_args!("  note: {note}"));
    }
}

/// The bytes that were taken, by the tier that they came from.
fn tiers_text(report: &ScanReport) -> String {
    let tiers = [(report.pinned_bytes, "pinned memory"), (report.device_bytes, "device memory")];
    let tiers = tiers.iter().filter(|(bytes, _)| *bytes > 0);
    let mut texts: Vec<_> =
        tiers.map(|(bytes, tier)| format!("{} from {tier}", bytes_text(*bytes))).collect();
    if report.bytes_read > 0 || texts.is_empty() {
        texts.insert(0, bytes_text(report.bytes_read));
    }
    texts.join(", ")
}

fn milliseconds(ns: u64) -> String {
    format!("{:.1} ms", ns as f64 / 1e6)
}

/// A number of things in words: `1 row`, `2 rows`.
pub fn counted(count: u64, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_thing_is_not_many() {
        let texts = [0, 1, 2].map(|count| counted(count, "row group"));
        assert_eq!(texts, ["0 row groups", "1 row group", "2 row groups"]);
    }
}
