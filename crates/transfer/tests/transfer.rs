//! Every way to move bytes moves them unchanged, on logical devices and, where there are some, on CUDA devices.

use std::io::Write;
use std::sync::Arc;

use pelton_device::cuda::{self, CudaOptions};
use pelton_device::host::{self, HostOptions};
use pelton_device::{
    Access, Buffer, Capabilities, DeviceId, Machine, MemoryKind, NodeId, OnFull, PageableAccess, Place, Span,
};
use pelton_error::{CancelFlag, ErrorKind};
use pelton_kernels::Library;
use pelton_transfer::{
    Column, Delivery, HelperLink, Method, MethodRate, MethodRates, Storage, StorageOptions, StoragePath,
    TransferOptions, choose, copy, copy_multi_link, relay,
};

const MIB: usize = 1 << 20;
const FIRST: DeviceId = DeviceId(0);
const ODD_SIZES: [usize; 9] = [0, 1, 15, 4095, 4097, 65_537, MIB + 3, 3 * MIB - 1, 5 * MIB + 4099];

struct Bed {
    machine: Machine,
    library: Option<Arc<Library>>,
}

/// Every machine there is to test on. On CUDA devices kernels come from the library, without which they are left out.
fn beds() -> Vec<Bed> {
    let options = HostOptions { device_count: 3, ..HostOptions::default() };
    let mut beds = vec![Bed { machine: host::open(&options), library: None }];
    let limits = CudaOptions {
        device_memory_limit_bytes: Some(1 << 30),
        pinned_memory_limit_bytes: Some(1 << 30),
        host_device_bytes: None,
    };
    match (cuda::open(&limits), Library::open()) {
        (Ok(machine), Ok(library)) => beds.push(Bed { machine, library: Some(library) }),
        (Err(error), _) | (_, Err(error)) => println!("SKIPPED on CUDA devices: {error}"),
    }
    beds
}

fn take(machine: &Machine, kind: MemoryKind, bytes: usize) -> Buffer {
    machine.allocate(kind, bytes, OnFull::Refuse).unwrap()
}

fn random(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..bytes)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}

fn filled(machine: &Machine, kind: MemoryKind, bytes: &[u8]) -> Buffer {
    let buffer = take(machine, kind, bytes.len());
    buffer.with_bytes_mut(|memory| memory.copy_from_slice(bytes)).unwrap();
    buffer
}

/// What a device's memory holds.
fn fetch(machine: &Machine, span: &Span) -> Vec<u8> {
    let stream = machine.stream(Place::Device(FIRST)).unwrap();
    let back = take(machine, MemoryKind::PINNED, span.len());
    stream.copy(span, &back.span()).unwrap();
    stream.wait_blocking().unwrap();
    back.with_bytes(<[u8]>::to_vec).unwrap()
}

fn small_chunks() -> TransferOptions {
    TransferOptions { chunk_bytes: 70_000, depth: 3, copy_threads: 3, ..TransferOptions::default() }
}

/// Delivers `content` by `method` and gathers what kernels on the device see.
fn deliver(bed: &Bed, method: Method, content: &[u8], options: TransferOptions) -> Vec<u8> {
    let machine = &bed.machine;
    let source = filled(machine, method.source_kind(NodeId(0)), content);
    let gathered = take(machine, MemoryKind::Device(FIRST), content.len());
    let column = Column { span: source.span(), row_bytes: 1 };
    let mut delivery = Delivery::open(machine, FIRST, method, vec![column], options).unwrap();
    let mut next = 0;
    while let Some(chunk) = delivery.next_chunk().unwrap() {
        assert_eq!(chunk.rows.start, next, "rows arrive in order, each once");
        next = chunk.rows.end;
        let target = gathered.slice(chunk.rows.clone());
        let work = pelton_kernels::copy(bed.library.as_ref(), chunk.spans[0].clone(), target);
        delivery.stream(&chunk).run(work).unwrap();
    }
    assert_eq!(next, content.len());
    delivery.wait_blocking().unwrap();
    fetch(machine, &gathered.span())
}

