//! `fabriscope export`: a fabric or a node in the formats of other tools, and a file by which NCCL's example tuner chooses.

use std::io::Write;
use std::path::{Path, PathBuf};

use fabriscope::nccl::Operation;
use fabriscope_fabric::export::{self, Dialect};
use fabriscope_fabric::import::Subnet;
use fabriscope_machine::export as machine;
use fabriscope_report::render::for_file;
use fabriscope_report::{Cell, Column, Grid, Outcome};
use fabriscope_units::{Bytes, Rate, Remedy};

use crate::context::Context;
use crate::error::{Failure, Verdict};
use crate::node::text::devices;
use crate::node::{Source, wrong};
use crate::output::{FormatArgs, Output};
use crate::progress::Progress;

/// Writes a fabric for another tool; the extension of the file selects the format. Or a node, by --nccl-topo or --nvidia-smi.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A cluster of the catalogue, or a file that `fabriscope import` reads; for a node also a node of the catalogue
    #[arg(value_name = "CLUSTER|NODE|FILE")]
    fabric: String,
    /// Write to this file: .ibnetdiscover, .ibsim, .conf and .yaml (Slurm), .graphml, .dot; the cables as .json or .csv
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
    /// Write by what NCCL's example tuner should choose (NCCL_TUNER_CONFIG_FILE): of all that the library has, the fastest by
    /// simulation; - for standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "format", "nccl_topo", "nvidia_smi"])]
    nccl_tuner: Option<PathBuf>,
    /// Nodes of the job that is tuned
    #[arg(long, value_name = "N", default_value_t = 1, requires = "nccl_tuner", value_parser = clap::value_parser!(u32).range(1..))]
    nodes: u32,
    /// Operations that are tuned
    #[arg(long, value_enum, value_delimiter = ',', default_value = "allreduce,allgather,reducescatter", requires = "nccl_tuner")]
    operations: Vec<Tuned>,
    /// The smallest and the largest size that is run, each four times the one before
    #[arg(long, value_name = "LEAST:MOST", default_value = "1KiB:256MiB", requires = "nccl_tuner", value_parser = sizes)]
    sizes: (Bytes, Bytes),
    /// What the node's GPUs can do (compute capability, 90 for 9.0), where that is not known
    #[arg(long, value_name = "NUMBER", requires = "nccl_topo")]
    sm: Option<u32>,
    #[command(flatten)]
    as_data: FormatArgs,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope export lab-16 -o lab.ibsim              to run OpenSM on it
  fabriscope export mine.topo -o topology.conf       for Slurm's topology/tree
  fabriscope export lab-16 --format dot | dot -Tsvg  to draw it
  fabriscope export hgx-h100 --nccl-topo topo.xml --sm 90
  fabriscope export dgx-h100-ndr --nccl-tuner nccl_tuner.conf --nodes 2 --operations allreduce
  fabriscope export gpu01.xml --nvidia-smi -         the matrix of a node whose XML lstopo wrote";

/// An operation, as the tuner's file calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "lower")]
enum Tuned {
    /// all_reduce_perf
    AllReduce,
    /// all_gather_perf
    AllGather,
    /// reduce_scatter_perf
    ReduceScatter,
    /// broadcast_perf
    Broadcast,
    /// reduce_perf
    Reduce,
}

impl Tuned {
    fn operation(self) -> Operation {
        match self {
            Tuned::AllReduce => Operation::AllReduce,
            Tuned::AllGather => Operation::AllGather,
            Tuned::ReduceScatter => Operation::ReduceScatter,
            Tuned::Broadcast => Operation::Broadcast,
            Tuned::Reduce => Operation::Reduce,
        }
    }
}

/// `1KiB:256MiB`.
fn sizes(text: &str) -> Result<(Bytes, Bytes), String> {
    let (least, most) = text.split_once(':').ok_or_else(|| format!("`{text}`: write two sizes, as 1KiB:256MiB"))?;
    let size = |text: &str| text.parse::<Bytes>().map_err(|error| error.in_full());
    Ok((size(least)?, size(most)?))
}

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
    if let Some(path) = &args.nccl_tuner {
        let outcome = tuner(args, context)?;
        if path != Path::new("-") {
            output.redirect(path)?;
        }
        return args.as_data.write(&outcome, None, output);
    }
    if let Some(path) = args.nccl_topo.as_ref().or(args.nvidia_smi.as_ref()) {
        let outcome = node(args, context)?;
        if path != Path::new("-") {
            output.redirect(path)?;
        }
        return args.as_data.write(&outcome, None, output);
    }
    let file = args.output.as_deref();
    let format = args.format.or_else(|| file.and_then(Format::of));
    let has_data = args.as_data.json || args.as_data.csv || file.is_some_and(|file| matches!(for_file(file).extension(), "json" | "csv"));
    if format.is_none() && !has_data {
        let help = "end the name in .ibnetdiscover, .ibsim, .conf, .yaml, .graphml or .dot, or say --format";
        return Err(Failure::told("the format is not known", help));
    }
    let subnet = subnet(&args.fabric, context)?;
    let mut outcome = Outcome::new();
    outcome.set("fabric", args.fabric.as_str()).data_table("cables", cables(&subnet));
    if let Some(format) = format {
        outcome.text(written(&subnet, format));
        tell(&notes(&subnet, format));
    }
    args.as_data.write(&outcome, file, output)
}

