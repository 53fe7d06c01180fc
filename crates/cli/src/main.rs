//! The `pelton` command; all of it is in the library, which the Python package runs too.

#![forbid(unsafe_code)]

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: pelton_limits::Heap = pelton_limits::Heap;

fn main() -> ExitCode {
    pelton_cli::main(std::env::args_os())
}
