//! `fabriscope report`: a page about a cluster, several designs side by side, an experiment, or a study.

use std::path::PathBuf;

use crate::context::Context;
use crate::error::{Failure, Verdict};
use crate::output::Output;
use crate::progress::Progress;

/// Writes a page to hand on: what a cluster is, what the tools would print on it, what binds, what failures leave, how far to trust it.
///
/// The page is one file that opens without a network. Several clusters are compared side by side; with a price list the costs of
/// their parts are added up. An experiment file is run, and its results stand in the page; so is what is not done of a study.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A cluster (a name of `fabriscope clusters` or a TOML file; `:N` takes N nodes of it), several, one experiment file, or one study
    #[arg(required = true, value_name = "CLUSTER|LAB.toml|STUDY.toml")]
    of: Vec<String>,
    /// Your own prices: a CSV file with the columns part and price, and power_w where known
    #[arg(long, value_name = "FILE.csv")]
    prices: Option<PathBuf>,
    /// Write the page to this file (default: standard output)
    #[arg(short, long, value_name = "FILE.html")]
    output: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope report ri2 -o report.html
  fabriscope report ri2 alaska-roce25 -o compared.html    side by side
  fabriscope report labs/incast-8.toml -o incast.html     an experiment";

/// Runs the command.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    if let Some(path) = &args.output
        && path.extension().is_none_or(|extension| extension != "html" && extension != "htm")
    {
        return Err(Failure::told(format!("{}: a report is a page of HTML", path.display()), "end the name in .html"));
    }
    let progress = Progress::new("report");
    let mut question = context
        .seed
        .into_iter()
        .fold(fabriscope::report(args.of.clone()).catalog(context.catalog()?), fabriscope::Report::seed)
        .progress(|done, all| progress.at(done, all));
    if let Some(file) = &args.prices {
        question = question.prices(file);
    }
    let page = question.page().map_err(Failure::of)?.to_string();
    drop(progress);
    if let Some(path) = &args.output {
        output.redirect(path)?;
    }
    output.text(&page)?;
    Ok(Verdict::Good)
}
