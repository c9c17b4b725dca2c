//! `fabriscope subnet`: a sweep of the subnet manager, packet by packet.

use fabriscope_engine_management::{Routed, SweepKind};
use fabriscope_lab::subnet::{SweepRequest, swept, told};
use fabriscope_units::Remedy;

use crate::context::Context;
use crate::error::{Failure, Verdict};
use crate::output::{Output, OutputArgs};

/// Shows what a subnet manager sends to discover and configure an InfiniBand fabric, and how long that takes.
///
/// Every management packet crosses the fabric on VL15: agents answer one after the other, what finds no room is dropped and sent again.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The cluster: a name or a TOML file, with or without :NODES
    #[arg(long, value_name = "CLUSTER")]
    on: String,
    /// Whose costs: a name of `fabriscope parts --kind managers` with a [sweep] table
    #[arg(long, value_name = "MANAGER", default_value = "opensm")]
    manager: String,
    /// The node on which the manager runs
    #[arg(long, value_name = "NODE", default_value_t = 0)]
    node: u32,
    /// Packets in flight at most, as max_wire_smps (default: as the manager says)
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    window: Option<u32>,
    /// Packets that a device holds for its agent (default: as the manager says)
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    buffer: Option<u32>,
    /// Sweep a fabric that is up and has changed: discovery and unicast tables alone
    #[arg(long)]
    again: bool,
    /// Send to nodes that are known by their address, and not by a directed route
    #[arg(long)]
    by_address: bool,
    /// Set tables of service levels, as with quality of service (default: where the cluster has classes)
    #[arg(long)]
    service_levels: bool,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope subnet --on lab-ndr-1024
  fabriscope subnet --on lab-ndr-1024 --window 32
  fabriscope subnet --on lab-ndr-1024 --window 64 --buffer 8    agents overflow: 200 ms for each packet that is lost
  fabriscope subnet --on selene --again --by-address --json";

/// Runs the command.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    let catalog = context.catalog()?;
    let cluster = context.cluster(&args.on)?;
    let manager = catalog.manager(&args.manager).map_err(Failure::of)?;
    let fabric = cluster.fabric().map_err(|error| Failure::told(error.in_full(), "correct the topology of the cluster"))?;
    let request = SweepRequest {
        window: args.window,
        buffer: args.buffer,
        node: args.node,
        kind: if args.again { SweepKind::Again } else { SweepKind::First },
        routed: if args.by_address { Routed::ByAddress } else { Routed::Directed },
        service_levels: args.service_levels.then_some(true),
    };
    let report = swept(&cluster, &fabric, manager, &request).map_err(Failure::of)?;
    args.output.write(&told(&args.on, &fabric, &report), output)
}
