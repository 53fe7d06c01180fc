//! What the server counts, in Prometheus' text format.
//!
//! Counters only rise. A gauge that is not zero when nothing runs shows something that was not freed.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Upper bounds of the histogram's buckets, in seconds: from what a look-up takes to what a report takes.
const BUCKETS_S: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 600.0];

/// Everything that is counted.
#[derive(Default)]
pub(crate) struct Metrics {
    /// Queries that began, by `statement` or `prepared`.
    pub(crate) began: Labelled,
    /// Queries that failed, by gRPC code.
    pub(crate) failed: Labelled,
    /// Queries that were cancelled, by who or what ended them.
    pub(crate) cancelled: Labelled,
    /// Calls without the right token, by what was wrong.
    pub(crate) unauthenticated: Labelled,
    /// Seconds of planning.
    pub(crate) planning_seconds: Histogram,
    /// Queries that gave all their rows.
    pub(crate) completed: AtomicU64,
    /// Rows handed to clients.
    pub(crate) rows: AtomicU64,
    /// Stored bytes that scans read.
    pub(crate) bytes_read: AtomicU64,
    /// Stored bytes that scans did not need to read.
    pub(crate) bytes_skipped: AtomicU64,
    /// Seconds from asking for rows to their end.
    pub(crate) seconds: Histogram,
}

/// What is true at this moment.
pub(crate) struct Gauges {
    pub(crate) running: usize,
    pub(crate) aside: usize,
    pub(crate) planning: usize,
    pub(crate) queued: usize,
    pub(crate) at_once: usize,
    pub(crate) memory_used_bytes: u64,
    pub(crate) memory_limit_bytes: Option<u64>,
    pub(crate) tickets: usize,
    pub(crate) prepared: usize,
    pub(crate) evicted: u64,
    pub(crate) resident_bytes: Option<u64>,
}

impl Metrics {
    /// The page that Prometheus reads.
    pub(crate) fn page(&self, gauges: &Gauges) -> String {
        let mut page = Page::default();
        page.gauge("pelton_queries_running", "Queries that hold a permit.", gauges.running);
        page.gauge("pelton_queries_planning", "Statements that are planned.", gauges.planning);
        page.gauge("pelton_queries_aside", "Results that wait for slow clients.", gauges.aside);
        page.gauge("pelton_queries_queued", "Queries that wait for a permit.", gauges.queued);
        page.gauge("pelton_queries_at_once", "Queries that may run at once.", gauges.at_once);
        page.gauge("pelton_memory_used_bytes", "Bytes that operators hold.", gauges.memory_used_bytes);
        if let Some(limit) = gauges.memory_limit_bytes {
            page.gauge("pelton_memory_limit_bytes", "Bytes that operators may hold.", limit);
        }
        if let Some(resident) = gauges.resident_bytes {
            page.gauge("pelton_resident_bytes", "Memory of the process that is in use.", resident);
        }
        page.gauge("pelton_tickets", "Results that clients may fetch.", gauges.tickets);
        page.gauge("pelton_prepared_statements", "Prepared statements that are kept.", gauges.prepared);
        page.head("pelton_evicted_total", "Tickets and prepared statements that made room.", "counter");
        page.line(format_args!("pelton_evicted_total {}", gauges.evicted));
        page.labelled("pelton_queries_total", "Queries that began.", "kind", &self.began);
        page.counter("pelton_queries_completed_total", "Queries that gave all their rows.", &self.completed);
        page.labelled("pelton_queries_failed_total", "Queries that failed.", "code", &self.failed);
        page.labelled(
            "pelton_queries_cancelled_total",
            "Queries that were cancelled.",
            "by",
            &self.cancelled,
        );
        page.labelled(
            "pelton_unauthenticated_total",
            "Calls without the right token.",
            "reason",
            &self.unauthenticated,
        );
        page.counter("pelton_rows_total", "Rows handed to clients.", &self.rows);
        page.counter("pelton_bytes_read_total", "Stored bytes that scans read.", &self.bytes_read);
        page.counter(
            "pelton_bytes_skipped_total",
            "Stored bytes that scans need not read.",
            &self.bytes_skipped,
        );
        page.histogram(
            "pelton_query_seconds",
            "Time from asking for rows to their end, the queue included.",
            &self.seconds,
        );
        page.histogram("pelton_planning_seconds", "Time that planning took.", &self.planning_seconds);
        page.text
    }
}

