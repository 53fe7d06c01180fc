//! The `pelton` command: load files into compressed tables, query them, see what was never read.
//!
//! Data goes to standard output, everything else to standard error; the exit status is 0 only on success,
//! 1 on an error, 2 on wrong usage and 130 after Ctrl-C.

#![forbid(unsafe_code)]

mod args;
mod bench;
mod cancel;
mod doctor;
mod generate;
mod inspect;
mod layer;
mod load;
mod machine;
mod output;
mod progress;
mod serve;
mod sql;
mod tables;
mod topology;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use pelton_error::{Error, ErrorKind, Result};

use args::{Args, Command};

/// Runs the command with these arguments, the first of which is its name; the exit status is what `main` returns.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    if let Some(feature) = missing_cpu_feature() {
        eprintln!(
            "pelton: this build needs a CPU with {feature}; build from source on this machine without .cargo/config.toml"
        );
        return ExitCode::FAILURE;
    }
    match run(Args::parse_from(args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == &ErrorKind::Cancelled => {
            eprintln!("pelton: {error}");
            ExitCode::from(130)
        }
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pelton: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> Result<()> {
    match args.command {
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
fn missing_cpu_feature() -> Option<&'static str> {
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
