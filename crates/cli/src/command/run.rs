//! `fabriscope run`: an experiment file, and how fast it ran.

use std::path::{Path, PathBuf};
use std::time::Instant;

use fabriscope_engine::{Cluster, Demand, Job, Run, RunOptions};
use fabriscope_fabric::topology::TopologyError;
use fabriscope_lab::collective;
use fabriscope_lab::launch::{Launch, layout};
use fabriscope_lab::memory::peak;
use fabriscope_lab::sweep::{self, Swept};
use fabriscope_lab::tap::Taps;
use fabriscope_lab::traffic::{captured, connections, engine, options, refused, traffic};
use fabriscope_lab::{Bench, ResolvedLab, Workload};
use fabriscope_lab::{breakage, load};
use fabriscope_platform::Binding;
use fabriscope_report::Table;
use fabriscope_tools::{Tool, ToolOutput};
use fabriscope_units::{Bytes, Span, Time};

use crate::context::Context;
use crate::counting::{CounterArgs, Shown};
use crate::curve::svg;
use crate::error::{Failure, Verdict};
use crate::memory::MemoryArgs;
use crate::output::{Output, write_file};
use crate::progress::Progress;
use crate::tap::{self, Pcap};

/// Runs an experiment file.
///
/// The same file, seed and version give the same bytes, except for what --stats adds about the machine that ran it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The experiment, a TOML file
    #[arg(value_name = "LAB.toml")]
    lab: PathBuf,
    /// Add packets, packet_hops, wall_s, packet_hops_per_s and peak_rss_bytes
    #[arg(long)]
    stats: bool,
    /// Cores for one run of the packet engine on a large fabric, 0 for all; the result does not depend on it
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    #[command(flatten)]
    pcap: Pcap,
    #[command(flatten)]
    counters: CounterArgs,
    #[command(flatten)]
    memory: MemoryArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write the result to this file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope run labs/permutation-1024.toml --stats
  fabriscope run labs/incast-8.toml --json -o incast.json
  fabriscope run labs/permutation-16.toml --pcap all.pcapng --tap all
  fabriscope run labs/hot-spot-64.toml --counters
  fabriscope run labs/incast-8.toml --counters incast.om --every 10us
  fabriscope schema lab                       what may stand in such a file";

/// What came out of a lab.
struct Outcome {
    run: Run,
    /// What a benchmark printed.
    tool: Option<ToolOutput>,
    /// What the busiest receiver of a pattern gets.
    busiest: Option<Bytes>,
    notes: Vec<String>,
    /// Where packets were captured.
    taps: Option<Taps>,
    counters: Shown,
    /// Real time of the run after set-up, in seconds.
    wall_s: f64,
}

/// Runs the command.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    let catalog = context.catalog()?;
    let lab = load(catalog, &args.lab).map_err(Failure::of)?;
    let seed = context.seed.unwrap_or(lab.lab.seed);
    let spinner = Progress::spinner("running");
    let sweeps = matches!(
        lab.lab.workload,
        Workload::AllToAllV(_)
            | Workload::ClosedLoop(_)
            | Workload::OpenLoop(_)
            | Workload::Interference(_)
            | Workload::Jobs(_)
            | Workload::Multicast(_)
    );
    if args.pcap.pcap.is_some() && sweeps {
        let message = format!("{}: a sweep has several runs, and a capture holds one", lab.name());
        return Err(Failure::told(message, "capture a lab with another workload, or leave --pcap out"));
    }
    args.counters.counting()?;
    if sweeps {
        let why = format!("{}: a sweep has several runs, and counters are those of one", lab.name());
        args.counters.refuse(&why, "count in a lab with another workload, or leave --counters out")?;
    }
    let swept = match &lab.lab.workload {
        Workload::Interference(jobs) => Some(sweep::interference::run(catalog, &lab, jobs, seed)?),
        Workload::Jobs(work) => Some(sweep::jobs::run(&lab, work, seed)?),
        Workload::Multicast(work) => Some(sweep::multicast::run(&lab, work, seed)?),
        Workload::AllToAllV(exchange) => Some(sweep::alltoallv::run(&lab, exchange, seed)?),
        Workload::ClosedLoop(closed) => Some(sweep::closed::run(&lab, closed, seed)?),
        Workload::OpenLoop(open) => Some(sweep::open::run(&lab, open, seed)?),
        _ => None,
    };
    if let Some(swept) = swept {
        return write(args, &swept, output);
    }
    let outcome = match &lab.lab.workload {
        Workload::Bench(bench) => benchmark(&lab, bench, seed, args)?,
        workload => pattern(&lab, workload, seed, args)?,
    };
    drop(spinner);
    if let Some(taps) = &outcome.taps {
        tap::write(taps, &outcome.run.sightings)?;
    }
    if let Some(path) = &args.output {
        output.redirect(path)?;
    }
    if args.json {
        output.json(&json(args, &lab, &outcome, seed))?;
    } else {
        output.text(&text(args, &lab, &outcome, seed))?;
    }
    for file in outcome.tool.iter().flat_map(|t| &t.files) {
        write_file(Path::new(&file.name), &file.text)?;
    }
    Ok(Verdict::Good)
}

