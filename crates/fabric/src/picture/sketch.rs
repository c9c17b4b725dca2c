//! What is to be drawn, with places: lines, marks and words on a sheet.

/// A place on the sheet; x to the right, y down.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

impl Point {
    pub(super) const fn new(x: f64, y: f64) -> Point {
        Point { x, y }
    }
    /// `share` of the way to another.
    pub(super) fn towards(self, other: Point, share: f64) -> Point {
        Point::new(self.x + (other.x - self.x) * share, self.y + (other.y - self.y) * share)
    }
    /// A step in a direction.
    pub(super) fn step(self, direction: Point, length: f64) -> Point {
        Point::new(self.x + direction.x * length, self.y + direction.y * length)
    }
    pub(super) fn distance(self, other: Point) -> f64 {
        ((self.x - other.x) * (self.x - other.x) + (self.y - other.y) * (self.y - other.y)).sqrt()
    }
}

/// A link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stroke {
    pub(super) from: Point,
    pub(super) to: Point,
    /// Where a curve bends to; none for a straight line.
    pub(super) bend: Option<Point>,
    pub(super) load: f64,
    pub(super) cables: u32,
}

/// A switch.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub(super) at: Point,
    /// Half its width and height; a circle where they are the same.
    pub(super) half: Point,
    /// Written into it.
    pub(super) label: String,
    /// Shown when pointed at.
    pub(super) name: String,
    /// Above the switches that have endpoints.
    pub(super) upper: bool,
}

/// An endpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dot {
    pub(super) at: Point,
    pub(super) radius: f64,
    pub(super) load: f64,
}

/// How words stand to their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// Words.
#[derive(Clone, Debug)]
pub(super) struct Words {
    pub(super) at: Point,
    pub(super) anchor: Anchor,
    pub(super) size: f64,
    pub(super) text: String,
}

/// The drawing, in a frame from (0, 0) to its size.
#[derive(Clone, Debug, Default)]
pub(super) struct Sketch {
    pub(super) size: Point,
    pub(super) strokes: Vec<Stroke>,
    pub(super) marks: Vec<Mark>,
    pub(super) dots: Vec<Dot>,
    pub(super) words: Vec<Words>,
    /// The load that has the darkest colour; none without loads.
    pub(super) most: Option<f64>,
    /// What a reader should know of the drawing.
    pub(super) notes: Vec<String>,
}

impl Sketch {
    pub(super) fn write(&mut self, at: Point, anchor: Anchor, size: f64, text: impl Into<String>) {
        self.words.push(Words { at, anchor, size, text: text.into() });
    }
}
