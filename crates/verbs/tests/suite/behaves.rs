//! Every congestion control reacts to a link that becomes slow, comes back when it is fast again, never stalls, never sends faster
//! than its line and does the same twice.
//!
//! One sender with the control under test, a link whose rate changes, a receiver that acknowledges every packet and gives credit
//! where the control wants any. What the control is told is what its [`Signals`] ask for: marks, notifications, telemetry, delay.
//!
//! ```text
//!   control ── packets ──> link of 100, 10, 100 Gb/s ──> receiver
//!      <───── acknowledgements, notifications, credit ─────┘
//! ```

use crate::algorithms;
use std::collections::VecDeque;

use fabriscope_units::{Bytes, Rate, Span, Time};
use fabriscope_verbs::cc::{
    Algorithm, Allowance, Control, Controller, Credit, Echo, Feedback, Granter, Line, LinkState, Loss, Scheme, Signals,
};

const LINE: Line = Line { rate: Rate::from_gbps(100), base_rtt: Span::from_us(8), mtu: Bytes(4096) };
const SLOW: Rate = Rate::from_gbps(10);
/// What a packet takes of a link and of credit.
const PACKET: Bytes = Bytes(4096 + 128);
/// A queue above this marks packets: a fifth of the bandwidth–delay product of 100 kB.
const MARKING: u64 = 20_000;
/// Packets wait for the slow link at most so long: the buffer of the switch ends there, and trims.
const BUFFER: Span = Span::from_us(2000);

#[derive(Clone, Copy)]
struct Packet {
    left: Time,
    /// At the receiver, and its acknowledgement at the sender.
    at: Time,
    wanted: u32,
    marked: bool,
    trimmed: bool,
    link: LinkState,
}

struct Path {
    signals: Signals,
    control: Controller,
    granter: Option<Granter>,
    now: Time,
    /// When the sender may send next, when the link is free, what it has sent.
    next: Time,
    free: Time,
    link_sent: u64,
    in_flight: u64,
    going: VecDeque<Packet>,
    coming: VecDeque<Packet>,
    credit: VecDeque<(Time, u32)>,
    grants: Option<Time>,
    notified: Option<Time>,
    delivered: u64,
    /// Everything that the control allowed, as it allowed it.
    trace: Vec<(Time, Allowance)>,
}

impl Path {
    fn new(algorithm: &Algorithm) -> Path {
        Path {
            signals: algorithm.signals(),
            control: algorithm.control(LINE),
            granter: algorithm.granter(LINE),
            now: Time::ZERO,
            next: Time::ZERO,
            free: Time::ZERO,
            link_sent: 0,
            in_flight: 0,
            going: VecDeque::new(),
            coming: VecDeque::new(),
            credit: VecDeque::new(),
            grants: None,
            notified: None,
            delivered: 0,
            trace: Vec::new(),
        }
    }

    /// When the sender may send, if its window and its credit let it.
    fn sends(&self) -> Option<Time> {
        let allowance = self.control.allowance();
        let window = self.in_flight == 0 || self.in_flight + PACKET.0 <= allowance.window.0;
        (window && allowance.credit >= PACKET).then_some(self.next.max(self.now))
    }

    /// Runs with a link of this rate until `end`; gives the rate at which packets arrived.
    fn run(&mut self, rate: Rate, end: Time) -> Rate {
        let (begin, before) = (self.now, self.delivered);
        loop {
            let events = [
                self.going.front().map(|packet| packet.at),
                self.coming.front().map(|packet| packet.at),
                self.credit.front().map(|(at, _)| *at),
                self.grants,
                self.control.wakes(),
                self.sends(),
            ];
            let (kind, at) = events
                .into_iter()
                .enumerate()
                .filter_map(|(kind, at)| Some((kind, at?)))
                .min_by_key(|(_, at)| *at)
                .expect("a sender with data never waits for nothing");
            if at > end {
                self.now = end;
                let span = (end - begin).as_ps();
                return Rate::from_bps((u128::from(self.delivered - before) * 8_000_000_000_000 / u128::from(span)) as u64);
            }
            self.now = self.now.max(at);
            match kind {
                0 => self.arrive(),
                1 => self.acknowledge(),
                2 => {
                    let (_, credit) = self.credit.pop_front().unwrap();
                    self.control.granted(credit);
                }
                3 => self.grant(),
                4 => self.control.wake(self.now),
                _ => self.send(rate),
            }
            let allowance = self.control.allowance();
            if self.trace.last().is_none_or(|(_, last)| *last != allowance) {
                self.trace.push((self.now, allowance));
            }
        }
    }

    fn send(&mut self, rate: Rate) {
        let allowance = self.control.allowance();
        self.next = self.next.max(self.now) + allowance.rate.min(LINE.rate).time(PACKET);
        self.control.sent(self.now, PACKET);
        self.in_flight += PACKET.0;
        let start = self.free.max(self.now);
        let waits = start - self.now;
        let queue = (u128::from(rate.as_bps()) * u128::from(waits.as_ps()) / 8_000_000_000_000) as u64;
        // A full buffer keeps the header alone.
        let trimmed = waits > BUFFER;
        let size = if trimmed { Bytes(64) } else { PACKET };
        self.free = start + rate.time(size);
        self.link_sent += size.0;
        let link = LinkState { at: self.free, sent: self.link_sent, queue: Bytes(queue), rate };
        let wanted = self.control.wants(Bytes(1 << 20));
        let marked = queue > MARKING;
        self.going.push_back(Packet { left: self.now, at: self.free + LINE.base_rtt / 2, wanted, marked, trimmed, link });
    }

