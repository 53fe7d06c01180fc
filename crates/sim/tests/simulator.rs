//! The simulator as a machine: order, sharing, bytes, errors, determinism.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pelton_device::{
    Access, Buffer, Cost, DeviceId, Machine, MemoryKind, NodeId, OnFull, Place, Stream, VIRTUAL_PAGE_BYTES,
    Work,
};
use pelton_error::{Error, ErrorKind};
use pelton_fabric::{
    DeviceVertex, HostNode, Link, LinkKind, Origin, Switch, Topology, Vertex, direct_route, preset,
};
use pelton_sim::{SimOptions, machine, observed};
use proptest::prelude::*;

const GPU0: DeviceId = DeviceId(0);
const GPU1: DeviceId = DeviceId(1);

fn sizes_only(name: &str) -> Machine {
    machine(&preset(name).unwrap(), SimOptions::default()).unwrap()
}

fn functional(name: &str) -> Machine {
    machine(&preset(name).unwrap(), SimOptions { functional: true, ..SimOptions::default() }).unwrap()
}

fn take(machine: &Machine, kind: MemoryKind, bytes: usize) -> Buffer {
    machine.allocate(kind, bytes, OnFull::Refuse).unwrap()
}

fn stream(machine: &Machine, device: DeviceId) -> Stream {
    machine.stream(Place::Device(device)).unwrap()
}

fn seconds(machine: &Machine, what: impl FnOnce()) -> f64 {
    let start = machine.now();
    what();
    (machine.now() - start).as_secs_f64()
}

fn assert_near(actual: f64, expected: f64) {
    assert!((actual / expected - 1.0).abs() < 0.01, "{actual} is not {expected}");
}

/// Seconds that copies take which start together, each in a stream of its own.
fn together(machine: &Machine, copies: &[(Place, &Buffer, &Buffer)]) -> f64 {
    seconds(machine, || {
        let streams: Vec<Stream> = copies
            .iter()
            .map(|(place, source, target)| {
                let stream = machine.stream(*place).unwrap();
                stream.copy(&source.span(), &target.span()).unwrap();
                stream
            })
            .collect();
        streams.iter().for_each(|stream| stream.wait_blocking().unwrap());
    })
}

#[test]
fn a_copy_alone_takes_latency_and_bytes_over_bandwidth() {
    let topology = preset("h200-x2").unwrap();
    let machine = sizes_only("h200-x2");
    let route = direct_route(&topology, Vertex::Node(0), Vertex::Device(0)).unwrap();
    for bytes in [1, 4096, 1 << 20, 16 << 20, 16 << 30] {
        let (host, device) =
            (take(&machine, MemoryKind::PINNED, bytes), take(&machine, MemoryKind::Device(GPU0), bytes));
        let simulated = together(&machine, &[(Place::Device(GPU0), &host, &device)]);
        let predicted = route.predict(&topology, bytes as u64).as_secs_f64();
        assert!(
            (simulated - predicted).abs() < 2e-9,
            "{bytes} bytes: {simulated} s, predicted {predicted} s"
        );
    }
}

#[test]
fn enqueueing_takes_no_time_and_nothing_happens_before_somebody_waits() {
    let machine = sizes_only("h200-x2");
    let (host, device) =
        (take(&machine, MemoryKind::PINNED, 1 << 30), take(&machine, MemoryKind::Device(GPU0), 1 << 30));
    let stream = stream(&machine, GPU0);
    (0..100).for_each(|_| stream.copy(&host.span(), &device.span()).unwrap());
    let event = stream.record().unwrap();
    assert!(!event.is_complete().unwrap());
    assert_eq!(machine.now(), Duration::ZERO);
    event.wait_blocking().unwrap();
    assert_near(machine.now().as_secs_f64(), 100.0 * (1_u64 << 30) as f64 / 55.5e9);
}

#[test]
fn a_loop_that_polls_comes_to_an_end() {
    let machine = sizes_only("h200-x2");
    let (host, device) =
        (take(&machine, MemoryKind::PINNED, 1 << 30), take(&machine, MemoryKind::Device(GPU0), 1 << 30));
    let stream = stream(&machine, GPU0);
    stream.copy(&host.span(), &device.span()).unwrap();
    let event = stream.record().unwrap();
    let polls = (0..100_000).take_while(|_| !event.is_complete().unwrap()).count();
    assert!(polls < 10_000, "{polls} polls");
    assert_near(machine.now().as_secs_f64(), (1_u64 << 30) as f64 / 55.5e9);
}

