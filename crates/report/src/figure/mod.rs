//! Figures as data: what is drawn, with its units, before any format knows how.
//!
//! A figure is a title and panels below each other. [`draw`] turns it into SVG; PNG and pages are made from that.
//!
//! ```
//! use fabriscope_report::figure::{Axis, Figure, Lines, Look, Panel, Series, Unit};
//! let mut lines = Lines::over(Axis::log2("message size", Unit::Bytes), Axis::log10("latency", Unit::Seconds));
//! lines.series.push(Series::new("predicted", Look::Predicted, [(8.0, 1.2e-6), (4096.0, 2.4e-6)]));
//! let figure = Figure::new("osu_latency on a cluster", [Panel::Lines(lines)]);
//! assert!(fabriscope_report::figure::draw::svg(&[figure]).contains("osu_latency on a cluster"));
//! ```

pub mod draw;
mod unit;

pub use unit::Unit;

/// A picture: a title, lines below it, and panels.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The line above.
    pub title: String,
    /// Lines below the title.
    pub caption: Vec<String>,
    /// What is drawn, from top to bottom.
    pub panels: Vec<Panel>,
}

/// One drawing of a figure.
#[derive(Debug, Clone, PartialEq)]
pub enum Panel {
    /// Curves, points, steps and bands over two axes.
    Lines(Lines),
    /// Stages that follow each other.
    Waterfall(Waterfall),
    /// Bars with their names.
    Bars(Bars),
    /// Values of rows over columns as colours.
    Heat(Heat),
    /// Drawings that another crate made, side by side, all with one scale of colours.
    Sheets(Sheets),
}

/// An axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// What it is.
    pub label: String,
    /// How values are placed.
    pub scale: Scale,
    /// What they are values of.
    pub unit: Unit,
}

/// How values are placed along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// By the value, from zero.
    Linear,
    /// By the logarithm; numbers at powers of two.
    Log2,
    /// By the logarithm; numbers at powers of ten.
    Log10,
}

/// Curves over two axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Lines {
    /// Across.
    pub x: Axis,
    /// Upwards; its label stands above the panel.
    pub y: Axis,
    /// The curves, in the order of the legend.
    pub series: Vec<Series>,
    /// What lies between two curves.
    pub bands: Vec<Band>,
    /// Straight lines at one value.
    pub references: Vec<Reference>,
}

/// One curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// How it looks.
    pub look: Look,
    /// Which of the colours; the next free one where none is said.
    pub colour: Option<usize>,
    /// Where it passes.
    pub points: Vec<(f64, f64)>,
}

/// How a curve looks. What differs in colour differs in marker or dashes as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// A line with full markers: what the model says.
    Predicted,
    /// Dashes with hollow markers: what somebody measured.
    Published,
    /// Points alone.
    Points,
    /// Steps without markers: a distribution.
    Steps,
    /// A thin grey line of dashes and dots: what cannot be passed.
    Bound,
}

/// What lies between two curves.
#[derive(Debug, Clone, PartialEq)]
pub struct Band {
    /// Its name in the legend.
    pub name: String,
    /// Place, lower and upper value.
    pub points: Vec<(f64, f64, f64)>,
}

/// A straight line.
#[derive(Debug, Clone, PartialEq)]
pub struct Reference {
    /// Its name in the legend.
    pub name: String,
    /// Which way it goes.
    pub along: Along,
}

/// Which way a straight line goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Along {
    /// Across, at this value of the vertical axis.
    Across(f64),
    /// Upwards, at this value of the horizontal axis.
    Up(f64),
}

/// Stages that follow each other and make up a whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Waterfall {
    /// What the stages are of.
    pub label: String,
    /// Unit of the lengths.
    pub unit: Unit,
    /// Name and length of each stage, in order.
    pub stages: Vec<(String, f64)>,
}

/// Horizontal bars.
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    /// What their length is.
    pub label: String,
    /// Unit of the lengths.
    pub unit: Unit,
    /// What the marks on the bars are, where there are any.
    pub mark: Option<String>,
    /// What the limits are, where there are any.
    pub limit: Option<String>,
    /// The bars from top to bottom.
    pub rows: Vec<Bar>,
}

