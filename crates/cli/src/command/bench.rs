//! `fabriscope bench`: a tool, on a cluster, with its own options; its own bytes on standard output.

use std::path::{Path, PathBuf};

use fabriscope_catalog::{Interface, IpoibMode, LinkLayer, NodeChoice};
use fabriscope_engine::Cluster;
use fabriscope_lab::devices::DeviceOptions;
use fabriscope_lab::launch::{Launch, LaunchError, layout};
use fabriscope_lab::tap::Taps;
use fabriscope_report::Table;
use fabriscope_tools::{Tool, UsageError};

use crate::context::Context;
use crate::counting::{CounterArgs, Shown};
use crate::devices::DeviceArgs;
use crate::error::{Failure, Verdict};
use crate::output::{Output, write_file};
use crate::progress::Progress;
use crate::tap::{self, Pcap};

/// Runs a benchmark and prints what the real program would print.
///
/// The tool's own options follow its name. Both ends of the connection are simulated, so no server name is given.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true, after_help = EXAMPLES)]
pub struct Args {
    /// Cluster to run on: a name of `fabriscope clusters` or a TOML file; `:N` takes N nodes of it
    #[arg(long, value_name = "CLUSTER")]
    on: Option<String>,
    /// Write the result to this file
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What the OSU benchmarks run over: `verbs` (the library of the cluster) or `tcp` (sockets: Ethernet or IPoIB)
    #[arg(long, value_name = "TRANSPORT")]
    transport: Option<String>,
    /// Nodes of a collective job (default 2)
    #[arg(long, value_name = "NODES", value_parser = clap::value_parser!(u32).range(1..))]
    nodes: Option<u32>,
    /// Ranks on each of them (default: one per core)
    #[arg(long, value_name = "RANKS", value_parser = clap::value_parser!(u32).range(1..))]
    ppn: Option<u32>,
    /// Which nodes: `same_leaf`, `across` or `scattered` (default: as the cluster says)
    #[arg(long, value_name = "PLACES")]
    placement: Option<String>,
    #[command(flatten)]
    devices: DeviceArgs,
    #[command(flatten)]
    pcap: Pcap,
    #[command(flatten)]
    counters: CounterArgs,
    /// Tell on standard error what runs where
    #[arg(long)]
    verbose: bool,
    /// Print help: of the tool, where one is named
    #[arg(long, short)]
    help: bool,
    /// The tool
    tool: Option<String>,
    /// The tool's own options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS")]
    options: Vec<String>,
}

/// The MPI library over sockets.
const OVER_TCP: &str = "openmpi-tcp";

const EXAMPLES: &str = "\
Examples:
  fabriscope bench                                    the tools
  fabriscope bench ib_write_bw --on ri2 -a            all sizes, as perftest prints them
  fabriscope bench ib_send_lat --on ri2 -s 64 -I 0    without inline data
  fabriscope bench osu_bibw --on betzy-hdr -m 1:4194304
  fabriscope bench osu_latency --on my-cluster.toml:4
  fabriscope bench osu_latency --on ibex-cpu --transport tcp    through the kernel: IPoIB there
  fabriscope bench iperf3 --on ibex-cpu -P 4
  fabriscope bench osu_latency --on opa100-a40 --gpudirect off D D    buffers on GPUs
  fabriscope bench osu_bw --on olivia-gh200-ss11 --nodes 1 --bind 0,2 D D    within a node
  fabriscope bench all_reduce_perf --on azure-ndh100v5 -b 1M -e 1G -f 4 -g 8 --env NCCL_ALGO=Ring
  fabriscope bench osu_latency --on alaska-roce25 --nodes 1 --bind socket    from socket to socket
  fabriscope bench osu_bw --on betzy-hdr --nodes 1 --intra-node xpmem    within a node, the library built with XPMEM
  fabriscope bench osu_alltoall --on csd3-opa --nodes 4 --ppn 32 -m 1024:1024
  fabriscope bench IMB-MPI1 Alltoall --on athena-edr --nodes 2 -msglog 3:16
  fabriscope bench krylov --on alaska-roce25 -n 256    iterations of conjugate gradients
  fabriscope bench ib_write_bw --on ri2 -n 5 --pcap write.pcap    the packets, for Wireshark
  fabriscope bench ib_write_bw --on ri2 --counters    what ports and adapters counted
  fabriscope bench ib_read_lat --help                 the options of a tool";

