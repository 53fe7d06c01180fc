//! Progress bars on standard error, only where that is a terminal.

use std::io::IsTerminal;
use std::sync::Mutex;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pelton_load::{Phase, Progress, Snapshot};

/// Shows a load phase by phase: rows, raw rate, time left.
pub(crate) struct LoadBar {
    bar: ProgressBar,
    phase: Mutex<Option<Phase>>,
}

impl LoadBar {
    pub(crate) fn new(quiet: bool) -> Self {
        Self { bar: new_bar(quiet), phase: Mutex::new(None) }
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Progress for LoadBar {
    fn update(&self, snapshot: &Snapshot) {
        let mut phase = self.phase.lock().expect("nothing panics while it is held");
        if *phase != Some(snapshot.phase) {
            *phase = Some(snapshot.phase);
            self.bar.reset();
            self.bar.set_style(style(snapshot.row_count_total.is_some()));
        }
        match (snapshot.row_count_total, snapshot.input_bytes_total) {
            (Some(total), _) => self.bar.set_length(total),
            (None, _) => self.bar.unset_length(),
        }
        self.bar.set_position(snapshot.row_count);
        let rate = snapshot.raw_bytes as f64 / 1e6 / self.bar.elapsed().as_secs_f64().max(1e-3);
        let input = match snapshot.input_bytes_total {
            Some(total) if total > 0 => format!(", {}% of input", 100 * snapshot.input_bytes / total),
            _ => String::new(),
        };
        self.bar.set_message(format!("{:<8} {rate:.0} MB/s raw{input}", snapshot.phase.name()));
    }
}

/// A bar that counts rows.
pub(crate) fn row_bar(total: u64, message: String, quiet: bool) -> ProgressBar {
    let bar = new_bar(quiet);
    bar.set_style(style(true));
    bar.set_length(total);
    bar.set_message(message);
    bar
}

fn new_bar(quiet: bool) -> ProgressBar {
    if quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    }
    ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10))
}

fn style(has_total: bool) -> ProgressStyle {
    let template = if has_total {
        "{msg}  [{bar:30}] {human_pos}/{human_len} rows  {elapsed}  {eta} left"
    } else {
        "{msg}  {spinner} {human_pos} rows  {elapsed}"
    };
    ProgressStyle::with_template(template).expect("the template is well-formed").progress_chars("━╸ ")
}
