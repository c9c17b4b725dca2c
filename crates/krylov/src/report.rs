//! What `krylov` prints: where the time of an iteration goes, and what bounds it.

use std::fmt::Write;

use fabriscope_tool::{Point, ToolOutput};
use fabriscope_units::Bytes;

use super::job::{Job, Outcome, Phase, Spent};
use super::matrix::Part;
use super::solver::{ELEMENT, Operation, Preconditioner, Solver};
use fabriscope_platform::AdapterCores;

/// A row of the table: what a rank does in an iteration, on average.
struct Row {
    phase: Phase,
    calls: f64,
    /// Bytes between cores and memory, or in messages.
    bytes: f64,
    us: f64,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Phase::MatVec => "MatVec",
            Phase::Vma => "VMA",
            Phase::Dot => "Dot",
            Phase::Halo => "Halo",
            Phase::Allreduce => "Allreduce",
            Phase::Cores => "Wait",
        }
    }
    /// The metric of its time.
    fn metric(self) -> &'static str {
        match self {
            Phase::MatVec => "matvec",
            Phase::Vma => "vma",
            Phase::Dot => "dot",
            Phase::Halo => "halo",
            Phase::Allreduce => "allreduce",
            Phase::Cores => "wait",
        }
    }
}

/// What an iteration does, by phase: calls, and bytes of a rank.
fn work(job: &Job, part: &Part) -> [(f64, f64); 6] {
    let mut all = [(0u64, 0u64); 6];
    let mut add = |phase: Phase, bytes: u64| {
        let (calls, total) = &mut all[phase as usize];
        (*calls, *total) = (*calls + 1, *total + bytes);
    };
    let iterations = job.settings.iterations;
    for number in 0..iterations {
        for operation in job.settings.solver.iteration(job.settings.preconditioner, number) {
            add(Phase::of(operation), operation.bytes(part.rows, part.nonzeros).0);
            match operation {
                Operation::MatVec => add(Phase::Halo, part.neighbours.iter().map(|(_, elements)| elements * ELEMENT).sum()),
                Operation::Dot { sums, .. } => add(Phase::Allreduce, u64::from(sums) * ELEMENT),
                Operation::Vma { .. } => {}
            }
        }
    }
    all.map(|(calls, bytes)| (calls as f64 / f64::from(iterations), bytes as f64 / f64::from(iterations)))
}

/// Means over ranks and iterations, by phase and in all, in us.
fn means(job: &Job, spent: impl Iterator<Item = Spent>) -> ([f64; 6], f64) {
    let spent: Vec<Spent> = spent.collect();
    let each = (spent.len() * job.settings.iterations as usize).max(1) as f64;
    let us = |of: fn(&Spent, usize) -> f64, phase: usize| spent.iter().map(|spent| of(spent, phase)).sum::<f64>() / each;
    let phases = std::array::from_fn(|phase| us(|spent, phase| spent.each[phase].as_us_f64(), phase));
    (phases, us(|spent, _| spent.total.as_us_f64(), 0))
}

/// What the ranks do in an iteration by the host's cores alone, on average.
fn rows(job: &Job, results: &[Outcome]) -> (Vec<Row>, f64) {
    let ranks = job.parts.len().max(1) as f64;
    let mut done = [(0.0, 0.0); 6];
    for part in &job.parts {
        for (sum, (calls, bytes)) in done.iter_mut().zip(work(job, part)) {
            *sum = (sum.0 + calls / ranks, sum.1 + bytes / ranks);
        }
    }
    let (us, total) = means(job, results.iter().map(|outcome| outcome.alone));
    let row = |phase: Phase| {
        let (calls, bytes) = done[phase as usize];
        Row { phase, calls, bytes, us: us[phase as usize] }
    };
    (Phase::ALL.into_iter().filter(|phase| *phase != Phase::Cores).map(row).collect(), total)
}

fn title(solver: Solver, preconditioner: Preconditioner) -> String {
    let solver = match solver {
        Solver::Cg => "Conjugate gradients".to_owned(),
        Solver::BiCgStab => "BiCGSTAB".to_owned(),
        Solver::Gmres { restart } => format!("GMRES({restart})"),
    };
    match preconditioner {
        Preconditioner::None => solver,
        Preconditioner::Jacobi => format!("{solver}, Jacobi"),
    }
}

/// The text and the points.
pub(super) fn report(job: &Job, results: &[Outcome], cores: Option<&AdapterCores>) -> ToolOutput {
    let s = &job.settings;
    let mut text = String::new();
    let footprint = job.parts.iter().map(|part| s.solver.footprint(s.preconditioner, part.rows, part.nonzeros)).max().unwrap_or_default();
    let _ = writeln!(text, "\n# {}: {}", title(s.solver, s.preconditioner), s.matrix);
    let nonzeros: u64 = job.parts.iter().map(|part| part.nonzeros).sum();
    let _ = writeln!(
        text,
        "# {} on {}, {} each; {} rows, {nonzeros} nonzeros; {:.1} MB of vectors and matrix a rank",
        counted(job.layout.ranks(), "rank"),
        counted(job.layout.nodes, "node"),
        counted(s.threads, "thread"),
        s.matrix.rows(),
        footprint.0 as f64 / 1e6
    );
    let (rows, total) = rows(job, results);
    let mut points = Vec::new();
    let mut point = |metric, unit, value| points.push(Point { size: footprint, metric, unit, value });
    match cores.filter(|_| !job.helpers.is_empty()) {
        None => {
            alone(job, &rows, total, &mut text);
            rows.iter().for_each(|row| point(row.phase.metric(), "us", row.us));
            point("iteration", "us", total);
        }
        Some(cores) => {
            let (us, together) = means(job, results.iter().filter_map(|outcome| outcome.together));
            let share = shared(job, cores, &mut text);
            compared(job, (&rows, total), (&us, together), &mut text);
            Phase::ALL.into_iter().for_each(|phase| point(phase.metric(), "us", us[phase as usize]));
            point("iteration", "us", together);
            point("alone", "us", total);
            point("saved", "%", saved(total, together));
            point("share", "%", share);
        }
    }
    ToolOutput { text, points, remarks: remarks(job), ..ToolOutput::default() }
}

