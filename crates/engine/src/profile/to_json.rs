//! The profile of a query as JSON: `docs/specs/query-profile.md`, field by field.

use std::time::{Duration, UNIX_EPOCH};

use super::json::JsonWriter;
use super::links::LinkUse;
use super::node::ProfileNode;
use super::timeline::{MemoryUse, Timeline};
use super::{QueryProfile, QueryState};
use crate::scan::ScanReport;

/// The version of the form.
const FORMAT: u32 = 1;

/// All of it.
pub(super) fn profile(profile: &QueryProfile) -> String {
    let mut json = JsonWriter::default();
    json.object(|json| {
        json.field("format").number(FORMAT);
        json.field("engine").string(concat!("pelton ", env!("CARGO_PKG_VERSION")));
        json.field("sql").optional(profile.sql.as_deref(), JsonWriter::string);
        json.field("state").string(profile.state.name());
        let error = match &profile.state {
            QueryState::Failed(message) => Some(message.as_str()),
            _ => None,
        };
        json.field("error").optional(error, JsonWriter::string);
        let seconds = profile.started_at.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        json.field("started_at_s").optional(seconds, |json, at| json.float(at.as_secs_f64()));
        json.field("planning_ns").optional(profile.planning, time);
        json.field("elapsed_ns").optional(profile.elapsed, time);
        json.field("rows").optional(profile.rows, JsonWriter::number);
        json.field("threads").number(profile.threads);
        json.field("device").optional(profile.device.as_deref(), JsonWriter::string);
        json.field("plan");
        node(json, &profile.plan);
        json.field("links").list(|json| profile.links.iter().for_each(|one| link(json, one)));
        json.field("memory").list(|json| profile.memory.iter().for_each(|one| memory(json, one)));
        json.field("timeline");
        timeline(json, &profile.timeline);
        json.field("notes").list(|json| profile.notes.iter().for_each(|note| json.string(note)));
    });
    json.finish()
}

/// The plan alone.
pub(super) fn plan(root: &ProfileNode) -> String {
    let mut json = JsonWriter::default();
    node(&mut json, root);
    json.finish()
}

fn time(json: &mut JsonWriter, time: Duration) {
    json.number(time.as_nanos());
}

fn node(json: &mut JsonWriter, node_: &ProfileNode) {
    json.object(|json| {
        json.field("id").number(node_.id);
        json.field("name").string(&node_.name);
        json.field("detail").string(&node_.detail);
        json.field("place").string(node_.place.name());
        json.field("reason").string(&node_.reason);
        json.field("estimated_rows").optional(node_.estimated_rows, JsonWriter::float);
        json.field("actual_rows").optional(node_.actual_rows, JsonWriter::number);
        json.field("elapsed_ns").optional(node_.busy, time);
        json.field("started_ns").optional(node_.active.map(|(start, _)| start), time);
        json.field("ended_ns").optional(node_.active.map(|(_, end)| end), time);
        json.field("metrics").list(|json| {
            for metric in &node_.metrics {
                json.object(|json| {
                    json.field("name").string(&metric.name);
                    json.field("unit").string(metric.unit.name());
                    json.field("value").number(metric.value);
                });
            }
        });
        json.field("scan").optional(node_.scan.as_ref(), scan);
        json.field("children").list(|json| node_.children.iter().for_each(|child| node(json, child)));
    });
}

fn scan(json: &mut JsonWriter, scan: &ScanReport) {
    json.object(|json| {
        json.field("table").string(&scan.table);
        for (name, number) in [
            ("row_groups_total", scan.row_groups_total),
            ("row_groups_read", scan.row_groups_read),
            ("stored_bytes", scan.stored_bytes),
            ("raw_bytes", scan.raw_bytes),
            ("bytes_read", scan.bytes_read),
            ("pinned_bytes", scan.pinned_bytes),
            ("device_bytes", scan.device_bytes),
            ("bytes_decoded", scan.bytes_decoded),
            ("rows_filtered", scan.rows_filtered),
            ("output_rows", scan.output_rows),
            ("read_wait_ns", scan.read_wait_ns),
            ("decode_ns", scan.decode_ns),
            ("filter_ns", scan.filter_ns),
        ] {
            json.field(name).number(number);
        }
        json.field("skipped").list(|json| {
            for (by, skipped) in &scan.skipped {
                json.object(|json| {
                    json.field("by").string(by.name());
                    json.field("row_groups").number(skipped.row_groups);
                    json.field("stored_bytes").number(skipped.stored_bytes);
                });
            }
        });
        json.field("io").string(&scan.io);
        json.field("notes").list(|json| scan.notes.iter().for_each(|note| json.string(note)));
    });
}

fn link(json: &mut JsonWriter, link: &LinkUse) {
    json.object(|json| {
        json.field("kind").string(link.kind.name());
        json.field("name").string(&link.name);
        json.field("bytes").number(link.bytes);
        json.field("busy_ns").optional(link.busy, time);
        json.field("bytes_per_s").optional(link.bytes_per_s(), JsonWriter::float);
        let ceiling = link.ceiling.as_ref();
        json.field("ceiling_bytes_per_s")
            .optional(ceiling.map(|ceiling| ceiling.bytes_per_s), JsonWriter::float);
        json.field("ceiling_source")
            .optional(ceiling.map(|ceiling| ceiling.source.as_str()), JsonWriter::string);
        json.field("remedy").string(&link.remedy);
    });
}

fn memory(json: &mut JsonWriter, memory: &MemoryUse) {
    json.object(|json| {
        json.field("tier").string(memory.tier);
        json.field("name").string(&memory.name);
        json.field("limit_bytes").optional(memory.limit_bytes, JsonWriter::number);
        json.field("peak_bytes").number(memory.peak_bytes);
        json.field("points").list(|json| {
            for (at, bytes) in &memory.points {
                json.list(|json| {
                    time(json, *at);
                    json.number(bytes);
                });
            }
        });
    });
}

fn timeline(json: &mut JsonWriter, timeline: &Timeline) {
    json.object(|json| {
        json.field("lanes").list(|json| {
            for lane in &timeline.lanes {
                json.object(|json| {
                    json.field("node").optional(lane.node, JsonWriter::number);
                    json.field("name").string(&lane.name);
                });
            }
        });
        json.field("spans").list(|json| {
            for span in &timeline.spans {
                json.object(|json| {
                    json.field("lane").number(span.lane);
                    json.field("activity").string(span.activity);
                    json.field("start_ns");
                    time(json, span.start);
                    json.field("end_ns");
                    time(json, span.end);
                    json.field("bytes").number(span.bytes);
                    json.field("rows").number(span.rows);
                });
            }
        });
        json.field("spans_dropped").number(timeline.spans_dropped);
    });
}
