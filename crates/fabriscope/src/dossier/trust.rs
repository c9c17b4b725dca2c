//! How far to trust the numbers: predictions beside the published tables that are nearest.
//!
//! Nearest are tables of the cluster itself, then of clusters with the same adapter, then with the same kind of link.

use std::collections::BTreeMap;

use fabriscope_catalog::ResolvedCluster;
use fabriscope_lab::published;
use fabriscope_report::render::html::{Page, Part};
use fabriscope_report::{Cell, Column, Grid};

use super::design::Design;
use super::work::Work;
use crate::error::Error;

/// Tables that are run for a report. Basis: assumed; a table takes a second or some.
const MOST_TABLES: usize = 6;
/// Rows of a table that is run for a report.
const MOST_ROWS: usize = 60;
/// Benchmarks that are quick, and those that the report shows.
const KINDS: [&str; 5] = ["osu_latency", "osu_bw", "osu_bibw", "ib_write", "all_reduce_perf"];

/// The section.
pub(super) fn section(work: &Work<'_>, design: &Design, page: &mut Page) -> Result<(), Error> {
    page.head(2, "How far to trust it");
    let near = nearest(work, &design.parts)?;
    if near.is_empty() {
        page.words("No published table is of this cluster, its adapter or its kind of link: nothing here was compared with a measurement.");
        return Ok(());
    }
    let names: Vec<String> = near.keys().cloned().collect();
    let outcome = crate::validate(names).catalog(work.catalog).seed(work.seed).outcome()?;
    let mut grid = Grid::new([
        Column::words("published table", "table"),
        Column::words("is of", "near"),
        Column::words("metric", "metric"),
        Column::number("points", "points"),
        Column::number("median error (%)", "median"),
        Column::number("90 % of points below (%)", "p90"),
        Column::number("bias (%)", "bias"),
    ]);
    let rows = outcome.data();
    for row in rows.as_array().into_iter().flatten() {
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let number = |key: &str| row[key].as_f64().map_or_else(Cell::none, |value| Cell::number(value, 1));
        let table = text("table");
        let is_of = near.get(&table).copied().unwrap_or_default();
        grid.push([
            Cell::word(table),
            Cell::word(is_of),
            Cell::word(text("metric")),
            row["points"].as_u64().map_or_else(Cell::none, Cell::count),
            number("median"),
            number("p90"),
            number("bias"),
        ]);
    }
    page.words("Errors of predictions for the nearest published measurements, of the same kinds of benchmark. A table of another cluster says how well adapter and library are known, not this machine.");
    if let Some(figure) = outcome.figures().first() {
        page.push(Part::Figure(figure.clone()));
    }
    page.push(Part::Table { caption: "Predictions beside the nearest published measurements".to_owned(), grid });
    page.words("Numbers of the catalogue may have been fitted to some of these tables; fabriscope validate --leave-out says what is left without them.");
    Ok(())
}

/// The nearest tables by name, and what is alike.
fn nearest(work: &Work<'_>, parts: &ResolvedCluster) -> Result<BTreeMap<String, &'static str>, Error> {
    let own = parts.groups.first();
    let mut ranked: Vec<(u8, String)> = Vec::new();
    for measured in published::tables()? {
        let Some(first) = measured.rows().first() else { continue };
        let kind = KINDS.iter().any(|kind| first.benchmark.starts_with(kind));
        if !kind || measured.rows().len() > MOST_ROWS {
            continue;
        }
        let other = work.catalog.target(&first.cluster).ok();
        let group = other.as_ref().and_then(|other| other.groups.first());
        let same = |of: fn(&fabriscope_catalog::NodeGroup) -> &str| own.zip(group).is_some_and(|(own, group)| of(own) == of(group));
        let rank = match () {
            () if first.cluster == parts.name => 0,
            () if same(|group| group.node.nic.name.as_str()) => 1,
            () if same(|group| group.link.name.as_str()) => 2,
            () => continue,
        };
        ranked.push((rank, first.table.clone()));
    }
    ranked.sort();
    ranked.dedup();
    let words = |rank: u8| ["this cluster", "the same adapter", "the same kind of link"][usize::from(rank.min(2))];
    Ok(ranked.into_iter().take(MOST_TABLES).map(|(rank, table)| (table, words(rank))).collect())
}