#[test]
fn every_method_delivers_random_bytes_of_odd_sizes_unchanged() {
    for bed in beds() {
        for method in Method::ALL {
            if let Err(error) = method.check(&bed.machine, FIRST) {
                assert_eq!(error.kind(), &ErrorKind::Unsupported);
                println!("{:?}: {error}", bed.machine);
                continue;
            }
            for bytes in ODD_SIZES {
                let content = random(bytes, bytes as u64);
                let found = deliver(&bed, method, &content, small_chunks());
                assert!(found == content, "{method} of {bytes} bytes on {:?}", bed.machine);
            }
        }
    }
}

#[test]
fn depth_and_threads_change_nothing_but_time() {
    for bed in beds() {
        let content = random(777_777, 5);
        for method in Method::ALL.into_iter().filter(|method| method.check(&bed.machine, FIRST).is_ok()) {
            for (chunk_bytes, depth, copy_threads) in
                [(1000, 1, 1), (4096, 2, 5), (100_000, 7, 2), (MIB, 64, 64)]
            {
                let options =
                    TransferOptions { chunk_bytes, depth, copy_threads, ..TransferOptions::default() };
                assert!(
                    deliver(&bed, method, &content, options) == content,
                    "{method} {chunk_bytes} {depth}"
                );
            }
        }
    }
}

#[test]
fn page_locks_on_demand_leave_none_behind_unless_kept() {
    for bed in beds() {
        let content = random(MIB + 1, 6);
        let options = TransferOptions { keeps_page_locks: false, ..small_chunks() };
        assert!(deliver(&bed, Method::DynamicPinning, &content, options) == content);
        assert_eq!(bed.machine.pinned_budget().used_bytes(), 0);
    }
}

#[test]
fn columns_are_cut_at_the_same_rows() {
    for bed in beds() {
        let machine = &bed.machine;
        let rows = 10_001;
        let (wide, narrow) = (random(rows * 8, 1), random(rows * 3, 2));
        let columns = vec![
            Column { span: filled(machine, MemoryKind::PINNED, &wide).span(), row_bytes: 8 },
            Column { span: filled(machine, MemoryKind::PINNED, &narrow).span(), row_bytes: 3 },
        ];
        let options = TransferOptions { chunk_bytes: 1000, ..TransferOptions::default() };
        let mut delivery = Delivery::open(machine, FIRST, Method::PinnedCopy, columns, options).unwrap();
        let targets = [take(machine, MemoryKind::Device(FIRST), wide.len()), {
            take(machine, MemoryKind::Device(FIRST), narrow.len())
        }];
        while let Some(chunk) = delivery.next_chunk().unwrap() {
            assert!(chunk.rows.len() <= 1000 / 11);
            for ((span, target), width) in chunk.spans.iter().zip(&targets).zip([8, 3]) {
                let part = target.slice(chunk.rows.start * width..chunk.rows.end * width);
                delivery.stream(&chunk).copy(span, &part).unwrap();
            }
        }
        delivery.wait_blocking().unwrap();
        assert!(fetch(machine, &targets[0].span()) == wide);
        assert!(fetch(machine, &targets[1].span()) == narrow);
    }
}

#[test]
fn a_cancelled_delivery_stops_and_gives_everything_back() {
    for bed in beds() {
        let machine = &bed.machine;
        let source = filled(machine, MemoryKind::PAGEABLE, &random(MIB, 7));
        for round in 0..1000_usize {
            let cancel = CancelFlag::default();
            let options = TransferOptions {
                chunk_bytes: 100_000,
                cancel: cancel.clone(),
                ..TransferOptions::default()
            };
            let column = Column { span: source.span(), row_bytes: 1 };
            let method = [Method::StagedCopy, Method::DynamicPinning, Method::PageableCopy][round % 3];
            // A tenth of the rounds suffices for the method that starts threads.
            let method = if round % 30 == 0 { method } else { Method::DynamicPinning };
            let mut delivery = Delivery::open(machine, FIRST, method, vec![column], options).unwrap();
            for _ in 0..round % 5 {
                delivery.next_chunk().unwrap();
            }
            cancel.cancel();
            assert_eq!(delivery.next_chunk().unwrap_err().kind(), &ErrorKind::Cancelled);
        }
        drop(source);
        machine.retire_completed();
        assert_eq!(machine.device_budget(FIRST).unwrap().used_bytes(), 0);
        assert_eq!(machine.pinned_budget().used_bytes(), 0);
    }
}

