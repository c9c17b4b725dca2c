//! Selective acknowledgements: the examples of RFC 2018 §4 as the receiver tells them, and what a sender makes of blocks (RFC 6675).

use crate::ends;
use std::collections::BTreeMap;

use ends::{OURS, PEERS, at, config, offsets, open, say, segment, us, with_blocks};
use fabriscope_tcp::{Config, Connection, Segment};
use fabriscope_units::Time;
use proptest::prelude::*;

/// What is told when the segment of 500 bytes at `seq` arrives.
fn arrives(end: &mut Connection, seq: u32) -> (u32, Vec<(u32, u32)>) {
    let _ = end.handle_segment(at(0), &segment(seq, OURS + 1, 500), false);
    let told = say(end, at(0));
    let last = told.last().expect("every arrival is acknowledged at once here");
    (last.header.ack, last.header.sack.as_slice().to_vec())
}

#[test]
fn the_last_four_are_lost() {
    // RFC 2018 §4, case 1: eight segments of 500 bytes from 5000 on; the first four arrive: no blocks.
    let mut end = open(config());
    for number in 0..4 {
        assert_eq!(arrives(&mut end, 5000 + 500 * number), (5500 + 500 * number, vec![]));
    }
}

#[test]
fn the_first_is_lost() {
    // Case 2: one block that grows from 5500-6000 to 5500-9000.
    let mut end = open(config());
    for number in 1..8 {
        assert_eq!(arrives(&mut end, 5000 + 500 * number), (5000, vec![(5500, 5500 + 500 * number)]));
    }
    // The hole is filled: everything is in order.
    assert_eq!(arrives(&mut end, 5000), (9000, vec![]));
    assert_eq!(end.readable(), 4000);
}

#[test]
fn every_second_is_lost() {
    // Case 3: 5000, 6000, 7000, 8000 arrive; the newest block stands first.
    let mut end = open(config());
    assert_eq!(arrives(&mut end, 5000), (5500, vec![]));
    assert_eq!(arrives(&mut end, 6000), (5500, vec![(6000, 6500)]));
    assert_eq!(arrives(&mut end, 7000), (5500, vec![(7000, 7500), (6000, 6500)]));
    assert_eq!(arrives(&mut end, 8000), (5500, vec![(8000, 8500), (7000, 7500), (6000, 6500)]));
    // "Suppose at this point, the 4th packet is received out of order": 6500 joins two blocks.
    assert_eq!(arrives(&mut end, 6500), (5500, vec![(6000, 7500), (8000, 8500)]));
    // "Suppose at this point, the 2nd segment is received."
    assert_eq!(arrives(&mut end, 5500), (7500, vec![(8000, 8500)]));
}

#[test]
fn no_more_blocks_than_fit() {
    // RFC 2018 §3: four blocks; three beside timestamps. The newest stay.
    for (timestamps, most) in [(false, 4), (true, 3)] {
        let mut end = open(Config { timestamps, ..config() });
        let mut blocks = Vec::new();
        for number in 1..8 {
            blocks = arrives(&mut end, 5000 + 1000 * number).1;
        }
        let newest: Vec<(u32, u32)> = (0..most).map(|back| (12_000 - 1000 * back, 12_500 - 1000 * back)).collect();
        assert_eq!(blocks, newest);
        let header = {
            let mut end = open(Config { timestamps, ..config() });
            (1..8).for_each(|n| drop(arrives(&mut end, 5000 + 1000 * n)));
            let _ = end.handle_segment(at(0), &segment(9000, OURS + 1, 10), false);
            say(&mut end, at(0))[0].header
        };
        assert!(header.header_bytes() <= 60, "a header has fifteen words");
    }
}

#[test]
fn nothing_is_told_where_nobody_asked() {
    let mut end = open(Config { sack: false, ..config() });
    assert_eq!(arrives(&mut end, 6000), (5000, vec![]));
    assert_eq!(arrives(&mut end, 5000), (5500, vec![]));
    assert_eq!(arrives(&mut end, 5500), (6500, vec![]), "what came early was kept all the same");
}

