//! What a running query has done so far, as one line on standard error: time, share of the tables answered for, bytes
//! read, effective bandwidth. It appears once a query takes long enough to wonder, and is gone before rows are shown.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pelton_engine::{Query, ScanReport, bytes_text};

use crate::screen;

/// Queries that end sooner show no line.
const QUIET: Duration = Duration::from_millis(300);
/// Between two drawings.
const INTERVAL: Duration = Duration::from_millis(150);
/// Cells of the bar.
const BAR_CELLS: u64 = 10;

/// Draws the line; shared by the thread that waits and the task that runs.
pub(crate) struct Meter {
    state: Option<Mutex<State>>,
}

struct State {
    started: Instant,
    drawn_at: Option<Instant>,
    query: Option<Arc<Query>>,
    is_over: bool,
}

impl Meter {
    /// A meter for work that starts now; it draws only where standard error is a terminal.
    pub(crate) fn start() -> Arc<Self> {
        let state = State { started: Instant::now(), drawn_at: None, query: None, is_over: false };
        Arc::new(Self { state: std::io::stderr().is_terminal().then(|| Mutex::new(state)) })
    }

    /// From now on the line is about `query`.
    pub(crate) fn watch(&self, query: &Arc<Query>) {
        self.with(|state| state.query = Some(Arc::clone(query)));
    }

    /// Draws the line if it is time.
    pub(crate) fn tick(&self) {
        self.with(|state| {
            let is_due = state.started.elapsed() >= QUIET
                && state.drawn_at.is_none_or(|drawn| drawn.elapsed() >= INTERVAL);
            if state.is_over || !is_due {
                return;
            }
            let reports =
                state.query.as_ref().and_then(|query| query.scan_reports().ok()).unwrap_or_default();
            let line = line(state.started.elapsed(), &reports);
            let line = screen::clipped(&line, screen::stderr_columns().saturating_sub(1));
            draw(&format!("\r\x1b[K{line}"));
            state.drawn_at = Some(Instant::now());
        });
    }

    /// Removes the line; none is drawn any more.
    pub(crate) fn hide(&self) {
        self.with(|state| {
            if !state.is_over && state.drawn_at.is_some() {
                draw("\r\x1b[K");
            }
            state.is_over = true;
        });
    }

    fn with(&self, act: impl FnOnce(&mut State)) {
        if let Some(state) = &self.state {
            act(&mut state.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

/// A terminal that is gone has no use for a line.
fn draw(text: &str) {
    let mut out = std::io::stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn line(elapsed: Duration, reports: &[ScanReport]) -> String {
    let sum = |figure: fn(&ScanReport) -> u64| reports.iter().map(figure).sum::<u64>();
    let seconds = elapsed.as_secs_f64();
    let stored = sum(|report| report.stored_bytes);
    if stored == 0 {
        return format!("{seconds:.1} s  (Ctrl-C cancels)");
    }
    let read = sum(|report| report.bytes_read);
    let share = ((read + sum(ScanReport::bytes_skipped)) as f64 / stored as f64).min(1.0);
    let effective = (sum(|report| report.raw_bytes) as f64 * share / seconds.max(1e-9)) as u64;
    let full = (share * BAR_CELLS as f64) as u64;
    let bar: String = (0..BAR_CELLS).map(|cell| if cell < full { '━' } else { ' ' }).collect();
    format!(
        "{seconds:.1} s  [{bar}] {:.0} %  {} read, {}/s effective  (Ctrl-C cancels)",
        share * 100.0,
        bytes_text(read),
        bytes_text(effective),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn report(stored_bytes: u64, bytes_read: u64) -> ScanReport {
        ScanReport {
            bytes_decoded: 0,
            table: "t".into(),
            row_groups_total: 1,
            row_groups_read: 0,
            stored_bytes,
            raw_bytes: stored_bytes * 4,
            bytes_read,
            pinned_bytes: 0,
            device_bytes: 0,
            skipped: BTreeMap::new(),
            rows_filtered: 0,
            output_rows: 0,
            read_wait_ns: 0,
            decode_ns: 0,
            filter_ns: 0,
            io: String::new(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn the_line_says_share_bytes_and_effective_rate() {
        let text = line(Duration::from_secs(2), &[report(1_000_000, 250_000), report(1_000_000, 750_000)]);
        assert_eq!(text, "2.0 s  [━━━━━     ] 50 %  1.0 MB read, 2.0 MB/s effective  (Ctrl-C cancels)");
    }

    #[test]
    fn a_query_without_tables_shows_its_time() {
        assert_eq!(line(Duration::from_millis(1500), &[]), "1.5 s  (Ctrl-C cancels)");
    }
}
