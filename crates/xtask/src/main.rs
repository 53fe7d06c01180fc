//! `cargo xtask`: what people and CI run, in one place.
//!
//! ```text
//!   tidy      what a reviewer should not have to say: import table, unsafe homes, words, links
//!   test      fmt, tidy, clippy, CUDA library, cargo test, README commands, answers beside DuckDB's, server; what CI runs
//!   oracle    the answers alone
//!   server    `pelton serve` beside the ADBC driver alone
//!   readme    the README commands alone
//!   cuda      the CUDA library
//!   bundle    command, library and tests in one archive, for a GPU machine without Rust
//! ```
//!
//! Depends on nothing of the workspace, so that it builds in seconds and runs when nothing else compiles.

#![forbid(unsafe_code)]

mod bundle;
mod cuda;
mod markdown;
mod oracle;
mod process;
mod readme;
mod rust_text;
mod server;
mod steps;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

use workspace::Workspace;

const USAGE: &str = "\
cargo xtask tidy             check what the compiler does not: import table, unsafe homes, words, links
cargo xtask test             what CI runs: fmt, tidy, clippy, CUDA library, tests, README commands, DuckDB comparison
cargo xtask test --fast      the same without README commands and DuckDB comparison
cargo xtask readme           run the commands of README.md
cargo xtask oracle           compare the answers to the benchmark queries with DuckDB's
cargo xtask server           test `pelton serve` with the ADBC driver for Flight SQL
cargo xtask cuda             build the CUDA library; --arch sm_90,... and the other options of cuda/build.sh
cargo xtask bundle           archive for a GPU machine without Rust: command, CUDA library, test programs
cargo xtask bundle --without-pelton
                             the same without the command
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["tidy"] => Workspace::open().and_then(|workspace| tidy::run(&workspace)),
        ["test"] => Workspace::open().and_then(|workspace| test::run(&workspace, test::Extent::Full)),
        ["test", "--fast"] => {
            Workspace::open().and_then(|workspace| test::run(&workspace, test::Extent::Fast))
        }
        ["readme"] => Workspace::open().and_then(|workspace| {
            test::build_command(&workspace)?;
            readme::run(&workspace)
        }),
        ["oracle"] => Workspace::open().and_then(|workspace| {
            test::build_command(&workspace)?;
            oracle::run(&workspace)
        }),
        ["server"] => Workspace::open().and_then(|workspace| {
            test::build_command(&workspace)?;
            server::run(&workspace)
        }),
        ["cuda", ref args @ ..] => Workspace::open().and_then(|workspace| cuda::run(&workspace, args)),
        ["bundle"] => Workspace::open().and_then(|workspace| bundle::run(&workspace, true)),
        ["bundle", "--without-pelton"] => {
            Workspace::open().and_then(|workspace| bundle::run(&workspace, false))
        }
        [] | ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => Err(format!("unknown task '{}'\n\n{USAGE}", words.join(" "))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}