/// Runs the command.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    let (before, first) = args.counters.without_option();
    let Some(name) = &args.tool else {
        before.counting()?;
        let text = if args.help { long_help() } else { tools() };
        output.text(&text)?;
        return Ok(Verdict::Good);
    };
    let tool = Tool::by_name(name).map_err(|e| Failure::told(e.to_string(), "`fabriscope bench` lists the tools"))?;
    let words: Vec<String> = first.into_iter().chain(args.options.iter().cloned()).collect();
    let (ours, mut options) = ours_and_theirs(&words)?;
    let pcap = ours.pcap(&args.pcap)?;
    let counters = ours.counters(&before)?;
    let counting = counters.counting()?;
    if args.help {
        options.push("--help".to_owned());
    }
    let wants_help = options.iter().any(|o| o == "--help" || o == "-h");
    let on = match ours.on.clone().or_else(|| args.on.clone()) {
        Some(on) => on,
        // The help of a tool does not depend on the machine.
        None if wants_help => "ri2".to_owned(),
        None => {
            return Err(Failure::told(
                "no cluster is named",
                format!("say where: fabriscope bench {name} --on ri2; `fabriscope clusters` lists them"),
            ));
        }
    };
    let mut parts = context.cluster(&on)?;
    match ours.transport.as_ref().or(args.transport.as_ref()).map(String::as_str) {
        None | Some("verbs") => {}
        Some("tcp") if matches!(tool, Tool::Omb(_) | Tool::Collective(_) | Tool::Krylov) => {
            parts.sole_mut().software = context.catalog()?.software(OVER_TCP).map_err(Failure::of)?.clone()
        }
        Some("tcp") => {
            let what = format!("--transport tcp is for the OSU benchmarks, not for {name}");
            return Err(Failure::told(what, "iperf3 and netperf run over TCP by themselves; perftest is verbs only"));
        }
        Some(other) => return Err(Failure::told(format!("there is no transport `{other}`"), "use verbs or tcp")),
    }
    let all = matches!(tool, Tool::Collective(_)) || matches!(tool, Tool::Shmem(benchmark) if benchmark.is_collective());
    let many = all || matches!(tool, Tool::Krylov) || tool.name() == "osu_mbw_mr";
    let binding = ours.devices.or(&args.devices.options()).apply(&mut parts, if many { u32::MAX } else { 2 })?;
    let sockets = matches!(tool, Tool::Sockets(_)) || parts.sole().software.interface == Interface::Sockets;
    let connected = parts.link_layer == LinkLayer::InfiniBand && parts.ip.mode == IpoibMode::Connected;
    if pcap.pcap.is_some() && sockets && connected {
        let help = "leave --pcap out, or write ip.mode = \"datagram\" in the cluster";
        return Err(Failure::told("packets of TCP inside reliable connections are not written to captures", help));
    }
    if pcap.pcap.is_some() && parts.sole().software.interface == Interface::Psm2 {
        let help = "leave --pcap out, or capture a benchmark over verbs";
        return Err(Failure::told("packets of PSM2 are not written to captures", help));
    }
    if args.verbose && !wants_help {
        tell(&format!("# {} on {}: {}; MTU {}, {}\n", tool.name(), parts.name, parts.title, parts.mtu, parts.sole().software.title));
    }
    let shape = (ours.nodes.or(args.nodes), ours.ppn.or(args.ppn));
    let layout = match (tool, shape) {
        (_, (nodes, per_node)) if all => Some(layout(&parts, nodes, per_node)),
        // A rank whose threads have all cores.
        (Tool::Krylov, (nodes, per_node)) => Some(layout(&parts, nodes, Some(per_node.unwrap_or(1)))),
        // One node with all its GPUs.
        (Tool::NcclTests(_), (nodes, per_node)) => {
            Some(layout(&parts, Some(nodes.unwrap_or(1)), Some(per_node.unwrap_or(parts.sole().node.gpus.max(1)))))
        }
        (_, (None, None)) => None,
        (Tool::Omb(_) | Tool::Shmem(_) | Tool::Xccl(_), (Some(nodes @ (1 | 2)), per_node)) if nodes == 1 || per_node.is_none() => {
            Some(layout(&parts, Some(nodes), per_node))
        }
        _ => {
            let what = format!("--nodes and --ppn are for collective benchmarks, not for {name}");
            let help = "leave them out: it runs between two nodes, or with --nodes 1 within one; osu_mbw_mr and osu_multi_lat have --pairs";
            return Err(Failure::told(what, help));
        }
    };
    let spinner = Progress::spinner("running");
    let cluster = match pcap.pcap.is_some() || counters.wanted() {
        true => Some(Cluster::new(parts.clone()).map_err(LaunchError::from).map_err(Failure::of)?),
        false => None,
    };
    let taps = cluster.as_ref().map_or(Ok(None), |cluster| pcap.request().taps(cluster))?;
    let list = taps.as_ref().map(Taps::list).unwrap_or_default();
    let nodes = match ours.placement.as_ref().or(args.placement.as_ref()).map(String::as_str) {
        None => parts.placement,
        Some("same_leaf") => NodeChoice::SameLeaf,
        Some("across") => NodeChoice::Across,
        Some("scattered") => NodeChoice::Scattered,
        Some(other) => return Err(Failure::told(format!("there is no placement `{other}`"), "use same_leaf, across or scattered")),
    };
    let launch = Launch {
        tool,
        options: &options,
        parts: &parts,
        nodes,
        layout,
        seed: context.seed(),
        binding: binding.clone(),
        traced: false,
        taps: list,
        counting,
        faults: None,
    };
    let result = launch.run();
    drop(spinner);
    let (result, run) = match result {
        Err(LaunchError::Usage(UsageError::Help { text })) => {
            output.text(&text)?;
            return Ok(Verdict::Good);
        }
        other => other.map_err(Failure::of)?,
    };
    if let Some(taps) = &taps {
        tap::write(taps, &run.sightings)?;
    }
    let shown = cluster.as_ref().map_or(Ok(Shown::default()), |cluster| counters.show(cluster, &run))?;
    if let Some(path) = &args.output {
        output.redirect(path)?;
    }
    for remark in &result.remarks {
        tell(&format!("# {remark}\n"));
    }
    output.text(&result.text)?;
    if let Some(table) = &shown.table {
        output.text(&format!("\n{table}"))?;
    }
    for file in &result.files {
        write_file(Path::new(&file.name), &file.text)?;
    }
    Ok(Verdict::Good)
}

