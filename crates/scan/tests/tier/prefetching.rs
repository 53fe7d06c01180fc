//! Prefetching scans from every tier.

use std::sync::Arc;

use pelton_chunk::{Codec, Column, Encoding, Values};
use pelton_device::cuda::{self, CudaOptions};
use pelton_device::{DeviceId, host};
use pelton_device::{MemoryKind, OnFull};
use pelton_error::{CancelFlag, ErrorKind};
use pelton_scan::{ColumnCache, ColumnCacheOptions, DataTier, PrefetchOptions, Prefetcher};
use pelton_store::{ColumnSchema, LogicalType, Table, TableSchema};
use pelton_transfer::{HelperLink, Links};

use crate::fixture::{
    COMMENT, DEVICE, READABLE, Reader, all_row_groups, cache, cache_of, damage, machine, options, place,
    run_all, run_and_check, stream, table,
};

/// Which columns are brought nearer than disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mix {
    Disk,
    Pinned,
    Device,
    /// One after the other: disk, pinned, device.
    All,
}

fn settle(cache: &Arc<ColumnCache>, table: &Arc<Table>, mix: Mix) {
    let cancel = CancelFlag::new();
    for column in READABLE {
        let tier = match mix {
            Mix::All => [Mix::Disk, Mix::Pinned, Mix::Device][column % 3],
            mix => mix,
        };
        match tier {
            Mix::Pinned => assert!(cache.pin(table, Some(&[column]), &cancel).unwrap().bytes > 0),
            Mix::Device => {
                assert!(cache.admit(table, column, DEVICE, &stream(cache), &cancel).unwrap())
            }
            _ => {}
        }
        let expected = match tier {
            Mix::Pinned => DataTier::Pinned,
            Mix::Device => DataTier::Device(DEVICE),
            _ => DataTier::Disk,
        };
        assert_eq!(cache.tier(table, column, DEVICE), expected);
    }
}

#[test]
fn every_tier_and_every_mix_gives_the_values_of_the_table() {
    for codec in Codec::ALL {
        for (row_group_rows, rows) in [(7, 100), (3000, 10_000)] {
            let place = table(codec, row_group_rows, rows);
            for mix in [Mix::Disk, Mix::Pinned, Mix::Device, Mix::All] {
                let cache = cache();
                settle(&cache, &place.table, mix);
                let report = run_all(&cache, &place.table, &READABLE);
                assert_eq!(report.disk_bytes > 0, matches!(mix, Mix::Disk | Mix::All), "{codec} {mix:?}");
                assert_eq!(report.pinned_bytes > 0, matches!(mix, Mix::Pinned | Mix::All), "{codec} {mix:?}");
                assert_eq!(report.device_bytes > 0, matches!(mix, Mix::Device | Mix::All), "{codec} {mix:?}");
                assert_eq!(report.moved_bytes > 0, mix != Mix::Device, "{codec} {mix:?}");
            }
        }
    }
}

#[test]
fn a_gpu_gets_what_logical_devices_get() {
    let machine = match cuda::open(&CudaOptions::default()) {
        Ok(machine) => machine,
        Err(error) => return println!("SKIPPED: {error}"),
    };
    let place = table(Codec::Lz4, 3000, 100_000);
    for mix in [Mix::Disk, Mix::Pinned, Mix::Device, Mix::All] {
        let cache = cache_of(machine.clone(), 1 << 30);
        settle(&cache, &place.table, mix);
        run_all(&cache, &place.table, &READABLE);
    }
}

#[test]
fn what_was_pinned_is_admitted_as_it_is() {
    let place = table(Codec::Zstd, 3000, 10_000);
    let cache = cache();
    let cancel = CancelFlag::new();
    cache.pin(&place.table, None, &cancel).unwrap();
    for column in READABLE {
        assert!(cache.admit(&place.table, column, DEVICE, &stream(&cache), &cancel).unwrap());
    }
    cache.unpin(place.table.id());
    assert_eq!(cache.machine().pinned_budget().used_bytes(), 0);
    assert_eq!(run_all(&cache, &place.table, &READABLE).moved_bytes, 0);
}

