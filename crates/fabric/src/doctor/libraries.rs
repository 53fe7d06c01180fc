//! Libraries that are opened at run time, and the C++ compiler.
//!
//! 1. The directories of `LD_LIBRARY_PATH`.
//! 2. The loader's cache, in which paths stand as text.
//! 3. Wheels of the active Python environment: there, but the loader does not see them; of nvCOMP Pelton does.
//!
//! `PELTON_NVCOMP`, where it is set, is where nvCOMP is, and nowhere else. Names, wheels and variables of what Pelton
//! opens are those of [`pelton_device::libraries`].

use std::path::Path;

use pelton_device::libraries::{self, NVCOMP_VARIABLE, SharedLibrary};

use crate::discover::tree::Tree;

use super::Environment;
use super::package::Family;
use super::report::{Finding, Group, State};

/// A library that is used where it is found, and what for.
struct Library {
    what: SharedLibrary,
    gives: &'static str,
}

const NVRTC: Library = Library { what: libraries::NVRTC, gives: "kernels compiled for each query" };

const NVCOMP: Library =
    Library { what: libraries::NVCOMP, gives: "LZ4, Snappy, Zstd and Deflate decoded on the GPU" };

const CUFILE: Library =
    Library { what: libraries::CUFILE, gives: "reads from NVMe straight into GPU memory" };

// Nothing opens these two yet.
const NCCL: Library = Library {
    what: unopened("NCCL", &["libnccl.so.2"], "nvidia-nccl-cu13"),
    gives: "collective transfers among GPUs, to compare with",
};

const UCX: Library = Library {
    what: unopened("UCX", &["libucp.so.0"], "libucx-cu13"),
    gives: "transfers between machines over RDMA",
};

const fn unopened(name: &'static str, files: &'static [&'static str], wheel: &'static str) -> SharedLibrary {
    SharedLibrary {
        name,
        files,
        unversioned_file: None,
        variable: None,
        wheel: Some(wheel),
        is_sought_in_environment: false,
        remedy: "",
    }
}

impl Library {
    fn wheel(&self) -> &'static str {
        self.what.wheel.expect("every library here has a wheel")
    }
}

/// Looks for all of them.
pub(super) fn examine(tree: &Tree, environment: &Environment, family: Family) -> Vec<Finding> {
    let look = |library: &Library| finding_of(library, tree, environment);
    let mut ucx = look(&UCX);
    if ucx.state == State::Missing {
        // The wheel knows no InfiniBand; the system's does.
        ucx.fix = Some(format!(
            "{}; pip install {} has no InfiniBand",
            family.install("libucx0", "ucx"),
            UCX.wheel()
        ));
    }
    vec![
        look(&NVRTC),
        nvcomp(look(&NVCOMP), tree, environment),
        with_kernel_module(look(&CUFILE), tree, family),
        look(&NCCL),
        ucx,
        compiler(tree, environment, family),
    ]
}

/// Where a library was found.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    ByLoader(String),
    InWheel { directory: String, file: &'static str },
}

fn find(library: &Library, tree: &Tree, environment: &Environment) -> Option<Found> {
    let cache = tree.bytes("etc/ld.so.cache").unwrap_or_default();
    for file in library.what.files {
        let mut by_loader = environment.library_directories().map(|directory| format!("{directory}/{file}"));
        if let Some(path) = by_loader.find(|path| tree.exists(path)) {
            return Some(Found::ByLoader(path));
        }
        if let Some(path) = in_cache(&cache, file).filter(|path| tree.exists(path)) {
            return Some(Found::ByLoader(path));
        }
    }
    let directories = wheel_directories(tree, environment);
    library.what.files.iter().find_map(|file| {
        let directory = directories.iter().find(|directory| tree.exists(format!("{directory}/{file}")))?;
        Some(Found::InWheel { directory: directory.clone(), file })
    })
}

/// The path of `file` among the texts of the loader's cache, which each end in a zero byte.
fn in_cache(cache: &[u8], file: &str) -> Option<String> {
    let texts = cache.split(|&byte| byte == 0).filter_map(|text| std::str::from_utf8(text).ok());
    let mut paths =
        texts.filter(|text| text.starts_with('/') && Path::new(text).file_name() == Some(file.as_ref()));
    paths.next().map(str::to_string)
}