    fn arrive(&mut self) {
        let packet = self.going.pop_front().unwrap();
        self.delivered += if packet.trimmed { 0 } else { PACKET.0 };
        if let Some(granter) = &mut self.granter {
            self.grants = granter.heard(self.now, 0, packet.wanted).or(self.grants);
        }
        self.coming.push_back(Packet { at: packet.at + LINE.base_rtt / 2, ..packet });
    }

    fn grant(&mut self) {
        let granter = self.granter.as_mut().unwrap();
        let (whom, next) = granter.grant(self.now);
        self.grants = next;
        if whom.is_some() {
            self.credit.push_back((self.now + LINE.base_rtt / 2, granter.granted(0)));
        }
    }

    fn acknowledge(&mut self) {
        let packet = self.coming.pop_front().unwrap();
        self.in_flight -= PACKET.0;
        if packet.trimmed {
            self.control.lost(self.now, Loss::Trimmed);
            return;
        }
        let notify = match self.signals.echo {
            Echo::Notify(interval) => self.notified.is_none_or(|last| last + interval <= self.now),
            _ => false,
        };
        if packet.marked && notify {
            self.notified = Some(self.now);
            self.control.notified(self.now);
        }
        let links = [packet.link];
        let feedback = Feedback {
            now: self.now,
            bytes: PACKET,
            rtt: self.now - packet.left,
            marked: packet.marked && self.signals.echo.acknowledges(),
            in_flight: Bytes(self.in_flight),
            links: if self.signals.telemetry { &links } else { &[] },
        };
        self.control.acknowledged(&feedback);
    }
}

/// How strongly a control holds its sender back: the rate that it allows on an idle path.
fn allowed(allowance: Allowance) -> f64 {
    let by_window = allowance.window.0 as f64 * 8e12 / LINE.base_rtt.as_ps() as f64;
    (allowance.rate.as_bps() as f64).min(by_window).min(LINE.rate.as_bps() as f64)
}

fn at(us: u64) -> Time {
    Time::ZERO + Span::from_us(us)
}

/// What a congestion control does that none may do; empty for one that behaves.
fn faults(algorithm: &Algorithm) -> Vec<String> {
    let mut found = Vec::new();
    let mut expect = |holds: bool, fault: String| {
        if !holds {
            found.push(format!("{}: {fault}", algorithm.name()));
        }
    };
    let mut path = Path::new(algorithm);
    let share = |rate: Rate, of: Rate| rate.as_bps() as f64 / of.as_bps() as f64;

    path.run(LINE.rate, at(500));
    let idle = share(path.run(LINE.rate, at(1_000)), LINE.rate);
    expect(idle > 0.85, format!("alone on its line, it uses {idle:.2} of it"));
    let before = allowed(path.control.allowance());

    path.run(SLOW, at(4_000));
    let slow = share(path.run(SLOW, at(6_000)), SLOW);
    expect((0.1..1.01).contains(&slow), format!("it uses {slow:.2} of a slow link"));
    let later = path.trace.iter().filter(|(when, _)| *when > at(1_000));
    let congested = later.map(|(_, allowance)| allowed(*allowance)).fold(f64::MAX, f64::min);
    let reacts = algorithm.signals().credit == Credit::OfReceivers || congested < 0.7 * before;
    expect(reacts, format!("it does not react to a slow link: {congested:.3e} of {before:.3e} bit/s"));

    path.run(LINE.rate, at(60_000));
    let again = share(path.run(LINE.rate, at(70_000)), LINE.rate);
    expect(again > 0.85, format!("it does not come back: {again:.2} of its line"));

    let most = path.trace.iter().map(|(_, allowance)| allowance.rate).max().unwrap_or_default();
    expect(most <= LINE.rate, format!("{most} on a line of {}", LINE.rate));
    let stalls = |allowance: &Allowance| allowance.rate == Rate::default() || allowance.window < LINE.mtu;
    expect(!path.trace.iter().any(|(_, allowance)| stalls(allowance)), "it lets no packet go".to_owned());
    let windows = path.trace.iter().map(|(_, allowance)| allowance.window).filter(|window| *window != Bytes(u64::MAX));
    expect(windows.max().is_none_or(|most| most.0 <= 4 * LINE.product().0), "its window has no bound".to_owned());

    let mut second = Path::new(algorithm);
    for (rate, end) in [(LINE.rate, 500), (LINE.rate, 1_000), (SLOW, 4_000), (SLOW, 6_000), (LINE.rate, 60_000), (LINE.rate, 70_000)] {
        second.run(rate, at(end));
    }
    expect(second.trace == path.trace, "it does not do the same twice".to_owned());

    // Whatever is lost, a packet can leave.
    for round in 0..50 {
        for loss in [Loss::Trimmed, Loss::Gap, Loss::Timeout] {
            path.control.lost(path.now, loss);
            path.now += LINE.base_rtt;
        }
        let allowance = path.control.allowance();
        expect(!stalls(&allowance) && allowance.credit >= PACKET, format!("no packet may leave after {round} losses of each kind"));
    }
    found
}

#[test]
fn every_congestion_control_behaves() {
    let found: Vec<String> = algorithms::published().values().flat_map(faults).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Credit is the receiver's: with one sender among several, it sends at the rate that it is given.
#[test]
fn a_sender_on_credit_sends_as_fast_as_credit_comes() {
    for algorithm in algorithms::with(Credit::OfReceivers) {
        let mut path = Path::new(&algorithm);
        path.granter = algorithm.granter(Line { rate: SLOW, ..LINE });
        path.run(LINE.rate, at(1_000));
        let share = path.run(LINE.rate, at(3_000)).as_bps() as f64 / SLOW.as_bps() as f64;
        assert!((0.9..1.0).contains(&share), "{}: {share:.3} of the receiver's rate", algorithm.name());
    }
}
