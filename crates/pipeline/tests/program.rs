//! Programs from source to result: compiled, kept, found again, damaged, refused; the same on the host and on a GPU.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Barrier};

use pelton_device::cuda::{self, CudaOptions, Grid};
use pelton_device::host::{self, HostOptions};
use pelton_device::libraries::NVRTC_VARIABLE;
use pelton_device::{Buffer, DeviceId, DeviceKind, Machine, MemoryKind, OnFull, Place};
use pelton_error::ErrorKind;
use pelton_pipeline::{Compiler, Effort, Launch, Origin, Program, Target, compile_for_check, nvrtc_status};

/// `mix(words: p, n, add, sum)`: each of the n words at p becomes a hash of its position plus `add`; what the words
/// sum to is added at `sum`. One source for both targets.
const SOURCE: &str = r#"
typedef unsigned long long u64;
#ifdef PELTON_HOST
#define ENTRY(name) extern "C" void name(const u64* w, unsigned first, unsigned step)
#define ADD(target, value) __atomic_fetch_add(target, value, __ATOMIC_RELAXED)
#define FIRST first
#define STEP step
#else
struct PeltonArgs { u64 w[4]; };
#define ENTRY(name) extern "C" __global__ void name(PeltonArgs args)
#define ADD(target, value) atomicAdd(target, value)
#define FIRST (u64(blockIdx.x) * blockDim.x + threadIdx.x)
#define STEP (u64(gridDim.x) * blockDim.x)
#define w args.w
#endif
ENTRY(mix) {
    u64* p = (u64*)w[0];
    u64 sum = 0;
    for (u64 i = FIRST; i < w[1]; i += STEP) {
        __int128 wide = (__int128)(i + 1) * 0x9E3779B97F4A7C15ull;
        p[i] = (u64)(wide >> 32) + w[2];
        sum += p[i];
    }
    ADD((u64*)w[3], sum);
}
"#;

const COUNT: u64 = 10_007;
const ADD: u64 = 42;

/// What `mix` leaves: the words, then their sum.
fn expected() -> Vec<u64> {
    let word = |i: u64| ((u128::from(i + 1) * 0x9E37_79B9_7F4A_7C15) >> 32) as u64;
    let mut words: Vec<u64> = (0..COUNT).map(|i| word(i).wrapping_add(ADD)).collect();
    words.push(words.iter().fold(0, |sum, word| sum.wrapping_add(*word)));
    words
}

/// Runs `mix` at `place` over memory that is first set to zeros, and returns what it left.
fn run(machine: &Machine, place: Place, program: &Arc<Program>, workers: u32) -> Vec<u64> {
    let bytes = (COUNT as usize + 1) * 8;
    let staging = machine.allocate(MemoryKind::PINNED, bytes, OnFull::Refuse).unwrap();
    staging.with_bytes_mut(|bytes| bytes.fill(0)).unwrap();
    let memory = match place {
        Place::Device(device) => machine.allocate(MemoryKind::Device(device), bytes, OnFull::Refuse).unwrap(),
        Place::Host(_) => staging.clone(),
    };
    let launch = Launch { grid: Grid { blocks: 7, threads: 64, shared_bytes: 0 }, workers };
    let arguments = vec![memory.address(), COUNT, ADD, memory.address() + COUNT * 8];
    let work = program.work("mix", "mix", arguments, launch, vec![], vec![memory.span()]).unwrap();
    let stream = machine.stream(place).unwrap();
    if matches!(place, Place::Device(_)) {
        stream.copy(&staging.span(), &memory.span()).unwrap();
    }
    stream.run(work).unwrap();
    if matches!(place, Place::Device(_)) {
        stream.copy(&memory.span(), &staging.span()).unwrap();
    }
    stream.wait_blocking().unwrap();
    words(&staging)
}

