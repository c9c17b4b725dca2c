//! What a drawing consists of: boxes within boxes, and wires.

use crate::link::LinkId;
use crate::vertex::VertexId;

/// A rectangle in pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rect {
    pub(super) x: i32,
    pub(super) y: i32,
    pub(super) width: i32,
    pub(super) height: i32,
}

impl Rect {
    pub(super) fn right(self) -> i32 {
        self.x + self.width
    }
    pub(super) fn bottom(self) -> i32 {
        self.y + self.height
    }
    pub(super) fn middle(self) -> i32 {
        self.y + self.height / 2
    }
    /// Turned about the vertical line at half of `width`.
    pub(super) fn mirrored(self, width: i32) -> Rect {
        Rect { x: width - self.right(), ..self }
    }
    pub(super) fn moved(self, x: i32, y: i32) -> Rect {
        Rect { x: self.x + x, y: self.y + y, ..self }
    }
}

/// What a box stands for: its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Package,
    Domain,
    Cores,
    Memory,
    Bridge,
    Gpu,
    Nic,
    Device,
    Middle,
}

/// A box.
#[derive(Clone, Debug)]
pub(super) struct Plate {
    /// The vertex it is; none of frames.
    pub(super) vertex: Option<VertexId>,
    /// The box around it.
    pub(super) within: Option<usize>,
    pub(super) rect: Rect,
    pub(super) look: Look,
    /// Words in it, from the top.
    pub(super) words: Vec<String>,
    /// What is told when it is pointed at.
    pub(super) hint: String,
}

/// The way of a wire.
#[derive(Clone, Debug)]
pub(super) enum WirePath {
    /// From corner to corner.
    Corners(Vec<(i32, i32)>),
    /// A curve with two points that it leans to.
    Curve([(i32, i32); 4]),
}

impl WirePath {
    fn map(&mut self, change: impl Fn((i32, i32)) -> (i32, i32)) {
        match self {
            WirePath::Corners(points) => points.iter_mut().for_each(|point| *point = change(*point)),
            WirePath::Curve(points) => points.iter_mut().for_each(|point| *point = change(*point)),
        }
    }
}

/// A line for a link.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    pub(super) link: LinkId,
    pub(super) way: WirePath,
    /// Words above and below the line.
    pub(super) labels: [String; 2],
    /// Where they stand, and whether they end or begin there or are centred.
    pub(super) at: (i32, i32),
    pub(super) anchor: Anchor,
}

/// How words lie to their point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Scene {
    pub(super) plates: Vec<Plate>,
    pub(super) wires: Vec<Wire>,
    pub(super) width: i32,
    pub(super) height: i32,
}

impl Scene {
    /// Puts another scene into this one, turned about its middle or not.
    pub(super) fn put(&mut self, mut other: Scene, x: i32, y: i32, mirrored: bool) {
        let (first, width) = (self.plates.len(), other.width);
        let turn = |rect: Rect| if mirrored { rect.mirrored(width) } else { rect };
        for plate in &mut other.plates {
            plate.rect = turn(plate.rect).moved(x, y);
            plate.within = plate.within.map(|index| index + first);
        }
        let point = |(px, py): (i32, i32)| (if mirrored { width - px } else { px } + x, py + y);
        for wire in &mut other.wires {
            wire.way.map(point);
            wire.at = point(wire.at);
            wire.anchor = match (wire.anchor, mirrored) {
                (Anchor::Start, true) => Anchor::End,
                (Anchor::End, true) => Anchor::Start,
                (anchor, _) => anchor,
            };
        }
        self.plates.append(&mut other.plates);
        self.wires.append(&mut other.wires);
    }
    /// The box of a vertex.
    pub(super) fn rect_of(&self, vertex: VertexId) -> Option<Rect> {
        self.plates.iter().find(|plate| plate.vertex == Some(vertex)).map(|plate| plate.rect)
    }
}
