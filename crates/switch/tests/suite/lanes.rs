//! One lane of one link: what credits let through, when pauses begin and end, and what headroom keeps from loss.

use fabriscope_switch::headroom::{Line, PAUSE_FRAME, headroom};
use fabriscope_switch::{Channel, FlowControl, PauseChange, PauseLimits, PauseThresholds};
use fabriscope_units::{Bytes, Pace, Rate, Span, Time};
use proptest::prelude::*;

const RATE: Rate = Rate::from_gbps(400);

fn at(ps: u64) -> Time {
    Time::from_ps(ps)
}
fn credits(blocks: u64) -> Channel {
    Channel::new(Pace::of(RATE), Span::ZERO, 0, FlowControl::Credit(Bytes(64 * blocks)))
}
fn pausing(limits: PauseLimits) -> Channel {
    Channel::new(Pace::of(RATE), Span::ZERO, 0, FlowControl::Pause(limits))
}
/// Blocks of 64 bytes that a packet takes (InfiniBand §7.9.4.1).
fn blocks(bytes: u64) -> u64 {
    bytes.div_ceil(64)
}

#[test]
fn credits_bound_the_rate_by_the_buffer_over_the_round_trip() {
    // A packet of 4096 B takes 81.92 ns on a wire of 400 Gb/s, and its credits come back D after its end. With room for n packets n leave in
    // max(n · 81.92 ns, 81.92 ns + D): a window protocol (Bertsekas and Gallager, §6.2). Below the wire for n = 1 to 4, at its rate from 5 on.
    let (packet, back) = (81_920u64, 300_000u64);
    for room in 1..=8u64 {
        let mut lane = credits(room * 64);
        let mut out = std::collections::VecDeque::new();
        let mut start = Time::ZERO;
        let packets = 40 * room;
        for _ in 0..packets {
            if out.len() as u64 == room {
                lane.give_back(Bytes(4096), out.pop_front().unwrap());
            }
            start = lane.reserve(Bytes(4096), Time::ZERO).expect("room was given back");
            out.push_back(start + Span::from_ps(packet + back));
        }
        let period = (room * packet).max(packet + back);
        let expected = (packets - 1) / room * period + (packets - 1) % room * packet;
        assert_eq!(start, at(expected), "room for {room}");
    }
}

#[test]
fn a_buffer_of_half_a_packet_lets_nothing_through() {
    for size in [64, 4096, 4100] {
        let mut lane = credits(blocks(size) - 1);
        assert_eq!((lane.reserve(Bytes(size), at(0)), lane.open_at(Bytes(size), at(0))), (None, None), "{size} B");
        let mut lane = credits(blocks(size));
        assert_eq!((lane.open_at(Bytes(size), at(7)), lane.reserve(Bytes(size), at(7))), (Some(at(7)), Some(at(7))), "{size} B");
    }
}

#[test]
fn a_storm_holds_the_sender_and_credits_know_none() {
    let limits =
        PauseLimits { thresholds: PauseThresholds { xoff: Bytes(4096), xon: Bytes(2048), headroom: Bytes(8192) }, reaction: Span::ZERO };
    for (mut lane, stopped) in [(pausing(limits), true), (credits(1000), false)] {
        lane.add_storm(at(1000), at(5000));
        lane.add_storm(at(5000), at(6000));
        for (now, opens) in [(0, 0), (999, 999), (1000, 6000), (4999, 6000), (5500, 6000), (6000, 6000), (9000, 9000)] {
            let opens = if stopped { opens } else { now };
            assert_eq!(lane.open_at(Bytes(64), at(now)), Some(at(opens)), "at {now}");
        }
    }
}