#[test]
fn relays_over_every_route_move_bytes_unchanged() {
    for bed in beds() {
        let machine = &bed.machine;
        let devices: Vec<Place> =
            machine.info().devices.iter().map(|device| Place::Device(device.id)).collect();
        let mut routes = vec![
            vec![Place::HOST, devices[0]],
            vec![devices[0], Place::HOST],
            vec![Place::HOST, devices[0], Place::HOST, devices[0]],
        ];
        if devices.len() > 1 {
            routes.push(vec![devices[0], devices[1]]);
            routes.push(vec![devices[1], Place::HOST, devices[0]]);
            routes.push(vec![Place::HOST, devices[1], devices[0], Place::HOST]);
        }
        if devices.len() > 2 {
            routes.push(vec![devices[0], devices[1], devices[2], devices[0], Place::HOST]);
        }
        for route in routes {
            for bytes in ODD_SIZES {
                let content = random(bytes, 11);
                let source = take(machine, kind_at(route[0]), bytes);
                let loader = machine.stream(Place::Device(FIRST)).unwrap();
                loader.copy(&filled(machine, MemoryKind::PINNED, &content).span(), &source.span()).unwrap();
                loader.wait_blocking().unwrap();
                let target = take(machine, kind_at(route[route.len() - 1]), bytes);
                let transfer =
                    relay(machine, &route, &source.span(), &target.span(), &small_chunks()).unwrap();
                transfer.wait_blocking().unwrap();
                assert!(transfer.is_complete().unwrap());
                assert!(fetch(machine, &target.span()) == content, "{route:?} {bytes}");
            }
        }
    }
}

fn kind_at(place: Place) -> MemoryKind {
    match place {
        Place::Host(node) => MemoryKind::Pinned(node),
        Place::Device(device) => MemoryKind::Device(device),
    }
}

#[test]
fn a_multi_link_transfer_moves_bytes_unchanged() {
    for bed in beds().into_iter().filter(|bed| bed.machine.info().devices.len() > 1) {
        let machine = &bed.machine;
        for bytes in ODD_SIZES {
            let content = random(bytes, 13);
            let source = filled(machine, MemoryKind::PINNED, &content);
            let target = take(machine, MemoryKind::Device(FIRST), bytes);
            let helper = HelperLink { device: DeviceId(1), rate: 0.9 };
            let transfer =
                copy_multi_link(machine, &source.span(), &target.span(), 1.0, &[helper], &small_chunks())
                    .unwrap();
            transfer.wait_blocking().unwrap();
            assert!(fetch(machine, &target.span()) == content, "{bytes}");
        }
    }
}

#[test]
fn a_route_without_peer_access_is_refused_and_goes_through_the_host() {
    let machine =
        host::open(&HostOptions { device_count: 2, has_peer_access: false, ..HostOptions::default() });
    let (source, target) =
        (take(&machine, MemoryKind::Device(FIRST), 10), take(&machine, MemoryKind::Device(DeviceId(1)), 10));
    let error = copy(&machine, &source.span(), &target.span(), &small_chunks()).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Unsupported);
    assert!(error.to_string().contains("no peer access from device 0 to device 1"), "{error}");
    let route = [Place::Device(FIRST), Place::HOST, Place::Device(DeviceId(1))];
    relay(&machine, &route, &source.span(), &target.span(), &small_chunks())
        .unwrap()
        .wait_blocking()
        .unwrap();
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let machine = host::open(&HostOptions::default());
    let span = take(&machine, MemoryKind::PINNED, 10).span();
    let open = |method, columns, options| match Delivery::open(&machine, FIRST, method, columns, options) {
        Ok(_) => panic!("refused"),
        Err(error) => error.to_string(),
    };
    let column = |row_bytes| Column { span: span.clone(), row_bytes };
    let options = TransferOptions::default;
    assert!(
        open(Method::StagedCopy, vec![column(1)], options())
            .contains("staged-copy does not read pinned memory")
    );
    assert!(open(Method::PinnedCopy, vec![], options()).contains("no columns"));
    assert!(open(Method::PinnedCopy, vec![column(3)], options()).contains("whole number of rows"));
    assert!(open(Method::PinnedCopy, vec![column(1), column(2)], options()).contains("has 5 rows"));
    let tiny = TransferOptions { chunk_bytes: 4, ..options() };
    assert!(open(Method::PinnedCopy, vec![column(5)], tiny).contains("hold no row of 5 bytes"));
    let shallow = TransferOptions { depth: 0, ..options() };
    assert!(open(Method::PinnedCopy, vec![column(5)], shallow).contains("1 to 64"));
    assert!("warp-drive".parse::<Method>().unwrap_err().to_string().contains("pinned-copy"));
}

