//! What the profile of a hardware mock becomes.

use std::path::Path;

use fabriscope_catalog::ResolvedCluster;
use fabriscope_report::{Cell, Column, Grid, Outcome};

/// The parts that a profile becomes.
pub fn outcome(file: &Path, cluster: &ResolvedCluster) -> Outcome {
    let mut outcome = Outcome::new();
    let mut parts = Grid::new([Column::words("what", "what"), Column::number("count", "count"), Column::words("part", "part")]);
    let mut row = |what: &str, count: u32, part: &str| parts.push([Cell::word(what), Cell::count(count), Cell::word(part)]);
    let group = cluster.sole();
    let node = &group.node;
    row("nodes", group.nodes, &node.layout.part.name);
    row("processors of each", node.sockets, &node.cpu.name);
    if let Some(gpu) = &node.gpu {
        row("GPUs of each", node.gpus, &gpu.name);
    }
    row("adapters of each", node.nics, &node.nic.name);
    row("link of each adapter", 1, &group.link.name);
    outcome.note(format!("{}: {}", file.display(), cluster.title)).text("\n").keyed_table("parts", parts).text("\n");
    let name = file.display();
    outcome.note(format!("next: fabriscope exec --on {name}:2 --host a: ib_send_lat --host b: ib_send_lat a"));
    outcome.note(format!("      fabriscope import {name} -o mine.toml    a cluster to change: its switches, its nodes"));
    outcome
}
