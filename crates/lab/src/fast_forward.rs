//! What a run left out of its steady states, told to a person, and how far it lies from a run of every packet.

use fabriscope_engine::{Run, Skipped};
use fabriscope_report::Outcome;
use fabriscope_schedule::{OpKind, Schedule};
use fabriscope_units::{Bytes, Span, Time};
use serde_json::json;

/// Whether steady states are left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Forwarding {
    /// As the lab says.
    #[default]
    AsSaid,
    /// They are.
    Steady,
    /// They are, and every packet is simulated as well.
    Check,
}

/// How far a run that left steady states out lies from the same run packet by packet.
#[derive(Debug, Clone, PartialEq)]
pub struct Deviation {
    /// How far the time that each message took is off, as a share of what it took packet by packet; sorted.
    messages: Vec<f64>,
    /// When both ended: packet by packet, and with what was left out.
    ends: (Time, Time),
    /// Events of both.
    events: (u64, u64),
}

impl Deviation {
    /// Compares the messages of `schedule` in both runs.
    #[must_use]
    pub fn of(schedule: &Schedule, exact: &Run, run: &Run) -> Deviation {
        let kinds = (0..schedule.ranks()).flat_map(|rank| schedule.kinds(rank));
        let pairs = kinds.zip(exact.ops.iter().zip(&run.ops));
        let sent = pairs.filter(|(kind, _)| matches!(kind, OpKind::Send { .. } | OpKind::Put { .. } | OpKind::Get { .. }));
        let off = sent.map(|(_, (exact, run))| {
            let took = |times: &fabriscope_engine::OpTimes| times.ended.since(times.started).as_ps();
            took(exact).abs_diff(took(run)) as f64 / took(exact).max(1) as f64
        });
        let mut messages: Vec<f64> = off.collect();
        messages.sort_unstable_by(f64::total_cmp);
        Deviation { messages, ends: (exact.end, run.end), events: (exact.stats.events, run.stats.events) }
    }

    /// The share `rank` of all messages is off by no more [%].
    fn percent(&self, rank: f64) -> f64 {
        let last = self.messages.len().saturating_sub(1);
        self.messages.get((last as f64 * rank).ceil() as usize).copied().unwrap_or(0.0) * 100.0
    }

    /// How many times fewer events there were.
    fn gain(&self) -> f64 {
        self.events.0 as f64 / self.events.1.max(1) as f64
    }

    /// Adds it to an outcome.
    pub(crate) fn tell(&self, outcome: &mut Outcome) {
        let us = |time: Time| (time - Time::ZERO).as_us_f64();
        let (median, most, worst) = (self.percent(0.5), self.percent(0.99), self.percent(1.0));
        outcome.note(format!(
            "check: {} messages took as long as packet by packet within {median:.3} % (median), {most:.3} % (99 of 100), {worst:.3} % (all)",
            self.messages.len()
        ));
        let (exact, run) = self.ends;
        outcome.note(format!(
            "check: the run ended after {:.3} us, packet by packet after {:.3} us; {} events instead of {}, {:.1} times fewer",
            us(run),
            us(exact),
            self.events.1,
            self.events.0,
            self.gain()
        ));
        outcome.set(
            "fast_forward_check",
            json!({
                "messages": self.messages.len(),
                "median_percent": median,
                "p99_percent": most,
                "worst_percent": worst,
                "exact_end_ps": exact.as_ps(),
                "end_ps": run.as_ps(),
                "exact_events": self.events.0,
                "events": self.events.1,
            }),
        );
    }
}

/// Adds to an outcome what a run left out, or why it left out nothing.
pub(crate) fn tell(skipped: &Skipped, run: &Run, mtu: Bytes, outcome: &mut Outcome) {
    let share = 100.0 * skipped.packets.saturating_mul(mtu.0) as f64 / run.stats.bytes_sent.max(1) as f64;
    let all = run.end - Time::ZERO;
    let unsteady: u64 = skipped.unsteady.iter().map(|(_, count)| count).sum();
    outcome.note(match (&skipped.refused, skipped.jumps) {
        (Some(why), _) => format!("fast forward: every packet was simulated: {why}"),
        (None, 0) if skipped.windows == 0 => {
            "fast forward: every packet was simulated: messages are too short to have a steady state".to_owned()
        }
        (None, 0) => "fast forward: every packet was simulated: no steady state was found, or none that is longer than a window".to_owned(),
        (None, jumps) => {
            let span = |span: Span| span.as_us_f64();
            let times = if jumps == 1 { "once" } else { "times" };
            let count = if jumps == 1 { String::new() } else { format!("{jumps} ") };
            format!(
                "fast forward: {count}{times} steady, {:.3} of {:.3} us and {share:.2} % of the payload were left out",
                span(skipped.span),
                span(all)
            )
        }
    });
    if unsteady > 0 {
        let reasons: Vec<String> = skipped.unsteady.iter().map(|(reason, count)| format!("{reason} ({count})")).collect();
        outcome.note(format!("fast forward: {unsteady} of {} windows were not steady: {}", skipped.windows, reasons.join(", ")));
    }
    outcome.set(
        "fast_forward",
        json!({
            "jumps": skipped.jumps,
            "skipped_ps": skipped.span.as_ps(),
            "skipped_packets": skipped.packets,
            "windows": skipped.windows,
            "unsteady": skipped.unsteady.iter().map(|(reason, count)| json!({ "reason": reason.to_string(), "windows": count })).collect::<Vec<_>>(),
            "refused": skipped.refused,
        }),
    );
}

#[cfg(test)]
mod tests {
    use fabriscope_engine::{OpTimes, Stats};
    use fabriscope_schedule::Builder;

    use super::*;

    fn run(ends: [u64; 3], events: u64) -> Run {
        let op = |end: u64| OpTimes { started: Time::from_ps(1000), ended: Time::from_ps(1000 + end) };
        Run { ops: ends.map(op).to_vec(), end: Time::from_ps(ends[2]), stats: Stats { events, ..Stats::default() }, ..Run::default() }
    }

    #[test]
    fn messages_are_compared_and_receives_are_not() {
        let mut builder = Builder::new(2);
        builder.send(0, 1, Bytes(1), 0);
        builder.put(0, 1, Bytes(1));
        builder.recv(1, 0, Bytes(1), 0);
        let schedule = builder.build().unwrap();
        let deviation = Deviation::of(&schedule, &run([1000, 2000, 500], 80), &run([1010, 1900, 5], 20));
        assert_eq!(deviation.messages, [0.01, 0.05]);
        assert_eq!((deviation.percent(1.0), deviation.gain()), (5.0, 4.0));
    }
}