/// Writes what a sweep found: as curves where the file's name ends in `.svg`, else as JSON or as a table.
fn write(args: &Args, swept: &Swept, output: &mut Output) -> Result<Verdict, Failure> {
    if let Some(path) = &args.output {
        output.redirect(path)?;
    }
    let drawn = args.output.as_ref().is_some_and(|path| path.extension().is_some_and(|extension| extension == "svg"));
    match &swept.curve {
        Some(curve) if drawn => output.text(&svg(curve)?)?,
        _ if args.json => output.json(&swept.json)?,
        _ => output.text(&swept.text)?,
    }
    Ok(Verdict::Good)
}

/// The cores that were asked for; 0 asks for all there are.
fn threads(asked: usize) -> usize {
    if asked > 0 { asked } else { std::thread::available_parallelism().map_or(1, usize::from) }
}

fn benchmark(lab: &ResolvedLab, bench: &Bench, seed: u64, args: &Args) -> Result<Outcome, Failure> {
    let tool = Tool::by_name(&bench.tool).map_err(|e| Failure::told(e.to_string(), "`fabriscope bench` lists the tools"))?;
    let parts = &lab.cluster;
    let watched = args.pcap.pcap.is_some() || args.counters.wanted();
    let cluster = if watched { Some(Cluster::new(parts.clone()).map_err(wiring)?) } else { None };
    let taps = cluster.as_ref().map_or(Ok(None), |cluster| args.pcap.request().taps(cluster))?;
    let list = taps.as_ref().map(Taps::list).unwrap_or_default();
    let started = Instant::now();
    let launch = Launch {
        tool,
        options: &bench.args,
        parts,
        nodes: parts.placement,
        layout: Some(layout(parts, bench.nodes, bench.per_node)),
        seed,
        binding: Binding::default(),
        traced: false,
        taps: list,
        counting: args.counters.counting()?,
        faults: lab.faults.clone(),
    };
    let (printed, run) = launch.run().map_err(Failure::of)?;
    let wall_s = started.elapsed().as_secs_f64();
    let counters = cluster.as_ref().map_or(Ok(Shown::default()), |cluster| args.counters.show(cluster, &run))?;
    Ok(Outcome { run, tool: Some(printed), busiest: None, notes: Vec::new(), taps, counters, wall_s })
}

fn wiring(error: TopologyError) -> Failure {
    Failure::told(error.to_string(), "correct the topology of the cluster")
}

