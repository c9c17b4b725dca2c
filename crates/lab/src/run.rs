//! A lab from its file to its outcome: a benchmark program, the messages of a pattern, or one setting after the other.

use std::sync::Arc;
use std::time::Instant;

use fabriscope_catalog::{Catalog, NodeGroup};
use fabriscope_engine::{Cluster, Counting, Demand, FastForward, Job, Run, RunOptions, Watch};
use fabriscope_fabric::topology::TopologyError;
use fabriscope_report::figure::Figure;
use fabriscope_report::{Cell, Column, Grid, Outcome};
use fabriscope_tools::{Tool, ToolOutput};
use fabriscope_units::{Bytes, Rate, Remedy, Span, Time};

use crate::breakage;
use crate::collective;
use crate::engines::engine;
use crate::error::LabError;
use crate::fast_forward::{self, Deviation, Forwarding};
use crate::lab::{EngineChoice, ResolvedLab};
use crate::launch::{Launch, layout_of};
use crate::memory::{Memory, peak};
use crate::message_times::{self, MessageTime};
use crate::picture;
use crate::points::points;
use crate::quantiles::{cdf_columns, cdf_rows};
use crate::sweep;
use crate::tap::{CaptureRequest, Taps};
use crate::timeline::{KernelFile, Recorders, TimelineRequest};
use crate::traffic::{Traffic, captured, connections, options, refused, traffic};
use crate::training::of_lab::{self, RunStep};
use crate::training::whole::at_adapters;
use crate::unlike::groups;
use crate::workload::{Bench, Workload};

/// How a lab is run, beyond what its file says.
#[derive(Debug, Clone)]
pub struct RunSettings {
    /// Seed of everything random, instead of the lab's.
    pub seed: Option<u64>,
    /// Cores for one run of the packet engine on a large fabric; the result does not depend on it.
    pub threads: usize,
    /// Where packets are captured.
    pub capture: CaptureRequest,
    /// What ports and adapters count.
    pub counting: Counting,
    /// Whether the load of each link is noted: for the energy of the run.
    pub link_loads: Watch,
    /// What is drawn over time.
    pub timeline: TimelineRequest,
    /// How much memory the run may take.
    pub memory: Memory,
    /// Looks at queues and rates at every step of this length.
    pub series: Option<Span>,
    /// The time of each message of a pattern, beside the time that it takes alone.
    pub flows: Watch,
    /// Whether steady states are left out.
    pub forwarding: Forwarding,
    /// Whether pictures are wanted: a pattern is run a second time with counters, for the loads of links over time.
    pub drawn: bool,
}

impl Default for RunSettings {
    fn default() -> RunSettings {
        RunSettings {
            seed: None,
            threads: 1,
            capture: CaptureRequest::default(),
            counting: Counting::Off,
            link_loads: Watch::Off,
            timeline: TimelineRequest::default(),
            memory: Memory::default(),
            series: None,
            flows: Watch::Off,
            forwarding: Forwarding::AsSaid,
            drawn: false,
        }
    }
}

/// What came out of a lab.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a program holds one of these")]
pub enum LabRun {
    /// One run.
    One(Box<SingleRun>),
    /// One run for each setting.
    Sweep(Outcome),
}

impl LabRun {
    /// The outcome of either.
    #[must_use]
    pub fn outcome(self, lab: &ResolvedLab) -> Outcome {
        match self {
            LabRun::One(single) => single.outcome(lab),
            LabRun::Sweep(outcome) => outcome,
        }
    }
}

/// What came out of a lab with one run.
#[derive(Debug)]
pub struct SingleRun {
    /// What happened.
    pub run: Run,
    /// The cluster, wired.
    pub cluster: Cluster,
    /// What a benchmark printed.
    pub tool: Option<ToolOutput>,
    /// Where packets were captured.
    pub taps: Option<Taps>,
    /// Timelines that are to be written now that the run is over.
    pub kernels: Vec<KernelFile>,
    /// Real time of the run after set-up, in seconds.
    pub wall_s: f64,
    /// The seed that was used.
    pub seed: u64,
    /// What the busiest receiver of a pattern gets.
    busiest: Option<Bytes>,
    notes: Vec<String>,
    /// The messages of a pattern, where asked for.
    messages: Option<Vec<MessageTime>>,
    /// A step of training.
    step: Option<RunStep>,
    /// How far it lies from a run of every packet, where that was made too.
    deviation: Option<Deviation>,
    /// What is drawn of it.
    figures: Vec<Figure>,
}

