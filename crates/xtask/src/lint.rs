//! Clippy as part of the build: one compilation of the libraries below the workspace serves lints and tests.
//!
//! `cargo clippy` checks all 400 crates that the workspace stands on before it looks at the first of ours, and a build
//! compiles them again. On a checkout where nothing is built yet, cargo therefore starts a copy of this program in place of
//! rustc (`RUSTC_WRAPPER`, which does not change what cargo thinks of the result): it compiles, and for crates of the
//! workspace runs Clippy over the same sources with the same arguments: of a library, over the program of its own tests, which
//! has all of it once more. Programs of tests are hardly optimised then, and some packages less than the product has them; so
//! that nobody takes what comes of that for it, it has a folder of its own. Where things are built already, what is fresh would
//! go unseen, and `cargo clippy` has its own results from last time.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::process::{self, Result};
use crate::workspace::Workspace;

/// What the copy is called, by which it knows that it stands for rustc.
const NAME: &str = "rustc-and-clippy";
/// Tells the copy where Clippy is.
const DRIVER: &str = "PELTON_CLIPPY_DRIVER";
/// How Clippy takes arguments of its own from a variable.
const SEPARATOR: &str = "__CLIPPY_HACKERY__";

/// Its tests compute what they expect row by row, patterns of texts too, which takes longer than the kernels beside it.
const INTERPRETING: &str = "pelton-exec";

/// Where all of that goes, below cargo's folder.
pub(crate) const FOLDER: &str = "tests";

/// Packages whose names begin so get no more than [`LITTLE`]: they go through rows and plans, of which tests have few, and are a
/// third of a build.
const OF_OTHERS: [&str; 4] = ["arrow-", "parquet", "datafusion", "sqlparser"];
/// The largest library, for which others wait: it gets no more either, and is compiled by all cores.
const LARGEST: &str = "pelton-engine";
const LITTLE: &str = "1";
/// And these are not optimised: functions and formats of which tests have a few rows each, what waits for a network, and what
/// reads a command line.
const RARE: [&str; 22] = [
    "axum",
    "brotli",
    "clap",
    "cudarc",
    "datafusion-catalog",
    "datafusion-datasource",
    "datafusion-execution",
    "datafusion-functions",
    "datafusion-session",
    "datafusion-substrait",
    "h2",
    "hyper",
    "indicatif",
    "object_store",
    "proptest",
    "prost",
    "reqwest",
    "rustls",
    "rustyline",
    "substrait",
    "tonic",
    "vt100",
];
const NOT: &str = "0";

/// Whether no library of the workspace is built yet.
pub(crate) fn is_clean(workspace: &Workspace) -> bool {
    let files = std::fs::read_dir(workspace.target.join("release/deps")).into_iter().flatten().flatten();
    !files.into_iter().any(|file| {
        let name = file.file_name();
        let name = name.to_string_lossy();
        name.starts_with("libpelton_") && name.ends_with(".rlib")
    })
}

/// Has `cargo` compile and lint; warnings of either are errors.
pub(crate) fn with_clippy(workspace: &Workspace, cargo: &mut Command) -> Result<()> {
    let sysroot = process::output(&mut process::command(&workspace.root, "rustc", &["--print", "sysroot"]))?;
    let driver = Path::new(sysroot.trim()).join("bin/clippy-driver");
    if !driver.exists() {
        return Err(format!("{} is missing; `rustup component add clippy` installs it", driver.display()));
    }
    let folder = workspace.target.join("lint");
    let copy = folder.join(NAME);
    let copied = std::env::current_exe().and_then(|this| {
        std::fs::create_dir_all(&folder)?;
        std::fs::copy(this, &copy)
    });
    copied.map_err(|error| format!("{}: {error}", copy.display()))?;
    cargo.env("RUSTC_WRAPPER", copy).env(DRIVER, driver);
    Ok(())
}

