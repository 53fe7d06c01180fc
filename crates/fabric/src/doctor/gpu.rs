//! GPUs, their driver, and Pelton's own CUDA library.

use std::path::Path;

use pelton_device::cuda::DriverStatus;
use pelton_device::libraries::{CUDA_LIBRARY, CUDA_LIBRARY_VARIABLE};

use crate::discover::tree::Tree;

use super::package::Family;
use super::report::{Finding, Group, State};

const NVIDIA: &str = "0x10de";

/// Looks at all of them.
pub(super) fn examine(
    tree: &Tree,
    driver: &DriverStatus,
    library: Option<&Path>,
    family: Family,
) -> Vec<Finding> {
    let card_count = cards_on_the_bus(tree);
    vec![
        driver_finding(tree, driver, card_count, family),
        gpu_finding(driver, card_count),
        library_finding(library),
    ]
}

/// True where the driver or the PCI bus shows a GPU, usable or not.
pub(super) fn is_there(tree: &Tree, driver: &DriverStatus) -> bool {
    driver.device_count > 0 || cards_on_the_bus(tree) > 0
}

/// GPUs of NVIDIA that the PCI bus shows, with a driver or without: display and 3D controllers, classes `0x03....`.
fn cards_on_the_bus(tree: &Tree) -> u32 {
    let is_gpu = |address: &String| {
        let read =
            |file: &str| tree.text(format!("sys/bus/pci/devices/{address}/{file}")).unwrap_or_default();
        read("vendor") == NVIDIA && read("class").starts_with("0x03")
    };
    tree.names("sys/bus/pci/devices").iter().filter(|address| is_gpu(address)).count() as u32
}

fn driver_finding(tree: &Tree, driver: &DriverStatus, card_count: u32, family: Family) -> Finding {
    let gives = "queries on the GPU";
    let finding = |detail: String| Finding::ok(Group::Gpu, "NVIDIA driver", gives, detail);
    match (&driver.problem, &driver.version) {
        (None, Some(version)) => {
            let module = module_version(tree).map_or(String::new(), |module| format!("{module}, "));
            finding(format!("{module}CUDA {version}"))
        }
        (problem, _) => {
            // What follows is the remedy, which has its own line here.
            let detail = problem.as_deref().and_then(|problem| problem.split(';').next()).unwrap_or("none");
            let fix = if card_count > 0 {
                family.install_driver()
            } else {
                "a machine with an NVIDIA GPU; until then queries run on the processor".to_string()
            };
            finding(detail.to_string()).but(State::Missing, fix)
        }
    }
}

/// `NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  ...`: the first word that looks like a version.
fn module_version(tree: &Tree) -> Option<String> {
    let text = tree.text("proc/driver/nvidia/version")?;
    let is_version = |word: &&str| {
        word.contains('.')
            && word.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    };
    text.lines().next()?.split_whitespace().find(is_version).map(str::to_string)
}

fn gpu_finding(driver: &DriverStatus, card_count: u32) -> Finding {
    let visible = driver.device_count;
    let gives = "scans, joins and sorts at the speed of GPU memory";
    let finding = |detail: String| Finding::ok(Group::Gpu, "GPUs", gives, detail);
    match (visible, card_count) {
        (0, 0) => finding("none".to_string()).but(State::Missing, "a machine with an NVIDIA GPU"),
        (0, count) => finding(format!("{count} on the PCI bus, none usable"))
            .but(State::Missing, "install the driver, see there"),
        (visible, count) if visible < count => finding(format!("{visible} of {count}"))
            .but(State::Limited, "unset CUDA_VISIBLE_DEVICES (docker: --gpus all)"),
        // In virtual machines and containers the bus may show fewer than the driver.
        (visible, _) => finding(visible.to_string()),
    }
}

fn library_finding(library: Option<&Path>) -> Finding {
    let gives = "Pelton's kernels";
    let finding = |detail: String| Finding::ok(Group::Gpu, CUDA_LIBRARY.name, gives, detail);
    match library {
        Some(path) => finding(path.display().to_string()),
        None => finding("not found".to_string()).but(
            State::Missing,
            format!("make cuda, in Pelton's sources; {CUDA_LIBRARY_VARIABLE} names a library elsewhere"),
        ),
    }
}