/// Runs a lab.
///
/// # Errors
/// What the lab, the cluster or the engine does not do, and a capture or counters of a run that has none.
pub fn run(catalog: &Catalog, lab: &ResolvedLab, settings: &RunSettings) -> Result<LabRun, LabError> {
    let seed = settings.seed.unwrap_or(lab.lab.seed);
    let swept = match &lab.lab.workload {
        Workload::Interference(_)
        | Workload::Compare(_)
        | Workload::Flows(_)
        | Workload::Jobs(_)
        | Workload::Mix(_)
        | Workload::BesideStorage(_)
        | Workload::Multicast(_)
        | Workload::AllToAllV(_)
        | Workload::ClosedLoop(_)
        | Workload::OpenLoop(_) => {
            has_one_run(lab, settings)?;
            match &lab.lab.workload {
                Workload::Interference(jobs) => sweep::interference::run(catalog, lab, jobs, seed)?,
                Workload::Compare(work) => sweep::compare::run(catalog, lab, work, seed, settings.series)?,
                Workload::Flows(work) => sweep::flows::run(catalog, lab, work, seed, settings.series)?,
                Workload::Jobs(work) => sweep::jobs::run(lab, work, seed)?,
                Workload::Mix(work) => crate::mix::run(catalog, lab, work, seed)?,
                Workload::BesideStorage(work) => crate::beside_storage::run(catalog, lab, work, seed)?,
                Workload::Multicast(work) => sweep::multicast::run(lab, work, seed)?,
                Workload::AllToAllV(exchange) => sweep::alltoallv::run(lab, exchange, seed)?,
                Workload::ClosedLoop(closed) => sweep::closed::run(lab, closed, seed)?,
                Workload::OpenLoop(open) => sweep::open::run(lab, open, seed)?,
                _ => Outcome::new(),
            }
        }
        Workload::Training(work) if lab.lab.engine == EngineChoice::TimeLine => {
            has_one_run(lab, settings)?;
            of_lab::time_line(catalog, lab, work)?
        }
        Workload::Bench(_) if settings.forwarding != Forwarding::AsSaid => {
            return Err(LabError::refused("fast_forward of a benchmark program, which decides by what it sees", "run a pattern"));
        }
        Workload::Bench(_) if settings.series.is_some() => {
            return Err(LabError::refused("series of a benchmark program", "count with --counters FILE --every TIME, or run a pattern"));
        }
        Workload::Bench(bench) => return benchmark(lab, bench, seed, settings).map(|run| LabRun::One(Box::new(run))),
        workload => return pattern(catalog, lab, workload, seed, settings).map(|run| LabRun::One(Box::new(run))),
    };
    Ok(LabRun::Sweep(swept))
}

