//! Where the CUDA library is looked for.
//!
//! 1. `$PELTON_CUDA_LIBRARY`, if set, and nowhere else.
//! 2. Beside the executable, where a bundle puts it.
//! 3. In `../lib` beside the executable, where an installation puts it.
//! 4. In `build/cuda` of the folders above the executable, where `make cuda` puts it.
//! 5. The same three places of a folder that the program names, where it is no executable of its own: a Python package.
//!
//! Never in the working directory: code is not loaded from where data lies.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use pelton_error::{Error, Result};

/// The environment variable that names the library's file.
pub const LIBRARY_VARIABLE: &str = "PELTON_CUDA_LIBRARY";

const FILE_NAME: &str = "libpelton_cuda.so";

/// How to come by the library.
pub(crate) const REMEDY: &str = "'make cuda' in Pelton's sources builds it (without Rust: cuda/build.sh), \
    PELTON_CUDA_LIBRARY names its file";

/// The folder that [`look_in`] named.
static HOME: OnceLock<PathBuf> = OnceLock::new();

/// Has the library looked for in `folder` as well, as if the executable lay there. The first call of a process counts,
/// and only for libraries that are opened later.
pub fn look_in(folder: PathBuf) {
    HOME.get_or_init(|| folder);
}

/// The library's file.
///
/// # Errors
///
/// `Unsupported` if there is none, with the places and the remedy.
pub(crate) fn find() -> Result<PathBuf> {
    let executable = std::env::current_exe().ok();
    let beside = executable.as_deref().and_then(Path::parent);
    find_from(std::env::var_os(LIBRARY_VARIABLE), beside.into_iter().chain(HOME.get().map(PathBuf::as_path)))
}

fn find_from<'a>(variable: Option<OsString>, folders: impl IntoIterator<Item = &'a Path>) -> Result<PathBuf> {
    if let Some(path) = variable.filter(|value| !value.is_empty()).map(PathBuf::from) {
        if path.is_file() {
            return Ok(path);
        }
        let path = path.display();
        return Err(Error::unsupported(format!(
            "{LIBRARY_VARIABLE} names {path}, which is no file; {REMEDY}"
        )));
    }
    let candidates: Vec<PathBuf> = folders.into_iter().flat_map(candidates).collect();
    candidates.iter().find(|path| path.is_file()).cloned().ok_or_else(|| {
        let places: Vec<String> = candidates.iter().map(|path| path.display().to_string()).collect();
        Error::unsupported(format!("no {FILE_NAME}: looked for {}; {REMEDY}", places.join(", ")))
    })
}

fn candidates(folder: &Path) -> Vec<PathBuf> {
    let mut candidates = vec![folder.join(FILE_NAME)];
    candidates.extend(folder.parent().map(|above| above.join("lib").join(FILE_NAME)));
    candidates.extend(folder.ancestors().map(|above| above.join("build/cuda").join(FILE_NAME)));
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of an executable, and of a Python package.
    fn folders() -> [&'static Path; 2] {
        [Path::new("/nowhere/bin"), Path::new("/elsewhere/site-packages/pelton")]
    }

    #[test]
    fn the_variable_decides_alone() {
        let this = std::env::current_exe().unwrap();
        assert_eq!(find_from(Some(this.clone().into()), None).unwrap(), this);
        let error = find_from(Some("/nowhere/lib.so".into()), this.parent()).unwrap_err().to_string();
        assert!(
            error.contains("PELTON_CUDA_LIBRARY names /nowhere/lib.so") && error.contains("make cuda"),
            "{error}"
        );
    }

    #[test]
    fn a_refusal_names_every_place_and_the_remedy() {
        let error = find_from(None, folders()).unwrap_err().to_string();
        for part in [
            "/nowhere/bin/libpelton_cuda.so",
            "/nowhere/lib/libpelton_cuda.so",
            "/nowhere/build/cuda/libpelton_cuda.so",
            "/elsewhere/site-packages/pelton/libpelton_cuda.so",
            "make cuda",
        ] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn an_empty_variable_is_none() {
        let error = find_from(Some(OsString::new()), folders()).unwrap_err();
        assert!(error.to_string().starts_with("no libpelton_cuda.so"), "{error}");
    }
}
