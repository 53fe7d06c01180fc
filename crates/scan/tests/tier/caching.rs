//! Pinning columns, admitting them to devices, evicting them.

use std::sync::Arc;
use std::time::Duration;

use pelton_chunk::{Codec, Layout, Transform};
use pelton_device::{MemoryKind, OnFull};
use pelton_error::{CancelFlag, ErrorKind, Tier};
use pelton_scan::{ColumnCache, ColumnCacheOptions, DataTier, Prefetcher, formats};

use crate::fixture::{
    COMMENT, DEVICE, MODE, READABLE, all_row_groups, cache, cache_of, cache_options, engine, machine,
    options, run_all, stream, table,
};

#[test]
fn pinning_all_leaves_out_text_without_a_dictionary_where_it_does_not_fit() {
    let place = table(Codec::Deflate, 1000, 3000);
    let whole = cache();
    let report = whole.pin(&place.table, None, &CancelFlag::new()).unwrap();
    assert!(report.columns_left_out.is_empty(), "{report:?}");
    assert_eq!(whole.tier(&place.table, COMMENT, DEVICE), DataTier::Pinned);
    let all_bytes = whole.machine().pinned_budget().used_bytes();
    assert_eq!(report.bytes, all_bytes);

    let cache = cache_of(machine(64 << 20, all_bytes - 1), 32 << 20);
    let report = cache.pin(&place.table, None, &CancelFlag::new()).unwrap();
    assert_eq!(report.bytes, cache.machine().pinned_budget().used_bytes());
    let [(name, reason)] = &report.columns_left_out[..] else { panic!("{report:?}") };
    assert_eq!(name, "comment");
    assert!(reason.contains("pinned"), "{reason}");
    assert!(READABLE.iter().all(|column| cache.tier(&place.table, *column, DEVICE) == DataTier::Pinned));
    assert_eq!(cache.tier(&place.table, COMMENT, DEVICE), DataTier::Disk);

    let again = cache.pin(&place.table, Some(&[0, 0, 1]), &CancelFlag::new()).unwrap();
    assert_eq!((again.bytes, again.columns_left_out.len()), (0, 0), "they are pinned already");
}

#[test]
fn pinning_is_all_or_nothing() {
    let place = table(Codec::Lz4, 1000, 20_000);
    let cache = cache_of(machine(64 << 20, 100 << 10), 0);
    let error = cache.pin(&place.table, None, &CancelFlag::new()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::OutOfMemory { tier: Tier::Pinned, .. }), "{error}");
    assert_eq!(cache.machine().pinned_budget().used_bytes(), 0);
    assert!(READABLE.iter().all(|column| cache.tier(&place.table, *column, DEVICE) == DataTier::Disk));
}

#[test]
fn a_cancelled_pin_pins_nothing() {
    let place = table(Codec::None, 1000, 3000);
    let cache = cache();
    let cancel = CancelFlag::new();
    cancel.cancel();
    assert_eq!(cache.pin(&place.table, None, &cancel).unwrap_err().kind(), &ErrorKind::Cancelled);
    let admitted = cache.admit(&place.table, 0, DEVICE, &stream(&cache), &cancel);
    assert_eq!(admitted.unwrap_err().kind(), &ErrorKind::Cancelled);
    assert_eq!(cache.machine().pinned_budget().used_bytes(), 0);
    assert_eq!(cache.device_bytes_used(DEVICE), 0);
}

#[test]
fn pinned_memory_comes_back_when_the_last_feed_is_done() {
    let place = table(Codec::None, 1000, 3000);
    let cache = cache();
    cache.pin(&place.table, Some(&[0]), &CancelFlag::new()).unwrap();
    let used = cache.machine().pinned_budget().used_bytes();
    let prefetcher =
        Prefetcher::new(&cache, DEVICE, &place.table, &[0], &[0, 1], options(), CancelFlag::new()).unwrap();
    cache.unpin(place.table.id());
    assert_eq!(cache.tier(&place.table, 0, DEVICE), DataTier::Disk);
    assert_eq!(cache.machine().pinned_budget().used_bytes(), used, "the prefetcher has it still");
    drop(prefetcher);
    assert_eq!(cache.machine().pinned_budget().used_bytes(), 0);
}