/// Refuses what belongs to one run.
fn has_one_run(lab: &ResolvedLab, settings: &RunSettings) -> Result<(), LabError> {
    if settings.capture.file.is_some() {
        let message = format!("{}: a sweep has several runs, and a capture holds one", lab.name());
        return Err(LabError::refused(message, "capture a lab with another workload, or leave --pcap out"));
    }
    if !settings.timeline.is_empty() {
        let message = format!("{}: a sweep has several runs, and a timeline is that of one", lab.name());
        return Err(LabError::refused(message, "draw a lab with another workload, or leave --trace and --inspector out"));
    }
    if lab.lab.fast_forward || settings.forwarding != Forwarding::AsSaid {
        let message = format!("{}: a sweep has several runs, and fast_forward leaves steady states out of one", lab.name());
        return Err(LabError::refused(message, "use another workload, or leave fast_forward out"));
    }
    if settings.series.is_some() && !matches!(lab.lab.workload, Workload::Compare(_) | Workload::Flows(_)) {
        let message = format!("{}: series are those of one run, of `compare` and of `flows`", lab.name());
        return Err(LabError::refused(message, "use another workload, or leave --series out"));
    }
    if settings.link_loads == Watch::On {
        let message = format!("{}: a sweep has several runs, and the energy is that of one", lab.name());
        return Err(LabError::refused(message, "use another workload, or leave --energy out"));
    }
    if settings.counting != Counting::Off {
        let message = format!("{}: a sweep has several runs, and counters are those of one", lab.name());
        return Err(LabError::refused(message, "count in a lab with another workload, or leave --counters out"));
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "how long a run took is told beside its result, never used")]
fn benchmark(lab: &ResolvedLab, bench: &Bench, seed: u64, settings: &RunSettings) -> Result<SingleRun, LabError> {
    let tool = Tool::by_name(&bench.tool).map_err(|e| LabError::refused(e.in_full(), "`fabriscope bench` lists the tools"))?;
    let parts = &lab.cluster;
    let cluster = Cluster::new(parts.clone()).map_err(wiring)?;
    let taps = settings.capture.taps(&cluster)?;
    let chosen = match &bench.hosts {
        Some(list) => parts.nodes_named(list).map_err(|problem| LabError::refused(problem.message, problem.help))?,
        None => Vec::new(),
    };
    let named = u32::try_from(chosen.len()).ok().filter(|named| *named > 0);
    if !settings.timeline.is_empty() {
        settings.timeline.check(tool)?;
    }
    let mut recorders = settings.timeline.recorders(&cluster)?;
    let started = Instant::now();
    let launch = Launch {
        timeline: recorders.as_ref().map(|recorders| recorders.timeline.clone()),
        chosen: &chosen,
        layout: Some(layout_of(tool, parts, bench.nodes.or(named), bench.per_node.or_else(|| tool.gpus_of_process(&bench.args)))),
        seed,
        taps: taps.as_ref().map(Taps::list).unwrap_or_default(),
        counting: settings.counting,
        link_loads: settings.link_loads,
        faults: lab.faults.clone(),
        threads: settings.threads,
        memory: settings.memory,
        ..Launch::new(tool, &bench.args, parts)
    };
    let (printed, run) = launch.run_on(&cluster)?;
    let wall_s = started.elapsed().as_secs_f64();
    let kernels = recorders.as_mut().map_or(Ok(Vec::new()), Recorders::finish)?;
    Ok(SingleRun { tool: Some(printed), kernels, ..SingleRun::of(run, cluster, taps, (wall_s, seed)) })
}

fn wiring(error: TopologyError) -> LabError {
    LabError::refused(error.in_full(), "correct the topology of the cluster")
}

