//! Arbiters of ports against their standards: who is served under saturation, what bounds the difference, and that the wire is never idle.

use std::sync::Arc;

use fabriscope_switch::arbiter::{Class, Classes, Ets, Heads, LANES, Selection, VlEntry, VlTables};
use fabriscope_switch::{Arbiter, Policy};
use fabriscope_units::{Bytes, Rate, Span, Time};
use proptest::prelude::*;

const RATE: Rate = Rate::from_gbps(200);

fn tables(high: &[(u8, u8)], low: &[(u8, u8)], limit: u8) -> Policy {
    let entries = |pairs: &[(u8, u8)]| -> Vec<VlEntry> { pairs.iter().map(|&(lane, weight)| VlEntry { lane, weight }).collect() };
    Policy::InfiniBand(Arc::new(VlTables::new(&entries(high), &entries(low), limit, false)))
}

/// Classes with these percents, class `n` on lane `n`.
fn shares(percents: &[u8]) -> Policy {
    let classes: Vec<_> = percents.iter().enumerate().map(|(lane, &share)| (Selection::Share(share), 1 << lane)).collect();
    Policy::Ethernet(Arc::new(Ets::new(&classes)))
}

/// Class `n` on lane `n`.
fn guarantees(classes: &[(u8, u8, u8)]) -> Policy {
    let class = |(lane, &(priority, minimum, maximum)): (usize, &(u8, u8, u8))| Class { priority, minimum, maximum, lanes: 1 << lane };
    Policy::Slingshot(Arc::new(Classes::new(&classes.iter().enumerate().map(class).collect::<Vec<_>>())))
}

/// A port whose wire is busy with one packet after the other.
struct Port {
    arbiter: Arbiter,
    now: Time,
    /// Bytes of each lane.
    sent: [u64; LANES],
}

impl Port {
    fn new(policy: &Policy) -> Port {
        Port { arbiter: Arbiter::new(policy, RATE), now: Time::ZERO, sent: [0; LANES] }
    }
    /// Serves one of `ready`, whose first packets are `heads`; `slot` passes where nobody may send.
    fn serve(&mut self, ready: u16, heads: &Heads, slot: Span) -> Option<u8> {
        let picked = self.arbiter.pick(ready, self.now, heads);
        let Some(lane) = picked else {
            self.now += slot;
            return None;
        };
        let amount = heads[usize::from(lane)];
        self.arbiter.charge(lane, amount);
        self.arbiter.sent(lane, amount, self.now);
        self.sent[usize::from(lane)] += amount.0;
        self.now += RATE.time(amount);
        picked
    }
    /// Serves packets of `size` of lanes that are always full.
    fn saturate(&mut self, ready: u16, size: Bytes, packets: u32) {
        for _ in 0..packets {
            self.serve(ready, &[size; LANES], RATE.time(size));
        }
    }
    fn percent(&self, lane: usize) -> f64 {
        let wire = RATE.as_bytes_per_s_f64() * self.now.since(Time::ZERO).as_s_f64();
        100.0 * self.sent[lane] as f64 / wire
    }
}

#[test]
fn what_an_idle_class_leaves_goes_by_the_shares_of_the_others() {
    // IEEE 802.1Q-2022 §8.6.8.4: bandwidth that a class does not use is there for the others. Of 50, 30 and 20 % with the first idle
    // 30 / 50 = 60 % and 20 / 50 = 40 % of the wire are left to the two; with two idle all of it.
    let cases: [(u16, [f64; 3]); 6] = [
        (0b111, [50.0, 30.0, 20.0]),
        (0b110, [0.0, 60.0, 40.0]),
        (0b101, [71.43, 0.0, 28.57]),
        (0b011, [62.5, 37.5, 0.0]),
        (0b100, [0.0, 0.0, 100.0]),
        (0b001, [100.0, 0.0, 0.0]),
    ];
    for (ready, expected) in cases {
        let mut port = Port::new(&shares(&[50, 30, 20]));
        port.saturate(ready, Bytes(1500), 20_000);
        for (lane, expected) in expected.into_iter().enumerate() {
            assert!((port.percent(lane) - expected).abs() < 0.1, "{ready:03b}, lane {lane}: {} %, not {expected}", port.percent(lane));
        }
    }
}

