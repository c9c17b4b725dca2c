//! Whether a run is steady: each message under way keeps its rate, and what is on its way stays as much.
//!
//! Source: the idea of steady flows whose packets need not be simulated is that of Wormhole (arXiv 2602.10615); the test is our own.
//! Modelled: points in time at equal distances (windows). With n packets sent in a window by a message whose adapter's
//! link was busy up to a and b at its ends, its rate there is n / (b - a): exact where the link or a pace sets it, whatever
//! the phase of the window. A run is steady when over [`WINDOWS`] windows in a row
//! - the messages are the same, and none is being repeated, nothing lost or trimmed;
//! - of each message the rate in every window is that over all of them, within [`ALIKE`] or [`PACKETS`] packets (of one message in
//!   [`EXCEPT`] within the [`FAR`]-fold of both);
//! - bytes on their way at the first and the last point differ by no more than [`ALIKE`] of what was sent, or half a packet a message;
//! - congestion control allows the same at all points within [`ALIKE`], and waits for no time at which it would allow more.
//!
//! Messages whose rates differ by less than can be measured are given the rate that they have together.
//! Not modelled: states that repeat with a period longer than a window; windows are doubled up to [`MOST_DOUBLED`] times to find them.

use std::collections::VecDeque;

use fabriscope_engine::{Stats, Unsteady};
use fabriscope_units::{Span, Time};

/// A message at a point in time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FlowPoint {
    /// The operation, and the number of its first packet.
    pub op: u32,
    pub first: u32,
    pub sent: u32,
    pub unsent: u32,
    /// Up to when the link of its adapter is taken.
    pub at: Time,
    /// What congestion control allows: bytes, bits per second.
    pub allowed: Option<(u64, u64)>,
}

/// A run at a point in time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Point {
    pub flows: Vec<FlowPoint>,
    pub stats: Stats,
    /// Why the present state cannot be steady, whatever comes.
    pub trouble: Option<Unsteady>,
}

/// Packets sent in a span, of one message or of several together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pace {
    pub packets: u64,
    pub span: u64,
}

impl Pace {
    /// Packets in `span`, to the nearest.
    pub fn packets_in(&self, span: Span) -> u64 {
        let (packets, own) = (u128::from(self.packets), u128::from(self.span.max(1)));
        ((packets * u128::from(span.as_ps()) * 2 + own) / (2 * own)) as u64
    }
    /// The time that `packets` take, rounded down.
    pub fn time_of(&self, packets: u64) -> Span {
        if self.packets == 0 {
            return Span::MAX;
        }
        let time = u128::from(packets) * u128::from(self.span) / u128::from(self.packets);
        Span::from_ps(u64::try_from(time).unwrap_or(u64::MAX))
    }
    fn rate(&self) -> f64 {
        self.packets as f64 / self.span.max(1) as f64
    }
}

/// What a look at a point says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Verdict {
    /// There are too few windows yet.
    Wait,
    Unsteady(Unsteady),
    /// The pace of each message of the last point.
    Steady(Vec<Pace>),
}

/// The last windows of a run.
#[derive(Debug)]
pub(crate) struct Steadiness {
    points: VecDeque<Point>,
    least: Span,
    window: Span,
    misses: u32,
    /// Payload of a full packet.
    mtu: u64,
}

impl Steadiness {
    /// Windows of `least` at first.
    pub fn new(least: Span, mtu: u64) -> Steadiness {
        Steadiness { points: VecDeque::new(), least, window: least, misses: 0, mtu }
    }

    /// The length of a window now.
    pub fn window(&self) -> Span {
        self.window
    }

    /// A message began or ended: what was before says nothing any more.
    pub fn begin(&mut self) {
        self.points.clear();
        (self.window, self.misses) = (self.least, 0);
    }

    /// The first and the last of the points that were found steady.
    pub fn ends(&self) -> Option<(&Point, &Point)> {
        Some((self.points.front()?, self.points.back()?))
    }

    /// One more point, a window after the one before.
    pub fn look(&mut self, point: Point) -> Verdict {
        let same = self.points.back().is_none_or(|last| alike(&last.flows, &point.flows));
        if !same {
            self.points.clear();
        }
        self.points.push_back(point);
        if self.points.len() <= WINDOWS {
            return Verdict::Wait;
        }
        if self.points.len() > WINDOWS + 1 {
            self.points.pop_front();
        }
        match self.judge() {
            Ok(paces) => Verdict::Steady(paces),
            Err(reason) => {
                self.misses += 1;
                let longer = reason == Unsteady::Few || self.misses >= PATIENCE;
                if longer && self.window < self.least * (1 << MOST_DOUBLED) {
                    self.window = self.window * 2;
                    self.misses = 0;
                    // Windows of one length are compared with each other only.
                    let last = self.points.pop_back();
                    self.points.clear();
                    self.points.extend(last);
                }
                Verdict::Unsteady(reason)
            }
        }
    }

