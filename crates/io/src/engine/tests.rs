//! Tests of the I/O engine.

use std::time::{Duration, Instant};

use pelton_error::ErrorKind;

use super::*;

/// A file whose bytes depend on their place.
struct Fixture {
    _dir: tempfile::TempDir,
    bytes: Vec<u8>,
    file: Arc<OpenFile>,
}

fn fixture(len: usize) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let bytes: Vec<u8> =
        (0..len as u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(&path, &bytes).unwrap();
    std::fs::File::open(&path).unwrap().sync_all().unwrap();
    let file = Arc::new(OpenFile::open(&path).unwrap());
    Fixture { _dir: dir, bytes, file }
}

fn all_ways() -> Vec<IoOptions> {
    let mut ways = Vec::new();
    for mode in [IoMode::Direct, IoMode::Buffered, IoMode::Auto] {
        for ring in [true, false] {
            for depth in [1, 32] {
                ways.push(IoOptions { mode, ring, depth, ..IoOptions::default() });
            }
        }
    }
    ways.push(IoOptions { bytes_per_s_max: Some(1 << 30), mode: IoMode::Buffered, ..IoOptions::default() });
    ways
}

const LEN: usize = (5 << 20) + (3 << 12);

#[test]
fn every_way_of_reading_gives_the_same_bytes() {
    let fixture = fixture(LEN);
    let ranges = [
        (0, 1),
        (0, LEN),
        (4096, 100),
        (8192, 3 << 20),
        (LEN - 4096, 4096),
        (LEN - 5, 5),
        (100, 10_000),
        (7, 0),
    ];
    for options in all_ways() {
        let engine = IoEngine::start(options.clone()).unwrap();
        let reads: Vec<ReadFuture> =
            ranges.iter().map(|&(at, len)| engine.read(&fixture.file, at as u64, len)).collect();
        for (read, &(at, len)) in reads.into_iter().zip(&ranges) {
            let bytes = read.wait_blocking().unwrap();
            assert!(bytes[..] == fixture.bytes[at..at + len], "{options:?} {at} {len}");
        }
    }
}

#[test]
fn counters_say_how_bytes_came() {
    let fixture = fixture(1 << 20);
    let counted = |mode| {
        let engine = IoEngine::start(IoOptions { mode, ..IoOptions::default() }).unwrap();
        engine.read(&fixture.file, 0, 1 << 20).wait_blocking().unwrap();
        (engine.counters(), engine.fallback())
    };
    let (direct, fallback) = counted(IoMode::Direct);
    if fallback.is_none_or(|reason| !reason.contains("O_DIRECT")) {
        assert_eq!((direct.direct_bytes, direct.buffered_bytes + direct.cached_bytes), (1 << 20, 0));
    }
    let (buffered, _) = counted(IoMode::Buffered);
    assert_eq!((buffered.direct_bytes, buffered.buffered_bytes + buffered.cached_bytes), (0, 1 << 20));
    assert_eq!(buffered.read_count, 1);
}

#[test]
fn automatic_mode_passes_the_page_cache_by_for_large_tables_only() {
    for (available, is_direct) in [(4 << 20, false), (1 << 20, true)] {
        let fixture = fixture(1 << 20);
        let engine =
            IoEngine::start(IoOptions { available_bytes: Some(available), ..IoOptions::default() }).unwrap();
        engine.read(&fixture.file, 0, 4096).wait_blocking().unwrap();
        if engine.fallback().is_none() {
            assert_eq!(engine.counters().direct_bytes > 0, is_direct);
        }
    }
}

#[test]
fn ring_switched_off_is_said() {
    let engine = IoEngine::start(IoOptions { ring: false, ..IoOptions::default() }).unwrap();
    assert!(!engine.uses_ring());
    assert!(engine.fallback().unwrap().contains("switched off"));
}

#[test]
fn dropped_futures_do_no_harm() {
    let fixture = fixture(LEN);
    for options in all_ways() {
        let engine = IoEngine::start(options).unwrap();
        for round in 0..50 {
            let kept = engine.read(&fixture.file, 0, LEN);
            drop(engine.read(&fixture.file, 4096, LEN / 2));
            if round % 10 == 0 {
                assert!(kept.wait_blocking().unwrap()[..] == fixture.bytes[..]);
            }
        }
    }
}