#[test]
fn a_strict_class_leaves_what_it_does_not_send() {
    // Two of five packets are ready in the strict class: 40 % of the wire; of the other 60 % half each.
    let policy = Policy::Ethernet(Arc::new(Ets::new(&[(Selection::Share(50), 1), (Selection::Share(50), 2), (Selection::Strict, 4)])));
    let mut port = Port::new(&policy);
    for packet in 0..10_000 {
        let ready = if packet % 5 < 2 { 0b111 } else { 0b011 };
        port.serve(ready, &[Bytes(1000); LANES], Span::ZERO);
    }
    assert_eq!(port.sent[2], 4_000_000);
    assert!(port.sent[0].abs_diff(port.sent[1]) <= 2 * 6400 + 1000 && port.sent[0] + port.sent[1] == 6_000_000, "{:?}", port.sent);
}

/// Priority, minimum and maximum of each class, and the percent of the wire that it has.
type Case = (&'static [(u8, u8, u8)], &'static [f64]);

#[test]
fn slingshot_shares_are_those_of_figure_14() {
    // De Sensi et al., SC 2020, figure 14: minimums of 80 and 10 % with both jobs sending become 80 and 20 %.
    let cases: [Case; 5] = [
        (&[(0, 80, 100), (0, 10, 100)], &[80.0, 20.0]),
        // What no minimum claims, 40 %, goes to who was served least until they are even: three thirds.
        (&[(0, 20, 100), (0, 20, 100), (0, 20, 100)], &[33.33, 33.33, 33.33]),
        // The highest priority has the rest, 70 %; the others their minimums.
        (&[(1, 0, 100), (0, 20, 100), (0, 10, 100)], &[70.0, 20.0, 10.0]),
        // A maximum of 25 % binds although its priority is higher.
        (&[(1, 0, 25), (0, 0, 100)], &[25.0, 75.0]),
        // Two maximums leave the wire idle for the rest.
        (&[(0, 0, 25), (0, 0, 50)], &[25.0, 50.0]),
    ];
    for (classes, expected) in cases {
        let mut port = Port::new(&guarantees(classes));
        port.saturate((1 << classes.len()) - 1, Bytes(4000), 20_000);
        for (lane, expected) in expected.iter().enumerate() {
            assert!((port.percent(lane) - expected).abs() < 0.2, "{classes:?}: lane {lane} has {} %, not {expected}", port.percent(lane));
        }
    }
}

