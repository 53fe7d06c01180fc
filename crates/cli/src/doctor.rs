//! `pelton doctor`: what this machine offers and what it lacks.

use std::path::PathBuf;

use pelton_device::cuda;
use pelton_error::{Error, Result};
use pelton_fabric::doctor::{DoctorOptions, Environment, examine};
use pelton_kernels::Library;

use crate::args::DoctorArgs;

pub(crate) fn run(args: &DoctorArgs) -> Result<()> {
    let report = examine(&DoctorOptions {
        root: PathBuf::from("/"),
        driver: cuda::status(),
        cuda_library: Library::open().ok().map(|library| library.path().to_path_buf()),
        warehouse: Some(args.warehouse.warehouse.clone()),
        environment: Environment::of_process(),
    });
    if args.json {
        println!("{}", report.to_json().trim_end());
    } else {
        print!("{}", report.to_text());
    }
    if report.is_usable() {
        Ok(())
    } else {
        Err(Error::unsupported("something that every query needs is missing; see above"))
    }
}
