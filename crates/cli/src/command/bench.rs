//! `fabriscope bench`: a tool, on a cluster, with its own options; its own bytes on standard output.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{ArgAction, CommandFactory, FromArgMatches};
use fabriscope::StorageTool;
use fabriscope_lab::LabError;
use fabriscope_lab::bench::{BenchEngine, BenchRequest, BenchRun, Stack, noise, placement};
use fabriscope_lab::launch::LaunchError;
use fabriscope_report::{Cell, Column, Grid, Outcome};
use fabriscope_tools::{Tool, UsageError};

use super::bench_hpl;
use crate::arguments::Color;
use crate::context::Context;
use crate::counting::{CounterArgs, LustreCounters, Shown};
use crate::devices::DeviceArgs;
use crate::energy::EnergyArgs;
use crate::error::{Failure, Verdict};
use crate::memory::MemoryArgs;
use crate::output::{FormatArgs, Output, OutputArgs, write_file};
use crate::rows::Live;
use crate::storage::{self, Mounted};
use crate::tap::{self, Pcap};
use crate::timeline::{self, TimelineArgs};

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
    /// What the OSU benchmarks run over: `verbs` (the library of the cluster), `tcp` (sockets: Ethernet or IPoIB), or the library over these
    /// queue pairs: `rc` (receives for each connection), `rc-srq` (shared ones), `xrc`, `dc`, `ud`, `srd`, `uet`; nccl-tests over `uet`
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
    /// Interruptions of every core by the operating system: 1ms:10us is one every 1 ms that lasts 10 us, both exponentially distributed
    /// (default: none; results are those of a quiet machine)
    #[arg(long, value_name = "EVERY:LASTS")]
    noise: Option<String>,
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
    /// The file system of ior, mdtest, io500, fio, lfs, lctl, and of checkpoints of applications: a name of
    /// `fabriscope parts --kind file-systems` or a TOML file (default: the first that the cluster mounts)
    #[arg(long, value_name = "FILE-SYSTEM")]
    fs: Option<String>,
    #[command(flatten)]
    memory: MemoryArgs,
    #[command(flatten)]
    devices: DeviceArgs,
    #[command(flatten)]
    pcap: Pcap,
    #[command(flatten)]
    counters: CounterArgs,
    #[command(flatten)]
    energy: EnergyArgs,
    #[command(flatten)]
    timeline: TimelineArgs,
}

/// The same behind the tool's name, with all that may stand before it, but for what the tool itself has an option for.
#[derive(Debug, clap::Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Behind {
    #[command(flatten)]
    job: JobArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[arg(long)]
    verbose: bool,
    #[arg(long, value_name = "DIR")]
    catalog: Option<PathBuf>,
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    #[arg(long, value_name = "WHEN")]
    color: Option<Color>,
}