fn words(buffer: &Buffer) -> Vec<u64> {
    let word = |chunk: &[u8]| u64::from_le_bytes(chunk.try_into().unwrap());
    buffer.with_bytes(|bytes| bytes.chunks_exact(8).map(word).collect()).unwrap()
}

fn host_machine() -> Machine {
    host::open(&HostOptions::default())
}

fn compiler(folder: &Path) -> Compiler {
    Compiler::new(Some(folder.to_path_buf()))
}

fn origin(compiler: &Compiler, source: &str) -> Origin {
    compiler.compile(source, Target::Host, Effort::Full).unwrap().1.origin
}

/// The compiled programs in a folder.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.extension().is_some_and(|extension| extension == "program")).collect()
}

#[test]
fn a_host_program_gives_the_same_with_one_worker_and_with_several() {
    let folder = tempfile::tempdir().unwrap();
    let (program, _) = compiler(folder.path()).compile(SOURCE, Target::Host, Effort::Full).unwrap();
    let machine = host_machine();
    for place in [Place::HOST, Place::Device(DeviceId(0))] {
        for workers in [1, 2, 5] {
            assert_eq!(run(&machine, place, &program, workers), expected(), "{place}, {workers} workers");
        }
    }
}

#[test]
fn work_keeps_its_program_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let machine = host_machine();
    let memory = machine.allocate(MemoryKind::PINNED, (COUNT as usize + 1) * 8, OnFull::Refuse).unwrap();
    memory.with_bytes_mut(|bytes| bytes.fill(0)).unwrap();
    let work = {
        let (program, _) = compiler(folder.path()).compile(SOURCE, Target::Host, Effort::Full).unwrap();
        let launch = Launch { grid: Grid { blocks: 1, threads: 1, shared_bytes: 0 }, workers: 2 };
        let arguments = vec![memory.address(), COUNT, ADD, memory.address() + COUNT * 8];
        program.work("mix", "mix", arguments, launch, vec![], vec![memory.span()]).unwrap()
    };
    let stream = machine.stream(Place::HOST).unwrap();
    stream.run(work).unwrap();
    stream.wait_blocking().unwrap();
    assert_eq!(words(&memory), expected());
}

#[test]
fn a_program_is_compiled_once_then_found_in_memory_and_by_another_compiler_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let first = compiler(folder.path());
    assert_eq!(origin(&first, SOURCE), Origin::Compiled);
    assert_eq!(origin(&first, SOURCE), Origin::Memory);
    let second = compiler(folder.path());
    let (program, report) = second.compile(SOURCE, Target::Host, Effort::Full).unwrap();
    assert_eq!(report.origin, Origin::Disk);
    assert_eq!(run(&host_machine(), Place::HOST, &program, 3), expected());
    assert_eq!(origin(&second, SOURCE), Origin::Memory);
    assert_eq!(origin(&second, &format!("{SOURCE}\n")), Origin::Compiled, "another source");
    assert_eq!(entries(folder.path()).len(), 2);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left beside them");
}

#[test]
fn a_damaged_file_is_compiled_again_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(origin(&compiler(folder.path()), SOURCE), Origin::Compiled);
    let path = entries(folder.path()).remove(0);
    let whole = std::fs::read(&path).unwrap();
    for damage in
        [whole[..whole.len() / 2].to_vec(), vec![], [&whole[..100], &[0; 100], &whole[200..]].concat()]
    {
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, damage).unwrap();
        let (program, report) = compiler(folder.path()).compile(SOURCE, Target::Host, Effort::Full).unwrap();
        assert_eq!(report.origin, Origin::Compiled);
        assert_eq!(run(&host_machine(), Place::HOST, &program, 1), expected());
        assert_eq!(origin(&compiler(folder.path()), SOURCE), Origin::Disk);
    }
}

