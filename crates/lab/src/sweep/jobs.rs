//! Jobs that share the network: each alone, all together in one class, and all together in their classes.
//!
//! A job over verbs writes its messages into memory; one with a message-passing library sends and receives them.

use std::sync::Arc;

use crate::{Job, Jobs, ResolvedLab};
use fabriscope_engine::{Cluster, Connections, Counting, Library, Run, RunOptions, Stats};
use fabriscope_report::{Cell, Column, Grid, Outcome};
use fabriscope_schedule::{After, Builder, OpId, OpKind, Schedule};
use fabriscope_units::{Bytes, Rate, Remedy, Span, Time};

use super::{Runs, head};
use crate::error::LabError;
use crate::traffic::{order, spraying};

/// Which jobs run, and in which classes.
#[derive(Clone, Copy)]
enum Setting {
    Alone(usize),
    OneClass,
    OwnClasses,
}

/// What one job did in one run.
#[derive(Clone, Default)]
struct Times {
    /// Times of its messages, sorted.
    messages: Vec<Span>,
    began: Time,
    ended: Time,
    bytes: Bytes,
}

impl Times {
    /// The time that this share of the messages, in percent, does not exceed.
    fn quantile(&self, percent: usize) -> Span {
        let last = self.messages.len().saturating_sub(1);
        self.messages.get((self.messages.len() * percent / 100).min(last)).copied().unwrap_or_default()
    }
    /// Payload over the time from its first to its last message.
    fn rate(&self) -> Rate {
        if self.ended > self.began { Rate::of(self.bytes, self.ended - self.began) } else { Rate::default() }
    }
}

#[derive(Clone)]
struct Sample {
    /// By job; empty for jobs that took no part.
    jobs: Vec<Times>,
    stats: Stats,
}

/// Runs all settings.
pub fn run(lab: &ResolvedLab, work: &Jobs, seed: u64) -> Result<Outcome, LabError> {
    let settings: Vec<Setting> = (0..work.jobs.len()).map(Setting::Alone).chain([Setting::OneClass, Setting::OwnClasses]).collect();
    let samples = super::samples(&settings, |setting| sample(lab, work, *setting, seed))?;
    Ok(outcome(lab, work, &samples, seed))
}

/// All jobs together in their classes, with what links carry counted for the job of each endpoint.
///
/// # Errors
/// What the cluster or the engine does not do.
pub fn together(
    lab: &ResolvedLab,
    work: &Jobs,
    (counting, jobs): (Counting, Arc<[u16]>),
    threads: usize,
    seed: u64,
) -> Result<(Cluster, Run), LabError> {
    let told = |message: String| LabError::refused(message, "see the workload and the cluster of the lab");
    let cluster = Cluster::new(lab.cluster.clone()).map_err(|error| told(error.in_full()))?;
    let connections = connections(lab, work, &cluster, Setting::OwnClasses).map_err(told)?;
    let (schedule, _) = schedule(cluster.ranks(), lab, &work.jobs, |_| true).map_err(|error| told(error.in_full()))?;
    let options = RunOptions { counting, jobs, threads, ..crate::traffic::options(lab) };
    let job = fabriscope_engine::Job::schedule(schedule, connections);
    let run = crate::engines::engine(lab.lab.engine).run(&cluster, job, &options, seed).map_err(crate::traffic::refused)?;
    Ok((cluster, run))
}

/// How the hosts of jobs are connected.
fn connections(lab: &ResolvedLab, work: &Jobs, cluster: &Cluster, setting: Setting) -> Result<Connections, String> {
    let parts = &lab.cluster;
    let mut levels = Vec::new();
    let mut pkeys = Vec::new();
    let mut rates = Vec::new();
    for job in &work.jobs {
        let level = if matches!(setting, Setting::OneClass) { 0 } else { job.level(parts).map_err(|problem| problem.message)? };
        let pkey = job.pkey(parts).map_err(|problem| problem.message)?;
        for (from, to) in job.streams(cluster.ranks()) {
            let pair = (from.min(to), from.max(to));
            levels.push((pair, level));
            pkeys.push((pair, pkey));
            rates.extend(job.rate_limit.map(|rate| (pair, rate)));
        }
    }
    levels.sort_unstable();
    levels.dedup();
    pkeys.sort_unstable();
    pkeys.dedup();
    // Of two jobs on one connection the stricter limit holds.
    rates.sort_unstable();
    rates.dedup_by_key(|(pair, _)| *pair);
    let spray = parts.routing.reorders();
    let (order, spraying) = (order(spray), spraying(spray));
    let (libraries, recovery) = (libraries(lab), lab.lab.recovery.unwrap_or_default());
    Ok(Connections { order, spraying, libraries, levels, pkeys, rates, recovery, ..Connections::default() })
}

