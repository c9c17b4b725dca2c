//! The retransmission timeout: the figures of RFC 6298, computed anew, and when the timer of a connection runs.

use crate::ends;
use ends::{OURS, PEERS, at, bare, config, open, say, segment, us};
use fabriscope_tcp::{Config, Rtt};
use fabriscope_units::{Bytes, Span};
use fabriscope_wire::TcpFlags;
use proptest::prelude::*;

#[test]
fn five_round_trips_by_hand() {
    // RFC 6298 §2.2: SRTT = R, RTTVAR = R / 2. §2.3: RTTVAR = 3/4 RTTVAR + 1/4 |SRTT − R|, SRTT = 7/8 SRTT + 1/8 R. RTO = SRTT + 4 RTTVAR.
    //   R = 80: SRTT 80,   RTTVAR 40,    RTO 240
    //   R = 80: SRTT 80,   RTTVAR 30,    RTO 200
    //   R = 80: SRTT 80,   RTTVAR 22.5,  RTO 170
    //   R = 160: RTTVAR 3/4 · 22.5 + 80 / 4 = 36.875, SRTT 90, RTO 237.5
    //   R = 10: RTTVAR 3/4 · 36.875 + 80 / 4 = 47.65625, SRTT 80, RTO 270.625
    let mut rtt = Rtt::new(Span::ZERO);
    let table = [(80, 80_000, 240_000), (80, 80_000, 200_000), (80, 80_000, 170_000), (160, 90_000, 237_500), (10, 80_000, 270_625)];
    for (measured, smoothed, timeout) in table {
        rtt.measured(us(measured));
        assert_eq!((rtt.smoothed(), rtt.timeout()), (Some(Span::from_ns(smoothed)), Span::from_ns(timeout)));
    }
}

#[test]
fn bounds() {
    // §2.1: a second before anything is measured; never less than the least, also before.
    assert_eq!(Rtt::new(us(200_000)).timeout(), us(1_000_000));
    assert_eq!(Rtt::new(us(3_000_000)).timeout(), us(3_000_000));
    // A path without variation: RTTVAR falls to nothing, and the clock's step stays between SRTT and the timeout (§2.3: max(G, K · RTTVAR)).
    let mut steady = Rtt::new(Span::ZERO);
    for _ in 0..200 {
        steady.measured(us(50));
    }
    assert_eq!(steady.timeout(), us(51));
    // §2.4, §2.5 and §5.5: rounded up to the least, doubled up to the most, which is at least a minute.
    let mut rtt = Rtt::new(us(200_000));
    rtt.measured(us(100));
    let waits: Vec<u64> = (0..12)
        .map(|_| {
            let wait = rtt.timeout();
            rtt.back_off();
            wait.as_ps() / 1_000_000_000
        })
        .collect();
    assert_eq!(waits, [200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 51_200, 102_400, 120_000, 120_000]);
    // A new measurement ends the doubling (§5.7).
    rtt.measured(us(100));
    assert_eq!(rtt.timeout(), us(200_000));
}

proptest! {
    /// The formulas in floating point, for any round trips.
    #[test]
    fn any_round_trips(measured in prop::collection::vec(1u64..2_000_000, 1..60), least in 0u64..300_000) {
        let mut rtt = Rtt::new(us(least));
        let (mut smoothed, mut variation) = (0.0f64, 0.0f64);
        for (number, us_of) in measured.iter().enumerate() {
            rtt.measured(us(*us_of));
            let r = *us_of as f64;
            if number == 0 {
                (smoothed, variation) = (r, r / 2.0);
            } else {
                variation = 0.75 * variation + 0.25 * (smoothed - r).abs();
                smoothed = 0.875 * smoothed + 0.125 * r;
            }
            let expected = (smoothed + (4.0 * variation).max(1.0)).max(least as f64);
            // Whole picoseconds: a few are lost in each step.
            prop_assert!((rtt.smoothed().unwrap().as_us_f64() - smoothed).abs() < 1e-3);
            prop_assert!((rtt.timeout().as_us_f64() - expected).abs() < 1e-3, "{} us, not {}", rtt.timeout().as_us_f64(), expected);
        }
    }
}

#[test]
fn the_timer_of_a_connection() {
    // §5.1: it begins with the first segment that leaves; §5.3: it begins anew with each acknowledgement of new data; §5.2: it ends with the
    // last one.
    let mut end = open(Config { min_rto: us(1000), ..config() });
    assert_eq!(end.poll_timeout(), None);
    end.post_send(3000);
    assert_eq!(say(&mut end, at(0)).len(), 3);
    assert_eq!(end.poll_timeout(), Some(at(1000)));
    // The first acknowledgement after 400 us: SRTT 400, RTTVAR 200, RTO 1200.
    let _ = end.handle_segment(at(400), &segment(PEERS + 1, OURS + 1001, 0), false);
    assert_eq!(end.poll_timeout(), Some(at(1600)));
    // A duplicate says nothing new.
    let _ = end.handle_segment(at(500), &segment(PEERS + 1, OURS + 1001, 0), false);
    assert_eq!(end.poll_timeout(), Some(at(1600)));
    // The third after 600 us: RTTVAR 3/4 · 200 + 200 / 4 = 200, SRTT 7/8 · 400 + 600 / 8 = 425, RTO 1225.
    let _ = end.handle_segment(at(600), &segment(PEERS + 1, OURS + 2001, 0), false);
    assert_eq!((end.round_trip(), end.poll_timeout()), (Some(us(425)), Some(at(1825))));
    let _ = end.handle_segment(at(700), &segment(PEERS + 1, OURS + 3001, 0), false);
    assert_eq!((end.unacknowledged(), end.poll_timeout()), (0, None));
}

