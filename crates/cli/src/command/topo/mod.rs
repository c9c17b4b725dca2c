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
use crate::output::Output;

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
    /// Draw the fabric into this file: .svg, or .dot and .graphml for other tools
    #[arg(short, long, value_name = "FILE", requires = "fabric")]
    output: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
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
        return overview::run(args.json, context, output);
    };
    let algorithm = args.routing.as_deref().map(Algorithm::parse).transpose()?;
    let format = args.output.as_deref().map(Format::of).transpose()?;
    let source = Source::read(name, context)?;
    let algorithm = algorithm.unwrap_or_else(|| source.algorithm());
    let traffic = Traffic::of(args.pattern.as_deref(), &source.fabric, context.seed())?;
    let examined = examine(&source, algorithm, &traffic)?;
    if let (Some(path), Some(format)) = (&args.output, format) {
        picture::write(path, format, &source, &examined)?;
    }
    if args.json {
        output.json(&json::json(&source, &examined))?;
    } else {
        output.text(&text::text(&source, &examined, args.output.as_deref()))?;
    }
    Ok(Verdict::Good)
}