/// A sender with ten segments of 1000 bytes on their way, the first number of which is 100.
fn ten_sent() -> Connection {
    let mut end = open(config());
    end.post_send(10_000);
    assert_eq!(offsets(&say(&mut end, at(0))), (0..10).map(|n| n * 1000).collect::<Vec<_>>());
    end
}

/// The n-th segment as a block.
fn block(from: u32, to: u32) -> (u32, u32) {
    (OURS + 1 + 1000 * from, OURS + 1 + 1000 * to)
}

#[test]
fn three_segments_beyond_a_hole_make_it_a_loss() {
    // RFC 6675 §4, IsLost: DupThresh discontiguous sequences or more than (DupThresh − 1) · SMSS bytes were told beyond it. §4, SetPipe: what
    // arrived and what is lost are not on the way: 10 − 1, 10 − 2, and 10 − 3 − 1.
    let mut end = ten_sent();
    for (told, in_flight) in [(2, 9000), (3, 8000), (4, 6000)] {
        let _ = end.handle_segment(at(100), &with_blocks(OURS + 1, &[block(1, told)]), false);
        assert_eq!(end.in_flight(), in_flight, "{} segments beyond it", told - 1);
    }
    assert!(end.congestion_window() < 10_000 && end.threshold() == end.congestion_window());
    // The hole goes again, once.
    let mut sent = say(&mut end, at(100));
    for told in 5..=10 {
        let _ = end.handle_segment(at(100), &with_blocks(OURS + 1, &[block(1, told)]), false);
        sent.extend(say(&mut end, at(100)));
    }
    assert_eq!((offsets(&sent), sent[0].retransmission), (vec![0], true));
}

#[test]
fn the_first_hole_goes_again_at_once() {
    // RFC 6675 §5, (4.3): "Retransmit the first data segment presumed dropped", whatever the pipe.
    let mut end = ten_sent();
    let _ = end.handle_segment(at(100), &with_blocks(OURS + 1, &[block(1, 4)]), false);
    assert_eq!(offsets(&say(&mut end, at(100))), [0]);
}

#[test]
fn further_holes_wait_for_room() {
    // RFC 6675 §5, step (C): beyond the first one a segment goes for each SMSS by which the pipe is below cwnd. Of ten segments 0, 1 and 2 are
    // missing, and 3, 4, 5 came: FlightSize is 10, cwnd 5; the pipe is 6 to 9 and the first hole, 5 segments. With 6 it has room for one.
    let mut end = ten_sent();
    let _ = end.handle_segment(at(100), &with_blocks(OURS + 1, &[block(3, 6)]), false);
    assert_eq!((offsets(&say(&mut end, at(100))), end.in_flight(), end.congestion_window()), (vec![0], 5000, 5000));
    for (told, sent) in [(7, 1000), (8, 2000)] {
        let _ = end.handle_segment(at(100), &with_blocks(OURS + 1, &[block(3, told)]), false);
        assert_eq!((offsets(&say(&mut end, at(100))), end.in_flight()), (vec![sent], 5000));
    }
}

#[test]
fn a_loss_halves_all_that_is_not_acknowledged() {
    // RFC 6675 §5, (4.2): ssthresh = cwnd = FlightSize / 2, and FlightSize is what is sent and not acknowledged (RFC 5681 §2), with all that
    // arrived behind the hole: of ten segments 10, 8 or 4.
    for acknowledged in [0, 2, 6] {
        let mut end = ten_sent();
        let first = block(acknowledged, acknowledged).0;
        let _ = end.handle_segment(at(100), &with_blocks(first, &[block(acknowledged + 1, acknowledged + 4)]), false);
        let half = u64::from(10 - acknowledged) * 500;
        assert_eq!((end.threshold(), end.congestion_window()), (half, half), "{acknowledged} acknowledged");
    }
}

