//! What every backend must hold, on logical devices and, where there are some, on CUDA devices.

use std::sync::Arc;
use std::time::Duration;

use pelton_device::cuda::{self, CudaOptions};
use pelton_device::host::{self, HostOptions};
use pelton_device::{
    Buffer, DeviceId, HOST_PAGE_BYTES, Machine, MemoryKind, OnFull, Place, VIRTUAL_PAGE_BYTES, Work,
};
use pelton_error::{Error, ErrorKind};

const MIB: usize = 1 << 20;
const LIMIT_BYTES: u64 = 64 << 20;
const SIZES: [usize; 12] =
    [1, 7, 8, 15, 16, 17, 4095, 4096, 4097, 65_537, 3 * MIB + 5, VIRTUAL_PAGE_BYTES * 2 + 1];

/// Every machine there is to test on, with 64 MiB of each device and of pinned memory.
fn machines() -> Vec<Machine> {
    let logical = HostOptions {
        device_count: 2,
        device_memory_limit_bytes: LIMIT_BYTES,
        pinned_memory_limit_bytes: LIMIT_BYTES,
        ..HostOptions::default()
    };
    let mut machines = vec![host::open(&logical)];
    let limits = CudaOptions {
        device_memory_limit_bytes: Some(LIMIT_BYTES),
        pinned_memory_limit_bytes: Some(LIMIT_BYTES),
        host_device_bytes: Some(LIMIT_BYTES),
    };
    match cuda::open(&limits) {
        Ok(machine) => machines.push(machine),
        Err(error) => {
            assert_eq!(error.kind(), &ErrorKind::Unsupported, "{error}");
            println!("SKIPPED on CUDA devices: {error}");
        }
    }
    machines
}

fn device(index: u32) -> MemoryKind {
    MemoryKind::Device(DeviceId(index))
}

fn take(machine: &Machine, kind: MemoryKind, bytes: usize) -> Buffer {
    machine.allocate(kind, bytes, OnFull::Refuse).unwrap()
}

fn pattern(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    (0..bytes)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect()
}

/// A host buffer that holds `bytes`.
fn filled(machine: &Machine, kind: MemoryKind, bytes: &[u8]) -> Buffer {
    let buffer = take(machine, kind, bytes.len());
    buffer.with_bytes_mut(|memory| memory.copy_from_slice(bytes)).unwrap();
    buffer
}

/// Kinds of memory that the machine offers.
fn kinds(machine: &Machine) -> Vec<MemoryKind> {
    let devices: Vec<DeviceId> = machine.info().devices.iter().map(|device| device.id).collect();
    let mut kinds = vec![MemoryKind::PAGEABLE, MemoryKind::PINNED, MemoryKind::Managed];
    kinds.extend(devices.iter().map(|device| MemoryKind::Device(*device)));
    for device_bytes in [0, VIRTUAL_PAGE_BYTES, usize::MAX / 2] {
        kinds.push(MemoryKind::Hybrid { device: devices[0], device_bytes, node: pelton_device::NodeId(0) });
    }
    kinds.push(MemoryKind::Interleaved(devices));
    kinds
}

#[test]
fn bytes_come_back_through_every_kind_of_memory() {
    for machine in machines() {
        let stream = machine.stream(Place::Device(DeviceId(0))).unwrap();
        for kind in kinds(&machine) {
            for bytes in SIZES {
                let content = pattern(bytes, bytes as u64);
                let source = filled(&machine, MemoryKind::PINNED, &content);
                let through = match machine.allocate(kind.clone(), bytes, OnFull::Refuse) {
                    Ok(buffer) => buffer,
                    Err(error) => {
                        // A driver may lack a kind; that it says so is the other half of the promise.
                        assert_eq!(error.kind(), &ErrorKind::Unsupported, "{machine:?} {kind}: {error}");
                        println!("{machine:?}: {error}");
                        break;
                    }
                };
                let target = take(&machine, MemoryKind::PINNED, bytes);
                stream.copy(&source.span(), &through.span()).unwrap();
                stream.copy(&through.span(), &target.span()).unwrap();
                stream.wait_blocking().unwrap();
                target.with_bytes(|found| assert!(found == content, "{machine:?} {kind} {bytes}")).unwrap();
            }
        }
    }
}

