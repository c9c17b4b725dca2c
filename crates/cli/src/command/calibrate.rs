//! `fabriscope calibrate`: numbers of a cluster fitted to measurements.

use std::path::PathBuf;

use crate::context::Context;
use crate::error::{Failure, Verdict};
use crate::output::{Output, OutputArgs};
use crate::progress::Progress;

/// Fits numbers of a cluster's parts to measurements of it, and writes a cluster with them.
///
/// At most 14 times, rates and shares that the measurements tell apart are fitted within their physical limits; each gets an
/// interval, and those that cannot be told apart are named. The error of points left out says what the fit is worth. The
/// catalogue stays as it is: `-o mine.toml` writes a cluster that rests on the one given and changes these numbers.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Measurements: CSV files with the columns of validation/, or what the tools printed, as it is
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The cluster that they are of
    #[arg(long, value_name = "CLUSTER")]
    on: String,
    /// What the rows leave open, table by table
    #[arg(long, value_name = "FILE.toml")]
    settings: Option<PathBuf>,
    /// Nodes of jobs of many ranks, where rows do not say it [default: those of --on CLUSTER:N]
    #[arg(long)]
    nodes: Option<u32>,
    /// Ranks of these on each node
    #[arg(long, value_name = "RANKS")]
    ppn: Option<u32>,
    /// Fit at most so many numbers
    #[arg(long, value_name = "COUNT", default_value_t = 14, value_parser = clap::value_parser!(u8).range(1..=14))]
    most: u8,
    /// Also run rows that take minutes
    #[arg(long)]
    long: bool,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope calibrate my-run.log --on mine.toml -o calibrated.toml
  fabriscope calibrate my-latency.csv --on ri2 --most 3";

/// Runs the command.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    let progress = Progress::new("calibrating");
    let mut question = fabriscope::calibrate(args.files.clone(), &args.on)
        .catalog(context.catalog()?)
        .seed(context.seed())
        .most(args.most.into())
        .progress(|done, all| progress.at(done, all));
    if let Some(file) = &args.settings {
        question = question.settings(file);
    }
    if let Some(nodes) = args.nodes {
        question = question.nodes(nodes);
    }
    if let Some(ranks) = args.ppn {
        question = question.ranks_per_node(ranks);
    }
    if args.long {
        question = question.with_long_rows();
    }
    let outcome = question.outcome().map_err(Failure::of)?;
    drop(progress);
    args.output.write_with_draft(&outcome, output)
}
