//! Several designs side by side: what they are made of, what they can carry, what the tools would print on each.

use fabriscope_report::figure::{Axis, Figure, Lines, Look, Panel, Series, Unit};
use fabriscope_report::render::html::{Page, Part};
use fabriscope_report::{Cell, Column, Grid};

use super::design::{Design, switches};
use super::work::Work;
use super::{bill, failures, tools};

/// The tools whose curves are compared: the command, what is read, its name and unit.
const CURVES: [(&str, &str, &str, Unit); 3] = [
    ("osu_latency -m 1:4194304 -i 20 -x 4", "latency", "latency", Unit::Seconds),
    ("osu_bw -m 1:4194304 -i 10 -x 2", "bandwidth", "bandwidth", Unit::BytesPerSecond),
    ("osu_bibw -m 1:4194304 -i 10 -x 2", "bandwidth", "bandwidth, both directions", Unit::BytesPerSecond),
];

/// All sections but the last.
pub(super) fn sections(work: &Work<'_>, designs: &[Design], page: &mut Page) {
    let steps = designs.len() + CURVES.len();
    page.head(2, "What they are");
    let row = |name: &str, of: &dyn Fn(&Design) -> String| {
        std::iter::once(Cell::word(name)).chain(designs.iter().map(|design| Cell::word(of(design)))).collect::<Vec<_>>()
    };
    let columns = std::iter::once(Column::words("", "what")).chain(designs.iter().map(|design| Column::words(&design.name, &design.name)));
    let mut grid = Grid::new(columns);
    let group = |design: &Design, of: &dyn Fn(&fabriscope_catalog::NodeGroup) -> String| {
        design.parts.groups.iter().map(of).collect::<Vec<_>>().join("; ")
    };
    grid.push(row("what it is", &|design| design.parts.title.clone()));
    grid.push(row("nodes", &|design| design.parts.nodes().to_string()));
    grid.push(row("fabric", &|design| design.cluster.fabric.to_string()));
    grid.push(row("links", &|design| group(design, &|group| group.link.data_rate().to_string())));
    grid.push(row("adapters of a node", &|design| group(design, &|group| format!("{} × {}", group.node.nics, group.node.nic.title))));
    grid.push(row("routing", &|design| design.parts.routing.to_string()));
    grid.push(row("longest shortest path", &|design| switches(design.diameter)));
    grid.push(row("bisection", &|design| {
        design.bisection.map_or_else(|| "-".to_owned(), |cut| format!("{:.0} %, {}", 100.0 * cut.share, cut.rate))
    }));
    page.push(Part::Table { caption: "The designs".to_owned(), grid });
    let all: Vec<&Design> = designs.iter().collect();
    page.push(Part::Table { caption: "Switches, cables, transceivers and adapters".to_owned(), grid: bill::grid(&all, work.prices) });
    if work.prices.is_none() {
        page.words("With --prices FILE.csv (columns part, price, power_w) prices and power are added up. The catalogue has neither.");
    }
    page.head(2, "What the standard tools would print");
    for (number, (line, metric, label, unit)) in CURVES.into_iter().enumerate() {
        let mut lines = Lines::over(Axis::log2("message size", Unit::Bytes), Axis::log10(label, unit));
        let mut refused = Vec::new();
        for design in designs {
            match tools::curve(work, design, line, metric) {
                Some(points) => lines.series.push(Series::new(design.name.as_str(), Look::Predicted, points)),
                None => refused.push(format!("{} does not run on {}", line.split(' ').next().unwrap_or_default(), design.name)),
            }
        }
        let table = values(&lines, designs);
        let tool = line.split(' ').next().unwrap_or_default();
        let figure = Figure::new(format!("{tool} on each"), [Panel::Lines(lines)]);
        if !figure.is_empty() {
            page.push(Part::Figure(figure));
            page.push(Part::Table { caption: format!("{tool}, at some sizes"), grid: table });
        }
        page.notes(refused);
        (work.progress)(number + 1, steps);
    }
    for (number, design) in designs.iter().enumerate() {
        let mut own = Page::new("");
        failures::section(work, design, &mut own);
        // The head names the design here.
        for part in own.parts() {
            match part {
                Part::Head(2, words) => drop(page.head(2, format!("{words} of {}", design.name))),
                other => drop(page.push(other.clone())),
            }
        }
        (work.progress)(CURVES.len() + number + 1, steps);
    }
}

/// Values of curves at some sizes.
fn values(lines: &Lines, designs: &[Design]) -> Grid {
    let mut grid = Grid::new(
        std::iter::once(Column::words("size", "bytes")).chain(designs.iter().map(|design| Column::number(&design.name, &design.name))),
    );
    for size in [8u64, 4 << 10, 64 << 10, 1 << 20, 4 << 20] {
        let at = |design: &Design| {
            let series = lines.series.iter().find(|series| series.name == design.name);
            let point = series.and_then(|series| series.points.iter().find(|point| point.0 == size as f64));
            point.map_or_else(Cell::none, |point| Cell::told(lines.y.unit.exact(point.1), point.1))
        };
        grid.push(std::iter::once(Cell::told(Unit::Bytes.exact(size as f64), size)).chain(designs.iter().map(at)));
    }
    grid
}