/// Options of this command that stand behind those of the tool.
#[derive(Debug, Default, PartialEq, Eq)]
struct Ours {
    on: Option<String>,
    transport: Option<String>,
    nodes: Option<u32>,
    ppn: Option<u32>,
    placement: Option<String>,
    devices: DeviceOptions,
    pcap: Option<String>,
    taps: Vec<String>,
    snap: Option<String>,
    counters: Option<PathBuf>,
    every: Option<String>,
}

impl Ours {
    /// What to count; `before` stood before the tool.
    fn counters(&self, before: &CounterArgs) -> Result<CounterArgs, Failure> {
        let counters = self.counters.clone().or_else(|| before.counters.clone());
        let every = match &self.every {
            None => before.every,
            Some(_) if counters.is_none() => return Err(Failure::told("--every without --counters", "name the file: --counters FILE.om")),
            Some(text) => {
                let refused = |error| Failure::told(format!("--every {text}: {error}"), "write a time such as 10us");
                Some(text.parse().map_err(refused)?)
            }
        };
        Ok(CounterArgs { counters, every })
    }

    /// What to capture; `before` stood before the tool.
    fn pcap(&self, before: &Pcap) -> Result<Pcap, Failure> {
        let pcap = self.pcap.as_ref().map(PathBuf::from).or_else(|| before.pcap.clone());
        if pcap.is_none() && !(self.taps.is_empty() && self.snap.is_none()) {
            return Err(Failure::told("--tap and --snap without a file", "name the file: --pcap FILE"));
        }
        let snap =
            match &self.snap {
                None => before.snap,
                Some(text) => Some(text.parse().ok().filter(|bytes| *bytes >= 16).ok_or_else(|| {
                    Failure::told(format!("--snap {text} is no number of bytes"), "write a number from 16, or leave it out")
                })?),
            };
        Ok(Pcap { pcap, tap: if self.taps.is_empty() { before.tap.clone() } else { self.taps.clone() }, snap })
    }
}

