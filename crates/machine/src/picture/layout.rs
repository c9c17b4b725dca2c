//! Where everything goes: each package as a box with its trees, packages in two columns that face each other, links of
//! accelerators between the columns.

use std::collections::BTreeMap;

use super::between::{middle, others};
use super::scene::{Anchor, Look, Plate, Rect, Scene, Wire, WirePath};
use super::trees::Trees;
use crate::graph::Machine;
use crate::leg::kind_name;
use crate::link::{Link, LinkKind};
use crate::vertex::{Vertex, VertexId, VertexKind};

/// The drawing of a machine.
pub(super) fn scene(machine: &Machine) -> Scene {
    let hanging = Trees::of(machine);
    let sizes = Sizes::of(machine, &hanging);
    let mut packages: BTreeMap<u32, Vec<VertexId>> = BTreeMap::new();
    for numa in machine.numas() {
        if let VertexKind::Numa { package } = machine.vertex(numa).kind {
            packages.entry(package).or_default().push(numa);
        }
    }
    let drawn: Vec<Scene> = packages.iter().map(|(number, numas)| package(machine, &hanging, &sizes, *number, numas)).collect();
    let wide = drawn.iter().map(|scene| scene.width).max().unwrap_or(0);
    let own_links = machine.links().iter().any(|link| link.kind.is_scale_up());
    let several = drawn.len() > 1;
    let between = if own_links {
        MIDDLE + 60 * hanging.middle.len() as i32
    } else if several {
        SOCKETS
    } else {
        0
    };
    let mut scene = Scene::default();
    let mut heights = [0; 2];
    for (number, package) in drawn.into_iter().enumerate() {
        let right = number % 2;
        let (x, y) = (if right == 1 { wide + between } else { 0 }, heights[right]);
        heights[right] += package.height + GAP;
        scene.put(package, x, y, right == 1);
    }
    scene.width = if several { 2 * wide + between } else { wide + between };
    scene.height = heights.into_iter().max().unwrap_or(0).max(GAP) - GAP;
    loose(machine, &hanging, &sizes, &mut scene);
    middle(machine, &hanging, &mut scene, wide, between);
    others(machine, &hanging, &mut scene, wide);
    scene
}

/// Sizes that all packages share, so that columns are straight.
struct Sizes {
    /// Of cores and memory.
    strip: i32,
    /// Bridges above each other.
    levels: i32,
    device: i32,
}

impl Sizes {
    fn of(machine: &Machine, hanging: &Trees) -> Sizes {
        let mut sizes = Sizes { strip: 110, levels: 0, device: 130 };
        for (index, vertex) in machine.vertices().iter().enumerate() {
            let width = words(vertex).iter().map(|line| width(line)).max().unwrap_or(0) + 2 * PAD;
            match vertex.kind {
                VertexKind::Numa { .. } => {
                    sizes.strip = sizes.strip.max(width);
                    sizes.levels = sizes.levels.max(levels(machine, hanging, VertexId(index as u32), 0));
                }
                VertexKind::HostMemory => sizes.strip = sizes.strip.max(width),
                VertexKind::DeviceMemory | VertexKind::DpuMemory => sizes.device = sizes.device.max(width + 2 * PAD),
                _ => sizes.device = sizes.device.max(width),
            }
        }
        sizes
    }
    /// Where a bridge of a level is; the devices behind the last.
    fn level(&self, level: i32) -> i32 {
        3 * PAD + self.strip + GAP + level * (BRIDGE + LABEL)
    }
    fn devices(&self) -> i32 {
        self.level(self.levels) + if self.levels == 0 { LABEL } else { 0 }
    }
    fn width(&self) -> i32 {
        self.devices() + self.device + 2 * PAD
    }
}

/// How many bridges are above each other below a vertex.
fn levels(machine: &Machine, hanging: &Trees, id: VertexId, depth: i32) -> i32 {
    let bridges = hanging.below[id.index()].iter().filter(|(below, _)| is_bridge(machine.vertex(*below).kind));
    bridges.map(|(below, _)| levels(machine, hanging, *below, depth + 1)).max().unwrap_or(depth)
}

fn is_bridge(kind: VertexKind) -> bool {
    matches!(kind, VertexKind::HostBridge | VertexKind::PcieSwitch)
}