/// A bar.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Bar {
    /// Its name.
    pub name: String,
    /// How long it is; below zero it goes to the left.
    pub value: f64,
    /// Where a second value is marked.
    pub mark: Option<f64>,
    /// Where the value should end.
    pub limit: Option<f64>,
    /// A bar that asks to be looked at.
    pub loud: bool,
}

/// Values as colours.
#[derive(Debug, Clone, PartialEq)]
pub struct Heat {
    /// What the values are.
    pub label: String,
    /// Unit of the values.
    pub unit: Unit,
    /// Across: from the left edge of the first column to the right edge of the last.
    pub x: Axis,
    /// The values at both edges.
    pub extent: (f64, f64),
    /// Name and values of each row.
    pub rows: Vec<(String, Vec<f64>)>,
    /// The value that has the darkest colour.
    pub most: f64,
}

/// Drawings that another crate made.
#[derive(Debug, Clone, PartialEq)]
pub struct Sheets {
    /// What the colours are.
    pub label: String,
    /// Unit of the colours.
    pub unit: Unit,
    /// The value that has the darkest colour; none where colours say nothing.
    pub most: Option<f64>,
    /// The drawings.
    pub sheets: Vec<Sheet>,
}

/// One of the drawings.
#[derive(Debug, Clone, PartialEq)]
pub struct Sheet {
    /// The words above it.
    pub name: String,
    /// Its width and height.
    pub size: (f64, f64),
    /// The elements of an SVG image, in a frame from (0, 0) to the size.
    pub elements: String,
}

impl Figure {
    /// A figure without a caption.
    #[must_use]
    pub fn new(title: impl Into<String>, panels: impl IntoIterator<Item = Panel>) -> Figure {
        Figure { title: title.into(), caption: Vec::new(), panels: panels.into_iter().collect() }
    }
    /// The same with a line below the title.
    #[must_use]
    pub fn told(mut self, line: impl Into<String>) -> Figure {
        self.caption.push(line.into());
        self
    }
    /// Whether there is anything in it to see.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.panels.iter().all(Panel::is_empty)
    }
}

impl Panel {
    /// Whether there is nothing in it to see.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Panel::Lines(lines) => lines.series.iter().all(|series| series.points.is_empty()),
            Panel::Waterfall(waterfall) => waterfall.stages.is_empty(),
            Panel::Bars(bars) => bars.rows.is_empty(),
            Panel::Heat(heat) => heat.rows.is_empty(),
            Panel::Sheets(sheets) => sheets.sheets.is_empty(),
        }
    }
    /// What it shows, in words: for those who do not see it.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Panel::Lines(lines) => lines.words(),
            Panel::Waterfall(waterfall) => waterfall.words(),
            Panel::Bars(bars) => {
                let most = bars.rows.iter().max_by(|a, b| a.value.total_cmp(&b.value));
                let most =
                    most.map_or_else(String::new, |bar| format!("; the longest is {} with {}", bar.name, bars.unit.exact(bar.value)));
                format!("{} bars of {}{most}.", bars.rows.len(), bars.label)
            }
            Panel::Heat(heat) => {
                let values = heat.rows.iter().flat_map(|(_, values)| values).copied();
                let most = values.fold(0.0, f64::max);
                format!("{} of {} rows over {}; the most is {}.", heat.label, heat.rows.len(), heat.x.label, heat.unit.exact(most))
            }
            Panel::Sheets(sheets) => {
                let names: Vec<&str> = sheets.sheets.iter().map(|sheet| sheet.name.as_str()).filter(|name| !name.is_empty()).collect();
                format!("{} {}: {}.", sheets.sheets.len(), if sheets.sheets.len() == 1 { "drawing" } else { "drawings" }, sheets.label)
                    + &if names.is_empty() { String::new() } else { format!(" {}.", names.join(", ")) }
            }
        }
    }
}

impl Axis {
    /// An axis from zero.
    #[must_use]
    pub fn linear(label: impl Into<String>, unit: Unit) -> Axis {
        Axis { label: label.into(), scale: Scale::Linear, unit }
    }
    /// An axis with numbers at powers of two.
    #[must_use]
    pub fn log2(label: impl Into<String>, unit: Unit) -> Axis {
        Axis { label: label.into(), scale: Scale::Log2, unit }
    }
    /// An axis with numbers at powers of ten.
    #[must_use]
    pub fn log10(label: impl Into<String>, unit: Unit) -> Axis {
        Axis { label: label.into(), scale: Scale::Log10, unit }
    }
    /// Whether a value has a place on it: a number, on an axis of logarithms above zero, and no larger or smaller than any unit has a prefix for.
    #[must_use]
    pub fn takes(&self, value: f64) -> bool {
        let size = value.abs();
        size <= LARGEST && (self.scale == Scale::Linear || value >= 1.0 / LARGEST)
    }
}