/// The exit status of rustc and Clippy, where this program is the copy that stands for them.
pub(crate) fn as_rustc() -> Option<ExitCode> {
    let mut words = std::env::args_os();
    let program = PathBuf::from(words.next()?);
    if program.file_name() != Some(OsStr::new(NAME)) {
        return None;
    }
    let rustc = words.next()?;
    let mut args: Vec<OsString> = words.collect();
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    if std::env::var_os(DRIVER).is_some() {
        let is_of = |names: &[&str]| names.iter().any(|name| package.starts_with(name));
        if is_of(&RARE) {
            optimise(&mut args, NOT);
        } else if package == LARGEST || is_of(&OF_OTHERS) {
            optimise(&mut args, LITTLE);
        }
        if package == LARGEST {
            set(&mut args, "codegen-units", "16");
        }
    }
    // Cargo says which packages it was asked for: those of the workspace.
    let driver = std::env::var_os(DRIVER).filter(|_| std::env::var_os("CARGO_PRIMARY_PACKAGE").is_some());
    if driver.is_some() && is_for_tests(&args) {
        optimise(&mut args, if package == INTERPRETING { LITTLE } else { NOT });
    }
    let is_linted_later = is_tested_library(&args);
    if driver.is_some() && is_linted_later {
        args.push("-Dwarnings".into());
    }
    let succeeds = |command: &mut Command| command.status().is_ok_and(|status| status.success());
    if !succeeds(Command::new(rustc).args(&args)) {
        return Some(ExitCode::FAILURE);
    }
    let Some(driver) = driver.filter(|_| !is_linted_later) else { return Some(ExitCode::SUCCESS) };
    let out = std::env::temp_dir().join(format!("{NAME}-{}", std::process::id()));
    let deny = format!("-D{SEPARATOR}warnings{SEPARATOR}");
    let mut clippy = Command::new(driver);
    let is_good =
        succeeds(clippy.arg("rustc").args(checking(&args, out.as_os_str())).env("CLIPPY_ARGS", deny));
    // A directory of metadata that nobody reads.
    let _ = std::fs::remove_dir_all(out);
    Some(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Has this much optimised.
fn optimise(args: &mut Vec<OsString>, level: &str) {
    set(args, "opt-level", level);
    if level == NOT {
        // Which comes with that otherwise, and cargo says nothing of it in a release.
        args.push("-Cdebug-assertions=off".into());
    }
}

/// Gives an option of code generation another value, where cargo has given it one.
fn set(args: &mut [OsString], option: &str, value: &str) {
    let is_it = |arg: &&mut OsString| {
        arg.to_string_lossy().strip_prefix(option).is_some_and(|rest| rest.starts_with('='))
    };
    args.iter_mut().filter(is_it).for_each(|arg| *arg = format!("{option}={value}").into());
}

/// Whether this compiles a program of tests or an example. What takes their time is in libraries, which are optimised; a third
/// of all that a build of everything takes went into optimising the rest.
fn is_for_tests(args: &[OsString]) -> bool {
    args.iter().any(|arg| arg == "--test" || arg.to_string_lossy().contains("/examples/"))
}

/// Whether this compiles a library as others use it: one for Rust, of which everything that is built has a program of tests too.
fn is_tested_library(args: &[OsString]) -> bool {
    args.windows(2).any(|pair| pair[0] == "--crate-type" && pair[1] == "lib")
}

/// The arguments of a compilation, changed so that the crate is checked alone: nothing but metadata is written, to `out`, and
/// cargo is not told of it.
fn checking(args: &[OsString], out: &OsStr) -> Vec<OsString> {
    let mut checked = Vec::with_capacity(args.len());
    let mut is_folder = false;
    for arg in args {
        let text = arg.to_string_lossy();
        if std::mem::replace(&mut is_folder, text == "--out-dir") {
            checked.push(out.to_owned());
        } else if text.starts_with("--emit=") {
            checked.push("--emit=metadata".into());
        } else if let Some(parts) = text.strip_prefix("--json=") {
            let parts: Vec<&str> = parts.split(',').filter(|part| *part != "artifacts").collect();
            checked.push(format!("--json={}", parts.join(",")).into());
        } else {
            checked.push(arg.clone());
        }
    }
    checked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_is_checked_with_its_own_arguments_and_leaves_cargo_s_files_alone() {
        let args = [
            "--crate-name",
            "a",
            "--json=diagnostic-rendered-ansi,artifacts,future-incompat",
            "--emit=dep-info,metadata,link",
            "-Copt-level=3",
            "--out-dir",
            "/target/release/deps",
            "--test",
        ]
        .map(OsString::from);
        let checked = [
            "--crate-name",
            "a",
            "--json=diagnostic-rendered-ansi,future-incompat",
            "--emit=metadata",
            "-Copt-level=3",
            "--out-dir",
            "/tmp/out",
            "--test",
        ]
        .map(OsString::from);
        assert_eq!(checking(&args, OsStr::new("/tmp/out")), checked);
        assert!(is_for_tests(&args) && !is_for_tests(&args[..7]));
        let mut options = ["-C", "opt-level=3", "-C", "codegen-units=1", "a"].map(OsString::from);
        set(&mut options, "opt-level", LITTLE);
        assert_eq!(options, ["-C", "opt-level=1", "-C", "codegen-units=1", "a"]);
        assert!(is_for_tests(&["crates/a/examples/b.rs".into()]));
        let is_library =
            |args: &[&str]| is_tested_library(&args.iter().map(OsString::from).collect::<Vec<OsString>>());
        assert!(is_library(&["--crate-name", "a", "--crate-type", "lib"]));
        assert!(!is_library(&["--crate-type", "cdylib", "lib"]) && !is_library(&["--test", "--crate-type"]));
    }
}