/// What a command line says: before the tool's name and behind it, and the tool's own options.
#[derive(Debug)]
struct Sorted {
    job: JobArgs,
    output: OutputArgs,
    verbose: bool,
    catalog: Option<PathBuf>,
    seed: Option<u64>,
    options: Vec<String>,
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
  fabriscope bench osu_latency --on ri2 --transport dc    MPI over dynamic connections
  fabriscope bench iperf3 --on ibex-cpu -P 4
  fabriscope bench osu_latency --on opa100-a40 --gpudirect off D D    buffers on GPUs
  fabriscope bench osu_bw --on olivia-gh200-ss11 --nodes 1 --bind 0,2 D D    within a node
  fabriscope bench all_reduce_perf --on azure-ndh100v5 -b 1M -e 1G -f 4 -g 8 --env NCCL_ALGO=Ring
  fabriscope bench osu_latency --on alaska-roce25 --nodes 1 --bind socket    from socket to socket
  fabriscope bench osu_bw --on betzy-hdr --nodes 1 --intra-node xpmem    within a node, the library built with XPMEM
  fabriscope bench osu_alltoall --on csd3-opa --nodes 4 --ppn 32 -m 1024:1024
  fabriscope bench osu_allreduce --on lab-8192 --nodes 64 --ppn 16 -m 8:8 --engine flow
  fabriscope bench IMB-MPI1 Alltoall --on athena-edr --nodes 2 -msglog 3:16
  fabriscope bench hpl --on frontier -NB 512    High Performance LINPACK
  fabriscope bench krylov --on alaska-roce25 -n 256    iterations of conjugate gradients
  fabriscope bench ior --on lumi-c --fs lumi-f --nodes 64 --ppn 16 -F -t 2m -b 1g -e    a parallel file system
  fabriscope bench io500 --on lumi-c --fs lumi-p
  fabriscope bench gdsio --on selene -x 0 -w 16 --drive nvme-gen4 --drives 4    storage to GPU memory
  fabriscope bench rpc --on ri2 --over tcp,rdma-send -n 1,8 --reply 4K    calls of procedures
  fabriscope bench spark-shuffle --on ibex-cpu --nodes 4 --over tcp,rdma-get -d 4G
  fabriscope bench opensbli --on alaska-roce25 --nodes 4 --ppn 4 -n 64    an application
  fabriscope bench opensbli --on lumi-c --fs lumi-p -n 64 --checkpoint-every 9 --checkpoint-size 9g
  fabriscope bench mlc --on lab-cxl-expander --idle_latency -j 2    loads from an expander behind CXL
  fabriscope bench cxl_pool --on lab-cxl-heads -n 1 -k 1    hosts that share one
  fabriscope bench ib_write_bw --on ri2 -n 5 --pcap write.pcap    the packets, for Wireshark
  fabriscope bench ib_write_bw --on ri2 --counters    what ports and adapters counted
  fabriscope bench osu_allreduce --on ri2 --ppn 1 --energy    what switches, adapters and cables drew
  fabriscope bench osu_allreduce --on betzy-hdr --ppn 1 -m 8:8 -i 2 -x 0 --trace run.pftrace    for ui.perfetto.dev
  fabriscope bench all_reduce_perf --on azure-ndh100v5 -b 1M -e 1M -n 2 --trace kernels.json --inspector ops.jsonl
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
    let Sorted { job, output: file, verbose, catalog, seed, mut options } = sorted(name, (before, &args.output), &words)?;
    let told = context.with(catalog, seed);
    let context = told.as_ref().unwrap_or(context);
    if args.help {
        options.push("--help".to_owned());
    }
    if bench_hpl::is(name) {
        if args.help {
            output.text(&bench_hpl::help())?;
            return Ok(Verdict::Good);
        }
        // Help does not depend on the machine.
        let on = job.on.as_deref().or(Some("ri2").filter(|_| options.iter().any(|o| o == "--help" || o == "-h")));
        let on = on.ok_or_else(|| no_cluster(name))?;
        return bench_hpl::run(&options, (on, job.nodes), (context, &file), output);
    }
    let wants_help = options.iter().any(|o| o == "--help" || o == "-h");
    if let Some(tool) = StorageTool::by_name(name) {
        return on_file_system(tool, &job, options, (context, &file), output);
    }
    if job.fs.is_some() && !matches!(Tool::by_name(name), Ok(Tool::App(_))) {
        let help = "--fs is for ior, mdtest, io500, fio, lfs, lctl, and for checkpoints of applications";
        return Err(Failure::told(format!("{name} uses no file system"), help));
    }
    let request = request(name, &job, options, context.seed())?;
    let on = job.on.or_else(|| wants_help.then(|| "ri2".to_owned()));
    // The help of a tool does not depend on the machine.
    let on = on.ok_or_else(|| no_cluster(name))?;
    let setup = request.set_up(context.catalog()?, context.cluster(&on)?)?;
    if (args.verbose || verbose) && !wants_help {
        tell(&format!("# {}\n", setup.describe()));
    }
    let prints = file == OutputArgs::default() && !output.is_kept();
    let (live, listener) = Live::new(prints);
    let done = setup.run_heard(Some(listener));
    output.has_written(live.end());
    match done {
        Err(LabError::Launch(LaunchError::Usage(UsageError::Help { text }))) => {
            output.text(&text)?;
            Ok(Verdict::Good)
        }
        other => finish((context, &file), (&job.counters, &job.energy), &other?, output),
    }
}

