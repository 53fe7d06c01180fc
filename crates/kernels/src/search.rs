//! Where the CUDA library is looked for.
//!
//! 1. `$PELTON_CUDA_LIBRARY`, if set, and nowhere else.
//! 2. Beside the executable, where a bundle puts it.
//! 3. In `../lib` beside the executable, where an installation puts it.
//! 4. In `build/cuda` of the folders above the executable, where `make cuda` puts it.
//!
//! Never in the working directory: code is not loaded from where data lies.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use pelton_error::{Error, Result};

/// The environment variable that names the library's file.
pub const LIBRARY_VARIABLE: &str = "PELTON_CUDA_LIBRARY";

const FILE_NAME: &str = "libpelton_cuda.so";

/// How to come by the library.
pub(crate) const REMEDY: &str = "'make cuda' in Pelton's sources builds it (without Rust: cuda/build.sh), \
    PELTON_CUDA_LIBRARY names its file";

/// The library's file.
///
/// # Errors
///
/// `Unsupported` if there is none, with the places and the remedy.
pub(crate) fn find() -> Result<PathBuf> {
    find_from(std::env::var_os(LIBRARY_VARIABLE), std::env::current_exe().ok().as_deref())
}

fn find_from(variable: Option<OsString>, executable: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = variable.filter(|value| !value.is_empty()).map(PathBuf::from) {
        if path.is_file() {
            return Ok(path);
        }
        let path = path.display();
        return Err(Error::unsupported(format!(
            "{LIBRARY_VARIABLE} names {path}, which is no file; {REMEDY}"
        )));
    }
    let candidates = executable.map_or(Vec::new(), candidates);
    candidates.iter().find(|path| path.is_file()).cloned().ok_or_else(|| {
        let places: Vec<String> = candidates.iter().map(|path| path.display().to_string()).collect();
        Error::unsupported(format!("no {FILE_NAME}: looked for {}; {REMEDY}", places.join(", ")))
    })
}

fn candidates(executable: &Path) -> Vec<PathBuf> {
    let Some(folder) = executable.parent() else { return Vec::new() };
    let mut candidates = vec![folder.join(FILE_NAME)];
    candidates.extend(folder.parent().map(|above| above.join("lib").join(FILE_NAME)));
    candidates.extend(folder.ancestors().map(|above| above.join("build/cuda").join(FILE_NAME)));
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_decides_alone() {
        let this = std::env::current_exe().unwrap();
        assert_eq!(find_from(Some(this.clone().into()), None).unwrap(), this);
        let error = find_from(Some("/nowhere/lib.so".into()), Some(&this)).unwrap_err().to_string();
        assert!(
            error.contains("PELTON_CUDA_LIBRARY names /nowhere/lib.so") && error.contains("make cuda"),
            "{error}"
        );
    }

    #[test]
    fn a_refusal_names_every_place_and_the_remedy() {
        let error = find_from(None, Some(Path::new("/nowhere/bin/pelton"))).unwrap_err().to_string();
        for part in [
            "/nowhere/bin/libpelton_cuda.so",
            "/nowhere/lib/libpelton_cuda.so",
            "/nowhere/build/cuda/libpelton_cuda.so",
            "make cuda",
        ] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn an_empty_variable_is_none() {
        let error = find_from(Some(OsString::new()), Some(Path::new("/nowhere/bin/pelton"))).unwrap_err();
        assert!(error.to_string().starts_with("no libpelton_cuda.so"), "{error}");
    }
}
