//! `fabriscope import`: what an operator checks first in a real fabric or node, and what looks wrong in it.

mod join;
mod node;

use std::path::{Path, PathBuf};

use fabriscope_fabric::Tables;
use fabriscope_fabric::import::{self, LftsSummary, Review, Subnet};
use fabriscope_report::Table;

use crate::context::Context;
use crate::error::{Failure, Verdict};
use crate::output::Output;

/// Reads a fabric or a node that another tool described, and says what looks wrong in it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Output of ibnetdiscover, a file of ibsim, opensm-subnet.lst, topology.conf or topology.yaml of Slurm, a cabling plan
    /// in dot, a topology of htsim, HPCC or SimAI, or an edge list; of a node what `lstopo --of xml` or `nvidia-smi topo -m`
    /// prints, or a file of NCCL_TOPO_DUMP_FILE; may be compressed by gzip
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Forwarding tables of the same fabric: opensm-lfts.dump or the output of dump_fts; may be compressed by gzip
    #[arg(long, value_name = "FILE")]
    tables: Option<PathBuf>,
    /// Files about nodes of the same fabric, or folders with them: says which adapter of which node is which endpoint
    #[arg(long, value_name = "FILE|FOLDER", num_args = 1.., conflicts_with = "tables")]
    nodes: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write the result to this file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope import fabrics/dgx-ndr.ibnetdiscover
  fabriscope import fabrics/nodes/hgx-h100.nccl.xml
  fabriscope import fabrics/selene-compute.ibnetdiscover.gz --json -o selene.json
  fabriscope import mine.topo --nodes nodes/            files of `lstopo --of xml` of each node
  ibnetdiscover > mine.topo && fabriscope import mine.topo --tables opensm-lfts.dump";

/// Runs the command.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    let text = text_of(&args.file)?;
    if fabriscope_machine::import::looks_like(&text) {
        if args.tables.is_some() || !args.nodes.is_empty() {
            let message = format!("{} describes a node, not a fabric", args.file.display());
            return Err(Failure::told(message, "give the fabric, and files about nodes by --nodes; or leave out --tables and --nodes"));
        }
        let file = crate::node::parse(&args.file, &text, &crate::node::rates(context)?)?;
        if let Some(path) = &args.output {
            output.redirect(path)?;
        }
        if args.json {
            output.json(&node::json(&file))?
        } else {
            output.text(&node::text(&args.file, &file))?
        }
        return Ok(Verdict::Good);
    }
    let subnet = parse(&args.file, &text)?;
    let joined = match args.nodes.as_slice() {
        [] => None,
        paths => Some(join::join(&subnet, &join::nodes(&join::files(paths)?, context)?)),
    };
    let review = import::review(&subnet);
    let tables = args.tables.as_deref().map(|path| tables(&subnet, path)).transpose()?.map(|(_, summary)| summary);
    if let Some(path) = &args.output {
        output.redirect(path)?;
    }
    if args.json {
        let mut value = serde_json::to_value(&review).unwrap_or_default();
        if let (Some(object), Some(tables)) = (value.as_object_mut(), tables) {
            object.insert("tables".to_owned(), serde_json::to_value(tables).unwrap_or_default());
        }
        if let (Some(object), Some(joined)) = (value.as_object_mut(), joined) {
            object.insert("nodes".to_owned(), serde_json::to_value(joined).unwrap_or_default());
        }
        output.json(&value)?;
    } else {
        let joined = joined.map_or_else(String::new, |joined| joined.text());
        output.text(&joined)?;
        output.text(&fabric_text(&args.file, &review, tables))?;
    }
    Ok(Verdict::Good)
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
    let message = error.to_string();
    let (message, help) = message.split_once("; ").unwrap_or((&message, "see `fabriscope import --help`"));
    Failure::told(format!("{}: {message}", path.display()), help)
}

