//! Jobs that share the network: each alone, all together in one class, and all together in their classes.

use crate::{Job, Jobs, ResolvedLab};
use fabriscope_engine::{Cluster, Connections, OpTimes, RunOptions, Stats, Watch};
use fabriscope_report::Table;
use fabriscope_schedule::{After, Builder, OpId, OpKind, Schedule};
use fabriscope_units::{Bytes, Rate, Span, Time};

use super::{Swept, head, us};
use crate::error::LabError;
use crate::traffic::{engine, options, order, spraying};

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
pub fn run(lab: &ResolvedLab, work: &Jobs, seed: u64) -> Result<Swept, LabError> {
    let settings: Vec<Setting> = (0..work.jobs.len()).map(Setting::Alone).chain([Setting::OneClass, Setting::OwnClasses]).collect();
    let samples = super::samples(&settings, |setting| sample(lab, work, *setting, seed))?;
    Ok(Swept { text: text(lab, work, &samples, seed), json: value(lab, work, &samples, seed), curve: None })
}

fn sample(lab: &ResolvedLab, work: &Jobs, setting: Setting, seed: u64) -> Result<Sample, String> {
    let parts = &lab.cluster;
    let cluster = Cluster::new(parts.clone()).map_err(|error| error.to_string())?;
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
    let options = RunOptions { op_times: Watch::On, ..options(lab) };
    let connections = Connections { order, spraying, levels, pkeys, rates, ..Connections::default() };
    let takes_part = |job: usize| !matches!(setting, Setting::Alone(only) if only != job);
    let (schedule, owners) = schedule(cluster.ranks(), &work.jobs, takes_part).map_err(|error| error.to_string())?;
    let run = engine(lab.lab.engine)
        .run(&cluster, fabriscope_engine::Job::schedule(schedule, connections), &options, seed)
        .map_err(|error| error.to_string())?;
    let mut jobs = vec![Times { began: Time::MAX, ..Times::default() }; work.jobs.len()];
    for (OpTimes { started, ended, .. }, &owner) in run.ops.iter().zip(&owners) {
        let times = &mut jobs[owner];
        times.messages.push(*ended - *started);
        times.began = times.began.min(*started);
        times.ended = times.ended.max(*ended);
        times.bytes.0 += work.jobs[owner].size.0;
    }
    jobs.iter_mut().for_each(|times| times.messages.sort_unstable());
    Ok(Sample { jobs, stats: run.stats })
}

/// The messages of the jobs that take part, and the job of each in the order of the run's operations: rank by rank.
fn schedule(
    ranks: u32,
    jobs: &[Job],
    takes_part: impl Fn(usize) -> bool,
) -> Result<(Schedule, Vec<usize>), fabriscope_schedule::ScheduleError> {
    let mut builder = Builder::new(ranks);
    let mut owners: Vec<Vec<usize>> = vec![Vec::new(); ranks as usize];
    for (number, job) in jobs.iter().enumerate().filter(|(number, _)| takes_part(*number)) {
        let streams = job.streams(ranks);
        let mut sent: Vec<Vec<OpId>> = vec![Vec::new(); streams.len()];
        for at in 0..job.messages as usize {
            for ((from, to), sent) in streams.iter().zip(&mut sent) {
                let before = at.checked_sub(job.outstanding as usize);
                let after: Vec<After> = before.map(|before| After::End(sent[before])).into_iter().collect();
                sent.push(builder.op_after(*from, OpKind::Put { to: *to, bytes: job.size }, &after));
                owners[*from as usize].push(number);
            }
        }
    }
    Ok((builder.build()?, owners.concat()))
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

fn text(lab: &ResolvedLab, work: &Jobs, samples: &[Sample], seed: u64) -> String {
    let count = work.jobs.len();
    let mut text = head(lab, &format!("{count} jobs, seed {seed}"));
    let (one, own) = (&samples[count], &samples[count + 1]);
    let mut table = Table::new([
        "job",
        "class",
        "alone: median (us)",
        "one class (us)",
        "own class (us)",
        "own / alone",
        "alone: p99 (us)",
        "one class (us)",
        "own class (us)",
        "alone (Gb/s)",
        "one class (Gb/s)",
        "own class (Gb/s)",
    ]);
    for (number, job) in work.jobs.iter().enumerate() {
        let runs = [&samples[number].jobs[number], &one.jobs[number], &own.jobs[number]];
        let [alone, _, together] = runs;
        let ratio = together.quantile(50).as_us_f64() / alone.quantile(50).as_us_f64().max(f64::MIN_POSITIVE);
        let medians = runs.map(|times| us(times.quantile(50)));
        let tails = runs.map(|times| us(times.quantile(99)));
        let rates = runs.map(|times| format!("{:.2}", times.rate().as_bps() as f64 / 1e9));
        let mut row = vec![job.name.clone(), class(job)];
        row.extend(medians);
        row.push(format!("{ratio:.3}"));
        row.extend(tails);
        row.extend(rates);
        table.push(<[String; 12]>::try_from(row).unwrap_or_default());
    }
    text += &table.to_string();
    for (name, sample) in [("one class", one), ("own classes", own)] {
        let Stats { drops, pauses, ecn_marks, trims, .. } = sample.stats;
        text += &format!("# {name}: {drops} drops, {pauses} pauses, {ecn_marks} marks, {trims} trims\n");
    }
    for (number, job) in work.jobs.iter().enumerate() {
        // A job that outlives the others was not beside them.
        let others = own.jobs.iter().enumerate().filter(|(other, _)| *other != number).map(|(_, times)| times.ended).max();
        if let Some(end) = others.filter(|end| *end < own.jobs[number].ended) {
            let last = own.jobs[number].ended;
            text += &format!("# `{}` went on for {} us after the last of the others\n", job.name, us(last - end));
        }
    }
    text + "# a message lasts from its work request to its completion; docs/models/qos.md says what classes can do\n"
}

fn value(lab: &ResolvedLab, work: &Jobs, samples: &[Sample], seed: u64) -> serde_json::Value {
    let count = work.jobs.len();
    let times = |times: &Times| {
        serde_json::json!({
            "median_ps": times.quantile(50).as_ps(),
            "p99_ps": times.quantile(99).as_ps(),
            "last_ps": times.quantile(100).as_ps(),
            "bits_per_s": times.rate().as_bps(),
            "ended_ps": times.ended.as_ps(),
        })
    };
    let job = |(number, job): (usize, &Job)| {
        serde_json::json!({
            "name": job.name,
            "class": class(job),
            "alone": times(&samples[number].jobs[number]),
            "one_class": times(&samples[count].jobs[number]),
            "own_class": times(&samples[count + 1].jobs[number]),
        })
    };
    serde_json::json!({
        "title": lab.lab.title,
        "cluster": lab.cluster.name,
        "seed": seed,
        "jobs": work.jobs.iter().enumerate().map(job).collect::<Vec<_>>(),
        "counts": { "one_class": samples[count].stats, "own_classes": samples[count + 1].stats },
    })
}
