//! A machine as plain text.
//!
//! Sections: nodes, devices, how each pair of places is linked, switches, storage, network cards, links. Sections of
//! which there is nothing are left out. Numbers are aligned to the right.

use crate::{Link, Origin, Topology, Vertex};

use super::path;
use super::{bytes, gb_per_s, kind_word};

/// The machine as text, each line ended.
pub fn table(topology: &Topology) -> String {
    let origin = match topology.origin {
        Origin::Discovered => "discovered",
        Origin::Preset => "preset",
        Origin::Imported => "imported",
    };
    let mut sections = vec![format!("machine {} ({origin})\n", topology.name)];
    sections.push(nodes(topology).to_text());
    sections.extend(some(devices(topology)));
    if topology.nodes.len() + topology.devices.len() > 1 {
        sections.push(matrix(topology) + &legend(topology));
    }
    sections.extend(some(switches(topology)));
    sections.extend(some(storages(topology)));
    sections.extend(some(nics(topology)));
    sections.extend(some(links(topology)));
    sections.join("\n")
}

/// Rows of cells; the first row is the heading.
struct Cells {
    /// One for each column: `<` or `>`, the side that its cells are aligned to.
    sides: &'static [u8],
    rows: Vec<Vec<String>>,
}

impl Cells {
    fn new(sides: &'static str, heading: &[&str]) -> Self {
        assert_eq!(sides.len(), heading.len(), "each column has a side");
        Self { sides: sides.as_bytes(), rows: vec![heading.iter().map(|cell| cell.to_string()).collect()] }
    }

    fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    fn to_text(&self) -> String {
        let column_count = self.rows[0].len();
        let width_of = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..column_count).map(width_of).collect();
        let mut text = String::new();
        for row in &self.rows {
            let cells: Vec<String> = row
                .iter()
                .enumerate()
                .map(|(column, cell)| match self.sides.get(column) {
                    Some(b'<') => format!("{cell:<width$}", width = widths[column]),
                    _ => format!("{cell:>width$}", width = widths[column]),
                })
                .collect();
            text.push_str(cells.join("  ").trim_end());
            text.push('\n');
        }
        text
    }
}

/// The text of a section, if it has rows below its heading.
fn some(cells: Cells) -> Option<String> {
    (cells.rows.len() > 1).then(|| cells.to_text())
}

fn nodes(topology: &Topology) -> Cells {
    let mut cells = Cells::new("<>>>", &["node", "cores", "memory", "GB/s"]);
    for node in &topology.nodes {
        let cores = node.core_count.to_string();
        cells.row([
            Vertex::Node(node.id).to_string(),
            cores,
            bytes(node.memory_bytes),
            gb_per_s(node.memory_bytes_per_s),
        ]);
    }
    cells
}

fn devices(topology: &Topology) -> Cells {
    let heading = ["device", "name", "memory", "GB/s", "node", "PCI address", "copies at once"];
    let mut cells = Cells::new("<<>><<>", &heading);
    for device in &topology.devices {
        cells.row([
            Vertex::Device(device.id).to_string(),
            device.name.clone(),
            bytes(device.memory_bytes),
            gb_per_s(device.memory_bytes_per_s),
            Vertex::Node(device.node).to_string(),
            device.pci_address.clone().unwrap_or_else(|| "-".to_string()),
            device.copy_engine_count.to_string(),
        ]);
    }
    cells
}

fn places(topology: &Topology) -> Vec<Vertex> {
    let nodes = topology.nodes.iter().map(|node| Vertex::Node(node.id));
    nodes.chain(topology.devices.iter().map(|device| Vertex::Device(device.id))).collect()
}

/// Columns of the matrix that fit beside each other: two nodes and eight GPUs.
const MATRIX_COLUMN_COUNT_MAX: usize = 10;

/// From the place of the row to the place of the column; machines of many places in several bands.
fn matrix(topology: &Topology) -> String {
    let places = places(topology);
    let bands = places.chunks(MATRIX_COLUMN_COUNT_MAX).map(|columns| {
        let heading = std::iter::once("from, to".to_string()).chain(columns.iter().map(Vertex::to_string));
        let mut cells = Cells { sides: b"<", rows: vec![heading.collect()] };
        for &from in &places {
            let row = columns.iter().map(|&to| pair(topology, from, to));
            cells.row(std::iter::once(from.to_string()).chain(row));
        }
        cells.to_text()
    });
    bands.collect::<Vec<_>>().join("\n")
}

fn pair(topology: &Topology, from: Vertex, to: Vertex) -> String {
    if from == to {
        return "-".to_string();
    }
    let Some(path) = path::between(topology, from, to) else { return "none".to_string() };
    format!("{} {}{}", path.word(topology), gb_per_s(path.bytes_per_s), mark(path.is_measured()))
}

