//! `fabriscope sensitivity`: which numbers of the catalogue matter.

use crate::command::parts;
use crate::context::Context;
use crate::error::{Failure, Verdict};
use crate::output::{Output, OutputArgs};
use crate::progress::Progress;

/// Shows how far predictions move when numbers of the catalogue are a little smaller or larger.
///
/// Every number that a cluster rests on is varied by itself, and a set of short runs is made again: latencies and bandwidths
/// between two nodes, collective operations, GPUs. The numbers that move a run most stand first. It takes minutes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Clusters to run on; one of each interface, if none is named
    clusters: Vec<String>,
    /// Numbers with this basis: datasheet, standard, measured, published, fitted, estimated, assumed
    #[arg(long, value_name = "BASIS", default_values = ["assumed"])]
    basis: Vec<String>,
    /// By how much each number is made smaller and larger
    #[arg(long, value_name = "PERCENT", default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..=90))]
    by: u32,
    /// Show so many numbers
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    top: usize,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope sensitivity                              what is assumed, on six clusters
  fabriscope sensitivity ri2 --top 10                 on one
  fabriscope sensitivity ri2 --basis fitted --by 10   what was fitted, by 10 %";

/// Runs the command.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    let bases = args.basis.iter().map(|name| parts::basis(name)).collect::<Result<Vec<_>, _>>()?;
    let progress = Progress::new("varying");
    let question = fabriscope::sensitivity(args.clusters.clone())
        .catalog(context.catalog()?)
        .seed(context.seed())
        .bases(bases)
        .by(args.by)
        .top(args.top)
        .progress(|done, all| progress.at(done, all));
    let outcome = question.outcome().map_err(Failure::of)?;
    drop(progress);
    args.output.write(&outcome, output)
}
