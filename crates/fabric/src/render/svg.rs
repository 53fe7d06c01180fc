//! A machine as a drawing: SVG, a single file without references to others.
//!
//! Measured links are solid, others dashed. Names come from outside and are escaped.

use std::fmt::Write;

use crate::{Link, LinkKind, Topology, Vertex};

use super::layout::{self, Frame, Layout, MARGIN};
use super::wires::{self, CHARACTER, Spot, Wire, Wires};
use super::{bytes, gb_per_s, kind_word};

const TITLE_HEIGHT: f64 = 44.0;
const LINE_HEIGHT: f64 = 15.0;
const LEGEND_HEIGHT: f64 = 60.0;
/// The legend needs this much.
const WIDTH_MIN: f64 = 620.0;

const COLORS: [(&str, &str); 5] = [
    ("PCIe", "#2563a8"),
    ("NVLink", "#3b8f2e"),
    ("socket", "#5b5f66"),
    ("attached", "#8a8f98"),
    ("network", "#b8541a"),
];

/// The machine as an SVG document.
pub fn svg(topology: &Topology) -> String {
    let top = MARGIN + TITLE_HEIGHT + wires::height_above(topology);
    let layout = layout::place(topology, top);
    let wires = wires::draw(topology, &layout);
    let further_y = wires.bottom + 34.0;
    let legend_y = further_y + wires.further.len() as f64 * LINE_HEIGHT;
    let width = (layout.right + MARGIN).max(WIDTH_MIN);
    let mut page = Page(String::new());
    page.open(width, legend_y + LEGEND_HEIGHT);
    page.text(MARGIN, MARGIN + 12.0, "title", &format!("machine {}", topology.name));
    for wire in &wires.wires {
        page.wire(wire, &topology.links[wire.link]);
    }
    for (&vertex, frame) in layout.frames.iter().chain(&wires.bottom_switches) {
        page.place(topology, &layout, vertex, frame);
    }
    for wire in &wires.wires {
        page.label(wire, &topology.links[wire.link]);
    }
    page.further(topology, &wires, further_y);
    page.legend(legend_y);
    page.0.push_str("</svg>\n");
    page.0
}

/// The document so far.
struct Page(String);

impl Page {
    /// Writing to a string does not fail.
    fn line(&mut self, arguments: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.0, "{arguments}");
    }

    fn open(&mut self, width: f64, height: f64) {
        self.line(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"11\">"
        ));
        self.0.push_str(
            "<style>.title{font-size:17px;font-weight:bold}.name{font-size:13px;font-weight:bold}\
             .note{fill:#555}text{fill:#1c1f24}</style>\n",
        );
        self.line(format_args!("<rect width=\"{width:.0}\" height=\"{height:.0}\" fill=\"#ffffff\"/>"));
    }

    fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        self.line(format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{}</text>", escaped(text)));
    }

    fn middle_text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        self.line(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\" text-anchor=\"middle\">{}</text>",
            escaped(text)
        ));
    }

    fn wire(&mut self, wire: &Wire, link: &Link) {
        let points: Vec<String> = wire.corners.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let width = if matches!(link.kind, LinkKind::NvLink { .. }) { 2.6 } else { 1.8 };
        let dashes = if link.is_measured { "" } else { " stroke-dasharray=\"6 3\"" };
        self.line(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\"{dashes}/>",
            points.join(" "),
            color(link.kind)
        ));
    }

    fn place(&mut self, topology: &Topology, layout: &Layout, vertex: Vertex, frame: &Frame) {
        let fill = match vertex {
            Vertex::Node(_) => "#e8eef6",
            Vertex::Device(_) => "#e4f2e0",
            Vertex::Switch(_) => "#fbf1d5",
            Vertex::Storage(_) => "#efe7f7",
            Vertex::Nic(_) => "#fbe6dc",
        };
        let Frame { x, y, width, height } = *frame;
        self.line(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"5\" fill=\"{fill}\" \
             stroke=\"#4a4f57\"/>"
        ));
        let lines = lines_of(topology, layout, vertex);
        let first = y + (height - lines.len() as f64 * LINE_HEIGHT) / 2.0 + 11.5;
        let character_count = ((width - 8.0) / CHARACTER) as usize;
        for (index, line) in lines.iter().enumerate() {
            let class = if index == 0 { "name" } else { "note" };
            // The first line is set larger.
            let count = if index == 0 { character_count * 4 / 5 } else { character_count };
            self.middle_text(frame.middle(), first + index as f64 * LINE_HEIGHT, class, &cut(line, count));
        }
    }

    fn label(&mut self, wire: &Wire, link: &Link) {
        let kind = kind_word(link.kind);
        let speed = speed(link, wire.from);
        match wire.label {
            Spot::InBox => {}
            Spot::RightOf(x, y) => {
                self.text(x, y, "label", &kind);
                self.text(x, y + LINE_HEIGHT - 2.0, "label", &speed);
            }
            Spot::Around(x, y) => {
                self.middle_text(x, y - 6.0, "label", &kind);
                self.middle_text(x, y + 14.0, "label", &speed);
            }
            Spot::On(x, y) => {
                let text = on_wire(link, wire.from);
                let width = text.chars().count() as f64 * CHARACTER + 4.0;
                let left = x - width / 2.0;
                let top = y - 8.0;
                self.line(format_args!(
                    "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"16\" fill=\"#ffffff\"/>"
                ));
                self.middle_text(x, y + 4.0, "label", &text);
            }
        }
    }

    /// Links for which the drawing has no place.
    fn further(&mut self, topology: &Topology, wires: &Wires, y: f64) {
        for (row, &index) in wires.further.iter().enumerate() {
            let link = &topology.links[index];
            let text =
                format!("also {} - {}: {}, {}", link.a, link.b, kind_word(link.kind), speed(link, link.a));
            self.text(MARGIN, y + row as f64 * LINE_HEIGHT, "note", &text);
        }
    }

    fn legend(&mut self, y: f64) {
        for (index, (name, color)) in COLORS.iter().enumerate() {
            let x = MARGIN + index as f64 * 100.0;
            let end = x + 26.0;
            self.line(format_args!(
                "<line x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{end:.1}\" y2=\"{y:.1}\" \
                 stroke=\"{color}\" stroke-width=\"2.6\"/>"
            ));
            self.text(x + 32.0, y + 4.0, "note", name);
        }
        let notes = [
            "GB/s in one direction; of two figures the first is downwards or to the right.",
            "Solid lines are measured here, dashed ones estimated or stated.",
        ];
        for (row, note) in notes.iter().enumerate() {
            self.text(MARGIN, y + 24.0 + row as f64 * LINE_HEIGHT, "note", note);
        }
    }
}