#[test]
fn a_missing_capability_is_named_and_never_emulated() {
    let mut options = HostOptions::default();
    options.capabilities = Capabilities {
        pageable_access: PageableAccess::None,
        concurrent_managed: false,
        ..options.capabilities
    };
    let machine = host::open(&options);
    let refusal = |method: Method| method.check(&machine, FIRST).unwrap_err().to_string();
    assert_eq!(refusal(Method::Coherence), "no pageable access (coherence on device 0)");
    assert!(refusal(Method::UnifiedPrefetch).starts_with("no concurrent managed access"));
    let random = Access::Random { width_bytes: 8 };
    let error = choose(&machine, FIRST, &MemoryKind::PAGEABLE, random, &MethodRates::default()).unwrap_err();
    assert!(error.to_string().contains("no pageable access"), "{error}");
}

#[test]
fn the_choice_follows_what_was_measured_for_the_access() {
    let machine = host::open(&HostOptions::default());
    let rate = |method, sequential, random| MethodRate {
        method,
        sequential_bytes_per_s: sequential,
        random_accesses_per_s: random,
    };
    let rates = MethodRates(vec![
        rate(Method::PinnedCopy, 55e9, None),
        rate(Method::ZeroCopy, 51e9, Some(48e6)),
        rate(Method::StagedCopy, 30e9, None),
        rate(Method::Coherence, 40e9, Some(60e6)),
    ]);
    let pick = |kind, access| choose(&machine, FIRST, &kind, access, &rates).unwrap().method;
    let scattered = Access::Random { width_bytes: 8 };
    assert_eq!(pick(MemoryKind::PINNED, Access::Sequential), Method::PinnedCopy);
    assert_eq!(pick(MemoryKind::PINNED, scattered), Method::ZeroCopy);
    assert_eq!(pick(MemoryKind::PAGEABLE, Access::Sequential), Method::Coherence);
    assert_eq!(pick(MemoryKind::PAGEABLE, scattered), Method::Coherence);
    assert_eq!(pick(MemoryKind::Managed, scattered), Method::UnifiedMigration, "the only one that can");
}

#[test]
fn a_file_comes_to_a_device_unchanged_and_says_how() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("data");
    let content = random(3 * MIB + 4321, 17);
    std::fs::File::create(&name).unwrap().write_all(&content).unwrap();
    for bed in beds() {
        let base = StorageOptions { chunk_bytes: 300_001, depth: 3, ..StorageOptions::default() };
        let bounce = StorageOptions { forces_bounce: true, ..base.clone() };
        for options in [
            base.clone(),
            StorageOptions { allows_compatibility_mode: true, ..base },
            StorageOptions { chunk_bytes: 4096, depth: 1, ..bounce.clone() },
            StorageOptions { chunk_bytes: 2 * MIB + 1, depth: 40, ..bounce.clone() },
            StorageOptions { is_direct: false, ..bounce.clone() },
            bounce,
        ] {
            let (forces_bounce, is_direct) = (options.forces_bounce, options.is_direct);
            let mut storage = Storage::open(&bed.machine, FIRST, &name, options).unwrap();
            println!("{:?}: {}", bed.machine, storage.path());
            for range in [0..content.len(), 0..0, 5..6, 4095..4097, 4096..8192, 1..MIB + 7] {
                let target = take(&bed.machine, MemoryKind::Device(FIRST), range.len());
                storage.read_blocking(range.start as u64, &target.span()).unwrap();
                assert!(fetch(&bed.machine, &target.span()) == content[range.clone()], "{range:?}");
            }
            if forces_bounce {
                let StoragePath::Bounce { is_direct: was_direct, reason } = storage.path() else {
                    panic!("bounce buffers were asked for");
                };
                assert!(!reason.is_empty());
                assert!(is_direct || !was_direct);
            }
        }
    }
}

