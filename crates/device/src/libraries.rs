//! Shared libraries that are found at run time: which there are, where each is looked for, what installs it.
//!
//! | library | variable | folders, in this order | then |
//! | --- | --- | --- | --- |
//! | Pelton's CUDA library | `PELTON_CUDA_LIBRARY` | of the executable, then of the package: itself, `../lib`, `build/cuda` above | - |
//! | NVRTC | `PELTON_NVRTC` | the executable's, those the program names, `$CUDA_HOME`, `/usr/local/cuda`, `build/cuda-venv` above | the loader |
//! | nvCOMP | `PELTON_NVCOMP` | the executable's, `build/cuda-venv` above, the active Python environment (`$VIRTUAL_ENV`) | the loader |
//! | cuFile | - | - | the loader |
//!
//! A variable that is set names the library's file, and it is looked for nowhere else. Never in the working directory:
//! code is not loaded from where data lies. Whoever needs a library opens it; what is here finds files and words errors.
//! The driver and its management library are found by the crates that bind them, through the loader alone.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use pelton_error::{Error, Result};

/// A library that is used where it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedLibrary {
    /// What its makers call it.
    pub name: &'static str,
    /// File names with a version that Pelton knows, the preferred one first.
    pub files: &'static [&'static str],
    /// The file name of an installation for developers, whichever version that is.
    pub unversioned_file: Option<&'static str>,
    /// The environment variable that names its file.
    pub variable: Option<&'static str>,
    /// What `pip install` takes to install it.
    pub wheel: Option<&'static str>,
    /// Pelton looks into wheels of the active Python environment by itself.
    pub is_sought_in_environment: bool,
    /// How to come by it.
    pub remedy: &'static str,
}

/// The environment variable that names the file of Pelton's CUDA library.
pub const CUDA_LIBRARY_VARIABLE: &str = "PELTON_CUDA_LIBRARY";
/// The environment variable that names NVRTC's file.
pub const NVRTC_VARIABLE: &str = "PELTON_NVRTC";
/// The environment variable that names nvCOMP's file.
pub const NVCOMP_VARIABLE: &str = "PELTON_NVCOMP";

/// Pelton's kernels, built from `cuda/`.
pub const CUDA_LIBRARY: SharedLibrary = SharedLibrary {
    name: "Pelton's CUDA library",
    files: &["libpelton_cuda.so"],
    unversioned_file: None,
    variable: Some(CUDA_LIBRARY_VARIABLE),
    wheel: None,
    is_sought_in_environment: false,
    remedy: "'make cuda' in Pelton's sources builds it (without Rust: cuda/build.sh), PELTON_CUDA_LIBRARY names its \
             file",
};

/// The compiler of CUDA C++.
pub const NVRTC: SharedLibrary = SharedLibrary {
    name: "NVRTC",
    files: &["libnvrtc.so.13", "libnvrtc.so.12"],
    unversioned_file: Some("libnvrtc.so"),
    variable: Some(NVRTC_VARIABLE),
    wheel: Some("nvidia-cuda-nvrtc"),
    is_sought_in_environment: false,
    remedy: "install the CUDA toolkit, or let 'make cuda' in Pelton's sources fetch it, or run 'pip install \
             nvidia-cuda-nvrtc==13.0.88'; PELTON_NVRTC names its libnvrtc.so.13",
};

/// Decoders of general-purpose codecs. Other versions declare other options.
pub const NVCOMP: SharedLibrary = SharedLibrary {
    name: "nvCOMP",
    files: &["libnvcomp.so.6"],
    unversioned_file: None,
    variable: Some(NVCOMP_VARIABLE),
    wheel: Some("nvidia-libnvcomp-cu13==6.0.0.12"),
    is_sought_in_environment: true,
    remedy: "pip install nvidia-libnvcomp-cu13==6.0.0.12, or point PELTON_NVCOMP at libnvcomp.so.6",
};

/// Reads from storage into device memory.
pub const CUFILE: SharedLibrary = SharedLibrary {
    name: "cuFile",
    files: &["libcufile.so.0"],
    unversioned_file: Some("libcufile.so"),
    variable: None,
    wheel: Some("nvidia-cufile"),
    is_sought_in_environment: false,
    remedy: "'pip install nvidia-cufile' and its folder in LD_LIBRARY_PATH, or 'apt-get install nvidia-gds'",
};

/// Where NVRTC's wheel and the toolkit's wheels put it, below `site-packages`.
const NVRTC_WHEEL_FOLDER: &str = "nvidia/cu13/lib";
/// Where nvCOMP's wheel puts it, below `site-packages`.
const NVCOMP_WHEEL_FOLDER: &str = "nvidia/libnvcomp/lib64";
/// The Python environment into which `make cuda` installs wheels, below the sources.
const BUILD_ENVIRONMENT: &str = "build/cuda-venv";

