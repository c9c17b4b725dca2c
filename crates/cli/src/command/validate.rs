//! `fabriscope validate`: predictions beside published measurements.

use std::path::PathBuf;

use crate::context::Context;
use crate::error::{Failure, Verdict};
use crate::output::{Output, OutputArgs};
use crate::progress::Progress;

/// Compares predictions with published measurements.
///
/// Prints, per table, the points, and the median, 90th percentile and maximum of the absolute errors and the bias, in
/// percent of the measured values. Ends with exit status 1 where one of the project's tables is over its limits.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The tables to compare; all, if none is named
    tables: Vec<String>,
    /// Measurements of your own, a CSV file with the columns of validation/
    #[arg(long, value_name = "FILE.csv")]
    measured: Option<PathBuf>,
    /// Run every row on this cluster instead of the one it names
    #[arg(long, value_name = "CLUSTER")]
    on: Option<String>,
    /// Also run rows that take minutes: collectives among more than 128 ranks
    #[arg(long)]
    long: bool,
    /// Print each point
    #[arg(long, conflicts_with = "json")]
    points: bool,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope validate                                        every table of the project
  fabriscope validate ri2-osu_bw --points                    one table, point by point
  fabriscope validate --measured ours.csv --on ours.toml     your measurements on your cluster
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
    if let Some(cluster) = &args.on {
        question = question.on(cluster);
    }
    if args.long {
        question = question.with_long_rows();
    }
    if args.points {
        question = question.with_points();
    }
    let outcome = question.outcome().map_err(Failure::of)?;
    drop(progress);
    args.output.write(&outcome, output)
}
