//! The summary of a node that another tool described.

use std::path::Path;

use fabriscope_machine::import::{self, NodeFile, Review};
use fabriscope_report::{Cell, Column, Grid, Outcome};
use serde_json::{Value, json};

use super::findings;
use crate::node;

/// What an operator checks first.
pub fn outcome(path: &Path, file: &NodeFile) -> Outcome {
    let machine = &file.machine;
    let review = import::review(machine);
    let mut outcome = Outcome::new();
    outcome.note(format!("{}: {} of {}", path.display(), file.format, file.host)).text("\n");
    outcome.keyed_table("counts", counts(&review)).text("\n");
    if review.gpus + review.adapters > 0 {
        node::text::tell(machine, &mut outcome);
    } else {
        node::text::tell_classes(machine, &mut outcome);
    }
    for note in &file.notes {
        outcome.text(format!("note: {note}\n"));
    }
    if !file.notes.is_empty() {
        outcome.text("\n");
    }
    outcome.text(findings(review.findings.iter().map(|finding| (finding.what.as_str(), finding.places.as_slice()))));
    outcome.text("\n").note(format!("next: fabriscope show {} -o node.svg    draws it", path.display()));
    outcome.extend(json(file));
    outcome
}

fn counts(review: &Review) -> Grid {
    let mut table = Grid::new([Column::words("what", "what"), Column::number("count", "count")]);
    let mut row = |what: &str, count: u64| table.push([Cell::told(what, what.trim_start()), Cell::count(count)]);
    row("sockets", review.sockets.into());
    row("NUMA domains", review.domains.into());
    for (what, count) in [("cores", review.cores), ("processors of the system", review.processors)] {
        if count > 0 {
            row(what, count.into());
        }
    }
    let gib = review.memory_bytes as f64 / f64::from(1 << 30);
    if review.memory_bytes > 0 {
        table.push([Cell::word("memory (GiB)"), Cell::number(gib, 1)]);
    }
    let mut row = |what: &str, count: u32| table.push([Cell::told(what, what.trim_start()), Cell::count(count)]);
    row("GPUs", review.gpus);
    row("  links among them and to their switches", review.gpu_links);
    row("adapters", review.adapters);
    row("  ports", review.ports);
    row("PCI Express switches", review.pcie_switches);
    table
}

/// The same for machines.
fn json(file: &NodeFile) -> Value {
    let machine = &file.machine;
    let name = |id| machine.vertex(id).name.clone();
    let nics = machine.nics();
    let mut classes = serde_json::Map::new();
    for gpu in machine.gpus() {
        let row: serde_json::Map<String, Value> =
            nics.iter().map(|nic| (name(*nic), machine.class(gpu, *nic).to_string().into())).collect();
        classes.insert(name(gpu), row.into());
    }
    json!({
        "format": file.format.to_string(), "host": file.host, "review": import::review(machine), "classes": classes,
        "notes": file.notes, "machine": machine,
    })
}
