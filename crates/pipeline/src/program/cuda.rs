//! Compiling for GPUs: NVRTC, its options, and what a device needs of it.

use pelton_device::cuda::{Nvrtc, NvrtcArchitecture, nvrtc};
use pelton_error::{CancelFlag, Result};

use super::Effort;

/// `--fmad=false`: a product and a sum are two roundings, as on the host and in Arrow, so that answers do not depend on
/// where a query ran. What programs do is bound by memory, not by arithmetic.
const OPTIONS: [&str; 3] = ["-std=c++17", "--device-int128", "--fmad=false"];
/// Without the declarations of textures, surfaces and the runtime, which are parsed before every program; and the first
/// version that can leave them out.
const MINIMAL: (&str, (i32, i32)) = ("--minimal", (12, 4));

/// For programs that are wanted soon: a third less time to compile, and in the worst of TPC-H's queries a seventh more to run
/// (docs/perf/tpch.md). And the first version that knows it.
const QUICK: (&str, (i32, i32)) = ("--Ofast-compile=mid", (12, 9));

/// NVRTC with the architecture that it compiles for.
pub(super) struct CudaCompiler {
    nvrtc: &'static Nvrtc,
    architecture: NvrtcArchitecture,
}

impl CudaCompiler {
    pub(super) fn for_capability(major: u32, minor: u32) -> Result<Self> {
        let nvrtc = nvrtc()?;
        Ok(Self { nvrtc, architecture: nvrtc.architecture_for(major, minor)? })
    }

    pub(super) fn identity(&self, effort: Effort) -> String {
        let (major, minor) = self.nvrtc.version();
        format!("NVRTC {major}.{minor} for {} with {}", self.architecture, self.options(effort).join(" "))
    }

    pub(super) fn compile(&self, source: &str, effort: Effort, cancel: &CancelFlag) -> Result<Vec<u8>> {
        let options = self.options(effort);
        match effort {
            Effort::Full => self.nvrtc.compile(source, self.architecture, &options),
            // Several are wanted at once.
            Effort::Quick => self.nvrtc.compile_beside(source, self.architecture, &options, cancel),
        }
    }

    /// Whether it takes `source`, as far as reading it shows.
    pub(super) fn check(&self, source: &str) -> Result<()> {
        let (NvrtcArchitecture::Machine(number) | NvrtcArchitecture::Intermediate(number)) =
            self.architecture;
        let options = self.options(Effort::Full);
        self.nvrtc.read(source, number, &options)
    }

    fn options(&self, effort: Effort) -> Vec<&'static str> {
        let known = |(option, since)| (self.nvrtc.version() >= since).then_some(option);
        let quick = if effort == Effort::Quick { known(QUICK) } else { None };
        OPTIONS.into_iter().chain(known(MINIMAL)).chain(quick).collect()
    }
}

/// What was found, in a line.
pub(super) fn status() -> Result<String> {
    let nvrtc = nvrtc()?;
    let numbers = nvrtc.architectures();
    let text = |number: Option<&u32>| number.map_or(String::new(), |n| format!("{}.{}", n / 10, n % 10));
    Ok(format!("{nvrtc:?}, compute capabilities {} to {}", text(numbers.first()), text(numbers.last())))
}