impl Lines {
    /// No curves yet.
    #[must_use]
    pub fn over(x: Axis, y: Axis) -> Lines {
        Lines { x, y, series: Vec::new(), bands: Vec::new(), references: Vec::new() }
    }

    fn words(&self) -> String {
        let mut words = format!("{} over {}.", self.y.label, self.x.label);
        for series in self.series.iter().filter(|series| !series.points.is_empty()) {
            let values = || series.points.iter().map(|point| point.1).filter(|value| self.y.takes(*value));
            let value = |pick: fn(f64, f64) -> f64| values().reduce(pick).unwrap_or_default();
            let (least, most) = (self.y.unit.exact(value(f64::min)), self.y.unit.exact(value(f64::max)));
            words += &format!(" {}: {} values from {least} to {most}.", series.name, values().count());
        }
        for reference in &self.references {
            words += &format!(" {}.", reference.name);
        }
        words
    }
}

impl Series {
    /// A curve in the next free colour.
    #[must_use]
    pub fn new(name: impl Into<String>, look: Look, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
        Series { name: name.into(), look, colour: None, points: points.into_iter().collect() }
    }
    /// The same in that colour.
    #[must_use]
    pub fn coloured(mut self, colour: usize) -> Series {
        self.colour = Some(colour);
        self
    }
    /// The distribution of these values: at each value the share of those that do not exceed it. Above 400 values, 400 of them in equal steps.
    #[must_use]
    pub fn distribution(name: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Series {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let all = values.len();
        let shown = all.min(MOST_STEPS);
        let step = |number: usize| {
            let last = (number + 1) * all / shown;
            (values[last - 1], last as f64 / all as f64)
        };
        Series::new(name, Look::Steps, (0..shown).map(step))
    }
}

impl Waterfall {
    /// The sum of the stages.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.stages.iter().map(|(_, length)| length).sum()
    }

    fn words(&self) -> String {
        let longest = self.stages.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let longest =
            longest.map_or_else(String::new, |(name, length)| format!("; the longest is {name} with {}", self.unit.exact(*length)));
        format!("{}: {} stages make up {}{longest}.", self.label, self.stages.len(), self.unit.exact(self.total()))
    }
}

/// Values beyond have no place. Basis: assumed; attoseconds and exabytes are within.
const LARGEST: f64 = 1e21;
/// Steps of a distribution that are drawn. Basis: assumed; a step is two pixels wide then.
const MOST_STEPS: usize = 400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_ends_at_one_and_does_not_fall() {
        let few = Series::distribution("few", [3.0, 1.0, f64::NAN, 2.0, 2.0]);
        assert_eq!(few.points, [(1.0, 0.25), (2.0, 0.5), (2.0, 0.75), (3.0, 1.0)]);
        let many = Series::distribution("many", (0..1003).rev().map(f64::from));
        assert_eq!((many.points.len(), many.points[0], many.points[399]), (400, (1.0, 2.0 / 1003.0), (1002.0, 1.0)));
        assert!(many.points.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 < pair[1].1));
        assert!(Series::distribution("none", []).points.is_empty());
    }

    #[test]
    fn words_say_what_is_to_be_seen() {
        let mut lines = Lines::over(Axis::log2("message size", Unit::Bytes), Axis::log10("latency", Unit::Seconds));
        lines.series.push(Series::new("predicted", Look::Predicted, [(8.0, 1.25e-6), (4096.0, 0.002)]));
        assert_eq!(Panel::Lines(lines).words(), "latency over message size. predicted: 2 values from 1.25 µs to 2 ms.");
        let stages = vec![("post".to_owned(), 80e-9), ("wire".to_owned(), 1e-7)];
        let waterfall = Waterfall { label: "one message".to_owned(), unit: Unit::Seconds, stages };
        assert_eq!(waterfall.words(), "one message: 2 stages make up 180 ns; the longest is wire with 100 ns.");
    }
}
