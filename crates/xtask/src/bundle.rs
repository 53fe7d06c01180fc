//! `cargo xtask bundle`: one archive for a GPU machine that has no Rust.
//!
//! ```text
//!   pelton, stripped ────────────────┐
//!   libpelton_cuda.so ───────────────┤
//!   test programs, stripped ─────────┼──▶ build/bundle/pelton-gpu-<version>.tar.xz
//!   what the sort is measured with ──┤
//!   scripts/bundle/* ────────────────┤
//!   cuda/ ───────────────────────────┘
//! ```

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cuda;
use crate::process::{self, Result};
use crate::readme::empty;
use crate::workspace::{Workspace, short_name};

/// Crates whose tests run on a GPU too; none of them waits for DataFusion.
const CRATES: [&str; 7] = [
    "pelton-device",
    "pelton-kernels",
    "pelton-transfer",
    "pelton-sort",
    "pelton-pipeline",
    "pelton-scan",
    "pelton-exec",
];
/// The same of the experiments on the machine layer; DataFusion is below it, as it is below the command.
const EXPERIMENTS: [&str; 3] = ["pelton-bench", "--test", "experiments"];

const SCRIPTS: [&str; 3] = ["run-gpu-tests.sh", "measure-sort.sh", "README.txt"];

/// A test program as cargo built it.
#[derive(Debug, PartialEq, Eq)]
struct TestProgram {
    /// Crate and target, such as `kernels-library`; `kernels-unit` for the tests beside the code.
    name: String,
    path: PathBuf,
}

/// Makes the archive; without `has_pelton` it holds test programs and the library alone.
pub(crate) fn run(workspace: &Workspace, has_pelton: bool) -> Result<()> {
    let name = format!("pelton-gpu-{}", env!("CARGO_PKG_VERSION"));
    let parent = workspace.root.join("build/bundle");
    let folder = parent.join(&name);
    empty(&folder)?;
    cuda::run(workspace, &[])?;
    copy(&cuda::library(workspace), &folder.join("libpelton_cuda.so"))?;
    if has_pelton {
        cargo(workspace, &["build", "--release", "--locked", "-p", "pelton-cli"])?;
        copy_stripped(workspace, &workspace.pelton(), &folder.join("pelton"))?;
    }
    empty(&folder.join("tests"))?;
    for program in test_programs(workspace, has_pelton)? {
        copy_stripped(workspace, &program.path, &folder.join("tests").join(&program.name))?;
    }
    let measure = folder.join("measure");
    empty(&measure)?;
    cargo(workspace, &["build", "--release", "--locked", "-p", "pelton-kernels", "--example", "sort_rate"])?;
    let programs = workspace.pelton().with_file_name("examples");
    copy_stripped(workspace, &programs.join("sort_rate"), &measure.join("sort_rate"))?;
    copy(&workspace.root.join("tests/perf/sort_cub.cu"), &measure.join("sort_cub.cu"))?;
    for script in SCRIPTS {
        copy(&workspace.root.join("scripts/bundle").join(script), &folder.join(script))?;
    }
    process::run(&mut process::command(&workspace.root, "cp", &["-R", "cuda", &text(&folder)]))?;
    pack(&parent, &name)
}

/// Builds the test programs and says which there are; experiments are among them where the command is.
fn test_programs(workspace: &Workspace, has_pelton: bool) -> Result<Vec<TestProgram>> {
    let mut args = Vec::new();
    for name in CRATES {
        args.extend(["-p", name]);
    }
    let mut programs = build_tests(workspace, &args)?;
    if has_pelton {
        let [name, kind, target] = EXPERIMENTS;
        programs.extend(build_tests(workspace, &["-p", name, kind, target])?);
    }
    Ok(programs)
}

fn build_tests(workspace: &Workspace, which: &[&str]) -> Result<Vec<TestProgram>> {
    let mut args =
        vec!["test", "--release", "--locked", "--no-run", "--message-format=json-render-diagnostics"];
    args.extend(which);
    let messages = process::output(&mut process::cargo(&workspace.root, &args))?;
    let programs: Vec<TestProgram> = messages.lines().filter_map(test_program).collect();
    if programs.is_empty() { Err("cargo built no test program".into()) } else { Ok(programs) }
}

/// The test program that a line of cargo's messages tells of, if it tells of one.
fn test_program(message: &str) -> Option<TestProgram> {
    let message: Value = serde_json::from_str(message).ok()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let path = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.file_name()?.to_str()?.to_owned();
    let is_unit = message["target"]["kind"][0] != "test";
    let target = if is_unit { "unit" } else { message["target"]["name"].as_str()? };
    Some(TestProgram { name: format!("{}-{target}", short_name(&folder)), path })
}

fn copy_stripped(workspace: &Workspace, source: &Path, target: &Path) -> Result<()> {
    let args = ["--strip-all", "-o", &text(target), &text(source)];
    process::run(&mut process::command(&workspace.root, "strip", &args))
}

fn copy(source: &Path, target: &Path) -> Result<()> {
    let result = std::fs::copy(source, target);
    result.map(drop).map_err(|error| format!("{} to {}: {error}", source.display(), target.display()))
}

fn pack(parent: &Path, name: &str) -> Result<()> {
    let archive = parent.join(format!("{name}.tar.xz"));
    let args = ["--owner=0", "--group=0", "-cJf", &text(&archive), name];
    process::run(process::command(parent, "tar", &args).env("XZ_OPT", "-T0"))?;
    let bytes = std::fs::metadata(&archive).map_err(|error| format!("{}: {error}", archive.display()))?.len();
    println!("{} is {:.1} MB", archive.display(), bytes as f64 / 1e6);
    Ok(())
}

fn cargo(workspace: &Workspace, args: &[&str]) -> Result<()> {
    process::run(&mut process::cargo(&workspace.root, args))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: &str, name: &str, is_test: bool) -> String {
        serde_json::json!({
            "reason": "compiler-artifact",
            "manifest_path": "/src/crates/kernels/Cargo.toml",
            "target": { "kind": [kind], "name": name },
            "profile": { "test": is_test },
            "executable": "/target/release/deps/program",
        })
        .to_string()
    }

    #[test]
    fn test_programs_are_named_after_crate_and_target() {
        let name = |message: &str| test_program(message).map(|program| program.name);
        assert_eq!(name(&message("test", "library", true)), Some("kernels-library".into()));
        assert_eq!(name(&message("lib", "pelton_kernels", true)), Some("kernels-unit".into()));
    }

    #[test]
    fn other_messages_tell_of_no_program() {
        assert_eq!(test_program(&message("bin", "pelton", false)), None);
        assert_eq!(test_program(r#"{"reason":"build-finished","success":true}"#), None);
        assert_eq!(test_program("warning: something"), None);
    }
}
