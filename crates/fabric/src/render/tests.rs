//! Tables and drawings of machines from a laptop to eight GPUs.

use super::layout::{self, Frame};
use super::wires::{self, CHARACTER, Spot};
use super::{bytes, gb_per_s, path, svg, table};
use crate::{
    DeviceVertex, GB_PER_S, HostNode, Link, LinkKind, Nic, Origin, Storage, Switch, Topology, Vertex,
};

fn node(id: u32) -> HostNode {
    HostNode {
        id,
        core_count: 32,
        memory_bytes: 256 << 30,
        memory_bytes_per_s: 125.0 * GB_PER_S,
        memory_write_bytes_per_s: 100.0 * GB_PER_S,
    }
}

fn device(id: u32, node: u32) -> DeviceVertex {
    DeviceVertex {
        id,
        name: "NVIDIA H200".to_string(),
        node,
        memory_bytes: 140 << 30,
        memory_bytes_per_s: 4262.0 * GB_PER_S,
        copy_engine_count: 2,
        pci_address: Some(format!("0000:{:02x}:00.0", 0x19 + id)),
    }
}

fn link(a: Vertex, b: Vertex, kind: LinkKind, gb_per_s: f64) -> Link {
    Link {
        a,
        b,
        kind,
        forward_bytes_per_s: gb_per_s * GB_PER_S,
        backward_bytes_per_s: gb_per_s * GB_PER_S,
        duplex_bytes_per_s: 1.9 * gb_per_s * GB_PER_S,
        latency_s: 5e-6,
        bandwidth_by_size: Vec::new(),
        is_measured: false,
    }
}

const PCIE: LinkKind = LinkKind::Pcie { generation: 4, width: 16 };

fn machine(name: &str, node_count: u32, device_count: u32) -> Topology {
    Topology {
        name: name.to_string(),
        origin: Origin::Preset,
        nodes: (0..node_count).map(node).collect(),
        devices: (0..device_count).map(|id| device(id, id * node_count / device_count)).collect(),
        switches: Vec::new(),
        storages: Vec::new(),
        nics: Vec::new(),
        links: (1..node_count)
            .map(|id| link(Vertex::Node(id - 1), Vertex::Node(id), LinkKind::Socket, 40.0))
            .collect(),
    }
}

fn add_drive(topology: &mut Topology, above: Vertex) {
    let index = topology.storages.len() as u32;
    let name = format!("nvme{index}n1");
    topology.storages.push(Storage { name, model: "Example SSD".to_string(), bytes: 4 << 40, is_nvme: true });
    let kind = LinkKind::Pcie { generation: 4, width: 4 };
    topology.links.push(link(above, Vertex::Storage(index), kind, 6.1));
}

fn add_card(topology: &mut Topology, above: Vertex) {
    let index = topology.nics.len() as u32;
    topology.nics.push(Nic { name: format!("eth{index}"), has_rdma: index > 0 });
    topology.links.push(link(above, Vertex::Nic(index), LinkKind::Attachment, 12.5));
}

fn laptop() -> Topology {
    let mut topology = machine("laptop", 1, 0);
    add_drive(&mut topology, Vertex::Node(0));
    add_card(&mut topology, Vertex::Node(0));
    topology
}

fn two_gpus() -> Topology {
    let mut topology = machine("two", 1, 2);
    for id in 0..2 {
        let mut host = link(Vertex::Node(0), Vertex::Device(id), PCIE, 55.5);
        host.backward_bytes_per_s = 55.4 * GB_PER_S;
        host.is_measured = true;
        topology.links.push(host);
    }
    let kind = LinkKind::NvLink { count: 18 };
    topology.links.push(link(Vertex::Device(1), Vertex::Device(0), kind, 397.0));
    add_drive(&mut topology, Vertex::Node(0));
    topology
}

/// Four GPUs on two sockets: a ring of NVLinks.
fn ring() -> Topology {
    let mut topology = machine("ring", 2, 4);
    for id in 0..4 {
        topology.links.push(link(Vertex::Node(id / 2), Vertex::Device(id), PCIE, 12.5));
        let kind = LinkKind::NvLink { count: 2 };
        topology.links.push(link(Vertex::Device(id), Vertex::Device((id + 1) % 4), kind, 48.0));
    }
    topology
}

