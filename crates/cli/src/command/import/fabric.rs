//! The summary of a fabric that another tool described.

use std::collections::BTreeMap;
use std::path::Path;

use fabriscope_fabric::import::{LftsSummary, Review};
use fabriscope_report::{Cell, Column, Grid, Outcome};

use super::findings;
use super::join::Joined;

/// What an operator checks first.
pub fn outcome(file: &Path, review: &Review, tables: Option<LftsSummary>, joined: Option<&Joined>) -> Outcome {
    let mut outcome = Outcome::new();
    if let Some(joined) = joined {
        outcome.text(joined.text());
    }
    outcome.note(file.display().to_string()).text("\n").keyed_table("counts", counts(review)).text("\n");
    outcome.keyed_table("classes", classes(review)).text("\n");
    if !review.between.is_empty() {
        let mut between = Grid::new([Column::words("from", "from"), Column::words("to", "to"), Column::number("cables", "cables")]);
        for (low, high, cables) in &review.between {
            between.push([Cell::word(low.as_str()), Cell::word(high.as_str()), Cell::count(*cables)]);
        }
        outcome.keyed_table("between", between).text("\n");
    }
    if review.rails.len() <= MOST_RAILS {
        let mut rails = Grid::new([Column::words("rail", "rail"), Column::number("adapters", "adapters")]);
        for (rail, adapters) in &review.rails {
            rails.push([Cell::told(if rail.is_empty() { "(no name)" } else { rail.as_str() }, rail.as_str()), Cell::count(*adapters)]);
        }
        outcome.keyed_table("rails", rails).text("\n");
    }
    if let Some(tables) = tables {
        let LftsSummary { switches, entries, to_endpoints, passed_over } = tables;
        let what = format!("{switches} switches, {entries} entries, {to_endpoints} of them to hosts, {passed_over} lines passed over");
        outcome.note(format!("tables: {what}")).text("\n").set("tables", serde_json::to_value(tables).unwrap_or_default());
    }
    for note in &review.notes {
        outcome.text(format!("note: {note}\n"));
    }
    if !review.notes.is_empty() {
        outcome.text("\n");
    }
    outcome.text(findings(review.findings.iter().map(|finding| (finding.what.as_str(), finding.places.as_slice()))));
    let name = file.display();
    outcome.text("\n").note(format!("next: fabriscope export {name} -o fabric.conf    topology.conf for Slurm"));
    outcome.note(format!("      fabriscope import {name} -o mine.toml    a cluster to run benchmarks and labs on"));
    // Programs read the review as it is, tables that are in it included.
    outcome.extend(serde_json::to_value(review).unwrap_or_default());
    if let Some(joined) = joined {
        outcome.set("nodes", serde_json::to_value(joined).unwrap_or_default());
    }
    outcome
}

/// How many there are of what.
fn counts(review: &Review) -> Grid {
    let mut table = Grid::new([Column::words("what", "what"), Column::number("count", "count")]);
    let mut row = |what: &str, count: u32| table.push([Cell::told(what, what.trim_start()), Cell::count(count)]);
    row("switches", review.switches);
    for (index, switches) in review.levels.iter().enumerate() {
        row(&format!("  of level {}", index + 1), *switches);
    }
    if !review.chassis.is_empty() {
        row("director chassis", review.chassis.len() as u32);
        row("  switches in them", review.chassis.iter().map(|chassis| chassis.switches.values().sum::<u32>()).sum());
    }
    row("hosts", review.hosts);
    for (adapters, hosts) in &review.hosts_by_adapters {
        row(&format!("  with {adapters} adapter{}", if *adapters == 1 { "" } else { "s" }), *hosts);
    }
    row("adapters of hosts", review.adapters);
    row("aggregation nodes (SHARP)", review.aggregation_nodes);
    row("cables", review.cables);
    row("  between switches", review.switch_cables);
    for (speed, cables) in &review.speeds {
        row(&format!("  {speed}"), *cables);
    }
    row("leaf switches with one rail", review.single_rail_leaves);
    row("lines not understood", review.unread_lines);
    table
}

/// The classes of switches.
fn classes(review: &Review) -> Grid {
    let list = |counts: &BTreeMap<u32, u32>| {
        let item = |(value, switches): (&u32, &u32)| if counts.len() == 1 { value.to_string() } else { format!("{value} ({switches})") };
        counts.iter().map(item).collect::<Vec<_>>().join(", ")
    };
    let mut classes = Grid::new([
        Column::words("level", "level"),
        Column::words("switches", "name"),
        Column::number("count", "switches"),
        Column::number("ports", "ports"),
        Column::number("host cables", "host_cables"),
        Column::words("uplinks of each", "uplinks"),
    ]);
    for class in &review.classes {
        let ports: Vec<String> = class.ports.keys().map(u16::to_string).collect();
        classes.push([
            Cell::count(class.level),
            Cell::word(class.name.as_str()),
            Cell::count(class.switches),
            Cell::word(ports.join(", ")),
            Cell::count(class.host_cables),
            Cell::word(list(&class.uplinks)),
        ]);
    }
    classes
}

/// Rails that are listed; a list of more says nothing.
const MOST_RAILS: usize = 24;