    fn judge(&self) -> Result<Vec<Pace>, Unsteady> {
        let (Some(first), Some(last)) = (self.points.front(), self.points.back()) else { return Err(Unsteady::Few) };
        if let Some(trouble) = self.points.iter().find_map(|point| point.trouble) {
            return Err(trouble);
        }
        let lost = |stats: &Stats| stats.drops + stats.trims + stats.link_retries;
        if lost(&first.stats) != lost(&last.stats) {
            return Err(Unsteady::Losses);
        }
        self.control(first)?;
        let paces = self.rates(first, last)?;
        let flying = |stats: &Stats| stats.bytes_sent.saturating_sub(stats.bytes_delivered);
        let grown = flying(&last.stats).abs_diff(flying(&first.stats));
        let sent = last.stats.bytes_sent - first.stats.bytes_sent;
        if grown as f64 > (ALIKE * sent as f64).max(self.mtu as f64 * (last.flows.len() as f64 / 2.0).max(2.0)) {
            return Err(Unsteady::Queues);
        }
        Ok(together(&paces))
    }

    /// Whether congestion control allowed the same all the time.
    fn control(&self, first: &Point) -> Result<(), Unsteady> {
        let near = |a: u64, b: u64| a.abs_diff(b) as f64 <= ALIKE * a as f64;
        for point in self.points.iter().skip(1) {
            for (flow, before) in point.flows.iter().zip(&first.flows) {
                let same = match (flow.allowed, before.allowed) {
                    (Some(now), Some(then)) => near(now.0, then.0) && near(now.1, then.1),
                    (now, then) => now == then,
                };
                if !same {
                    return Err(Unsteady::Control);
                }
            }
        }
        Ok(())
    }

    /// The pace of each message over all windows, if it was the same in each.
    fn rates(&self, first: &Point, last: &Point) -> Result<Vec<Pace>, Unsteady> {
        let mut odd = 0;
        let mut paces = Vec::with_capacity(last.flows.len());
        for at in 0..last.flows.len() {
            let all = pace(&first.flows[at], &last.flows[at]);
            if all.packets < FEWEST * WINDOWS as u64 {
                return Err(Unsteady::Few);
            }
            let windows = self.points.iter().zip(self.points.iter().skip(1));
            let mut off: f64 = 0.0;
            for (from, to) in windows {
                let one = pace(&from.flows[at], &to.flows[at]);
                let due = all.rate() * one.span as f64;
                off = off.max((one.packets as f64 - due).abs() / (ALIKE * due).max(PACKETS));
            }
            if off > FAR {
                return Err(Unsteady::Rates);
            }
            odd += usize::from(off > 1.0);
            paces.push(all);
        }
        if odd * EXCEPT > paces.len() { Err(Unsteady::Rates) } else { Ok(paces) }
    }
}

/// Whether these are the same messages.
fn alike(before: &[FlowPoint], now: &[FlowPoint]) -> bool {
    before.len() == now.len() && before.iter().zip(now).all(|(before, now)| (before.op, before.first) == (now.op, now.first))
}

fn pace(from: &FlowPoint, to: &FlowPoint) -> Pace {
    Pace { packets: u64::from(to.sent.saturating_sub(from.sent)), span: to.at.since(from.at).as_ps() }
}

/// Gives messages whose rates differ by less than can be measured the rate that they have together.
fn together(paces: &[Pace]) -> Vec<Pace> {
    let mut order: Vec<usize> = (0..paces.len()).collect();
    order.sort_by(|a, b| paces[*a].rate().total_cmp(&paces[*b].rate()).then(a.cmp(b)));
    let mut shared = paces.to_vec();
    let mut from = 0;
    while from < order.len() {
        let slowest = paces[order[from]];
        let most = slowest.rate() * (1.0 + (ALIKE / 2.0).max(PACKETS / slowest.packets.max(1) as f64));
        let to = from + order[from..].partition_point(|flow| paces[*flow].rate() <= most);
        let sum = order[from..to].iter().fold(Pace { packets: 0, span: 0 }, |sum, flow| Pace {
            packets: sum.packets + paces[*flow].packets,
            span: sum.span + paces[*flow].span,
        });
        order[from..to].iter().for_each(|flow| shared[*flow] = sum);
        from = to.max(from + 1);
    }
    shared
}

/// Windows that have to agree.
pub(crate) const WINDOWS: usize = 3;
/// By how much rates may differ from window to window. Basis: the error that a skipped run may have.
const ALIKE: f64 = 0.01;
/// By how many packets they may: a window cuts a packet at both ends.
const PACKETS: f64 = 1.5;
/// One message in so many may differ by [`FAR`] times as much: chance has tails.
const EXCEPT: usize = 20;
const FAR: f64 = 4.0;
/// Packets that a message has to send in a window for its rate to be known. Basis: assumed.
const FEWEST: u64 = 16;
/// Windows that are not steady before they are made longer, and how often that is done.
const PATIENCE: u32 = 4;
const MOST_DOUBLED: u32 = 5;