/// A package with its domains, devices towards the right.
fn package(machine: &Machine, hanging: &Trees, sizes: &Sizes, number: u32, numas: &[VertexId]) -> Scene {
    let mut scene = Scene { width: sizes.width(), ..Scene::default() };
    let title = numas.iter().map(|numa| machine.vertex(*numa).title.as_str()).find(|title| !title.is_empty()).unwrap_or_default();
    let head = if title.is_empty() { format!("package {number}") } else { format!("package {number}: {}", short(title, 48)) };
    scene.plates.push(plate(None, None, Rect::default(), Look::Package, vec![head]));
    let mut y = HEAD + PAD;
    for numa in numas {
        let frame = scene.plates.len();
        scene.plates.push(plate(None, Some(0), Rect::default(), Look::Domain, vec![machine.vertex(*numa).name.clone()]));
        let bottom = domain(&mut Cursor { machine, hanging, sizes, scene: &mut scene, frame, y: y + HEAD }, *numa);
        scene.plates[frame].rect = Rect { x: PAD, y, width: sizes.width() - 2 * PAD, height: bottom + PAD - y };
        y = bottom + 2 * PAD;
    }
    scene.plates[0].rect = Rect { x: 0, y: 0, width: sizes.width(), height: y };
    scene.height = y;
    scene
}

struct Cursor<'c> {
    machine: &'c Machine,
    hanging: &'c Trees,
    sizes: &'c Sizes,
    scene: &'c mut Scene,
    frame: usize,
    y: i32,
}

/// A domain: memories and cores at the left, trees beside them. Returns where it ends.
fn domain(cursor: &mut Cursor<'_>, numa: VertexId) -> i32 {
    let (machine, hanging, top) = (cursor.machine, cursor.hanging, cursor.y);
    let x = 2 * PAD;
    let mut y = top;
    let below = &hanging.below[numa.index()];
    let cores = words(machine.vertex(numa));
    let mut strip = |cursor: &mut Cursor<'_>, id: VertexId, look: Look, words: Vec<String>| {
        let rect = Rect { x, y, width: cursor.sizes.strip, height: box_height(&words) };
        y = rect.bottom() + PAD;
        cursor.scene.plates.push(Plate { hint: hint(machine, id), ..plate(Some(id), Some(cursor.frame), rect, look, words) });
        rect
    };
    let core_box = strip(cursor, numa, Look::Cores, cores);
    for (id, link) in below.iter().filter(|(id, _)| machine.vertex(*id).kind.is_memory()) {
        let rect = strip(cursor, *id, Look::Memory, words(machine.vertex(*id)));
        let (at, from) = (rect.x + rect.width / 2, core_box.bottom());
        let to = if rect.y - from <= PAD { rect.y } else { rect.y - PAD };
        let line = WirePath::Corners(vec![(at, to.min(rect.y) - (rect.y - from).min(PAD)), (at, rect.y)]);
        cursor.scene.wires.push(Wire { link: *link, way: line, labels: Default::default(), at: (at, rect.y), anchor: Anchor::Middle });
    }
    for (id, link) in below.iter().filter(|(id, _)| !machine.vertex(*id).kind.is_memory()) {
        let (left, middle) = tree(cursor, *id, 0);
        let trunk = core_box.right() + GAP / 2;
        let start = core_box.middle();
        let way = WirePath::Corners(vec![(core_box.right(), start), (trunk, start), (trunk, middle), (left, middle)]);
        let labels = if is_bridge(machine.vertex(*id).kind) { Default::default() } else { labels(machine.link(*link)) };
        cursor.scene.wires.push(Wire { link: *link, way, labels, at: (left - 4, middle), anchor: Anchor::End });
    }
    y.max(cursor.y) - PAD
}

/// A bridge with all below it, or a device; where its wire ends.
fn tree(cursor: &mut Cursor<'_>, id: VertexId, level: i32) -> (i32, i32) {
    let (machine, hanging, vertex) = (cursor.machine, cursor.hanging, cursor.machine.vertex(id));
    if !is_bridge(vertex.kind) {
        return device(cursor, id);
    }
    let (place, top) = (cursor.scene.plates.len(), cursor.y);
    cursor
        .scene
        .plates
        .push(Plate { hint: hint(machine, id), ..plate(Some(id), Some(cursor.frame), Rect::default(), Look::Bridge, Vec::new()) });
    let x = cursor.sizes.level(level);
    let mut ends = Vec::new();
    for (below, link) in &hanging.below[id.index()] {
        let (left, middle) = tree(cursor, *below, level + 1);
        ends.push((*link, left, middle));
    }
    let middle = match (ends.first(), ends.last()) {
        (Some((_, _, first)), Some((_, _, last))) => (first + last) / 2,
        _ => top + BRIDGE / 2,
    };
    cursor.y = cursor.y.max(middle + BRIDGE / 2 + PAD);
    cursor.scene.plates[place].rect = Rect { x, y: middle - BRIDGE / 2, width: BRIDGE, height: BRIDGE };
    let trunk = x + BRIDGE + 8;
    for (link, left, end) in ends {
        let way = WirePath::Corners(vec![(x + BRIDGE, middle), (trunk, middle), (trunk, end), (left, end)]);
        let wire = Wire { link, way, labels: labels(machine.link(link)), at: (left - 4, end), anchor: Anchor::End };
        cursor.scene.wires.push(wire);
    }
    (x, middle)
}