#[test]
fn the_report_counts_what_was_moved_read_and_decompressed() {
    let place = table(Codec::Lz4, 3000, 9000);
    let stored: u64 = (0..6).map(|row_group| place.table.chunk(row_group, 5).unwrap().stored_bytes).sum();
    let report = run_all(&cache(), &place.table, &[5]);
    assert_eq!(report.disk_bytes, stored);
    assert_eq!(report.codec_bytes_before, stored);
    // Plain values of 2 bytes, a header and three page entries, all in whole cache lines.
    let chunk = (64 + 3 * 48_usize).next_multiple_of(128) + 2048 * 2 + (3000 - 2048) * 2;
    assert_eq!(report.codec_bytes_after, 6 * chunk as u64);
    assert_eq!(report.moved_bytes, 6 * chunk.next_multiple_of(128) as u64);
    assert!(report.codec_time.as_nanos() > 0);
    assert_eq!((report.staging_buffers, report.row_groups), (3, 6));
    assert!(report.morsels >= 2, "{report:?}");
}

#[test]
fn row_groups_left_out_beforehand_do_not_come() {
    let place = table(Codec::None, 100, 2000);
    let row_groups: Vec<u32> =
        all_row_groups(&place.table).into_iter().filter(|row_group| row_group % 3 != 1).collect();
    for mix in [Mix::Disk, Mix::Pinned, Mix::Device, Mix::All] {
        let cache = cache();
        settle(&cache, &place.table, mix);
        let (came, _) =
            run_and_check(&cache, &place.table, &READABLE, &row_groups, options(), |_| false).unwrap();
        assert_eq!(came, row_groups);
    }
}

#[test]
fn small_gaps_between_pinned_row_groups_are_copied_along() {
    let place = table(Codec::None, 100, 2000);
    let cache = cache();
    settle(&cache, &place.table, Mix::Pinned);
    let chunks = |row_groups: &[u32]| {
        let moved = |row_group: &u32| place.table.chunk(*row_group as usize, 5).unwrap().stored_bytes;
        row_groups.iter().map(|row_group| moved(row_group).next_multiple_of(128)).sum::<u64>()
    };
    let options =
        PrefetchOptions { morsel_bytes: 1 << 20, row_groups_max: 100, staging_buffers: 1, reads_ahead: 2 };
    let (came, report) = run_and_check(&cache, &place.table, &[5], &[2, 4, 5], options, |_| false).unwrap();
    assert_eq!(came, [2, 4, 5]);
    assert_eq!((report.morsels, report.moved_bytes), (1, chunks(&[2, 3, 4, 5])));
}

#[test]
fn a_row_group_ruled_out_late_is_neither_moved_nor_given() {
    let place = table(Codec::Snappy, 100, 2000);
    let all = all_row_groups(&place.table);
    for mix in [Mix::Disk, Mix::Pinned, Mix::Device, Mix::All] {
        let cache = cache();
        settle(&cache, &place.table, mix);
        let mut asked = 0;
        let (came, report) = run_and_check(&cache, &place.table, &READABLE, &all, options(), |row_group| {
            asked += 1;
            asked > 7 && row_group % 2 == 0
        })
        .unwrap();
        assert!(came.is_sorted());
        assert!(all.iter().filter(|row_group| *row_group % 2 == 1).all(|row_group| came.contains(row_group)));
        assert_eq!(came.len() + report.row_groups_dropped as usize, all.len(), "{mix:?}");
        assert!(report.row_groups_dropped as usize >= all.len() / 2 - 8, "{mix:?} {report:?}");
    }
}

#[test]
fn row_groups_read_ahead_are_asked_about_again() {
    let place = table(Codec::None, 100, 2000);
    let cache = cache();
    let row_groups = all_row_groups(&place.table);
    let options =
        PrefetchOptions { morsel_bytes: 64 << 10, row_groups_max: 1, staging_buffers: 2, reads_ahead: 3 };
    let first_ask = std::cell::Cell::new(true);
    let mut seen = vec![0; row_groups.len()];
    let (came, report) = run_and_check(&cache, &place.table, &READABLE, &row_groups, options, |row_group| {
        seen[row_group as usize] += 1;
        // Everything is wanted while the first morsel is put together, nothing after that.
        !(first_ask.get() && {
            first_ask.set(row_group < 3);
            true
        })
    })
    .unwrap();
    assert_eq!(came[0], 0);
    assert!(came.len() < 3, "{came:?}");
    assert!(seen[1] == 2, "read with the first morsel, asked about again: {seen:?}");
    assert_eq!(report.row_groups_dropped as usize, row_groups.len() - came.len());
}

