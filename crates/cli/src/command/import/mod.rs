//! `fabriscope import`: what an operator checks first in a real fabric or node, what looks wrong in it, and a file to go on from.

mod draft;
mod fabric;
mod join;
mod node;
mod profile;

use fabriscope_units::Remedy;
use std::io::Write;
use std::path::{Path, PathBuf};

use fabriscope_catalog::profile::Profile;
use fabriscope_fabric::Tables;
use fabriscope_fabric::import::{self, LftsSummary, Subnet};
use fabriscope_report::Outcome;

use crate::context::Context;
use crate::error::{Failure, Verdict};
use crate::output::{Output, OutputArgs};

/// Reads a fabric or a node that another tool described, and says what looks wrong in it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Output of ibnetdiscover, a file of ibsim, opensm-subnet.lst, topology.conf or topology.yaml of Slurm, a cabling plan
    /// in dot, a topology of htsim, HPCC or SimAI, or an edge list; of a node what `lstopo --of xml` or `nvidia-smi topo -m`
    /// prints, a file of NCCL_TOPO_DUMP_FILE or the profile of a hardware mock in YAML; may be compressed by gzip
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Forwarding tables of the same fabric: opensm-lfts.dump or the output of dump_fts; may be compressed by gzip
    #[arg(long, value_name = "FILE")]
    tables: Option<PathBuf>,
    /// Files about nodes of the same fabric, or folders with them: says which adapter of which node is which endpoint
    #[arg(long, value_name = "FILE|FOLDER", num_args = 1.., conflicts_with = "tables")]
    nodes: Vec<PathBuf>,
    /// With -o FILE.toml: the node of the catalogue that the hosts are, or that the new node rests on (default: by adapters, by GPUs)
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// With -o CLUSTER.toml: the hosts that are its nodes, such as gpu[01-16],gpu20 (default: all with as many adapters as most)
    #[arg(long, value_name = "HOSTS")]
    hosts: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope import fabrics/dgx-ndr.ibnetdiscover
  fabriscope import fabrics/nodes/hgx-h100.nccl.xml
  fabriscope import examples/profiles/hgx-h100.yaml     the parts that a profile of mock-nvml becomes
  fabriscope import fabrics/selene-compute.ibnetdiscover.gz --json -o selene.json
  fabriscope import mine.topo -o mine.toml              a cluster to begin with, for bench --on, topo and labs
  fabriscope import mine.topo --hosts gpu[01-16] --node dgx-a100 -o mine.toml
  fabriscope import gpu01.xml -o parts/nodes/gpu01.toml    a node to begin with, for --catalog parts/ and --node gpu01
  fabriscope import mine.topo --nodes nodes/            files of `lstopo --of xml` of each node
  ibnetdiscover > mine.topo && fabriscope import mine.topo --tables opensm-lfts.dump";

/// Runs the command.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    let text = text_of(&args.file)?;
    let cluster = args.output.output.as_deref().filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
    if cluster.is_none() && (args.node.is_some() || args.hosts.is_some()) {
        let message = "--node and --hosts say what a cluster is made of, and no cluster is written";
        return Err(Failure::told(message, "write one: -o mine.toml, or leave them out"));
    }
    let outcome = if fabriscope_machine::import::looks_like(&text) {
        of_node(args, &text, cluster, context, output)?
    } else if fabriscope_catalog::profile::looks_like(&text) {
        of_profile(args, &text, cluster, (context, output))?
    } else {
        let subnet = parse(&args.file, &text)?;
        let mut outcome = of_fabric(args, &subnet, context)?;
        if let Some(path) = cluster {
            let draft = draft::cluster(args, &subnet, path, context)?;
            outcome.begin(draft.text.clone());
            tell(&draft::next(&draft, path), output);
        }
        outcome
    };
    args.output.write(&outcome, output)
}

/// What to do next, on standard error: standard output has no part in it. A program of its own does what it likes.
fn tell(next: &str, output: &Output) {
    if !output.is_kept() {
        drop(std::io::stderr().lock().write_all(next.as_bytes()));
    }
}

/// What there is to say of a node.
fn of_node(args: &Args, text: &str, part: Option<&Path>, context: &Context, output: &Output) -> Result<Outcome, Failure> {
    if args.tables.is_some() || !args.nodes.is_empty() || args.hosts.is_some() {
        let message = format!("{} describes a node, not a fabric", args.file.display());
        let help = "give the fabric, and files about nodes by --nodes; or leave out --tables, --nodes and --hosts";
        return Err(Failure::told(message, help));
    }
    let file = crate::node::parse(&args.file, text, &crate::node::rates(context)?)?;
    let mut outcome = node::outcome(&args.file, &file);
    if let Some(path) = part {
        let (text, next) = draft::node(args, &file, path, context)?;
        outcome.begin(text);
        tell(&next, output);
    }
    Ok(outcome)
}