#[test]
fn streams_of_two_places_are_ordered_by_events() {
    for machine in machines() {
        let host = machine.stream(Place::HOST).unwrap();
        let device_stream = machine.stream(Place::Device(DeviceId(0))).unwrap();
        let content = pattern(MIB, 3);
        let source = filled(&machine, MemoryKind::PAGEABLE, &content);
        let staged = take(&machine, MemoryKind::PINNED, MIB);
        let landed = take(&machine, device(0), MIB);
        let back = take(&machine, MemoryKind::PINNED, MIB);
        let target = take(&machine, MemoryKind::PAGEABLE, MIB);
        for _ in 0..20 {
            host.copy(&source.span(), &staged.span()).unwrap();
            device_stream.wait_for(&host.record().unwrap()).unwrap();
            device_stream.copy(&staged.span(), &landed.span()).unwrap();
            device_stream.copy(&landed.span(), &back.span()).unwrap();
            host.wait_for(&device_stream.record().unwrap()).unwrap();
            host.copy(&back.span(), &target.span()).unwrap();
        }
        host.wait_blocking().unwrap();
        target.with_bytes(|found| assert!(found == content)).unwrap();
    }
}

#[test]
fn a_failed_host_stream_fails_the_device_stream_that_waited_for_it() {
    for machine in machines() {
        let host = machine.stream(Place::HOST).unwrap();
        let device_stream = machine.stream(Place::Device(DeviceId(0))).unwrap();
        let failing = Work::new("fail", vec![], vec![])
            .with_host(|| Err(Error::corrupt("the disk returned another byte")));
        host.run(failing).unwrap();
        device_stream.wait_for(&host.record().unwrap()).unwrap();
        let error = device_stream.wait_blocking().unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Corrupt, "{machine:?}");
        assert!(error.to_string().contains("another byte"), "{error}");
        assert!(error.to_string().contains("device 0"), "{error}");
    }
}

#[test]
fn an_error_of_a_host_stream_is_passed_on_over_several_streams() {
    for machine in machines() {
        let last = machine.info().devices.len() as u32 - 1;
        let host = machine.stream(Place::HOST).unwrap();
        let before = host.record().unwrap();
        let failing = Work::new("fail", vec![], vec![]).with_host(|| Err(Error::corrupt("page 3")));
        host.run(failing).unwrap();
        let streams = [
            machine.stream(Place::Device(DeviceId(0))).unwrap(),
            machine.stream(Place::Device(DeviceId(last))).unwrap(),
            machine.stream(Place::HOST).unwrap(),
            machine.stream(Place::Device(DeviceId(0))).unwrap(),
        ];
        let mut event = host.record().unwrap();
        for stream in &streams {
            stream.wait_for(&event).unwrap();
            event = stream.record().unwrap();
        }
        for stream in &streams {
            let error = stream.wait_blocking().unwrap_err();
            assert_eq!(error.kind(), &ErrorKind::Corrupt, "{machine:?}: {error}");
        }
        before.wait_blocking().unwrap_or_else(|error| panic!("before the failure all was well: {error}"));
    }
}

#[test]
fn what_was_waited_for_over_another_stream_is_free_again() {
    for machine in machines() {
        let host = machine.stream(Place::HOST).unwrap();
        let device_stream = machine.stream(Place::Device(DeviceId(0))).unwrap();
        let (source, staged) =
            (take(&machine, MemoryKind::PAGEABLE, 8), take(&machine, MemoryKind::PINNED, 8));
        host.copy(&source.span(), &staged.span()).unwrap();
        device_stream.wait_for(&host.record().unwrap()).unwrap();
        let (open, gate) = std::sync::mpsc::channel::<()>();
        let later = Work::new("later", vec![], vec![]).with_host(move || {
            let _ = gate.recv();
            Ok(())
        });
        host.run(later).unwrap();
        device_stream.wait_blocking().unwrap();
        source.with_bytes_mut(|bytes| bytes.fill(1)).unwrap();
        open.send(()).unwrap();
    }
}

