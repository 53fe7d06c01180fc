//! `cargo xtask`: what people and CI run, in one place.
//!
//! ```text
//!   tidy      what a reviewer should not have to say: import table, unsafe homes, words, links
//!   test      fmt, tidy, clippy, CUDA library, cargo test, stores, Python package, README commands, answers beside
//!             DuckDB's, profile pages; what CI runs
//!   stores    tests against object stores alone
//!   python    the wheel of the Python package, and its tests
//!   readme    the commands of README.md
//!   oracle    answers beside DuckDB's
//!   differential
//!             random expressions and statements beside DuckDB's answers
//!   profile   profile pages in a browser
//!   server    `pelton serve` beside the ADBC driver
//!   cuda      the CUDA library
//!   guide     the guide as pages, and what it shows, run
//!   bundle    command, library and tests in one archive, for a GPU machine without Rust
//! ```
//!
//! Depends on nothing of the workspace, so that it builds in seconds and runs when nothing else compiles.

#![forbid(unsafe_code)]

mod bundle;
mod cuda;
mod differential;
mod environments;
mod guide;
mod lint;
mod markdown;
mod oracle;
mod process;
mod profile;
mod python;
mod readme;
mod rust_text;
mod server;
mod steps;
mod stores;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

use workspace::Workspace;

const USAGE: &str = "\
cargo xtask tidy             check what the compiler does not: import table, unsafe homes, words, links
cargo xtask test             what CI runs: fmt, tidy, clippy, CUDA library, tests, stores, Python package, README
                             commands, DuckDB comparison, profile pages in a browser
cargo xtask test --fast      the same up to the tests
cargo xtask stores           run the tests against object stores, S3 and HTTP, on this machine
cargo xtask python           build the wheel of the Python package, install it into build/python-venv, test it there
cargo xtask readme           run the commands of README.md
cargo xtask oracle           compare the answers to the benchmark queries with DuckDB's
cargo xtask differential     the same for random expressions and statements; --seed S, --case ROUND.NUMBER: those again
cargo xtask profile          open profile pages of queries in a headless browser and look at them
cargo xtask guide            run what the guide shows and build it into build/guide
cargo xtask server           test `pelton serve` with the ADBC driver for Flight SQL
cargo xtask cuda             build the CUDA library; --arch sm_90,... and the other options of cuda/build.sh
cargo xtask bundle           archive for a GPU machine without Rust: command, CUDA library, test programs
cargo xtask bundle --without-pelton
                             the same without the command
";

fn main() -> ExitCode {
    if let Some(status) = lint::as_rustc() {
        return status;
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["tidy"] => Workspace::open().and_then(|workspace| tidy::run(&workspace)),
        ["test"] | ["test", "--fast"] => Workspace::open().and_then(|workspace| {
            let extent = if words.len() == 1 { test::Extent::Full } else { test::Extent::Fast };
            test::run(&workspace, extent)
        }),
        ["stores"] => Workspace::open().and_then(|workspace| stores::run(&workspace)),
        ["readme"] => Workspace::open().and_then(|workspace| {
            test::build_command(&workspace)?;
            readme::run(&workspace)
        }),
        ["oracle"] => Workspace::open().and_then(|workspace| {
            test::build_command(&workspace)?;
            oracle::run(&workspace)
        }),
        ["differential", ref args @ ..] => Workspace::open().and_then(|workspace| {
            test::build_command(&workspace)?;
            differential::run(&workspace, args)
        }),
        ["guide"] => Workspace::open().and_then(|workspace| {
            test::build_command(&workspace)?;
            guide::run(&workspace).map(|remark| println!("{remark}"))
        }),
        ["python"] => {
            Workspace::open().and_then(|workspace| python::run(&workspace).map(|remark| println!("{remark}")))
        }
        ["profile"] => Workspace::open().and_then(|workspace| {
            test::build_command(&workspace)?;
            profile::run(&workspace).map(|remark| println!("{remark}"))
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
