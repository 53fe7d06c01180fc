//! What a command may take: memory, disk, time to start.

use std::time::Instant;

use crate::harness::{Place, csv, outcome, watched};

const MIB: u64 = 1 << 20;

#[test]
fn a_query_past_its_memory_limit_spills_or_names_the_knob() {
    let place = Place::new();
    let input = place.file("rows.csv", &csv(0, 300_000));
    place.ok(&["load", "--quiet", "--table", "t", &input]);
    let sorted =
        "SELECT count(*), sum(n) FROM (SELECT k, row_number() OVER (ORDER BY t, k) AS n FROM t) AS s";
    let limited = place.ok(&["sql", "--format", "csv", "--memory-limit", "96MiB", sorted]);
    assert_eq!(limited, place.ok(&["sql", "--format", "csv", sorted]));
    assert_eq!(place.temporary_files(), [""; 0]);
    let message =
        place.fails(&["sql", "--memory-limit", "100KB", "SELECT array_length(array_agg(t)) FROM t"]);
    assert!(message.contains("--memory-limit"), "{message}");
    assert_eq!(place.temporary_files(), [""; 0]);
}

#[test]
fn a_load_of_five_times_the_memory_limit_stays_within_it() {
    let place = Place::new();
    let input = place.file("rows.csv", &csv(0, 200_000));
    let limit = 32 * MIB;
    let raw_bytes = 200_000 * (8 + 8 + 8 + 20); // three numbers and about 20 bytes of text a row
    let files = vec![input.as_str(); (5 * limit).div_ceil(raw_bytes) as usize];
    let (status, idle) =
        watched(place.pelton().env_remove("PELTON_WAREHOUSE").args(["sql", "SELECT 1"]).spawn().unwrap());
    assert!(status.success());
    for sorted in [&[][..], &["--cluster-by", "g"]] {
        let mut command = place.pelton();
        command.args(["load", "--quiet", "--replace", "--table", "t", "--threads", "2"]);
        command.args(["--memory-limit", "32MiB", "--row-group-rows", "32768"]);
        let (status, peak) = watched(command.args(sorted).args(&files).spawn().unwrap());
        assert!(status.success());
        println!("{sorted:?}: peak {} MiB, limit {} MiB, idle {} MiB", peak / MIB, limit / MIB, idle / MIB);
        // Beside the rows, which the limit bounds, and the program itself: text being parsed and its blocks, codec
        // buffers of two threads, and pages that the allocator keeps for reuse. 34 to 50 MiB were measured.
        assert!(peak < limit + idle + 80 * MIB, "{sorted:?}: {} MiB", peak / MIB);
        let expected = (files.len() * 200_000).to_string();
        assert_eq!(place.rows("SELECT count(*) FROM t"), [expected]);
        let spilled = place.warehouse_files().into_iter().filter(|name| name.starts_with('.')).count();
        assert_eq!(spilled, 0, "scratch files were left");
    }
}

/// A shell that lets no file grow past `kib` KiB runs the load; a full disk shows in the same way.
fn load_with_file_limit(place: &Place, kib: u64, args: &str) -> (Option<i32>, String) {
    let script = format!("trap '' XFSZ; ulimit -f {kib}; exec \"$PELTON\" load --quiet --table t {args}");
    let mut shell = place.prepared("bash");
    shell.env("PELTON", env!("CARGO_BIN_EXE_pelton")).args(["-c", &script]);
    let run = outcome(shell.spawn().unwrap());
    (run.status, run.stderr)
}

#[test]
fn a_disk_without_room_is_explained_and_nothing_is_left() {
    let place = Place::new();
    place.file("small.csv", "k,g,x,t\n1,2,3.5,a\n");
    place.file("rows.csv", &csv(0, 200_000));
    place.ok(&["load", "--quiet", "--table", "t", &place.text_path("small.csv")]);
    let before = place.warehouse_files();
    for args in [
        "--replace rows.csv",
        "--append rows.csv",
        "--replace --memory-limit 1MiB rows.csv",
        "--replace --cluster-by g rows.csv",
    ] {
        let (status, message) = load_with_file_limit(&place, 300, args);
        assert_eq!(status, Some(1), "{args}: {message}");
        assert!(message.contains("disk is full") || message.contains("File too large"), "{args}: {message}");
        assert!(message.contains("warehouse"), "{args}: the file is not named: {message}");
        assert_eq!(place.warehouse_files(), before, "{args}");
        assert_eq!(place.rows("SELECT k FROM t"), ["1"]);
    }
}

#[test]
fn a_full_file_system_is_explained_and_nothing_is_left() {
    let place = Place::new();
    place.file("rows.csv", &csv(0, 200_000));
    let mount = place.text_path("small-disk");
    std::fs::create_dir(&mount).unwrap();
    // A mount in a namespace of its own goes with the process.
    let script = format!(
        "mount -t tmpfs -o size=1m tmpfs {mount} || exit 99; \
         \"$PELTON\" load --quiet --warehouse {mount}/w --table t rows.csv; status=$?; \
         find {mount}/w -mindepth 1 >&2; exit $status"
    );
    let mut unshare = place.prepared("unshare");
    unshare.env("PELTON", env!("CARGO_BIN_EXE_pelton")).args(["--mount", "bash", "-c", &script]);
    let Ok(child) = unshare.spawn() else {
        println!("note: there is no unshare here; a full file system is not tested");
        return;
    };
    let run = outcome(child);
    if run.status == Some(99) || run.stderr.contains("unshare failed") {
        println!("note: nothing may be mounted here; a full file system is not tested");
        return;
    }
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert!(run.stderr.contains("disk is full") && run.stderr.contains("are free"), "{}", run.stderr);
    assert_eq!(run.stderr.lines().count(), 1, "something is left: {}", run.stderr);
}

#[test]
fn a_query_from_a_cold_start_answers_at_once() {
    let place = Place::new();
    let mut times: Vec<(u128, u64)> = (0..5)
        .map(|_| {
            let start = Instant::now();
            let mut child =
                place.pelton().env_remove("PELTON_WAREHOUSE").args(["sql", "SELECT 1"]).spawn().unwrap();
            let cpu = cpu_ms_at_end(&mut child);
            let elapsed = start.elapsed().as_millis();
            assert_eq!(outcome(child).status, Some(0));
            (elapsed, cpu)
        })
        .collect();
    times.sort_unstable();
    let (elapsed, _) = times[2];
    times.sort_unstable_by_key(|(_, cpu)| *cpu);
    let (_, cpu) = times[2];
    println!("SELECT 1: {elapsed} ms elapsed, {cpu} ms of processor time");
    // Processor time does not grow with what else runs; elapsed time may, five times over.
    assert!(cpu <= 200, "{cpu} ms of processor time");
    assert!(elapsed < 5 * 200, "{elapsed} ms elapsed");
}

/// Waits until `child` has ended but not been waited for; gives its processor time.
fn cpu_ms_at_end(child: &mut std::process::Child) -> u64 {
    loop {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        let fields: Vec<&str> = text[text.rfind(')').unwrap() + 2..].split(' ').collect();
        if fields[0] == "Z" {
            let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
            return ticks * 10; // a tick is 10 ms wherever Linux counts a hundred a second
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}
