//! Examines a machine: what is there, what is missing, what the missing would give, and the command that installs it.
//!
//! Reads files, tries one file in the warehouse directory, and starts no other program. Everything but that directory
//! is read below a root that may be a recorded copy.

mod disk;
mod gpu;
mod libraries;
mod package;
mod report;
mod system;

use std::path::PathBuf;

use pelton_device::cuda::DriverStatus;
use pelton_device::libraries::NVCOMP_VARIABLE;

use crate::discover::tree::Tree;

use package::Family;

pub use report::{Finding, Group, Report, State};

/// What to examine.
#[derive(Debug, Clone)]
pub struct DoctorOptions {
    /// Directory that stands for `/`.
    pub root: PathBuf,
    /// What the CUDA driver says of itself, from [`pelton_device::cuda::status`].
    pub driver: DriverStatus,
    /// Pelton's CUDA library, if one was found.
    pub cuda_library: Option<PathBuf>,
    /// The directory that holds tables, or shall hold them; it need not exist. Not looked at if not given.
    pub warehouse: Option<PathBuf>,
    /// What programs are told.
    pub environment: Environment,
}

/// Variables that say where libraries and programs are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// `LD_LIBRARY_PATH`.
    pub library_path: String,
    /// `PATH`.
    pub command_path: String,
    /// `VIRTUAL_ENV`: the active Python environment.
    pub virtual_environment: Option<String>,
    /// `PELTON_NVCOMP`: the file of nvCOMP.
    pub nvcomp_path: Option<String>,
}

impl Environment {
    /// That of this process.
    pub fn of_process() -> Self {
        let variable = |name: &str| std::env::var(name).ok();
        Self {
            library_path: variable("LD_LIBRARY_PATH").unwrap_or_default(),
            command_path: variable("PATH").unwrap_or_default(),
            virtual_environment: variable("VIRTUAL_ENV").filter(|path| !path.is_empty()),
            nvcomp_path: variable(NVCOMP_VARIABLE).filter(|path| !path.is_empty()),
        }
    }

    fn library_directories(&self) -> impl Iterator<Item = &str> {
        self.library_path.split(':').filter(|directory| !directory.is_empty())
    }

    fn command_directories(&self) -> impl Iterator<Item = &str> {
        self.command_path.split(':').filter(|directory| !directory.is_empty())
    }
}

/// Examines the machine.
pub fn examine(options: &DoctorOptions) -> Report {
    let tree = Tree::new(&options.root);
    let family = Family::of(&tree);
    let mut findings = system::examine(&tree);
    findings.extend(gpu::examine(&tree, &options.driver, options.cuda_library.as_deref(), family));
    findings.extend(libraries::examine(&tree, &options.environment, family));
    findings.extend(disk::examine(&tree, options.warehouse.as_deref()));
    Report { findings, has_gpu: gpu::is_there(&tree, &options.driver) }
}

#[cfg(test)]
mod tests;