/// Eight GPUs, a PCIe switch for each pair with a drive and a card, an NVSwitch.
fn switched() -> Topology {
    let mut topology = machine("switched", 2, 8);
    for id in 0..4 {
        topology.switches.push(Switch { name: format!("0000:{:02x}:00.0", 0x10 + id) });
        let switch = Vertex::Switch(id);
        topology.links.push(link(Vertex::Node(id / 2), switch, PCIE, 24.5));
        topology.links.push(link(switch, Vertex::Device(2 * id), PCIE, 24.5));
        topology.links.push(link(switch, Vertex::Device(2 * id + 1), PCIE, 24.5));
        add_drive(&mut topology, switch);
        add_card(&mut topology, switch);
    }
    topology.switches.push(Switch { name: "NVSwitch".to_string() });
    for id in 0..8 {
        let kind = LinkKind::NvLink { count: 12 };
        topology.links.push(link(Vertex::Device(id), Vertex::Switch(4), kind, 279.0));
    }
    for _ in 0..6 {
        add_drive(&mut topology, Vertex::Node(1));
    }
    topology
}

/// Eight GPUs in a hybrid cube mesh, four nodes that all know each other.
fn mesh() -> Topology {
    let mut topology = machine("mesh", 4, 8);
    topology.links.clear();
    for a in 0..4 {
        for b in a + 1..4 {
            topology.links.push(link(Vertex::Node(a), Vertex::Node(b), LinkKind::Socket, 40.0));
        }
    }
    for id in 0..8 {
        topology.links.push(link(Vertex::Node(id / 2), Vertex::Device(id), PCIE, 12.5));
    }
    let pairs = [
        (0, 1),
        (0, 2),
        (0, 3),
        (0, 4),
        (1, 2),
        (1, 3),
        (1, 5),
        (2, 3),
        (2, 6),
        (3, 7),
        (4, 5),
        (4, 6),
        (4, 7),
        (5, 6),
        (5, 7),
        (6, 7),
    ];
    for (a, b) in pairs {
        let kind = LinkKind::NvLink { count: 1 + u32::from(b == a + 3) };
        topology.links.push(link(Vertex::Device(a), Vertex::Device(b), kind, 24.0));
    }
    topology
}

/// Two machines that a network switch joins.
fn cluster() -> Topology {
    let mut topology = machine("cluster", 2, 2);
    topology.links.clear();
    topology.switches.push(Switch { name: "network".to_string() });
    for id in 0..2 {
        topology.links.push(link(Vertex::Node(id), Vertex::Device(id), PCIE, 12.5));
        add_card(&mut topology, Vertex::Node(id));
        topology.links.push(link(Vertex::Nic(id), Vertex::Switch(0), LinkKind::Network, 12.0));
    }
    topology
}

fn one_gpu() -> Topology {
    let mut topology = laptop();
    topology.name = "single".to_string();
    topology.devices.push(device(0, 0));
    topology.links.push(link(Vertex::Node(0), Vertex::Device(0), PCIE, 24.0));
    topology
}

fn machines() -> Vec<Topology> {
    let made = [laptop(), one_gpu(), two_gpus(), ring(), switched(), mesh(), cluster()];
    let known = crate::PRESET_NAMES.iter().filter_map(|name| crate::preset(name));
    made.into_iter().chain(known).collect()
}

fn overlap(a: &Frame, b: &Frame) -> bool {
    a.x < b.right() && b.x < a.right() && a.y < b.bottom() && b.y < a.bottom()
}

fn line((x1, y1): (f64, f64), (x2, y2): (f64, f64)) -> Frame {
    let (width, height) = ((x1 - x2).abs().max(0.1), (y1 - y2).abs().max(0.1));
    Frame { x: x1.min(x2), y: y1.min(y2), width, height }
}

fn label_frame(spot: Spot, character_count: usize) -> Option<Frame> {
    let width = character_count as f64 * CHARACTER;
    match spot {
        Spot::RightOf(x, y) => Some(Frame { x, y: y - 10.0, width, height: 26.0 }),
        Spot::On(x, y) => Some(Frame { x: x - width / 2.0, y: y - 8.0, width, height: 16.0 }),
        Spot::Around(x, y) => Some(Frame { x: x - width / 2.0, y: y - 16.0, width, height: 32.0 }),
        Spot::InBox => None,
    }
}