/// What there is to say of the profile of a hardware mock.
fn of_profile(args: &Args, text: &str, cluster: Option<&Path>, (context, output): (&Context, &Output)) -> Result<Outcome, Failure> {
    if args.tables.is_some() || !args.nodes.is_empty() || args.hosts.is_some() || args.node.is_some() {
        let message = format!("{} is the profile of one node, not a fabric", args.file.display());
        return Err(Failure::told(
            message,
            "leave out --tables, --nodes, --hosts and --node; `fabriscope: { node: NAME }` in the file names a node",
        ));
    }
    let catalog = context.catalog()?;
    let file = args.file.display().to_string();
    let read = Profile::parse(catalog, &file, text, None).map_err(Failure::of)?;
    let mut outcome = profile::outcome(&args.file, &read.resolve(catalog).map_err(Failure::of)?);
    if let Some(path) = cluster {
        outcome.begin(read.toml().to_owned());
        let path = path.display();
        tell(&format!("# {path}: the cluster of {file}\n# next: fabriscope bench ib_send_lat --on {path}\n"), output);
    }
    Ok(outcome)
}

/// What there is to say of a fabric.
fn of_fabric(args: &Args, subnet: &Subnet, context: &Context) -> Result<Outcome, Failure> {
    let joined = match args.nodes.as_slice() {
        [] => None,
        paths => Some(join::join(subnet, &join::nodes(&join::files(paths)?, context)?)),
    };
    let review = import::review(subnet);
    let tables = args.tables.as_deref().map(|path| tables(subnet, path)).transpose()?.map(|(_, summary)| summary);
    Ok(fabric::outcome(&args.file, &review, tables, joined.as_ref()))
}

/// The text in a file.
pub fn text_of(path: &Path) -> Result<String, Failure> {
    let bytes =
        std::fs::read(path).map_err(|cause| Failure::told(format!("{}: {cause}", path.display()), "name a file that can be read"))?;
    import::text(&bytes).map(std::borrow::Cow::into_owned).map_err(|error| told(path, &error))
}

/// The subnet in a file.
pub fn read(path: &Path) -> Result<Subnet, Failure> {
    parse(path, &text_of(path)?)
}

fn parse(path: &Path, text: &str) -> Result<Subnet, Failure> {
    if fabriscope_machine::import::looks_like(text) {
        let message = format!("{}: describes a node, not a fabric", path.display());
        return Err(Failure::told(message, "give the output of ibnetdiscover or another fabric; `fabriscope show FILE` shows a node"));
    }
    import::read(text).map_err(|error| told(path, &error))
}

fn told(path: &Path, error: &import::ImportError) -> Failure {
    let (message, help) = error.halves("see `fabriscope import --help`");
    Failure::told(format!("{}: {message}", path.display()), help)
}

/// Forwarding tables of a subnet, in a file that may be compressed by gzip.
pub fn tables(subnet: &Subnet, path: &Path) -> Result<(Tables, LftsSummary), Failure> {
    let cannot = |message: String, help: String| Failure::told(format!("{}: {message}", path.display()), help);
    let unread = |cause: std::io::Error| cannot(cause.to_string(), UNREAD.to_owned());
    let file = std::fs::File::open(path).map_err(unread)?;
    let lines = import::plain(std::io::BufReader::new(file)).map_err(unread)?;
    import::read_lfts(subnet, lines).map_err(|error| {
        let (message, help) = error.halves(UNREAD);
        cannot(message, help)
    })
}

/// What looks wrong, with the first places of each.
fn findings<'a>(findings: impl Iterator<Item = (&'a str, &'a [String])>) -> String {
    let mut text = String::new();
    for (what, places) in findings {
        text += &format!("- {what}\n");
        for place in places.iter().take(SHOWN) {
            text += &format!("    {place}\n");
        }
        if places.len() > SHOWN {
            text += "    …\n";
        }
    }
    if text.is_empty() { "Nothing looks wrong.\n".to_owned() } else { format!("What looks wrong:\n{text}") }
}

/// What to do where a file cannot be read.
const UNREAD: &str = "name a file that can be read";

/// Places of a finding that are shown; --json has more.
const SHOWN: usize = 5;
