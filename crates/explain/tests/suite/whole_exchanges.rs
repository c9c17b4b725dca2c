//! The chain that is told is the one that the tool measures, whatever the protocol below; and what a message keeps busy follows from the formats
//! of its packets.

use crate::ask;
use ask::{parts, tell};
use fabriscope_explain::occupancy::{Busy, resources, text};
use fabriscope_units::Span;
use proptest::prelude::*;

/// What the tool prints, in us.
fn printed(text: &str) -> f64 {
    let words = text.split("prints a latency of ").nth(1).unwrap_or_else(|| panic!("{text}"));
    words.split_whitespace().next().unwrap().parse().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// A message that several adapters share keeps each as busy as its piece, rounded up to a byte.
    #[test]
    fn a_piece_is_a_message_of_its_length(size in 1u64..1_000_000, pieces in 1u32..9, cluster in prop::sample::select(vec!["ri2", "lumi-g", "thor-roce-100g"])) {
        let parts = parts(cluster);
        prop_assert_eq!(resources(&parts, size, true, Some(pieces)), resources(&parts, size.div_ceil(pieces.into()), true, Some(1)));
    }
}

#[test]
fn the_whole_is_what_the_tool_prints() {
    // Eager and by rendezvous, matched by cores and by adapters: the tool prints the mean of half of its round trips with two decimals, the stages
    // are those of one of them. They differ by the turns of polling loops, which fall otherwise each time: 3 % here, 0.07 us of 3.63 us at the most.
    for cluster in ["ri2", "betzy-hdr", "lumi-c", "slingshot11-milan"] {
        for size in [1, 200, 3000, 6554, 8191, 8192, 20_000, 66_000] {
            let told = tell(&parts(cluster), "osu_latency", size);
            let (whole, printed) = (told.total() as f64 / 1e6, printed(&told.text()));
            assert!((whole - printed).abs() < 0.03 * printed, "{cluster}, {size} B: {whole} us and {printed} us");
        }
    }
}

fn busy(resources: &[Busy], what: &str) -> u64 {
    resources.iter().find(|busy| busy.what == what).unwrap_or_else(|| panic!("no {what}: {resources:?}")).span.as_ps()
}

#[test]
fn a_wire_is_busy_for_payload_and_headers() {
    // InfiniBand: a symbol at each end, LRH 8, BTH 12, ICRC 4, VCRC 2: 28 B a packet. RoCEv2: Ethernet 14, IPv4 20, UDP 8, BTH 12, ICRC 4,
    // FCS 4, preamble and gap 20: 82 B. Both at 100 Gb/s, 80 ps a byte, with packets of 4096 B.
    for (cluster, header) in [("ri2", 28), ("thor-roce-100g", 82)] {
        for size in [8u64, 64, 4096, 4100, 8192, 100_000] {
            let expected = (size + size.div_ceil(4096) * header) * 80;
            let found = busy(&resources(&parts(cluster), size, true, None), "link");
            assert_eq!(found, expected, "{cluster}, {size} B");
        }
    }
}

#[test]
fn what_is_there_once_does_not_grow_with_the_size() {
    let parts = parts("ri2");
    let (small, large) = (resources(&parts, 8, true, None), resources(&parts, 1 << 20, true, None));
    for what in ["NIC's send engine", "core that posts"] {
        assert_eq!(busy(&small, what), busy(&large, what), "{what}");
    }
    // And a bus of twice the lanes is busy for half as long.
    let mut wide = parts.clone();
    wide.sole_mut().node.pcie.lanes /= 2;
    let narrow = resources(&wide, 1 << 20, true, None);
    for what in ["PCIe of the sender", "PCIe of the receiver"] {
        assert!(busy(&narrow, what).abs_diff(2 * busy(&large, what)) <= 2, "{what}");
    }
}

#[test]
fn the_bound_is_the_largest_share() {
    // From 90 % of the time on a resource binds; below that nothing does, and the largest is named all the same.
    let table = [
        ([50, 89, 20], "nothing is busy all the time (most of all the two, 89.0 %)"),
        ([50, 90, 20], "bound: the two is busy 90.0 % of the time"),
        ([100, 90, 20], "bound: the one is busy 100.0 % of the time"),
    ];
    for (ns, expected) in table {
        let all: Vec<Busy> =
            ["one", "two", "three"].into_iter().zip(ns).map(|(what, ns)| Busy { what: what.into(), span: Span::from_ns(ns) }).collect();
        let told = text(&all, Span::from_ns(100));
        assert!(told.contains(expected), "{told}");
        // A line for each, its share last.
        for (line, ns) in told.lines().skip(1).zip(ns) {
            assert!(line.ends_with(&format!("{ns}.0")), "{line}");
        }
    }
}
