//! `fabriscope bench`: a tool, on a cluster, with its own options; its own bytes on standard output.

use std::path::Path;

use clap::{ArgAction, CommandFactory, FromArgMatches};
use fabriscope_lab::LabError;
use fabriscope_lab::bench::{BenchEngine, BenchRequest, BenchRun, Stack, placement};
use fabriscope_lab::launch::LaunchError;
use fabriscope_report::{Cell, Column, Grid, Outcome};
use fabriscope_tools::{Tool, UsageError};

use crate::context::Context;
use crate::counting::{CounterArgs, Shown};
use crate::devices::DeviceArgs;
use crate::error::{Failure, Verdict};
use crate::output::{FormatArgs, Output, OutputArgs, write_file};
use crate::rows::Live;
use crate::tap::{self, Pcap};

/// Runs a benchmark and prints what the real program would print.
///
/// The tool's own options follow its name. Both ends of the connection are simulated, so no server name is given.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true, after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    job: JobArgs,
    #[command(flatten)]
    output: OutputArgs,
    /// Print the placement to standard error
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

/// Options about where and how a tool runs. They may stand before the tool's name or behind: no tool has options of these names.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
struct JobArgs {
    /// Cluster to run on: a name of `fabriscope clusters` or a TOML file; `:N` takes N nodes of it
    #[arg(long, value_name = "CLUSTER")]
    on: Option<String>,
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
    /// The hosts themselves, on an imported fabric: gpu[01-04],gpu20
    #[arg(long, value_name = "HOSTS")]
    hosts: Option<String>,
    /// What carries the messages of collective benchmarks of MPI: `packet` (every packet), `flow` (at costs of the library that packets show
    /// on a few nodes) or `auto` (the default: packets, and flow for what is too large for them)
    #[arg(long, value_name = "ENGINE")]
    engine: Option<String>,
    /// Cores for one run of packets between many ranks, 0 for all (default: up to 4); the result does not depend on it
    #[arg(long, value_name = "N")]
    cores: Option<usize>,
    #[command(flatten)]
    devices: DeviceArgs,
    #[command(flatten)]
    pcap: Pcap,
    #[command(flatten)]
    counters: CounterArgs,
}

/// The same behind the tool's name, where the format may be said as well.
#[derive(Debug, clap::Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Behind {
    #[command(flatten)]
    job: JobArgs,
    #[command(flatten)]
    format: FormatArgs,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope bench                                    the tools
  fabriscope bench ib_write_bw --on ri2 -a            all sizes, as perftest prints them
  fabriscope bench ib_send_lat --on ri2 -s 64 -I 0    without inline data
  fabriscope bench osu_bibw --on betzy-hdr -m 1:4194304
  fabriscope bench osu_latency --on my-cluster.toml:4
  fabriscope bench all_reduce_perf --on mine.toml --hosts gpu[01-04]    hosts of an imported fabric
  fabriscope bench osu_latency --on ibex-cpu --transport tcp    through the kernel: IPoIB there
  fabriscope bench iperf3 --on ibex-cpu -P 4
  fabriscope bench osu_latency --on opa100-a40 --gpudirect off D D    buffers on GPUs
  fabriscope bench osu_bw --on olivia-gh200-ss11 --nodes 1 --bind 0,2 D D    within a node
  fabriscope bench all_reduce_perf --on azure-ndh100v5 -b 1M -e 1G -f 4 -g 8 --env NCCL_ALGO=Ring
  fabriscope bench osu_latency --on alaska-roce25 --nodes 1 --bind socket    from socket to socket
  fabriscope bench osu_bw --on betzy-hdr --nodes 1 --intra-node xpmem    within a node, the library built with XPMEM
  fabriscope bench osu_alltoall --on csd3-opa --nodes 4 --ppn 32 -m 1024:1024
  fabriscope bench osu_allreduce --on lab-8192 --nodes 64 --ppn 16 -m 8:8 --engine flow
  fabriscope bench IMB-MPI1 Alltoall --on athena-edr --nodes 2 -msglog 3:16
  fabriscope bench krylov --on alaska-roce25 -n 256    iterations of conjugate gradients
  fabriscope bench ib_write_bw --on ri2 -n 5 --pcap write.pcap    the packets, for Wireshark
  fabriscope bench ib_write_bw --on ri2 --counters    what ports and adapters counted
  fabriscope bench ib_write_bw --on ri2 -a --json     every number of the table with its unit, and the settings
  fabriscope bench ib_read_lat --help                 the options of a tool";

