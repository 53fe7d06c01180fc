//! The `pelton` command; all of it is in the library, which the Python package runs too.

#![forbid(unsafe_code)]

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    pelton_cli::main(std::env::args_os())
}