#[test]
fn a_panic_in_host_work_is_an_error_of_the_stream() {
    for machine in machines() {
        let host = machine.stream(Place::HOST).unwrap();
        host.run(Work::new("panic", vec![], vec![]).with_host(|| panic!("row 7"))).unwrap();
        let error = host.wait_blocking().unwrap_err();
        assert!(error.to_string().contains("row 7"), "{error}");
    }
}

#[test]
fn the_host_is_kept_out_while_an_operation_uses_a_buffer() {
    for machine in machines() {
        let host = machine.stream(Place::HOST).unwrap();
        let buffer = take(&machine, MemoryKind::PINNED, 8);
        let (open, gate) = std::sync::mpsc::channel::<()>();
        let wait = Work::new("wait", vec![], vec![buffer.span()]).with_host(move || {
            let _ = gate.recv();
            Ok(())
        });
        host.run(wait).unwrap();
        assert_eq!(buffer.with_bytes(|_| ()).unwrap_err().kind(), &ErrorKind::InvalidInput);
        open.send(()).unwrap();
        host.wait_blocking().unwrap();
        buffer.with_bytes_mut(|bytes| bytes.fill(1)).unwrap();
        let inside = buffer.with_bytes(|_| host.copy(&buffer.slice(0..4), &buffer.slice(4..8)).unwrap_err());
        assert_eq!(inside.unwrap().kind(), &ErrorKind::InvalidInput);
    }
}

#[test]
fn asking_beyond_the_cap_is_refused_or_waits_as_the_caller_chose() {
    for machine in machines() {
        for kind in [device(0), MemoryKind::PINNED] {
            let held = take(&machine, kind.clone(), 40 * MIB);
            let error = machine.allocate(kind.clone(), 30 * MIB, OnFull::Refuse).unwrap_err();
            let ErrorKind::OutOfMemory { requested_bytes, available_bytes, .. } = error.kind() else {
                panic!("{error}");
            };
            assert_eq!((*requested_bytes, *available_bytes), (30 << 20, 24 << 20));
            let waiter = {
                let (machine, kind) = (machine.clone(), kind.clone());
                std::thread::spawn(move || {
                    machine.allocate(kind, 30 * MIB, OnFull::Wait(Duration::from_secs(60))).unwrap().len()
                })
            };
            std::thread::sleep(Duration::from_millis(20));
            drop(held);
            assert_eq!(waiter.join().unwrap(), 30 * MIB);
        }
    }
}

#[test]
fn one_that_waits_is_served_with_what_was_dropped_in_flight() {
    for machine in machines() {
        let host = machine.stream(Place::HOST).unwrap();
        let held = take(&machine, MemoryKind::PINNED, 40 * MIB);
        let slow = Work::new("sleep", vec![], vec![held.span()]).with_host(|| {
            std::thread::sleep(Duration::from_millis(50));
            Ok(())
        });
        host.run(slow).unwrap();
        drop(held);
        // Nobody waits for the stream; the one that needs the memory must look for itself.
        let patience = OnFull::Wait(Duration::from_secs(60));
        assert_eq!(machine.allocate(MemoryKind::PINNED, 40 * MIB, patience).unwrap().len(), 40 * MIB);
    }
}