#[test]
fn nothing_to_feed_ends_at_once_and_no_columns_move_nothing() {
    let place = table(Codec::None, 100, 2000);
    let cache = cache();
    let (came, report) = run_and_check(&cache, &place.table, &READABLE, &[], options(), |_| false).unwrap();
    assert_eq!((came.len(), report.morsels), (0, 0));
    let report = run_all(&cache, &place.table, &[]);
    assert_eq!((report.moved_bytes, report.row_groups), (0, 40));
    assert_eq!(report.morsels, 8, "five row groups each");
}

#[test]
fn text_without_dictionary_comes_without_its_codec_from_every_tier() {
    for codec in [Codec::None, Codec::Lz4, Codec::Zstd] {
        let place = table(codec, 3000, 7000);
        let row_groups = all_row_groups(&place.table);
        let columns = [0, COMMENT];
        let cache = cache();
        let check = |tier| {
            assert_eq!(cache.tier(&place.table, COMMENT, DEVICE), tier);
            run_and_check(&cache, &place.table, &columns, &row_groups, options(), |_| false).unwrap();
        };
        check(DataTier::Disk);
        cache.pin(&place.table, Some(&columns), &CancelFlag::new()).unwrap();
        check(DataTier::Pinned);
        let stream = stream(&cache);
        assert!(cache.admit(&place.table, COMMENT, DEVICE, &stream, &CancelFlag::new()).unwrap());
        check(DataTier::Device(DEVICE));
    }
}

#[test]
fn a_row_group_larger_than_a_morsel_is_a_morsel_of_its_own() {
    let place = table(Codec::Lz4, 5000, 10_000);
    let small = PrefetchOptions { morsel_bytes: 1000, ..options() };
    let row_groups = all_row_groups(&place.table);
    let (came, report) =
        run_and_check(&cache(), &place.table, &[COMMENT], &row_groups, small, |_| false).unwrap();
    assert_eq!((came.len(), report.morsels), (4, 4));
}

#[test]
fn under_tight_limits_buffers_get_fewer_then_smaller_until_one_row_group_does_not_fit() {
    let place = table(Codec::None, 1000, 20_000);
    let row_groups = all_row_groups(&place.table);
    let largest = |row_group: u32| {
        let bytes = |column: usize| place.table.chunk(row_group as usize, column).unwrap().stored_bytes;
        [0, 1].map(bytes).iter().map(|bytes| bytes.next_multiple_of(128)).sum::<u64>()
    };
    let row_group_bytes = row_groups.iter().map(|row_group| largest(*row_group)).max().unwrap();
    let options = PrefetchOptions {
        morsel_bytes: 8 * row_group_bytes as usize,
        row_groups_max: 100,
        staging_buffers: 4,
        reads_ahead: 5,
    };
    let run = |device_bytes: u64, pinned_bytes: u64| {
        let cache = cache_of(machine(device_bytes, pinned_bytes), 0);
        run_and_check(&cache, &place.table, &[0, 1], &row_groups, options, |_| false).map(|(came, report)| {
            assert_eq!(came, row_groups);
            assert!(cache.machine().device_budget(DEVICE).unwrap().peak_bytes() <= device_bytes);
            (report.staging_buffers, report.buffer_device_bytes as u64 / row_group_bytes)
        })
    };
    let plenty = 64 << 20;
    assert_eq!(run(plenty, plenty).unwrap(), (4, 8));
    assert_eq!(run(3 * 8 * row_group_bytes, plenty).unwrap(), (3, 8));
    assert_eq!(run(plenty, 2 * 8 * row_group_bytes).unwrap(), (2, 8));
    assert_eq!(run(8 * row_group_bytes, plenty).unwrap(), (2, 4));
    assert_eq!(run(3 * row_group_bytes, plenty).unwrap(), (3, 1));
    assert_eq!(run(row_group_bytes, plenty).unwrap(), (1, 1));
    for (device_bytes, pinned_bytes) in [(row_group_bytes - 1, plenty), (plenty, row_group_bytes - 1)] {
        let error = run(device_bytes, pinned_bytes).unwrap_err();
        let ErrorKind::OutOfMemory { requested_bytes, .. } = error.kind() else { panic!("{error}") };
        assert_eq!(*requested_bytes, row_group_bytes);
        let text = error.to_string();
        assert!(text.contains(&format!("takes {row_group_bytes} bytes of device memory")), "{text}");
        assert!(text.starts_with("prefetching table 't' to device 0"), "{text}");
    }
}

