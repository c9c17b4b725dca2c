//! `fabriscope show`: one part or cluster, as its file says it and with all its parts at hand; a node with its devices and paths.

use std::path::{Path, PathBuf};

use fabriscope_catalog::{AnyPart, ResolvedCluster};
use fabriscope_machine::picture::{self, Picture};
use fabriscope_report::{Cell, Column, Grid, Outcome};
use serde_json::json;

use crate::context::Context;
use crate::error::{Failure, Verdict};
use crate::node::path::TransferPath;
use crate::node::{Source, text};
use crate::output::{FormatArgs, Output, write_file};

/// Shows a part or a cluster; of a node its devices, how near they are to each other, and its picture.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Name of a part or a cluster, a cluster's TOML file, or a file about a node that `fabriscope import` reads
    name: String,
    /// The path of a transfer in the node, step by step; drawn with --output
    #[arg(long, num_args = 2, value_names = ["FROM", "TO"])]
    path: Vec<String>,
    #[command(flatten)]
    format: FormatArgs,
    /// Draw the node, or that of the cluster, into this file: .svg; or write the result to it: .json, .csv, .txt
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope show ri2
  fabriscope show connectx-5 --json
  fabriscope show my-cluster.toml --json    checks the file and fills in its parts
  fabriscope show dgx-a100 -o node.svg      a node of the catalogue, drawn
  fabriscope show dgx-a100 --path gpu0-memory nic3
  lstopo --of xml > me.xml && fabriscope show me.xml -o me.svg";

/// Runs the command.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    let path = Path::new(&args.name);
    let is_toml = args.name.ends_with(".toml");
    let is_file = path.is_file() && !is_toml;
    let drawn = args.output.as_deref().map(is_picture).transpose()?.unwrap_or(false);
    let file = args.output.as_deref().filter(|_| !drawn);
    let outcome = if is_file || drawn || !args.path.is_empty() {
        node(args, &Source::of(&args.name, context)?, args.output.as_deref().filter(|_| drawn))?
    } else if args.name.contains(['/', '\\', ':']) || is_toml {
        resolved(&context.cluster(&args.name)?)
    } else {
        parts(&args.name, context)?
    };
    args.format.write(&outcome, file, output)
}

/// Whether a file is to hold the picture of the node, not the result.
fn is_picture(file: &Path) -> Result<bool, Failure> {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("svg") => Ok(true),
        Some("json" | "csv" | "txt") => Ok(false),
        _ => {
            let message = format!("{}: no picture of this kind is drawn of a node", file.display());
            Err(Failure::told(message, "end the name in .svg; or, for the result, in .json, .csv or .txt"))
        }
    }
}

/// A cluster with all its parts, as data.
fn resolved(cluster: &ResolvedCluster) -> Outcome {
    let value = serde_json::to_value(cluster).unwrap_or_default();
    let mut outcome = Outcome::new();
    outcome.text(format!("{value:#}\n")).data_table("groups", groups(cluster)).whole(value);
    outcome
}

/// The groups of nodes of a cluster.
fn groups(cluster: &ResolvedCluster) -> Grid {
    let keys = ["group", "nic", "link", "software"].map(Column::data);
    let mut grid = Grid::new(keys.into_iter().chain([Column::data("nodes")]));
    for group in &cluster.groups {
        let words = [&group.name, &group.node.nic.name, &group.link.name, &group.software.name].map(|name| Cell::data(name.clone()));
        grid.push(words.into_iter().chain([Cell::data(group.nodes)]));
    }
    grid
}

/// The parts of that name, as their files say them.
fn parts(name: &str, context: &Context) -> Result<Outcome, Failure> {
    let catalog = context.catalog()?;
    let (mut outcome, mut values, mut numbers) = (Outcome::new(), Vec::new(), Vec::new());
    for part in catalog.show(name).map_err(Failure::of)? {
        let file = catalog.file_of(part.kind(), part.name()).unwrap_or_default();
        let text = catalog.text_of(part.kind(), part.name()).unwrap_or_default();
        outcome.note(format!("{}: {} ({file})", part.kind(), part.title())).text(text);
        numbers.extend(part.numbers());
        match part {
            AnyPart::Node(part) => {
                let source = Source::of_part(&part.name, &part.title, context)?;
                text::tell(&source.machine, outcome.text("\n"));
                outcome.note(format!("fabriscope show {} -o node.svg draws it", part.name));
            }
            AnyPart::Cluster(_) => {
                outcome.note("fabriscope show NAME shows each part; --json shows the cluster with all of them");
            }
            _ => {}
        }
        values.push(match part {
            AnyPart::Cluster(cluster) => serde_json::to_value(catalog.resolve(cluster, None).map_err(Failure::of)?).unwrap_or_default(),
            other => other.to_json(),
        });
    }
    // A name of several kinds gives a list.
    let value = if values.len() == 1 { values.remove(0) } else { values.into() };
    outcome.data_table("numbers", super::parts::numbers(&numbers)).whole(value);
    Ok(outcome)
}

/// A node: its picture, a path in it, its devices.
fn node(args: &Args, source: &Source, picture: Option<&Path>) -> Result<Outcome, Failure> {
    let machine = &source.machine;
    let way = match args.path.as_slice() {
        [from, to] => Some(TransferPath::find(machine, &args.name, from, to)?),
        _ => None,
    };
    if let Some(file) = picture {
        let caption = way.as_ref().map(TransferPath::caption).unwrap_or_default();
        let picture = Picture { title: &source.title, caption: &caption, path: way.as_ref().map(|way| &way.path) };
        write_file(file, &picture::svg(machine, &picture))?;
    }
    let mut outcome = Outcome::new();
    outcome.note(&source.title);
    match &way {
        Some(way) => way.tell(&mut outcome),
        None => text::tell(machine, outcome.text("\n")),
    }
    if let Some(file) = picture {
        outcome.note(format!("picture: {}", file.display()));
    }
    outcome.whole(json!({ "title": source.title, "machine": machine, "path": way.as_ref().map(TransferPath::json) }));
    Ok(outcome)
}
