//! Files of the shell in the user's home: the history and the start file.

use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use pelton_error::{Result, ResultExt};

/// Only the user may read what was typed.
const PRIVATE_FILE: u32 = 0o600;
const PRIVATE_DIRECTORY: u32 = 0o700;

/// `$XDG_STATE_HOME/pelton/history`, or below `~/.local/state`; none without a home.
pub(super) fn history_file() -> Option<PathBuf> {
    below("XDG_STATE_HOME", ".local/state", "pelton/history")
}

/// `$XDG_CONFIG_HOME/pelton/shellrc`, or below `~/.config`: run when the shell starts on a terminal.
pub(super) fn start_file() -> Option<PathBuf> {
    below("XDG_CONFIG_HOME", ".config", "pelton/shellrc")
}

/// Relative paths in the variable are to be ignored, says the XDG base directory specification.
fn below(variable: &str, default: &str, name: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = named.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(default)))?;
    Some(base.join(name))
}

/// Makes sure that `path` is a file that only the user can read.
///
/// # Errors
///
/// Names the file or directory that cannot be made.
pub(super) fn make_private(path: &Path) -> Result<()> {
    let doing = || format!("making '{}'", path.display());
    if let Some(directory) = path.parent() {
        let made = DirBuilder::new().recursive(true).mode(PRIVATE_DIRECTORY).create(directory);
        made.context(|| format!("making '{}'", directory.display()))?;
    }
    let file = OpenOptions::new().create(true).append(true).mode(PRIVATE_FILE).open(path).context(doing)?;
    file.set_permissions(Permissions::from_mode(PRIVATE_FILE)).context(doing)
}