#[test]
fn boxes_and_labels_of_a_drawing_overlap_nothing() {
    for topology in machines() {
        let layout = layout::place(&topology, 100.0);
        let wires = wires::draw(&topology, &layout);
        let boxes: Vec<_> = layout.frames.iter().chain(&wires.bottom_switches).collect();
        let vertex_count = topology.nodes.len()
            + topology.devices.len()
            + topology.switches.len()
            + topology.storages.len()
            + topology.nics.len();
        assert_eq!(boxes.len(), vertex_count, "{}", topology.name);
        for (index, (one, frame)) in boxes.iter().enumerate() {
            for (other, second) in &boxes[index + 1..] {
                assert!(!overlap(frame, second), "{}: {one} and {other}", topology.name);
            }
        }
        let labels: Vec<Frame> = wires.wires.iter().filter_map(|wire| label_frame(wire.label, 13)).collect();
        for (index, label) in labels.iter().enumerate() {
            for (vertex, frame) in &boxes {
                assert!(!overlap(label, frame), "{}: a label {label:?} and {vertex}", topology.name);
            }
            for other in &labels[index + 1..] {
                assert!(!overlap(label, other), "{}: labels {label:?} {other:?}", topology.name);
            }
        }
        // Labels on a line hide what is behind them; those beside one must have nothing behind them.
        for wire in wires.wires.iter().filter(|wire| matches!(wire.label, Spot::RightOf(..))) {
            let label = label_frame(wire.label, 13).unwrap();
            let lines = wires
                .wires
                .iter()
                .flat_map(|wire| wire.corners.windows(2))
                .map(|ends| line(ends[0], ends[1]));
            for line in lines {
                assert!(!overlap(&label, &line), "{}: a label {label:?} and {line:?}", topology.name);
            }
        }
    }
}

#[test]
fn every_link_is_drawn_or_listed_and_lines_cross_no_box() {
    for topology in machines() {
        let layout = layout::place(&topology, 100.0);
        let wires = wires::draw(&topology, &layout);
        let mut drawn: Vec<usize> =
            wires.wires.iter().map(|wire| wire.link).chain(wires.further.clone()).collect();
        drawn.sort_unstable();
        assert_eq!(drawn, (0..topology.links.len()).collect::<Vec<_>>(), "{}", topology.name);
        assert_eq!(wires.further, Vec::<usize>::new(), "{}", topology.name);
        for wire in &wires.wires {
            for ends in wire.corners.windows(2) {
                let line = line(ends[0], ends[1]);
                // A line may touch the edge of the box that it ends at.
                for (vertex, frame) in layout.frames.iter().chain(&wires.bottom_switches) {
                    let inner = Frame {
                        x: frame.x + 1.0,
                        y: frame.y + 1.0,
                        width: frame.width - 2.0,
                        height: frame.height - 2.0,
                    };
                    assert!(!overlap(&line, &inner), "{}: {wire:?} crosses {vertex}", topology.name);
                }
            }
        }
    }
}

#[test]
fn brackets_meet_their_boxes_at_points_of_their_own() {
    for topology in machines() {
        let wires = wires::draw(&topology, &layout::place(&topology, 100.0)).wires;
        let brackets = wires.iter().filter(|wire| matches!(wire.label, Spot::On(..)));
        let ends: Vec<(f64, f64)> = brackets.flat_map(|wire| [wire.corners[0], wire.corners[3]]).collect();
        for (index, (x, y)) in ends.iter().enumerate() {
            let is_near = |other: &(f64, f64)| other.1 == *y && (other.0 - x).abs() < 6.0;
            assert!(!ends[index + 1..].iter().any(is_near), "{}: two lines at {x}, {y}", topology.name);
        }
    }
}

/// Checks that tags are closed in order and that text and attributes hold no raw markup; gives the texts.
fn check_xml(document: &str) -> Vec<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut texts = Vec::new();
    let mut rest = document;
    while let Some(start) = rest.find('<') {
        let text = &rest[..start];
        assert!(!text.contains('>'), "raw '>' in {text:?}");
        for (index, _) in text.match_indices('&') {
            let entity = text[index..].split(';').next().unwrap();
            assert!(["&amp", "&lt", "&gt", "&quot", "&apos"].contains(&entity), "{entity}");
        }
        if !text.trim().is_empty() {
            texts.push(text.to_string());
        }
        let end = start + rest[start..].find('>').expect("a tag ends");
        let tag = &rest[start + 1..end];
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().unwrap());
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty(), "{open:?}");
    assert!(rest.trim().is_empty());
    texts
}

#[test]
fn drawings_are_well_formed_and_name_everything() {
    for topology in machines() {
        let document = svg(&topology);
        let texts = check_xml(&document).join("\n");
        for device in &topology.devices {
            assert!(texts.contains(&format!("gpu{}\n", device.id)), "{}", topology.name);
        }
        assert!(!document.contains("NaN") && !document.contains("inf"), "{}", topology.name);
        println!("{document}");
    }
}

#[test]
fn names_from_outside_are_escaped() {
    let mut topology = one_gpu();
    topology.name = "<a & \"b\">".to_string();
    topology.devices[0].name = "'\u{0}</text>".to_string();
    topology.storages[0].name = "]]>&".to_string();
    let texts = check_xml(&svg(&topology)).join("\n");
    assert!(texts.contains("machine &lt;a &amp; &quot;b&quot;&gt;"), "{texts}");
    assert!(texts.contains("&apos;\u{fffd}&lt;/text&gt;"), "{texts}");
}