#[test]
fn a_cap_of_64_mib_holds_under_concurrent_use() {
    for machine in machines() {
        std::thread::scope(|scope| {
            for thread in 0..4_usize {
                let machine = &machine;
                scope.spawn(move || {
                    let stream = machine.stream(Place::Device(DeviceId(0))).unwrap();
                    for round in 0..25_usize {
                        let bytes = (thread * 7919 + round * 104_729) % (20 * MIB) + 1;
                        let patience = OnFull::Wait(Duration::from_secs(120));
                        let buffer = machine.allocate(device(0), bytes, patience).unwrap();
                        let pinned = machine.allocate(MemoryKind::PINNED, bytes.min(MIB), patience).unwrap();
                        stream.copy(&pinned.span(), &buffer.slice(0..pinned.len())).unwrap();
                        stream.wait_blocking().unwrap();
                    }
                });
            }
        });
        let budget = machine.device_budget(DeviceId(0)).unwrap();
        assert!(budget.peak_bytes() <= LIMIT_BYTES, "{}", budget.peak_bytes());
        assert_eq!((budget.used_bytes(), machine.pinned_budget().used_bytes()), (0, 0));
    }
}

#[test]
fn a_thousand_cycles_leave_nothing_behind() {
    for machine in machines() {
        let stream = machine.stream(Place::Device(DeviceId(0))).unwrap();
        let mut settled = None;
        for round in 0..1000_usize {
            if round == 200 {
                settled = Some((resident_bytes(), free_bytes(&machine)));
            }
            let bytes = round * 7919 % (4 * MIB) + 1;
            let on_device = take(&machine, device(0), bytes);
            let pinned = take(&machine, MemoryKind::PINNED, bytes);
            stream.copy(&pinned.span(), &on_device.span()).unwrap();
            if round % 3 == 0 {
                stream.wait_blocking().unwrap();
            }
            // Otherwise dropped in flight: the stream keeps both until the copy is over.
        }
        stream.wait_blocking().unwrap();
        assert_eq!(machine.device_budget(DeviceId(0)).unwrap().used_bytes(), 0);
        assert_eq!(machine.pinned_budget().used_bytes(), 0);
        // Pools may hold up to their limits, which other tests of this process have as well.
        let (resident, free) = settled.unwrap();
        let grown = resident_bytes().saturating_sub(resident);
        assert!(grown < 10 * LIMIT_BYTES, "{machine:?}: host memory grew by {grown} bytes");
        let taken = free.saturating_sub(free_bytes(&machine));
        assert!(taken < 20 * LIMIT_BYTES, "{machine:?}: device memory shrank by {taken} bytes");
    }
}

/// Host memory of this process.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    status.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * HOST_PAGE_BYTES
}

/// Free memory of the first device, if it is one that the driver counts.
fn free_bytes(machine: &Machine) -> u64 {
    if machine.info().name == "cuda" { cuda::memory_info(DeviceId(0)).unwrap().0 } else { 0 }
}

#[test]
fn overlapping_page_locks_share_their_pages() {
    for machine in machines() {
        let bytes = 10 * HOST_PAGE_BYTES as usize;
        let buffer = take(&machine, MemoryKind::PAGEABLE, bytes);
        let used = || machine.pinned_budget().used_bytes();
        let first = machine.page_lock(&buffer.slice(5000..9000), false).unwrap();
        assert_eq!(first.pieces().len(), 1);
        assert_eq!(used(), 2 * HOST_PAGE_BYTES);
        let second = machine.page_lock(&buffer.slice(100..30_000), false).unwrap();
        let lengths: Vec<usize> = second.pieces().iter().map(pelton_device::Span::len).collect();
        assert_eq!(lengths, [3996, 8192, 17_712], "before, the shared piece, after");
        assert_eq!(used(), 8 * HOST_PAGE_BYTES);
        drop(first);
        assert_eq!(used(), 8 * HOST_PAGE_BYTES, "the second lock still uses the shared pages");
        drop(second);
        assert_eq!(used(), 0);
    }
}

