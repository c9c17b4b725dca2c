//! `fabriscope clusters`: what can follow `--on`.

use fabriscope_catalog::Kind;
use fabriscope_report::{Cell, Column, Grid, Outcome};

use crate::context::Context;
use crate::error::{Failure, Verdict};
use crate::output::{Output, OutputArgs};

/// Lists the clusters of the catalogue.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope clusters
  fabriscope clusters --catalog my-parts/    with a folder of your own over the catalogue
  fabriscope show ri2                        one of them in full";

/// Runs the command.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    let catalog = context.catalog()?;
    let mut list = Grid::new([
        Column::words("cluster", "name"),
        Column::number("nodes", "nodes"),
        Column::shown("GPU").left(),
        Column::shown("NIC").left(),
        Column::words("link", "link"),
        Column::number("MTU (B)", "mtu_bytes").unit("B"),
        Column::words("software", "software"),
        Column::words("what it is", "title"),
        Column::data("node"),
        Column::data("gpu"),
        Column::data("gpus"),
        Column::data("nic"),
        Column::data("nics"),
    ]);
    for name in catalog.names(Kind::Cluster) {
        let c = catalog.cluster(name).map_err(Failure::of)?;
        let alike = c.node.iter().map(|node| (name.to_owned(), node, c.nodes, &c.link, &c.software));
        let groups = c.group.iter().map(|group| {
            let (link, software) = (group.link.as_ref().unwrap_or(&c.link), group.software.as_ref().unwrap_or(&c.software));
            (format!("{name}:{}", group.name), &group.node, group.nodes, link, software)
        });
        let several = |number: u32, name: &str| if number > 1 { format!("{number} x {name}") } else { name.to_owned() };
        for (name, node, nodes, link, software) in alike.chain(groups) {
            let devices = node.devices(catalog).map_err(Failure::of)?;
            let (gpus, rails) = (several(devices.gpus, devices.gpu.as_deref().unwrap_or("-")), several(devices.nics, &devices.nic));
            list.push([
                Cell::word(name),
                nodes.map_or_else(Cell::none, Cell::count),
                Cell::word(gpus),
                Cell::word(rails),
                Cell::word(link.clone()),
                Cell::bytes(c.mtu),
                Cell::word(software.clone()),
                Cell::word(c.title.clone()),
                Cell::data(node.part.clone()),
                Cell::data(devices.gpu.clone()),
                Cell::data(devices.gpus),
                Cell::data(devices.nic.clone()),
                Cell::data(devices.nics),
            ]);
        }
    }
    let mut outcome = Outcome::new();
    outcome.list(list).text("\n").note("fabriscope bench osu_latency --on CLUSTER[:NODES] runs a benchmark; a TOML file is a cluster, too");
    args.output.write(&outcome, output)
}