/// A fabric as another tool reads it.
fn written(subnet: &Subnet, format: Format) -> String {
    match format {
        Format::Ibnetdiscover => export::ibnetdiscover(subnet, Dialect::Ibnetdiscover),
        Format::Ibsim => export::ibnetdiscover(subnet, Dialect::Ibsim),
        Format::Conf => export::slurm_conf(subnet),
        Format::Yaml => export::slurm_yaml(subnet),
        Format::Graphml => export::graphml(subnet),
        Format::Dot => export::dot(subnet),
    }
}

/// What the file says otherwise than the fabric is, or leaves out.
fn notes(subnet: &Subnet, format: Format) -> Vec<String> {
    match format {
        Format::Ibnetdiscover => export::ibnetdiscover_notes(subnet, Dialect::Ibnetdiscover),
        Format::Ibsim => export::ibnetdiscover_notes(subnet, Dialect::Ibsim),
        Format::Conf | Format::Yaml => export::slurm_notes(subnet),
        Format::Graphml | Format::Dot => Vec::new(),
    }
}

/// Says so on standard error: standard output has no part in it.
fn tell(notes: &[String]) {
    let text: String = notes.iter().map(|note| format!("# note: {note}\n")).collect();
    drop(std::io::stderr().lock().write_all(text.as_bytes()));
}

/// The cables of a fabric, for spreadsheets and programs.
fn cables(subnet: &Subnet) -> Grid {
    let mut grid = Grid::new(["from", "from_port", "to", "to_port", "rate_bps"].map(Column::data));
    for cable in &subnet.cables {
        let [from, to] = cable.ends.map(|plug| (Cell::data(subnet.device(plug).name()), Cell::data(plug.port)));
        grid.push([from.0, from.1, to.0, to.1, Cell::data(cable.data_rate().map(Rate::as_bps))]);
    }
    grid
}

/// By what NCCL's example tuner should choose.
fn tuner(args: &Args, context: &Context) -> Result<Outcome, Failure> {
    let progress = Progress::new("runs");
    let question = fabriscope::tuner_file(args.fabric.as_str()).catalog(context.catalog()?).nodes(args.nodes);
    let question = question.sizes(args.sizes.0, args.sizes.1).operations(args.operations.iter().map(|one| one.operation()));
    question.progress(|done, all| progress.at(done, all)).outcome().map_err(Failure::of)
}

/// A node for NCCL or as nvidia-smi has it.
fn node(args: &Args, context: &Context) -> Result<Outcome, Failure> {
    let source = Source::of(&args.fabric, context)?;
    let text = if args.nccl_topo.is_some() {
        let unknown = machine::Unknown { ability: args.sm, port: source.port };
        machine::nccl(&source.machine, unknown).map_err(|error| wrong(&args.fabric, &error))?
    } else {
        machine::nvidia_smi(&source.machine)
    };
    let mut outcome = Outcome::new();
    outcome.text(text).set("title", source.title).set("machine", serde_json::to_value(&source.machine).unwrap_or_default());
    outcome.data_table("devices", devices(&source.machine));
    Ok(outcome)
}

/// The subnet in a file, or that of a cluster.
fn subnet(fabric: &str, context: &Context) -> Result<Subnet, Failure> {
    let path = Path::new(fabric);
    let is_cluster = fabriscope_catalog::is_cluster_file(path);
    if path.is_file() && !is_cluster {
        return super::import::read(path);
    }
    let cluster = context.catalog()?.target(fabric).map_err(Failure::of)?;
    let fabric = cluster.fabric().map_err(|e| Failure::told(e.in_full(), "correct the topology of the cluster"))?;
    // What was imported has names and GUIDs of its own.
    Ok(cluster.topology.subnet().cloned().unwrap_or_else(|| export::subnet(&fabric)))
}