/// A device with its memory within it, and below it what hangs at it.
fn device(cursor: &mut Cursor<'_>, id: VertexId) -> (i32, i32) {
    let (machine, hanging) = (cursor.machine, cursor.hanging);
    let rect = device_box(machine, hanging, cursor.sizes, cursor.scene, id, Some(cursor.frame), (cursor.sizes.devices(), cursor.y));
    cursor.y = rect.bottom() + PAD;
    for (below, link) in hanging.below[id.index()].iter().filter(|(below, _)| !machine.vertex(*below).kind.is_memory()) {
        cursor.y += PAD;
        let from = cursor.y - 2 * PAD;
        let (left, _) = device(cursor, *below);
        let Some(inner) = cursor.scene.rect_of(*below) else { continue };
        let way = WirePath::Corners(vec![(left + 20, from), (left + 20, inner.y)]);
        cursor.scene.wires.push(Wire {
            link: *link,
            way,
            labels: label(machine.link(*link)),
            at: (left + 26, inner.y - 5),
            anchor: Anchor::Start,
        });
    }
    (rect.x, rect.middle())
}

fn device_box(
    machine: &Machine,
    hanging: &Trees,
    sizes: &Sizes,
    scene: &mut Scene,
    id: VertexId,
    within: Option<usize>,
    at: (i32, i32),
) -> Rect {
    let vertex = machine.vertex(id);
    let text = words(vertex);
    let look = match vertex.kind {
        VertexKind::Gpu | VertexKind::Tile => Look::Gpu,
        VertexKind::Nic => Look::Nic,
        kind if kind.is_memory() => Look::Memory,
        _ => Look::Device,
    };
    let mut rect = Rect { x: at.0, y: at.1, width: sizes.device, height: box_height(&text) };
    let place = scene.plates.len();
    scene.plates.push(Plate { hint: hint(machine, id), ..plate(Some(id), within, rect, look, text) });
    for (memory, _) in hanging.below[id.index()].iter().filter(|(below, _)| machine.vertex(*below).kind.is_memory()) {
        let words = words(machine.vertex(*memory));
        let inner = Rect { x: rect.x + PAD, y: rect.bottom(), width: rect.width - 2 * PAD, height: box_height(&words) };
        scene.plates.push(Plate { hint: hint(machine, *memory), ..plate(Some(*memory), Some(place), inner, Look::Memory, words) });
        rect.height += inner.height + PAD;
    }
    scene.plates[place].rect = rect;
    rect
}

/// What no tree reaches: rows below all packages; dies of a mesh as they lie on the wafer.
fn loose(machine: &Machine, hanging: &Trees, sizes: &Sizes, scene: &mut Scene) {
    let step = sizes.device + GAP;
    let (dies, rest): (Vec<VertexId>, Vec<VertexId>) = hanging.loose.iter().partition(|id| machine.vertex(**id).kind == VertexKind::Gpu);
    let gpus = machine.gpus();
    let columns = mesh_columns(machine, &gpus).unwrap_or_else(|| (scene.width / step).max(4) as usize);
    let number = |id: VertexId| gpus.iter().position(|gpu| *gpu == id).unwrap_or(0);
    let mut rows: BTreeMap<usize, Vec<(usize, VertexId)>> = BTreeMap::new();
    for id in dies {
        rows.entry(number(id) / columns).or_default().push((number(id) % columns, id));
    }
    let chunks = rest.chunks(columns).map(|row| row.iter().copied().enumerate().collect());
    for row in rows.into_values().chain(chunks.collect::<Vec<Vec<_>>>()) {
        let mut bottom = scene.height;
        for (column, id) in row {
            let at = (column as i32 * step, scene.height + GAP);
            let rect = device_box(machine, hanging, sizes, scene, id, None, at);
            bottom = bottom.max(rect.bottom());
            scene.width = scene.width.max(rect.right());
        }
        scene.height = bottom;
    }
}