#[test]
fn events_order_streams_and_measure_between_them() {
    let machine = sizes_only("h200-x2");
    let bytes = 1 << 30;
    let host = take(&machine, MemoryKind::PINNED, bytes);
    let (first, second) =
        (take(&machine, MemoryKind::Device(GPU0), bytes), take(&machine, MemoryKind::Device(GPU0), bytes));
    let (in_stream, local_stream) = (stream(&machine, GPU0), stream(&machine, GPU0));
    let begin = in_stream.record().unwrap();
    in_stream.copy(&host.span(), &first.span()).unwrap();
    let arrived = in_stream.record().unwrap();
    local_stream.wait_for(&arrived).unwrap();
    local_stream.copy(&first.span(), &second.span()).unwrap();
    let copied = local_stream.record().unwrap();
    assert_eq!(copied.elapsed_since(&begin).unwrap_err().kind(), &ErrorKind::InvalidInput);
    copied.wait_blocking().unwrap();
    assert!(arrived.is_complete().unwrap());
    assert_near(arrived.elapsed_since(&begin).unwrap().as_secs_f64(), bytes as f64 / 55.5e9);
    assert_near(copied.elapsed_since(&arrived).unwrap().as_secs_f64(), 2.0 * bytes as f64 / 4262e9);
}

#[test]
fn flows_share_a_link_equally_and_the_sum_is_its_capacity() {
    let machine = sizes_only("h200-x2");
    let bytes = 1 << 30;
    let buffers: Vec<_> = (0..3)
        .map(|_| (take(&machine, MemoryKind::PINNED, bytes), take(&machine, MemoryKind::Device(GPU0), bytes)))
        .collect();
    let streams: Vec<Stream> = buffers.iter().map(|_| stream(&machine, GPU0)).collect();
    let begin = streams[0].record().unwrap();
    let ends: Vec<_> = streams
        .iter()
        .zip(&buffers)
        .map(|(stream, (host, device))| {
            stream.copy(&host.span(), &device.span()).unwrap();
            stream.record().unwrap()
        })
        .collect();
    for end in &ends {
        end.wait_blocking().unwrap();
        assert_near(end.elapsed_since(&begin).unwrap().as_secs_f64(), 3.0 * bytes as f64 / 55.5e9);
    }
}

#[test]
fn copy_engines_bound_how_many_copies_run_at_once() {
    let mut topology = preset("h200-x2").unwrap();
    topology.devices[0].copy_engine_count = 1;
    let machine = machine(&topology, SimOptions::default()).unwrap();
    let bytes = 1 << 30;
    let host = take(&machine, MemoryKind::PINNED, bytes);
    let device = take(&machine, MemoryKind::Device(GPU0), bytes);
    let streams = [stream(&machine, GPU0), stream(&machine, GPU0)];
    let begin = streams[0].record().unwrap();
    let ends = [&streams[0], &streams[1]].map(|stream| {
        stream.copy(&host.span(), &device.span()).unwrap();
        stream.record().unwrap()
    });
    ends.iter().for_each(|end| end.wait_blocking().unwrap());
    let times = ends.map(|end| end.elapsed_since(&begin).unwrap().as_secs_f64());
    assert_near(times[0], bytes as f64 / 55.5e9);
    assert_near(times[1], 2.0 * bytes as f64 / 55.5e9);
}

#[test]
fn cores_and_dma_draw_on_the_same_host_memory() {
    let machine = sizes_only("h200-x2");
    let bytes = 1 << 30;
    let buffers: Vec<_> = (0..32)
        .map(|_| (take(&machine, MemoryKind::PAGEABLE, bytes), take(&machine, MemoryKind::PAGEABLE, bytes)))
        .collect();
    let (host, device) =
        (take(&machine, MemoryKind::PINNED, bytes), take(&machine, MemoryKind::Device(GPU0), bytes));
    let mut copies: Vec<_> = buffers.iter().map(|(source, target)| (Place::HOST, source, target)).collect();
    let one_core = together(&machine, &copies[..1]);
    assert_near(one_core, bytes as f64 / 12e9);
    let all_cores = together(&machine, &copies);
    // Reads and writes together reach 115 GB/s.
    assert_near(64.0 * bytes as f64 / all_cores, 115e9);
    copies.push((Place::Device(GPU0), &host, &device));
    let beside = together(&machine, &copies);
    assert!(beside > all_cores * 1.01, "{beside} s beside DMA, {all_cores} s alone");
}

