//! Compiling for the host: the system's C++ compiler, as a process of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pelton_error::{Error, Result, ResultExt};

/// `-ffp-contract=off`: a product and a sum are two roundings on every processor, as they are on GPUs here. `-fwrapv`: what
/// is computed of rows that do not count may overflow. `-fno-exceptions`: nothing throws, and what would catch lies in a library
/// that kernels do not have.
const OPTIONS: [&str; 10] = [
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-shared",
    "-fno-strict-aliasing",
    "-fwrapv",
    "-ffp-contract=off",
    "-fno-exceptions",
    "-w",
    "-DPELTON_HOST",
];

/// Kernels call the C library at most, which every process has, and what the compiler puts into its own: the linker looks
/// through nothing else, which took it a third of the time that a small kernel takes to compile.
const LIBRARIES: [&str; 2] = ["-nodefaultlibs", "-lgcc"];

/// All instructions of the processor, where compilers have one word for that.
const PROCESSOR_OPTION: Option<&str> = match () {
    () if cfg!(target_arch = "x86_64") => Some("-march=native"),
    () if cfg!(target_arch = "aarch64") => Some("-mcpu=native"),
    () => None,
};

/// What tells processors apart in `/proc/cpuinfo`, on either architecture; the first is a name, if there is one.
const PROCESSOR_FIELDS: [&str; 11] = [
    "model name",
    "vendor_id",
    "cpu family",
    "model",
    "stepping",
    "flags",
    "CPU implementer",
    "CPU architecture",
    "CPU variant",
    "CPU part",
    "Features",
];

const NAMES: [&str; 3] = ["c++", "g++", "clang++"];

const REMEDY: &str = "install one: 'apt-get install g++' (Debian, Ubuntu), 'dnf install gcc-c++' (Fedora); \
    CXX names another";

/// The C++ compiler of this machine.
pub(super) struct HostCompiler {
    /// The program, then arguments that `$CXX` gives it; they follow those of this file, so that they decide.
    command: Vec<String>,
    /// The first line that it says of itself.
    version: String,
    /// What it compiles for, all instructions of it; `None` where nobody knows: then for any of the architecture.
    processor: Option<String>,
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

    /// Whether a file of such a name is where programs are looked for.
    pub(super) fn is_named() -> bool {
        let variable = std::env::var("CXX").ok();
        let chosen = variable.as_deref().and_then(|text| text.split_whitespace().next());
        let names = chosen.map_or_else(|| NAMES.to_vec(), |name| vec![name]);
        let path = std::env::var_os("PATH").unwrap_or_default();
        // A name with a folder in it replaces that of the path.
        let is_in = |folder: PathBuf| names.iter().any(|name| folder.join(name).is_file());
        std::env::split_paths(&path).any(is_in)
    }

    /// Asks a compiler for its version.
    fn probe(command: Vec<String>) -> Option<Self> {
        let output = start(&command).arg("--version").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.lines().next()?.trim().to_string();
        (output.status.success() && !version.is_empty()).then_some(Self {
            command,
            version,
            processor: processor(),
        })
    }

    /// What the result depends on but the source; the processor because folders may be shared among machines.
    pub(super) fn identity(&self) -> String {
        let (command, options) =
            (self.command.join(" "), self.options().chain(LIBRARIES).collect::<Vec<_>>().join(" "));
        let processor = self.processor.as_deref().unwrap_or(std::env::consts::ARCH);
        format!("{command} ({}) for {processor} with {options}", self.version)
    }

    fn options(&self) -> impl Iterator<Item = &'static str> {
        OPTIONS.into_iter().chain(PROCESSOR_OPTION.filter(|_| self.processor.is_some()))
    }

    /// Compiles the file `source` to a shared library beside it and returns that.
    pub(super) fn compile(&self, source: &Path) -> Result<Vec<u8>> {
        let library = source.with_extension("so");
        let mut command = start(&self.command[..1]);
        let command = command.args(self.options()).args(&self.command[1..]);
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

/// The processor of this machine, with all that its instructions depend on.
fn processor() -> Option<String> {
    processor_of(&std::fs::read_to_string("/proc/cpuinfo").ok()?)
}

/// The first processor of `/proc/cpuinfo`.
fn processor_of(cpuinfo: &str) -> Option<String> {
    let fields: Vec<(&str, &str)> = cpuinfo
        .lines()
        .take_while(|line| !line.trim().is_empty())
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim(), value.trim()))
        .collect();
    let value = |name: &&str| fields.iter().find(|(other, _)| other == name).map(|(_, value)| *value);
    let has_instructions = value(&"flags").or(value(&"Features")).is_some();
    let values: Vec<&str> = PROCESSOR_FIELDS.iter().filter_map(value).collect();
    has_instructions.then(|| values.join(", "))
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
    fn processors_differ_by_what_they_can_do() {
        let of = |flags: &str| {
            processor_of(&format!(
                "processor\t: 0\nmodel name\t: EPYC\nflags\t\t: {flags}\n\nprocessor\t: 1\n"
            ))
        };
        assert_eq!(of("sse2 avx2").as_deref(), Some("EPYC, sse2 avx2"));
        assert_ne!(of("sse2 avx2"), of("sse2 avx2 avx512f"));
        assert_eq!(
            processor_of("CPU part : 0xd40\nFeatures : fp asimd\n").as_deref(),
            Some("0xd40, fp asimd")
        );
        assert_eq!(processor_of("model name : unknown\n"), None, "for whom, nobody can say");
    }

    #[test]
    fn programs_are_of_one_processor() {
        let here = HostCompiler::find_from(None).unwrap();
        let there =
            HostCompiler { processor: Some("another".into()), ..HostCompiler::find_from(None).unwrap() };
        let anywhere = HostCompiler { processor: None, ..HostCompiler::find_from(None).unwrap() };
        assert_ne!(here.identity(), there.identity());
        assert!(anywhere.options().eq(OPTIONS), "for any processor of the architecture");
    }

    /// Rounded once, `a + x * y` is another number than on a GPU, and than by the CPU's own arithmetic.
    #[test]
    fn a_product_and_a_sum_are_two_instructions() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("sums.cpp");
        let code = "extern \"C\" void sums(double* a, const double* x, const double* y) {\n  \
                    for (int i = 0; i < 1024; i++) a[i] += x[i] * y[i];\n}\n";
        std::fs::write(&source, code).unwrap();
        let plain = HostCompiler::find_from(None).unwrap();
        let is_fused = |arguments: &str| {
            let command = format!("{} -S {arguments}", plain.command[0]);
            let assembly = HostCompiler::find_from(Some(command)).unwrap().compile(&source).unwrap();
            let assembly = String::from_utf8(assembly).unwrap();
            assert!(assembly.contains("sums"), "{assembly}");
            ["fmadd", "fmla"].iter().any(|instruction| assembly.contains(instruction))
        };
        assert!(!is_fused(""));
        let processor = plain.processor.clone().unwrap_or_default();
        let has_fused = processor.split([' ', ',']).any(|word| word == "fma" || word == "asimd");
        assert_eq!(is_fused("-ffp-contract=fast"), has_fused, "what the option is for");
    }

    #[test]
    fn the_variable_may_hold_arguments_and_they_count_as_part_of_the_compiler() {
        let plain = HostCompiler::find_from(None).unwrap();
        let with = HostCompiler::find_from(Some(format!("{} -DX=1", plain.command[0]))).unwrap();
        assert_eq!(with.command.len(), 2);
        assert_ne!(with.identity(), plain.identity());
    }
}