fn sample(lab: &ResolvedLab, work: &Jobs, setting: Setting, seed: u64) -> Result<Sample, String> {
    let cluster = Cluster::new(lab.cluster.clone()).map_err(|error| error.in_full())?;
    let connections = connections(lab, work, &cluster, setting)?;
    let takes_part = |job: usize| !matches!(setting, Setting::Alone(only) if only != job);
    let (schedule, messages) = schedule(cluster.ranks(), lab, &work.jobs, takes_part).map_err(|error| error.in_full())?;
    let run = Runs::of(lab, &cluster, connections).run(schedule, seed)?;
    let mut jobs = vec![Times { began: Time::MAX, ..Times::default() }; work.jobs.len()];
    for Message { owner, begins, ends } in messages {
        let (started, ended) = (run.ops[begins].started, run.ops[ends].ended);
        let times = &mut jobs[owner];
        times.messages.push(ended - started);
        times.began = times.began.min(started);
        times.ended = times.ended.max(ended);
        times.bytes.0 += work.jobs[owner].size.0;
    }
    jobs.iter_mut().for_each(|times| times.messages.sort_unstable());
    Ok(Sample { jobs, stats: run.stats })
}

/// The libraries of all hosts that have one.
fn libraries(lab: &ResolvedLab) -> Vec<(u32, Library)> {
    let mut all: Vec<(u32, Library)> = lab.libraries.iter().flatten().flat_map(|library| library.hosts.iter().copied()).collect();
    all.sort_unstable_by_key(|(host, _)| *host);
    all.dedup_by_key(|(host, _)| *host);
    all
}

/// A message: its job, and the operations with which it begins and ends, in the order of the run's operations: rank by rank.
struct Message {
    owner: usize,
    begins: usize,
    ends: usize,
}

/// A rank, and a number among its operations.
type RankOp = (u32, OpId);

/// The messages of the jobs that take part.
fn schedule(
    ranks: u32,
    lab: &ResolvedLab,
    jobs: &[Job],
    takes_part: impl Fn(usize) -> bool,
) -> Result<(Schedule, Vec<Message>), fabriscope_schedule::ScheduleError> {
    let mut builder = Builder::new(ranks);
    // Job, and both ends.
    let mut messages: Vec<(usize, RankOp, RankOp)> = Vec::new();
    for (number, job) in jobs.iter().enumerate().filter(|(number, _)| takes_part(*number)) {
        let two_sided = lab.libraries.get(number).is_some_and(Option::is_some);
        let (streams, tag) = (job.streams(ranks), number as u32);
        let mut sent: Vec<Vec<OpId>> = vec![Vec::new(); streams.len()];
        for at in 0..job.messages as usize {
            for (&(from, to), sent) in streams.iter().zip(&mut sent) {
                let before = at.checked_sub(job.outstanding as usize);
                let after: Vec<After> = before.map(|before| After::End(sent[before])).into_iter().collect();
                let bytes = job.size;
                let kind = if two_sided { OpKind::Send { to, bytes, tag } } else { OpKind::Put { to, bytes } };
                let op = builder.op_after(from, kind, &after);
                sent.push(op);
                let end = if two_sided { (to, builder.recv(to, from, bytes, tag)) } else { (from, op) };
                messages.push((number, (from, op), end));
            }
        }
    }
    let schedule = builder.build()?;
    let mut first = vec![0usize];
    for rank in 0..ranks {
        first.push(first[rank as usize] + schedule.kinds(rank).len());
    }
    let at = |(rank, op): RankOp| first[rank as usize] + op.0 as usize;
    let messages = messages.into_iter().map(|(owner, begins, ends)| Message { owner, begins: at(begins), ends: at(ends) }).collect();
    Ok((schedule, messages))
}

/// What a job asked for, as a person wrote it.
fn class(job: &Job) -> String {
    let number = |what: &str, value: Option<u32>| value.map(|value| format!("{what} {value}"));
    (number("SL", job.service_level))
        .or_else(|| number("priority", job.priority))
        .or_else(|| number("DSCP", job.dscp))
        .or_else(|| job.traffic_class.clone())
        .unwrap_or_else(|| "-".to_owned())
}

