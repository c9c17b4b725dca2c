//! `fabriscope exec`: unmodified programs on virtual hosts.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use fabriscope_engine::{Cluster, RunOptions};
use fabriscope_lab::load_faults;
use fabriscope_lab::tap::Taps;
use fabriscope_lab::timeline::{STEP, TimelineRequest};
use fabriscope_live::{Clock, HostCommand, Settings};
use fabriscope_units::Span;

use crate::arguments::quantity;
use crate::context::Context;
use crate::error::{Failure, Verdict};
use crate::output::Output;
use crate::tap::Pcap;

/// Runs programs that use RDMA verbs, as they are, on virtual hosts of a cluster and in virtual time.
///
/// Programs find the adapters of the cluster's nodes through libibverbs, and each other by the names of their hosts. Their clocks show what the
/// modelled hardware would take; two runs print the same. Nothing is needed but Linux: no adapter, no kernel module, no privilege. Ends with the
/// exit status of the first program that failed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The cluster: a name or a file, with or without :NODES
    #[arg(long, value_name = "CLUSTER")]
    on: String,
    /// The time that programs see: that of the simulated hardware, or the machine's, as fast as memory between processes goes
    #[arg(long, value_enum, value_name = "CLOCK", default_value_t = TimeOf::Virtual)]
    time: TimeOf,
    /// Ranks of an MPI job on each host: the launcher's ranks are placed on node0, node1, … in blocks of so many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "host")]
    ranks_per_node: Option<u32>,
    /// A host and the program that it runs; several times, after all other options
    #[arg(long, value_name = "NAME: PROGRAM", num_args = 1.., allow_hyphen_values = true, required_unless_present = "program")]
    host: Vec<OsString>,
    /// What breaks, when and where: [[fault]] tables as in labs; nodes are those of the hosts, links `node 1` or `leaf 0:8`
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
    #[command(flatten)]
    pcap: Pcap,
    /// Write what happens over time to this file, while the run goes: .pftrace, for Perfetto
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// The time from one sample of links and adapters to the next in it [default: 1us]
    #[arg(long, value_name = "TIME", requires = "trace", value_parser = quantity::<Span>)]
    trace_step: Option<Span>,
    /// Do not say which settings are in force
    #[arg(long, short)]
    quiet: bool,
    /// Say on standard error why verbs were refused
    #[arg(long, short)]
    verbose: bool,
    /// The program that the first host runs, and its arguments
    #[arg(last = true, value_name = "PROGRAM", conflicts_with = "host")]
    program: Vec<OsString>,
}

/// Whose time programs see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum TimeOf {
    /// That of the modelled hardware, the same in every run
    Virtual,
    /// The machine's, for functional tests
    Real,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope exec --on ri2 -- ibv_devinfo                                       a node of ri2
  fabriscope exec --on ri2 --host a: ib_send_lat --host b: ib_send_lat a        two nodes
  fabriscope exec --on ri2 --pcap t.pcap --host a: ib_read_lat --host b: ib_read_lat a
                                                                                the packets";

/// Runs the command.
///
/// The settings in force stand on standard error before anything that a program prints.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    let cluster = Cluster::new(context.cluster(&args.on)?).map_err(Failure::of)?;
    let commands = commands(args)?;
    let traced = args.trace.is_some();
    let clock = clock(args)?;
    let settings = Settings { clock, seed: context.seed(), ranks_per_node: args.ranks_per_node, traced, ..Settings::default() };
    let mut names: Vec<String> = Vec::new();
    for command in &commands {
        if !names.contains(&command.host) {
            names.push(command.host.clone());
        }
    }
    if args.ranks_per_node.is_some() {
        names = (0..cluster.nodes()).map(|node| format!("node{node}")).collect();
    }
    if !args.quiet {
        tell(&in_force(&cluster, &names, &settings));
    }
    let taps = args.pcap.request().taps(&cluster).map_err(Failure::of)?;
    let drawing = TimelineRequest { trace: args.trace.clone(), inspector: None, step: args.trace_step.unwrap_or(STEP) };
    let mut recorders = drawing.recorders(&cluster).map_err(Failure::of)?;
    let read = |file: &PathBuf| load_faults(context.catalog()?, file, &cluster.parts).map_err(Failure::of);
    let options = RunOptions {
        faults: args.faults.as_ref().map(read).transpose()?,
        taps: taps.as_ref().map(Taps::list).unwrap_or_default(),
        timeline: recorders.as_ref().map(|recorders| recorders.timeline.clone()),
        ..RunOptions::default()
    };
    // The only way to end a run from outside; where another handler stands already, that one knows.
    drop(ctrlc::set_handler(|| {
        fabriscope_live::abandon();
        interrupted();
    }));
    let ended = fabriscope_live::run(&cluster, (&names, &commands), &settings, &options).map_err(Failure::of)?;
    if let Some(recorders) = &mut recorders {
        recorders.finish().map_err(Failure::of)?;
    }
    if let Some(taps) = &taps {
        let sightings = ended.run.as_ref().map(|run| run.sightings.as_slice()).unwrap_or_default();
        crate::tap::write(taps, sightings)?;
    }
    let refusals = ended.refusals.iter().filter(|_| args.verbose);
    for complaint in ended.complaints.iter().chain(refusals) {
        tell(&format!("fabriscope: {complaint}\n"));
    }
    let failed = ended.statuses.iter().find(|status| **status != 0);
    output.end_with(failed.map_or(0, |status| u8::try_from(*status).unwrap_or(1)));
    Ok(Verdict::Good)
}

