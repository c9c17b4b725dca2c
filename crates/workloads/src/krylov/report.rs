//! What `krylov` prints: where the time of an iteration goes, and what bounds it.

use std::fmt::Write;

use fabriscope_units::Bytes;

use super::matrix::Part;
use super::run::{Job, Phase, Spent};
use super::solver::{ELEMENT, Operation, Preconditioner, Solver};
use crate::output::{Point, ToolOutput};

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
        }
    }
}

/// What an iteration does, by phase: calls, and bytes of a rank.
fn work(job: &Job, part: &Part) -> [(f64, f64); 5] {
    let mut all = [(0u64, 0u64); 5];
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

/// Means over ranks and iterations.
fn rows(job: &Job, results: &[Spent]) -> (Vec<Row>, f64) {
    let each = (results.len() * job.settings.iterations as usize).max(1) as f64;
    let ranks = job.parts.len().max(1) as f64;
    let mut done = [(0.0, 0.0); 5];
    for part in &job.parts {
        for (sum, (calls, bytes)) in done.iter_mut().zip(work(job, part)) {
            *sum = (sum.0 + calls / ranks, sum.1 + bytes / ranks);
        }
    }
    let row = |phase: Phase| {
        let us = results.iter().map(|spent| spent.each[phase as usize].as_us_f64()).sum::<f64>() / each;
        let (calls, bytes) = done[phase as usize];
        Row { phase, calls, bytes, us }
    };
    let total = results.iter().map(|spent| spent.total.as_us_f64()).sum::<f64>() / each;
    (Phase::ALL.into_iter().map(row).collect(), total)
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
pub(super) fn report(job: &Job, results: &[Spent]) -> ToolOutput {
    let s = &job.settings;
    let mut text = String::new();
    let footprint = job.parts.iter().map(|part| s.solver.footprint(s.preconditioner, part.rows, part.nonzeros)).max().unwrap_or_default();
    let _ = writeln!(text, "\n# {}: {}", title(s.solver, s.preconditioner), s.matrix);
    let nonzeros: u64 = job.parts.iter().map(|part| part.nonzeros).sum();
    let _ = writeln!(
        text,
        "# {} ranks on {} nodes, {} threads each; {} rows, {nonzeros} nonzeros; {:.1} MB of vectors and matrix a rank",
        job.layout.ranks(),
        job.layout.nodes,
        s.threads,
        s.matrix.rows(),
        footprint.0 as f64 / 1e6
    );
    let (rows, total) = rows(job, results);
    let _ = writeln!(
        text,
        "{:<12}{:>8}{:>16}{:>14}{:>11}{:>13}  Bound by",
        "# Operation", "Calls", "Bytes", "Time(us)", "Share(%)", "Rate(GB/s)"
    );
    let mut points = Vec::new();
    for row in &rows {
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
        points.push(Point { size: footprint, metric: row.phase.metric(), unit: "us", value: row.us });
    }
    let bytes: f64 = rows.iter().filter(|row| !matches!(row.phase, Phase::Halo | Phase::Allreduce)).map(|row| row.bytes).sum();
    let _ = writeln!(text, "{:<12}{:>8}{bytes:>16.0}{total:>14.2}{:>11.1}", "Iteration", "", 100.0);
    points.push(Point { size: footprint, metric: "iteration", unit: "us", value: total });
    ToolOutput { text, points, remarks: remarks(job), ..ToolOutput::default() }
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
    }
}
