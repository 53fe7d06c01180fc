//! Python environments below `build`, each made once with what a file of requirements pins.

use std::path::{Path, PathBuf};

use crate::process::{self, Result};
use crate::readme::empty;

/// A Python environment.
pub(crate) struct Environment {
    folder: &'static str,
    /// The file that pins its packages.
    requirements: &'static str,
}

pub(crate) const GUIDE: Environment =
    Environment { folder: "build/guide-venv", requirements: "docs/guide/requirements.txt" };
pub(crate) const ORACLE: Environment =
    Environment { folder: "build/oracle-venv", requirements: "tests/oracle/requirements.txt" };
pub(crate) const PACKAGE: Environment =
    Environment { folder: "build/python-venv", requirements: "python/tests/requirements.txt" };
pub(crate) const SERVER: Environment =
    Environment { folder: "build/server-venv", requirements: "tests/server/requirements.txt" };
pub(crate) const STORES: Environment =
    Environment { folder: "build/stores-venv", requirements: "tests/stores/requirements.txt" };

/// All of them.
pub(crate) const ALL: [Environment; 5] = [GUIDE, ORACLE, PACKAGE, SERVER, STORES];

impl Environment {
    /// Its Python, made where it lacks what is pinned. Not for two threads at once.
    pub(crate) fn python(&self, root: &Path) -> Result<PathBuf> {
        let requirements = root.join(self.requirements);
        let wanted = std::fs::read_to_string(&requirements)
            .map_err(|error| format!("reading {}: {error}", requirements.display()))?;
        let folder = root.join(self.folder);
        let (python, stamp) = (folder.join("bin/python"), folder.join("installed.txt"));
        if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
            return Ok(python);
        }
        empty(&folder)?;
        let folder = folder.to_string_lossy().into_owned();
        process::run(&mut process::command(root, "python3", &["-m", "venv", &folder])).map_err(
            |message| {
                format!(
                    "{message}\nPython's venv module is needed: apt-get install python3-venv, or dnf install python3"
                )
            },
        )?;
        let requirements = requirements.to_string_lossy().into_owned();
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", &requirements];
        process::run(&mut process::command(root, &python, &install))?;
        std::fs::write(&stamp, wanted).map_err(|error| format!("writing {}: {error}", stamp.display()))?;
        Ok(python)
    }
}