/// How many dies are in a row of a mesh: the distance, in numbers, of those that are neighbours in a column.
fn mesh_columns(machine: &Machine, gpus: &[VertexId]) -> Option<usize> {
    let place = |id: VertexId| gpus.iter().position(|gpu| *gpu == id);
    let meshed = machine.links().iter().filter(|link| link.kind == LinkKind::Mesh);
    let apart = meshed.filter_map(|link| Some(place(link.a)?.abs_diff(place(link.b)?)));
    apart.filter(|apart| *apart > 1).min()
}

pub(super) fn plate(vertex: Option<VertexId>, within: Option<usize>, rect: Rect, look: Look, words: Vec<String>) -> Plate {
    Plate { vertex, within, rect, look, words, hint: String::new() }
}

/// Technology and rate of a link, in few words.
pub(super) fn labels(link: &Link) -> [String; 2] {
    let several = |name: &str, links: u32| format!("{name} x{links}");
    let name = match link.kind {
        LinkKind::NvLink { generation: 0, links } | LinkKind::HostNvLink { generation: 0, links } => several("NVLink", links),
        LinkKind::NvLink { generation, links } | LinkKind::HostNvLink { generation, links } => {
            several(&format!("NVLink {generation}"), links)
        }
        LinkKind::Xgmi { links } => several("xGMI", links),
        LinkKind::UaLink { links } => several("UALink", links),
        LinkKind::Ethernet { links } => several("Ethernet", links),
        LinkKind::Pcie { .. } if !link.title.is_empty() => short(&link.title, 20),
        kind => kind_name(kind).to_owned(),
    };
    [name, format!("{:.1} GB/s", link.rate[0].as_bytes_per_s_f64() / 1e9)]
}

/// The same on one line.
fn label(link: &Link) -> [String; 2] {
    [labels(link).join(" "), String::new()]
}

/// What stands in the box of a vertex.
fn words(vertex: &Vertex) -> Vec<String> {
    let identity = &vertex.identity;
    let mut lines = vec![vertex.name.clone()];
    match vertex.kind {
        VertexKind::Numa { .. } => {
            let cores = |count: u32| if count == 1 { "1 core".to_owned() } else { format!("{count} cores") };
            lines = vec![if identity.cores > 0 { cores(identity.cores) } else { "cores".to_owned() }];
            if !identity.cpus.is_empty() {
                lines.push(short(&format!("CPUs {}", identity.cpus), 28));
            }
        }
        VertexKind::HostMemory | VertexKind::DeviceMemory | VertexKind::CxlMemory | VertexKind::DpuMemory => {
            let size = identity.size.map(|size| format!("{:.0} GiB", size.0 as f64 / f64::from(1 << 30)));
            lines = vec!["memory".to_owned()];
            lines.extend(size.into_iter().chain((!vertex.title.is_empty()).then(|| short(&vertex.title, 28))));
        }
        _ => {
            let names: Vec<&str> = identity.ports.iter().map(|port| port.name.as_str()).filter(|name| *name != vertex.name).collect();
            if !names.is_empty() {
                lines[0] = short(&format!("{}, {}", vertex.name, names.join(", ")), 28);
            }
            lines.extend([&vertex.title, &vertex.bus].into_iter().filter(|text| !text.is_empty()).map(|text| short(text, 28)));
        }
    }
    lines
}

/// What is told when a box is pointed at.
pub(super) fn hint(machine: &Machine, id: VertexId) -> String {
    let vertex = machine.vertex(id);
    let parts = [&vertex.name, &vertex.title, &vertex.bus];
    parts.into_iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(", ")
}

fn short(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// Of words of the usual size, on the safe side.
fn width(text: &str) -> i32 {
    7 * text.chars().count() as i32
}

fn box_height(words: &[String]) -> i32 {
    LINE * words.len() as i32 + PAD
}

/// Pixels.
pub(super) const LINE: i32 = 14;
pub(super) const PAD: i32 = 8;
pub(super) const HEAD: i32 = 20;
const BRIDGE: i32 = 14;
const LABEL: i32 = 96;
const GAP: i32 = 24;
/// Between the columns of packages.
const MIDDLE: i32 = 260;
const SOCKETS: i32 = 150;
