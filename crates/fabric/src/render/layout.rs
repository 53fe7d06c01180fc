//! Where the boxes of a drawing are.
//!
//! ```text
//!   ┌───────── node0 ─────────┐ ══ ┌──── node1 ────┐     a node spans what hangs below it
//!   ┌──── switch0 ────┐  │  │        │       │
//!   [gpu0] [gpu1]  ├[nvme0]  [gpu2]  [gpu3]  ├[eth0]     GPUs in one row; storage and cards in stacks beside them
//!      │      └─NV4──────────┘         │                 links between GPUs: brackets, `wires.rs`
//!   ┌──────────────── NVSwitch ─────────────────┐        switches that no node leads to
//! ```
//!
//! Everything that has something below it spans it, so that every line to it is vertical and crosses no box. Lengths
//! are pixels.

use std::collections::BTreeMap;

use crate::{Topology, Vertex};

use super::forest::Forest;

/// What one GPU or one stack takes; its box is narrower by [`GAP`].
pub(super) const COLUMN: f64 = 168.0;
const GAP: f64 = 18.0;
/// Between two nodes: room for the label of a link.
const NODE_GAP: f64 = 92.0;
/// Between two rows: room for a label of two lines.
const ROW_GAP: f64 = 62.0;
const BOX_HEIGHT: f64 = 58.0;
const STACK_BOX_HEIGHT: f64 = 44.0;
const STACK_GAP: f64 = 10.0;
/// Boxes of a stack that stand above each other before the next column begins.
const STACK_COUNT_MAX: usize = 4;
/// From the line on the left of a stack to its boxes.
const STACK_INDENT: f64 = 16.0;
pub(super) const MARGIN: f64 = 28.0;

/// A rectangle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Frame {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Frame {
    pub(super) fn middle(&self) -> f64 {
        self.x + self.width / 2.0
    }

    pub(super) fn right(&self) -> f64 {
        self.x + self.width
    }

    pub(super) fn bottom(&self) -> f64 {
        self.y + self.height
    }
}

/// The boxes above the brackets.
pub(super) struct Layout {
    pub(super) forest: Forest,
    pub(super) frames: BTreeMap<Vertex, Frame>,
    /// Storage and cards in stacks, with the x of the line beside them.
    pub(super) stacked: BTreeMap<Vertex, f64>,
    /// The right end of the boxes.
    pub(super) right: f64,
    /// The lower end of the boxes.
    pub(super) bottom: f64,
}

/// Places everything but switches that no node leads to; nodes begin at `top`.
pub(super) fn place(topology: &Topology, top: f64) -> Layout {
    let forest = Forest::new(topology);
    let switches = 0..topology.switches.len() as u32;
    let depth_max = switches.map(|id| forest.depth(Vertex::Switch(id))).max().unwrap_or(0);
    let layout =
        Layout { forest, frames: BTreeMap::new(), stacked: BTreeMap::new(), right: 0.0, bottom: top };
    let mut placer = Placer { topology, layout, top, leaf_row: depth_max + 1 };
    let mut x = MARGIN;
    for node in &topology.nodes {
        x = placer.place_tree(Vertex::Node(node.id), 0, x) + NODE_GAP;
    }
    x -= NODE_GAP;
    for orphan in orphans(topology, &placer.layout.forest) {
        x = placer.place_leaf(orphan, x + GAP);
    }
    placer.layout
}

/// GPUs, storage and cards that no node leads to.
fn orphans(topology: &Topology, forest: &Forest) -> Vec<Vertex> {
    let devices = topology.devices.iter().map(|device| Vertex::Device(device.id));
    let storages = (0..topology.storages.len() as u32).map(Vertex::Storage);
    let nics = (0..topology.nics.len() as u32).map(Vertex::Nic);
    devices.chain(storages).chain(nics).filter(|&vertex| forest.parent(vertex).is_none()).collect()
}

struct Placer<'a> {
    topology: &'a Topology,
    layout: Layout,
    top: f64,
    /// The row of the GPUs.
    leaf_row: usize,
}

impl Placer<'_> {
    fn row_y(&self, row: usize) -> f64 {
        self.top + row as f64 * (BOX_HEIGHT + ROW_GAP)
    }

    /// Places a node or switch and all below it from `x` on; gives where it ends.
    fn place_tree(&mut self, vertex: Vertex, row: usize, x: f64) -> f64 {
        let children = self.layout.forest.children(vertex).to_vec();
        let (stack, columns): (Vec<Vertex>, Vec<Vertex>) =
            children.into_iter().partition(|&child| self.is_stacked(child));
        let mut end = x;
        for child in columns {
            let start = if end > x { end + GAP } else { x };
            end = match child {
                Vertex::Switch(_) => self.place_tree(child, row + 1, start),
                _ => self.place_leaf(child, start),
            };
        }
        for part in stack.chunks(STACK_COUNT_MAX) {
            let start = if end > x { end + GAP } else { x };
            end = self.place_stack(part, row + 1, start);
        }
        let end = end.max(x + COLUMN - GAP);
        let frame = Frame { x, y: self.row_y(row), width: end - x, height: BOX_HEIGHT };
        self.enter(vertex, frame);
        end
    }

    fn place_leaf(&mut self, vertex: Vertex, x: f64) -> f64 {
        let frame = Frame { x, y: self.row_y(self.leaf_row), width: COLUMN - GAP, height: BOX_HEIGHT };
        self.enter(vertex, frame);
        frame.right()
    }

    fn place_stack(&mut self, stack: &[Vertex], row: usize, x: f64) -> f64 {
        for (index, &vertex) in stack.iter().enumerate() {
            // Higher than the row, since no label stands above it.
            let y = self.row_y(row) - ROW_GAP / 2.0 + index as f64 * (STACK_BOX_HEIGHT + STACK_GAP);
            let width = COLUMN - GAP - STACK_INDENT;
            self.enter(vertex, Frame { x: x + STACK_INDENT, y, width, height: STACK_BOX_HEIGHT });
            self.layout.stacked.insert(vertex, x + 4.0);
        }
        x + COLUMN - GAP
    }

    fn enter(&mut self, vertex: Vertex, frame: Frame) {
        self.layout.right = self.layout.right.max(frame.right());
        self.layout.bottom = self.layout.bottom.max(frame.bottom());
        self.layout.frames.insert(vertex, frame);
    }

    /// Storage and cards that no other link leads to.
    fn is_stacked(&self, vertex: Vertex) -> bool {
        matches!(vertex, Vertex::Storage(_) | Vertex::Nic(_)) && self.topology.links_of(vertex).count() == 1
    }
}