#[test]
fn pageable_memory_is_slow_until_its_pages_are_locked() {
    let machine = sizes_only("h200-x2");
    let bytes = 4 << 30;
    let (host, device) =
        (take(&machine, MemoryKind::PAGEABLE, bytes), take(&machine, MemoryKind::Device(GPU0), bytes));
    let copies = [(Place::Device(GPU0), &host, &device)];
    assert_near(together(&machine, &copies), bytes as f64 / 9.4e9);
    let mut lock = None;
    assert_near(seconds(&machine, || lock = Some(machine.page_lock(&host.span(), false).unwrap())), 0.22);
    assert_near(together(&machine, &copies), bytes as f64 / 55.5e9);
    drop(lock);
    assert_near(together(&machine, &copies), bytes as f64 / 9.4e9);
    let two = [(Place::Device(GPU0), &host, &device), (Place::Device(GPU0), &host, &device)];
    assert_near(together(&machine, &two), 2.0 * bytes as f64 / 9.4e9);
}

#[test]
fn devices_without_peer_access_copy_through_the_host() {
    let machine = sizes_only("delta");
    let gpu3 = DeviceId(3);
    assert!(machine.is_peer(GPU0, GPU1));
    assert!(!machine.is_peer(GPU0, gpu3));
    let (source, target) = (
        take(&machine, MemoryKind::Device(GPU0), 1 << 30),
        take(&machine, MemoryKind::Device(gpu3), 1 << 30),
    );
    let staged = together(&machine, &[(Place::Device(GPU0), &source, &target)]);
    assert_near(staged, (1_u64 << 30) as f64 / (0.78 * 12.5e9));
    let reads_far = Work::new("far read", vec![target.span()], Vec::new());
    let error = stream(&machine, GPU0).run(reads_far).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Unsupported);
    assert!(error.to_string().contains("no peer access"), "{error}");
}

/// Seconds of work on device 0 that reads `buffer` so.
fn reading(machine: &Machine, buffer: &Buffer, access: Access) -> f64 {
    let cost = Cost { access, ..Cost::STREAMING };
    let work = Work::new("read", vec![buffer.span()], Vec::new()).with_cost(cost);
    let stream = stream(machine, GPU0);
    seconds(machine, || {
        stream.run(work).unwrap();
        stream.wait_blocking().unwrap();
    })
}

#[test]
fn work_costs_its_traffic_or_its_computing_whichever_is_more() {
    let machine = sizes_only("h200-x2");
    let bytes = 1_usize << 30;
    let kinds = [
        (MemoryKind::Device(GPU0), 4262e9, 41.1e9),
        (MemoryKind::Device(GPU1), 397e9, 6.69e9),
        (MemoryKind::PINNED, 55.4e9, 0.048e9),
    ];
    for (kind, bytes_per_s, accesses_per_s) in kinds {
        let buffer = take(&machine, kind, bytes);
        assert_near(reading(&machine, &buffer, Access::Sequential), bytes as f64 / bytes_per_s);
        let random = reading(&machine, &buffer, Access::Random { width_bytes: 8 });
        assert_near(random, bytes as f64 / 8.0 / accesses_per_s);
    }
    let stream = stream(&machine, GPU0);
    let cost = Cost { compute: Duration::from_millis(3), ..Cost::STREAMING };
    let buffer = take(&machine, MemoryKind::Device(GPU0), bytes);
    let work = Work::new("think", vec![buffer.span()], Vec::new()).with_cost(cost);
    let taken = seconds(&machine, || {
        stream.run(work).unwrap();
        stream.wait_blocking().unwrap();
    });
    assert_near(taken, 3e-3);
}

