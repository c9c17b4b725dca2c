//! What is between the boxes: links of accelerators, links of sockets, second ways to a device.

use std::collections::BTreeMap;

use super::layout::{HEAD, hint, labels, plate};
use super::scene::{Anchor, Look, Plate, Rect, Scene, Wire, WirePath};
use super::trees::Trees;
use crate::graph::Machine;
use crate::import::bundle;
use crate::link::{Link, LinkId, LinkKind};
use crate::vertex::{VertexId, VertexKind};

/// Switches between accelerators, and all links that lead to them or from accelerator to accelerator.
pub(super) fn middle(machine: &Machine, hanging: &Trees, scene: &mut Scene, left: i32, between: i32) {
    let own = |link: &Link| link.kind.is_scale_up();
    let devices: Vec<VertexId> = machine.of(|kind| matches!(kind, VertexKind::Gpu | VertexKind::Tile)).collect();
    let spans: Vec<Rect> = devices.iter().filter_map(|id| scene.rect_of(*id)).collect();
    let (top, bottom) = (spans.iter().map(|rect| rect.y).min().unwrap_or(0), spans.iter().map(|rect| rect.bottom()).max().unwrap_or(HEAD));
    let count = hanging.middle.len() as i32;
    for (number, id) in hanging.middle.iter().enumerate() {
        let x = left + between / 2 - 30 * count + 60 * number as i32 + 13;
        let rect = Rect { x, y: top, width: 34, height: bottom - top };
        let vertex = machine.vertex(*id);
        let words = vec![[&vertex.name, &vertex.title].map(String::as_str).join(" ").trim().to_owned()];
        scene.plates.push(Plate { hint: hint(machine, *id), ..plate(Some(*id), None, rect, Look::Middle, words) });
    }
    // Links that meet one edge of a box are spread over it.
    let mut met: BTreeMap<VertexId, i32> = BTreeMap::new();
    let mut all: BTreeMap<VertexId, i32> = BTreeMap::new();
    for link in machine.links().iter().filter(|link| own(link)) {
        [link.a, link.b].into_iter().for_each(|end| *all.entry(end).or_default() += 1);
    }
    let own_links = machine.links().iter().filter(|link| own(link)).count();
    for (index, link) in machine.links().iter().enumerate().filter(|(_, link)| own(link)) {
        let rects = [link.a, link.b].map(|end| scene.rect_of(end));
        let [Some(a), Some(b)] = rects else { continue };
        if hanging.used[index] {
            continue;
        }
        let bars = [link.a, link.b].map(|end| hanging.middle.contains(&end));
        let mut edge = |end: VertexId, rect: Rect, other: Rect| {
            let turn = met.entry(end).or_default();
            *turn += 1;
            let y = rect.y + rect.height * *turn / (all.get(&end).copied().unwrap_or(1) + 1);
            let rightwards = if rect.x == other.x { rect.x < left } else { rect.x < other.x };
            (if rightwards { rect.right() } else { rect.x }, y)
        };
        let (way, at) = match bars {
            [false, false] => {
                let points = (edge(link.a, a, b), edge(link.b, b, a));
                // Dies above each other.
                let column = a.x == b.x && hanging.loose.contains(&link.a) && hanging.loose.contains(&link.b);
                if column { above_each_other(a, b) } else { curve([a, b], points, between) }
            }
            _ => {
                let (end, device, bar) = if bars[0] { (link.b, b, a) } else { (link.a, a, b) };
                let from = edge(end, device, bar);
                let to = if device.x < bar.x { bar.x } else { bar.right() };
                (WirePath::Corners(vec![from, (to, from.1)]), ((from.0 + to) / 2, from.1))
            }
        };
        let labels = match (bundle(link.kind), own_links) {
            (_, 0..=MOST_LABELLED) => labels(link),
            (Some(links), 0..=MOST_COUNTED) => [format!("x{links}"), String::new()],
            _ => Default::default(),
        };
        scene.wires.push(Wire { link: LinkId(index as u32), way, labels, at, anchor: Anchor::Middle });
    }
}