/// A program on a parallel file system.
fn on_file_system(
    tool: StorageTool,
    job: &JobArgs,
    options: Vec<String>,
    (context, file): (&Context, &OutputArgs),
    output: &mut Output,
) -> Result<Verdict, Failure> {
    let wants_help = options.iter().any(|option| option == "--help");
    let on = job.on.clone().or_else(|| wants_help.then(|| "lumi-c".to_owned())).ok_or_else(|| {
        let help = format!("say where: fabriscope bench {} --on lumi-c --fs lumi-f; `fabriscope clusters` lists them", tool.name());
        Failure::told("no cluster is named", help)
    })?;
    let mounted = Mounted { file_system: job.fs.as_deref(), nodes: job.nodes, per_node: job.ppn };
    let question = storage::question(tool, &on, (mounted, options), context)?;
    let counts = job.counters.lustre()?;
    let question = if counts.is_some() { question.counted() } else { question };
    match question.outcome() {
        Err(fabriscope::Error::Usage(UsageError::Help { text })) => {
            output.text(&text)?;
            Ok(Verdict::Good)
        }
        other => {
            let mut outcome = other.map_err(Failure::of)?;
            for remark in outcome.get("remarks").and_then(|all| all.as_array()).into_iter().flatten().filter_map(|told| told.as_str()) {
                tell(&format!("# {remark}\n"));
            }
            if let (Some(path), Some(text)) = (counts, outcome.get("counters").and_then(|text| text.as_str()).map(str::to_owned)) {
                match path {
                    LustreCounters::Shown => drop(outcome.text(format!("\n{text}"))),
                    LustreCounters::File(path) => write_file(&path, &text)?,
                }
            }
            file.write(&outcome, output)
        }
    }
}

fn no_cluster(name: &str) -> Failure {
    let help = format!("say where: fabriscope bench {name} --on ri2; `fabriscope clusters` lists them");
    Failure::told("no cluster is named", help)
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
        noise: job.noise.as_deref().map(noise).transpose()?,
        devices: job.devices.options(),
        capture: job.pcap.request(),
        counting: job.counters.counting()?,
        link_loads: job.energy.watch(),
        timeline: job.timeline.request(),
        engine: job.engine.as_deref().map(BenchEngine::parse).transpose()?.unwrap_or_default(),
        threads: job.cores.map_or_else(|| super::cores(0).min(USUAL_CORES), super::cores),
        memory: job.memory.limit(),
        file_system: job.fs.clone(),
        seed,
        ..request
    })
}