#[test]
fn a_full_budget_never_costs_a_lock_its_own_pages() {
    let page = HOST_PAGE_BYTES as usize;
    let options = HostOptions { pinned_memory_limit_bytes: 4 * HOST_PAGE_BYTES, ..HostOptions::default() };
    let machine = host::open(&options);
    let buffer = take(&machine, MemoryKind::PAGEABLE, 40 * page);
    let chunk = 2 * page + 100;
    for start in (0..40 * page - chunk).step_by(chunk) {
        let lock = machine.page_lock(&buffer.slice(start..start + chunk), true).unwrap();
        let pieces: usize = lock.pieces().iter().map(pelton_device::Span::len).sum();
        assert_eq!(pieces, chunk, "from {start} on");
        assert_eq!(lock.pieces()[0].offset(), start);
    }
}

#[test]
fn pages_stay_locked_until_the_operations_on_them_are_over() {
    for machine in machines() {
        let host = machine.stream(Place::HOST).unwrap();
        let buffer = take(&machine, MemoryKind::PAGEABLE, 3 * HOST_PAGE_BYTES as usize);
        let lock = machine.page_lock(&buffer.span(), false).unwrap();
        let (open, gate) = std::sync::mpsc::channel::<()>();
        let reading = Work::new("read", vec![lock.pieces()[0].clone()], vec![]).with_host(move || {
            let _ = gate.recv();
            Ok(())
        });
        host.run(reading).unwrap();
        drop((lock, buffer));
        assert_eq!(machine.pinned_budget().used_bytes(), 3 * HOST_PAGE_BYTES, "in use");
        open.send(()).unwrap();
        host.wait_blocking().unwrap();
        assert_eq!(machine.pinned_budget().used_bytes(), 0);
    }
}

#[test]
fn pages_kept_locked_are_reused_and_go_with_their_memory() {
    for machine in machines() {
        let buffer = take(&machine, MemoryKind::PAGEABLE, MIB);
        drop(machine.page_lock(&buffer.span(), true).unwrap());
        assert_eq!(machine.pinned_budget().used_bytes(), MIB as u64, "kept for the next");
        drop(machine.page_lock(&buffer.span(), true).unwrap());
        assert_eq!(machine.pinned_budget().used_bytes(), MIB as u64);
        drop(buffer);
        assert_eq!(machine.pinned_budget().used_bytes(), 0);
        let buffer = take(&machine, MemoryKind::PAGEABLE, 40 * MIB);
        drop(machine.page_lock(&buffer.span(), true).unwrap());
        let pinned = take(&machine, MemoryKind::PINNED, 40 * MIB);
        assert_eq!(
            machine.pinned_budget().used_bytes(),
            40 << 20,
            "what is kept makes room for what is asked for"
        );
        drop(pinned);
    }
}