#[test]
fn a_column_that_is_used_much_more_often_takes_the_room_of_another_that_is_not_in_use() {
    let place = table(Codec::None, 1000, 20_000);
    let size = |column| {
        let cache = cache();
        cache.admit(&place.table, column, DEVICE, &stream(&cache), &CancelFlag::new()).unwrap();
        cache.device_bytes_used(DEVICE)
    };
    let (plain, quantity, wide) = (size(5), size(1), size(3));
    for is_pinned in [false, true] {
        let budget = plain + quantity + wide - 1;
        let cache = cache_of(machine(64 << 20, 64 << 20), budget);
        if is_pinned {
            cache.pin(&place.table, None, &CancelFlag::new()).unwrap();
        }
        let stream = stream(&cache);
        let admit = |column| {
            let admitted = cache.admit(&place.table, column, DEVICE, &stream, &CancelFlag::new()).unwrap();
            assert!(cache.device_bytes_used(DEVICE) <= budget);
            assert!(cache.machine().device_budget(DEVICE).unwrap().used_bytes() <= budget);
            admitted
        };
        let is_cached = |column| cache.tier(&place.table, column, DEVICE) == DataTier::Device(DEVICE);
        let mut run = 0;
        let mut runs_use = |columns: &[usize]| {
            run += 1;
            cache.note_uses(&place.table, columns, run);
        };
        assert!(admit(5) && admit(1), "there is room, whatever is known of them");
        for _ in 0..4 {
            runs_use(&[5]);
            runs_use(&[3]);
            assert!(cache.is_used_again(&place.table, 3) || !admit(3), "it was used once");
        }
        assert!(admit(3), "the second was never used");
        assert_eq!([5, 1, 3].map(is_cached), [true, false, true]);
        run_all(&cache, &place.table, &[5, 3]);

        for _ in 0..2 {
            [1, 5, 3].iter().for_each(|column| runs_use(&[*column]));
        }
        assert!(!admit(1), "the others are used as often");
        (0..8).for_each(|_| runs_use(&[1]));
        let all = all_row_groups(&place.table);
        let in_use =
            Prefetcher::new(&cache, DEVICE, &place.table, &[5, 3], &all, options(), CancelFlag::new())
                .unwrap();
        assert!(!admit(1), "what is in use stays");
        assert_eq!([5, 1, 3].map(is_cached), [true, false, true]);
        drop(in_use);
        assert!(admit(1));
        assert_eq!([5, 1, 3].map(is_cached), [false, true, true], "the one not used for longest is gone");
    }
}

#[test]
fn what_the_device_has_no_room_for_is_cached_in_pinned_memory_by_use() {
    let place = table(Codec::None, 1000, 20_000);
    let bytes =
        |columns: &[usize]| cache().pin(&place.table, Some(columns), &CancelFlag::new()).unwrap().bytes;
    let limit = bytes(&[1, 5]);
    let caches = ColumnCacheOptions { device_cache_bytes: 0, pinned_cache_bytes: limit, ..cache_options() };
    let cache = Arc::new(ColumnCache::new(machine(64 << 20, 64 << 20), engine(), caches));
    let admit = |column| cache.admit_to_pinned(&place.table, column, &CancelFlag::new()).unwrap();
    let tier = |column| cache.tier(&place.table, column, DEVICE);
    assert!(admit(1) && admit(5));
    assert_eq!((tier(1), tier(5), cache.pinned_bytes_cached()), (DataTier::Pinned, DataTier::Pinned, limit));
    assert!(!admit(MODE), "no room, and it was never used");
    run_all(&cache, &place.table, &[1, 5, MODE]);
    let runs = [[5], [MODE], [5], [MODE]];
    runs.iter().zip(1..).for_each(|(columns, run)| cache.note_uses(&place.table, columns, run));
    assert!(admit(MODE));
    assert_eq!([1, 5, MODE].map(tier), [DataTier::Disk, DataTier::Pinned, DataTier::Pinned]);
    run_all(&cache, &place.table, &[1, 5, MODE]);

    // Somebody asks for one by name: it stays, and does not count.
    let report = cache.pin(&place.table, Some(&[5]), &CancelFlag::new()).unwrap();
    assert_eq!(report.bytes, 0, "it is there");
    assert!(cache.is_pinned_by_name(&place.table, 5) && !cache.is_pinned_by_name(&place.table, MODE));
    assert_eq!(cache.pinned_bytes_cached(), cache.machine().pinned_budget().used_bytes() - bytes(&[5]));
    assert_eq!(cache.evict_pinned(u64::MAX), bytes(&[MODE]));
    assert_eq!((tier(5), cache.pinned_bytes_cached()), (DataTier::Pinned, 0));
    assert_eq!(cache.evict_pinned(u64::MAX), 0);
}

