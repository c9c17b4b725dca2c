//! Whether a run is steady: each message that is being sent keeps its rate, and what is on its way stays as much.
//!
//! Source: that steady states are found by rates is the idea of Wormhole (NSDI 2026, arXiv 2602.10615); the criteria are our own.
//! Modelled: points in time at equal distances (windows). With n packets sent in a window by a message whose adapter's
//! link was busy up to a and b at its ends, its rate there is n / (b - a): exact where the link or a pace sets it, whatever
//! the phase of the window. A run is steady when over [`WINDOWS`] windows in a row
//! - the messages are the same, and none is being repeated, nothing lost or trimmed;
//! - of each message the rate in every window is that over all of them, within [`ALIKE`] or [`PACKETS`] packets (of one message in
//!   [`EXCEPT`] within the [`FAR`]-fold of both);
//! - bytes on their way at the first and the last point differ by no more than [`ALIKE`] of what was sent, or half a packet a message;
//! - congestion control allows the same at all points within [`ALIKE`], neither more in every window nor less, and waits for no time at
//!   which it would allow more.
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
        let drifts = (0..first.flows.len()).any(|at| self.drifts(at, |(window, _)| window) || self.drifts(at, |(_, rate)| rate));
        if drifts { Err(Unsteady::Control) } else { Ok(()) }
    }

    /// Whether what a message is allowed grew, or shrank, in every window: so little that windows look alike, and for how long nobody
    /// knows.
    fn drifts(&self, at: usize, of: impl Fn((u64, u64)) -> u64) -> bool {
        let allowed = |point: &Point| point.flows[at].allowed.map_or(0, &of);
        let pairs = || self.points.iter().zip(self.points.iter().skip(1)).map(|(from, to)| (allowed(from), allowed(to)));
        pairs().all(|(from, to)| from < to) || pairs().all(|(from, to)| from > to)
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
        let most = slowest.rate() * (1.0 + (ALIKE / 2.0).max(2.0 * PACKETS / slowest.packets.max(1) as f64));
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

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Span = Span::from_us(10);

    /// Points of messages that sent so many packets in each window; the link of each is taken as long as that takes.
    fn looks(steadiness: &mut Steadiness, counts: &[[u32; 4]], change: impl Fn(usize, &mut Point)) -> Verdict {
        let mut verdict = Verdict::Wait;
        for at in 0..=4 {
            let flow = |(op, counts): (usize, &[u32; 4])| FlowPoint {
                op: op as u32,
                first: 0,
                sent: counts[..at].iter().sum(),
                unsent: 1_000_000,
                at: Time::ZERO + WINDOW * at as u64,
                allowed: None,
            };
            let bytes = counts.iter().map(|counts| u64::from(counts[..at].iter().sum::<u32>()) * 4096).sum();
            let stats = Stats { bytes_sent: bytes + 100_000, bytes_delivered: bytes, ..Stats::default() };
            let mut point = Point { flows: counts.iter().enumerate().map(flow).collect(), stats, trouble: None };
            change(at, &mut point);
            let one = steadiness.look(point);
            assert!(at >= 3 || one == Verdict::Wait, "three windows have to agree");
            verdict = if one == Verdict::Wait { verdict } else { one };
        }
        verdict
    }

    fn of(counts: &[[u32; 4]], change: impl Fn(usize, &mut Point)) -> Verdict {
        looks(&mut Steadiness::new(WINDOW, 4096), counts, change)
    }

    #[test]
    fn equal_windows_are_steady_and_give_the_pace() {
        let Verdict::Steady(paces) = of(&[[100; 4], [50; 4]], |_, _| {}) else { panic!("they are equal") };
        let [fast, slow] = paces[..] else { panic!("two messages") };
        // 300 packets in three windows of 10 us: 1,000 in 100 us, and half as many.
        assert_eq!((fast.packets_in(Span::from_us(100)), slow.packets_in(Span::from_us(100))), (1000, 500));
        assert_eq!(fast.time_of(1000), Span::from_us(100));
        assert_eq!(Pace { packets: 0, span: 0 }.time_of(1), Span::MAX);
    }

    #[test]
    fn rates_that_differ_by_a_packet_are_one_rate() {
        let Verdict::Steady(paces) = of(&[[100, 100, 101, 100], [100; 4], [100, 99, 100, 100]], |_, _| {}) else { panic!("near enough") };
        assert!(paces.iter().all(|pace| *pace == paces[0]), "{paces:?}");
        assert_eq!(paces[0].packets, 900);
    }

    #[test]
    fn what_changes_is_not_steady() {
        let flat = [[100; 4], [100; 4]];
        assert_eq!(of(&[[100; 4], [100, 100, 90, 110]], |_, _| {}), Verdict::Unsteady(Unsteady::Rates));
        assert_eq!(of(&[[100; 4], [8; 4]], |_, _| {}), Verdict::Unsteady(Unsteady::Few));
        let grows = |at: usize, point: &mut Point| point.stats.bytes_sent += 20_000 * at as u64;
        assert_eq!(of(&flat, grows), Verdict::Unsteady(Unsteady::Queues));
        let loses = |at: usize, point: &mut Point| point.stats.drops += at as u64;
        assert_eq!(of(&flat, loses), Verdict::Unsteady(Unsteady::Losses));
        let reads = |at: usize, point: &mut Point| point.trouble = (at == 3).then_some(Unsteady::Messages);
        assert_eq!(of(&flat, reads), Verdict::Unsteady(Unsteady::Messages));
    }

    #[test]
    fn drifts_of_congestion_control_are_not_steady() {
        let flat = [[100; 4]];
        let rate = |rate: fn(u64) -> u64| move |at: usize, point: &mut Point| point.flows[0].allowed = Some((1 << 20, rate(at as u64)));
        assert!(matches!(of(&flat, rate(|_| 1_000_000)), Verdict::Steady(_)));
        assert_eq!(of(&flat, rate(|at| 1_000_000 + 100 * at)), Verdict::Unsteady(Unsteady::Control), "a little more each time");
        assert!(matches!(of(&flat, rate(|at| 1_000_000 + 100 * (at % 2))), Verdict::Steady(_)), "to and fro");
        assert_eq!(of(&flat, rate(|at| 1_000_000 - 100_000 * (at % 2))), Verdict::Unsteady(Unsteady::Control));
    }

    #[test]
    fn windows_grow_where_they_do_not_agree_and_begin_anew() {
        let mut steadiness = Steadiness::new(WINDOW, 4096);
        for _ in 0..4 {
            looks_off(&mut steadiness);
        }
        assert!(steadiness.window() > WINDOW, "{}", steadiness.window());
        steadiness.begin();
        assert_eq!((steadiness.window(), steadiness.ends().is_none()), (WINDOW, true));
    }

    fn looks_off(steadiness: &mut Steadiness) {
        for at in 0..8u32 {
            let flow = FlowPoint {
                op: 0,
                first: 0,
                sent: at * 100 + 40 * (at % 2),
                unsent: 9,
                at: Time::ZERO + WINDOW * u64::from(at),
                allowed: None,
            };
            let _ = steadiness.look(Point { flows: vec![flow], ..Point::default() });
        }
    }
}
