//! What an application prints: the time of an iteration, and under which call it passes.

use std::fmt::Write;

use fabriscope_tool::{Point, Spending, ToolOutput};
use fabriscope_units::{Bytes, Span};

use crate::cause::{ByCause, Cause};
use crate::options::Checkpoint;
use crate::plan::Plan;
use crate::step::{Phase, Ran};

/// What a rank spent in all measured iterations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spent {
    /// By phase, as [`Phase::all`] lists them.
    pub phases: Vec<Span>,
    /// What each of them passed with.
    pub causes: Vec<ByCause>,
    /// In all.
    pub total: Span,
}

/// What an application prints, from what each rank spent.
#[must_use]
pub fn report(plan: &Plan, spent: &[Spent]) -> ToolOutput {
    let ranks = spent.len().max(1) as f64;
    let each = f64::from(plan.common.iterations);
    let iteration = spent.iter().map(|spent| spent.total).max().unwrap_or_default().as_us_f64() / each;
    let whole = plan.program.whole();
    let mut text = String::new();
    let layout = plan.layout;
    let _ = writeln!(text, "\n# {}", plan.program.title());
    let _ = writeln!(
        text,
        "# {} ranks on {} nodes, {} threads each; computation of an iteration: {:.6} node seconds{}",
        layout.ranks(),
        layout.nodes,
        plan.common.threads,
        plan.node_seconds,
        if plan.common.node_seconds.is_some() { " (given)" } else { " (memory's rate)" },
    );
    let _ = writeln!(text, "{:<26}{:>12}{:>16}{:>14}{:>14}{:>11}", "# Call", "Calls", "Bytes", "Mean(us)", "Max(us)", "Share(%)");
    let (mut points, mut spending, mut run_calls) = (Vec::new(), Vec::new(), Vec::new());
    let mut point = |metric, unit, value| points.push(Point { size: Bytes::ZERO, metric, unit, value });
    for phase in Phase::all() {
        let of = |spent: &Spent| spent.phases.get(phase.index()).copied().unwrap_or_default().as_us_f64() / each;
        let (calls, bytes) = plan.counts[phase.index()];
        let mean = spent.iter().map(of).sum::<f64>() / ranks;
        if calls == 0 && mean == 0.0 {
            continue;
        }
        let most = spent.iter().map(of).fold(0.0, f64::max);
        let share = if iteration > 0.0 { 100.0 * mean / iteration } else { 0.0 };
        let (calls, bytes) = (calls as f64 / ranks, bytes as f64 / ranks);
        let times = whole.iterations as f64;
        run_calls.push((phase.name(), calls * times, mean * 1e-6 * times));
        let _ = writeln!(text, "{:<26}{calls:>12.2}{bytes:>16.0}{mean:>14.2}{most:>14.2}{share:>11.1}", phase.name());
        for (place, cause) in Cause::ALL.into_iter().enumerate() {
            let of = |spent: &Spent| spent.causes.get(phase.index()).map_or(Span::ZERO, |causes| causes[place]).as_us_f64() / each;
            let us = spent.iter().map(of).sum::<f64>() / ranks;
            if us > 0.0 && phase != Phase::Compute {
                spending.push(Spending { call: phase.name(), cause: cause.name(), us });
            }
        }
        point(phase.name(), "us", mean);
    }
    let _ = writeln!(text, "{:<26}{:>12}{:>16}{:>14}{iteration:>14.2}{:>11.1}", "Iteration", "", "", "", 100.0);
    point("iteration", "us", iteration);
    let seconds = iteration * 1e-6 * whole.iterations as f64;
    let _ = writeln!(text, "# Whole run: {} iterations, {seconds:.4} s", whole.iterations);
    point("run", "s", seconds);
    if let Some((ends, span)) = plan.connecting {
        let all = seconds + span.as_us_f64() * 1e-6;
        let _ = writeln!(text, "# Connections made on first use: {ends} ends on a node, {span}; with them {all:.4} s");
        point("run and connections", "s", all);
    }
    if let Some(Checkpoint { every, bytes, seconds: each }) = plan.common.checkpoint {
        // The state after the last iteration is the result.
        let count = (whole.iterations.max(1) - 1) / every;
        let all = seconds + each * count as f64;
        let share = if all > 0.0 { 100.0 * (all - seconds) / all } else { 0.0 };
        let _ = writeln!(
            text,
            "# Checkpoints of {bytes} after every {every} iterations: {count} of {each:.4} s; with them {all:.4} s, {share:.1} % of it"
        );
        // A run may be shorter than the interval.
        let period = iteration * 1e-6 * every as f64;
        let _ = writeln!(text, "# In the long run they take {:.1} % of the time", 100.0 * each / (each + period).max(f64::MIN_POSITIVE));
        point("checkpoint", "s", each);
        point("run and checkpoints", "s", all);
    }
    if let Some(merit) = whole.merit.filter(|_| iteration > 0.0) {
        let value = merit.work / (iteration * 1e-6);
        let _ = writeln!(text, "# {}: {value:.5e} {}", merit.name, merit.unit);
        point(merit.name, merit.unit, value);
    }
    let (ranks, threads) = (layout.ranks(), plan.common.threads);
    if seconds > 0.0 {
        text += &plan.program.log(&Ran { ranks, threads, seconds, iterations: whole.iterations, calls: run_calls });
    }
    ToolOutput { text, points, spending, remarks: remarks(plan), ..ToolOutput::default() }
}

/// A line for each operation and algorithm: `allreduce of 512 ranks: recursive_doubling at 8 bytes`.
fn remarks(plan: &Plan) -> Vec<String> {
    let mut lines: Vec<(String, u64, u64)> = Vec::new();
    for (call, algorithm) in plan.algorithms() {
        let line = format!("{} of {} ranks: {algorithm}", call.operation.word(), call.ranks);
        match lines.last_mut() {
            Some((last, _, end)) if *last == line => *end = call.size.0,
            _ => lines.push((line, call.size.0, call.size.0)),
        }
    }
    let line =
        |(line, first, end)| if first == end { format!("{line} at {first} bytes") } else { format!("{line} at {first} to {end} bytes") };
    let handed = plan.workers.as_ref().map(|(settings, _)| format!("what goes on beside computation: {settings}"));
    handed.into_iter().chain(lines.into_iter().map(line)).collect()
}

/// A number as C prints it with `%e`: `1.587270e+08`.
pub(crate) fn exponential(value: f64) -> String {
    let text = format!("{value:.6e}");
    match text.split_once('e') {
        Some((digits, power)) => {
            let (sign, power) = power.strip_prefix('-').map_or(('+', power), |power| ('-', power));
            format!("{digits}e{sign}{power:0>2}")
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::exponential;

    #[test]
    fn exponents_have_a_sign_and_two_digits() {
        assert_eq!([158_727_000.0, 0.5].map(exponential), ["1.587270e+08", "5.000000e-01"]);
    }
}
