//! Collective operations over more and more nodes, as flows at the costs of the message library.

use fabriscope_lab::bench::BenchEngine;
use fabriscope_report::figure::{Axis, Figure, Lines, Look, Panel, Series, Unit};
use fabriscope_report::render::html::{Page, Part};
use fabriscope_report::{Cell, Column, Grid};

use super::design::Design;
use super::work::Work;

/// Ranks on each node. Basis: assumed; enough to have traffic within nodes, and few enough to be done in a minute.
const PER_NODE: u32 = 4;
/// The largest job of a report.
const MOST_NODES: u32 = 64;

/// The largest job of a report that goes by packets, where flows cannot.
const MOST_NODES_OF_PACKETS: u32 = 8;

/// What is run: the tool, its sizes.
const RUN: [(&str, u64); 3] = [("osu_allreduce", 8), ("osu_allreduce", 1 << 20), ("osu_alltoall", 8 << 10)];

/// The section.
pub(super) fn section(work: &Work<'_>, design: &Design, page: &mut Page) {
    page.head(2, "Collective operations at scale");
    let most = design.parts.nodes().min(MOST_NODES);
    let mut nodes: Vec<u32> = std::iter::successors(Some(2), |nodes| Some(nodes * 2)).take_while(|nodes| *nodes <= most).collect();
    if most > 1 && !nodes.contains(&most) {
        nodes.push(most);
    }
    if nodes.is_empty() {
        page.words("One node: nothing to scale over.");
        return;
    }
    let mut lines = Lines::over(Axis::log2("nodes", Unit::Count), Axis::log10("time of one operation", Unit::Seconds));
    let mut grid = Grid::new(
        [Column::words("operation", "operation"), Column::words("size", "bytes")]
            .into_iter()
            .chain(nodes.iter().map(|nodes| Column::number(&format!("{nodes} nodes (us)"), &format!("nodes_{nodes}")))),
    );
    let mut refused = Vec::new();
    for (tool, size) in RUN {
        let line = format!("{tool} -m {size}:{size} -i 2 -x 1");
        let mut points = Vec::new();
        let words = Unit::Bytes.exact(size as f64);
        let mut row = vec![Cell::word(tool), Cell::word(words.as_str())];
        for &count in &nodes {
            let ran = |engine| work.bench(&design.parts, &line, Some(count), Some(PER_NODE), engine);
            // What the flow engine has no model of, such as adaptive routing, small jobs have as packets.
            let done = match ran(BenchEngine::Flow) {
                Err(_) if count <= MOST_NODES_OF_PACKETS => ran(BenchEngine::Packet),
                other => other,
            };
            let value = done.map(|done| done.printed.points.iter().find(|point| point.metric == "latency").map(|point| point.value));
            match value {
                Ok(Some(us)) => {
                    points.push((f64::from(count), us * 1e-6));
                    row.push(Cell::number(us, 2));
                }
                Ok(None) => row.push(Cell::none()),
                Err(reason) => {
                    row.push(Cell::none());
                    if !refused.contains(&reason) {
                        refused.push(reason);
                    }
                }
            }
        }
        grid.push(row);
        lines.series.push(Series::new(format!("{tool}, {words}"), Look::Predicted, points));
    }
    page.words(format!(
        "{PER_NODE} ranks on each node, messages as flows that share the links, or, where flows have no model of the fabric, as packets on up to {MOST_NODES_OF_PACKETS} nodes; up to {most} of {} nodes.",
        design.parts.nodes()
    ));
    let figure = Figure::new(format!("Collective operations on {}", design.name), [Panel::Lines(lines)]);
    if !figure.is_empty() {
        page.push(Part::Figure(figure));
        page.push(Part::Table { caption: "Collective operations by nodes".to_owned(), grid });
    }
    page.notes(refused.into_iter().map(|reason| format!("not run: {reason}")).collect());
}