#[test]
fn a_timeout_halves_it_as_well() {
    // RFC 5681, equation 4: half of FlightSize, though eight of the ten segments arrived.
    let mut end = ten_sent();
    let _ = end.handle_segment(at(100), &with_blocks(OURS + 1, &[block(2, 10)]), false);
    let _ = say(&mut end, at(100));
    let due = end.poll_timeout().unwrap();
    end.handle_timeout(due);
    assert_eq!((end.threshold(), end.congestion_window()), (5000, 1000));
}

#[test]
fn a_partial_acknowledgement_sends_the_next_hole_at_once() {
    // RFC 6582 §3.2, without selective acknowledgements: segments 0 and 4 are missing. Step 2: the first goes with the third duplicate. Step 3: an
    // acknowledgement up to 4 sends that, though five segments count as on their way and cwnd is five.
    let mut end = open(Config { sack: false, ..config() });
    end.post_send(10_000);
    let _ = say(&mut end, at(0));
    // The first acknowledgement offers a window, and so is no duplicate (RFC 5681 §2).
    let _ = end.handle_segment(at(50), &segment(PEERS + 1, OURS + 1, 0), false);
    for (duplicate, sent) in [(1, vec![]), (2, vec![]), (3, vec![0]), (4, vec![])] {
        let _ = end.handle_segment(at(100), &segment(PEERS + 1, OURS + 1, 0), false);
        assert_eq!(offsets(&say(&mut end, at(100))), sent, "duplicate {duplicate}");
    }
    let _ = end.handle_segment(at(200), &segment(PEERS + 1, block(4, 4).0, 0), false);
    assert_eq!((offsets(&say(&mut end, at(200))), end.congestion_window()), (vec![4000], 5000));
}

#[test]
fn only_holes_are_filled() {
    // Segments 0, 3 and 6 are missing; seven others came. RFC 6675 §4, NextSeg (1): the lowest hole first; nothing that arrived.
    let mut end = ten_sent();
    let _ = end.handle_segment(at(100), &with_blocks(OURS + 1, &[block(7, 10), block(4, 6), block(1, 3)]), false);
    let mut sent = offsets(&say(&mut end, at(100)));
    assert!(end.in_flight() <= end.congestion_window());
    // One after the other arrives, and the next is let go.
    for (ack, left) in [(3, vec![block(7, 10), block(4, 6)]), (6, vec![block(7, 10)])] {
        let _ = end.handle_segment(at(200), &with_blocks(block(ack, ack).0, &left), false);
        sent.extend(offsets(&say(&mut end, at(200))));
    }
    assert_eq!(sent, [0, 3000, 6000]);
    let _ = end.handle_segment(at(300), &segment(PEERS + 1, block(10, 10).0, 0), false);
    assert_eq!((end.unacknowledged(), end.in_flight(), end.retransmissions(), end.poll_timeout()), (0, 0, 3, None));
}

#[test]
fn blocks_of_nonsense_are_passed_over() {
    // Beyond what was sent, empty, turned round, below what is acknowledged: nothing is taken for arrived.
    let mut end = ten_sent();
    for wrong in [block(11, 14), (block(5, 5)), (block(6, 3)), (OURS - 50, OURS - 10)] {
        let _ = end.handle_segment(at(100), &with_blocks(OURS + 1, &[wrong]), false);
        assert_eq!((say(&mut end, at(100)).len(), end.in_flight()), (0, 10_000), "{wrong:?}");
    }
}