#[test]
fn rows_in_sequence_and_a_table_at_random_are_each_charged_as_they_are_touched() {
    let random = pelton_sim::AccessRates { reads_per_write: 3.0, ..SimOptions::default().random };
    let options = SimOptions { random, ..SimOptions::default() };
    let machine = machine(&preset("h200-x2").unwrap(), options).unwrap();
    let (rows, table) =
        (take(&machine, MemoryKind::PINNED, 1 << 30), take(&machine, MemoryKind::Device(GPU0), 1 << 30));
    let stream = stream(&machine, GPU0);
    let time = |is_write: bool, touched: u64| {
        let access = Access::Random { width_bytes: 8 };
        let cost = Cost { access, in_sequence: vec![0], ..Cost::STREAMING };
        let work = match is_write {
            true => Work::new("build", vec![rows.span()], vec![table.span()])
                .with_cost(Cost { write_bytes: Some(vec![touched]), ..cost }),
            false => Work::new("probe", vec![rows.span(), table.span()], Vec::new())
                .with_cost(Cost { read_bytes: Some(vec![1 << 30, touched]), ..cost }),
        };
        seconds(&machine, || {
            stream.run(work).unwrap();
            stream.wait_blocking().unwrap();
        })
    };
    let link = (1_u64 << 30) as f64 / 55.4e9;
    assert_near(time(false, 8 << 20), link);
    let accesses = 8e9;
    assert_near(time(false, 8 * accesses as u64), accesses / 41.1e9);
    assert_near(time(true, 8 * accesses as u64), 3.0 * accesses / 41.1e9);
}

#[test]
fn held_bytes_stand_for_as_many_as_the_scale_says() {
    let preset = preset("h200-x2").unwrap();
    let options = SimOptions { scale: 1000.0, work_shares: vec![("slow", 0.5)], ..SimOptions::default() };
    let scaled = machine(&preset, options).unwrap();
    let (limit, held_limit) =
        (sizes_only("h200-x2").info().devices[0].memory_bytes, scaled.info().devices[0].memory_bytes);
    assert_eq!(held_limit, limit / 1000);
    let (host, device) =
        (take(&scaled, MemoryKind::PINNED, 1 << 20), take(&scaled, MemoryKind::Device(GPU0), 1 << 20));
    let bytes = 1000.0 * f64::from(1 << 20);
    assert_near(together(&scaled, &[(Place::Device(GPU0), &host, &device)]), bytes / 55.5e9);
    let stream = stream(&scaled, GPU0);
    for (name, share) in [("quick", 1.0), ("slow", 0.5)] {
        let work = Work::new(name, vec![device.span()], Vec::new());
        let taken = seconds(&scaled, || {
            stream.run(work).unwrap();
            stream.wait_blocking().unwrap();
        });
        assert_near(taken, bytes / 4262e9 / share);
    }
    for options in [
        SimOptions { scale: 0.0, ..SimOptions::default() },
        SimOptions { work_shares: vec![("slow", f64::NAN)], ..SimOptions::default() },
    ] {
        assert_eq!(machine(&preset, options).unwrap_err().kind(), &ErrorKind::InvalidInput);
    }
}

/// One after another, each waited for: eight copies of `from` to `to`.
fn copies_in_turn(machine: &Machine, from: &Buffer, to: &Buffer, device: DeviceId) {
    let stream = stream(machine, device);
    for _ in 0..8 {
        stream.copy(&from.span(), &to.span()).unwrap();
        stream.wait_blocking().unwrap();
    }
}

#[test]
fn threads_at_once_are_not_late_for_one_another() {
    for repetition in 0..20_u64 {
        let machine = machine(&preset("h200-x2").unwrap(), SimOptions::default()).unwrap();
        let buffers = [GPU0, GPU1].map(|gpu| {
            let host = MemoryKind::Pinned(NodeId(0));
            (take(&machine, host, 64 << 20), take(&machine, MemoryKind::Device(gpu), 64 << 20))
        });
        let alone = seconds(&machine, || copies_in_turn(&machine, &buffers[0].0, &buffers[0].1, GPU0));
        let late = std::time::Duration::from_micros(100 * (repetition % 4));
        let both = seconds(&machine, || {
            machine.at_once(
                || {
                    std::thread::sleep(late);
                    copies_in_turn(&machine, &buffers[0].0, &buffers[0].1, GPU0);
                },
                || copies_in_turn(&machine, &buffers[1].0, &buffers[1].1, GPU1),
            );
        });
        // Each over its own link.
        assert_near(both, alone);
    }
}

