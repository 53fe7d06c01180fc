//! The flags that say where to spill.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use pelton_limits::{SpillLimit, SpillOptions};

/// Where to spill.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct SpillArgs {
    /// Folder to spill to, on a disk with room; it is made where it is missing [default: pelton-spill-<user id> in $TMPDIR
    /// or /tmp; loads: the warehouse].
    #[arg(long, value_name = "DIR", env = "PELTON_SPILL_DIR")]
    spill_dir: Option<PathBuf>,
    /// Disk space to spill to: a size, a share of what is free in that folder, or none.
    #[arg(long, value_name = "SIZE", env = "PELTON_SPILL_LIMIT", default_value = "80%")]
    spill_limit: SpillLimit,
}

impl SpillArgs {
    pub(crate) fn options(&self) -> SpillOptions {
        SpillOptions { directory: self.spill_dir.clone(), limit: self.spill_limit }
    }
}