fn mark(is_measured: bool) -> &'static str {
    if is_measured { "m" } else { "" }
}

/// Explains the words that the matrix can hold.
fn legend(topology: &Topology) -> String {
    let places = places(topology);
    let pairs = places.iter().flat_map(|&from| places.iter().map(move |&to| (from, to)));
    let mut words: Vec<String> = pairs
        .filter(|(from, to)| from != to)
        .filter_map(|(from, to)| path::between(topology, from, to))
        .map(|path| path.word(topology))
        .collect();
    words.sort();
    words.dedup();
    // "NVSwitch" is no number of NVLinks.
    let is = |word: &str, prefix: &str| word == prefix || (word.starts_with(prefix) && word != "NVSwitch");
    let has = |prefix: &str| words.iter().any(|word| is(word, prefix));
    let mut parts =
        vec!["GB/s in one direction; m: measured on this machine; others are estimates or stated figures"];
    let explanations = [
        ("P", "P4x16: PCIe generation 4, 16 lanes"),
        ("NV", "NV4: 4 NVLinks"),
        ("NVSwitch", "NVSwitch: through NVSwitches"),
        ("switch", "switch: through PCIe switches"),
        ("socket", "socket: between sockets"),
        ("host", "host: through host memory or from another socket"),
        ("network", "network: from another machine"),
    ];
    parts.extend(explanations.iter().filter(|(word, _)| has(word)).map(|(_, text)| *text));
    format!("  {}\n", parts.join("\n  "))
}

fn switches(topology: &Topology) -> Cells {
    let mut cells = Cells::new("<<<", &["switch", "name", "joins"]);
    for (index, switch) in topology.switches.iter().enumerate() {
        let vertex = Vertex::Switch(index as u32);
        let ends = topology.links_of(vertex).filter_map(|(_, link)| link.other_end(vertex));
        let joined: Vec<String> = ends.map(|end| name_of(topology, end)).collect();
        cells.row([vertex.to_string(), switch.name.clone(), joined.join(" ")]);
    }
    cells
}

fn storages(topology: &Topology) -> Cells {
    let mut cells = Cells::new("<<>><", &["storage", "model", "size", "GB/s", "attached to"]);
    for (index, storage) in topology.storages.iter().enumerate() {
        let (speed, home) = attachment(topology, Vertex::Storage(index as u32));
        cells.row([storage.name.clone(), storage.model.clone(), bytes(storage.bytes), speed, home]);
    }
    cells
}

fn nics(topology: &Topology) -> Cells {
    let mut cells = Cells::new("<<><", &["network card", "RDMA", "GB/s", "attached to"]);
    for (index, nic) in topology.nics.iter().enumerate() {
        let (speed, home) = attachment(topology, Vertex::Nic(index as u32));
        let rdma = if nic.has_rdma { "yes" } else { "no" };
        cells.row([nic.name.clone(), rdma.to_string(), speed, home]);
    }
    cells
}

/// Speed and upper end of the first link of a storage device or network card.
fn attachment(topology: &Topology, vertex: Vertex) -> (String, String) {
    let link = topology.links_of(vertex).find_map(|(_, link)| Some((link, link.other_end(vertex)?)));
    link.map_or(("-".to_string(), "-".to_string()), |(link, home)| (gb_per_s(slower(link)), home.to_string()))
}

fn slower(link: &Link) -> f64 {
    link.forward_bytes_per_s.min(link.backward_bytes_per_s)
}

fn links(topology: &Topology) -> Cells {
    let heading = ["link", "", "kind", "GB/s there", "back", "both", "latency", ""];
    let mut cells = Cells::new("<<<>>>><", &heading);
    for link in &topology.links {
        cells.row([
            name_of(topology, link.a),
            name_of(topology, link.b),
            kind_word(link.kind),
            gb_per_s(link.forward_bytes_per_s),
            gb_per_s(link.backward_bytes_per_s),
            gb_per_s(link.duplex_bytes_per_s),
            format!("{:.1} us", link.latency_s * 1e6),
            mark(link.is_measured).to_string(),
        ]);
    }
    cells
}

/// Storage and network cards by the names that the kernel gives them.
fn name_of(topology: &Topology, vertex: Vertex) -> String {
    let name = match vertex {
        Vertex::Storage(id) => topology.storages.get(id as usize).map(|storage| storage.name.clone()),
        Vertex::Nic(id) => topology.nics.get(id as usize).map(|nic| nic.name.clone()),
        _ => None,
    };
    name.unwrap_or_else(|| vertex.to_string())
}