#[test]
fn damage_and_cancellation_cache_nothing_in_pinned_memory() {
    let place = table(Codec::Zstd, 1000, 3000);
    let caches = ColumnCacheOptions { pinned_cache_bytes: 32 << 20, ..cache_options() };
    let cache = Arc::new(ColumnCache::new(machine(64 << 20, 64 << 20), engine(), caches));
    let cancel = CancelFlag::new();
    cancel.cancel();
    let error = cache.admit_to_pinned(&place.table, 0, &cancel).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Cancelled);
    assert!(error.to_string().contains("'id'"), "{error}");
    assert_eq!(cache.machine().pinned_budget().used_bytes(), 0);
    assert!(cache.admit_to_pinned(&place.table, 0, &CancelFlag::new()).unwrap());
}

#[test]
fn columns_cached_in_pinned_memory_make_way_for_others() {
    let place = table(Codec::None, 1000, 20_000);
    let machine = machine(64 << 20, 4 << 20);
    let caches = ColumnCacheOptions { pinned_cache_bytes: 4 << 20, ..cache_options() };
    let cache = Arc::new(ColumnCache::new(machine.clone(), engine(), caches));
    let cached = Arc::downgrade(&cache);
    machine.add_pinned_evictable(move |bytes| cached.upgrade().map_or(0, |cache| cache.evict_pinned(bytes)));
    for column in [1, 3, 5] {
        assert!(cache.admit_to_pinned(&place.table, column, &CancelFlag::new()).unwrap());
    }
    let cached = cache.pinned_bytes_cached();
    let free = (4 << 20) - cached as usize;
    let in_use = machine.allocate(MemoryKind::PINNED, free, OnFull::Refuse).unwrap();
    assert_eq!(cache.pinned_bytes_cached(), cached, "there was room");
    let more = machine.allocate(MemoryKind::PINNED, 1, OnFull::Refuse).unwrap();
    let left = cache.pinned_bytes_cached();
    assert!(0 < left && left < cached, "one column is enough");
    let wait = OnFull::Wait(Duration::from_secs(60));
    let rest = (4 << 20) - in_use.len() - more.len();
    let all = machine.allocate(MemoryKind::PINNED, rest, wait).unwrap();
    assert_eq!(cache.pinned_bytes_cached(), 0);
    drop((in_use, more, all));
    run_all(&cache, &place.table, &[1, 3, 5]);
}

#[test]
fn a_column_larger_than_the_budget_evicts_nobody() {
    let place = table(Codec::None, 1000, 20_000);
    let cache = cache_of(machine(64 << 20, 64 << 20), 60 << 10);
    let admit = |column| cache.admit(&place.table, column, DEVICE, &stream(&cache), &CancelFlag::new());
    assert!(admit(1).unwrap());
    let used = cache.device_bytes_used(DEVICE);
    assert!(!admit(5).unwrap());
    assert_eq!(cache.device_bytes_used(DEVICE), used);
    assert!(admit(1).unwrap(), "it is there");
}