#[test]
fn a_file_that_ends_early_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("short");
    std::fs::File::create(&name).unwrap().write_all(&[1; 5000]).unwrap();
    for bed in beds() {
        let mut storage = Storage::open(&bed.machine, FIRST, &name, StorageOptions::default()).unwrap();
        let target = take(&bed.machine, MemoryKind::Device(FIRST), 6000);
        let error = storage.read_blocking(0, &target.span()).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Io);
        assert!(error.to_string().contains("short"), "{error}");
        let missing =
            Storage::open(&bed.machine, FIRST, &folder.path().join("gone"), StorageOptions::default());
        assert!(missing.err().unwrap().to_string().contains("gone"));
    }
}

#[test]
fn a_read_that_failed_leaves_the_next_one_as_it_would_be() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("data");
    let content = random(MIB, 19);
    std::fs::write(&name, &content).unwrap();
    for bed in beds() {
        let options = StorageOptions {
            chunk_bytes: 10_000,
            depth: 4,
            forces_bounce: true,
            ..StorageOptions::default()
        };
        let mut storage = Storage::open(&bed.machine, FIRST, &name, options).unwrap();
        let target = take(&bed.machine, MemoryKind::Device(FIRST), MIB);
        for at in [1, MIB as u64, u64::MAX] {
            let error = storage.read_blocking(at, &target.span()).unwrap_err();
            assert_eq!(error.kind(), &ErrorKind::Io);
            assert!(error.to_string().contains("the file ends at byte 1048576"), "{error}");
        }
        storage.read_blocking(0, &target.span()).unwrap();
        assert!(fetch(&bed.machine, &target.span()) == content);

        let file = std::fs::File::options().write(true).open(&name).unwrap();
        file.set_len(500_000).unwrap();
        let error = storage.read_blocking(0, &target.span()).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Corrupt);
        assert!(error.to_string().contains("data has 500000 bytes"), "{error}");
        storage.read_blocking(12_345, &target.slice(0..400_000)).unwrap();
        assert!(fetch(&bed.machine, &target.slice(0..400_000)) == content[12_345..412_345]);
        std::fs::write(&name, &content).unwrap();
    }
}

#[test]
fn a_cancelled_read_stops_and_gives_everything_back() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("data");
    std::fs::write(&name, random(MIB, 23)).unwrap();
    for bed in beds() {
        let cancel = CancelFlag::default();
        let options =
            StorageOptions { chunk_bytes: 4096, cancel: cancel.clone(), ..StorageOptions::default() };
        let mut storage = Storage::open(&bed.machine, FIRST, &name, options).unwrap();
        let target = take(&bed.machine, MemoryKind::Device(FIRST), MIB);
        let outcome = std::thread::scope(|scope| {
            let reading = scope.spawn(|| -> pelton_error::Result<()> {
                loop {
                    storage.read_blocking(0, &target.span())?;
                }
            });
            std::thread::sleep(std::time::Duration::from_millis(5));
            cancel.cancel();
            reading.join().unwrap()
        });
        assert_eq!(outcome.unwrap_err().kind(), &ErrorKind::Cancelled);
        drop((storage, target));
        bed.machine.retire_completed();
        assert_eq!(bed.machine.device_budget(FIRST).unwrap().used_bytes(), 0);
        assert_eq!(bed.machine.pinned_budget().used_bytes(), 0);
    }
}
