//! Laws of explanations: stages make up the whole whatever the size, exchanges add up whatever the messages, resources are busy in
//! proportion to what goes through them.

use crate::ask;
use std::collections::BTreeMap;

use ask::{parts, tell};
use fabriscope_engine::{MessageTrace, Stage, StageSpan};
use fabriscope_explain::critical_path::{Followed, exchange, single};
use fabriscope_explain::occupancy;
use fabriscope_units::Span;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Any size of any latency test, on fabrics of all kinds.
    #[test]
    fn stages_make_up_the_whole(
        size in prop_oneof![0u64..300, 300u64..200_000],
        line in prop::sample::select(vec![
            ("ib_write_lat", "ri2"), ("ib_send_lat", "betzy-hdr"), ("ib_read_lat", "thor-roce-100g"), ("osu_latency", "ri2"),
            ("osu_latency", "lumi-c"), ("osu_latency", "csd3-opa"), ("osu_latency", "aws-c5n-efa"), ("osu_put_latency", "ri2"),
            ("osu_get_latency", "ri2"),
        ]),
    ) {
        let size = size.max(1);
        let told = tell(&parts(line.1), line.0, size);
        let stages = told.stages();
        prop_assert!(told.total() > 0 && !stages.is_empty(), "{:?}, {} B", line, size);
        prop_assert_eq!(stages.iter().map(|(_, ps)| ps).sum::<u64>(), told.total(), "{:?}, {} B: {:?}", line, size, stages);
    }

    /// A longer write never arrives earlier, and no message arrives before its bits have gone over cable and wire.
    #[test]
    fn longer_writes_take_longer(size in 300u64..100_000, more in 1u64..4000) {
        let parts = parts("ri2");
        let (short, long) = (tell(&parts, "ib_write_lat", size), tell(&parts, "ib_write_lat", size + more));
        prop_assert!(short.total() <= long.total(), "{} and {} B more: {} and {}", size, more, short.total(), long.total());
        let wire = size as f64 * 8.0 / 100.0 * 1000.0;
        let cable = parts.sole().host_delay().as_ps() * 2;
        prop_assert!(short.total() as f64 > wire + cable as f64);
    }

    /// Ping-pongs of any steps: `way` picoseconds for a message in two stages, `gap` in the program. The chain of the last exchange is one
    /// message and the program; its stages make it up.
    #[test]
    fn chains_of_ping_pongs(way in 2u64..1_000_000, gap in 1u64..1_000_000, turns in 3u64..12, cut in 1u64..100) {
        let first = 1 + (way - 2) * cut / 100;
        let stage = |stage, ps| StageSpan { stage, span: Span::from_ps(ps), place: String::new() };
        let message = |n: u64| {
            let posted_ps = n * (way + gap);
            let stages = vec![stage(Stage::Post, first), stage(Stage::Propagation, way - first)];
            MessageTrace { node: (n % 2) as u32, bytes: 8, posted_ps, done_ps: posted_ps + way, stages }
        };
        let traces: Vec<MessageTrace> = (0..2 * turns).map(message).collect();
        let followed = Followed { traces: &traces, works: &[], nics: 1, exchanges: turns as usize };
        for (one_way, times) in [(true, 1), (false, 2)] {
            let chain = exchange(&followed, one_way).unwrap();
            prop_assert_eq!(chain.total, Span::from_ps(times * (way + gap)));
            prop_assert_eq!(chain.stages.iter().map(|(_, span)| *span).sum::<Span>(), chain.total);
            prop_assert_eq!(chain.messages as u64, times);
            let program: Span = chain.stages.iter().filter(|(name, _)| name == "program").map(|(_, span)| *span).sum();
            prop_assert_eq!(program, Span::from_ps(times * gap));
        }
        prop_assert_eq!(single(&traces[0]).total, Span::from_ps(way));
    }

    /// Twice the whole packets keep links and buses twice as long; the send engine does not care.
    #[test]
    fn resources_are_linear_in_packets(packets in 1u64..500, cluster in prop::sample::select(vec!["ri2", "thor-roce-100g", "lab-16"])) {
        let parts = parts(cluster);
        let mtu = parts.mtu.as_u64();
        // Completions of the root complex are of another size than packets: a multiple of both is twice as much exactly.
        let size = packets * mtu * parts.sole().node.cpu.root_complex.completion_payload.as_u64();
        let of = |size: u64| -> BTreeMap<String, u64> {
            occupancy::resources(&parts, size, true, None).into_iter().map(|busy| (busy.what.into_owned(), busy.span.as_ps())).collect()
        };
        let (one, two) = (of(size), of(2 * size));
        for what in ["link", "PCIe of the sender", "PCIe of the receiver"] {
            prop_assert!(two[what].abs_diff(2 * one[what]) <= 2, "{}: {} and {}", what, one[what], two[what]);
        }
        prop_assert_eq!(one["NIC's send engine"], two["NIC's send engine"]);
    }
}

#[test]
fn a_chain_needs_whole_exchanges() {
    // Seven messages are no three exchanges: nothing can be said, and nothing is made up.
    let stages = vec![StageSpan { stage: Stage::Post, span: Span::from_ps(10), place: String::new() }];
    let message = |n: u64| MessageTrace { node: (n % 2) as u32, bytes: 8, posted_ps: 20 * n, done_ps: 20 * n + 10, stages: stages.clone() };
    let traces: Vec<MessageTrace> = (0..7).map(message).collect();
    assert_eq!(exchange(&Followed { traces: &traces, works: &[], nics: 1, exchanges: 3 }, true), None);
    assert_eq!(exchange(&Followed { traces: &[], works: &[], nics: 1, exchanges: 3 }, true), None);
    assert_eq!(exchange(&Followed { traces: &traces[..6], works: &[], nics: 1, exchanges: 0 }, true), None);
}

#[test]
fn seeds_do_not_matter_where_nothing_is_random() {
    // Deterministic routing and no losses: any seed gives the same chain; and the same seed the same one twice.
    let of = |seed: u64| {
        let mut request = ask::request("osu_latency", Some(20_000), fabriscope_explain::Changes::Left);
        request.seed = seed;
        ask::tell_all(&parts("ri2"), request).stages()
    };
    assert_eq!(of(1), of(1));
    assert_eq!(of(1), of(99));
}
