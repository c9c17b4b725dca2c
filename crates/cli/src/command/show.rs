//! `fabriscope show`: one part or cluster, as its file says it and with all its parts at hand.

use fabriscope_catalog::{AnyPart, Kind};

use crate::context::Context;
use crate::error::{Failure, Verdict};
use crate::output::Output;

/// Shows a part or a cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Name of a part or a cluster, or a cluster's TOML file
    name: String,
    /// Print JSON; of a cluster with all its parts
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope show ri2
  fabriscope show connectx-5 --json
  fabriscope show my-cluster.toml --json    checks the file and fills in its parts";

/// Runs the command.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    let catalog = context.catalog()?;
    if args.name.contains(['/', '\\', ':']) || args.name.ends_with(".toml") {
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
        if part.kind() == Kind::Cluster {
            output.text("# fabriscope show NAME shows each part; --json shows the cluster with all of them\n")?;
        }
    }
    Ok(Verdict::Good)
}
