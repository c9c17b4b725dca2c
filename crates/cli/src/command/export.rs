//! `fabriscope export`: a fabric in the formats of other tools.

use std::path::{Path, PathBuf};

use fabriscope_fabric::export::{self, Dialect};
use fabriscope_fabric::import::Subnet;

use crate::context::Context;
use crate::error::{Failure, Verdict};
use crate::output::Output;

/// Writes a fabric for another tool; the extension of the file selects the format.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A cluster of the catalogue, or a file that `fabriscope import` reads
    #[arg(value_name = "CLUSTER|FILE")]
    fabric: String,
    /// Write to this file: .ibnetdiscover, .ibsim, .conf and .yaml (Slurm), .graphml, .dot
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The format, where no file name tells it
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope export lab-16 -o lab.ibsim              to run OpenSM on it
  fabriscope export mine.topo -o topology.conf       for Slurm's topology/tree
  fabriscope export lab-16 --format dot | dot -Tsvg  to draw it";

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// The output of ibnetdiscover
    Ibnetdiscover,
    /// ibsim
    Ibsim,
    /// Slurm's topology.conf
    Conf,
    /// Slurm's topology.yaml
    Yaml,
    /// GraphML
    Graphml,
    /// Graphviz, cabling plans
    Dot,
}

impl Format {
    fn of(path: &Path) -> Option<Format> {
        Some(match path.extension()?.to_str()? {
            "ibnetdiscover" | "topo" => Format::Ibnetdiscover,
            "ibsim" => Format::Ibsim,
            "conf" => Format::Conf,
            "yaml" | "yml" => Format::Yaml,
            "graphml" => Format::Graphml,
            "dot" | "gv" => Format::Dot,
            _ => return None,
        })
    }
}

/// Runs the command.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    let format = args.format.or_else(|| args.output.as_deref().and_then(Format::of)).ok_or_else(|| {
        let help = "end the name in .ibnetdiscover, .ibsim, .conf, .yaml, .graphml or .dot, or say --format";
        Failure::told("the format is not known", help)
    })?;
    let subnet = subnet(&args.fabric, context)?;
    if let Some(path) = &args.output {
        output.redirect(path)?;
    }
    output.text(&match format {
        Format::Ibnetdiscover => export::ibnetdiscover(&subnet, Dialect::Ibnetdiscover),
        Format::Ibsim => export::ibnetdiscover(&subnet, Dialect::Ibsim),
        Format::Conf => export::slurm_conf(&subnet),
        Format::Yaml => export::slurm_yaml(&subnet),
        Format::Graphml => export::graphml(&subnet),
        Format::Dot => export::dot(&subnet),
    })?;
    Ok(Verdict::Good)
}

/// The subnet in a file, or that of a cluster.
fn subnet(fabric: &str, context: &Context) -> Result<Subnet, Failure> {
    let path = Path::new(fabric);
    let is_cluster = path.extension().is_some_and(|extension| extension == "toml");
    if path.is_file() && !is_cluster {
        return super::import::read(path);
    }
    let cluster = context.catalog()?.target(fabric).map_err(Failure::of)?;
    let fabric = cluster.fabric().map_err(|e| Failure::told(e.to_string(), "correct the topology of the cluster"))?;
    // What was imported has names and GUIDs of its own.
    Ok(cluster.topology.subnet().cloned().unwrap_or_else(|| export::subnet(&fabric)))
}
