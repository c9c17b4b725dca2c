//! From time stamps to the numbers perftest prints.
//!
//! Source: perftest 6.29 behaviour (format: docs/formats.md).
//! Modelled: latencies from the times between posts, sorted; the average, the median and the deviation leave the two
//! longest out and `t_max` is the longest but one; the deviation goes through whole microseconds as in the tool;
//! the peak bandwidth is the best rate between any post and any later completion.
//! Not modelled: CPU cycles; times are picoseconds.

use fabriscope_units::{Bytes, Span, Time};

use crate::repeats;

/// Time stamps of one measurement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stamps {
    /// When each message was posted; without a peak to find, the first alone.
    pub posted: Vec<Time>,
    /// Messages covered by each completion and those before, and when it was polled; without a peak, the last alone.
    pub completed: Vec<(u64, Time)>,
}

impl Stamps {
    /// Whether the exchanges before the last took as long as each other.
    pub(crate) fn are_alike(&self, size: u32) -> bool {
        let from = self.posted.len().saturating_sub(LOOKED_AT);
        exchanges(&self.posted[from..]).split_last().is_some_and(|(_, before)| repeats::are_alike(before, Bytes(size.into())))
    }
    /// As if posts had gone on like that, `messages` in all.
    pub(crate) fn repeat(&mut self, messages: u64, size: u32) {
        let (Some(&first), true) = (self.posted.first(), (self.posted.len() as u64) < messages) else { return };
        let mut spans = exchanges(&self.posted);
        repeats::extend(&mut spans, messages as usize - 1, Bytes(size.into()));
        let times = spans.into_iter().scan(first, |at, span| {
            *at += span;
            Some(*at)
        });
        self.posted = std::iter::once(first).chain(times).collect();
    }
}

/// One row of a latency table, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencyRow {
    /// Message size in bytes.
    pub size: u32,
    /// Exchanges.
    pub iterations: u64,
    /// Shortest.
    pub min: f64,
    /// Longest but one.
    pub max: f64,
    /// Median.
    pub typical: f64,
    /// Mean.
    pub average: f64,
    /// Standard deviation.
    pub deviation: f64,
    /// 99th percentile.
    pub percentile_99: f64,
    /// 99.9th percentile.
    pub percentile_99_9: f64,
}

/// One row of a latency table under `-D`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencyDurationRow {
    /// Message size in bytes.
    pub size: u32,
    /// Exchanges counted.
    pub iterations: u64,
    /// Mean in microseconds.
    pub average: f64,
    /// Exchanges per second.
    pub per_second: f64,
}

/// One row of a bandwidth table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BandwidthRow {
    /// Message size in bytes.
    pub size: u32,
    /// Messages counted.
    pub iterations: u64,
    /// Best interval, in bytes per second.
    pub peak: f64,
    /// Whole measurement, in bytes per second.
    pub average: f64,
    /// Millions of messages per second.
    pub message_rate: f64,
}

/// Times between successive posts: the exchanges of a latency test, in order.
pub fn exchanges(posted: &[Time]) -> Vec<Span> {
    posted.windows(2).map(|pair| pair[1].since(pair[0])).collect()
}

/// The row of a latency test; `parts` is 2 where an exchange is two messages.
///
/// A measurement of fewer than five exchanges has no row; the tool asks for five.
pub fn latency(size: u32, posted: &[Time], parts: f64) -> Option<LatencyRow> {
    if posted.len() < 5 {
        return None;
    }
    let mut sorted = exchanges(posted);
    sorted.sort_unstable();
    let counted = sorted.len() - TAIL;
    let micros = |at: usize| sorted[at].as_us_f64() / parts;
    let median = if counted.is_multiple_of(2) { (sorted[counted / 2] + sorted[counted / 2 - 1]) / 2 } else { sorted[counted / 2] };
    let average = (0..counted).map(micros).sum::<f64>() / counted as f64;
    let squares = (0..counted).map(|at| (average - micros(at)) as i64).map(|whole| (whole * whole) as f64).sum::<f64>();
    let percentile = |share: f64| micros((counted as f64 * share).ceil() as usize);
    Some(LatencyRow {
        size,
        iterations: posted.len() as u64,
        min: micros(0),
        max: micros(counted),
        typical: median.as_us_f64() / parts,
        average,
        deviation: (squares / counted as f64).sqrt(),
        percentile_99: percentile(0.99),
        percentile_99_9: percentile(0.999),
    })
}

