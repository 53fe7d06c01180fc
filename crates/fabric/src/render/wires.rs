//! The lines of a drawing and their labels.
//!
//! 1. Between a box and what is above it: vertical; for stacks a line beside the boxes.
//! 2. Between neighbouring nodes: straight; between others: brackets above the nodes.
//! 3. Between GPUs, or cards: brackets below them, shorter ones higher; where they would overlap, one below the other.
//! 4. To switches that no node leads to: vertical, to boxes below the brackets.
//!
//! What fits none of these is listed as text.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Topology, Vertex};

use super::layout::{COLUMN, Frame, Layout};

/// Between two brackets: room for a label.
const LEVEL: f64 = 26.0;
/// What one character of a label takes, at most.
pub(super) const CHARACTER: f64 = 6.6;
/// Between two ends of brackets at one box.
const PORT_GAP: f64 = 13.0;
const BOTTOM_GAP: f64 = 62.0;
const SWITCH_HEIGHT: f64 = 40.0;

/// A line, by its corners, for a link by its place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Wire {
    pub(super) link: usize,
    /// The upper end, or the left one.
    pub(super) from: Vertex,
    pub(super) corners: Vec<(f64, f64)>,
    pub(super) label: Spot,
}

/// Where the label of a line goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Spot {
    /// In two lines that begin here.
    RightOf(f64, f64),
    /// In one line with this middle, the line behind it hidden.
    On(f64, f64),
    /// In two lines above and below this point.
    Around(f64, f64),
    /// In the box of the lower end.
    InBox,
}

/// All lines, and boxes of the switches at the bottom.
pub(super) struct Wires {
    pub(super) wires: Vec<Wire>,
    pub(super) bottom_switches: BTreeMap<Vertex, Frame>,
    /// Links that are not drawn.
    pub(super) further: Vec<usize>,
    pub(super) bottom: f64,
}

/// Height of the brackets above the nodes.
pub(super) fn height_above(topology: &Topology) -> f64 {
    let far =
        topology.links.iter().filter(|link| matches!(node_pair(link.a, link.b), Some((a, b)) if b > a + 1));
    far.count() as f64 * LEVEL
}

/// Draws the links between the boxes of `layout`.
pub(super) fn draw(topology: &Topology, layout: &Layout) -> Wires {
    let mut wires = Wires {
        wires: Vec::new(),
        bottom_switches: BTreeMap::new(),
        further: Vec::new(),
        bottom: layout.bottom,
    };
    let mut rest: BTreeSet<usize> = (0..topology.links.len()).collect();
    for &vertex in layout.frames.keys() {
        if let Some((upper, index)) = layout.forest.parent(vertex) {
            rest.remove(&index);
            wires.wires.push(hanging(layout, vertex, upper, index));
        }
    }
    wires.join_nodes(topology, layout, &mut rest);
    wires.bracket(topology, layout, &mut rest);
    wires.add_bottom_switches(topology, layout, &mut rest);
    wires.further = rest.into_iter().collect();
    wires
}

fn hanging(layout: &Layout, vertex: Vertex, upper: Vertex, link: usize) -> Wire {
    let (frame, above) = (layout.frames[&vertex], layout.frames[&upper]);
    if let Some(&x) = layout.stacked.get(&vertex) {
        let y = frame.y + frame.height / 2.0;
        let corners = vec![(x, above.bottom()), (x, y), (frame.x, y)];
        return Wire { link, from: upper, corners, label: Spot::InBox };
    }
    let x = frame.middle();
    let label = Spot::RightOf(x + 7.0, frame.y - 33.0);
    Wire { link, from: upper, corners: vec![(x, above.bottom()), (x, frame.y)], label }
}

/// The numbers of two nodes, the smaller first.
fn node_pair(a: Vertex, b: Vertex) -> Option<(u32, u32)> {
    match (a, b) {
        (Vertex::Node(a), Vertex::Node(b)) => Some((a.min(b), a.max(b))),
        _ => None,
    }
}

/// A bracket to be drawn: its ends from left to right.
struct Bracket {
    link: usize,
    left: Vertex,
    right: Vertex,
}

impl Wires {
    fn join_nodes(&mut self, topology: &Topology, layout: &Layout, rest: &mut BTreeSet<usize>) {
        let mut level = 0.0;
        for (index, link) in topology.links.iter().enumerate() {
            let Some((a, b)) = node_pair(link.a, link.b) else { continue };
            rest.remove(&index);
            let from = Vertex::Node(a);
            let (left, right) = (layout.frames[&from], layout.frames[&Vertex::Node(b)]);
            if b == a + 1 {
                let y = left.y + left.height / 2.0;
                let label = Spot::Around((left.right() + right.x) / 2.0, y);
                let corners = vec![(left.right(), y), (right.x, y)];
                self.wires.push(Wire { link: index, from, corners, label });
                continue;
            }
            level += LEVEL;
            let y = left.y - level;
            // Ends move inwards as brackets get higher, so that none runs along another.
            let (start, end) = (left.middle() + level / 2.0, right.middle() - level / 2.0);
            let corners = vec![(start, left.y), (start, y), (end, y), (end, right.y)];
            self.wires.push(Wire { link: index, from, corners, label: Spot::On((start + end) / 2.0, y) });
        }
    }