#[test]
fn reads_outlive_their_engine_as_errors_or_bytes() {
    let fixture = fixture(LEN);
    for options in all_ways() {
        let engine = IoEngine::start(options).unwrap();
        let reads: Vec<ReadFuture> = (0..20).map(|_| engine.read(&fixture.file, 0, LEN)).collect();
        drop(engine);
        for read in reads {
            match read.wait_blocking() {
                Ok(bytes) => assert!(bytes[..] == fixture.bytes[..]),
                Err(error) => assert_eq!(error.kind(), &ErrorKind::Cancelled),
            }
        }
    }
}

#[test]
fn reading_beyond_the_end_is_corrupt_and_names_the_file() {
    let fixture = fixture(10_000);
    for options in all_ways() {
        let engine = IoEngine::start(options).unwrap();
        for (at, len) in [(8192, 4096), (u64::MAX, 1), (10_001, 0)] {
            let error = engine.read(&fixture.file, at, len).wait_blocking().unwrap_err();
            assert_eq!(error.kind(), &ErrorKind::Corrupt);
            assert!(error.to_string().contains("data"), "{error}");
        }
    }
}

#[test]
fn a_file_truncated_while_open_is_corrupt() {
    for options in all_ways() {
        let fixture = fixture(LEN);
        std::fs::File::options().write(true).open(fixture.file.path()).unwrap().set_len(8192).unwrap();
        let engine = IoEngine::start(options.clone()).unwrap();
        let error = engine.read(&fixture.file, 0, LEN).wait_blocking().unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Corrupt, "{options:?}");
        let sizes = format!("has 8192 bytes and had {LEN} when it was opened; it was truncated");
        assert!(error.to_string().contains(&sizes), "{error}");
    }
}

#[test]
fn a_tally_counts_its_own_reads_and_the_engine_all() {
    let fixture = fixture(LEN);
    for options in all_ways() {
        let engine = IoEngine::start(options.clone()).unwrap();
        let tallies = [engine.tallied(), engine.tallied()];
        for (tally, reads) in tallies.iter().zip([1, 2]) {
            for _ in 0..reads {
                tally.read(&fixture.file, 0, LEN).wait_blocking().unwrap();
            }
        }
        let bytes = |of: &IoEngine| {
            let counted = of.counters();
            counted.direct_bytes + counted.buffered_bytes + counted.cached_bytes
        };
        let counted =
            [&tallies[0], &tallies[1], &engine].map(|of| (of.counters().read_count, bytes(of) >= LEN as u64));
        assert_eq!(counted, [(1, true), (2, true), (3, true)], "{options:?}");
        assert_eq!(bytes(&tallies[0]) + bytes(&tallies[1]), bytes(&engine), "{options:?}");
    }
}

#[test]
fn an_unlinked_file_is_read_on_in_every_way() {
    let fixture = fixture(LEN);
    std::fs::remove_file(fixture.file.path()).unwrap();
    for options in all_ways() {
        let engine = IoEngine::start(options).unwrap();
        assert!(engine.read(&fixture.file, 0, LEN).wait_blocking().unwrap()[..] == fixture.bytes[..]);
    }
}

#[test]
fn the_rate_asked_for_is_kept() {
    let fixture = fixture(LEN);
    for ring in [true, false] {
        let options = IoOptions { bytes_per_s_max: Some(50 << 20), ring, ..IoOptions::default() };
        let engine = IoEngine::start(options).unwrap();
        let start = Instant::now();
        engine.read(&fixture.file, 0, LEN).wait_blocking().unwrap();
        let expected = LEN as f64 / f64::from(50 << 20);
        assert!(start.elapsed() + Duration::from_millis(6) >= Duration::from_secs_f64(expected));
    }
}

#[test]
fn many_threads_share_one_engine() {
    let fixture = fixture(LEN);
    for ring in [true, false] {
        let options = IoOptions { mode: IoMode::Direct, ring, depth: 4, ..IoOptions::default() };
        let engine = IoEngine::start(options).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (engine, fixture) = (&engine, &fixture);
                scope.spawn(move || {
                    for index in 0..100 {
                        let at = (thread * 100 + index) % (LEN / 4096) * 4096;
                        let len = (LEN - at).min(20_000);
                        let bytes = engine.read(&fixture.file, at as u64, len).wait_blocking().unwrap();
                        assert!(bytes[..] == fixture.bytes[at..at + len]);
                    }
                });
            }
        });
    }
}