fn counted(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The table of the host's cores alone.
fn alone(job: &Job, rows: &[Row], total: f64, text: &mut String) {
    let _ = writeln!(
        text,
        "{:<12}{:>8}{:>16}{:>14}{:>11}{:>13}  Bound by",
        "# Operation", "Calls", "Bytes", "Time(us)", "Share(%)", "Rate(GB/s)"
    );
    for row in rows {
        let rate = if row.us > 0.0 { format!("{:.2}", row.bytes / row.us / 1e3) } else { "-".to_owned() };
        let percent = if total > 0.0 { 100.0 * row.us / total } else { 0.0 };
        let _ = writeln!(
            text,
            "{:<12}{:>8.2}{:>16.0}{:>14.2}{percent:>11.1}{rate:>13}  {}",
            row.phase.name(),
            row.calls,
            row.bytes,
            row.us,
            bound(job, row.phase)
        );
    }
    let bytes: f64 = rows.iter().filter(|row| !matches!(row.phase, Phase::Halo | Phase::Allreduce)).map(|row| row.bytes).sum();
    let _ = writeln!(text, "{:<12}{:>8}{bytes:>16.0}{total:>14.2}{:>11.1}", "Iteration", "", 100.0);
}

/// How rows are shared, of all in percent.
fn shared(job: &Job, cores: &AdapterCores, text: &mut String) -> f64 {
    let all: u64 = job.parts.iter().map(|part| part.rows).sum();
    let theirs: u64 = job.helpers.iter().map(|helper| helper.division.lock().theirs).sum();
    let percent = 100.0 * theirs as f64 / all.max(1) as f64;
    let (mode, mut hand_over, mut rate) = (job.settings.offload, 0.0, 0.0);
    if let Some(helper) = job.helpers.first() {
        (hand_over, rate) = (helper.division.lock().hand_over.as_us_f64(), helper.pace.rate.as_bytes_per_s_f64() / 1e9);
    }
    let each = cores.processor.all_cores() / job.layout.per_node.max(1);
    let _ = writeln!(text, "# {}: {} for each rank, {rate:.2} GB/s", cores.title, counted(each, "core"));
    let _ = writeln!(text, "# {mode}: {percent:.2} % of the rows on the adapter; {hand_over:.2} us to hand over and hear of it");
    percent
}

/// The table of both.
fn compared(job: &Job, (rows, total): (&[Row], f64), (us, together): (&[f64; 6], f64), text: &mut String) {
    let _ = writeln!(text, "{:<12}{:>8}{:>14}{:>15}{:>11}  Bound by", "# Operation", "Calls", "Host(us)", "With DPU(us)", "Saved(%)");
    for row in rows {
        let now = us[row.phase as usize];
        let gain = if row.us > 0.0 { format!("{:.1}", saved(row.us, now)) } else { "-".to_owned() };
        let bound = bound(job, row.phase);
        let _ = writeln!(text, "{:<12}{:>8.2}{:>14.2}{now:>15.2}{gain:>11}  {bound}", row.phase.name(), row.calls, row.us);
    }
    let waits = us[Phase::Cores as usize];
    let _ = writeln!(text, "{:<12}{:>8}{:>14.2}{waits:>15.2}{:>11}  cores on the adapter", Phase::Cores.name(), "", 0.0, "-");
    let _ = writeln!(text, "{:<12}{:>8}{total:>14.2}{together:>15.2}{:>11.1}", "Iteration", "", saved(total, together));
}

/// The share of the time that is no longer needed, in percent.
fn saved(before: f64, now: f64) -> f64 {
    if before > 0.0 { 100.0 * (1.0 - now / before) } else { 0.0 }
}

/// A line for each algorithm in the order of the sums: `allreduce: recursive_doubling at 8 to 240 bytes`.
fn remarks(job: &Job) -> Vec<String> {
    let mut runs: Vec<(String, u64, u64)> = Vec::new();
    for (sums, (_, algorithm)) in job.reductions.iter().filter(|_| job.parts.len() > 1) {
        let (name, bytes) = (algorithm.to_string(), u64::from(*sums) * ELEMENT);
        match runs.last_mut() {
            Some((last, _, end)) if *last == name => *end = bytes,
            _ => runs.push((name, bytes, bytes)),
        }
    }
    let line = |(name, first, end): (String, u64, u64)| match first == end {
        true => format!("allreduce: {name} at {first} bytes"),
        false => format!("allreduce: {name} at {first} to {end} bytes"),
    };
    runs.into_iter().map(line).collect()
}

/// What does not let it go faster.
fn bound(job: &Job, phase: Phase) -> String {
    match phase {
        Phase::MatVec | Phase::Vma | Phase::Dot => job.paces.first().map_or_else(String::new, |pace| pace.bound.to_string()),
        Phase::Halo if job.parts.iter().all(|part| part.neighbours.is_empty()) => "no neighbours".to_owned(),
        Phase::Halo => {
            let largest = job.parts.iter().flat_map(|part| &part.neighbours).map(|(_, elements)| Bytes(elements * ELEMENT)).max();
            format!("messages of up to {}", largest.unwrap_or_default())
        }
        Phase::Allreduce if job.parts.len() < 2 => "one rank".to_owned(),
        Phase::Allreduce => "latency of messages".to_owned(),
        Phase::Cores => String::new(),
    }
}