/// The folder that [`look_for_cuda_library_in`] named.
static PACKAGE: OnceLock<PathBuf> = OnceLock::new();
/// The folders that [`look_for_nvrtc_in`] named.
static NVRTC_FOLDERS: OnceLock<Vec<PathBuf>> = OnceLock::new();

/// Has Pelton's CUDA library looked for in `folder` as well, as if the executable lay there: that of a Python package.
/// The first call of a process counts, and only for libraries that are opened later.
pub fn look_for_cuda_library_in(folder: PathBuf) {
    PACKAGE.get_or_init(|| folder);
}

/// Has NVRTC looked for in `folders` as well, which are full paths: those of the wheels that were installed with a
/// Python package. The first call of a process counts, and only before NVRTC is first asked for.
pub fn look_for_nvrtc_in(folders: Vec<PathBuf>) {
    NVRTC_FOLDERS.get_or_init(|| folders);
}

/// The file of Pelton's CUDA library.
///
/// # Errors
///
/// `Unsupported` if there is none, with the places and the remedy.
pub fn find_cuda_library() -> Result<PathBuf> {
    let executable = std::env::current_exe().ok();
    let beside = executable.as_deref().and_then(Path::parent);
    let folders = beside.into_iter().chain(PACKAGE.get().map(PathBuf::as_path));
    find_cuda_library_from(std::env::var_os(CUDA_LIBRARY_VARIABLE), folders)
}

/// NVRTC, by `open` of the first file that opens.
pub(crate) fn open_nvrtc<T>(open: impl Fn(&Path) -> Result<T>) -> Result<T> {
    let folders = nvrtc_folders(
        std::env::var_os("CUDA_HOME"),
        std::env::current_exe().ok().as_deref(),
        NVRTC_FOLDERS.get().map_or(&[], Vec::as_slice),
    );
    open_from(&NVRTC, std::env::var_os(NVRTC_VARIABLE), &folders, open).map_err(|refusal| {
        refusal.into_error(|refusals| {
            let places: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
            let (places, remedy) = (places.join(", "), NVRTC.remedy);
            format!(
                "no NVRTC that loads: looked in {places} and where the dynamic loader looks{refusals}; {remedy}"
            )
        })
    })
}

/// nvCOMP, by `open` of the first file that opens.
pub(crate) fn open_nvcomp<T>(open: impl Fn(&Path) -> Result<T>) -> Result<T> {
    let folders = nvcomp_folders(std::env::var_os("VIRTUAL_ENV"), std::env::current_exe().ok().as_deref());
    open_from(&NVCOMP, std::env::var_os(NVCOMP_VARIABLE), &folders, open).map_err(|refusal| {
        // Plans show it in a line: no list of places.
        refusal.into_error(|refusals| format!("nvCOMP is not there{refusals}: {}", NVCOMP.remedy))
    })
}

/// cuFile, by `open` of the first name that the loader knows.
pub(crate) fn open_cufile<T, E>(open: impl Fn(&str) -> std::result::Result<T, E>) -> Result<T>
where
    E: std::error::Error + Send + Sync + 'static,
{
    let mut last = None;
    for name in CUFILE.all_files() {
        match open(name) {
            Ok(library) => return Ok(library),
            Err(error) => last = Some(error),
        }
    }
    let error =
        Error::unsupported(format!("cuFile ({}) is not installed: {}", CUFILE.files[0], CUFILE.remedy));
    Err(match last {
        Some(cause) => error.with_source(cause),
        None => error,
    })
}

impl SharedLibrary {
    /// The file names that are tried, in order.
    fn all_files(&self) -> impl Iterator<Item = &'static str> {
        self.files.iter().copied().chain(self.unversioned_file)
    }
}

/// Why a library was not opened.
enum Refusal {
    /// The variable that names its file is wrong.
    Variable(Error),
    /// No file opened; what those said that are there.
    Nowhere(String),
}

impl Refusal {
    fn into_error(self, nowhere: impl FnOnce(&str) -> String) -> Error {
        match self {
            Self::Variable(error) => error,
            Self::Nowhere(refusals) => Error::unsupported(nowhere(&refusals)),
        }
    }
}