/// Runs the command.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    let (before, first) = args.counters_or_option();
    let Some(name) = &args.tool else {
        before.counters.counting()?;
        if args.help {
            output.text(&long_help())?;
            return Ok(Verdict::Good);
        }
        return args.output.write(&tools(), output);
    };
    let words: Vec<String> = first.into_iter().chain(args.options.iter().cloned()).collect();
    let (job, format, mut options) = job_and_tool(before, args.output.format, &words)?;
    if args.help {
        options.push("--help".to_owned());
    }
    let wants_help = options.iter().any(|o| o == "--help" || o == "-h");
    let request = request(name, &job, options, context.seed())?;
    let on = job.on.or_else(|| wants_help.then(|| "ri2".to_owned()));
    // The help of a tool does not depend on the machine.
    let on = on.ok_or_else(|| {
        let help = format!("say where: fabriscope bench {name} --on ri2; `fabriscope clusters` lists them");
        Failure::told("no cluster is named", help)
    })?;
    let setup = request.set_up(context.catalog()?, context.cluster(&on)?)?;
    if args.verbose && !wants_help {
        tell(&format!("# {}\n", setup.describe()));
    }
    let prints = args.output.output.is_none() && format == FormatArgs::default();
    let (live, listener) = Live::new(prints);
    let done = setup.run_heard(Some(listener));
    output.has_written(live.end());
    match done {
        Err(LabError::Launch(LaunchError::Usage(UsageError::Help { text }))) => {
            output.text(&text)?;
            Ok(Verdict::Good)
        }
        other => finish(args, &job.counters, format, &other?, output),
    }
}

/// Cores where nothing is said: those of a part wait for those of others at every window. Basis: assumed; two were measured.
const USUAL_CORES: usize = 4;

/// What is asked for.
fn request(name: &str, job: &JobArgs, options: Vec<String>, seed: u64) -> Result<BenchRequest, Failure> {
    let request = BenchRequest::named(name)?;
    Ok(BenchRequest {
        options,
        stack: job.transport.as_deref().map(Stack::parse).transpose()?.unwrap_or_default(),
        nodes: job.nodes,
        per_node: job.ppn,
        placement: job.placement.as_deref().map(placement).transpose()?,
        hosts: job.hosts.clone(),
        devices: job.devices.options(),
        capture: job.pcap.request(),
        counting: job.counters.counting()?,
        engine: job.engine.as_deref().map(BenchEngine::parse).transpose()?.unwrap_or_default(),
        threads: job.cores.map_or_else(|| super::cores(0).min(USUAL_CORES), super::cores),
        seed,
        ..request
    })
}

/// Writes what was captured and counted, remarks, the outcome and the tool's files.
fn finish(args: &Args, counters: &CounterArgs, format: FormatArgs, done: &BenchRun, output: &mut Output) -> Result<Verdict, Failure> {
    if let Some(taps) = &done.taps {
        tap::write(taps, &done.run.sightings)?;
    }
    let shown = done.cluster.as_ref().map_or(Ok(Shown::default()), |cluster| counters.show(cluster, &done.run))?;
    let mut outcome = done.outcome();
    if let Some(sums) = shown.json {
        outcome.set("counters", sums);
    }
    if let Some(table) = &shown.table {
        outcome.text(format!("\n{table}"));
    }
    for remark in &done.printed.remarks {
        tell(&format!("# {remark}\n"));
    }
    let verdict = format.write(&outcome, args.output.output.as_deref(), output)?;
    for file in &done.printed.files {
        write_file(Path::new(&file.name), &file.text)?;
    }
    Ok(verdict)
}

impl Args {
    /// The options before the tool; and an option of the tool that was taken for the file of the counters.
    fn counters_or_option(&self) -> (JobArgs, Option<String>) {
        let (counters, first) = self.job.counters.without_option();
        (JobArgs { counters, ..self.job.clone() }, first)
    }
}

/// Sorts the words behind the tool's name: our own options, which add to those before it, and the tool's.
fn job_and_tool(before: JobArgs, format: FormatArgs, words: &[String]) -> Result<(JobArgs, FormatArgs, Vec<String>), Failure> {
    let mut command = Behind::command();
    command.build();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut rest = words.iter().peekable();
    while let Some(word) = rest.next() {
        let (name, joined) = word.split_once('=').map_or((word.as_str(), false), |(name, _)| (name, true));
        let long = name.strip_prefix("--");
        let Some(argument) = command.get_arguments().find(|argument| argument.get_long().is_some_and(|own| long == Some(own))) else {
            theirs.push(word.clone());
            continue;
        };
        ours.push(word.clone());
        let takes = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append) && !joined;
        // The file of the counters may be missing: then a table is shown.
        let optional = argument.get_num_args().is_some_and(|count| count.min_values() == 0);
        if takes {
            ours.extend(rest.next_if(|next| !(optional && next.starts_with('-'))).cloned());
        }
    }
    let given = |name: &str| ours.iter().any(|word| word.split('=').next() == Some(name));
    let files: Vec<String> = before.words().into_iter().filter(|word| word.split('=').next().is_some_and(|name| !given(name))).collect();
    ours.extend(files);
    let refused = |error: clap::Error| {
        let text = error.to_string();
        let line = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        let more: Vec<&str> = text.lines().skip(1).map(str::trim).take_while(|line| !line.starts_with("Usage")).collect();
        let what = format!("{line} {}", more.join(" ")).trim().to_owned();
        Failure::told(what, "`fabriscope bench --help` says what each option takes, such as --nodes 4 or --every 10us")
    };
    let matches = command.try_get_matches_from(&ours).map_err(refused)?;
    let mut job = before;
    let behind = Behind::from_arg_matches(&matches).map_err(refused)?;
    job.update(behind.job);
    let format = FormatArgs { json: format.json || behind.format.json, csv: format.csv || behind.format.csv };
    Ok((job, format, theirs))
}

