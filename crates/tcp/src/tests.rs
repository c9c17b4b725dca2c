//! Two ends joined by a line with a delay that may lose, delay and repeat: by the formulas of the RFCs, and at random.

use std::collections::BTreeMap;

use fabriscope_units::{Bytes, Span, Time};
use fabriscope_wire::TcpFlags;
use proptest::prelude::*;

use crate::{Algorithm, Arrival, Config, Connection, Segment, Seq, State, TcpError};

/// What the line does with the n-th segment of one direction.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fate {
    Pass,
    Lose,
    Late(u64),
    Twice,
    Mark,
}

type Decide = Box<dyn FnMut(usize, u64, &Segment) -> Fate>;

struct Line {
    ends: [Connection; 2],
    now: Time,
    delay: Span,
    limit: u32,
    /// (time, order) → (to, segment, marked).
    under_way: BTreeMap<(Time, u64), (usize, Segment, bool)>,
    order: u64,
    sent: [u64; 2],
    log: Vec<(Time, usize, Segment)>,
    fate: Decide,
    arrivals: [Arrival; 2],
    got: [u64; 2],
    reads: bool,
}

impl Line {
    fn new(client: Config, server: Config, delay: Span) -> Line {
        // Numbers that wrap soon.
        let ends = [Connection::connect(client, Seq(u32::MAX - 5000)).unwrap(), Connection::listen(server, Seq(0xFFFF_0000)).unwrap()];
        Line {
            ends,
            now: Time::ZERO,
            delay,
            limit: 0,
            under_way: BTreeMap::new(),
            order: 0,
            sent: [0, 0],
            log: Vec::new(),
            fate: Box::new(|_, _, _| Fate::Pass),
            arrivals: [Arrival::default(); 2],
            got: [0, 0],
            reads: true,
        }
    }
    fn established(config: Config, delay: Span) -> Line {
        let mut line = Line::new(config, config, delay);
        line.run_until(Time::ZERO + delay * 4);
        assert!(line.ends.iter().all(|end| end.state() == State::Established));
        line.log.clear();
        line.sent = [0, 0];
        line
    }
    fn flush(&mut self) {
        for from in 0..2 {
            while let Some(segment) = self.ends[from].poll_transmit(self.now, self.limit) {
                let number = self.sent[from];
                self.sent[from] += 1;
                self.log.push((self.now, from, segment));
                let fate = (self.fate)(from, number, &segment);
                let at = self.now + self.delay + if let Fate::Late(us) = fate { Span::from_us(us) } else { Span::ZERO };
                for _ in 0..(if fate == Fate::Twice { 2 } else { u32::from(fate != Fate::Lose) }) {
                    self.under_way.insert((at, self.order), (1 - from, segment, fate == Fate::Mark));
                    self.order += 1;
                }
            }
        }
    }
    /// One event; false when nothing is left to happen.
    fn step(&mut self, until: Time) -> bool {
        self.flush();
        let arrival = self.under_way.first_key_value().map(|(key, _)| key.0);
        let timer = self.ends.iter().filter_map(Connection::poll_timeout).min();
        let Some(next) = [arrival, timer].into_iter().flatten().min().filter(|at| *at <= until) else { return false };
        self.now = self.now.max(next);
        if arrival.is_some_and(|at| at <= self.now) {
            let (_, (to, segment, marked)) = self.under_way.pop_first().unwrap();
            let arrival = self.ends[to].handle_segment(self.now, &segment, marked);
            let total = &mut self.arrivals[to];
            total.fresh += arrival.fresh;
            total.in_order += arrival.in_order;
            total.acked += arrival.acked;
            total.ended |= arrival.ended;
            if self.reads {
                self.got[to] += self.ends[to].read(u64::MAX);
            }
        } else {
            for end in &mut self.ends {
                end.handle_timeout(self.now);
            }
        }
        true
    }
    fn run_until(&mut self, until: Time) {
        while self.step(until) {}
        self.now = self.now.max(until);
    }
    fn data(&self, from: usize) -> Vec<(Time, u64, u32)> {
        let data = self.log.iter().filter(|(_, who, segment)| *who == from && segment.payload > 0);
        data.map(|(at, _, segment)| (*at, segment.offset, segment.payload)).collect()
    }
}

fn us(us: u64) -> Span {
    Span::from_us(us)
}
fn config() -> Config {
    Config { mss: 1000, quick_acks: 0, ..Config::default() }
}

