//! Operating system, processor, memory and the limits on it.

use crate::discover::tree::{Tree, kibibytes_of};

use super::report::{Finding, Group, State};

const GIB: u64 = 1 << 30;

/// The oldest kernel whose io_uring has the operations in use (5.6: reads and writes without a vector).
const KERNEL_MIN: (u32, u32) = (5, 6);

/// Below this a load spills all the time. A guess.
const MEMORY_BYTES_MIN: u64 = 4 * GIB;

/// Buffers of 16 reads of 4 MiB that are in flight at once.
const MEMLOCK_BYTES_MIN: u64 = 64 << 20;

/// Looks at all of them.
pub(super) fn examine(tree: &Tree) -> Vec<Finding> {
    let meminfo = tree.text("proc/meminfo").unwrap_or_default();
    vec![
        operating_system(tree),
        processor(tree),
        memory(&meminfo),
        memory_limit(tree, &meminfo),
        swap(&meminfo),
        locked_memory(tree),
        transparent_huge_pages(tree),
        reserved_huge_pages(&meminfo),
    ]
}

/// Bytes in GiB.
pub(super) fn gibibytes(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / GIB as f64)
}

fn operating_system(tree: &Tree) -> Finding {
    let release = tree.text("etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let name = name.map_or("an unknown system", |name| name.trim_matches('"'));
    let kernel = tree.text("proc/sys/kernel/osrelease");
    let gives = "asynchronous reads through io_uring";
    let detail = format!("{name}, Linux {}", kernel.as_deref().unwrap_or("unknown"));
    let finding = Finding::ok(Group::System, "operating system", gives, detail);
    match kernel.as_deref().and_then(version_of) {
        Some(version) if version < KERNEL_MIN => {
            finding.but(State::Limited, format!("install Linux {}.{} or later", KERNEL_MIN.0, KERNEL_MIN.1))
        }
        _ => finding,
    }
}

/// `6.18.0-1-amd64` to 6 and 18.
fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|character: char| !character.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn processor(tree: &Tree) -> Finding {
    let text = tree.text("proc/cpuinfo").unwrap_or_default();
    let value = |key: &str| {
        let line = text.lines().find(|line| line.split(':').next().is_some_and(|name| name.trim() == key))?;
        Some(line.split_once(':')?.1.trim())
    };
    let count = text.lines().filter(|line| line.starts_with("processor")).count();
    let flags: Option<Vec<&str>> = value("flags").map(|flags| flags.split_whitespace().collect());
    let has = |flag: &str| flags.as_ref().is_some_and(|flags| flags.contains(&flag));
    let model = value("model name").unwrap_or("unknown model");
    let vectors = match (has("avx2"), has("avx512f")) {
        (_, true) => ", AVX2, AVX-512",
        (true, false) => ", AVX2, no AVX-512",
        (false, false) if flags.is_some() => ", no AVX2",
        _ => "",
    };
    let gives = "decoding and filtering of many values at once";
    let finding =
        Finding::ok(Group::System, "processor", gives, format!("{model}, logical cores: {count}{vectors}"));
    if flags.is_some() && !has("avx2") {
        return finding.but(State::Limited, "a processor with AVX2 (x86-64 from 2013 on)");
    }
    finding
}

fn memory(meminfo: &str) -> Finding {
    let gives = "tables and hash tables that need not spill";
    let total = kibibytes_of(meminfo, "MemTotal");
    let detail = match (total, kibibytes_of(meminfo, "MemAvailable")) {
        (Some(total), Some(free)) => format!("{}, {} available", gibibytes(total), gibibytes(free)),
        (Some(total), None) => gibibytes(total),
        (None, _) => "size unknown".to_string(),
    };
    let finding = Finding::ok(Group::System, "memory", gives, detail);
    match total {
        Some(total) if total < MEMORY_BYTES_MIN => {
            finding.but(State::Limited, format!("{} or more", gibibytes(MEMORY_BYTES_MIN)))
        }
        Some(_) => finding,
        None => finding.but(State::Limited, "mount procfs at /proc"),
    }
}

fn memory_limit(tree: &Tree, meminfo: &str) -> Finding {
    let gives = "all of the machine's memory";
    let finding = |detail: String| Finding::ok(Group::System, "memory limit", gives, detail);
    let total = kibibytes_of(meminfo, "MemTotal").unwrap_or(u64::MAX);
    match cgroup_limit(tree).filter(|&limit| limit < total) {
        Some(limit) => finding(format!("{} for this control group", gibibytes(limit)))
            .but(State::Limited, "raise the container's limit (docker run --memory, systemd MemoryMax=)"),
        None => finding("none below the machine's memory".to_string()),
    }
}

/// The tightest limit of the control group of this process and of those above it, of version 2 and of version 1.
fn cgroup_limit(tree: &Tree) -> Option<u64> {
    let groups = tree.text("proc/self/cgroup").unwrap_or_default();
    let mut limits = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (roots, file): (&[&str], &str) = if controllers.is_empty() {
            (&["sys/fs/cgroup", "sys/fs/cgroup/unified"], "memory.max")
        } else if controllers.split(',').any(|controller| controller == "memory") {
            (&["sys/fs/cgroup/memory"], "memory.limit_in_bytes")
        } else {
            continue;
        };
        for root in roots {
            for directory in std::path::Path::new(path).ancestors() {
                // In a container the path is often that outside; its last ancestor is the container's own root.
                let below = directory.strip_prefix("/").unwrap_or(directory);
                limits.extend(tree.number::<u64>(std::path::Path::new(root).join(below).join(file)));
            }
        }
    }
    limits.into_iter().min()
}