/// The row of a bandwidth test with a number of iterations.
///
/// `list` is the number of messages per post. Without `peak` that column is zero.
pub fn bandwidth(size: u32, stamps: &Stamps, list: usize, peak: bool) -> Option<BandwidthRow> {
    let (messages, last) = *stamps.completed.last()?;
    let seconds = last.since(*stamps.posted.first()?).as_s_f64();
    if seconds <= 0.0 {
        return None;
    }
    let best = if peak { peak_rate(size, stamps, list) } else { 0.0 };
    let rate = messages as f64 / seconds;
    Some(BandwidthRow { size, iterations: messages, peak: best, average: rate * f64::from(size), message_rate: rate / 1e6 })
}

/// The row of a bandwidth test that counted `messages` in `window`.
pub fn bandwidth_by_duration(size: u32, messages: u64, window: Span) -> BandwidthRow {
    let rate = messages as f64 / window.as_s_f64();
    BandwidthRow { size, iterations: messages, peak: 0.0, average: rate * f64::from(size), message_rate: rate / 1e6 }
}

/// Two directions measured at once: what the tool prints for `-b`.
pub fn both_ways(mine: BandwidthRow, theirs: BandwidthRow) -> BandwidthRow {
    BandwidthRow {
        peak: mine.peak + theirs.peak,
        average: mine.average + theirs.average,
        message_rate: mine.message_rate + theirs.message_rate,
        ..mine
    }
}

/// Best rate in bytes per second from any post to any completion after it.
///
/// The tool compares all pairs. Here the shortest time per message is searched as the least ratio of two sums (Dinkelbach, 1967): with a ratio
/// in hand, one pass finds the pair that falls below it by most, whose ratio is the next one. A few passes reach the least.
fn peak_rate(size: u32, stamps: &Stamps, list: usize) -> f64 {
    let posts = || stamps.posted.iter().enumerate().step_by(list.max(1)).map(|(before, at)| (before as i128, i128::from(at.as_ps())));
    let completions = || stamps.completed.iter().map(|(through, at)| (i128::from(*through), i128::from(at.as_ps())));
    // Time and messages of the pair in hand; at first a rate that every pair exceeds.
    let mut best: (i128, i128) = (i128::from(u64::MAX), 1);
    let mut found = false;
    loop {
        let (time, messages) = best;
        let mut earlier = posts().peekable();
        // Of the posts before a completion, the one from which the ratio is least.
        let mut start: Option<(i128, (i128, i128))> = None;
        let mut least = (0, best);
        for (through, completed) in completions() {
            while let Some((before, posted)) = earlier.next_if(|(before, _)| *before < through) {
                let gain = posted * messages - before * time;
                if start.is_none_or(|(most, _)| gain > most) {
                    start = Some((gain, (before, posted)));
                }
            }
            let Some((gain, (before, posted))) = start.filter(|(_, (_, posted))| completed > *posted) else { continue };
            let falls = completed * messages - through * time - gain;
            if falls < least.0 {
                least = (falls, (completed - posted, through - before));
            }
        }
        if least.0 == 0 {
            break;
        }
        (best, found) = (least.1, true);
    }
    if !found {
        return 0.0;
    }
    f64::from(size) / (Span::from_ps(best.0 as u64).as_s_f64() / best.1 as f64)
}

