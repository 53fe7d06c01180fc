//! The `pelton` command: load files into compressed tables, query them, see what was never read.
//!
//! Data goes to standard output, everything else to standard error; the exit status is 0 only on success,
//! 1 on an error, 2 on wrong usage and 130 after Ctrl-C.

#![forbid(unsafe_code)]

mod args;
mod bench;
mod cancel;
mod doctor;
mod drawing;
mod generate;
mod inspect;
mod layer;
mod load;
mod machine;
mod meter;
mod output;
mod paint;
mod pointed;
mod profile;
mod progress;
mod run;
mod screen;
mod serve;
mod shell;
mod sql;
mod sqltext;
mod substrait;
mod tables;
mod topology;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use pelton_error::{Error, ErrorKind, Result};

use args::{Args, Command};

pub use args::parse_size;
pub use load::{cluster_by, star_link};
pub use pointed::pointed_plainly;
pub use sql::scan_options;

/// Runs the command with these arguments, the first of which is its name; the exit status is what `main` returns.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    ExitCode::from(status(args))
}

/// As [`main`], with the exit status as a number for a process that is not this program's own.
pub fn status(args: impl IntoIterator<Item = OsString>) -> u8 {
    if let Some(feature) = missing_cpu_feature() {
        eprintln!(
            "pelton: this build needs a CPU with {feature}; build from source on this machine without .cargo/config.toml"
        );
        return 1;
    }
    match run(Args::parse_from(args)) {
        Ok(()) => 0,
        Err(error) if error.kind() == &ErrorKind::Cancelled => {
            eprintln!("pelton: {error}");
            130
        }
        Err(error) if is_broken_pipe(&error) => 0,
        Err(error) => {
            eprintln!("pelton: {error}");
            1
        }
    }
}

fn run(args: Args) -> Result<()> {
    let Some(command) = args.command else { return shell::run(args.shell) };
    match command {
        Command::Shell(args) => shell::run(args),
        Command::Sql(args) => sql::run(args),
        Command::Load(args) => load::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Generate(args) => generate::run(&args),
        Command::Tables(args) => tables::list(&args),
        Command::Drop(args) => tables::drop(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Topology(args) => topology::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Bench(args) => bench::run(args),
    }
}

/// A reader that went away (`pelton sql … | head`) has what it wanted.
fn is_broken_pipe(error: &Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(current) = source {
        if let Some(io) = current.downcast_ref::<std::io::Error>() {
            return io.kind() == std::io::ErrorKind::BrokenPipe;
        }
        source = current.source();
    }
    false
}

/// The first instruction set this build was compiled for that the CPU lacks.
pub fn missing_cpu_feature() -> Option<&'static str> {
    #[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
    {
        if !std::arch::is_x86_feature_detected!("avx2") {
            return Some("AVX2");
        }
        if !std::arch::is_x86_feature_detected!("bmi2") {
            return Some("BMI2");
        }
    }
    None
}