#[test]
fn three_segments_open_a_connection() {
    let server = Config { mss: 500, receive_buffer: Bytes(1 << 20), ..config() };
    let mut line = Line::new(config(), server, us(10));
    line.run_until(Time::ZERO + us(100));
    let flags: Vec<_> = line.log.iter().map(|(at, from, segment)| (at.as_ps() / 1_000_000, *from, segment.header.flags)).collect();
    assert_eq!(flags, [(0, 0, TcpFlags::SYN), (10, 1, TcpFlags::SYN.with(TcpFlags::ACK)), (20, 0, TcpFlags::ACK)]);
    // 2^20 B need a shift of 5: 65535 · 16 is one too small.
    assert_eq!((line.log[0].2.header.mss, line.log[1].2.header.window_scale), (Some(1012), Some(5)));
    // The smaller maximum counts; the round trip was measured.
    line.ends[0].post_send(1200);
    line.run_until(Time::ZERO + us(200));
    assert_eq!(line.data(0).iter().map(|d| d.2).collect::<Vec<_>>(), [500, 500, 200]);
    assert_eq!(line.ends[0].round_trip(), Some(us(20)));
}

#[test]
fn slow_start_doubles_every_round_trip() {
    let mut line = Line::established(config(), us(50));
    line.ends[0].post_send(2_000_000);
    line.run_until(line.now + us(499));
    let begin = line.data(0)[0].0;
    let mut rounds = [0u64; 5];
    for (at, _, bytes) in line.data(0) {
        rounds[(at.since(begin).as_ps() / us(100).as_ps()) as usize] += u64::from(bytes) / 1000;
    }
    // RFC 6928: ten at first; every acknowledged byte lets two more go.
    assert_eq!(rounds, [10, 20, 40, 80, 160]);
}

#[test]
fn a_single_segment_is_acknowledged_late_and_two_at_once() {
    let mut line = Line::established(Config { no_delay: true, ..config() }, us(5));
    line.ends[0].post_send(1000);
    let begin = line.now;
    line.run_until(begin + us(100_000));
    let acks: Vec<_> = line.log.iter().filter(|(_, from, _)| *from == 1).map(|(at, _, _)| at.since(begin)).collect();
    assert_eq!(acks, [us(5 + 40_000)]);
    let begin = line.now;
    line.ends[0].post_send(2000);
    line.run_until(begin + us(1000));
    assert_eq!(line.log.iter().filter(|(at, from, _)| *from == 1 && *at == begin + us(5)).count(), 1);
}

#[test]
fn nagle_holds_short_segments_back() {
    for (no_delay, sizes) in [(false, vec![10, 30]), (true, vec![10, 10, 10, 10])] {
        let mut line = Line::established(Config { no_delay, ..config() }, us(5));
        for _ in 0..4 {
            line.ends[0].post_send(10);
            line.flush();
        }
        line.run_until(line.now + us(200_000));
        assert_eq!(line.data(0).iter().map(|d| d.2).collect::<Vec<_>>(), sizes, "TCP_NODELAY {no_delay}");
    }
}

#[test]
fn three_duplicates_bring_a_segment_back_within_a_round_trip() {
    for sack in [true, false] {
        let mut line = Line::established(Config { sack, algorithm: Algorithm::NewReno, ..config() }, us(50));
        line.fate = Box::new(|from, number, _| if from == 0 && number == 2 { Fate::Lose } else { Fate::Pass });
        line.ends[0].post_send(10_000);
        let begin = line.now;
        line.run_until(begin + us(1000));
        let again: Vec<_> = line.log.iter().filter(|(_, _, segment)| segment.retransmission).collect();
        assert_eq!(again.len(), 1, "sack {sack}");
        assert_eq!((again[0].0.since(begin), again[0].2.offset), (us(100), 2000));
        assert_eq!(line.got[1], 10_000);
        // Equation 4 of RFC 5681: half of FlightSize. Two of ten were acknowledged when the third was found lost.
        assert_eq!(line.ends[0].threshold(), 4000);
    }
}

#[test]
fn tahoe_goes_back_to_the_hole_without_a_timeout() {
    let settings = Config { sack: false, algorithm: Algorithm::Tahoe, quick_acks: u32::MAX, min_rto: us(10_000), ..config() };
    let mut line = Line::established(settings, us(50));
    let first = line.sent[0];
    line.fate =
        Box::new(move |from, number, _| if from == 0 && [first + 3, first + 6].contains(&number) { Fate::Lose } else { Fate::Pass });
    line.ends[0].post_send(10_000);
    line.run_until(line.now + us(1000));
    let again: Vec<_> = line.data(0).iter().skip(10).map(|d| d.1).collect();
    // Everything from the hole on, what arrived behind it included.
    assert_eq!((again, line.got[1]), ((3..10).map(|n| n * 1000).collect(), 10_000));
}