#[test]
fn a_device_that_is_full_of_other_things_has_no_room() {
    let place = table(Codec::None, 1000, 20_000);
    let cache = cache_of(machine(50 << 10, 64 << 20), 64 << 20);
    let admit = |column| cache.admit(&place.table, column, DEVICE, &stream(&cache), &CancelFlag::new());
    assert!(!admit(5).unwrap());
    assert_eq!(cache.machine().device_budget(DEVICE).unwrap().used_bytes(), 0);
}

#[test]
fn admitting_needs_little_pinned_memory() {
    let place = table(Codec::None, 1000, 40_000);
    // Room for one extent, not for three.
    let cache = cache_of(machine(64 << 20, 50 << 10), 64 << 20);
    assert!(cache.admit(&place.table, 5, DEVICE, &stream(&cache), &CancelFlag::new()).unwrap());
    assert!(cache.device_bytes_used(DEVICE) > 160 << 10);
    assert_eq!(cache.machine().pinned_budget().used_bytes(), 0);
    run_all(&cache, &place.table, &[5]);
}

#[test]
fn columns_can_be_evicted_by_hand_and_forgotten() {
    let place = table(Codec::None, 1000, 3000);
    let cache = cache();
    let admit = |column| cache.admit(&place.table, column, DEVICE, &stream(&cache), &CancelFlag::new());
    assert!(admit(0).unwrap() && admit(1).unwrap());
    let used = cache.device_bytes_used(DEVICE);
    cache.note_uses(&place.table, &[1], 1);
    let freed = cache.evict(DEVICE, 1);
    assert!(freed > 0 && cache.device_bytes_used(DEVICE) == used - freed);
    assert_eq!(cache.tier(&place.table, 0, DEVICE), DataTier::Disk);
    cache.pin(&place.table, None, &CancelFlag::new()).unwrap();
    cache.forget(place.table.id());
    assert_eq!(cache.device_bytes_used(DEVICE), 0);
    assert_eq!(cache.machine().pinned_budget().used_bytes(), 0);
    assert_eq!(cache.machine().device_budget(DEVICE).unwrap().used_bytes(), 0);
    assert_eq!(cache.evict(DEVICE, 1), 0);
    assert_eq!(cache.widths(&place.table, 1), None);
}

#[test]
fn formats_are_those_of_the_row_groups_asked_for() {
    let place = table(Codec::Zstd, 1024, 4096);
    let all = all_row_groups(&place.table);
    let bit_packed = (Transform::None, Layout::BitPacked);
    assert_eq!(formats(&place.table, 1, &all).unwrap(), [bit_packed]);
    // Every second row group of the price is all NULL.
    let decimals = (Transform::Alp, Layout::BitPacked);
    assert_eq!(formats(&place.table, 2, &all).unwrap(), [(Transform::None, Layout::Constant), decimals]);
    assert_eq!(formats(&place.table, 2, &[0, 2]).unwrap(), [decimals]);
    assert_eq!(formats(&place.table, 2, &[]).unwrap(), []);
}

#[test]
fn widths_are_known_once_a_column_was_loaded() {
    let place = table(Codec::Zstd, 1000, 3000);
    let cache = cache();
    assert_eq!(cache.widths(&place.table, 1), None);
    cache.pin(&place.table, Some(&[1]), &CancelFlag::new()).unwrap();
    assert_eq!(cache.widths(&place.table, 1).unwrap(), [6].into(), "49 differences take 6 bits");
    cache.admit(&place.table, 6, DEVICE, &stream(&cache), &CancelFlag::new()).unwrap();
    assert_eq!(cache.widths(&place.table, 6).unwrap(), [3].into(), "five texts take 3 bits");
    cache.pin(&place.table, Some(&[5]), &CancelFlag::new()).unwrap();
    assert_eq!(cache.widths(&place.table, 5).unwrap(), [].into(), "plain values are not packed");
}