/// A curve between two boxes, from edge to edge, and where words stand at it.
fn curve([a, b]: [Rect; 2], (from, to): ((i32, i32), (i32, i32)), between: i32) -> (WirePath, (i32, i32)) {
    let lean = if a.x == b.x { (24 + (from.1 - to.1).abs() / 3).min(between.max(90) - 30) } else { between / 2 };
    let out = |point: (i32, i32), rect: Rect| if point.0 == rect.x { point.0 - lean } else { point.0 + lean };
    let curve = [from, (out(from, a), from.1), (out(to, b), to.1), to];
    // A fifth of the way, where curves have not met yet.
    let on = |of: fn((i32, i32)) -> i32| (64 * of(curve[0]) + 48 * of(curve[1]) + 12 * of(curve[2]) + of(curve[3])) / 125;
    (WirePath::Curve(curve), (on(|point| point.0), on(|point| point.1)))
}

/// A line from box to box.
fn above_each_other(a: Rect, b: Rect) -> (WirePath, (i32, i32)) {
    let (upper, lower) = if a.y < b.y { (a, b) } else { (b, a) };
    let x = a.x + a.width / 2;
    (WirePath::Corners(vec![(x, upper.bottom()), (x, lower.y)]), (x, upper.bottom()))
}

/// Links beside the trees: between sockets and domains, second ways to a device.
pub(super) fn others(machine: &Machine, hanging: &Trees, scene: &mut Scene, left: i32) {
    let mut sockets = 0;
    for (index, link) in machine.links().iter().enumerate() {
        if hanging.used[index] || link.kind.is_scale_up() {
            continue;
        }
        let [Some(a), Some(b)] = [link.a, link.b].map(|end| scene.rect_of(end)) else { continue };
        let package = |id: VertexId| {
            let plate = scene.plates.iter().find(|plate| plate.vertex == Some(id))?;
            let frame = scene.plates.get(plate.within?)?.within?;
            scene.plates.get(frame).map(|plate| plate.rect)
        };
        let (way, at) = match (link.kind, package(link.a), package(link.b)) {
            (LinkKind::Smp, Some(from), Some(to)) => {
                let down = 10 + 4 * (sockets % 4);
                let y = |rect: Rect| rect.y + down;
                sockets += 1;
                let inner = |rect: Rect| if rect.x < left { rect.right() } else { rect.x };
                let (from, to) = ((inner(from), y(from)), (inner(to), y(to)));
                let lean = |x: i32| if x <= left { x + 40 } else { x - 40 };
                let curve = [from, (lean(from.0), from.1), (lean(to.0), to.1), to];
                (WirePath::Curve(curve), ((from.0 + to.0) / 2 + if from.0 == to.0 { 30 } else { 0 }, (from.1 + to.1) / 2))
            }
            _ => {
                // Along the outer edge, or from edge to edge.
                let outer = if a.x < left { a.x.min(b.x) } else { a.right().max(b.right()) };
                let edge = |rect: Rect| if a.x < left { rect.x } else { rect.right() };
                let turn = if a.x < left { outer - 5 } else { outer + 5 };
                let way = if a.x == b.x {
                    vec![(edge(a), a.middle()), (turn, a.middle()), (turn, b.middle()), (edge(b), b.middle())]
                } else {
                    // Beside the wires of the trees.
                    let (near, far) = if a.x < b.x { (a, b) } else { (b, a) };
                    let (from, to, turn) = (near.middle() + 5, far.middle() + 5, near.right() + 4);
                    vec![(near.right(), from), (turn, from), (turn, to), (far.x, to)]
                };
                (WirePath::Corners(way), ((a.x.max(b.x)) - 4, b.bottom() - 6))
            }
        };
        let alone = [link.a, link.b]
            .into_iter()
            .all(|end| machine.around(end).iter().filter(|link| machine.link(**link).kind == LinkKind::Smp).count() == 1);
        let named = if link.kind == LinkKind::Smp { alone } else { link.kind.is_coherent() || matches!(link.kind, LinkKind::Xgmi { .. }) };
        let labels = if named { labels(link) } else { Default::default() };
        let anchor = if link.kind == LinkKind::Smp { Anchor::Middle } else { Anchor::End };
        scene.wires.push(Wire { link: LinkId(index as u32), way, labels, at, anchor });
    }
}

/// Links between accelerators that have words at them; and, of more, those that have their number.
const MOST_LABELLED: usize = 8;
const MOST_COUNTED: usize = 32;
