//! Pelton inside DataFusion sessions, and what reaches its own sessions besides SQL: examples, `STORED AS PELTON`, files
//! with folders, files loaded and in place, Substrait plans.

mod alike;
mod examples;
mod files;
mod stored_as;
#[cfg(feature = "substrait")]
mod substrait;

use std::path::PathBuf;

use pelton_engine::{DeviceChoice, SessionOptions};
use pelton_exec::RuntimeOptions;

/// Everything that kernels can do, on the host's cores. Programs are kept between runs of the tests.
fn on_host() -> SessionOptions {
    let cache = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("programs");
    SessionOptions {
        threads: Some(2),
        device: DeviceChoice::Host,
        runtime: RuntimeOptions { cache: Some(cache), workers: 2, ..RuntimeOptions::default() },
        ..SessionOptions::default()
    }
}

/// The lines of a drawn table, sorted: rows in no particular order.
fn sorted(drawn: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = drawn.lines().collect();
    lines.sort_unstable();
    lines
}