#[test]
fn without_a_folder_of_its_own_programs_are_compiled_and_kept_in_memory() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let open = folder.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, PermissionsExt::from_mode(0o777)).unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    for unfit in [open.clone(), folder.path().join("file/below")] {
        for _ in 0..2 {
            let compiler = compiler(&unfit);
            let (program, report) = compiler.compile(SOURCE, Target::Host, Effort::Full).unwrap();
            assert_eq!(report.origin, Origin::Compiled, "{}", unfit.display());
            assert_eq!(origin(&compiler, SOURCE), Origin::Memory);
            assert_eq!(run(&host_machine(), Place::HOST, &program, 2), expected());
        }
    }
    assert_eq!(
        std::fs::read_dir(&open).unwrap().count(),
        0,
        "others may write there, so nothing is put there"
    );
}

#[test]
fn a_folder_that_goes_while_a_compiler_uses_it_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().join("below");
    let compiler = compiler(&below);
    assert_eq!(origin(&compiler, SOURCE), Origin::Compiled);
    std::fs::remove_dir_all(&below).unwrap();
    assert_eq!(origin(&compiler, &format!("{SOURCE}\n")), Origin::Compiled);
}

#[test]
fn a_source_that_does_not_compile_is_refused_with_the_log_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let compiler = compiler(folder.path());
    let source = "extern \"C\" void broken() { undeclared_thing = 1; }";
    let error = compiler.compile(source, Target::Host, Effort::Full).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Unsupported);
    let message = error.to_string();
    assert!(message.contains("undeclared_thing") && message.contains("its log"), "{message}");
    let kept = message.split("its source is ").nth(1).unwrap().split(':').next().unwrap();
    assert_eq!(std::fs::read_to_string(kept).unwrap(), source);
    assert!(entries(folder.path()).is_empty());
    assert!(
        compiler.compile(source, Target::Host, Effort::Full).is_err(),
        "a failure is not taken for a program"
    );
}

#[test]
fn an_entry_that_the_program_lacks_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let (program, _) = compiler(folder.path()).compile(SOURCE, Target::Host, Effort::Full).unwrap();
    let launch = Launch { grid: Grid { blocks: 1, threads: 1, shared_bytes: 0 }, workers: 1 };
    let error = program.work("mix", "mixed", vec![0], launch, vec![], vec![]).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::InvalidInput);
    assert!(error.to_string().contains("'mixed'"), "{error}");
}

#[test]
fn threads_that_ask_for_one_source_at_once_compile_it_once() {
    let folder = tempfile::tempdir().unwrap();
    let compiler = compiler(folder.path());
    let start = Barrier::new(4);
    let ask = || {
        start.wait();
        compiler.compile(SOURCE, Target::Host, Effort::Full).unwrap()
    };
    let answers: Vec<(Arc<Program>, Origin)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .map(|(program, report)| (program, report.origin))
            .collect()
    });
    let count = |origin| answers.iter().filter(|answer| answer.1 == origin).count();
    assert_eq!((count(Origin::Compiled), count(Origin::Memory)), (1, 3));
    assert!(answers.iter().all(|answer| Arc::ptr_eq(&answer.0, &answers[0].0)));
}

#[test]
fn compilers_that_share_a_folder_do_not_disturb_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let start = Barrier::new(3);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                start.wait();
                let (program, _) =
                    compiler(folder.path()).compile(SOURCE, Target::Host, Effort::Full).unwrap();
                assert_eq!(run(&host_machine(), Place::HOST, &program, 2), expected());
            });
        }
    });
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// NVRTC's wheel in this checkout, where `make cuda` puts it.
fn wheel() -> Option<PathBuf> {
    let libraries =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/cuda-venv/lib").canonicalize().ok()?;
    let pythons = std::fs::read_dir(libraries).ok()?.flatten();
    let mut files = pythons.map(|python| python.path().join("site-packages/nvidia/cu13/lib/libnvrtc.so.13"));
    files.find(|path| path.is_file())
}

