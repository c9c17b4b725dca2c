//! `fabriscope export`: a fabric or a node in the formats of other tools.

use std::path::{Path, PathBuf};

use fabriscope_fabric::export::{self, Dialect};
use fabriscope_fabric::import::Subnet;
use fabriscope_machine::export as machine;
use fabriscope_units::Remedy;

use crate::context::Context;
use crate::error::{Failure, Verdict};
use crate::node::{Source, wrong};
use crate::output::Output;

/// Writes a fabric for another tool; the extension of the file selects the format. Or a node, by --nccl-topo or --nvidia-smi.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A cluster of the catalogue, or a file that `fabriscope import` reads; for a node also a node of the catalogue
    #[arg(value_name = "CLUSTER|NODE|FILE")]
    fabric: String,
    /// Write to this file: .ibnetdiscover, .ibsim, .conf and .yaml (Slurm), .graphml, .dot
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Output format (default: from the file extension)
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Write the node as NCCL reads it (NCCL_TOPO_FILE) to this file; - for standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "format"])]
    nccl_topo: Option<PathBuf>,
    /// Write the classes of paths in the node as `nvidia-smi topo -m` does; - for standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "format", "nccl_topo"])]
    nvidia_smi: Option<PathBuf>,
    /// What the node's GPUs can do (compute capability, 90 for 9.0), where that is not known
    #[arg(long, value_name = "NUMBER", requires = "nccl_topo")]
    sm: Option<u32>,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope export lab-16 -o lab.ibsim              to run OpenSM on it
  fabriscope export mine.topo -o topology.conf       for Slurm's topology/tree
  fabriscope export lab-16 --format dot | dot -Tsvg  to draw it
  fabriscope export hgx-h100 --nccl-topo topo.xml --sm 90
  fabriscope export gpu01.xml --nvidia-smi -         the matrix of a node whose XML lstopo wrote";

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
    if let Some(path) = args.nccl_topo.as_ref().or(args.nvidia_smi.as_ref()) {
        return node(args, path, context, output);
    }
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

/// A node for NCCL or as nvidia-smi has it.
fn node(args: &Args, path: &Path, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    let source = Source::of(&args.fabric, context)?;
    let text = if args.nccl_topo.is_some() {
        let unknown = machine::Unknown { ability: args.sm, port: source.port };
        machine::nccl(&source.machine, unknown).map_err(|error| wrong(&args.fabric, &error))?
    } else {
        machine::nvidia_smi(&source.machine)
    };
    if path != Path::new("-") {
        output.redirect(path)?;
    }
    output.text(&text)?;
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
    let fabric = cluster.fabric().map_err(|e| Failure::told(e.in_full(), "correct the topology of the cluster"))?;
    // What was imported has names and GUIDs of its own.
    Ok(cluster.topology.subnet().cloned().unwrap_or_else(|| export::subnet(&fabric)))
}