#[test]
fn of_threads_at_once_one_may_end_early_or_never_wait() {
    let machine = sizes_only("h200-x2");
    let (host, device) =
        (take(&machine, MemoryKind::PINNED, 1 << 20), take(&machine, MemoryKind::Device(GPU0), 1 << 20));
    let work = || copies_in_turn(&machine, &host, &device, GPU0);
    assert_eq!(machine.at_once(|| 1, work).0, 1);
    machine.at_once(work, || ());
    machine.at_once(|| machine.at_once(work, || ()), || machine.at_once(|| (), work));
    work();
}

#[test]
fn memory_over_several_places_is_reached_where_it_lies() {
    let machine = sizes_only("h200-x2");
    let page = VIRTUAL_PAGE_BYTES;
    let interleaved = take(&machine, MemoryKind::Interleaved(vec![GPU0, GPU1]), 256 * page);
    let half = (128 * page) as f64;
    assert_near(reading(&machine, &interleaved, Access::Sequential), half / 397e9);
    let hybrid = MemoryKind::Hybrid { device: GPU0, device_bytes: 192 * page, node: NodeId(0) };
    let hybrid = take(&machine, hybrid, 256 * page);
    assert_near(reading(&machine, &hybrid, Access::Sequential), (64 * page) as f64 / 55.4e9);
    let managed = take(&machine, MemoryKind::Managed, 256 * page);
    assert_near(reading(&machine, &managed, Access::Sequential), (256 * page) as f64 / 12.2e9);
    assert_near(reading(&machine, &managed, Access::Sequential), (256 * page) as f64 / 4262e9);
    let stream = stream(&machine, GPU0);
    let taken = seconds(&machine, || {
        stream.prefetch(&managed.span(), Place::HOST).unwrap();
        stream.wait_blocking().unwrap();
    });
    assert_near(taken, (256 * page) as f64 / (0.88 * 55.4e9));
}

#[test]
fn a_functional_copy_moves_the_bytes() {
    let machine = functional("delta");
    let bytes = 3 * VIRTUAL_PAGE_BYTES + 17;
    let (source, target) =
        (take(&machine, MemoryKind::PINNED, bytes), take(&machine, MemoryKind::PAGEABLE, bytes));
    let pattern = |index: usize| (index * 31 % 251) as u8;
    source
        .with_bytes_mut(|bytes| bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = pattern(at)))
        .unwrap();
    let stops = [
        MemoryKind::Device(GPU0),
        MemoryKind::Device(DeviceId(3)),
        MemoryKind::Interleaved(vec![GPU0, GPU1]),
        MemoryKind::Hybrid { device: GPU1, device_bytes: VIRTUAL_PAGE_BYTES, node: NodeId(1) },
        MemoryKind::Managed,
    ];
    let stream = stream(&machine, GPU0);
    let mut at = source.clone();
    for kind in stops {
        let next = take(&machine, kind, bytes);
        stream.copy(&at.span(), &next.span()).unwrap();
        at = next;
    }
    stream.copy(&at.span(), &target.span()).unwrap();
    assert!(target.with_bytes(|_| ()).is_err(), "in use until the copy is complete");
    stream.wait_blocking().unwrap();
    target
        .with_bytes(|bytes| bytes.iter().enumerate().for_each(|(at, byte)| assert_eq!(*byte, pattern(at))))
        .unwrap();
}

#[test]
fn host_forms_happen_in_the_order_of_virtual_time() {
    let machine = functional("h200-x2");
    let order = Arc::new(Mutex::new(Vec::new()));
    let work = |name: &'static str, milliseconds: u64| {
        let order = Arc::clone(&order);
        Work::new(name, Vec::new(), Vec::new())
            .with_cost(Cost { compute: Duration::from_millis(milliseconds), ..Cost::STREAMING })
            .with_host(move || {
                order.lock().unwrap().push(name);
                Ok(())
            })
    };
    let (slow, fast) = (stream(&machine, GPU0), stream(&machine, GPU1));
    slow.run(work("slow, at 5", 5)).unwrap();
    fast.run(work("fast, at 1", 1)).unwrap();
    fast.run(work("fast, at 4", 3)).unwrap();
    slow.run(work("slow, at 6", 1)).unwrap();
    slow.wait_blocking().unwrap();
    assert_eq!(*order.lock().unwrap(), ["fast, at 1", "fast, at 4", "slow, at 5", "slow, at 6"]);
}

