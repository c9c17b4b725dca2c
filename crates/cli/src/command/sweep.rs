//! `fabriscope sweep`: every point of a study, kept as it is done.

use std::path::PathBuf;

use fabriscope_catalog::Stop;

use crate::context::Context;
use crate::error::{Failure, Verdict};
use crate::output::{Output, OutputArgs};
use crate::progress::Progress;

/// Runs every point of a study, on all cores, and writes a Parquet data set as it goes.
///
/// Each result is kept under a hash of all that it depends on and of the version, so that a study that was ended at any moment goes on where
/// it was, and one that was changed runs what is new. Ctrl-C finishes the points that run; a second one ends the program at once,
/// and nothing is lost by that either.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The study, a TOML file
    #[arg(value_name = "STUDY.toml")]
    study: PathBuf,
    /// Folder of the data set (default: the name of the study with .parquet)
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Folder of kept results, which studies may share (default: inside of the data set)
    #[arg(long, value_name = "FOLDER")]
    cache: Option<PathBuf>,
    /// Cores to use, 0 for all
    #[arg(long, value_name = "N", default_value_t = 0)]
    jobs: usize,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope sweep labs/studies/first.toml --data first.parquet
  fabriscope sweep labs/studies/first.toml --data first.parquet -o first.html
  fabriscope sweep study.toml --cache ~/.cache/fabriscope --jobs 8
  fabriscope schema study                     what may stand in such a file";

/// Runs the command.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    let bar = Progress::new("points");
    let stop = Stop::new();
    let asked = stop.clone();
    // Where no handler can be set, an interrupt ends the program, and what is done is kept all the same.
    drop(ctrlc::set_handler(move || {
        if asked.set() {
            crate::rows::interrupted();
        }
    }));
    let mut question = fabriscope::sweep(&args.study).catalog(context.catalog()?).jobs(args.jobs);
    if let Some(folder) = &args.data {
        question = question.folder(folder);
    }
    if let Some(folder) = &args.cache {
        question = question.kept(folder);
    }
    if args.output.draws() {
        question = question.drawn();
    }
    let outcome = question.progress(|at| bar.at(at.done, at.all)).outcome(&stop).map_err(Failure::of)?;
    drop(bar);
    let verdict = args.output.write(&outcome, output)?;
    Ok(if stop.is_set() { Verdict::Bad } else { verdict })
}
