//! `fabriscope clusters`: what can follow `--on`.

use fabriscope_catalog::Kind;
use fabriscope_report::Table;

use crate::context::Context;
use crate::error::{Failure, Verdict};
use crate::output::Output;

/// Lists the clusters of the catalogue.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope clusters
  fabriscope clusters --catalog my-parts/    with a folder of your own over the catalogue
  fabriscope show ri2                        one of them in full";

/// Runs the command.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    let catalog = context.catalog()?;
    let mut table = Table::new(["cluster", "nodes", "GPU", "NIC", "link", "MTU (B)", "software", "what it is"])
        .words(2)
        .words(3)
        .words(4)
        .words(6)
        .words(7);
    let mut list = Vec::new();
    for name in catalog.names(Kind::Cluster) {
        let c = catalog.cluster(name).map_err(Failure::of)?;
        let devices = c.node.devices(catalog).map_err(Failure::of)?;
        let several = |number: u32, name: &str| if number > 1 { format!("{number} x {name}") } else { name.to_owned() };
        let (gpus, rails) = (several(devices.gpus, devices.gpu.as_deref().unwrap_or("-")), several(devices.nics, &devices.nic));
        let (nodes, mtu) = (c.nodes.to_string(), c.mtu.as_u64().to_string());
        table.push([name.to_owned(), nodes, gpus, rails, c.link.clone(), mtu, c.software.clone(), c.title.clone()]);
        list.push(serde_json::json!({
            "name": name, "title": c.title, "nodes": c.nodes, "node": c.node.part, "gpu": devices.gpu,
            "gpus": devices.gpus, "nic": devices.nic, "nics": devices.nics, "link": c.link,
            "mtu_bytes": c.mtu.as_u64(), "software": c.software,
        }));
    }
    if args.json {
        output.json(&serde_json::Value::Array(list))?;
    } else {
        output.text(&format!(
            "{table}\n# fabriscope bench osu_latency --on CLUSTER[:NODES] runs a benchmark; a TOML file is a cluster, too\n"
        ))?;
    }
    Ok(Verdict::Good)
}
