//! `pelton doctor`: what this machine offers and what it lacks.

use std::path::PathBuf;

use pelton_device::cuda;
use pelton_error::{Error, Result};
use pelton_fabric::doctor::{DoctorOptions, Environment, examine};
use pelton_kernels::Library;

use pelton_limits::{MemoryLimit, default_spill_dir};

use crate::args::DoctorArgs;
use crate::console;

pub(crate) fn run(args: &DoctorArgs) -> Result<()> {
    let report = examine(&DoctorOptions {
        root: PathBuf::from("/"),
        driver: cuda::status(),
        cuda_library: Library::open().ok().map(|library| library.path().to_path_buf()),
        warehouse: Some(args.warehouse.warehouse.clone()),
        environment: Environment::of_process(),
    });
    let printed = match args.json {
        true => console::print(format_args!("{}\n", report.to_json().trim_end())),
        false => {
            let shown = if args.gpu { report.clone() } else { report.clone().without_absent_gpu() };
            console::print(format_args!("{}{}", shown.to_text(), defaults_text()))
        }
    };
    if report.is_usable() {
        printed
    } else {
        Err(Error::unsupported("something that every query needs is missing; see above"))
    }
}

/// What commands take unless they are told otherwise.
fn defaults_text() -> String {
    format!(
        "\nunless told otherwise\n  memory limit  {} (--memory-limit)\n  spilling      to '{}', 80 % of what is free there \
         (--spill-dir, --spill-limit)\n",
        MemoryLimit::default(),
        default_spill_dir().display()
    )
}
