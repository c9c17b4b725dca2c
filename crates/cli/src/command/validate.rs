//! `fabriscope validate`: predictions beside published measurements.

use std::path::PathBuf;

use crate::context::Context;
use crate::error::{Failure, Verdict};
use crate::output::{Output, OutputArgs};
use crate::progress::Progress;

/// Compares predictions with published measurements.
///
/// Prints, for each metric of each table, the number of points, and the median, 90th percentile and maximum of the absolute
/// errors and the bias, in percent of the measured values; every row counts. `ok` is within the goal of its kind of benchmark,
/// `off` over it as is known, `WORSE` over that, `fit` with what was chosen after the table had been seen. Ends with exit status
/// 1 where one of the project's tables got worse, or a run failed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The tables to compare; all, if none is named
    tables: Vec<String>,
    /// Measurements of your own: a CSV file with the columns of validation/, or what the tools printed, as it is
    #[arg(long, value_name = "FILE")]
    measured: Option<PathBuf>,
    /// What the rows leave open, table by table: placement, nodes, ranks_per_node, gpus, algorithm, environment, software
    #[arg(long, value_name = "FILE.toml")]
    settings: Option<PathBuf>,
    /// Run every row on this cluster instead of the one it names; outputs of tools name none
    #[arg(long, value_name = "CLUSTER")]
    on: Option<String>,
    /// Nodes of jobs of many ranks, where rows do not say it [default: those of --on CLUSTER:N]
    #[arg(long, requires = "measured")]
    nodes: Option<u32>,
    /// Ranks of these on each node
    #[arg(long, value_name = "RANKS", requires = "measured")]
    ppn: Option<u32>,
    /// Also run rows that take minutes: collectives among more than 128 ranks
    #[arg(long)]
    long: bool,
    /// Print each point (JSON has them always)
    #[arg(long)]
    points: bool,
    /// Print hit rates by kind of benchmark, with and without the tables that numbers of the catalogue were fitted to
    #[arg(long, conflicts_with = "points")]
    summary: bool,
    /// Predict MACHINE, or `each`, with and without every number of the catalogue that names one of its tables
    #[arg(long, value_name = "MACHINE", conflicts_with_all = ["points", "summary", "tables", "measured"])]
    leave_out: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope validate                                        every table of the project
  fabriscope validate ri2-osu_bw --points                    one table, point by point
  fabriscope validate --summary                              hit rates by kind of benchmark
  fabriscope validate --leave-out oci-optimized3             a machine without what its own tables gave
  fabriscope validate --measured ours.csv --on ours.toml     your measurements on your cluster
  fabriscope validate --measured my-run.log --on mine.toml   what OMB, perftest, nccl-tests, … printed
  fabriscope validate csd3-opa-imb-alltoall --long --points  every row, half an hour
  fabriscope validate --json -o errors.json";

/// Runs the command.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    let progress = Progress::new("validating");
    let mut question = fabriscope::validate(args.tables.clone())
        .catalog(context.catalog()?)
        .seed(context.seed())
        .progress(|done, all| progress.at(done, all));
    if let Some(file) = &args.measured {
        question = question.measured(file);
    }
    if let Some(file) = &args.settings {
        question = question.settings(file);
    }
    if let Some(cluster) = &args.on {
        question = question.on(cluster);
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
    if args.points {
        question = question.with_points();
    }
    if args.summary {
        question = question.summary();
    }
    if let Some(machine) = &args.leave_out {
        question = question.leave_out(machine);
    }
    let outcome = question.outcome().map_err(Failure::of)?;
    drop(progress);
    args.output.write(&outcome, output)
}
