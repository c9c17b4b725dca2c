//! The summary of a node that another tool described.

use std::path::Path;

use fabriscope_machine::import::{self, NodeFile, Review};
use fabriscope_report::Table;
use serde_json::{Value, json};

use super::findings;
use crate::node;

/// What an operator checks first, as text.
pub fn text(path: &Path, file: &NodeFile) -> String {
    let machine = &file.machine;
    let review = import::review(machine);
    let mut text = format!("# {}: {} of {}\n\n{}\n", path.display(), file.format, file.host, counts(&review));
    if review.gpus + review.adapters > 0 {
        text += &format!("{}\n", node::text::devices(machine));
    }
    if let Some(classes) = node::text::classes(machine) {
        text += &format!("{classes}\n");
    }
    for note in &file.notes {
        text += &format!("note: {note}\n");
    }
    if !file.notes.is_empty() {
        text.push('\n');
    }
    text += &findings(review.findings.iter().map(|finding| (finding.what.as_str(), finding.places.as_slice())));
    let name = path.display();
    text + &format!("\n# next: fabriscope show {name} -o node.svg    draws it\n")
}

fn counts(review: &Review) -> Table {
    let mut table = Table::new(["what", "count"]);
    let mut row = |what: &str, count: String| table.push([what.to_owned(), count]);
    row("sockets", review.sockets.to_string());
    row("NUMA domains", review.domains.to_string());
    for (what, count) in [("cores", review.cores), ("processors of the system", review.processors)] {
        if count > 0 {
            row(what, count.to_string());
        }
    }
    if review.memory_bytes > 0 {
        row("memory (GiB)", format!("{:.1}", review.memory_bytes as f64 / f64::from(1 << 30)));
    }
    row("GPUs", review.gpus.to_string());
    row("  links among them and to their switches", review.gpu_links.to_string());
    row("adapters", review.adapters.to_string());
    row("  ports", review.ports.to_string());
    row("PCI Express switches", review.pcie_switches.to_string());
    table
}

/// The same for machines.
pub fn json(file: &NodeFile) -> Value {
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
