//! Examinations of recorded machines, and of this one.

use std::fs;
use std::path::Path;

use pelton_device::cuda::DriverStatus;
use tempfile::TempDir;

use super::{DoctorOptions, Environment, Finding, Report, State, examine};

struct Recorded(TempDir);

impl Recorded {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, path: &str, text: impl AsRef<[u8]>) -> &Self {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn options(&self) -> DoctorOptions {
        DoctorOptions {
            root: self.0.path().to_path_buf(),
            driver: no_driver(),
            cuda_library: None,
            warehouse: None,
            environment: Environment::default(),
        }
    }

    fn report(&self) -> Report {
        examine(&self.options())
    }
}

fn no_driver() -> DriverStatus {
    DriverStatus { version: None, device_count: 0, problem: Some("no libcuda.so.1".to_string()) }
}

fn finding<'a>(report: &'a Report, name: &str) -> &'a Finding {
    report.findings.iter().find(|finding| finding.name == name).unwrap_or_else(|| panic!("no {name}"))
}

/// State and detail of a finding.
fn check(report: &Report, name: &str, state: State, detail: &str) {
    let finding = finding(report, name);
    assert_eq!((finding.state, finding.detail.as_str()), (state, detail), "{name}");
    assert_eq!(
        finding.fix.is_none(),
        state == State::Ok,
        "{name}: a remedy where, and only where, one is needed"
    );
}