/// The file that the value of the library's variable names, or the first of `folders`, or what the loader finds.
fn open_from<T>(
    library: &SharedLibrary,
    named: Option<OsString>,
    folders: &[PathBuf],
    open: impl Fn(&Path) -> Result<T>,
) -> std::result::Result<T, Refusal> {
    if let Some(path) = set(named) {
        let variable = library.variable.unwrap_or_default();
        let refuse = |what: String| Refusal::Variable(Error::unsupported(format!("{variable} {what}")));
        if !path.is_absolute() {
            return Err(refuse(format!("is '{}', which is no full path", path.display())));
        }
        return open(&path)
            .map_err(|error| refuse(format!("names what does not load: {error}; {}", library.remedy)));
    }
    let files = folders.iter().flat_map(|folder| library.all_files().map(|name| folder.join(name)));
    let mut refusals = String::new();
    for candidate in files.filter(|path| path.is_file()).chain(library.all_files().map(PathBuf::from)) {
        match open(&candidate) {
            Ok(opened) => return Ok(opened),
            Err(error) if error.to_string().contains("No such file") => {}
            Err(error) => refusals.push_str(&format!(" ({error})")),
        }
    }
    Err(Refusal::Nowhere(refusals))
}

fn find_cuda_library_from<'a>(
    named: Option<OsString>,
    folders: impl IntoIterator<Item = &'a Path>,
) -> Result<PathBuf> {
    let remedy = CUDA_LIBRARY.remedy;
    if let Some(path) = set(named) {
        if path.is_file() {
            return Ok(path);
        }
        let path = path.display();
        return Err(Error::unsupported(format!(
            "{CUDA_LIBRARY_VARIABLE} names {path}, which is no file; {remedy}"
        )));
    }
    let candidates: Vec<PathBuf> = folders.into_iter().flat_map(cuda_library_candidates).collect();
    candidates.iter().find(|path| path.is_file()).cloned().ok_or_else(|| {
        let places: Vec<String> = candidates.iter().map(|path| path.display().to_string()).collect();
        let (name, places) = (CUDA_LIBRARY.files[0], places.join(", "));
        Error::unsupported(format!("no {name}: looked for {places}; {remedy}"))
    })
}

/// Beside the executable, where a bundle puts it; in `../lib`, where an installation does; in `build/cuda` of the
/// folders above, where `make cuda` does.
fn cuda_library_candidates(folder: &Path) -> Vec<PathBuf> {
    let name = CUDA_LIBRARY.files[0];
    let mut candidates = vec![folder.join(name)];
    candidates.extend(folder.parent().map(|above| above.join("lib").join(name)));
    candidates.extend(folder.ancestors().map(|above| above.join("build/cuda").join(name)));
    candidates
}

fn nvrtc_folders(home: Option<OsString>, executable: Option<&Path>, named: &[PathBuf]) -> Vec<PathBuf> {
    let beside = executable.and_then(Path::parent);
    let home = set(home).filter(|home| home.is_absolute());
    let homes = home.into_iter().chain([PathBuf::from("/usr/local/cuda")]);
    let mut folders: Vec<PathBuf> = beside.map(Path::to_path_buf).into_iter().collect();
    folders.extend(named.iter().filter(|folder| folder.is_absolute()).cloned());
    folders.extend(homes.flat_map(|home| [home.join("lib64"), home.join("lib")]));
    folders.extend(
        build_environments(beside).flat_map(|environment| wheel_folders(&environment, NVRTC_WHEEL_FOLDER)),
    );
    folders
}

fn nvcomp_folders(environment: Option<OsString>, executable: Option<&Path>) -> Vec<PathBuf> {
    let beside = executable.and_then(Path::parent);
    let active = environment.map(PathBuf::from).filter(|root| root.is_absolute());
    let mut folders: Vec<PathBuf> = beside.map(Path::to_path_buf).into_iter().collect();
    let environments = build_environments(beside).chain(active);
    folders.extend(environments.flat_map(|environment| wheel_folders(&environment, NVCOMP_WHEEL_FOLDER)));
    folders
}

/// Where `make cuda` would have made its Python environment, in `folder` and those above it.
fn build_environments(folder: Option<&Path>) -> impl Iterator<Item = PathBuf> {
    folder.into_iter().flat_map(Path::ancestors).map(|root| root.join(BUILD_ENVIRONMENT))
}

/// The folder of a wheel in the Python environment `root`, for each Python there.
fn wheel_folders(root: &Path, wheel_folder: &str) -> Vec<PathBuf> {
    let pythons = std::fs::read_dir(root.join("lib")).into_iter().flatten().flatten();
    pythons.map(|python| python.path().join("site-packages").join(wheel_folder)).collect()
}

/// The path that a variable holds; an empty one holds none.
fn set(variable: Option<OsString>) -> Option<PathBuf> {
    variable.filter(|value| !value.is_empty()).map(PathBuf::from)
}

#[cfg(test)]
mod tests;