#[test]
fn timeouts_double_and_begin_again_with_one_segment() {
    let mut line = Line::established(Config { min_rto: us(1000), delayed_ack: us(100), algorithm: Algorithm::NewReno, ..config() }, us(50));
    line.fate = Box::new(|from, number, _| if from == 0 && number < 13 { Fate::Lose } else { Fate::Pass });
    line.ends[0].post_send(10_000);
    let begin = line.now;
    line.run_until(begin + us(20_000));
    let sent = line.data(0);
    let again: Vec<_> = sent.iter().skip(10).take(4).map(|d| (d.0.since(begin), d.1)).collect();
    // Ten are lost, then the first three retransmissions: 1, 2, 4 and 8 ms after one another.
    assert_eq!(again, [(us(1000), 0), (us(3000), 0), (us(7000), 0), (us(15_000), 0)]);
    assert_eq!(line.got[1], 10_000);
    assert_eq!(line.ends[0].threshold(), 5000);
}

#[test]
fn a_closed_window_is_probed_and_opens_again() {
    let mut line = Line::established(Config { receive_buffer: Bytes(4000), min_rto: us(1000), no_delay: true, ..config() }, us(5));
    line.reads = false;
    line.ends[0].post_send(9000);
    line.run_until(line.now + us(20_000));
    let held = line.ends[1].readable();
    assert!((4000..4010).contains(&held), "{held}");
    let probes = line.data(0).iter().filter(|d| d.2 == 1).count();
    assert!((2..=6).contains(&probes), "{probes} probes at 1, 2, 4, 8 ms");
    // The program reads: the update alone starts the sender again.
    line.reads = true;
    line.got[1] += line.ends[1].read(u64::MAX);
    line.run_until(line.now + us(500));
    assert_eq!(line.got[1], 9000);
    assert_eq!(line.ends[0].congestion_window(), 10_000, "a closed window is no congestion");
}

#[test]
fn both_ends_close() {
    let mut line = Line::established(config(), us(5));
    line.ends[0].post_send(100);
    line.ends[0].close();
    line.run_until(line.now + us(100));
    assert_eq!((line.ends[0].state(), line.ends[1].state()), (State::FinWait2, State::CloseWait));
    assert!(line.ends[1].ended() && line.got[1] == 100 && line.arrivals[1].ended);
    assert_eq!(line.ends[0].post_send(1), 0);
    line.ends[1].post_send(7);
    line.ends[1].close();
    line.run_until(line.now + us(100_000));
    assert_eq!((line.ends[0].state(), line.ends[1].state(), line.got[0]), (State::TimeWait, State::Closed, 7));
    line.run_until(line.now + us(61_000_000));
    assert_eq!(line.ends[0].state(), State::Closed);

    let mut line = Line::established(config(), us(5));
    line.ends[1].abort();
    line.run_until(line.now + us(100));
    assert_eq!((line.ends[0].state(), line.ends[0].error()), (State::Closed, Some(TcpError::Reset)));
}

#[test]
fn nobody_there_is_told() {
    let mut line = Line::new(config(), config(), us(5));
    line.fate = Box::new(|_, _, _| Fate::Lose);
    line.run_until(Time::ZERO + us(3_600_000_000));
    assert_eq!(line.ends[0].error(), Some(TcpError::TimedOut { retries: 15 }));
    assert!(matches!(Connection::connect(Config { receive_buffer: Bytes(9), ..config() }, Seq(0)), Err(TcpError::NoWindow { .. })));
    assert!(matches!(Connection::connect(Config { mss: 0, ..config() }, Seq(0)), Err(TcpError::NoSegment { .. })));
}

#[test]
fn marks_cut_the_window_without_loss() {
    for (algorithm, expected) in [(Algorithm::NewReno, 0.5), (Algorithm::Cubic, 0.7), (Algorithm::Dctcp, 0.5)] {
        let settings = Config { ecn: true, algorithm, initial_window: 40, ..config() };
        let mut line = Line::established(settings, us(50));
        line.fate =
            Box::new(|from, number, segment| if from == 0 && number == 39 && segment.payload > 0 { Fate::Mark } else { Fate::Pass });
        line.ends[0].post_send(40_000);
        line.run_until(line.now + us(99));
        line.run_until(line.now + us(200_000));
        assert_eq!(line.ends[0].retransmissions(), 0);
        let threshold = line.ends[0].threshold() as f64;
        assert!(threshold < 80_000.0 * expected + 1000.0, "{algorithm:?}: {threshold}");
        assert_eq!(line.got[1], 40_000);
        // Without the agreement of both nothing is echoed.
        let plain = Config { ecn: false, ..settings };
        let mut line = Line::new(settings, plain, us(50));
        line.fate = Box::new(|_, _, _| Fate::Mark);
        line.ends[0].post_send(40_000);
        line.run_until(line.now + us(10_000));
        assert_eq!(line.ends[0].threshold(), u64::MAX);
    }
}