/// Posts that are looked at: those of the exchanges that have to be alike, and of the last.
const LOOKED_AT: usize = repeats::ALIKE + 2;
/// Samples left out at the long end (basis: the tool).
const TAIL: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn times(gaps_ns: &[u64]) -> Vec<Time> {
        let mut at = Time::ZERO;
        let mut times = vec![at];
        for gap in gaps_ns {
            at += Span::from_ns(*gap);
            times.push(at);
        }
        times
    }

    #[test]
    fn latency_leaves_the_two_longest_out() {
        // Exchanges 2, 4, 6, 8, 100, 200 us; halved: 1, 2, 3, 4, 50, 100. Counted: the first four.
        let row = latency(2, &times(&[8000, 200_000, 2000, 6000, 100_000, 4000]), 2.0).unwrap();
        assert_eq!((row.min, row.max, row.typical, row.average), (1.0, 50.0, 2.5, 2.5));
        // Deviations 1.5, 0.5, -0.5, -1.5 become 1, 0, 0, -1 whole microseconds: sqrt(2 / 4).
        assert_eq!(row.deviation, 0.5f64.sqrt());
        // ceil(4 · 0.99) = 4: the fifth sample.
        assert_eq!((row.percentile_99, row.percentile_99_9, row.iterations), (50.0, 50.0, 7));
        assert_eq!(latency(2, &times(&[1, 1]), 2.0), None);
    }

    #[test]
    fn a_one_sided_exchange_counts_whole() {
        let row = latency(2, &times(&[2000; 10]), 1.0).unwrap();
        assert_eq!((row.min, row.max, row.typical, row.deviation), (2.0, 2.0, 2.0, 0.0));
    }

    #[test]
    fn bandwidth_counts_from_the_first_post_to_the_last_completion() {
        // Four messages of 1000 B, posts at 0, 100, 200, 300 ns, completions of pairs at 1000 and 2000 ns.
        let ns = |n: u64| Time::from_ps(n * 1000);
        let posted = vec![ns(0), ns(100), ns(200), ns(300)];
        let stamps = Stamps { posted, completed: vec![(2, ns(1000)), (4, ns(2000))] };
        let row = bandwidth(1000, &stamps, 1, true).unwrap();
        // 4 · 1000 B / 2 us = 2 GB/s, 2 M messages/s.
        assert!((row.average - 2e9).abs() < 1.0 && (row.message_rate - 2.0).abs() < 1e-9, "{row:?}");
        // Best of (1000-0)/2, (1000-100)/1, (2000-0)/4, (2000-100)/3, (2000-200)/2, 1700: 500 ns per message.
        assert!((row.peak - 2e9).abs() < 1.0, "{row:?}");
        assert_eq!(bandwidth(1000, &stamps, 1, false).unwrap().peak, 0.0);
        assert_eq!(both_ways(row, row).average, 2.0 * row.average);
        assert_eq!(bandwidth(1000, &Stamps::default(), 1, true), None);
    }

    /// The least of all pairs, compared one by one.
    #[test]
    fn the_peak_is_that_of_all_pairs() {
        let mut state = 7_u64;
        let mut random = |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % most
        };
        for messages in [1, 2, 3, 40, 500] {
            let (mut posted, mut completed, mut at) = (Vec::new(), Vec::new(), 0);
            for _ in 0..messages {
                at += random(300);
                posted.push(Time::from_ps(at));
            }
            let mut done = at / 2;
            for through in 1..=messages {
                done = done.max(posted[through as usize - 1].as_ps()) + 1 + random(400);
                completed.push((through, Time::from_ps(done)));
            }
            let pairs = completed.iter().flat_map(|(through, end)| {
                let before = posted.iter().enumerate().filter(move |(before, _)| (*before as u64) < *through);
                before.map(move |(before, begin)| end.since(*begin).as_s_f64() / (through - before as u64) as f64)
            });
            let shortest = pairs.fold(f64::INFINITY, f64::min);
            let peak = peak_rate(1000, &Stamps { posted: posted.clone(), completed: completed.clone() }, 1);
            assert!((peak * shortest / 1000.0 - 1.0).abs() < 1e-12, "{messages}: {peak}, {}", 1000.0 / shortest);
        }
    }

    #[test]
    fn a_duration_counts_messages_in_its_window() {
        let row = bandwidth_by_duration(1000, 3_000_000, Span::from_us(3_000_000));
        assert_eq!((row.average, row.message_rate, row.peak), (1e9, 1.0, 0.0));
    }
}
