//! `fabriscope diagnose`: is a measured table normal, and what is wrong if it is not.

use std::path::PathBuf;

use crate::context::Context;
use crate::error::{Failure, Verdict};
use crate::output::{Output, OutputArgs};
use crate::progress::Progress;

/// Says whether a measured table is normal for a cluster, and what is most probably wrong if it is not.
///
/// Predicts the same run on the cluster as it should be, and again with each thing that may be wrong: GPUDirect off, a narrow or
/// slow slot, a small MTU, TCP instead of verbs, another algorithm, slow cores … Ranks them by their fit over the whole curve,
/// weighed by what predictions of published tables of that kind are off by, and names the measurement that tells the first two
/// apart. Ends with exit status 1 where the table is not normal; a doubtful one is told of.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The measurements, as `validate --measured` reads them
    #[arg(value_name = "FILE", required_unless_present = "after")]
    file: Option<PathBuf>,
    /// The cluster as it should be; each row's own, if none is named
    #[arg(long, value_name = "CLUSTER")]
    on: Option<String>,
    /// Ask what changed since these measurements of the same run
    #[arg(long, value_name = "FILE", requires = "after", conflicts_with = "file")]
    before: Option<PathBuf>,
    /// The measurements since then
    #[arg(long, value_name = "FILE", requires = "before", conflicts_with = "file")]
    after: Option<PathBuf>,
    /// What the rows leave open, table by table: placement, nodes, ranks_per_node, gpus, algorithm, environment, software
    #[arg(long, value_name = "FILE.toml")]
    settings: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope diagnose validation/ri2-osu_latency.csv                     a published table
  fabriscope diagnose ours.csv --on ours.toml                            a table of your own on your cluster
  fabriscope diagnose --before may.csv --after june.csv --on ours.toml   what changed
  fabriscope diagnose ours.csv --on ours.toml --json -o diagnosis.json";

/// Runs the command.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    let progress = Progress::new("diagnosing");
    let file = args.file.as_ref().or(args.after.as_ref()).expect("clap asks for one of them");
    let mut question =
        fabriscope::diagnose(file).catalog(context.catalog()?).seed(context.seed()).progress(|done, all| progress.at(done, all));
    if let Some(cluster) = &args.on {
        question = question.on(cluster);
    }
    if let Some(before) = &args.before {
        question = question.after(before);
    }
    if let Some(file) = &args.settings {
        question = question.settings(file);
    }
    let outcome = question.outcome().map_err(Failure::of)?;
    drop(progress);
    args.output.write(&outcome, output)
}
