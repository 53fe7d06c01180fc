//! The `pelton` command: load files into compressed tables, query them, see what was never read.
//!
//! Data goes to standard output, everything else to standard error; the exit status is 0 only on success,
//! 1 on an error, 2 on wrong usage and 130 after Ctrl-C (128 and the signal). A reader of standard output that goes away ends a command
//! quietly, with status 0.

#![forbid(unsafe_code)]

mod args;
mod bench;
mod cancel;
mod console;
mod doctor;
mod drawing;
mod generate;
mod inspect;
mod layer;
mod limits;
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
mod substrait;
mod tables;
mod topology;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pelton_device::cuda::{compile_with, serve_compiler};
use pelton_error::{ErrorKind, Result, ResultExt};
use pelton_limits::{begin_with_small_pages, go_on_with_huge_pages};

use args::{Args, Command};
use paint::Paint;

pub use args::parse_size;
pub use load::{cluster_by, star_link};
pub use pointed::pointed_plainly;
pub use sql::scan_options;

/// What [`Command::CompileKernels`] is called.
const COMPILE_KERNELS: &str = "compile-kernels";

/// Exit status of a command that could not do its work.
const FAILED: u8 = 1;
/// Of a command line that says nothing that can be done.
const MISUSED: u8 = 2;

/// Runs the command with these arguments, the first of which is its name; the exit status is what `main` returns.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    survive_full_files();
    begin_with_small_pages();
    if let Ok(program) = std::env::current_exe() {
        compile_kernels_with(vec![program.into()]);
    }
    ExitCode::from(status(args))
}

/// Lets processes of their own compile kernels, which `command` starts: this command and its first arguments. The first call
/// counts.
pub fn compile_kernels_with(mut command: Vec<OsString>) {
    command.push(COMPILE_KERNELS.into());
    compile_with(command);
}

/// As [`main`], with the exit status as a number for a process that is not this program's own.
pub fn status(args: impl IntoIterator<Item = OsString>) -> u8 {
    if let Some(feature) = missing_cpu_feature() {
        console::say(format_args!(
            "pelton: this build needs a CPU with {feature}; build from source on this machine without .cargo/config.toml"
        ));
        return FAILED;
    }
    let result = match args::parse(args) {
        Ok(args) => run(args),
        Err(error) => match answer(&error) {
            Ok(status) => return status,
            Err(error) => Err(error),
        },
    };
    match result {
        Ok(()) => 0,
        Err(error) if console::reader_is_gone(&error) => 0,
        Err(error) => {
            console::say(format_args!("pelton: {error}"));
            if error.kind() == &ErrorKind::Cancelled { cancel::exit_status() } else { FAILED }
        }
    }
}

/// A write past `ulimit -f` gives an error, which names the file, instead of ending the process.
fn survive_full_files() {
    let is_past = Arc::<AtomicBool>::default();
    // Where no handler can be had, the process ends as it would have.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, is_past);
}

/// Prints what the command line asked for (help, the version), or what is wrong with it; gives the exit status.
fn answer(error: &clap::Error) -> Result<u8> {
    let text = |paint: Paint| match paint.is_on() {
        true => error.render().ansi().to_string(),
        false => error.render().to_string(),
    };
    if error.use_stderr() {
        console::say(text(Paint::of_stderr()).trim_end());
        return Ok(MISUSED);
    }
    console::print(text(Paint::of_stdout())).map(|()| 0)
}

fn run(args: Args) -> Result<()> {
    let Some(command) = args.command else { return shell::run(args.shell) };
    // Their queries do so once they run.
    if !matches!(command, Command::Shell(_) | Command::Sql(_) | Command::Serve(_)) {
        go_on_with_huge_pages();
    }
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
        Command::CompileKernels => {
            serve_compiler().context(|| "compiling kernels for another process".to_owned())
        }
    }
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