/// Writes what was captured and counted, remarks, the outcome and the tool's files.
fn finish(
    (context, file): (&Context, &OutputArgs),
    (counters, energy): (&CounterArgs, &EnergyArgs),
    done: &BenchRun,
    output: &mut Output,
) -> Result<Verdict, Failure> {
    if let Some(taps) = &done.taps {
        tap::write(taps, &done.run.sightings)?;
    }
    timeline::write(&done.kernels)?;
    let shown = done.cluster.as_ref().map_or(Ok(Shown::default()), |cluster| counters.show(cluster, &done.run))?;
    let mut outcome =
        if file.draws() { fabriscope::picture::drawn(context.catalog()?, done).map_err(Failure::of)? } else { done.outcome() };
    if let Some(sums) = shown.json {
        outcome.set("counters", sums);
    }
    if let Some(table) = &shown.table {
        outcome.text(format!("\n{table}"));
    }
    if let Some(cluster) = &done.cluster {
        energy.tell(context, (cluster, &done.run), &mut outcome)?;
    }
    for remark in &done.printed.remarks {
        tell(&format!("# {remark}\n"));
    }
    let verdict = file.write(&outcome, output)?;
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
fn sorted(tool: &str, (before, file): (JobArgs, &OutputArgs), words: &[String]) -> Result<Sorted, Failure> {
    // What is no tool is told of elsewhere.
    let of_storage = StorageTool::by_name(tool).map(StorageTool::options);
    let own = of_storage.or_else(|| Tool::by_name(tool).map(Tool::options).ok()).unwrap_or_default();
    let mut command = Behind::command();
    command.build();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut rest = words.iter().peekable();
    while let Some(word) = rest.next() {
        if word == "--" {
            theirs.extend(Tool::by_name(tool).is_ok_and(Tool::splits_options).then(|| word.clone()));
            theirs.extend(rest.by_ref().cloned());
            break;
        }
        let (name, joined) = word.split_once('=').map_or((word.as_str(), false), |(name, _)| (name, true));
        let (long, short) = (name.strip_prefix("--"), name.strip_prefix('-').and_then(|rest| rest.parse::<char>().ok()));
        // An option of the tool is the tool's.
        let theirs_it_is = own.iter().any(|option| long == Some(option.long) || short == Some(option.short));
        let is = |argument: &&clap::Arg| {
            !theirs_it_is && (long.is_some() && argument.get_long() == long || short.is_some() && argument.get_short() == short)
        };
        let Some(argument) = command.get_arguments().find(is) else {
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
    let Behind { job: later, output, verbose, catalog, seed, color } = Behind::from_arg_matches(&matches).map_err(refused)?;
    job.update(later);
    if let Some(color) = color {
        color.apply();
    }
    let format = FormatArgs { json: file.format.json || output.format.json, csv: file.format.csv || output.format.csv };
    let output = OutputArgs { format, output: output.output.or_else(|| file.output.clone()) };
    Ok(Sorted { job, output, verbose, catalog, seed, options: theirs })
}

/// The words of a command line with a mark behind the tool's name, so that what follows is left to [`sorted`]: an option of the tool
/// may have the name of one of ours.
pub fn marked(words: Vec<OsString>) -> Vec<OsString> {
    let mut command = crate::arguments::Arguments::command();
    command.build();
    let Some(bench) = command.find_subcommand("bench") else { return words };
    let place = operand(&command, &words, 1).filter(|place| words[*place] == "bench");
    match place.and_then(|place| operand(bench, &words, place + 1)) {
        Some(tool) => {
            let mut marked = words;
            marked.insert(tool + 1, "--".into());
            marked
        }
        None => words,
    }
}

/// The place of the first word from `first` on that is neither an option of `command` nor the value of one.
fn operand(command: &clap::Command, words: &[OsString], first: usize) -> Option<usize> {
    let mut place = first;
    while let Some(word) = words.get(place) {
        let word = word.to_str()?;
        if word == "--" {
            return None;
        }
        let Some(name) = word.strip_prefix('-').filter(|name| !name.is_empty()) else { return Some(place) };
        let long = name.strip_prefix('-');
        let is = |argument: &&clap::Arg| match long {
            Some(long) => argument.get_long() == Some(long),
            None => argument.get_short().is_some_and(|short| name.strip_prefix(short) == Some("")),
        };
        let argument = command.get_arguments().find(is);
        let takes = argument.is_some_and(|argument| matches!(argument.get_action(), ArgAction::Set | ArgAction::Append));
        // The file of the counters may be missing.
        let optional = argument.and_then(clap::Arg::get_num_args).is_some_and(|count| count.min_values() == 0);
        let follows = words.get(place + 1).and_then(|next| next.to_str()).is_some_and(|next| !next.starts_with('-'));
        place += 1 + usize::from(takes && (!optional || follows));
    }
    None
}

impl JobArgs {
    /// The files that options behind the tool may belong to, as words.
    fn words(&self) -> Vec<String> {
        let file = |name: &str, path: &Option<std::path::PathBuf>| path.as_ref().map(|path| format!("{name}={}", path.display()));
        let of_trace = file("--trace", &self.timeline.trace);
        file("--pcap", &self.pcap.pcap).into_iter().chain(file("--counters", &self.counters.counters)).chain(of_trace).collect()
    }

    /// Takes what `later` says, and keeps the rest.
    fn update(&mut self, later: JobArgs) {
        let JobArgs {
            on,
            transport,
            nodes,
            ppn,
            placement,
            noise,
            hosts,
            engine,
            cores,
            fs,
            memory,
            devices,
            pcap,
            counters,
            energy,
            timeline,
        } = later;
        self.fs = fs.or_else(|| self.fs.take());
        let text = |own: &mut Option<String>, other: Option<String>| *own = other.or_else(|| own.take());
        text(&mut self.on, on);
        text(&mut self.transport, transport);
        text(&mut self.placement, placement);
        text(&mut self.noise, noise);
        text(&mut self.hosts, hosts);
        text(&mut self.engine, engine);
        self.nodes = nodes.or(self.nodes);
        self.ppn = ppn.or(self.ppn);
        self.cores = cores.or(self.cores);
        self.memory = self.memory.or(memory);
        text(&mut self.devices.bind, devices.bind);
        text(&mut self.devices.intra_node, devices.intra_node);
        text(&mut self.devices.gpu_aware, devices.gpu_aware);
        text(&mut self.devices.gpudirect, devices.gpudirect);
        self.pcap.pcap = pcap.pcap.or_else(|| self.pcap.pcap.take());
        if !pcap.tap.is_empty() {
            self.pcap.tap = pcap.tap;
        }
        self.pcap.snap = pcap.snap.or(self.pcap.snap);
        self.energy = energy.or(&self.energy);
        self.counters.counters = counters.counters.or_else(|| self.counters.counters.take());
        self.counters.every = counters.every.or(self.counters.every);
        self.timeline.trace = timeline.trace.or_else(|| self.timeline.trace.take());
        self.timeline.trace_step = timeline.trace_step.or(self.timeline.trace_step);
        self.timeline.inspector = timeline.inspector.or_else(|| self.timeline.inspector.take());
    }
}

/// The tools.
fn tools() -> Outcome {
    let mut grid = Grid::new([Column::words("tool", "tool"), Column::words("measures", "measures")]);
    for tool in Tool::all() {
        grid.push([Cell::word(tool.name()), Cell::word(tool.about())]);
    }
    for tool in StorageTool::ALL {
        grid.push([Cell::word(tool.name()), Cell::word(tool.about())]);
    }
    grid.push([Cell::word(fabriscope_hpl::NAME), Cell::word(fabriscope_hpl::ABOUT)]);
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

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }
    fn behind(tool: &str, line: &str) -> Sorted {
        sorted(tool, (JobArgs::default(), &OutputArgs::default()), &words(line)).unwrap()
    }

    #[test]
    fn our_options_may_stand_behind_the_tools() {
        let said = behind("ib_write_bw", "-a --on ri2 -s 64");
        assert_eq!((said.job.on.as_deref(), said.options), (Some("ri2"), words("-a -s 64")));
        let said = behind("ib_write_bw", "-a --on=ri2:4 --only");
        assert_eq!((said.job.on.as_deref(), said.options), (Some("ri2:4"), words("-a --only")));
        let said = behind("osu_allreduce", "--nodes 4 -m 8 --ppn=28 --json");
        assert_eq!((said.job.nodes, said.job.ppn, said.output.format.json, said.options), (Some(4), Some(28), true, words("-m 8")));
        assert!(sorted("osu_allreduce", (JobArgs::default(), &OutputArgs::default()), &words("--ppn 0")).is_err());
        let said = behind("ib_write_bw", "-s 64 --pcap a.pcap --tap all -n 5");
        assert_eq!((said.job.pcap.pcap.as_deref(), said.job.pcap.tap), (Some(Path::new("a.pcap")), words("all")));
        assert_eq!(said.options, words("-s 64 -n 5"));
        let said = behind("ib_write_bw", "--counters -n 5");
        assert_eq!((said.job.counters.counters.as_deref(), said.options), (Some(Path::new("-")), words("-n 5")));
        let said = behind("osu_latency", "-m 8 --seed 7 --output a.json --verbose --catalog parts --color never");
        assert_eq!((said.seed, said.output.output.as_deref(), said.verbose), (Some(7), Some(Path::new("a.json")), true));
        assert_eq!((said.catalog.as_deref(), said.options), (Some(Path::new("parts")), words("-m 8")));
        assert_eq!(behind("osu_latency", "-o a.csv").output.output.as_deref(), Some(Path::new("a.csv")));
    }

    /// perftest has `--output` and `-o` of its own, nccl-tests `-o`.
    #[test]
    fn what_the_tool_has_is_the_tools() {
        for (tool, line) in [("ib_write_bw", "--output=bandwidth -o 4 -V"), ("all_reduce_perf", "-o max"), ("iperf3", "-J -V")] {
            let said = behind(tool, line);
            assert_eq!((said.output.output, said.options), (None, words(line)), "{tool}");
        }
    }

    #[test]
    fn what_follows_the_tool_is_left_to_the_tool() {
        let line = |text: &str| {
            let words = marked(text.split(' ').map(OsString::from).collect());
            words.into_iter().map(|word| word.into_string().unwrap()).collect::<Vec<String>>().join(" ")
        };
        for (text, with) in [
            ("fabriscope bench ib_write_bw --output bandwidth", "fabriscope bench ib_write_bw -- --output bandwidth"),
            ("fabriscope --seed 3 bench --on ri2 ib_write_bw -V", "fabriscope --seed 3 bench --on ri2 ib_write_bw -- -V"),
            ("fabriscope bench -o a.json --json osu_bw", "fabriscope bench -o a.json --json osu_bw --"),
            ("fabriscope bench netperf -- -m 64", "fabriscope bench netperf -- -- -m 64"),
            ("fabriscope bench --counters --on ri2 osu_bw -i 1", "fabriscope bench --counters --on ri2 osu_bw -- -i 1"),
            ("fabriscope bench --help", "fabriscope bench --help"),
            ("fabriscope explain ib_write_lat -V", "fabriscope explain ib_write_lat -V"),
        ] {
            assert_eq!(line(text), with);
        }
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
        let job = sorted("osu_bw", (before, &OutputArgs::default()), &words).unwrap().job;
        assert_eq!((job.on.as_deref(), job.nodes, job.pcap.tap), (Some("ri2"), Some(4), vec!["all".to_owned()]));
    }
}