#[test]
fn ends_that_were_opened_before_carry_data_at_once() {
    let settings = Config { min_rto: us(300), records: true, quick_acks: u32::MAX, ..config() };
    let mut line = Line::new(settings, settings, us(5));
    let numbers = [Seq(u32::MAX - 5000), Seq(7)];
    line.ends = [0, 1].map(|end| Connection::established(settings, numbers[end], numbers[1 - end]).unwrap());
    // The first segment is lost, and nobody else asks for it: the shortest timeout brings it again.
    line.fate = Box::new(|from, number, _| if (from, number) == (0, 0) { Fate::Lose } else { Fate::Pass });
    line.ends[0].post_send(900);
    line.ends[1].post_send(1000);
    line.run_until(Time::ZERO + us(1000));
    assert_eq!(line.data(0).iter().map(|d| (d.0, d.2)).collect::<Vec<_>>(), [(Time::ZERO, 900), (Time::ZERO + us(300), 900)]);
    assert_eq!((line.got, line.ends[0].unacknowledged(), line.ends[1].unacknowledged()), ([1000, 900], 0, 0));
}

#[test]
fn records_stay_whole() {
    let mut line = Line::established(Config { records: true, no_delay: true, ..config() }, us(5));
    for size in [10, 1000, 400, 400, 999] {
        line.ends[0].post_send(size);
    }
    line.run_until(line.now + us(1000));
    assert_eq!(line.data(0).iter().map(|d| d.2).collect::<Vec<_>>(), [10, 1000, 400, 400, 999]);
}

#[test]
fn random_loss_gives_the_rate_of_mathis() {
    // M. Mathis et al., ACM CCR 27(3), 1997: W = sqrt(3 / 2p) segments where every segment is acknowledged; 0.87 of it with
    // delayed acknowledgements.
    let settings = Config { algorithm: Algorithm::NewReno, min_rto: us(10_000), ..config() };
    let mut line = Line::established(settings, us(5000));
    let (mut state, one_in) = (1u64, 500u64);
    line.fate = Box::new(move |from, _, segment| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if from == 0 && segment.payload > 0 && (state >> 33) % one_in == 0 { Fate::Lose } else { Fate::Pass }
    });
    let begin = line.now;
    for _ in 0..60 {
        line.ends[0].post_send(u64::MAX);
        line.run_until(line.now + us(1_000_000));
    }
    let rounds = line.now.since(begin).as_s_f64() / us(10_000).as_s_f64();
    let window = line.got[1] as f64 / 1000.0 / rounds;
    let expected = libm::sqrt(1.5 * one_in as f64);
    assert!((0.65..1.15).contains(&(window / expected)), "{window} segments, expected {expected}");
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        12 => Just(Fate::Pass),
        2 => Just(Fate::Lose),
        2 => (1u64..400).prop_map(Fate::Late),
        1 => Just(Fate::Twice),
        1 => Just(Fate::Mark),
    ];
    prop::collection::vec(fate, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn every_byte_comes_once_and_in_order(
        fates in fates(), sack: bool, no_delay: bool, ecn: bool, records: bool, algorithm in 0usize..4,
        limit in prop_oneof![Just(0u32), Just(4000), Just(65_000)], buffer in 1000u64..60_000,
        posts in prop::collection::vec(1u64..9000, 1..20),
    ) {
        let settings = Config {
            sack, no_delay, ecn, records, algorithm: Algorithm::ALL.get(algorithm).copied().unwrap_or(Algorithm::Tahoe), receive_buffer: Bytes(buffer),
            send_buffer: Bytes(1 << 20), min_rto: us(2000), delayed_ack: us(500), ..config()
        };
        let mut line = Line::new(settings, settings, us(20));
        line.limit = limit;
        let mut at = 0;
        line.fate = Box::new(move |_, _, _| { at += 1; fates.get(at - 1).copied().unwrap_or(Fate::Pass) });
        let total: u64 = posts.iter().sum();
        for bytes in posts {
            // Records longer than a segment would be cut; the layer above does that.
            let pieces = if records { bytes.div_ceil(1000) } else { 1 };
            for piece in 0..pieces {
                let size = if records { (bytes - piece * 1000).min(1000) } else { bytes };
                prop_assert_eq!(line.ends[0].post_send(size), size);
                prop_assert_eq!(line.ends[1].post_send(size), size);
            }
        }
        line.run_until(Time::ZERO + us(600_000_000));
        for end in &mut line.ends {
            end.close();
        }
        line.run_until(Time::ZERO + us(1_200_000_000));
        for end in 0..2 {
            prop_assert_eq!(line.got[end], total);
            prop_assert_eq!(line.arrivals[end].fresh, total);
            prop_assert_eq!(line.arrivals[end].in_order, total);
            prop_assert_eq!(line.arrivals[end].acked, total);
            prop_assert_eq!(line.ends[end].in_flight(), 0);
            prop_assert_eq!(line.ends[end].state(), State::Closed);
            prop_assert_eq!(line.ends[end].error(), None);
        }
    }
}