/// Refuses a timeline of what a pattern has not.
fn can_be_drawn(lab: &ResolvedLab, settings: &RunSettings) -> Result<(), LabError> {
    if settings.timeline.is_empty() {
        return Ok(());
    }
    if settings.timeline.needs_kernels()? {
        let name = lab.lab.workload.name();
        let what = format!("kernels of NCCL for --inspector or --trace FILE.json: the workload `{name}` runs none");
        return Err(LabError::refused(what, "use --trace FILE.pftrace, or [workload.bench] with a program of NCCL"));
    }
    if settings.forwarding != Forwarding::AsSaid || lab.lab.fast_forward {
        return Err(LabError::refused("a timeline of steady states that are left out", "leave fast_forward out, or --trace"));
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "how long a run took is told beside its result, never used")]
#[allow(clippy::too_many_lines, reason = "one run, from its cluster to all that is asked of it")]
fn pattern(catalog: &Catalog, lab: &ResolvedLab, workload: &Workload, seed: u64, settings: &RunSettings) -> Result<SingleRun, LabError> {
    let name = workload.name();
    let mut cluster = Cluster::new(lab.cluster.clone()).map_err(wiring)?;
    let step = match workload {
        Workload::Training(work) => {
            cluster = at_adapters(&cluster);
            Some((work, of_lab::prepare(catalog, &lab.cluster, work)?))
        }
        _ => None,
    };
    let taps = settings.capture.taps(&cluster)?;
    can_be_drawn(lab, settings)?;
    let engine = engine(lab.lab.engine);
    // The samples of a series are those of a timeline.
    let drawn = TimelineRequest { step: settings.series.unwrap_or(settings.timeline.step), ..settings.timeline.clone() };
    let mut recorders = drawn.recorders(&cluster)?;
    let options = RunOptions {
        timeline: recorders.as_ref().map(|recorders| recorders.timeline.clone()),
        threads: settings.threads,
        taps: taps.as_ref().map(Taps::list).unwrap_or_default(),
        counting: settings.counting,
        link_loads: settings.link_loads,
        series: settings.series,
        ..options(lab)
    };
    let options = if settings.flows == Watch::On || step.is_some() { RunOptions { op_times: Watch::On, ..options } } else { options };
    let check = settings.forwarding == Forwarding::Check;
    let options = match settings.forwarding {
        Forwarding::AsSaid => options,
        Forwarding::Steady => RunOptions { fast_forward: FastForward::Steady, ..options },
        Forwarding::Check => RunOptions { fast_forward: FastForward::Steady, op_times: Watch::On, ..options },
    };
    let mut measured = |job: Job| -> Result<(Run, f64), LabError> {
        let prepared = engine.prepare(&cluster, job, &options, seed).map_err(refused)?;
        let started = Instant::now();
        let run = prepared.run().map_err(refused)?;
        let wall_s = started.elapsed().as_secs_f64();
        recorders.as_mut().map_or(Ok(Vec::new()), Recorders::finish)?;
        Ok((run, wall_s))
    };
    if let Workload::Collective(work) = workload {
        if check {
            return Err(LabError::refused("a check of fast_forward on rounds of messages", "write --fast-forward without check"));
        }
        let prepared = collective::prepare(lab, work, &cluster, settings.memory)?;
        let (findings, mut notes) = (prepared.findings(), prepared.notes);
        let (run, wall_s) = measured(prepared.job)?;
        notes.extend(findings(&run));
        let figures = if settings.drawn { picture::links(lab, &cluster, &run, None) } else { Vec::new() };
        return Ok(SingleRun { notes, figures, ..SingleRun::of(run, cluster, taps, (wall_s, seed)) });
    }
    let found = match (&step, workload) {
        (Some((work, step)), _) => Some(Traffic::of_step(work, step)),
        (None, Workload::Capture(capture)) => Some(captured(capture, &cluster)?),
        (None, workload) => traffic(workload, &cluster),
    };
    let Some(traffic) = found else {
        return Err(LabError::refused(format!("the workload `{name}` cannot be run here"), "`fabriscope schema lab` lists the workloads"));
    };
    if let Some((messages, pairs)) = traffic.messages(cluster.ranks()) {
        let need = engine.memory(&cluster, &Demand::Messages { messages, pairs }).map_err(refused)?;
        settings.memory.allow(need, "use a smaller cluster, a workload with fewer messages, or a machine with more memory")?;
    }
    let schedule =
        traffic.schedule(cluster.ranks(), seed).map_err(|e| LabError::refused(e.in_full(), "correct the workload of the lab"))?;
    let connections = connections(lab, traffic.transport, traffic.any_order)?;
    let compared = check.then(|| Arc::clone(&schedule));
    let timed = (settings.flows == Watch::On).then(|| (Arc::clone(&schedule), connections.clone()));
    let exact = if check {
        let options = RunOptions { fast_forward: FastForward::Never, ..options.clone() };
        Some(engine.run(&cluster, Job::schedule(Arc::clone(&schedule), connections.clone()), &options, seed).map_err(refused)?)
    } else {
        None
    };
    let again = settings.drawn.then(|| (Arc::clone(&schedule), connections.clone()));
    let (run, wall_s) = measured(Job::schedule(schedule, connections))?;
    let counted = match again.and_then(|again| Some((again, picture::interval(&run)?))).filter(|_| lab.lab.engine == EngineChoice::Packet) {
        Some(((schedule, connections), every)) => {
            // A timeline and a capture are of the run itself.
            let options = RunOptions { counting: Counting::Every(every), taps: Vec::new(), timeline: None, ..options.clone() };
            engine.run(&cluster, Job::schedule(schedule, connections), &options, seed).map_err(refused)?.counters
        }
        None => None,
    };
    let figures = if settings.drawn { picture::links(lab, &cluster, &run, counted.as_ref()) } else { Vec::new() };
    let deviation = compared.zip(exact).map(|(schedule, exact)| Deviation::of(&schedule, &exact, &run));
    let messages = match timed {
        Some((schedule, connections)) => Some(message_times::of(engine, (&cluster, &connections), (&schedule, &run), seed)?),
        None => None,
    };
    let busiest = traffic.received.map(|messages| Bytes(traffic.bytes.as_u64().saturating_mul(messages)));
    let notes = traffic.notes;
    let step = step.map(|(_, step)| step.ran(engine.name(), &run));
    Ok(SingleRun { busiest, notes, messages, deviation, figures, step, ..SingleRun::of(run, cluster, taps, (wall_s, seed)) })
}