#[test]
fn a_pause_lasts_from_xoff_to_xon_by_what_is_known() {
    // Packets of 1024 B (16 blocks); xoff 4096, xon 2048. The fifth goes above xoff; as many departures as leave 2048 end the pause, and both ends
    // reach the sender a reaction later.
    let limits = PauseLimits {
        thresholds: PauseThresholds { xoff: Bytes(4096), xon: Bytes(2048), headroom: Bytes(4096) },
        reaction: Span::from_ps(500),
    };
    let mut lane = pausing(limits);
    for number in 0..4 {
        assert_eq!(lane.hold(Bytes(1024), at(number)), Ok(PauseChange::None));
    }
    assert_eq!(
        (lane.hold(Bytes(1024), at(10)), lane.pause_span()),
        (Ok(PauseChange::Paused), (Some((at(510), Time::MAX)), limits.reaction))
    );
    assert_eq!(lane.give_back(Bytes(1024), at(2000)), PauseChange::None);
    assert_eq!(lane.give_back(Bytes(1024), at(3000)), PauseChange::None);
    assert_eq!(lane.give_back(Bytes(1024), at(4000)), PauseChange::Until(at(4500)));
    assert_eq!(lane.pause_span().0, Some((at(510), at(4500))));
    // The sender obeys from 510 until 4500.
    for (now, opens) in [(509, 509), (510, 4500), (4499, 4500), (4500, 4500)] {
        assert_eq!(lane.open_at(Bytes(64), at(now)), Some(at(opens)));
    }
    // Behind it the lane starts again: two held, two more are no reason, the fifth is.
    for number in 0..2 {
        assert_eq!(lane.hold(Bytes(1024), at(5000 + number)), Ok(PauseChange::None));
    }
    assert_eq!(lane.hold(Bytes(1024), at(5100)), Ok(PauseChange::Paused));
}