#[test]
fn staging_buffers_evict_idle_columns() {
    let place = table(Codec::None, 1000, 20_000);
    let cache = cache_of(machine(160 << 10, 64 << 20), 160 << 10);
    let cancel = CancelFlag::new();
    assert!(cache.admit(&place.table, 5, DEVICE, &stream(&cache), &cancel).unwrap());
    let cached = cache.device_bytes_used(DEVICE);
    assert!(cached > 80 << 10);
    // All columns but that one: together the buffers need more than is left.
    let others: Vec<usize> = READABLE.into_iter().filter(|column| *column != 5).collect();
    let options =
        PrefetchOptions { morsel_bytes: 40 << 10, row_groups_max: 100, staging_buffers: 3, reads_ahead: 4 };
    let (_, report) =
        run_and_check(&cache, &place.table, &others, &all_row_groups(&place.table), options, |_| false)
            .unwrap();
    assert_eq!(report.staging_buffers, 3);
    assert_eq!(cache.device_bytes_used(DEVICE), 0);
}

/// A column whose chunks are far larger without their codec than they were before encoding.
fn inflating() -> crate::fixture::Place {
    let column = ColumnSchema { name: "c".into(), logical: LogicalType::UInt8, nullable: false };
    let schema = TableSchema::new(vec![column]).unwrap();
    let encoding: Encoding = "rle/zstd".parse().unwrap();
    place(schema, &[encoding], 20_000, 60_000, |first, count| {
        vec![Column::new(Values::U8((first..first + count).map(|row| (row % 2 * 200) as u8).collect()))]
    })
}

#[test]
fn a_buffer_grows_for_a_row_group_that_is_larger_than_estimated() {
    let place = inflating();
    let options =
        PrefetchOptions { morsel_bytes: 1, row_groups_max: 100, staging_buffers: 2, reads_ahead: 3 };
    let row_groups = all_row_groups(&place.table);
    let (came, report) =
        run_and_check(&cache(), &place.table, &[0], &row_groups, options, |_| false).unwrap();
    assert_eq!(came, row_groups);
    assert!(report.codec_bytes_after > 6 * report.buffer_device_bytes as u64, "{report:?}");

    let tight = cache_of(machine(64 << 20, report.buffer_pinned_bytes as u64), 0);
    let error = run_and_check(&tight, &place.table, &[0], &row_groups, options, |_| false).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::OutOfMemory { .. }), "{error}");
    assert!(error.to_string().contains("for its largest row group"), "{error}");
}

#[test]
fn row_groups_that_do_not_fit_after_all_come_with_the_next_morsel() {
    let place = inflating();
    let row_groups = all_row_groups(&place.table);
    // By estimate all six would fit.
    let options =
        PrefetchOptions { morsel_bytes: 6 * 36_000, row_groups_max: 100, staging_buffers: 2, reads_ahead: 3 };
    let (came, report) =
        run_and_check(&cache(), &place.table, &[0], &row_groups, options, |_| false).unwrap();
    assert_eq!(came, row_groups);
    assert!(report.codec_bytes_after > report.buffer_device_bytes as u64, "{report:?}");
    assert!(report.morsels > 1, "{report:?}");
}

#[test]
fn a_damaged_chunk_is_corrupt_and_named_and_gets_nowhere() {
    for codec in [Codec::None, Codec::Zstd] {
        let place = table(codec, 1000, 3000);
        damage(&place.table, 4, 0);
        let cache = cache();
        let row_groups = all_row_groups(&place.table);
        let error =
            run_and_check(&cache, &place.table, &[1, 0], &row_groups, options(), |_| false).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Corrupt);
        assert!(error.to_string().contains("table 't', row group 4, column 'id'"), "{error}");
        run_and_check(&cache, &place.table, &[1, 0], &[0, 1, 2, 3, 5], options(), |_| false).unwrap();

        let error = cache.pin(&place.table, None, &CancelFlag::new()).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Corrupt);
        assert_eq!(cache.machine().pinned_budget().used_bytes(), 0, "nothing stays pinned");
        assert_eq!(cache.tier(&place.table, 1, DEVICE), DataTier::Disk);
        let admitted = cache.admit(&place.table, 0, DEVICE, &stream(&cache), &CancelFlag::new());
        assert_eq!(admitted.unwrap_err().kind(), &ErrorKind::Corrupt);
        assert_eq!(cache.device_bytes_used(DEVICE), 0);
    }
}

