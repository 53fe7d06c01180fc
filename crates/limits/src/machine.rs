//! How much memory there is for this process: the least of what the machine has, what its control groups (version 1
//! and 2, with all above them) allow, and what `ulimit -v` and `ulimit -d` leave of the address space.
//!
//! Read once: a limit that changed while a process runs would change its plans.

use std::fmt;
use std::path::Path;
use std::sync::OnceLock;

use rustix::process::{Resource, getrlimit};

/// Memory for this process, and what sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Available {
    /// The least of all bounds.
    pub bytes: u64,
    /// The bound that is the least.
    pub bound: Bound,
}

/// What bounds the memory of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The machine has no more.
    Machine,
    /// A control group, such as that of a container.
    ControlGroup,
    /// `ulimit -v`, less what the process had mapped when it started.
    AddressSpace,
    /// `ulimit -d`, likewise.
    Data,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bound::Machine => "the machine's memory",
            Bound::ControlGroup => "the control group's memory",
            Bound::AddressSpace => "the address space that ulimit -v leaves",
            Bound::Data => "the data segment that ulimit -d leaves",
        })
    }
}

/// Memory for this process, as it was when this was first asked; `None` where nothing can be read.
pub fn available_memory() -> Option<Available> {
    static AVAILABLE: OnceLock<Option<Available>> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        let left = |resource, used: &str| {
            let limit = getrlimit(resource).current?;
            Some(limit.saturating_sub(status_bytes(Path::new("/"), used).unwrap_or(0)))
        };
        let ulimits = [
            left(Resource::As, "VmSize:").map(|bytes| Available { bytes, bound: Bound::AddressSpace }),
            left(Resource::Data, "VmData:").map(|bytes| Available { bytes, bound: Bound::Data }),
        ];
        below(Path::new("/")).into_iter().chain(ulimits.into_iter().flatten()).min_by_key(|bound| bound.bytes)
    })
}

/// Memory of the machine that could be taken now without swapping; `None` where Linux does not say.
pub(crate) fn free_bytes() -> Option<u64> {
    meminfo_bytes(Path::new("/"), "MemAvailable:")
}

/// The bounds that the files below `root` tell of.
fn below(root: &Path) -> Vec<Available> {
    let machine = meminfo_bytes(root, "MemTotal:").map(|bytes| Available { bytes, bound: Bound::Machine });
    let group = group_bytes(root).map(|bytes| Available { bytes, bound: Bound::ControlGroup });
    machine.into_iter().chain(group).collect()
}

fn meminfo_bytes(root: &Path, name: &str) -> Option<u64> {
    kibibytes(&root.join("proc/meminfo"), name)
}

fn status_bytes(root: &Path, name: &str) -> Option<u64> {
    kibibytes(&root.join("proc/self/status"), name)
}

/// The value of the line that begins with `name`, as `MemTotal:  24576 kB`.
fn kibibytes(file: &Path, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// The tightest limit of the control group of this process and of those above it.
fn group_bytes(root: &Path) -> Option<u64> {
    let groups = std::fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mut limits = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (mounts, file): (&[&str], &str) = if controllers.is_empty() {
            (&["sys/fs/cgroup", "sys/fs/cgroup/unified"], "memory.max")
        } else if controllers.split(',').any(|controller| controller == "memory") {
            (&["sys/fs/cgroup/memory"], "memory.limit_in_bytes")
        } else {
            continue;
        };
        for mount in mounts {
            for group in Path::new(path).ancestors() {
                // In a container the path is often that outside; its last ancestor is the container's own root.
                let below = group.strip_prefix("/").unwrap_or(group);
                let text = std::fs::read_to_string(root.join(mount).join(below).join(file));
                limits.extend(text.ok().and_then(|text| text.trim().parse::<u64>().ok()));
            }
        }
    }
    limits.into_iter().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root folder with these files.
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    fn least(files: &[(&str, &str)]) -> Option<(u64, Bound)> {
        let found = below(tree(files).path()).into_iter().min_by_key(|bound| bound.bytes);
        found.map(|bound| (bound.bytes, bound.bound))
    }

    const MACHINE: (&str, &str) = ("proc/meminfo", "MemTotal:       1000 kB\nMemFree: 1 kB\n");

    #[test]
    fn the_tightest_group_of_either_version_counts() {
        let machine = Some((1_024_000, Bound::Machine));
        let group = |bytes| Some((bytes, Bound::ControlGroup));
        assert_eq!(least(&[MACHINE]), machine);
        let (v1, v2) = (("proc/self/cgroup", "4:cpu,memory:/a/b\n"), ("proc/self/cgroup", "0::/a/b\n"));
        let parent = ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "5000\n");
        let unlimited = ("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(least(&[MACHINE, v1, parent, unlimited]), group(5000));
        assert_eq!(least(&[MACHINE, v1, unlimited]), machine);
        let own = ("sys/fs/cgroup/a/b/memory.max", "7000\n");
        let above = ("sys/fs/cgroup/a/memory.max", "max\n");
        assert_eq!(least(&[MACHINE, v2, own, above]), group(7000));
        // As a container sees it: its own group is mounted at the top.
        assert_eq!(least(&[MACHINE, v2, ("sys/fs/cgroup/memory.max", "6000\n")]), group(6000));
        assert_eq!(least(&[]), None);
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(available_memory().unwrap().bytes > 0);
        assert!(free_bytes().unwrap() > 0);
    }
}