/// A counter for each value of one label.
#[derive(Default)]
pub(crate) struct Labelled(Mutex<BTreeMap<&'static str, u64>>);

impl Labelled {
    /// One more with this value.
    pub(crate) fn add(&self, value: &'static str) {
        *self.counts().entry(value).or_default() += 1;
    }

    fn counts(&self) -> std::sync::MutexGuard<'_, BTreeMap<&'static str, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many took how long.
#[derive(Default)]
pub(crate) struct Histogram {
    counts: [AtomicU64; BUCKETS_S.len()],
    count: AtomicU64,
    sum_us: AtomicU64,
}

impl Histogram {
    /// One more that took `time`.
    pub(crate) fn observe(&self, time: Duration) {
        if let Some(index) = BUCKETS_S.iter().position(|bound| time.as_secs_f64() <= *bound) {
            self.counts[index].fetch_add(1, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn head(&mut self, name: &str, help: &str, kind: &str) {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    fn line(&mut self, line: impl Display) {
        writeln!(self.text, "{line}").expect("writing to a string");
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, help, "gauge");
        self.line(format_args!("{name} {value}"));
    }

    fn counter(&mut self, name: &str, help: &str, value: &AtomicU64) {
        self.head(name, help, "counter");
        self.line(format_args!("{name} {}", value.load(Ordering::Relaxed)));
    }

    fn labelled(&mut self, name: &str, help: &str, label: &str, values: &Labelled) {
        self.head(name, help, "counter");
        for (value, count) in values.counts().iter() {
            self.line(format_args!("{name}{{{label}=\"{value}\"}} {count}"));
        }
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head(name, help, "histogram");
        let mut below = 0;
        for (bound, count) in BUCKETS_S.iter().zip(&histogram.counts) {
            below += count.load(Ordering::Relaxed);
            self.line(format_args!("{name}_bucket{{le=\"{bound}\"}} {below}"));
        }
        let count = histogram.count.load(Ordering::Relaxed);
        let seconds = histogram.sum_us.load(Ordering::Relaxed) as f64 / 1e6;
        self.line(format_args!("{name}_bucket{{le=\"+Inf\"}} {count}"));
        self.line(format_args!("{name}_sum {seconds}"));
        self.line(format_args!("{name}_count {count}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_count_under_its_name_and_label() {
        let metrics = Metrics::default();
        metrics.began.add("statement");
        metrics.began.add("statement");
        metrics.cancelled.add("client");
        metrics.rows.fetch_add(7, Ordering::Relaxed);
        for milliseconds in [1, 2, 700_000] {
            metrics.seconds.observe(Duration::from_millis(milliseconds));
        }
        let page = metrics.page(&Gauges {
            running: 1,
            aside: 2,
            planning: 3,
            queued: 0,
            at_once: 8,
            memory_used_bytes: 5,
            memory_limit_bytes: None,
            tickets: 0,
            prepared: 0,
            evicted: 4,
            resident_bytes: None,
        });
        for line in [
            "pelton_queries_running 1",
            "pelton_queries_aside 2",
            "pelton_queries_planning 3",
            "pelton_evicted_total 4",
            "pelton_queries_total{kind=\"statement\"} 2",
            "pelton_queries_cancelled_total{by=\"client\"} 1",
            "pelton_rows_total 7",
            "pelton_query_seconds_bucket{le=\"0.001\"} 1",
            "pelton_query_seconds_bucket{le=\"0.0025\"} 2",
            "pelton_query_seconds_bucket{le=\"600\"} 2",
            "pelton_query_seconds_bucket{le=\"+Inf\"} 3",
            "pelton_query_seconds_sum 700.003",
            "# TYPE pelton_query_seconds histogram",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} is missing of\n{page}");
        }
        assert!(!page.contains("pelton_memory_limit_bytes"));
    }
}