#[test]
fn a_truncated_file_is_corrupt() {
    let place = table(Codec::None, 1000, 3000);
    let location = place.table.chunk(5, 5).unwrap().clone();
    let path = place.table.segment_file(location.segment).path();
    std::fs::File::options().write(true).open(path).unwrap().set_len(location.byte_offset).unwrap();
    let error = run_and_check(&cache(), &place.table, &[5], &[5], options(), |_| false).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Corrupt);
    assert!(error.to_string().contains("row group 5"), "{error}");
}

#[test]
fn a_cancelled_feed_says_so() {
    let place = table(Codec::Lz4, 100, 2000);
    let cache = cache();
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
    let error = prefetcher.next(1, &reader.copying, &mut |_| false).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Cancelled);
}

#[test]
#[should_panic(expected = "buffer 0 is released before it is used again")]
fn a_buffer_is_not_given_out_twice() {
    let place = table(Codec::None, 100, 2000);
    let cache = cache();
    let row_groups = all_row_groups(&place.table);
    let mut prefetcher =
        Prefetcher::new(&cache, DEVICE, &place.table, &[0], &row_groups, options(), CancelFlag::new())
            .unwrap();
    let stream = stream(&cache);
    prefetcher.next(0, &stream, &mut |_| false).unwrap().unwrap();
    let _ = prefetcher.next(0, &stream, &mut |_| false);
}

#[test]
fn feeding_from_memory_takes_no_memory_once_it_runs() {
    let place = table(Codec::None, 100, 20_000);
    let cache = cache();
    settle(&cache, &place.table, Mix::Pinned);
    let row_groups = all_row_groups(&place.table);
    let mut prefetcher =
        Prefetcher::new(&cache, DEVICE, &place.table, &READABLE, &row_groups, options(), CancelFlag::new())
            .unwrap();
    // What is left of both memories is taken away.
    let device = cache.machine().device_budget(DEVICE).unwrap().clone();
    let pinned = cache.machine().pinned_budget().clone();
    let rest = |kind, budget: &pelton_device::Budget| {
        let bytes = (budget.limit_bytes() - budget.used_bytes()) as usize;
        cache.machine().allocate(kind, bytes, OnFull::Refuse).unwrap()
    };
    let _taken = (rest(MemoryKind::Device(DEVICE), &device), rest(MemoryKind::PINNED, &pinned));
    let mut reader = Reader::new(&cache);
    for turn in 0.. {
        let buffer = turn % prefetcher.buffer_count();
        let Some(morsel) = prefetcher.next(buffer, &reader.copying, &mut |_| false).unwrap() else { break };
        let done = reader.read(morsel);
        prefetcher.release(buffer, done);
    }
    assert_eq!(reader.check(&place.table, &READABLE), row_groups);
}

#[test]
fn pinned_chunks_come_over_a_helper_link_too() {
    let place = table(Codec::None, 3000, 20_000);
    let two = host::open(&host::HostOptions { device_count: 2, ..host::HostOptions::default() });
    let links = Links { own_rate: 2.0, helpers: vec![HelperLink { device: DeviceId(1), rate: 1.0 }] };
    let options = ColumnCacheOptions {
        links,
        link_chunk_bytes: 4 << 10,
        extent_bytes: 40 << 10,
        ..ColumnCacheOptions::default()
    };
    let cache = Arc::new(ColumnCache::new(two, crate::fixture::engine(), options));
    settle(&cache, &place.table, Mix::Pinned);
    for _ in 0..2 {
        let report = run_all(&cache, &place.table, &READABLE);
        let share = report.helper_link_bytes as f64 / report.moved_bytes as f64;
        assert!((0.2..0.45).contains(&share), "a third of the rate carries {share} of the bytes");
    }
    let used = cache.machine().device_budget(DeviceId(1)).unwrap().used_bytes();
    assert_eq!(used, 3 * (4 << 10), "buffers at the helper are taken once");
}