/// Where wheels put libraries: `nvidia/<name>/lib`, `nvidia/<name>/lib64`, `<name>/lib`.
fn wheel_directories(tree: &Tree, environment: &Environment) -> Vec<String> {
    let Some(root) = &environment.virtual_environment else { return Vec::new() };
    let mut directories = Vec::new();
    for python in tree.names(format!("{root}/lib")).iter().filter(|name| name.starts_with("python")) {
        let site = format!("{root}/lib/{python}/site-packages");
        let mut parents: Vec<String> =
            tree.names(format!("{site}/nvidia")).iter().map(|name| format!("{site}/nvidia/{name}")).collect();
        parents.push(format!("{site}/libucx"));
        directories
            .extend(parents.iter().flat_map(|parent| [format!("{parent}/lib"), format!("{parent}/lib64")]));
    }
    directories
}

fn finding_of(library: &Library, tree: &Tree, environment: &Environment) -> Finding {
    let finding = |detail: String| Finding::ok(Group::Libraries, library.what.name, library.gives, detail);
    match find(library, tree, environment) {
        Some(Found::ByLoader(path)) => finding(path),
        Some(Found::InWheel { directory, file }) if library.what.is_sought_in_environment => {
            finding(format!("{directory}/{file}"))
        }
        Some(Found::InWheel { directory, file }) => {
            finding(format!("{directory}/{file}, unknown to the loader"))
                .but(State::Limited, format!("export LD_LIBRARY_PATH={directory}:$LD_LIBRARY_PATH"))
        }
        None => finding(format!("no {}", library.what.files.join(", no ")))
            .but(State::Missing, format!("pip install {}", library.wheel())),
    }
}

/// nvCOMP is where its variable says, if it says so.
fn nvcomp(found: Finding, tree: &Tree, environment: &Environment) -> Finding {
    let finding = |detail: String| Finding::ok(Group::Libraries, NVCOMP.what.name, NVCOMP.gives, detail);
    match &environment.nvcomp_path {
        Some(path) if tree.exists(path) => finding(path.clone()),
        Some(path) => finding(format!("{NVCOMP_VARIABLE} names {path}, which is not there"))
            .but(State::Missing, format!("unset {NVCOMP_VARIABLE}; pip install {}", NVCOMP.wheel())),
        None => match found.state {
            State::Missing => found.but(State::Missing, NVCOMP.what.remedy),
            _ => found,
        },
    }
}

/// Without the kernel module cuFile reads through host memory, and says nothing of it.
fn with_kernel_module(finding: Finding, tree: &Tree, family: Family) -> Finding {
    let is_loaded = tree.exists("proc/driver/nvidia-fs");
    match (finding.state, is_loaded) {
        (State::Missing, _) => finding,
        (_, true) => {
            let detail = format!("{}, kernel module nvidia-fs loaded", finding.detail);
            Finding { detail, ..finding }
        }
        (_, false) => {
            let detail = format!("{}, compatibility mode only: no kernel module nvidia-fs", finding.detail);
            let install = family.install("nvidia-fs-dkms", "nvidia-fs-dkms");
            let command = format!("{install} (NVIDIA's package repository), sudo modprobe nvidia-fs");
            let fix = finding.fix.iter().cloned().chain([command]).collect::<Vec<_>>().join("; ");
            Finding { detail, ..finding }.but(State::Limited, fix)
        }
    }
}

fn compiler(tree: &Tree, environment: &Environment, family: Family) -> Finding {
    let names = ["g++", "c++", "clang++"];
    let paths =
        names.iter().flat_map(|name| environment.command_directories().map(move |at| format!("{at}/{name}")));
    let found = paths.into_iter().find(|path| tree.exists(path));
    let finding = |detail: &str| {
        Finding::ok(Group::Libraries, "C++ compiler", "Pelton's CUDA library built from its sources", detail)
    };
    match found {
        Some(path) => finding(&path),
        None => finding("no g++, no clang++").but(State::Missing, family.install("g++", "gcc-c++")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_in_the_loaders_cache_by_their_whole_file_name() {
        let cache =
            b"glibc-ld.so.cache1.1\0\xff\xfelibnccl.so.2\0/usr/lib/libnccl.so.2.1\0/opt/libnccl.so.2\0";
        assert_eq!(in_cache(cache, "libnccl.so.2").as_deref(), Some("/opt/libnccl.so.2"));
        assert_eq!(in_cache(cache, "libnccl.so"), None);
        assert_eq!(in_cache(b"", "libnccl.so.2"), None);
    }
}