/// Forwarding tables of a subnet, in a file that may be compressed by gzip.
pub fn tables(subnet: &Subnet, path: &Path) -> Result<(Tables, LftsSummary), Failure> {
    let cannot = |message: String| {
        let (message, help) = message.split_once("; ").map_or((message.as_str(), "name a file that can be read"), |(m, h)| (m, h));
        Failure::told(format!("{}: {message}", path.display()), help)
    };
    let file = std::fs::File::open(path).map_err(|cause| cannot(cause.to_string()))?;
    let lines = import::plain(std::io::BufReader::new(file)).map_err(|cause| cannot(cause.to_string()))?;
    import::read_lfts(subnet, lines).map_err(|error| cannot(error.to_string()))
}

fn fabric_text(file: &Path, review: &Review, tables: Option<LftsSummary>) -> String {
    let mut text = format!("# {}\n\n", file.display());
    let mut table = Table::new(["what", "count"]);
    let mut row = |what: &str, count: String| table.push([what.to_owned(), count]);
    row("switches", review.switches.to_string());
    for (index, switches) in review.levels.iter().enumerate() {
        row(&format!("  of level {}", index + 1), switches.to_string());
    }
    row("hosts", review.hosts.to_string());
    for (adapters, hosts) in &review.hosts_by_adapters {
        row(&format!("  with {adapters} adapter{}", if *adapters == 1 { "" } else { "s" }), hosts.to_string());
    }
    row("adapters of hosts", review.adapters.to_string());
    row("aggregation nodes (SHARP)", review.aggregation_nodes.to_string());
    row("cables", review.cables.to_string());
    row("  between switches", review.switch_cables.to_string());
    for (speed, cables) in &review.speeds {
        row(&format!("  {speed}"), cables.to_string());
    }
    row("leaf switches with one rail", review.single_rail_leaves.to_string());
    row("lines not understood", review.unread_lines.to_string());
    text += &format!("{table}\n");

    let list = |counts: &std::collections::BTreeMap<u32, u32>| {
        let item = |(value, switches): (&u32, &u32)| if counts.len() == 1 { value.to_string() } else { format!("{value} ({switches})") };
        counts.iter().map(item).collect::<Vec<_>>().join(", ")
    };
    let mut classes = Table::new(["level", "switches", "count", "ports", "host cables", "uplinks of each"]).words(1).words(5);
    for class in &review.classes {
        let ports: Vec<String> = class.ports.keys().map(u16::to_string).collect();
        let cells = [
            class.level.to_string(),
            class.name.clone(),
            class.switches.to_string(),
            ports.join(", "),
            class.host_cables.to_string(),
            list(&class.uplinks),
        ];
        classes.push(cells);
    }
    text += &format!("{classes}\n");
    if !review.between.is_empty() {
        let mut between = Table::new(["from", "to", "cables"]).words(0).words(1);
        for (low, high, cables) in &review.between {
            between.push([low.clone(), high.clone(), cables.to_string()]);
        }
        text += &format!("{between}\n");
    }
    if review.rails.len() <= MOST_RAILS {
        let mut rails = Table::new(["rail", "adapters"]).words(0);
        for (rail, adapters) in &review.rails {
            rails.push([if rail.is_empty() { "(no name)".to_owned() } else { rail.clone() }, adapters.to_string()]);
        }
        text += &format!("{rails}\n");
    }
    if let Some(tables) = tables {
        let LftsSummary { switches, entries, to_endpoints, passed_over } = tables;
        text += &format!(
            "# tables: {switches} switches, {entries} entries, {to_endpoints} of them to hosts, {passed_over} lines passed over\n\n"
        );
    }
    for note in &review.notes {
        text += &format!("note: {note}\n");
    }
    if !review.notes.is_empty() {
        text.push('\n');
    }
    text += &findings(review.findings.iter().map(|finding| (finding.what.as_str(), finding.places.as_slice())));
    let name = file.display();
    text + &format!("\n# next: fabriscope export {name} -o fabric.conf    topology.conf for Slurm\n")
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

/// Rails that are listed; a list of more says nothing.
const MOST_RAILS: usize = 24;
/// Places of a finding that are shown; --json has more.
const SHOWN: usize = 5;
