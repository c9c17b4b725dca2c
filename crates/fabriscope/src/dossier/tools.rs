//! What the standard tools would print, and what binds them.

use fabriscope_catalog::Interface;
use fabriscope_lab::bench::BenchEngine;
use fabriscope_report::render::html::{Page, Part, body};
use fabriscope_report::{Cell, Column, Grid, Outcome};

use super::design::Design;
use super::work::Work;

/// The tools with the options that a report runs them with, and their nodes where not the usual ones.
pub(super) fn usual(design: &Design) -> Vec<(&'static str, Option<u32>)> {
    let parts = &design.parts;
    let mut tools = Vec::new();
    if parts.nodes() > 1 {
        tools.extend([
            ("osu_latency -m 1:4194304 -i 20 -x 4", None),
            ("osu_bw -m 1:4194304 -i 10 -x 2", None),
            ("osu_bibw -m 1:4194304 -i 10 -x 2", None),
        ]);
        if parts.groups.iter().all(|group| group.node.nic.interface == Interface::Verbs) {
            tools.push(("ib_write_lat -a", None));
        }
    }
    if parts.uniform().is_some_and(|group| group.node.gpus > 0 && group.nccl.is_some()) {
        tools.push(("all_reduce_perf -b 1K -e 256M -f 4 -n 2 -w 1", Some(parts.nodes().min(2))));
    }
    tools
}

/// The commands behind the sections.
pub(super) fn commands(design: &Design) -> Vec<String> {
    let name = &design.name;
    let nodes = |nodes: &Option<u32>| nodes.map_or_else(String::new, |nodes| format!(" --nodes {nodes}"));
    let mut commands: Vec<String> =
        usual(design).iter().map(|(line, count)| format!("fabriscope bench {line} --on {name}{}", nodes(count))).collect();
    let most = design.parts.nodes();
    if most > 1 {
        commands.push(format!("fabriscope bench osu_allreduce --on {name} --nodes {} --ppn 4 --engine flow", most.min(8)));
        commands.extend([8, 1 << 20].map(|size| format!("fabriscope explain osu_latency --on {name} -s {size}")));
    }
    commands.push(format!("fabriscope topo {name}"));
    commands
}

/// The section of the tools.
pub(super) fn section(work: &Work<'_>, design: &Design, page: &mut Page) {
    page.head(2, "What the standard tools would print");
    let mut any = false;
    for (line, nodes) in usual(design) {
        let tool = line.split(' ').next().unwrap_or_default();
        page.head(3, tool);
        any = true;
        match work.drawn(design, line, nodes) {
            Ok(outcome) => {
                page.figures(outcome.figures());
                if let Some(grid) = points(&outcome) {
                    page.push(Part::Table { caption: format!("{tool}, by size"), grid });
                }
            }
            Err(reason) => drop(page.words(format!("It does not run here: {reason}."))),
        }
    }
    if !any {
        page.words("One node without GPUs: there is no network to measure.");
    }
}

/// Sizes down, the main quantities across.
fn points(outcome: &Outcome) -> Option<Grid> {
    let points = outcome.tables().find(|grid| grid.name() == "points")?;
    let cell = |row: &[Cell], at: usize| row.get(at).map(|cell| cell.value().clone()).unwrap_or_default();
    let mut metrics: Vec<(String, String)> = Vec::new();
    let mut sizes: Vec<u64> = Vec::new();
    for row in points.rows() {
        let metric = (cell(row, 1).as_str()?.to_owned(), cell(row, 2).as_str()?.to_owned());
        // Extremes and averages are the same where nothing is random.
        let main = !["_min", "_max", "_avg", "_in_place"].iter().any(|end| metric.0.ends_with(end));
        if main && !metrics.contains(&metric) && metrics.len() < 4 {
            metrics.push(metric);
        }
        let size = cell(row, 0).as_u64()?;
        if !sizes.contains(&size) {
            sizes.push(size);
        }
    }
    let heads = metrics.iter().map(|(metric, unit)| Column::number(&format!("{} ({unit})", metric.replace('_', " ")), metric));
    let mut grid = Grid::new(std::iter::once(Column::number("size (B)", "bytes")).chain(heads));
    for size in sizes {
        let of = |(metric, unit): &(String, String)| {
            let own = |row: &&Vec<Cell>| {
                cell(row, 0).as_u64() == Some(size) && cell(row, 1).as_str() == Some(metric) && cell(row, 2).as_str() == Some(unit)
            };
            points.rows().iter().find(own).and_then(|row| cell(row, 3).as_f64()).map_or_else(Cell::none, |value| Cell::number(value, 2))
        };
        grid.push(std::iter::once(Cell::count(size)).chain(metrics.iter().map(of)));
    }
    Some(grid)
}

/// The section of what binds and of what one change would bring.
pub(super) fn what_binds(work: &Work<'_>, design: &Design, page: &mut Page) {
    page.head(2, "What binds, and what one change would bring");
    if design.parts.nodes() < 2 {
        page.words("One node: no message passes a network.");
        return;
    }
    page.words(
        "One message is followed from the call to its arrival; then each change is a run of its own with everything else as it was.",
    );
    for (size, words) in [(8, "A short message: osu_latency of 8 B"), (1 << 20, "A long message: osu_latency of 1 MiB")] {
        page.head(3, words);
        match crate::explain("osu_latency", &design.name).catalog(work.catalog).size(size).seed(work.seed).outcome() {
            Ok(outcome) => {
                page.figures(outcome.figures());
                let told: Vec<_> =
                    outcome.blocks().iter().filter(|block| !matches!(block, fabriscope_report::Block::Table(_))).cloned().collect();
                body(page, &told);
            }
            Err(error) => drop(page.words(format!("It cannot be followed here: {error}."))),
        }
    }
}

/// The value of a tool at a size, for comparisons.
pub(super) fn curve(work: &Work<'_>, design: &Design, line: &str, metric: &str) -> Option<Vec<(f64, f64)>> {
    let done = work.bench(&design.parts, line, None, None, BenchEngine::Auto).ok()?;
    let own = done.printed.points.iter().filter(|point| point.metric == metric && point.size.as_u64() > 0);
    let value = |point: &fabriscope_tools::Point| (point.size.as_u64() as f64, point.value * crate::picture::quantity(point.unit).1);
    Some(own.map(value).collect())
}