#[test]
fn memory_that_is_lent_is_read_and_never_written() {
    for machine in machines() {
        let content = Arc::new(pattern(100_003, 9));
        let lent = machine.lend(Arc::clone(&content) as pelton_device::ForeignMemory);
        let stream = machine.stream(Place::Device(DeviceId(0))).unwrap();
        let on_device = take(&machine, device(0), content.len());
        let back = take(&machine, MemoryKind::PINNED, content.len());
        let before = machine.pinned_budget().used_bytes();
        let lock = machine.page_lock(&lent.span(), false).unwrap();
        let locked = (machine.pinned_budget().used_bytes() - before) as usize;
        assert!(
            locked <= content.len() && locked.is_multiple_of(HOST_PAGE_BYTES as usize),
            "its own pages alone"
        );
        for piece in lock.pieces() {
            let offset = piece.offset();
            stream.copy(piece, &on_device.slice(offset..offset + piece.len())).unwrap();
        }
        stream.copy(&on_device.span(), &back.span()).unwrap();
        assert!(stream.copy(&on_device.span(), &lent.span()).is_err());
        stream.wait_blocking().unwrap();
        back.with_bytes(|bytes| assert!(bytes == &content[..])).unwrap();
        assert!(lent.with_bytes_mut(|_| ()).is_err());
    }
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    for machine in machines() {
        let count = machine.info().devices.len() as u32;
        let nowhere = DeviceId(count);
        let refuse = |kind| machine.allocate(kind, 1, OnFull::Refuse).unwrap_err().to_string();
        assert!(refuse(MemoryKind::Device(nowhere)).contains(&format!("no device {count}")));
        assert!(refuse(MemoryKind::Pinned(pelton_device::NodeId(999))).contains("no host node 999"));
        assert!(refuse(MemoryKind::Interleaved(vec![DeviceId(0); 2])).contains("named twice"));
        assert!(refuse(MemoryKind::Interleaved(vec![])).contains("no devices"));
        assert!(machine.stream(Place::Device(nowhere)).is_err());
        let stream = machine.stream(Place::HOST).unwrap();
        let (short, long) =
            (take(&machine, MemoryKind::PAGEABLE, 3), take(&machine, MemoryKind::PAGEABLE, 4));
        assert!(stream.copy(&short.span(), &long.span()).unwrap_err().to_string().contains("3 bytes"));
        assert!(machine.page_lock(&take(&machine, MemoryKind::PINNED, 8).span(), false).is_err());
        let other = host::open(&HostOptions::default());
        let foreign = take(&other, MemoryKind::PAGEABLE, 3);
        assert!(stream.copy(&foreign.span(), &short.span()).is_err());
    }
}

#[test]
fn missing_capabilities_are_refused_on_logical_devices() {
    let mut options = HostOptions { device_count: 2, has_peer_access: false, ..HostOptions::default() };
    options.capabilities.concurrent_managed = false;
    options.capabilities.host_register = false;
    options.capabilities.virtual_memory = false;
    let machine = host::open(&options);
    let refused = |kind| machine.allocate(kind, 1, OnFull::Refuse).unwrap_err();
    for kind in [
        MemoryKind::Managed,
        MemoryKind::Interleaved(vec![DeviceId(0), DeviceId(1)]),
        MemoryKind::Hybrid { device: DeviceId(0), device_bytes: 1, node: pelton_device::NodeId(0) },
    ] {
        assert_eq!(refused(kind).kind(), &ErrorKind::Unsupported);
    }
    let buffer = take(&machine, MemoryKind::PAGEABLE, 8);
    assert_eq!(machine.page_lock(&buffer.span(), false).err().unwrap().kind(), &ErrorKind::Unsupported);
    options.capabilities.virtual_memory = true;
    let machine = host::open(&options);
    let error = machine.allocate(MemoryKind::Interleaved(vec![DeviceId(0), DeviceId(1)]), 1, OnFull::Refuse);
    assert!(error.unwrap_err().to_string().contains("no peer access between device 1 and device 0"));
}

#[test]
fn time_between_events_is_the_time_of_what_lies_between() {
    for machine in machines() {
        let stream = machine.stream(Place::HOST).unwrap();
        let before = stream.record().unwrap();
        stream
            .run(Work::new("sleep", vec![], vec![]).with_host(|| {
                std::thread::sleep(Duration::from_millis(30));
                Ok(())
            }))
            .unwrap();
        let after = stream.record().unwrap();
        after.wait_blocking().unwrap();
        let elapsed = after.elapsed_since(&before).unwrap();
        assert!(elapsed >= Duration::from_millis(30) && elapsed < Duration::from_secs(20), "{elapsed:?}");
    }
}

#[test]
fn empty_buffers_are_valid_everywhere() {
    for machine in machines() {
        let stream = machine.stream(Place::Device(DeviceId(0))).unwrap();
        for kind in [MemoryKind::PAGEABLE, MemoryKind::PINNED, device(0)] {
            let nothing = take(&machine, kind, 0);
            assert!(nothing.is_empty());
            stream.copy(&nothing.span(), &take(&machine, device(0), 0).span()).unwrap();
        }
        stream.wait_blocking().unwrap();
    }
}