#[test]
fn an_error_ends_what_depends_on_it_and_reaches_who_waits() {
    let machine = functional("h200-x2");
    let happened = Arc::new(Mutex::new(0));
    let count = || {
        let happened = Arc::clone(&happened);
        Work::new("count", Vec::new(), Vec::new()).with_host(move || {
            *happened.lock().unwrap() += 1;
            Ok(())
        })
    };
    let (failing, dependent, other) =
        (stream(&machine, GPU0), stream(&machine, GPU1), stream(&machine, GPU1));
    let fail = Work::new("fail", Vec::new(), Vec::new()).with_host(|| Err(Error::corrupt("chunk 3")));
    failing.run(fail).unwrap();
    failing.run(count()).unwrap();
    dependent.wait_for(&failing.record().unwrap()).unwrap();
    dependent.run(count()).unwrap();
    other.run(count()).unwrap();
    for stream in [&failing, &dependent] {
        let error = stream.wait_blocking().unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Corrupt);
        assert!(error.to_string().contains("chunk 3"), "{error}");
    }
    other.wait_blocking().unwrap();
    assert_eq!(*happened.lock().unwrap(), 1);
}

#[test]
fn waiting_for_what_can_never_happen_is_an_error_not_a_hang() {
    let machine = functional("h200-x2");
    let stream = Arc::new(stream(&machine, GPU0));
    let seen = Arc::new(Mutex::new(None));
    let (inner, inner_seen) = (Arc::clone(&stream), Arc::clone(&seen));
    let work = Work::new("wait for myself", Vec::new(), Vec::new()).with_host(move || {
        *inner_seen.lock().unwrap() = inner.wait_blocking().err().map(|error| error.to_string());
        Ok(())
    });
    stream.run(work).unwrap();
    stream.wait_blocking().unwrap();
    assert!(seen.lock().unwrap().as_ref().unwrap().contains("waiting inside an operation"));
}

#[test]
fn what_the_machine_lacks_is_refused_as_elsewhere() {
    let machine = sizes_only("h200-x2");
    assert_eq!(machine.stream(Place::Device(DeviceId(2))).unwrap_err().kind(), &ErrorKind::InvalidInput);
    assert_eq!(machine.stream(Place::Host(NodeId(1))).unwrap_err().kind(), &ErrorKind::InvalidInput);
    let (host, device) =
        (take(&machine, MemoryKind::PAGEABLE, 4096), take(&machine, MemoryKind::Device(GPU0), 4096));
    let cores = machine.stream(Place::HOST).unwrap();
    assert_eq!(cores.copy(&host.span(), &device.span()).unwrap_err().kind(), &ErrorKind::Unsupported);
    let work = Work::new("reads pageable", vec![host.span()], Vec::new());
    assert_eq!(stream(&machine, GPU0).run(work).unwrap_err().kind(), &ErrorKind::Unsupported);
    let too_much = machine.allocate(MemoryKind::PAGEABLE, 1 << 40, OnFull::Refuse).unwrap_err();
    assert!(matches!(too_much.kind(), ErrorKind::OutOfMemory { .. }), "{too_much}");
    assert!(!host.holds_bytes());
    assert!(machine.info().is_simulated);
    let coherent = sizes_only("ac922");
    let host = take(&coherent, MemoryKind::PAGEABLE, 4096);
    stream(&coherent, GPU0).run(Work::new("reads pageable", vec![host.span()], Vec::new())).unwrap();
}

#[test]
fn a_topology_or_option_that_makes_no_sense_is_refused() {
    let mut topology = preset("delta").unwrap();
    topology.links[0].forward_bytes_per_s = f64::NAN;
    assert!(machine(&topology, SimOptions::default()).is_err());
    let options = SimOptions { pageable_bytes_per_s: 0.0, ..SimOptions::default() };
    assert!(
        machine(&preset("delta").unwrap(), options).unwrap_err().to_string().contains("pageable_bytes_per_s")
    );
}

