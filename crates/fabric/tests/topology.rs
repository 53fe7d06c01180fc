//! The JSON form of a topology, what is refused, and routes.

use pelton_device::DeviceId;
use pelton_device::Place;
use pelton_error::ErrorKind;
use pelton_fabric::{
    Link, LinkKind, PRESET_NAMES, Topology, Vertex, best_route, direct_route, preset, routes,
};

fn gpu(id: u32) -> Vertex {
    Vertex::from(Place::Device(DeviceId(id)))
}

#[test]
fn every_preset_survives_json() {
    for name in PRESET_NAMES {
        let topology = preset(name).unwrap();
        assert_eq!(Topology::from_json(&topology.to_json()).unwrap(), topology);
    }
}

#[test]
fn the_example_of_the_specification_is_a_topology() {
    let page = include_str!("../../../docs/specs/topology.md");
    let (_, rest) = page.split_once("```json\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let topology = Topology::from_json(example).unwrap();
    assert_eq!(topology.links.len(), 3);
    assert_eq!(
        topology.links[topology.link_between(Vertex::Node(0), Vertex::Switch(0)).unwrap()].latency_s,
        5e-7
    );
}

/// The preset, damaged, is refused with a message that contains `part`.
fn refused(damage: impl FnOnce(&mut Topology), part: &str) {
    let mut topology = preset("ac922").unwrap();
    damage(&mut topology);
    let error = Topology::from_json(&topology.to_json()).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::InvalidInput);
    assert!(error.to_string().contains(part), "{error} does not contain '{part}'");
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    refused(|topology| topology.links[1].b = gpu(9), "link node0 - gpu9: ends at gpu9, which is missing");
    refused(|topology| topology.links[1].b = Vertex::Node(0), "link node0 - node0: both ends are one");
    refused(|topology| topology.links[1].forward_bytes_per_s = 0.0, "gpu0: forward_bytes_per_s is 0");
    refused(|topology| topology.links[1].duplex_bytes_per_s = -1.0, "gpu0: duplex_bytes_per_s is -1");
    refused(|topology| topology.links[1].latency_s = -1e-6, "latency_s");
    refused(|topology| topology.devices[2].copy_engine_count = 0, "gpu2: no copy engine");
    refused(|topology| topology.devices[2].node = 7, "gpu2: is of node7");
    refused(|topology| topology.devices[2].id = 3, "gpu3: listed at place 2");
    refused(|topology| topology.nodes.clear(), "has no host node");
    refused(
        |topology| topology.nodes[1].memory_write_bytes_per_s = 1e12,
        "node1: memory_write_bytes_per_s exceeds",
    );
    refused(
        |topology| {
            let Link { a, b, .. } = topology.links[1];
            topology.links.push(Link { a: b, b: a, ..topology.links[1].clone() });
        },
        "a second link beside link node0 - gpu0",
    );
}

#[test]
fn a_misspelt_field_is_refused_with_its_place() {
    let text = preset("delta").unwrap().to_json().replacen("\"latency_s\"", "\"latency\"", 1);
    let error = Topology::from_json(&text).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::InvalidInput);
    assert!(error.to_string().contains("unknown field `latency`"), "{error}");
    assert!(error.to_string().contains("line "), "{error}");
}

#[test]
fn routes_have_no_loops_and_join_their_ends() {
    let topology = preset("dgx1").unwrap();
    let found = routes(&topology, gpu(0), gpu(5), 3);
    assert!(!found.is_empty());
    for route in &found {
        assert!(route.intermediates().len() <= 3);
        assert_eq!((route.vertices()[0], route.vertices()[route.vertices().len() - 1]), (gpu(0), gpu(5)));
        let mut seen = route.vertices().to_vec();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), route.vertices().len(), "{route:?}");
        for (index, hop) in route.hops().iter().enumerate() {
            let link = &topology.links[hop.link];
            let ends = if hop.is_forward { (link.a, link.b) } else { (link.b, link.a) };
            assert_eq!(ends, (route.vertices()[index], route.vertices()[index + 1]));
        }
    }
    assert!(routes(&topology, gpu(0), gpu(99), 3).is_empty());
}

#[test]
fn the_hybrid_cube_mesh_has_six_links_a_device_and_sixteen_pairs() {
    let topology = preset("dgx1").unwrap();
    let nvlinks: Vec<&Link> =
        topology.links.iter().filter(|link| matches!(link.kind, LinkKind::NvLink { .. })).collect();
    assert_eq!(nvlinks.len(), 16);
    for id in 0..8 {
        let count: u32 = nvlinks
            .iter()
            .filter(|link| link.other_end(gpu(id)).is_some())
            .map(|link| if let LinkKind::NvLink { count } = link.kind { count } else { 0 })
            .sum();
        assert_eq!(count, 6, "gpu{id}");
    }
}

#[test]
fn a_router_goes_around_where_a_copy_is_staged() {
    let topology = preset("dgx1").unwrap();
    let direct = direct_route(&topology, gpu(0), gpu(5)).unwrap();
    assert!(direct.is_staged());
    assert!(!direct.is_peer(&topology));
    let best = best_route(&topology, gpu(0), gpu(5), 1, 64 << 20).unwrap();
    assert!(!best.is_staged());
    assert!(best.predict(&topology, 64 << 20) < direct.predict(&topology, 64 << 20));
    assert_eq!(best.intermediates().len(), 1);
}

#[test]
fn neighbours_behind_one_switch_share_its_uplink() {
    let topology = preset("dgx-a100").unwrap();
    let route = |id| direct_route(&topology, Vertex::Node(0), gpu(id)).unwrap();
    let uplink = topology.link_between(Vertex::Node(0), Vertex::Switch(1)).unwrap();
    assert_eq!(route(0).shared_links(&route(1)), vec![uplink]);
    assert!(route(0).shared_links(&route(2)).is_empty());
    assert!(direct_route(&topology, gpu(0), gpu(7)).unwrap().is_peer(&topology));
}

#[test]
fn predictions_on_the_reference_machine_are_its_measurements() {
    let topology = preset("h200-x2").unwrap();
    let to_device = direct_route(&topology, Vertex::Node(0), gpu(1)).unwrap();
    let to_peer = direct_route(&topology, gpu(0), gpu(1)).unwrap();
    for (route, bytes, measured) in [
        (&to_device, 1 << 20, 48.4e9),
        (&to_device, 4 << 20, 53.5e9),
        (&to_device, 4 << 30, 55.5e9),
        (&to_peer, 64 << 10, 24e9),
        (&to_peer, 2 << 20, 267e9),
        (&to_peer, 4 << 30, 397e9),
    ] {
        let rate = bytes as f64 / route.predict(&topology, bytes).as_secs_f64();
        assert!((rate / measured - 1.0).abs() < 0.01, "{bytes} bytes: {rate} for {measured}");
    }
}