/// A sender with a packet always ready at the far end of a pause lane whose buffer nobody empties: packets that were lost, of `count`.
fn lost(line: &Line, room: Bytes, xoff: Bytes, count: u32) -> u32 {
    let pace = Pace::of(line.rate);
    // The pause frame waits for a frame on the wire back, is sent, crosses the cable, and is obeyed.
    let reaction = pace.time(line.frame) + pace.time(PAUSE_FRAME) + line.delay + line.response;
    let limits = PauseLimits { thresholds: PauseThresholds { xoff, xon: Bytes(0), headroom: room }, reaction };
    let mut lane = Channel::new(pace, line.delay, 0, FlowControl::Pause(limits));
    let (mut start, mut lost) = (Time::ZERO, 0);
    for _ in 0..count {
        let arrival = start + pace.time(line.frame) + line.delay;
        lost += u32::from(lane.hold(line.frame, arrival).is_err());
        start += pace.time(line.frame);
        match lane.open_at(line.frame, start) {
            Some(open) => start = open,
            None => break,
        }
    }
    lost
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Headroom by the annex is enough whatever the link: nothing is lost. The lane looks at its threshold when a frame is whole, where the annex
    /// looks at every byte: a frame more. (Frames of whole blocks: the annex knows no cells.)
    #[test]
    fn headroom_by_the_annex_loses_nothing(gbps in 10u64..800, delay in 0u64..3000, response in 0u64..3000, frame in 1u64..150, xoff in 0u64..2000) {
        let line = Line { rate: Rate::from_gbps(gbps), delay: Span::from_ns(delay), frame: Bytes(64 * frame), response: Span::from_ns(response) };
        // A frame's time is cut to whole picoseconds, so that a wire carries as much more as that is of it, and a block.
        let cut = Bytes(headroom(&line).0 / Pace::of(line.rate).time(line.frame).as_ps() + 2 * 64);
        prop_assert_eq!(lost(&line, headroom(&line) + line.frame + cut, Bytes(64 * xoff), 20_000), 0);
    }

    /// And it is needed: without the bytes that are on the cable or still leave before the pause arrives, some are lost.
    #[test]
    fn less_than_the_round_trip_loses_some(gbps in 100u64..800, delay in 500u64..3000, frame in 1u64..150) {
        let line = Line { rate: Rate::from_gbps(gbps), delay: Span::from_ns(delay), frame: Bytes(64 * frame), response: Span::ZERO };
        let round_trip = line.rate.as_bps() / 8 * 2 * delay / 1_000_000_000;
        prop_assert!(lost(&line, Bytes(round_trip.saturating_sub(2 * line.frame.0)), Bytes::ZERO, 20_000) > 0);
    }

    /// Against a list of what is out: the wire carries one packet at a time, never before it may, and credits are those of returns that are due.
    #[test]
    fn starts_are_those_of_a_list(steps in prop::collection::vec((1u64..4000, 0u64..400_000, 0u64..600_000), 1..80), total in 63u64..400) {
        let mut lane = credits(total);
        let (mut free, mut level, mut held) = (0u64, total, Vec::<(u64, u64)>::new());
        let mut due = Vec::<(u64, u64)>::new();
        for (bytes, earliest, back) in steps {
            // Everything that is out is given back, as soon as not more than eight of them are known.
            while due.len() < 8 && !held.is_empty() {
                let (time, amount) = held.remove(0);
                lane.give_back(Bytes(64 * amount), at(time));
                due.push((time, amount));
            }
            due.sort_by_key(|(time, _)| *time);
            let (need, begun) = (blocks(bytes), earliest.max(free));
            let (mut expected, mut taken) = (begun, 0);
            while level < need && taken < due.len() {
                expected = expected.max(due[taken].0);
                level += due[taken].1;
                taken += 1;
            }
            let found = lane.reserve(Bytes(bytes), at(earliest));
            // A wire that waited for credits was of no use to anybody meanwhile.
            free = if expected > begun { expected } else { free };
            if level < need {
                prop_assert_eq!(found, None);
            } else {
                prop_assert_eq!(found, Some(at(expected)));
                level -= need;
                free = expected + Pace::of(RATE).time(Bytes(bytes)).as_ps();
                held.push((free + back, need));
            }
            due.drain(..taken);
            prop_assert_eq!(lane.settled() as u64, level + due.iter().map(|(_, amount)| amount).sum::<u64>());
        }
    }

    /// A packet is lost exactly where the buffer has no room for it, and a pause is asked for exactly where xoff is passed and none is on.
    #[test]
    fn losses_and_pauses_are_those_of_a_list(steps in prop::collection::vec((1u64..3000, 1u64..50_000, 1u64..200_000), 1..60)) {
        let limits = PauseLimits { thresholds: PauseThresholds { xoff: Bytes(8192), xon: Bytes(0), headroom: Bytes(4096) }, reaction: Span::from_ps(1000) };
        let mut lane = pausing(limits);
        let (mut now, mut held, mut paused) = (0, Vec::<(u64, u64)>::new(), false);
        for (bytes, later, stays) in steps {
            now += later;
            // Departures are known at once, so that a pause ends when the last of them is gone.
            held.retain(|(gone, _)| *gone > now);
            if held.len() > 8 {
                continue;
            }
            let before: u64 = held.iter().map(|(_, blocks)| blocks).sum();
            let expected = before + blocks(bytes);
            let found = lane.hold(Bytes(bytes), at(now));
            prop_assert_eq!(found.is_err(), expected > (8192 + 4096) / 64, "{} blocks", expected);
            if found.is_err() {
                continue;
            }
            if expected > 8192 / 64 {
                paused = true;
                prop_assert!(lane.pause_span().0.is_some(), "{} blocks", expected);
            }
            prop_assert!(paused || found == Ok(PauseChange::None));
            held.push((now + stays, blocks(bytes)));
            lane.give_back(Bytes(bytes), at(now + stays));
            let last = held.iter().map(|(gone, _)| *gone).max().unwrap();
            if let (Some((from, until)), _) = lane.pause_span() {
                // From xoff on until the buffer is empty, as far as that is known, and a reaction more.
                prop_assert!(until == at(last + 1000).max(from) || until <= at(now), "{:?} for {}", until, last);
            }
        }
    }
}