#[test]
fn ten_thousand_transfers_all_arrive() {
    let topology = preset("dgx1").unwrap();
    let (machine, probe) = observed(&topology, SimOptions::default()).unwrap();
    let bytes = 2 << 20;
    let kinds: Vec<MemoryKind> = (0..8).map(|id| MemoryKind::Device(DeviceId(id))).collect();
    let buffers: Vec<Buffer> = kinds.iter().map(|kind| take(&machine, kind.clone(), bytes)).collect();
    let streams: Vec<Stream> = (0..64).map(|index| stream(&machine, DeviceId(index / 8))).collect();
    let mut transfers = Vec::new();
    for round in 0..10_000 {
        let from = round % 64 / 8;
        let to = (from + 1 + round / 64 % 7) % 8;
        streams[round % 64].copy(&buffers[from].span(), &buffers[to].span()).unwrap();
        transfers.push((kinds[from].clone(), kinds[to].clone(), bytes));
    }
    streams.iter().for_each(|stream| stream.wait_blocking().unwrap());
    for (load, (forward, backward)) in probe.link_loads().iter().zip(expected_loads(&topology, &transfers)) {
        assert!((load.forward_bytes - forward).abs() < 1000.0, "{} of {forward}", load.forward_bytes);
        assert!((load.backward_bytes - backward).abs() < 1000.0, "{} of {backward}", load.backward_bytes);
    }
}

fn rate() -> impl Strategy<Value = f64> {
    (1.0..100.0_f64).prop_map(|rate| rate * 1e9)
}

fn link(a: Vertex, b: Vertex, kind: LinkKind, rates: (f64, f64, f64)) -> Link {
    Link {
        a,
        b,
        kind,
        forward_bytes_per_s: rates.0,
        backward_bytes_per_s: rates.1,
        duplex_bytes_per_s: rates.0.max(rates.1) * (1.0 + rates.2 / 100e9),
        latency_s: 1e-6,
        bandwidth_by_size: Vec::new(),
        is_measured: false,
    }
}

/// Two nodes, each with a switch; devices hang on one of the four; some pairs have an NVLink.
fn topologies() -> impl Strategy<Value = Topology> {
    let rates = || (rate(), rate(), rate());
    let devices = prop::collection::vec((0..4_u32, rates(), 1..4_u32), 2..6);
    let pairs = prop::collection::vec((0..5_u32, 0..5_u32, rates()), 0..5);
    (prop::array::uniform3(rates()), devices, pairs, rate()).prop_map(|(fixed, devices, pairs, memory)| {
        let pcie = LinkKind::Pcie { generation: 3, width: 16 };
        let hosts = [Vertex::Node(0), Vertex::Node(1), Vertex::Switch(0), Vertex::Switch(1)];
        let mut links = vec![
            link(hosts[0], hosts[1], LinkKind::Socket, fixed[0]),
            link(hosts[0], hosts[2], pcie, fixed[1]),
            link(hosts[1], hosts[3], pcie, fixed[2]),
        ];
        let mut vertices = Vec::new();
        for (id, (host, rates, copy_engine_count)) in devices.into_iter().enumerate() {
            let id = id as u32;
            links.push(link(hosts[host as usize], Vertex::Device(id), pcie, rates));
            vertices.push(DeviceVertex {
                id,
                name: "device".to_owned(),
                node: host % 2,
                memory_bytes: 1 << 40,
                memory_bytes_per_s: 5.0 * memory,
                copy_engine_count,
                pci_address: None,
            });
        }
        for (one, other, rates) in pairs {
            let (a, b) = (Vertex::Device(one), Vertex::Device(other));
            let count = vertices.len() as u32;
            let is_new = !links.iter().any(|link| link.other_end(a) == Some(b));
            if one < other && other < count && is_new {
                links.push(link(a, b, LinkKind::NvLink { count: 1 }, rates));
            }
        }
        let node = |id| HostNode {
            id,
            core_count: 1,
            memory_bytes: 1 << 40,
            memory_bytes_per_s: memory,
            memory_write_bytes_per_s: 0.8 * memory,
        };
        Topology {
            name: "random".to_owned(),
            origin: Origin::Imported,
            nodes: vec![node(0), node(1)],
            devices: vertices,
            switches: ["a", "b"].map(|name| Switch { name: name.to_owned() }).to_vec(),
            storages: Vec::new(),
            nics: Vec::new(),
            links,
        }
    })
}