#[test]
fn after_a_timeout_everything_counts_as_lost() {
    // RFC 2018 §8: the receiver may have thrown away what it told of; after a timeout the first segment goes again, whatever it was.
    let mut end = ten_sent();
    let _ = end.handle_segment(at(100), &with_blocks(OURS + 1, &[block(1, 3)]), false);
    assert!(say(&mut end, at(100)).is_empty());
    let due = end.poll_timeout().unwrap();
    end.handle_timeout(due);
    assert_eq!(offsets(&say(&mut end, due)), [0], "one segment: the loss window of RFC 5681 §3.1");
    // It fills the hole, and both that arrived are acknowledged with it: the next one not known to be there is the fourth.
    let _ = end.handle_segment(due + us(100), &segment(PEERS + 1, block(3, 3).0, 0), false);
    assert_eq!(offsets(&say(&mut end, due + us(100))).first(), Some(&3000));
}

/// Two ends and a line of 50 us each way that loses the first copy of what `lost` names; gives what was sent more than once, and how much
/// the other end read.
fn over_a_line(lost: &[bool]) -> (Vec<u64>, u64) {
    let settings = Config { initial_window: 64, ..config() };
    let mut ends = [open(settings), Connection::established(settings, fabriscope_tcp::Seq(PEERS), fabriscope_tcp::Seq(OURS)).unwrap()];
    let mut line: BTreeMap<(Time, u64), (usize, Segment)> = BTreeMap::new();
    let (mut now, mut order, mut again, mut read) = (Time::ZERO, 0, Vec::new(), 0);
    ends[0].post_send(1000 * lost.len() as u64);
    for _ in 0..10_000 {
        for (from, end) in ends.iter_mut().enumerate() {
            for segment in say(end, now) {
                if segment.retransmission {
                    again.push(segment.offset);
                }
                let number = (segment.offset / 1000) as usize;
                order += 1;
                if from == 1 || segment.payload == 0 || segment.retransmission || !lost[number] {
                    line.insert((now + us(50), order), (1 - from, segment));
                }
            }
        }
        let timer = ends.iter().filter_map(Connection::poll_timeout).min();
        let Some(next) = line.first_key_value().map(|(key, _)| key.0).into_iter().chain(timer).min() else { break };
        now = next;
        match line.first_entry().filter(|entry| entry.key().0 <= now) {
            Some(entry) => {
                let (to, segment) = entry.remove();
                let _ = ends[to].handle_segment(now, &segment, false);
                read += if to == 1 { ends[1].read(u64::MAX) } else { 0 };
            }
            None => ends.iter_mut().for_each(|end| end.handle_timeout(now)),
        }
    }
    (again, read)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever is lost of one window, with three segments behind it that arrive: exactly that goes again, once, from the left.
    #[test]
    fn exactly_what_was_lost_goes_again(lost in prop::collection::vec(prop::bool::weighted(0.3), 1..40)) {
        let lost = [lost, vec![false; 3]].concat();
        let (again, read) = over_a_line(&lost);
        let expected: Vec<u64> = (0..).zip(&lost).filter(|(_, lost)| **lost).map(|(number, _)| 1000 * number).collect();
        prop_assert_eq!(again, expected);
        prop_assert_eq!(read, 1000 * lost.len() as u64);
    }

    /// The receiver counts each byte once, in whatever order and however often segments come.
    #[test]
    fn bytes_count_once(order in prop::collection::vec((0u32..40, 1u32..900), 1..60)) {
        let mut end = open(config());
        let (mut seen, mut fresh, mut in_order) = ([false; 40 * 100 + 900], 0, 0);
        for (place, length) in order {
            let arrival = end.handle_segment(at(0), &segment(PEERS + 1 + 100 * place, OURS + 1, length), false);
            let range = (100 * place) as usize..(100 * place + length) as usize;
            let news = seen[range.clone()].iter().filter(|seen| !**seen).count() as u64;
            seen[range].fill(true);
            prop_assert_eq!(arrival.fresh, news);
            fresh += arrival.fresh;
            in_order += arrival.in_order;
            let whole = seen.iter().take_while(|seen| **seen).count() as u64;
            prop_assert_eq!((in_order, end.readable()), (whole, whole));
        }
        prop_assert_eq!(fresh, seen.iter().filter(|seen| **seen).count() as u64);
    }
}
