//! `fabriscope show`: one part or cluster, as its file says it and with all its parts at hand; a node with its devices and paths.

use std::path::{Path, PathBuf};

use fabriscope_catalog::{AnyPart, Kind};
use fabriscope_machine::picture::{self, Picture};
use serde_json::json;

use crate::context::Context;
use crate::error::{Failure, Verdict};
use crate::node::path::TransferPath;
use crate::node::{Source, text};
use crate::output::{Output, write_file};

/// Shows a part or a cluster; of a node its devices, how near they are to each other, and its picture.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Name of a part or a cluster, a cluster's TOML file, or a file about a node that `fabriscope import` reads
    name: String,
    /// Draw the node, or that of the cluster, into this file: .svg
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The path of a transfer in the node, step by step; drawn with --output
    #[arg(long, num_args = 2, value_names = ["FROM", "TO"])]
    path: Vec<String>,
    /// Print JSON; of a cluster with all its parts
    #[arg(long)]
    json: bool,
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
    if is_file || args.output.is_some() || !args.path.is_empty() {
        return node(args, &Source::of(&args.name, context)?, output);
    }
    let catalog = context.catalog()?;
    if args.name.contains(['/', '\\', ':']) || is_toml {
        let value = serde_json::to_value(context.cluster(&args.name)?).unwrap_or_default();
        output.json(&value)?;
        return Ok(Verdict::Good);
    }
    for part in catalog.show(&args.name).map_err(Failure::of)? {
        if args.json {
            let value = match part {
                AnyPart::Cluster(cluster) => {
                    let resolved = catalog.resolve(cluster, None).map_err(Failure::of)?;
                    serde_json::to_value(resolved).unwrap_or_default()
                }
                other => other.to_json(),
            };
            output.json(&value)?;
            continue;
        }
        let file = catalog.file_of(part.kind(), part.name()).unwrap_or_default();
        let text = catalog.text_of(part.kind(), part.name()).unwrap_or_default();
        output.text(&format!("# {}: {} ({file})\n{text}", part.kind(), part.title()))?;
        if let AnyPart::Node(part) = part {
            let source = Source::of_part(&part.name, &part.title, context)?;
            output.text(&format!("\n{}", tables(&source)))?;
            output.text(&format!("# fabriscope show {} -o node.svg draws it\n", part.name))?;
        }
        if part.kind() == Kind::Cluster {
            output.text("# fabriscope show NAME shows each part; --json shows the cluster with all of them\n")?;
        }
    }
    Ok(Verdict::Good)
}

/// A node: its picture, a path in it, its devices.
fn node(args: &Args, source: &Source, output: &mut Output) -> Result<Verdict, Failure> {
    let machine = &source.machine;
    let way = match args.path.as_slice() {
        [from, to] => Some(TransferPath::find(machine, &args.name, from, to)?),
        _ => None,
    };
    if let Some(file) = &args.output {
        if file.extension().is_none_or(|extension| extension != "svg") {
            return Err(Failure::told(format!("{}: no picture of this kind is drawn of a node", file.display()), "end the name in .svg"));
        }
        let caption = way.as_ref().map(TransferPath::caption).unwrap_or_default();
        let picture = Picture { title: &source.title, caption: &caption, path: way.as_ref().map(|way| &way.path) };
        write_file(file, &picture::svg(machine, &picture))?;
    }
    if args.json {
        output.json(&json!({ "title": source.title, "machine": machine, "path": way.as_ref().map(TransferPath::json) }))?;
        return Ok(Verdict::Good);
    }
    output.text(&format!("# {}\n", source.title))?;
    output.text(&way.map_or_else(|| format!("\n{}", tables(source)), |way| way.text()))?;
    if let Some(file) = &args.output {
        output.text(&format!("# picture: {}\n", file.display()))?;
    }
    Ok(Verdict::Good)
}

/// Devices and classes.
fn tables(source: &Source) -> String {
    let classes = text::classes(&source.machine).map_or_else(String::new, |classes| format!("{classes}\n"));
    format!("{}\n{classes}", text::devices(&source.machine))
}