#[test]
fn measured_links_are_solid_and_others_dashed() {
    let document = svg(&two_gpus());
    let lines: Vec<&str> = document.lines().filter(|line| line.starts_with("<polyline")).collect();
    assert_eq!(lines.len(), 4);
    assert_eq!(lines.iter().filter(|line| !line.contains("dasharray")).count(), 2);
}

#[test]
fn paths_go_over_switches_and_nodes_but_not_over_devices() {
    let topology = ring();
    let path = path::between(&topology, Vertex::Device(0), Vertex::Device(2)).unwrap();
    assert_eq!(path.inner, [Vertex::Node(0), Vertex::Node(1)]);
    assert_eq!(path.word(&topology), "host");
    assert_eq!(path.bytes_per_s, 12.5 * GB_PER_S);

    let topology = switched();
    let path = path::between(&topology, Vertex::Device(0), Vertex::Device(1)).unwrap();
    // Both switches are two links away; the NVSwitch is the wider.
    assert_eq!((path.word(&topology).as_str(), path.bytes_per_s), ("NVSwitch", 279.0 * GB_PER_S));
    let path = path::between(&topology, Vertex::Node(0), Vertex::Device(7)).unwrap();
    assert_eq!(path.inner, [Vertex::Node(1), Vertex::Switch(3)]);

    let topology = cluster();
    let path = path::between(&topology, Vertex::Device(0), Vertex::Node(1)).unwrap();
    assert_eq!(path.word(&topology), "network");
    assert_eq!(path::between(&laptop(), Vertex::Node(0), Vertex::Device(0)), None);
}

#[test]
fn table_of_two_gpus_reads_like_this() {
    let expected = "\
machine two (preset)

node   cores     memory  GB/s
node0     32  256.0 GiB   125

device  name            memory  GB/s  node   PCI address   copies at once
gpu0    NVIDIA H200  140.0 GiB  4262  node0  0000:19:00.0               2
gpu1    NVIDIA H200  140.0 GiB  4262  node0  0000:1a:00.0               2

from, to        node0         gpu0         gpu1
node0               -  P4x16 55.5m  P4x16 55.5m
gpu0      P4x16 55.4m            -     NV18 397
gpu1      P4x16 55.4m     NV18 397            -
  GB/s in one direction; m: measured on this machine; others are estimates or stated figures
  P4x16: PCIe generation 4, 16 lanes
  NV4: 4 NVLinks

storage  model           size  GB/s  attached to
nvme0n1  Example SSD  4.0 TiB  6.10  node0

link            kind        GB/s there  back  both  latency
node0  gpu0     PCIe4x16          55.5  55.4   105   5.0 us  m
node0  gpu1     PCIe4x16          55.5  55.4   105   5.0 us  m
gpu1   gpu0     NVLink x18         397   397   754   5.0 us
node0  nvme0n1  PCIe4x4           6.10  6.10  11.6   5.0 us
";
    assert_eq!(table(&two_gpus()), expected);
}

#[test]
fn legend_explains_the_words_that_occur_and_no_others() {
    let text = table(&switched());
    for word in ["switch: ", "NVSwitch: ", "socket: ", "host: "] {
        assert!(text.contains(&format!("\n  {word}")), "{word} in {text}");
    }
    for word in ["NV4: ", "P4x16: ", "network: "] {
        assert!(!text.contains(&format!("\n  {word}")), "{word} in {text}");
    }
    assert!(table(&ring()).contains("\n  NV4: "));
}

#[test]
fn tables_of_all_machines_are_aligned_and_narrow_enough() {
    for topology in machines() {
        let text = table(&topology);
        println!("{text}");
        assert!(text.lines().all(|line| line == line.trim_end()), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 150), "{text}");
    }
}

#[test]
fn figures_have_three_digits() {
    let check = |value: f64, expected: &str| assert_eq!(gb_per_s(value * GB_PER_S), expected);
    check(0.126, "0.13");
    check(9.99, "9.99");
    check(9.996, "10.0");
    check(55.46, "55.5");
    check(99.96, "100");
    check(4262.0, "4262");
}

#[test]
fn sizes_are_in_the_largest_unit() {
    assert_eq!(bytes(0), "0 B");
    assert_eq!(bytes(1023), "1023 B");
    assert_eq!(bytes(1024), "1.0 KiB");
    assert_eq!(bytes(u64::MAX), "16384.0 PiB");
}