/// True if this process finds NVRTC. Where it does not but the checkout has one, the test called `name` is run by a
/// process that is told so, and here there is nothing left to do.
fn has_nvrtc(name: &str) -> bool {
    let Err(error) = nvrtc_status() else { return true };
    match wheel() {
        Some(path) if std::env::var_os(NVRTC_VARIABLE).is_none() => {
            let mut child = Command::new(std::env::current_exe().unwrap());
            child.env(NVRTC_VARIABLE, path).args(["--exact", name, "--nocapture"]);
            assert!(child.status().unwrap().success(), "in a process of its own");
        }
        _ => println!("SKIPPED: {error}"),
    }
    false
}

#[test]
fn nvrtc_makes_machine_code_of_the_source_without_a_gpu() {
    if !has_nvrtc("nvrtc_makes_machine_code_of_the_source_without_a_gpu") {
        return;
    }
    println!("{}", nvrtc_status().unwrap());
    for effort in [Effort::Quick, Effort::Full] {
        assert!(compile_for_check(SOURCE, 9, 0, effort).unwrap().starts_with(b"\x7fELF"));
    }
    let newer = compile_for_check(SOURCE, 99, 0, Effort::Full).unwrap();
    assert!(newer.ends_with(b"\0") && newer.windows(7).any(|part| part == b".target"), "not PTX");
    let error = compile_for_check("__global__ void broken() { undeclared_thing = 1; }", 9, 0, Effort::Quick)
        .unwrap_err();
    assert!(error.to_string().contains("undeclared_thing"), "{error}");
}

#[test]
fn a_program_for_a_gpu_that_is_not_there_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::Cuda { device: DeviceId(999), major: 9, minor: 0 };
    let error = compiler(folder.path()).compile(SOURCE, target, Effort::Full).unwrap_err().to_string();
    assert!(error.contains("NVRTC") || error.contains("driver") || error.contains("device 999"), "{error}");
}

#[test]
fn a_gpu_gives_what_the_host_gives() {
    let machine = match cuda::open(&CudaOptions::default()) {
        Ok(machine) => machine,
        Err(error) => return println!("SKIPPED: {error}"),
    };
    if !has_nvrtc("a_gpu_gives_what_the_host_gives") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for device in &machine.info().devices {
        let DeviceKind::Cuda { major, minor } = device.kind else { panic!("{device:?} behind the driver") };
        let target = Target::Cuda { device: device.id, major, minor };
        let first = compiler(folder.path());
        for (compiler, expected_origin) in
            [(&first, Origin::Compiled), (&first, Origin::Memory), (&compiler(folder.path()), Origin::Disk)]
        {
            let (program, report) = compiler.compile(SOURCE, target, Effort::Full).unwrap();
            println!("{}: {report:?}", device.name);
            assert!(report.origin == expected_origin || device.id != DeviceId(0), "{report:?}");
            assert_eq!(run(&machine, Place::Device(device.id), &program, 1), expected());
            let launch = Launch { grid: Grid { blocks: 1, threads: 1, shared_bytes: 0 }, workers: 1 };
            assert!(program.work("mix", "mixed", vec![0], launch, vec![], vec![]).is_err());
        }
        let quick = SOURCE.replace("u64", "u_64");
        for (effort, origin) in [(Effort::Quick, Origin::Compiled), (Effort::Full, Origin::Disk)] {
            let (program, report) = compiler(folder.path()).compile(&quick, target, effort).unwrap();
            assert!(report.origin == origin || device.id != DeviceId(0), "{report:?}");
            assert_eq!(run(&machine, Place::Device(device.id), &program, 1), expected());
        }
        if (major, minor) == (9, 0) {
            // Of what it does not know, such as 9.1, NVRTC makes intermediate code of what came before.
            let unknown = Target::Cuda { device: device.id, major, minor: 1 };
            let (program, report) = first.compile(SOURCE, unknown, Effort::Full).unwrap();
            println!("{}: as intermediate code: {report:?}", device.name);
            assert_eq!(run(&machine, Place::Device(device.id), &program, 1), expected());
        }
    }
}