/// Our own options may also stand behind options of the tool; no tool has options of these names.
fn ours_and_theirs(words: &[String]) -> Result<(Ours, Vec<String>), Failure> {
    let (mut ours, mut theirs) = (Ours::default(), Vec::new());
    let mut rest = words.iter().peekable();
    while let Some(word) = rest.next() {
        let (name, joined) = word.split_once('=').map_or((word.as_str(), None), |(name, value)| (name, Some(value.to_owned())));
        let mut value = || joined.clone().or_else(|| rest.next().cloned());
        match name {
            "--nodes" => ours.nodes = Some(count(name, value())?),
            "--placement" => ours.placement = value(),
            "--ppn" => ours.ppn = Some(count(name, value())?),
            "--bind" => ours.devices.bind = value(),
            "--intra-node" => ours.devices.intra_node = value(),
            "--gpu-aware" => ours.devices.gpu_aware = value(),
            "--gpudirect" => ours.devices.gpudirect = value(),
            "--on" => ours.on = value(),
            "--transport" => ours.transport = value(),
            "--pcap" => ours.pcap = value(),
            "--tap" => ours.taps.extend(value()),
            "--snap" => ours.snap = value(),
            "--every" => ours.every = value(),
            // The file may be missing: then a table is shown.
            "--counters" => {
                let next = rest.next_if(|next| joined.is_none() && !next.starts_with('-')).cloned();
                ours.counters = Some(PathBuf::from(joined.or(next).unwrap_or_else(|| "-".to_owned())));
            }
            _ => theirs.push(word.clone()),
        }
    }
    Ok((ours, theirs))
}

fn count(option: &str, value: Option<String>) -> Result<u32, Failure> {
    let found = value.as_deref().and_then(|text| text.parse().ok()).filter(|count| *count > 0);
    found.ok_or_else(|| {
        let what = format!("{option} {} is no number of {}", value.unwrap_or_default(), if option == "--ppn" { "ranks" } else { "nodes" });
        Failure::told(what, format!("write a whole number from 1, as {option} 4"))
    })
}

fn tools() -> String {
    let mut table = Table::new(["tool", "measures"]).words(1);
    for tool in Tool::all() {
        table.push([tool.name().to_owned(), tool.about().to_owned()]);
    }
    format!("{table}\n# fabriscope bench TOOL --on CLUSTER runs one; fabriscope clusters lists the clusters\n")
}

fn long_help() -> String {
    use clap::CommandFactory;
    let mut command = crate::arguments::Arguments::command();
    command.build();
    match command.find_subcommand_mut("bench") {
        Some(bench) => format!("{}", bench.render_long_help()),
        None => String::new(),
    }
}

fn tell(text: &str) {
    use std::io::Write;
    drop(std::io::stderr().lock().write_all(text.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cluster_may_stand_behind_the_tools_options() {
        let ours_and_theirs = |words: &[String]| ours_and_theirs(words).unwrap_or_default();
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let on = |name: &str| Ours { on: Some(name.to_owned()), ..Ours::default() };
        assert_eq!(ours_and_theirs(&words("-a --on ri2 -s 64")), (on("ri2"), words("-a -s 64")));
        assert_eq!(ours_and_theirs(&words("-a --on=ri2:4 --only")), (on("ri2:4"), words("-a --only")));
        let (ours, theirs) = ours_and_theirs(&words("--nodes 4 -m 8 --ppn=28"));
        assert_eq!((ours.nodes, ours.ppn, theirs), (Some(4), Some(28), words("-m 8")));
        assert!(super::ours_and_theirs(&words("--ppn 0")).is_err());
        let (ours, theirs) = ours_and_theirs(&words("-s 64 --pcap a.pcap --tap all -n 5"));
        assert_eq!((ours.pcap.as_deref(), ours.taps, theirs), (Some("a.pcap"), words("all"), words("-s 64 -n 5")));
    }
}
