//! `fabriscope expect`: the acceptance table of a cluster.

use crate::context::Context;
use crate::error::{Failure, Verdict};
use crate::output::{Output, OutputArgs};
use crate::progress::Progress;

/// Prints what the usual tools should show on a cluster, and what passes.
///
/// For each tool and size: the value that is expected, what links and slots allow at most, an interval from how far predictions of
/// the nearest published tables were off (the same kind of benchmark; the same adapter, vendor and library first), and the limit
/// that follows from it. The tables and the number of their points are named.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The cluster: a name, a TOML file, either with :NODES
    cluster: String,
    /// Only this tool; may be repeated
    #[arg(long, value_name = "TOOL")]
    tool: Vec<String>,
    /// Nodes of collective operations [default: those of CLUSTER:N, or 4]
    #[arg(long)]
    nodes: Option<u32>,
    /// Ranks of these on each node [default: 4, or one for each GPU]
    #[arg(long, value_name = "RANKS")]
    ppn: Option<u32>,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope expect ri2 --tool ib_write_lat --tool ib_write_bw
  fabriscope expect mine.toml:16 --ppn 8 -o acceptance.csv";

/// Runs the command.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    let progress = Progress::new("predicting");
    let mut question = fabriscope::expect(&args.cluster)
        .catalog(context.catalog()?)
        .seed(context.seed())
        .tools(args.tool.clone())
        .progress(|done, all| progress.at(done, all));
    if let Some(nodes) = args.nodes {
        question = question.nodes(nodes);
    }
    if let Some(ranks) = args.ppn {
        question = question.ranks_per_node(ranks);
    }
    let outcome = question.outcome().map_err(Failure::of)?;
    drop(progress);
    args.output.write(&outcome, output)
}