fn pattern(lab: &ResolvedLab, workload: &Workload, seed: u64, args: &Args) -> Result<Outcome, Failure> {
    let name = workload.name();
    let cluster = Cluster::new(lab.cluster.clone()).map_err(wiring)?;
    let taps = args.pcap.request().taps(&cluster)?;
    let engine = engine(lab.lab.engine);
    let options = RunOptions {
        threads: threads(args.threads),
        taps: taps.as_ref().map(Taps::list).unwrap_or_default(),
        counting: args.counters.counting()?,
        ..options(lab)
    };
    let measured = |job: Job| -> Result<(Run, f64), Failure> {
        let prepared = engine.prepare(&cluster, job, &options, seed).map_err(refused)?;
        let started = Instant::now();
        Ok((prepared.run().map_err(refused)?, started.elapsed().as_secs_f64()))
    };
    if let Workload::Collective(work) = workload {
        let prepared = collective::prepare(lab, work, &cluster, args.memory.limit())?;
        let (findings, mut notes) = (prepared.findings(), prepared.notes);
        let (run, wall_s) = measured(prepared.job)?;
        notes.extend(findings(&run));
        let counters = args.counters.show(&cluster, &run)?;
        return Ok(Outcome { run, tool: None, busiest: None, notes, taps, counters, wall_s });
    }
    let found = match workload {
        Workload::Capture(capture) => Some(captured(capture, &cluster)?),
        workload => traffic(workload, &cluster),
    };
    let Some(traffic) = found else {
        return Err(Failure::told(format!("the workload `{name}` cannot be run here"), "`fabriscope schema lab` lists the workloads"));
    };
    if let Some((messages, pairs)) = traffic.messages(cluster.ranks()) {
        let need = engine.memory(&cluster, &Demand::Messages { messages, pairs }).map_err(refused)?;
        args.memory.limit().allow(need, "use a smaller cluster, a workload with fewer messages, or a machine with more memory")?;
    }
    let schedule = traffic.schedule(cluster.ranks(), seed).map_err(|e| Failure::told(e.to_string(), "correct the workload of the lab"))?;
    let (run, wall_s) = measured(Job::schedule(schedule, connections(lab, traffic.transport, traffic.any_order)?))?;
    let busiest = traffic.received.map(|messages| Bytes(traffic.bytes.as_u64().saturating_mul(messages)));
    let counters = args.counters.show(&cluster, &run)?;
    Ok(Outcome { run, tool: None, busiest, notes: traffic.notes, taps, counters, wall_s })
}