/// What only the simulated fabric has is refused in real time.
fn clock(args: &Args) -> Result<Clock, Failure> {
    if args.time == TimeOf::Virtual {
        return Ok(Clock::Virtual);
    }
    let captured = args.pcap.pcap.is_some();
    let given = [(args.faults.is_some(), "--faults"), (args.trace.is_some(), "--trace"), (captured, "--pcap")];
    match given.iter().find(|(given, _)| *given) {
        Some((_, option)) => {
            Err(Failure::told(format!("{option} needs the simulated fabric, which real time does not have"), "use --time virtual"))
        }
        None => Ok(Clock::Real),
    }
}

#[expect(clippy::disallowed_methods, clippy::exit, reason = "an interrupt ends the program, as without a handler")]
fn interrupted() {
    std::process::exit(130);
}

/// Hosts whose nodes are told.
const NAMED: usize = 4;

/// Where standard error is closed there is nobody to tell.
fn tell(text: &str) {
    drop(std::io::stderr().lock().write_all(text.as_bytes()));
}

/// What decides the numbers that programs will print.
fn in_force(cluster: &Cluster, names: &[String], settings: &Settings) -> String {
    let parts = &cluster.parts;
    let group = parts.groups.first();
    let adapters = group.map_or_else(String::new, |group| format!("{} x {}, {}", group.node.nics, group.node.nic.title, group.link.title));
    let seats = fabriscope_live::seats(cluster, names.len(), settings.seed);
    let hosts: Vec<String> = names.iter().zip(seats).take(NAMED).map(|(name, node)| format!("{name} is node {node}")).collect();
    let more = if names.len() > NAMED { format!(", … {} hosts", names.len()) } else { String::new() };
    let hosts = hosts.join(", ") + &more;
    let ranks = settings.ranks_per_node.map_or_else(String::new, |ranks| format!(", {ranks} ranks of a job on each"));
    let (latency, rate) = (settings.management.latency, settings.management.rate);
    if settings.clock == Clock::Real {
        return format!(
            "# exec on {}: {hosts}{ranks}\n# {adapters}, MTU {}\n# real time: adapters in software, sockets of this machine\n",
            parts.name, parts.mtu
        );
    }
    format!(
        "# exec on {}: {hosts}{ranks}\n# {adapters}, MTU {}\n# virtual time: CPU time between calls is zero; sockets between hosts {latency}, {rate}\n",
        parts.name, parts.mtu
    )
}

/// The programs of the command line, each with its host.
fn commands(args: &Args) -> Result<Vec<HostCommand>, Failure> {
    if !args.program.is_empty() {
        return Ok(vec![HostCommand { host: "node0".to_owned(), words: args.program.clone() }]);
    }
    let parts = args.host.split(|word| word == "--host");
    let command = |words: &[OsString]| {
        let name = words.first().and_then(|word| word.to_str()).and_then(|word| word.strip_suffix(':'));
        let valid = |name: &&str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        match (name.filter(valid), words) {
            (Some(name), [_, program @ ..]) if !program.is_empty() => Ok(HostCommand { host: name.to_owned(), words: program.to_vec() }),
            _ => Err(Failure::told(
                "--host takes a name with a colon and a program",
                "as in `--host a: ib_send_lat --host b: ib_send_lat a`",
            )),
        }
    };
    parts.map(command).collect()
}