fn kind_of(index: usize, device_count: usize) -> MemoryKind {
    match index % (device_count + 2) {
        node @ 0..2 => MemoryKind::Pinned(NodeId(node as u32)),
        device => MemoryKind::Device(DeviceId(device as u32 - 2)),
    }
}

/// What crosses each link if all transfers take their direct routes: forward, backward.
fn expected_loads(topology: &Topology, transfers: &[(MemoryKind, MemoryKind, usize)]) -> Vec<(f64, f64)> {
    let mut loads = vec![(0.0, 0.0); topology.links.len()];
    let mut routes = HashMap::new();
    for (from, to, bytes) in transfers {
        let [from, to] = [from, to].map(|kind| Vertex::from(kind.home().unwrap()));
        let route = routes.entry((from, to)).or_insert_with(|| direct_route(topology, from, to).unwrap());
        for hop in route.hops() {
            let (forward, backward) = &mut loads[hop.link];
            *(if hop.is_forward { forward } else { backward }) += *bytes as f64;
        }
    }
    loads
}

/// Runs the transfers in three streams a device; ends of all of them.
fn run_all(machine: &Machine, transfers: &[(MemoryKind, MemoryKind, usize)]) -> Vec<Duration> {
    let mut streams: Vec<Vec<Stream>> = Vec::new();
    for info in &machine.info().devices {
        streams.push((0..3).map(|_| stream(machine, info.id)).collect());
    }
    let mut begin_and_ends = Vec::new();
    for (index, (from, to, bytes)) in transfers.iter().enumerate() {
        let (source, target) = (take(machine, from.clone(), *bytes), take(machine, to.clone(), *bytes));
        let stream = &streams[index % streams.len()][index % 3];
        let begin = stream.record().unwrap();
        stream.copy(&source.span(), &target.span()).unwrap();
        begin_and_ends.push((begin, stream.record().unwrap()));
    }
    let mut before = machine.now();
    for (begin, end) in &begin_and_ends {
        end.wait_blocking().unwrap();
        assert!(machine.now() >= before, "time runs backwards");
        assert!(begin.is_complete().unwrap());
        before = machine.now();
    }
    begin_and_ends.iter().map(|(begin, end)| end.elapsed_since(begin).unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn links_carry_what_they_can_and_all_bytes_arrive(
        topology in topologies(),
        choices in prop::collection::vec((0..100_usize, 0..100_usize, 1..100_000_000_usize), 1..40),
        seed in any::<u64>(),
        jitter in prop::sample::select(vec![0.0, 0.3]),
    ) {
        let count = topology.devices.len();
        let transfers: Vec<_> = choices
            .into_iter()
            .map(|(from, to, bytes)| (kind_of(from, count), kind_of(to, count), bytes))
            .collect();
        let options = SimOptions { seed, jitter, ..SimOptions::default() };
        let (simulated, probe) = observed(&topology, options.clone()).unwrap();
        let times = run_all(&simulated, &transfers);

        let expected = expected_loads(&topology, &transfers);
        for ((load, link), (forward, backward)) in probe.link_loads().iter().zip(&topology.links).zip(expected) {
            let almost = 1.0 + 1e-9;
            prop_assert!(load.peak_forward_bytes_per_s <= link.forward_bytes_per_s * almost);
            prop_assert!(load.peak_backward_bytes_per_s <= link.backward_bytes_per_s * almost);
            prop_assert!(load.peak_duplex_bytes_per_s <= link.duplex_bytes_per_s * almost);
            prop_assert!((load.forward_bytes - forward).abs() <= 1.0, "{} of {forward}", load.forward_bytes);
            prop_assert!((load.backward_bytes - backward).abs() <= 1.0, "{} of {backward}", load.backward_bytes);
        }

        let again = machine(&topology, options).unwrap();
        prop_assert_eq!(run_all(&again, &transfers), times);
        prop_assert_eq!(again.now(), simulated.now());
    }
}