/// What --stats adds; in this order in text and JSON.
fn stats(outcome: &Outcome) -> [(&'static str, serde_json::Value); 5] {
    let stats = &outcome.run.stats;
    let per_second = if outcome.wall_s > 0.0 { stats.packet_hops as f64 / outcome.wall_s } else { 0.0 };
    [
        ("packets", stats.packets.into()),
        ("packet_hops", stats.packet_hops.into()),
        ("wall_s", outcome.wall_s.into()),
        ("packet_hops_per_s", per_second.round().into()),
        ("peak_rss_bytes", peak().0.into()),
    ]
}

/// First, median and last of the times at which ranks were done.
fn finishes(run: &Run) -> Option<(Time, Time, Time)> {
    let mut ends = run.ranks.clone();
    ends.sort_unstable();
    Some((*ends.first()?, ends[ends.len() / 2], *ends.last()?))
}

fn text(args: &Args, lab: &ResolvedLab, outcome: &Outcome, seed: u64) -> String {
    let parts = &lab.cluster;
    let (nodes, link) = (parts.nodes(), parts.sole().link.data_rate());
    let nic = if parts.sole().node.nics > 1 {
        format!("{} × {}", parts.sole().node.nics, parts.sole().node.nic.name)
    } else {
        parts.sole().node.nic.name.clone()
    };
    let routing = parts.routing;
    let mut text = format!(
        "# {}\n# cluster {}: {nodes} nodes, {nic}, {link} links, MTU {}, routing {routing}\n# workload {}, seed {seed}\n",
        lab.name(),
        parts.name,
        parts.mtu,
        lab.lab.workload.name()
    );
    text.extend(outcome.notes.iter().map(|note| format!("# {note}\n")));
    text.extend(lab.faults.as_ref().map(breakage::planned));
    if let Some(tool) = &outcome.tool {
        text += &tool.text;
    } else {
        text += &format!("\n{}", result(lab, outcome));
    }
    text.extend(outcome.run.breakage.as_ref().map(breakage::told));
    if let Some(counters) = &outcome.counters.table {
        text += &format!("\n{counters}");
    }
    if args.stats {
        let mut table = Table::new(["statistic", "value"]);
        for (name, value) in stats(outcome) {
            table.push([
                name.to_owned(),
                value.as_f64().filter(|v| v.fract() != 0.0).map_or_else(|| integer(&value), |v| format!("{v:.3}")),
            ]);
        }
        text += &format!("\n{table}");
    }
    text.extend(outcome.counters.note.clone());
    text
}

fn integer(value: &serde_json::Value) -> String {
    value.as_u64().map_or_else(|| format!("{:.0}", value.as_f64().unwrap_or_default()), |v| v.to_string())
}

/// How long the pattern took, and how that stands to the bound of the links.
fn result(lab: &ResolvedLab, outcome: &Outcome) -> String {
    let (run, stats) = (&outcome.run, &outcome.run.stats);
    let us = |time: Time| format!("{:.3}", (time - Time::ZERO).as_us_f64());
    let mut table = Table::new(["result", "value"]);
    let mut row = |name: &str, value: String| table.push([name.to_owned(), value]);
    if let Some((first, median, last)) = finishes(run) {
        row("first rank done (us)", us(first));
        row("median rank done (us)", us(median));
        row("last rank done (us)", us(last));
    }
    row("messages", stats.messages.to_string());
    row("bytes delivered", stats.bytes_delivered.to_string());
    let (end, ranks) = (run.end - Time::ZERO, u64::from(lab.cluster.nodes() * lab.cluster.sole().node.nics).max(1));
    if end > Span::ZERO {
        let rate = fabriscope_units::Rate::of(Bytes(stats.bytes_delivered), end);
        row("payload rate, all hosts (Gb/s)", format!("{:.2}", rate.as_bps() as f64 / 1e9));
        row("payload rate per host (Gb/s)", format!("{:.2}", rate.as_bps() as f64 / 1e9 / ranks as f64));
    }
    row("packets dropped", stats.drops.to_string());
    row("packets marked by ECN", stats.ecn_marks.to_string());
    row("packets trimmed", stats.trims.to_string());
    row("pause frames", stats.pauses.to_string());
    let mut text = table.to_string();
    if let Some(bytes) = outcome.busiest {
        let rate = lab.cluster.sole().link.data_rate();
        let (least, end) = (rate.time(bytes).as_us_f64(), end.as_us_f64().max(f64::MIN_POSITIVE));
        let share = 100.0 * least / end;
        text += &format!(
            "# bound: {bytes} into one host take {least:.3} us on a link of {rate} without headers, {share:.1} % of the time taken\n"
        );
    }
    text
}

fn json(args: &Args, lab: &ResolvedLab, outcome: &Outcome, seed: u64) -> serde_json::Value {
    let run = &outcome.run;
    let mut value = serde_json::json!({
        "title": lab.lab.title,
        "cluster": lab.cluster.name,
        "nodes": lab.cluster.nodes(),
        "workload": lab.lab.workload.name(),
        "seed": seed,
        "end_ps": run.end.as_ps(),
        "counts": run.stats,
        "rank_done_ps": run.ranks.iter().map(|t| t.as_ps()).collect::<Vec<_>>(),
        "notes": outcome.notes,
    });
    if let (Some(broken), Some(object)) = (&run.breakage, value.as_object_mut()) {
        object.insert("breakage".to_owned(), breakage::data(broken));
    }
    if let (Some(tool), Some(object)) = (&outcome.tool, value.as_object_mut()) {
        let point = |p: &fabriscope_tools::Point| serde_json::json!({ "bytes": p.size.as_u64(), "metric": p.metric, "unit": p.unit, "value": p.value });
        object.insert("points".to_owned(), tool.points.iter().map(point).collect());
        object.insert("text".to_owned(), tool.text.clone().into());
    }
    if let (Some(counters), Some(object)) = (&outcome.counters.json, value.as_object_mut()) {
        object.insert("counters".to_owned(), counters.clone());
    }
    if let (true, Some(object)) = (args.stats, value.as_object_mut()) {
        object.extend(stats(outcome).map(|(name, value)| (name.to_owned(), value)));
    }
    value
}