/// What stands in a box, the name first.
fn lines_of(topology: &Topology, layout: &Layout, vertex: Vertex) -> Vec<String> {
    let own = || vertex.to_string();
    let attached = || {
        let (upper, index) = layout.forest.parent(vertex)?;
        let link = &topology.links[index];
        Some(format!("{} {}", kind_word(link.kind), speed(link, upper)))
    };
    match vertex {
        Vertex::Node(id) => topology.nodes.iter().find(|node| node.id == id).map_or(vec![own()], |node| {
            let memory = format!("{}, {} GB/s", bytes(node.memory_bytes), gb_per_s(node.memory_bytes_per_s));
            vec![own(), format!("{} cores", node.core_count), memory]
        }),
        Vertex::Device(id) => {
            topology.devices.iter().find(|device| device.id == id).map_or(vec![own()], |device| {
                let speed = gb_per_s(device.memory_bytes_per_s);
                vec![own(), device.name.clone(), format!("{}, {speed} GB/s", bytes(device.memory_bytes))]
            })
        }
        Vertex::Switch(id) => {
            let name = topology.switches.get(id as usize).map(|switch| switch.name.clone());
            std::iter::once(own()).chain(name).collect()
        }
        Vertex::Storage(id) => topology.storages.get(id as usize).map_or(vec![own()], |storage| {
            let first = format!("{} {}", storage.name, bytes(storage.bytes));
            std::iter::once(first).chain(attached()).collect()
        }),
        Vertex::Nic(id) => topology.nics.get(id as usize).map_or(vec![own()], |nic| {
            let first = if nic.has_rdma { format!("{} RDMA", nic.name) } else { nic.name.clone() };
            std::iter::once(first).chain(attached()).collect()
        }),
    }
}

fn color(kind: LinkKind) -> &'static str {
    let index = match kind {
        LinkKind::Pcie { .. } => 0,
        LinkKind::NvLink { .. } => 1,
        LinkKind::Socket => 2,
        LinkKind::Attachment => 3,
        LinkKind::Network => 4,
    };
    COLORS[index].1
}

/// One figure, or two where the directions differ, that away from `from` first.
fn figures(link: &Link, from: Vertex) -> String {
    let there = gb_per_s(link.bytes_per_s(link.a == from));
    let back = gb_per_s(link.bytes_per_s(link.a != from));
    if there == back { there } else { format!("{there} | {back}") }
}

fn speed(link: &Link, from: Vertex) -> String {
    let figures = figures(link, from);
    // Two figures leave no room for the unit, which the legend names.
    if figures.contains('|') { figures } else { format!("{figures} GB/s") }
}

fn on_wire(link: &Link, from: Vertex) -> String {
    format!("{} {}", kind_word(link.kind).replace("NVLink x", "NV"), figures(link, from))
}

/// At most `count` characters.
fn cut(text: &str, count: usize) -> String {
    if text.chars().count() <= count {
        return text.to_string();
    }
    text.chars().take(count.saturating_sub(1)).chain(std::iter::once('\u{2026}')).collect()
}

/// Text for an XML document; characters that XML does not know become the replacement character.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            '\u{0}'..='\u{1f}' | '\u{7f}' | '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}