fn swap(meminfo: &str) -> Finding {
    let detail = match kibibytes_of(meminfo, "SwapTotal") {
        None | Some(0) => "none".to_string(),
        Some(bytes) => gibibytes(bytes),
    };
    Finding::ok(Group::System, "swap", "nothing: Pelton keeps to its budgets and spills by itself", detail)
}

fn locked_memory(tree: &Tree) -> Finding {
    let limits = tree.text("proc/self/limits").unwrap_or_default();
    let soft =
        limits.lines().find_map(|line| line.strip_prefix("Max locked memory")?.split_whitespace().next());
    let gives = "I/O buffers that the kernel does not map anew for each read, page-locked host memory";
    let finding = |detail: String| Finding::ok(Group::System, "locked memory", gives, detail);
    match soft {
        None => finding("limit unknown".to_string()),
        Some("unlimited") => finding("unlimited".to_string()),
        Some(text) => {
            let bytes = text.parse::<u64>().unwrap_or(0);
            let finding = finding(format!("at most {} MiB", bytes >> 20));
            if bytes >= MEMLOCK_BYTES_MIN {
                return finding;
            }
            let command = "echo '* - memlock unlimited' | sudo tee /etc/security/limits.d/pelton.conf";
            finding.but(State::Limited, format!("{command}, then log in again (docker: --ulimit memlock=-1)"))
        }
    }
}

fn transparent_huge_pages(tree: &Tree) -> Finding {
    let file = "sys/kernel/mm/transparent_hugepage/enabled";
    let text = tree.text(file).unwrap_or_default();
    // Reads `always [madvise] never`.
    let mode = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(mode, _)| mode);
    let gives = "fewer address translations in large hash tables";
    let finding = Finding::ok(
        Group::System,
        "huge pages",
        gives,
        format!("transparent: {}", mode.unwrap_or("unknown")),
    );
    match mode {
        Some("never") => finding.but(State::Limited, format!("echo madvise | sudo tee /{file}")),
        _ => finding,
    }
}

fn reserved_huge_pages(meminfo: &str) -> Finding {
    let line = |key: &str| meminfo.lines().find_map(|line| line.strip_prefix(key));
    let count = line("HugePages_Total:").map_or("unknown", str::trim);
    let size = line("Hugepagesize:").map_or("unknown", str::trim);
    let gives = "nothing: transparent ones serve";
    Finding::ok(Group::System, "reserved huge pages", gives, format!("{count} of {size}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_versions_are_read() {
        assert_eq!(version_of("6.18.0-1-amd64"), Some((6, 18)));
        assert_eq!(version_of("5.4"), Some((5, 4)));
        assert_eq!(version_of("garbage"), None);
        assert!(version_of("5.4.0") < Some(KERNEL_MIN));
    }
}