fn server() -> Recorded {
    let recorded = Recorded::new();
    recorded
        .file("etc/os-release", "ID=ubuntu\nID_LIKE=debian\nPRETTY_NAME=\"Ubuntu 24.04 LTS\"\n")
        .file("proc/sys/kernel/osrelease", "6.8.0-50-generic\n")
        .file(
            "proc/cpuinfo",
            "processor\t: 0\nmodel name\t: Example CPU\nflags\t\t: fpu avx2 avx512f\n\nprocessor\t: 1\n",
        )
        .file(
            "proc/meminfo",
            "MemTotal: 268435456 kB\nMemAvailable: 134217728 kB\nHugePages_Total: 5\nHugepagesize: 2048 kB\n",
        )
        .file(
            "proc/self/limits",
            "Limit  Soft  Hard  Units\nMax locked memory  unlimited  unlimited  bytes\n",
        )
        .file("proc/self/cgroup", "0::/user.slice\n")
        .file("sys/fs/cgroup/user.slice/memory.max", "max\n")
        .file("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
        .file("proc/sys/kernel/io_uring_disabled", "0\n")
        .file(
            "proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Fri\nGCC 13.3\n",
        )
        .file("proc/driver/nvidia-fs/version", "2.26\n");
    for address in ["0000:19:00.0", "0000:1a:00.0"] {
        recorded.file(&format!("sys/bus/pci/devices/{address}/vendor"), "0x10de\n");
        recorded.file(&format!("sys/bus/pci/devices/{address}/class"), "0x030200\n");
    }
    recorded
}

#[test]
fn server_with_everything_lacks_nothing() {
    let recorded = server();
    let files = ["libnvrtc.so.13", "libnvcomp.so.6", "libcufile.so.0", "libnccl.so.2", "libucp.so.0"];
    for file in files {
        recorded.file(&format!("opt/lib/{file}"), "");
    }
    recorded.file("usr/bin/g++", "");
    let mut options = recorded.options();
    options.driver = DriverStatus { version: Some("13.0".to_string()), device_count: 2, problem: None };
    options.cuda_library = Some("/opt/pelton/libpelton_cuda.so".into());
    options.environment.library_path = "/nowhere:/opt/lib".to_string();
    options.environment.command_path = "/usr/local/bin:/usr/bin".to_string();
    let report = examine(&options);
    check(&report, "operating system", State::Ok, "Ubuntu 24.04 LTS, Linux 6.8.0-50-generic");
    check(&report, "processor", State::Ok, "Example CPU, logical cores: 2, AVX2, AVX-512");
    check(&report, "memory", State::Ok, "256.0 GiB, 128.0 GiB available");
    check(&report, "memory limit", State::Ok, "none below the machine's memory");
    check(&report, "reserved huge pages", State::Ok, "5 of 2048 kB");
    check(&report, "NVIDIA driver", State::Ok, "580.159.04, CUDA 13.0");
    check(&report, "GPUs", State::Ok, "2");
    check(&report, "cuFile", State::Ok, "/opt/lib/libcufile.so.0, kernel module nvidia-fs loaded");
    check(&report, "C++ compiler", State::Ok, "/usr/bin/g++");
    assert!(report.findings.iter().all(|finding| finding.state == State::Ok), "{}", report.to_text());
    assert!(report.is_usable());
    assert!(report.to_text().ends_with("\nNothing is missing.\n"), "{}", report.to_text());
}

#[test]
fn empty_machine_is_examined_without_a_failure() {
    let report = Recorded::new().report();
    assert!(report.is_usable());
    check(&report, "operating system", State::Ok, "an unknown system, Linux unknown");
    check(&report, "GPUs", State::Missing, "none");
    check(&report, "NVRTC", State::Missing, "no libnvrtc.so.13, no libnvrtc.so.12");
    assert_eq!(
        finding(&report, "C++ compiler").fix.as_deref(),
        Some("sudo apt install g++ (Debian, Ubuntu); sudo dnf install gcc-c++ (Fedora)")
    );
}

#[test]
fn a_machine_without_a_gpu_says_so_in_one_line() {
    let report = Recorded::new().report();
    assert!(!report.has_gpu);
    let text = report.clone().without_absent_gpu().to_text();
    assert_eq!(text.lines().filter(|line| line.contains("GPU")).count(), 2, "a heading and a line: {text}");
    for absent in ["NVRTC", "nvCOMP", "driver", "C++ compiler"] {
        assert!(!text.contains(absent), "{absent}: {text}");
    }
    assert!(report.to_text().contains("NVRTC"));
    // Where there is a card, what it lacks is what one wants to know.
    let report = server().report();
    assert_eq!(report.clone().without_absent_gpu(), report);
}

#[test]
fn limits_are_found_with_their_remedies() {
    let recorded = server();
    recorded
        .file("proc/sys/kernel/osrelease", "5.4.0")
        .file("proc/cpuinfo", "processor: 0\nflags : fpu sse2\n")
        .file("proc/self/limits", "Max locked memory         8388608      8388608       bytes\n")
        .file("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]")
        .file("proc/sys/kernel/io_uring_disabled", "2");
    let report = recorded.report();
    for name in ["operating system", "processor", "locked memory", "huge pages"] {
        assert_eq!(finding(&report, name).state, State::Limited, "{name}");
    }
    check(&report, "io_uring", State::Missing, "forbidden");
    check(&report, "locked memory", State::Limited, "at most 8 MiB");
    assert!(finding(&report, "processor").detail.ends_with("cores: 1, no AVX2"));
    // The cards are there, so a driver is what is missing.
    assert_eq!(
        finding(&report, "NVIDIA driver").fix.as_deref(),
        Some("sudo ubuntu-drivers install, then restart")
    );
    check(&report, "GPUs", State::Missing, "2 on the PCI bus, none usable");
}

#[test]
fn tightest_control_group_above_the_process_counts() {
    let recorded = server();
    recorded.file("proc/self/cgroup", "0::/a/b\n");
    recorded.file("sys/fs/cgroup/a/b/memory.max", "max").file("sys/fs/cgroup/a/memory.max", "8589934592\n");
    check(&recorded.report(), "memory limit", State::Limited, "8.0 GiB for this control group");

    // In a container the path is that outside, and the group's own files lie at the root.
    let recorded = server();
    recorded.file("proc/self/cgroup", "5:cpu,memory:/docker/abc\n1:cpu:/\n");
    recorded.file("sys/fs/cgroup/memory/memory.limit_in_bytes", "4294967296\n");
    check(&recorded.report(), "memory limit", State::Limited, "4.0 GiB for this control group");

    // Version 1 writes a number near 2^63 where there is no limit.
    recorded.file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    check(&recorded.report(), "memory limit", State::Ok, "none below the machine's memory");
}

#[test]
fn libraries_are_found_in_the_cache_and_in_wheels() {
    let recorded = server();
    let site = "venv/lib/python3.12/site-packages";
    recorded.file(&format!("{site}/nvidia/cu13/lib/libnvrtc.so.13"), "");
    recorded.file(&format!("{site}/nvidia/libnvcomp/lib64/libnvcomp.so.6"), "");
    recorded.file(&format!("{site}/nvidia/cufile/lib/libcufile.so.0"), "");
    recorded.file("usr/lib/libnccl.so.2", "");
    recorded.file("etc/ld.so.cache", b"\0\xfflibnccl.so.2\0/usr/lib/libnccl.so.2\0/gone/libucp.so.0\0");
    fs::remove_dir_all(recorded.0.path().join("proc/driver/nvidia-fs")).unwrap();
    let mut options = recorded.options();
    options.environment.virtual_environment = Some("/venv".to_string());
    let report = examine(&options);
    check(&report, "NCCL", State::Ok, "/usr/lib/libnccl.so.2");
    let found = format!("/{site}/nvidia/cu13/lib/libnvrtc.so.13, unknown to the loader");
    check(&report, "NVRTC", State::Limited, &found);
    check(&report, "nvCOMP", State::Ok, &format!("/{site}/nvidia/libnvcomp/lib64/libnvcomp.so.6"));
    options.environment.nvcomp_path = Some("/gone/libnvcomp.so.6".to_string());
    let named = "PELTON_NVCOMP names /gone/libnvcomp.so.6, which is not there";
    check(&examine(&options), "nvCOMP", State::Missing, named);
    let cufile = finding(&report, "cuFile");
    assert!(
        cufile.detail.ends_with("compatibility mode only: no kernel module nvidia-fs"),
        "{}",
        cufile.detail
    );
    assert!(
        cufile.fix.as_deref().is_some_and(|fix| fix.contains("LD_LIBRARY_PATH") && fix.contains("modprobe"))
    );
    assert_eq!(finding(&report, "UCX").state, State::Missing);
}

#[test]
fn warehouse_directory_is_tried_and_left_as_it_was() {
    let recorded = server();
    let home = tempfile::tempdir().unwrap();
    let mut options = recorded.options();
    options.warehouse = Some(home.path().join("not/yet/there"));
    let report = examine(&options);
    assert!(report.is_usable());
    let there = finding(&report, "warehouse");
    assert_eq!(there.state, State::Ok);
    assert!(there.detail.ends_with("there, to be created"), "{}", there.detail);
    for name in ["free space", "direct I/O", "disk"] {
        finding(&report, name);
    }
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn warehouse_where_nothing_can_be_written_makes_the_machine_unusable() {
    let recorded = server();
    let mut options = recorded.options();
    // Not even root makes files there.
    options.warehouse = Some("/proc/self".into());
    let report = examine(&options);
    assert_eq!(finding(&report, "warehouse").state, State::Missing);
    assert!(!report.is_usable());
    let text = report.to_text();
    let last = text.rfind("missing: ").unwrap();
    assert!(text[last..].starts_with("missing: warehouse"), "{text}");
    assert!(text.contains("Pelton cannot run here"), "{text}");
}

#[test]
fn disk_behind_a_directory_is_named_through_its_partition() {
    let recorded = server();
    let home = tempfile::tempdir().unwrap();
    let device = std::os::unix::fs::MetadataExt::dev(&fs::metadata(home.path()).unwrap());
    let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let check_disk = |disk: &str, rotational: &str, state: State, detail: &str| {
        let _ = fs::remove_file(recorded.0.path().join(format!("sys/dev/block/{number}")));
        let partition = format!("sys/devices/pci0/{disk}/{disk}p1");
        recorded
            .file(&format!("{partition}/dev"), &number)
            .file(&format!("sys/block/{disk}/queue/rotational"), rotational);
        recorded.file(&format!("sys/block/{disk}/device/model"), "Example");
        fs::create_dir_all(recorded.0.path().join("sys/dev/block")).unwrap();
        let link = recorded.0.path().join(format!("sys/dev/block/{number}"));
        std::os::unix::fs::symlink(Path::new("../../..").join(partition), link).unwrap();
        let mut options = recorded.options();
        options.warehouse = Some(home.path().to_path_buf());
        check(&examine(&options), "disk", state, detail);
    };
    check_disk("nvme0n1", "0", State::Ok, "nvme0n1, NVMe, Example");
    check_disk("sda", "1", State::Limited, "sda, rotating, Example");
    check_disk("sdb", "0", State::Ok, "sdb, no rotation, Example");
    check_disk("vda", "1", State::Limited, "vda, virtual");
}

#[test]
fn text_is_aligned_and_the_worst_comes_last() {
    let recorded = server();
    let mut options = recorded.options();
    options.driver = DriverStatus { version: Some("13.0".to_string()), device_count: 1, problem: None };
    let text = examine(&options).to_text();
    assert!(text.contains("\n  GPUs                   limited  1 of 2\n"), "{text}");
    let limited = text.find("limited: GPUs").unwrap();
    let missing = text.find("missing: ").unwrap();
    assert!(limited < missing, "{text}");
    let last = text.rfind("missing: ").unwrap();
    assert!(
        text[last..]
            .starts_with("missing: Pelton's CUDA library\n  gives  Pelton's kernels\n  fix    make cuda")
    );
    assert!(text.ends_with("could be better.\n"), "{text}");
}

#[test]
fn json_holds_every_finding() {
    let report = server().report();
    let value: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(value["is_usable"], true);
    let findings = value["findings"].as_array().unwrap();
    assert_eq!(findings.len(), report.findings.len());
    assert_eq!(findings[0]["name"], "operating system");
    assert_eq!(findings[0]["state"], "ok");
    assert_eq!(findings[0]["group"], "system");
    assert!(findings[0]["fix"].is_null());
}

#[test]
fn this_machine_is_examined() {
    let report = examine(&DoctorOptions {
        root: "/".into(),
        driver: pelton_device::cuda::status(),
        cuda_library: None,
        warehouse: Some(std::env::temp_dir()),
        environment: Environment::of_process(),
    });
    assert!(report.is_usable(), "{}", report.to_text());
    println!("{}", report.to_text());
}
