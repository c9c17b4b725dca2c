//! Open loop: messages are generated at random times, whether the network takes them or not.
//!
//! Time is cut into slots of the length that a message takes on the link; in each slot every rank generates a message with
//! a probability equal to the offered load (a Bernoulli process, as in Dally and Towles 2004, §23.2). What is measured
//! begins after a warm-up and lasts a window: the throughput that arrives, and the time of messages generated in the
//! window from their generation to the completion of their receive.

use std::collections::BTreeMap;

use fabriscope_schedule::{After, Builder, Schedule};
use fabriscope_streams::Streams;
use fabriscope_units::{Bytes, Span, Time};

use super::{Draw, Pattern, PatternError};

/// An open loop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OpenLoop {
    /// Where messages go.
    pub pattern: Pattern,
    /// Length of every message.
    pub bytes: Bytes,
    /// What a message takes on the link: the length of a slot.
    pub slot: Span,
    /// Probability of a message in a slot [0..1].
    pub load: f64,
    /// Before the measurement.
    pub warm_up: Span,
    /// Length of the measurement. Messages are generated until its end.
    pub window: Span,
}

/// The messages of an open loop: by message its source and its two operations.
#[derive(Debug, Clone, Default)]
pub struct Arrivals {
    /// Sending rank and its send; receiving rank and its receive.
    pub messages: Vec<((u32, u32), (u32, u32))>,
}

/// What an open loop measured.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sample {
    /// Messages generated in the window, in slots of all ranks [0..1].
    pub offered: f64,
    /// Messages received in the window, in slots of all ranks [0..1].
    pub accepted: f64,
    /// Mean time of the messages generated in the window.
    pub mean: Span,
    /// Median.
    pub median: Span,
    /// Of a hundred messages one takes longer.
    pub p99: Span,
    /// Messages generated in the window.
    pub messages: u64,
}

/// The schedule of an open loop: chains of waits, each of which lets a send go.
///
/// # Errors
/// The pattern does not exist among so many ranks; the schedule would be too large.
pub fn open_loop(ranks: u32, config: &OpenLoop, seed: u64) -> Result<(Schedule, Arrivals), PatternError> {
    let mut draw = Draw::new(config.pattern, ranks, seed)?;
    let mut builder = Builder::new(ranks);
    let slots = (config.warm_up + config.window).as_ps() / config.slot.as_ps().max(1);
    // 2³² · load, and never more than certainty.
    let threshold = (config.load.clamp(0.0, 1.0) * 4_294_967_296.0) as u64;
    let streams = Streams::new(seed);
    let mut tags: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    let mut arrivals = Arrivals::default();
    let mut to = Vec::new();
    for rank in 0..ranks {
        let mut stream = streams.stream("open loop", rank.into());
        let (mut last, mut waited) = (None, 0);
        for slot in 0..slots {
            if u64::from(stream.next_u32()) >= threshold {
                continue;
            }
            to.clear();
            draw.receivers(rank, &mut to);
            for &to in &to {
                let wait = builder.compute(rank, Span::from_ps((slot - waited) * config.slot.as_ps()));
                if let Some(last) = last {
                    builder.requires(rank, wait, last);
                }
                (last, waited) = (Some(wait), slot);
                let tag = tags.entry((rank, to)).or_insert(0);
                let send =
                    builder.op_after(rank, fabriscope_schedule::OpKind::Send { to, bytes: config.bytes, tag: *tag }, &[After::End(wait)]);
                let recv = builder.recv(to, rank, config.bytes, *tag);
                *tag += 1;
                arrivals.messages.push(((rank, send.0), (to, recv.0)));
            }
        }
    }
    Ok((builder.build()?, arrivals))
}

impl Arrivals {
    /// What was measured; `started` and `ended` tell when an operation of a rank did.
    pub fn sample(&self, ranks: u32, config: &OpenLoop, started: impl Fn(u32, u32) -> Time, ended: impl Fn(u32, u32) -> Time) -> Sample {
        let window = (Time::ZERO + config.warm_up)..(Time::ZERO + config.warm_up + config.window);
        let (mut received, mut times) = (0u64, Vec::new());
        for &((from, send), (to, recv)) in &self.messages {
            let (generated, arrived) = (started(from, send), ended(to, recv));
            received += u64::from(window.contains(&arrived));
            if window.contains(&generated) {
                times.push(arrived - generated);
            }
        }
        times.sort_unstable();
        let slots = config.window.as_ps() as f64 / config.slot.as_ps().max(1) as f64 * f64::from(ranks);
        let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
        let sum: u128 = times.iter().map(|time| u128::from(time.as_ps())).sum();
        Sample {
            offered: times.len() as f64 / slots,
            accepted: received as f64 / slots,
            mean: Span::from_ps((sum / times.len().max(1) as u128) as u64),
            median: at(50),
            p99: at(99),
            messages: times.len() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offered_load_is_met() {
        let config = OpenLoop {
            pattern: Pattern::Uniform,
            bytes: Bytes(4096),
            slot: Span::from_ns(100),
            load: 0.3,
            warm_up: Span::from_us(10),
            window: Span::from_us(90),
        };
        let (schedule, arrivals) = open_loop(64, &config, 1).unwrap();
        // 64 ranks · 1000 slots · 0.3 = 19,200, give or take five standard deviations of 116.
        assert!((18_600..19_800).contains(&schedule.stats().messages), "{}", schedule.stats().messages);
        // A network that takes no time: everything is received when it is generated.
        let mut at = std::collections::BTreeMap::new();
        for rank in 0..64 {
            let mut clock = Time::ZERO;
            for op in schedule.ops(rank) {
                if let fabriscope_schedule::OpKind::Compute { span } = op.kind {
                    clock += span;
                }
                at.insert((rank, op.id.0), clock);
            }
        }
        let sent: std::collections::BTreeMap<_, _> = arrivals.messages.iter().map(|(send, recv)| (*recv, at[send])).collect();
        let sample = arrivals.sample(64, &config, |rank, op| at[&(rank, op)], |rank, op| sent[&(rank, op)]);
        assert!((sample.offered - 0.3).abs() < 0.01 && (sample.accepted - sample.offered).abs() < 1e-12, "{sample:?}");
        assert_eq!(sample.mean, Span::ZERO);
    }
}
