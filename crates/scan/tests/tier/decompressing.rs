//! Decompression on the device: by nvCOMP where there is a GPU and nvCOMP, else on a logical device.

use std::path::PathBuf;
use std::sync::Arc;

use pelton_chunk::Codec;
use pelton_device::cuda::{self, CudaOptions};
use pelton_device::{DeviceKind, Machine};
use pelton_error::{CancelFlag, ErrorKind};
use pelton_fabric::Rates;
use pelton_scan::{
    ColumnCache, ColumnCacheOptions, DataTier, Decompress, Decompression, PrefetchOptions, Prefetcher,
};

use crate::fixture::{
    DEVICE, READABLE, Reader, all_row_groups, damage, engine, machine, options, run_all, run_and_check,
    stream, table,
};

const CODECS: [Codec; 4] = [Codec::Lz4, Codec::Snappy, Codec::Zstd, Codec::Deflate];

/// A GPU where it can decompress, else a logical device.
fn any_machine() -> Machine {
    match cuda::open(&CudaOptions::default()) {
        Ok(gpu) if cuda::nvcomp().is_ok() => gpu,
        _ => machine(64 << 20, 64 << 20),
    }
}

fn decompression(machine: &Machine, choice: Decompress) -> Decompression {
    let cache = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("programs");
    Decompression::open(choice, machine, &[DEVICE], Some(cache), &Rates::of_preset()).unwrap()
}

/// The column cache of a machine whose device decompresses codecs.
fn cache_of(machine: Machine) -> Arc<ColumnCache> {
    let decompression = decompression(&machine, Decompress::Device);
    let options = ColumnCacheOptions {
        device_cache_bytes: 32 << 20,
        threads: 3,
        extent_bytes: 40 << 10,
        decompression,
        ..ColumnCacheOptions::default()
    };
    Arc::new(ColumnCache::new(machine, engine(), options))
}

#[test]
fn chunks_decompressed_on_the_device_are_those_of_the_host() {
    for codec in Codec::ALL {
        for (row_group_rows, rows) in [(7, 100), (3000, 10_000), (20_000, 50_000)] {
            let place = table(codec, row_group_rows, rows);
            let cache = cache_of(any_machine());
            let report = run_all(&cache, &place.table, &READABLE);
            assert_eq!(report.device_codec_name.is_some(), codec != Codec::None, "{report:?}");
            assert_eq!(report.codec_bytes_before, 0, "{codec}: the host decompressed nothing");
            assert_eq!(report.device_codec_bytes_after > 0, codec != Codec::None, "{codec}");
        }
    }
}

#[test]
fn other_tiers_of_columns_go_along() {
    let place = table(Codec::Zstd, 3000, 10_000);
    let cache = cache_of(any_machine());
    let cancel = CancelFlag::new();
    cache.pin(&place.table, Some(&[1, 4, 7]), &cancel).unwrap();
    for column in [2, 5, 8] {
        assert!(cache.admit(&place.table, column, DEVICE, &stream(&cache), &cancel).unwrap());
    }
    assert!(cache.admit(&place.table, 6, DEVICE, &stream(&cache), &cancel).unwrap());
    assert_eq!(cache.widths(&place.table, 6).unwrap(), [3].into(), "five texts take 3 bits");
    let report = run_all(&cache, &place.table, &READABLE);
    assert!(report.device_codec_bytes_after > 0 && report.device_bytes > 0, "{report:?}");
}

#[test]
fn compressed_bytes_cross_the_link_and_both_sizes_are_counted() {
    for codec in CODECS {
        let place = table(codec, 3000, 9000);
        let stored: u64 = (0..6).map(|row_group| place.table.chunk(row_group, 5).unwrap().stored_bytes).sum();
        let report = run_all(&cache_of(any_machine()), &place.table, &[5]);
        assert_eq!((report.disk_bytes, report.device_codec_bytes_before), (stored, stored));
        let chunk = (64 + 3 * 48_usize).next_multiple_of(128) + 2048 * 2 + (3000 - 2048) * 2;
        assert_eq!(report.device_codec_bytes_after, 6 * chunk as u64);
        assert!(report.moved_bytes < report.device_codec_bytes_after, "{codec}: {report:?}");
        assert!(report.device_codec_time.as_nanos() > 0);
    }
}

#[test]
fn one_buffer_is_enough_and_row_groups_may_be_ruled_out_late() {
    let place = table(Codec::Snappy, 100, 2000);
    let all = all_row_groups(&place.table);
    for buffers in [1, 2, 4] {
        let options = PrefetchOptions { staging_buffers: buffers, reads_ahead: buffers + 1, ..options() };
        let cache = cache_of(any_machine());
        let mut asked = 0;
        let (came, report) = run_and_check(&cache, &place.table, &READABLE, &all, options, |row_group| {
            asked += 1;
            asked > 7 && row_group % 2 == 0
        })
        .unwrap();
        assert_eq!(report.staging_buffers, buffers);
        assert!(came.is_sorted());
        assert_eq!(came.len() + report.row_groups_dropped as usize, all.len());
        assert!(report.row_groups_dropped as usize >= all.len() / 2 - 8, "{report:?}");
    }
}

