//! `fabriscope power`: what the network of a cluster draws.

use fabriscope_lab::energy::NetworkPower;
use fabriscope_units::Remedy;

use crate::context::Context;
use crate::error::{Failure, Verdict};
use crate::output::{Output, OutputArgs};

/// Shows what switches, adapters and cables of a cluster draw, idle and at full load, and what that is for each node and each bit.
///
/// Parts without figures are named and are in no sum. `fabriscope run --energy` and `fabriscope bench --energy` have the energy of a job.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The cluster: a name or a TOML file, with or without :NODES
    #[arg(long, value_name = "CLUSTER")]
    on: String,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope power --on ri2
  fabriscope power --on lab-ndr-1024
  fabriscope power --on lumi --json
  fabriscope parts qm9700-power                       the figures of a part, and where they are from
  fabriscope run labs/ring-all-reduce-128.toml --energy     the energy of a job";

/// Runs the command.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    let cluster = context.cluster(&args.on)?;
    let fabric = cluster.fabric().map_err(|error| Failure::told(error.in_full(), "correct the topology of the cluster"))?;
    let outcome = NetworkPower::of(context.catalog()?, &cluster, &fabric).outcome(&args.on);
    args.output.write(&outcome, output)
}
