//! `fabriscope topo`: analysis of a topology before anything runs on it, and its picture.

mod algorithm;
mod examine;
mod json;
mod overview;
mod pattern;
mod picture;
mod source;
mod text;

use std::path::PathBuf;

use crate::context::Context;
use crate::error::{Failure, Verdict};
use crate::output::{FormatArgs, Output};

pub(super) use algorithm::Algorithm;
use examine::examine;
use pattern::Traffic;
use picture::Format;
use source::Source;

/// Counts, distances, bisection, paths, the busiest link of a pattern, freedom from deadlock, switches and cables to buy.
///
/// Without a name: one line for each cluster of the catalogue.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A cluster of the catalogue, a TOML file of one, or a file that `fabriscope import` reads
    #[arg(value_name = "CLUSTER|FILE")]
    fabric: Option<String>,
    /// The routing, as clusters name it, such as d_mod_k or min_hop. Default: that of the cluster; min_hop for a file
    #[arg(long, value_name = "ROUTING", requires = "fabric")]
    routing: Option<String>,
    /// Who sends to whom: uniform, permutation, shift:N, ring, tornado, transpose, bit_complement, adversarial.
    /// Default: uniform; permutation where there are more than 4096 endpoints
    #[arg(long, value_name = "PATTERN", requires = "fabric")]
    pattern: Option<String>,
    #[command(flatten)]
    format: FormatArgs,
    /// Draw the fabric into this file: .svg, or .dot and .graphml for other tools; or write the result to it: .json, .csv, .txt
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope topo                                              every cluster on one line
  fabriscope topo lab-dragonfly-72
  fabriscope topo lab-dragonfly-72 --pattern adversarial --routing valiant -o dragonfly.svg
  fabriscope topo lab-torus-4x4x4 --pattern tornado --json
  fabriscope topo fabrics/dgx-ndr.ibnetdiscover --routing up_down -o dgx.svg";

/// Runs the command.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    let Some(name) = &args.fabric else {
        return args.format.write(&overview::outcome(context)?, args.output.as_deref(), output);
    };
    let algorithm = args.routing.as_deref().map(Algorithm::parse).transpose()?;
    let format = args.output.as_deref().map(Format::of).transpose()?.flatten();
    let source = Source::read(name, context)?;
    let algorithm = algorithm.unwrap_or_else(|| source.algorithm());
    let traffic = Traffic::of(args.pattern.as_deref(), &source.fabric, context.seed())?;
    let examined = examine(&source, algorithm, &traffic)?;
    let (drawn, file) = match (args.output.as_deref(), format) {
        (Some(path), Some(format)) => {
            picture::write(path, format, &source, &examined)?;
            (Some(path), None)
        }
        (file, _) => (None, file),
    };
    let mut outcome = text::outcome(&source, &examined, drawn);
    outcome.whole(json::json(&source, &examined));
    args.format.write(&outcome, file, output)
}