impl SingleRun {
    /// A run of which nothing more is known.
    fn of(run: Run, cluster: Cluster, taps: Option<Taps>, (wall_s, seed): (f64, u64)) -> SingleRun {
        let (notes, kernels, figures) = (Vec::new(), Vec::new(), Vec::new());
        let (tool, busiest, messages, step, deviation) = (None, None, None, None, None);
        SingleRun { run, cluster, tool, taps, kernels, wall_s, seed, busiest, notes, messages, step, deviation, figures }
    }

    /// The outcome: the settings, what a tool printed or how long a pattern took, and what broke.
    #[must_use]
    pub fn outcome(&self, lab: &ResolvedLab) -> Outcome {
        let mut outcome = self.head(lab);
        match &self.tool {
            Some(tool) => {
                outcome.text(tool.text.clone()).data_table("points", points(&tool.points)).set("text", tool.text.clone());
            }
            None => self.result(lab, &mut outcome),
        }
        if let Some(step) = &self.step {
            step.tell(&mut outcome);
        }
        if let Some(skipped) = &self.run.skipped {
            fast_forward::tell(skipped, &self.run, self.cluster.parts.mtu, &mut outcome);
        }
        if let Some(deviation) = &self.deviation {
            deviation.tell(&mut outcome);
        }
        if let Some(series) = &self.run.series {
            let mut grid = Grid::new(crate::series::columns(&[]));
            crate::series::rows(&self.cluster, series, &[], &mut grid);
            outcome.record(grid.named("series"));
        }
        if let Some(messages) = &self.messages {
            let mut cdf = Grid::new(cdf_columns(&[]));
            cdf_rows(messages, &[], &mut cdf);
            outcome.text("\n").keyed_table("cdf", cdf.clone()).record(cdf.named("cdf")).record(message_times::rows(messages));
        }
        if let Some(broken) = &self.run.breakage {
            outcome.text(breakage::told(broken)).set("breakage", breakage::data(broken));
        }
        for figure in &self.figures {
            outcome.draw(figure.clone());
        }
        outcome
    }

    fn head(&self, lab: &ResolvedLab) -> Outcome {
        let (parts, workload, run) = (&lab.cluster, lab.lab.workload.name(), &self.run);
        let (nodes, routing) = (parts.nodes(), parts.routing);
        let alike = |group: &NodeGroup| match (group.node.nics, &group.node.nic.name, group.link.data_rate()) {
            (0 | 1, nic, link) => format!("{nic}, {link} links, "),
            (nics, nic, link) => format!("{nics} × {nic}, {link} links, "),
        };
        let alike = parts.uniform().map(alike).unwrap_or_default();
        let mut outcome = Outcome::new();
        outcome.note(lab.name()).note(format!("cluster {}: {nodes} nodes, {alike}MTU {}, routing {routing}", parts.name, parts.mtu));
        for line in groups(parts) {
            outcome.note(line);
        }
        outcome.note(format!("workload {workload}, seed {}", self.seed));
        for note in &self.notes {
            outcome.note(note);
        }
        if let Some(plan) = &lab.faults {
            outcome.text(breakage::planned(plan));
        }
        outcome
            .set("title", lab.lab.title.clone())
            .set("cluster", parts.name.clone())
            .set("nodes", nodes)
            .set("workload", workload)
            .set("seed", self.seed)
            .set("end_ps", run.end.as_ps())
            .set("counts", serde_json::to_value(run.stats).unwrap_or_default())
            .set("rank_done_ps", run.ranks.iter().map(|t| t.as_ps()).collect::<Vec<_>>())
            .set("notes", self.notes.clone());
        outcome
    }