fn outcome(lab: &ResolvedLab, work: &Jobs, samples: &[Sample], seed: u64) -> Outcome {
    let count = work.jobs.len();
    let mut outcome = head(lab, &format!("{count} jobs, seed {seed}"));
    let (one, own) = (&samples[count], &samples[count + 1]);
    outcome.set("seed", seed).keyed_table("jobs", table(lab, work, samples));
    outcome.set("counts", serde_json::json!({ "one_class": one.stats, "own_classes": own.stats }));
    for (name, sample) in [("one class", one), ("own classes", own)] {
        let Stats { drops, pauses, ecn_marks, trims, .. } = sample.stats;
        outcome.note(format!("{name}: {drops} drops, {pauses} pauses, {ecn_marks} marks, {trims} trims"));
    }
    for (number, job) in work.jobs.iter().enumerate() {
        // A job that outlives the others was not beside them.
        let others = own.jobs.iter().enumerate().filter(|(other, _)| *other != number).map(|(_, times)| times.ended).max();
        if let Some(end) = others.filter(|end| *end < own.jobs[number].ended) {
            let after = own.jobs[number].ended - end;
            outcome.note(format!("`{}` went on for {:.3} us after the last of the others", job.name, after.as_us_f64()));
        }
    }
    if lab.libraries.iter().any(Option::is_some) {
        outcome
            .note("a message of a library lasts from its send until its receive is over, and its sender goes on when the library holds it");
    }
    outcome.note("a message lasts from its work request to its completion; docs/models/qos.md says what classes can do");
    outcome
}

/// A row for each job: alone, in one class with the others, in its own class.
fn table(lab: &ResolvedLab, work: &Jobs, samples: &[Sample]) -> Grid {
    let count = work.jobs.len();
    let (one, own) = (&samples[count], &samples[count + 1]);
    let with_libraries = lab.libraries.iter().any(Option::is_some);
    let library = with_libraries.then(|| Column::words("library", "library"));
    let mut grid = Grid::new([Column::words("job", "name")].into_iter().chain(library).chain([
        Column::number("class", "class"),
        Column::number("alone: median (us)", "alone_median_ps").unit("ps"),
        Column::number("one class (us)", "one_class_median_ps").unit("ps"),
        Column::number("own class (us)", "own_class_median_ps").unit("ps"),
        Column::number("own / alone", "own_to_alone"),
        Column::number("alone: p99 (us)", "alone_p99_ps").unit("ps"),
        Column::number("one class (us)", "one_class_p99_ps").unit("ps"),
        Column::number("own class (us)", "own_class_p99_ps").unit("ps"),
        Column::number("alone (Gb/s)", "alone_bits_per_s").unit("b/s"),
        Column::number("one class (Gb/s)", "one_class_bits_per_s").unit("b/s"),
        Column::number("own class (Gb/s)", "own_class_bits_per_s").unit("b/s"),
        Column::data("alone"),
        Column::data("one_class"),
        Column::data("own_class"),
    ]));
    for (number, job) in work.jobs.iter().enumerate() {
        let runs = [&samples[number].jobs[number], &one.jobs[number], &own.jobs[number]];
        let [alone, _, together] = runs;
        let ratio = together.quantile(50).as_us_f64() / alone.quantile(50).as_us_f64().max(f64::MIN_POSITIVE);
        let rate = |times: &Times| Cell::told(format!("{:.2}", times.rate().as_bps() as f64 / 1e9), times.rate().as_bps());
        let mut row = vec![Cell::word(job.name.clone())];
        if with_libraries {
            let name = lab.libraries.get(number).and_then(Option::as_ref).map_or("verbs", |library| library.name.as_str());
            row.push(Cell::word(name));
        }
        row.push(Cell::word(class(job)));
        row.extend(runs.map(|times| Cell::us(times.quantile(50))));
        row.push(Cell::number(ratio, 3));
        row.extend(runs.map(|times| Cell::us(times.quantile(99))));
        row.extend(runs.map(rate));
        row.extend(runs.map(|times| Cell::data(data(times))));
        grid.push(row);
    }
    grid
}

fn data(times: &Times) -> serde_json::Value {
    serde_json::json!({
        "median_ps": times.quantile(50).as_ps(),
        "p99_ps": times.quantile(99).as_ps(),
        "last_ps": times.quantile(100).as_ps(),
        "bits_per_s": times.rate().as_bps(),
        "ended_ps": times.ended.as_ps(),
    })
}
