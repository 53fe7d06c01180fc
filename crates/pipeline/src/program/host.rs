//! Compiling for the host: the system's C++ compiler, as a process of its own.

use std::path::Path;
use std::process::{Command, Output};

use pelton_error::{Error, Result, ResultExt};

/// `-ffp-contract=off`: a product and a sum are two roundings on every processor, as they are on GPUs here.
const OPTIONS: [&str; 8] = [
    "-std=c++17",
    "-O2",
    "-fPIC",
    "-shared",
    "-fno-strict-aliasing",
    "-ffp-contract=off",
    "-w",
    "-DPELTON_HOST",
];

/// Kernels call the C library at most, which every process has, and what the compiler puts into its own: the linker looks
/// through nothing else, which took it a third of the time that a small kernel takes to compile.
const LIBRARIES: [&str; 2] = ["-nodefaultlibs", "-lgcc"];

const NAMES: [&str; 3] = ["c++", "g++", "clang++"];

const REMEDY: &str = "install one: 'apt-get install g++' (Debian, Ubuntu), 'dnf install gcc-c++' (Fedora); \
    CXX names another";

/// The C++ compiler of this machine.
pub(super) struct HostCompiler {
    /// The program, then arguments that `$CXX` gives it; they follow those of this file, so that they decide.
    command: Vec<String>,
    /// The first line that it says of itself.
    version: String,
}

impl HostCompiler {
    /// `$CXX` if set, else the first of the usual names that runs.
    pub(super) fn find() -> Result<Self> {
        Self::find_from(std::env::var("CXX").ok())
    }

    fn find_from(variable: Option<String>) -> Result<Self> {
        let words = |text: &str| text.split_whitespace().map(String::from).collect::<Vec<String>>();
        let chosen = variable.as_deref().map(words).filter(|command| !command.is_empty());
        if let Some(command) = chosen {
            let name = command.join(" ");
            return Self::probe(command).ok_or_else(|| {
                Error::unsupported(format!(
                    "CXX names '{name}', which does not run as a C++ compiler; {REMEDY}"
                ))
            });
        }
        let found = NAMES.iter().find_map(|name| Self::probe(words(name)));
        found.ok_or_else(|| {
            Error::unsupported(format!("no C++ compiler: neither of {} runs; {REMEDY}", NAMES.join(", ")))
        })
    }

    /// Asks a compiler for its version.
    fn probe(command: Vec<String>) -> Option<Self> {
        let output = start(&command).arg("--version").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.lines().next()?.trim().to_string();
        (output.status.success() && !version.is_empty()).then_some(Self { command, version })
    }

    /// What the result depends on but the source; the processor's architecture because folders may be shared.
    pub(super) fn identity(&self) -> String {
        let (command, options) = (self.command.join(" "), [&OPTIONS[..], &LIBRARIES].concat().join(" "));
        format!("{command} ({}) for {} with {options}", self.version, std::env::consts::ARCH)
    }

    /// Compiles the file `source` to a shared library beside it and returns that.
    pub(super) fn compile(&self, source: &Path) -> Result<Vec<u8>> {
        let library = source.with_extension("so");
        let mut command = start(&self.command[..1]);
        let command = command.args(OPTIONS).args(&self.command[1..]);
        let output = command.arg("-o").arg(&library).arg(source).args(LIBRARIES).output();
        let output = output.context(|| format!("starting {}", self.command.join(" ")))?;
        if !output.status.success() {
            return Err(self.refusal(&output));
        }
        std::fs::read(&library).context(|| format!("reading {}", library.display()))
    }

    fn refusal(&self, output: &Output) -> Error {
        let log = String::from_utf8_lossy(&output.stderr);
        let command = self.command.join(" ");
        Error::unsupported(format!(
            "{command} ({}): {}; its log:\n{}",
            self.version,
            output.status,
            log.trim_end()
        ))
    }
}

/// The command, speaking English.
fn start(command: &[String]) -> Command {
    let mut start = Command::new(&command[0]);
    start.args(&command[1..]).env("LC_ALL", "C");
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_decides_alone() {
        let error = HostCompiler::find_from(Some("/nowhere/c++".into())).err().map(|error| error.to_string());
        let error = error.unwrap_or_default();
        assert!(
            error.contains("CXX names '/nowhere/c++'") && error.contains("apt-get install g++"),
            "{error}"
        );
    }

    #[test]
    fn the_variable_may_hold_arguments_and_they_count_as_part_of_the_compiler() {
        let plain = HostCompiler::find_from(None).unwrap();
        let with = HostCompiler::find_from(Some(format!("{} -DX=1", plain.command[0]))).unwrap();
        assert_eq!(with.command.len(), 2);
        assert_ne!(with.identity(), plain.identity());
    }
}