    /// How long the pattern took, and how that stands to the bound of the links.
    fn result(&self, lab: &ResolvedLab, outcome: &mut Outcome) {
        let stats = &self.run.stats;
        let mut grid = Grid::new([Column::words("result", "result"), Column::number("value", "value")]);
        let mut row = |name: &str, value: Cell| grid.push([Cell::word(name), value]);
        let us = |time: Time| {
            let span = time - Time::ZERO;
            Cell::told(format!("{:.3}", span.as_us_f64()), span.as_us_f64())
        };
        if let Some((first, median, last)) = finishes(&self.run) {
            row("first rank done (us)", us(first));
            row("median rank done (us)", us(median));
            row("last rank done (us)", us(last));
        }
        row("messages", Cell::count(stats.messages));
        row("bytes delivered", Cell::count(stats.bytes_delivered));
        let (end, ranks) = (self.run.end - Time::ZERO, (lab.cluster.hosts().count() as u64).max(1));
        if end > Span::ZERO {
            let rate = Rate::of(Bytes(stats.bytes_delivered), end).as_bps() as f64 / 1e9;
            row("payload rate, all hosts (Gb/s)", Cell::number(rate, 2));
            row("payload rate per host (Gb/s)", Cell::number(rate / ranks as f64, 2));
        }
        row("packets dropped", Cell::count(stats.drops));
        row("packets marked by ECN", Cell::count(stats.ecn_marks));
        row("packets trimmed", Cell::count(stats.trims));
        row("pause frames", Cell::count(stats.pauses));
        outcome.text("\n").keyed_table("results", grid);
        if let Some(bytes) = self.busiest {
            // Of hosts with unlike links, that with the fastest: the bound holds for each.
            let rate = lab.cluster.groups.iter().map(|group| group.link.data_rate()).max().unwrap_or_default();
            let (least, end) = (rate.time(bytes).as_us_f64(), end.as_us_f64().max(f64::MIN_POSITIVE));
            let share = 100.0 * least / end;
            outcome.note(format!(
                "bound: {bytes} into one host take {least:.3} us on a link of {rate} without headers, {share:.1} % of the time taken"
            ));
        }
    }

    /// What the run took of the machine that ran it: packets, real time, memory.
    pub fn statistics(&self, outcome: &mut Outcome) {
        let stats = &self.run.stats;
        let per_second = if self.wall_s > 0.0 { stats.packet_hops as f64 / self.wall_s } else { 0.0 };
        let mut grid = Grid::new([Column::words("statistic", "statistic"), Column::number("value", "value")]);
        for (name, cell) in [
            ("packets", Cell::count(stats.packets)),
            ("packet_hops", Cell::count(stats.packet_hops)),
            ("wall_s", Cell::number(self.wall_s, 3)),
            ("packet_hops_per_s", Cell::number(per_second.round(), 0)),
            ("peak_rss_bytes", Cell::count(peak().0)),
        ] {
            outcome.set(name, cell.value().clone());
            grid.push([Cell::word(name), cell]);
        }
        outcome.text("\n").table(grid.named("statistics"));
    }
}

/// First, median and last of the times at which ranks were done.
fn finishes(run: &Run) -> Option<(Time, Time, Time)> {
    let mut ends = run.ranks.clone();
    ends.sort_unstable();
    Some((*ends.first()?, ends[ends.len() / 2], *ends.last()?))
}