impl JobArgs {
    /// The files that options behind the tool may belong to, as words.
    fn words(&self) -> Vec<String> {
        let file = |name: &str, path: &Option<std::path::PathBuf>| path.as_ref().map(|path| format!("{name}={}", path.display()));
        file("--pcap", &self.pcap.pcap).into_iter().chain(file("--counters", &self.counters.counters)).collect()
    }

    /// Takes what `later` says, and keeps the rest.
    fn update(&mut self, later: JobArgs) {
        let JobArgs { on, transport, nodes, ppn, placement, hosts, engine, cores, devices, pcap, counters } = later;
        let text = |own: &mut Option<String>, other: Option<String>| *own = other.or_else(|| own.take());
        text(&mut self.on, on);
        text(&mut self.transport, transport);
        text(&mut self.placement, placement);
        text(&mut self.hosts, hosts);
        text(&mut self.engine, engine);
        self.nodes = nodes.or(self.nodes);
        self.ppn = ppn.or(self.ppn);
        self.cores = cores.or(self.cores);
        text(&mut self.devices.bind, devices.bind);
        text(&mut self.devices.intra_node, devices.intra_node);
        text(&mut self.devices.gpu_aware, devices.gpu_aware);
        text(&mut self.devices.gpudirect, devices.gpudirect);
        self.pcap.pcap = pcap.pcap.or_else(|| self.pcap.pcap.take());
        if !pcap.tap.is_empty() {
            self.pcap.tap = pcap.tap;
        }
        self.pcap.snap = pcap.snap.or(self.pcap.snap);
        self.counters.counters = counters.counters.or_else(|| self.counters.counters.take());
        self.counters.every = counters.every.or(self.counters.every);
    }
}

/// The tools.
fn tools() -> Outcome {
    let mut grid = Grid::new([Column::words("tool", "tool"), Column::words("measures", "measures")]);
    for tool in Tool::all() {
        grid.push([Cell::word(tool.name()), Cell::word(tool.about())]);
    }
    let mut outcome = Outcome::new();
    outcome.list(grid).text("\n").note("fabriscope bench TOOL --on CLUSTER runs one; fabriscope clusters lists the clusters");
    outcome
}

fn long_help() -> String {
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
    fn our_options_may_stand_behind_the_tools() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let sorted = |line: &str| job_and_tool(JobArgs::default(), FormatArgs::default(), &words(line));
        let (job, _, theirs) = sorted("-a --on ri2 -s 64").unwrap();
        assert_eq!((job.on.as_deref(), theirs), (Some("ri2"), words("-a -s 64")));
        let (job, _, theirs) = sorted("-a --on=ri2:4 --only").unwrap();
        assert_eq!((job.on.as_deref(), theirs), (Some("ri2:4"), words("-a --only")));
        let (job, format, theirs) = sorted("--nodes 4 -m 8 --ppn=28 --json").unwrap();
        assert_eq!((job.nodes, job.ppn, format.json, theirs), (Some(4), Some(28), true, words("-m 8")));
        assert!(sorted("--ppn 0").is_err());
        let (job, _, theirs) = sorted("-s 64 --pcap a.pcap --tap all -n 5").unwrap();
        assert_eq!((job.pcap.pcap.as_deref(), job.pcap.tap, theirs), (Some(Path::new("a.pcap")), words("all"), words("-s 64 -n 5")));
        let (job, _, theirs) = sorted("--counters -n 5").unwrap();
        assert_eq!((job.counters.counters.as_deref(), theirs), (Some(Path::new("-")), words("-n 5")));
    }

    #[test]
    fn what_stands_behind_adds_to_what_stands_before() {
        let before = JobArgs {
            on: Some("ri2".to_owned()),
            nodes: Some(2),
            pcap: Pcap { pcap: Some("a.pcap".into()), ..Pcap::default() },
            ..JobArgs::default()
        };
        let words = ["--nodes", "4", "--tap", "all"].map(str::to_owned);
        let (job, ..) = job_and_tool(before, FormatArgs::default(), &words).unwrap();
        assert_eq!((job.on.as_deref(), job.nodes, job.pcap.tap), (Some("ri2"), Some(4), vec!["all".to_owned()]));
    }
}