#[test]
fn no_lane_of_an_even_port_is_more_than_a_turn_ahead() {
    // 4 KiB for each of eight lanes in turn: a packet of 4096 B each, or four of 1024 B.
    for (size, turn) in [(4096, 4096), (1024, 4096), (2048, 4096)] {
        let mut port = Port::new(&Policy::even(8));
        for _ in 0..1000 {
            port.saturate(0xFF, Bytes(size), 1);
            let all = &port.sent[..8];
            let ahead = all.iter().max().unwrap() - all.iter().min().unwrap();
            assert!(ahead <= turn, "{size} B: {all:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// InfiniBand §7.6.9.2: an entry of weight w sends until its weight is used up, the last packet whole: ceil(w / b) packets of b blocks of 64
    /// bytes in each cycle, where all lanes are full.
    #[test]
    fn a_cycle_gives_each_entry_its_weight(weights in prop::collection::vec(1u8..=255, 1..6), blocks in 1u64..80) {
        let low: Vec<(u8, u8)> = (0..).zip(weights.iter().copied()).collect();
        let turns: Vec<u32> = weights.iter().map(|weight| u32::from(*weight).div_ceil(blocks as u32)).collect();
        let mut port = Port::new(&tables(&[], &low, 0));
        for cycle in 1..=3u64 {
            port.saturate((1 << weights.len()) - 1, Bytes(64 * blocks), turns.iter().sum());
            for (lane, turn) in turns.iter().enumerate() {
                prop_assert_eq!(port.sent[lane], cycle * u64::from(*turn) * 64 * blocks, "lane {}", lane);
            }
        }
    }

    /// The same standard: the high table sends until 4096 · limit bytes are used up, the last packet whole; then the low one has one packet. A limit
    /// of 0 is one packet.
    #[test]
    fn the_low_table_has_one_packet_for_each_limit(limit in 0u8..255, blocks in 1u32..80) {
        let packets = (u32::from(limit) * 64).div_ceil(blocks).max(1);
        let mut port = Port::new(&tables(&[(1, 255)], &[(0, 255)], limit));
        port.saturate(0b11, Bytes(64 * u64::from(blocks)), 5 * (packets + 1));
        let size = 64 * u64::from(blocks);
        prop_assert_eq!((port.sent[1], port.sent[0]), (5 * u64::from(packets) * size, 5 * size));
    }

    /// Shreedhar and Varghese 1996, lemma 2: a class that always waits has sent its quantum in every round but for what it could not send, less
    /// than a packet. Two such classes are at most a round and their turn apart: |S₁/s₁ − S₂/s₂| ≤ 2 · 128 + M/s₁ + M/s₂ at any time.
    #[test]
    fn classes_are_never_far_from_their_shares(
        percents in prop::collection::vec(1u8..60, 2..5),
        sizes in prop::collection::vec(64u64..9216, 20..200),
    ) {
        let mut port = Port::new(&shares(&percents));
        let mut heads = [Bytes(64); LANES];
        for (lane, head) in heads.iter_mut().enumerate().take(percents.len()) {
            *head = Bytes(sizes[lane]);
        }
        for size in sizes.iter().cycle().take(1000) {
            let lane = port.serve((1 << percents.len()) - 1, &heads, Span::ZERO).expect("all wait");
            heads[usize::from(lane)] = Bytes(*size);
            let turns: Vec<f64> = percents.iter().enumerate().map(|(lane, share)| port.sent[lane] as f64 / f64::from(*share)).collect();
            for a in 0..percents.len() {
                for b in 0..a {
                    let bound = 256.0 + 9216.0 / f64::from(percents[a]) + 9216.0 / f64::from(percents[b]);
                    prop_assert!((turns[a] - turns[b]).abs() <= bound, "{:?} of {:?}", turns, percents);
                }
            }
        }
    }

    /// A wire is never idle while somebody who may send waits, and who is served waited.
    #[test]
    fn who_is_picked_waited(masks in prop::collection::vec(1u16..16, 1..200), which in 0usize..4, size in 64u64..5000) {
        let policy = [
            tables(&[(3, 9), (1, 200)], &[(0, 1), (2, 64), (1, 3)], 3),
            shares(&[40, 30, 20, 10]),
            guarantees(&[(0, 30, 100), (1, 0, 100), (0, 10, 100), (2, 5, 100)]),
            Policy::even(4),
        ][which].clone();
        let mut port = Port::new(&policy);
        for ready in masks {
            let lane = port.serve(ready, &[Bytes(size); LANES], Span::ZERO);
            prop_assert!(lane.is_some_and(|lane| ready & 1 << lane != 0), "{:?} of {:04b}", lane, ready);
            prop_assert_eq!(port.arbiter.pick(0, port.now, &[Bytes(size); LANES]), None);
        }
    }

    /// Slingshot's promises whoever else sends: at least the minimum, but for a packet of each other class; at most the maximum, but for the first
    /// packet and one that it was kept from.
    #[test]
    fn minimums_and_maximums_hold(
        classes in prop::collection::vec((0u8..3, 0u8..25, 30u8..=100), 1..5),
        others in 0u16..16,
        size in 500u64..9000,
    ) {
        let mut port = Port::new(&guarantees(&classes));
        let all = (1u16 << classes.len()) - 1;
        let slots = 2000;
        for _ in 0..slots {
            port.serve((others & all) | 1, &[Bytes(size); LANES], RATE.time(Bytes(size)));
        }
        let wire = RATE.as_bytes_per_s_f64() * port.now.since(Time::ZERO).as_s_f64();
        let packet = size as f64;
        let (_, minimum, maximum) = classes[0];
        let sent = port.sent[0] as f64;
        let least = wire * f64::from(minimum) / 100.0 - 5.0 * packet;
        prop_assert!(sent >= least, "{} of {} at least", sent, least);
        for (lane, (_, _, maximum)) in classes.iter().enumerate() {
            let most = wire * f64::from(*maximum) / 100.0 + 2.0 * packet;
            prop_assert!(port.sent[lane] as f64 <= most, "{} of {} at most", port.sent[lane], most);
        }
        // Alone it has all that it may have.
        if (others & all) | 1 == 1 {
            prop_assert!(sent >= wire * f64::from(maximum) / 100.0 - 2.0 * packet);
        }
    }
}