#[test]
fn what_was_sent_twice_is_not_measured() {
    // §3, Karn: nobody knows which of the two is acknowledged.
    let mut end = open(Config { min_rto: us(1000), ..config() });
    end.post_send(1000);
    say(&mut end, at(0));
    let _ = end.handle_segment(at(400), &segment(PEERS + 1, OURS + 1001, 0), false);
    let before = end.round_trip();
    end.post_send(1000);
    say(&mut end, at(500));
    let due = end.poll_timeout().unwrap();
    assert_eq!(due, at(500 + 1200));
    end.handle_timeout(due);
    let again = say(&mut end, due);
    assert_eq!((again.len(), again[0].retransmission, again[0].offset), (1, true, 1000));
    // §5.5: twice the wait, from now.
    assert_eq!(end.poll_timeout(), Some(due + us(2400)));
    let _ = end.handle_segment(due + us(5), &segment(PEERS + 1, OURS + 2001, 0), false);
    assert_eq!(end.round_trip(), before);
    // The doubling is over, since the peer answered.
    end.post_send(1000);
    say(&mut end, at(10_000));
    assert_eq!(end.poll_timeout(), Some(at(11_200)));
}

#[test]
fn an_early_call_is_harmless() {
    let mut end = open(Config { min_rto: us(1000), ..config() });
    end.post_send(1000);
    say(&mut end, at(0));
    for early in [0, 1, 999] {
        end.handle_timeout(at(early));
        assert!(say(&mut end, at(early)).is_empty());
    }
    assert_eq!((end.poll_timeout(), end.retransmissions()), (Some(at(1000)), 0));
}

#[test]
fn a_single_segment_is_acknowledged_after_the_delay() {
    // RFC 5681 §4.2: an acknowledgement for every second full segment, and none waits longer than the delay.
    let mut end = open(Config { quick_acks: 0, delayed_ack: us(40_000), ..config() });
    let _ = end.handle_segment(at(0), &segment(PEERS + 1, OURS + 1, 1000), false);
    assert!(say(&mut end, at(0)).is_empty());
    assert_eq!(end.poll_timeout(), Some(at(40_000)));
    end.handle_timeout(at(40_000));
    assert_eq!(say(&mut end, at(40_000))[0].header.ack, PEERS + 1001);
    let _ = end.handle_segment(at(50_000), &segment(PEERS + 1001, OURS + 1, 1000), false);
    let _ = end.handle_segment(at(50_001), &segment(PEERS + 2001, OURS + 1, 1000), false);
    assert_eq!(say(&mut end, at(50_001))[0].header.ack, PEERS + 3001);
    // Data that goes the other way takes it along.
    let _ = end.handle_segment(at(60_000), &segment(PEERS + 3001, OURS + 1, 1000), false);
    end.post_send(10);
    let data = say(&mut end, at(60_001));
    assert_eq!((data.len(), data[0].header.ack), (1, PEERS + 4001));
    assert!(end.poll_timeout().unwrap() > at(160_000), "the retransmission only");
}

#[test]
fn closed_windows_are_probed_at_growing_distance() {
    // RFC 9293 §3.8.6.1: one byte beyond the window after a timeout, then at twice the distance each.
    let mut end = open(Config { min_rto: us(1000), receive_buffer: Bytes(4000), ..config() });
    let mut closed = bare(PEERS + 1, OURS + 4001, TcpFlags::ACK);
    end.post_send(5000);
    assert_eq!(ends::offsets(&say(&mut end, at(0))), [0, 1000, 2000, 3000], "what the peer of the same settings takes");
    closed.header.window = 0;
    let _ = end.handle_segment(at(100), &closed, false);
    assert!(say(&mut end, at(100)).is_empty());
    let mut probes = Vec::new();
    for _ in 0..4 {
        let due = end.poll_timeout().unwrap();
        end.handle_timeout(due);
        let sent = say(&mut end, due);
        probes.extend(sent.iter().map(|segment| (due, segment.payload, segment.offset)));
        // The peer answers that its window is still closed.
        let _ = end.handle_segment(due + us(100), &closed, false);
    }
    assert!(probes.iter().all(|(_, payload, offset)| (*payload, *offset) == (1, 4000)), "{probes:?}");
    let apart: Vec<Span> = probes.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert_eq!(apart, [us(2000), us(4000), us(8000)], "{probes:?}");
    assert_eq!(end.error(), None, "a closed window is no dead peer");
}