#[test]
fn a_damaged_chunk_never_comes_to_a_decoder() {
    for codec in CODECS {
        let place = table(codec, 1000, 3000);
        damage(&place.table, 4, 0);
        let cache = cache_of(any_machine());
        let row_groups = all_row_groups(&place.table);
        let error =
            run_and_check(&cache, &place.table, &[1, 0], &row_groups, options(), |_| false).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Corrupt);
        assert!(error.to_string().contains("table 't', row group 4, column 'id'"), "{error}");
        run_and_check(&cache, &place.table, &[1, 0], &[0, 1, 2, 3, 5], options(), |_| false).unwrap();
    }
}

#[test]
fn a_feed_that_is_given_up_leaves_nothing_behind() {
    let place = table(Codec::Lz4, 100, 2000);
    let cache = cache_of(machine(64 << 20, 64 << 20));
    let cancel = CancelFlag::new();
    let row_groups = all_row_groups(&place.table);
    let mut prefetcher =
        Prefetcher::new(&cache, DEVICE, &place.table, &READABLE, &row_groups, options(), cancel.clone())
            .unwrap();
    let mut reader = Reader::new(&cache);
    let morsel = prefetcher.next(0, &reader.copying, &mut |_| false).unwrap().unwrap();
    let done = reader.read(morsel);
    prefetcher.release(0, done);
    cancel.cancel();
    // What was brought ahead may still be given out.
    let ended = (1..10).find_map(|turn| match prefetcher.next(turn % 3, &reader.copying, &mut |_| false) {
        Err(error) => Some(error),
        Ok(morsel) => {
            let done = reader.read(morsel.expect("there are more row groups than buffers"));
            prefetcher.release(turn % 3, done);
            None
        }
    });
    assert_eq!(ended.unwrap().kind(), &ErrorKind::Cancelled);
    drop(prefetcher);
    drop(reader);
    assert_eq!(cache.machine().device_budget(DEVICE).unwrap().used_bytes(), 0);
    assert_eq!(cache.machine().pinned_budget().used_bytes(), 0);
}

#[test]
fn without_memory_for_both_forms_the_host_decompresses_and_says_why() {
    let place = table(Codec::Lz4, 3000, 9000);
    let row_groups = all_row_groups(&place.table);
    let run = |device_bytes: u64| {
        let cache = cache_of(machine(device_bytes, 64 << 20));
        let options =
            PrefetchOptions { morsel_bytes: 1, row_groups_max: 1, staging_buffers: 1, reads_ahead: 2 };
        run_and_check(&cache, &place.table, &[5], &row_groups, options, |_| false).map(|(_, report)| report)
    };
    let report = run(64 << 20).unwrap();
    let needed = report.buffer_device_bytes as u64;
    assert_eq!((report.codec_bytes_before, report.codec_reason), (0, None));
    let report = run(needed - 128).unwrap();
    assert_eq!(report.device_codec_bytes_before, 0);
    assert!(report.codec_bytes_before > 0);
    let reason = report.codec_reason.unwrap();
    assert!(reason.contains("compressed chunks want more memory"), "{reason}");
}

#[test]
fn the_host_is_left_to_itself_unless_the_device_is_asked_for() {
    let place = table(Codec::Zstd, 3000, 9000);
    let logical = machine(64 << 20, 64 << 20);
    for (choice, expected) in
        [(Decompress::Auto, "the device is the host"), (Decompress::Host, "as was asked for")]
    {
        let decompression = decompression(&logical, choice);
        let options = ColumnCacheOptions { decompression, ..ColumnCacheOptions::default() };
        let cache = Arc::new(ColumnCache::new(logical.clone(), engine(), options));
        let report = run_all(&cache, &place.table, &READABLE);
        assert_eq!(report.device_codec_name, None);
        assert_eq!(report.codec_reason.as_deref(), Some(expected));
    }
}

#[test]
fn on_a_gpu_little_is_left_to_the_host_and_what_is_missing_is_named() {
    let gpu = match cuda::open(&CudaOptions::default()) {
        Ok(gpu) => gpu,
        Err(error) => return println!("SKIPPED: {error}"),
    };
    assert!(matches!(gpu.device(DEVICE).unwrap().kind, DeviceKind::Cuda { .. }));
    let place = table(Codec::Zstd, 3000, 9000);
    let options = ColumnCacheOptions {
        decompression: decompression(&gpu, Decompress::Auto),
        ..ColumnCacheOptions::default()
    };
    let cache = Arc::new(ColumnCache::new(gpu.clone(), engine(), options));
    assert_eq!(cache.tier(&place.table, 5, DEVICE), DataTier::Disk);
    let reason = run_all(&cache, &place.table, &READABLE).codec_reason.unwrap();
    match cuda::nvcomp() {
        Ok(_) => assert!(reason.contains("predicted"), "{reason}"),
        Err(_) => {
            assert!(reason.contains("pip install nvidia-libnvcomp-cu13"), "{reason}");
            assert!(
                Decompression::open(Decompress::Device, &gpu, &[DEVICE], None, &Rates::of_preset()).is_err()
            );
        }
    }
}
