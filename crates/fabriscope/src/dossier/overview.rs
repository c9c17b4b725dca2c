//! What a cluster is: its parts with what their numbers rest on, its fabric with counts and bisection, its picture.

use std::collections::BTreeMap;

use fabriscope_catalog::Catalog;
use fabriscope_fabric::picture::drawing;
use fabriscope_report::figure::{Figure, Panel, Sheet, Sheets, Unit};
use fabriscope_report::render::html::{Page, Part};
use fabriscope_report::{Cell, Column, Grid};

use super::bill;
use super::design::{Design, switches};
use super::work::Work;

/// The names of its parts with what each is for, once each.
fn part_names(design: &Design) -> BTreeMap<String, &'static str> {
    let mut names = BTreeMap::new();
    for group in &design.parts.groups {
        names.insert(group.node.cpu.name.clone(), "processor");
        names.insert(group.node.nic.name.clone(), "adapter");
        names.insert(group.software.name.clone(), "message library");
        names.insert(group.cable.name.clone(), "cable of nodes");
        names.extend(group.node.gpu.iter().map(|gpu| (gpu.name.clone(), "GPU")));
        names.extend(group.nccl.iter().map(|nccl| (nccl.name.clone(), "collectives of GPUs")));
    }
    names.insert(design.parts.cable.name.clone(), "cable between switches");
    let all = design.parts.switch.iter().chain(design.parts.switch_levels.iter().flatten());
    names.extend(all.map(|switch| (switch.name.clone(), "switch")));
    names
}

/// The first section.
pub(super) fn section(work: &Work<'_>, design: &Design, page: &mut Page) {
    let parts = &design.parts;
    page.head(2, "What it is");
    let mut facts = vec![
        ("nodes".to_owned(), parts.nodes().to_string()),
        ("fabric".to_owned(), design.cluster.fabric.to_string()),
        ("routing".to_owned(), parts.routing.to_string()),
        ("largest packet".to_owned(), parts.mtu.to_string()),
        ("longest shortest path".to_owned(), switches(design.diameter)),
    ];
    if let Some(cut) = &design.bisection {
        let exact = if cut.exact { "exactly" } else { "at most" };
        let share = 100.0 * cut.share;
        facts.push((
            "bisection".to_owned(),
            format!("{exact} {share:.0} % of what half of the endpoints send: {} cables, {}", cut.cables, cut.rate),
        ));
    }
    for group in &parts.groups {
        let node = &group.node;
        let of = |count: u32, what: &str| if count == 1 { what.to_owned() } else { format!("{count} × {what}") };
        let gpus = node.gpu.as_ref().map_or_else(String::new, |gpu| format!("{}, ", of(node.gpus, &gpu.title)));
        let name = if parts.groups.len() > 1 { format!("each node of {}", group.name) } else { "each node".to_owned() };
        let words =
            format!("{}, {gpus}{}, links of {}", of(node.sockets, &node.cpu.title), of(node.nics, &node.nic.title), group.link.data_rate());
        facts.push((name, words));
    }
    if !parts.notes.is_empty() {
        facts.push(("notes".to_owned(), parts.notes.clone()));
    }
    page.push(Part::Facts(facts));
    match drawing(&design.cluster.fabric, None, 1.0) {
        Ok(drawn) => {
            let sheet = Sheet { name: String::new(), size: drawn.size, elements: drawn.elements };
            let label = design.cluster.fabric.to_string();
            let sheets = Sheets { label, unit: Unit::Share, most: None, sheets: vec![sheet] };
            let mut figure = Figure::new(format!("The fabric of {}", design.name), [Panel::Sheets(sheets)]);
            figure.caption.extend(drawn.notes);
            page.push(Part::Figure(figure));
        }
        Err(error) => drop(page.words(format!("It is not drawn: {error}."))),
    }
    page.push(Part::Table { caption: "Switches, cables and adapters".to_owned(), grid: bill::grid(&[design], work.prices) });
    page.push(Part::Table { caption: "Parts, and what their numbers rest on".to_owned(), grid: sources(design, work.catalog) });
    page.words("Each number of the catalogue says where it is from; fabriscope show PART has them one by one. Assumed and estimated numbers are guesses that nobody measured.");
}

/// Each part with its numbers by basis and some of its sources.
fn sources(design: &Design, catalog: &Catalog) -> Grid {
    let mut grid = Grid::new([
        Column::words("part", "part"),
        Column::words("is", "is"),
        Column::words("title", "title"),
        Column::words("numbers by what they rest on", "basis"),
        Column::words("sources, the first ones", "sources"),
    ]);
    for (name, is) in part_names(design) {
        let Ok(found) = catalog.show(&name) else { continue };
        let rows: Vec<_> = found.iter().flat_map(|part| part.numbers()).collect();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        rows.iter().for_each(|row| *counts.entry(row.basis.name()).or_default() += 1);
        let basis: Vec<String> = counts.iter().map(|(basis, count)| format!("{count} {basis}")).collect();
        let mut sources: Vec<&str> = Vec::new();
        for row in rows.iter().filter(|row| !row.source.is_empty()) {
            if !sources.contains(&row.source.as_str()) && sources.len() < 2 {
                sources.push(&row.source);
            }
        }
        let title = found.first().map_or("", |part| part.title());
        grid.push([
            Cell::word(name.as_str()),
            Cell::word(is),
            Cell::word(title),
            Cell::word(basis.join(", ")),
            Cell::word(sources.join("; ")),
        ]);
    }
    grid
}
