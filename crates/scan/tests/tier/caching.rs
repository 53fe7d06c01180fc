//! Pinning columns, admitting them to devices, evicting them.

use pelton_chunk::{Codec, Layout, Transform};
use pelton_error::{CancelFlag, ErrorKind, Tier};
use pelton_scan::{DataTier, Prefetcher, formats};

use crate::fixture::{
    COMMENT, DEVICE, READABLE, all_row_groups, cache, cache_of, machine, options, run_all, stream, table,
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
fn the_column_not_used_for_longest_makes_room_and_none_in_use_does() {
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
        assert!(admit(5));
        assert!(admit(1));
        run_all(&cache, &place.table, &[5]);
        assert!(admit(3), "the second is not used for longest");
        assert_eq!([5, 1, 3].map(is_cached), [true, false, true]);

        let all = all_row_groups(&place.table);
        let in_use =
            Prefetcher::new(&cache, DEVICE, &place.table, &[5, 3], &all, options(), CancelFlag::new())
                .unwrap();
        assert!(!admit(1), "what is in use stays");
        assert_eq!([5, 1, 3].map(is_cached), [true, false, true]);
        drop(in_use);
        assert!(admit(1));
        assert_eq!([5, 1, 3].map(is_cached), [false, true, true]);
    }
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