    fn bracket(&mut self, topology: &Topology, layout: &Layout, rest: &mut BTreeSet<usize>) {
        let is_end = |vertex: Vertex| {
            layout.frames.contains_key(&vertex)
                && !matches!(vertex, Vertex::Node(_) | Vertex::Switch(_))
                && !layout.stacked.contains_key(&vertex)
        };
        let mut brackets: Vec<Bracket> = Vec::new();
        for &index in rest.iter() {
            let link = &topology.links[index];
            if is_end(link.a) && is_end(link.b) {
                let is_in_order = layout.frames[&link.a].x < layout.frames[&link.b].x;
                let (left, right) = if is_in_order { (link.a, link.b) } else { (link.b, link.a) };
                brackets.push(Bracket { link: index, left, right });
            }
        }
        let span = |bracket: &Bracket| layout.frames[&bracket.right].x - layout.frames[&bracket.left].x;
        brackets.sort_by(|a, b| span(a).total_cmp(&span(b)).then(a.link.cmp(&b.link)));
        let top = layout.bottom;
        let mut levels: Vec<Vec<(f64, f64)>> = Vec::new();
        for (place, bracket) in brackets.iter().enumerate() {
            rest.remove(&bracket.link);
            let (left, right) = (layout.frames[&bracket.left], layout.frames[&bracket.right]);
            let start = left.middle() + port(&brackets, place, bracket.left);
            let end = right.middle() + port(&brackets, place, bracket.right);
            let level = free_level(&mut levels, (start, end));
            let y = top + (level + 1) as f64 * LEVEL;
            let corners = vec![(start, left.bottom()), (start, y), (end, y), (end, right.bottom())];
            let label = Spot::On((start + end) / 2.0, y);
            self.wires.push(Wire { link: bracket.link, from: bracket.left, corners, label });
        }
        self.bottom = top + levels.len() as f64 * LEVEL;
    }

    fn add_bottom_switches(&mut self, topology: &Topology, layout: &Layout, rest: &mut BTreeSet<usize>) {
        for id in 0..topology.switches.len() as u32 {
            let vertex = Vertex::Switch(id);
            if layout.frames.contains_key(&vertex) {
                continue;
            }
            let ends = topology.links_of(vertex).filter_map(|(index, link)| {
                let other = link.other_end(vertex)?;
                Some((index, other, *layout.frames.get(&other)?))
            });
            let ends: Vec<(usize, Vertex, Frame)> = ends.collect();
            let y = self.bottom + BOTTOM_GAP;
            let x =
                ends.iter().map(|(_, _, frame)| frame.x).reduce(f64::min).unwrap_or(layout.right - COLUMN);
            let right =
                ends.iter().map(|(_, _, frame)| frame.right()).reduce(f64::max).unwrap_or(layout.right);
            self.bottom_switches.insert(vertex, Frame { x, y, width: right - x, height: SWITCH_HEIGHT });
            self.bottom = y + SWITCH_HEIGHT;
            for (link, from, frame) in ends {
                rest.remove(&link);
                let x = frame.middle();
                let label = Spot::RightOf(x + 7.0, y - 33.0);
                self.wires.push(Wire { link, from, corners: vec![(x, frame.bottom()), (x, y)], label });
            }
        }
    }
}

/// Where the end of a bracket meets its box, right of the middle. Brackets to the right leave on the right; of those to
/// one side the shortest is the outermost, so that it crosses no other.
fn port(brackets: &[Bracket], place: usize, vertex: Vertex) -> f64 {
    let to_right = |bracket: &Bracket| bracket.left == vertex;
    let side = to_right(&brackets[place]);
    let same_side =
        |bracket: &&Bracket| (bracket.left == vertex || bracket.right == vertex) && to_right(bracket) == side;
    // Brackets are in order of their lengths: the longer ones, nearer to the middle, come after this one.
    let inner_count = brackets[place + 1..].iter().filter(same_side).count();
    let offset = (inner_count as f64 + 0.6) * PORT_GAP;
    if side { offset } else { -offset }
}

/// The first level on which nothing overlaps `span`; enters it there.
fn free_level(levels: &mut Vec<Vec<(f64, f64)>>, span: (f64, f64)) -> usize {
    // At least as wide as its label.
    let middle = (span.0 + span.1) / 2.0;
    let half = ((span.1 - span.0) / 2.0).max(6.5 * CHARACTER) + 6.0;
    let taken = (middle - half, middle + half);
    let is_free =
        |level: &Vec<(f64, f64)>| level.iter().all(|other| taken.1 <= other.0 || other.1 <= taken.0);
    let index = levels.iter().position(is_free).unwrap_or_else(|| {
        levels.push(Vec::new());
        levels.len() - 1
    });
    levels[index].push(taken);
    index
}
