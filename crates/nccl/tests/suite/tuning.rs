//! The tuner by hand: latencies and bandwidths from the formulas of the library's source, and what it does with them.

use crate::catalogued;
use std::sync::OnceLock;

use catalogued::communicator;
use fabriscope_catalog::Catalog;
use fabriscope_nccl::{Algorithm, Communicator, Entry, Operation, Plan, Protocol, RankPlacement, Release, Settings, Tuner};
use fabriscope_units::{Bytes, Span};
use proptest::prelude::*;

fn tuner(known: (&'static str, u64), nodes: u32) -> Tuner {
    Tuner::new(&communicator(&Catalog::embedded().unwrap(), known, nodes))
}

fn near(entry: Option<Entry>, latency: f64, bandwidth: f64, what: &str) {
    let entry = entry.unwrap_or_else(|| panic!("{what}: nothing"));
    assert!((entry.latency - latency).abs() < 1e-6, "{what}: {} us, not {latency}", entry.latency);
    assert!((entry.bandwidth - bandwidth).abs() < 1e-6 * bandwidth, "{what}: {} GB/s, not {bandwidth}", entry.bandwidth);
}

#[test]
fn one_dgx_a100() {
    // NCCL 2.22.3, tuning.cc. Base latencies of a ring: LL 6.6, LL128 14, Simple 8.4 us; a hop over NVLink 0.6, 1.9, 3.4 us.
    // An all-reduce of 8 ranks takes 2 · 7 = 14 hops, an all-gather 7; a broadcast along one order is pipelined: one hop.
    // 12 rings of 20 GB/s are 240 GB/s on the bus. LL reaches half, at most 87.7; LL128 92 %, at most 20 per ring; Simple all.
    // Of the message that is 8/14, 8/7 and 8/8 of the bus.
    let tuner = tuner(("dgx-a100", 200), 1);
    let rows = [(Protocol::Ll, 6.6, 0.6, 87.7), (Protocol::Ll128, 14.0, 1.9, 240.0 * 0.92), (Protocol::Simple, 8.4, 3.4, 240.0)];
    for (protocol, base, hop, bus) in rows {
        let entry = |operation| tuner.entry(operation, Algorithm::Ring, protocol);
        near(entry(Operation::AllReduce), base + 14.0 * hop, bus * 8.0 / 14.0, "all-reduce");
        near(entry(Operation::AllGather), base + 7.0 * hop, bus * 8.0 / 7.0, "all-gather");
        near(entry(Operation::ReduceScatter), base + 7.0 * hop, bus * 8.0 / 7.0, "reduce-scatter");
        near(entry(Operation::Broadcast), base + hop, bus, "broadcast");
    }
    // Trees: 6.8, 14 and 0 us; 2 · 7 hops of 0.6, 1.25 and 28 us. 92 % of the bus, and half of that for a message up and down;
    // LL 1/3.8 of it, LL128 7/9.
    let bus = 240.0 * 0.92;
    let entry = |protocol| tuner.entry(Operation::AllReduce, Algorithm::Tree, protocol);
    near(entry(Protocol::Ll), 6.8 + 14.0 * 0.6, bus / 3.8 / 2.0, "tree LL");
    near(entry(Protocol::Ll128), 14.0 + 14.0 * 1.25, bus * 7.0 / 9.0 / 2.0, "tree LL128");
    near(entry(Protocol::Simple), 14.0 * 28.0, bus / 2.0, "tree Simple");
    // No trees but for all-reduce, and no switch of Ampere that reduces.
    assert_eq!(tuner.entry(Operation::AllGather, Algorithm::Tree, Protocol::Ll), None);
    assert_eq!(tuner.entry(Operation::AllReduce, Algorithm::Nvls, Protocol::Simple), None);
}

#[test]
fn one_dgx_a100_with_2_18() {
    // NCCL 2.18.3, tuning.cc: a hop of a tree with Simple takes 4 us, and LL reaches a quarter of a ring's rate. So trees leave LL128 at
    // 64 MiB: 56 us and 0.8 of 110.4 GB/s against 31.5 us and 0.9 of 85.9; with 28 us for a hop they do at 256 MiB.
    let catalog = Catalog::embedded().unwrap();
    let chosen = |release| {
        let kind = catalogued::kind(&catalog, ("dgx-a100", 200), true);
        let seats: Vec<RankPlacement> = (0..8).map(|gpu| RankPlacement { node: 0, gpu }).collect();
        let mut settings = Settings { release, ..Settings::default() };
        let rings = Tuner::new(&Communicator::new(vec![kind.clone()], &[0], &seats, settings.clone()).unwrap());
        settings.set("NCCL_ALGO", "Tree").unwrap();
        let trees = Tuner::new(&Communicator::new(vec![kind], &[0], &seats, settings).unwrap());
        let protocol = |mib| trees.choose(Operation::AllReduce, Bytes::from_mib(mib)).unwrap().protocol;
        (rings.entry(Operation::AllReduce, Algorithm::Ring, Protocol::Ll), [32, 64, 128, 256].map(protocol))
    };
    let (ll, protocols) = chosen(Release::V2_18);
    near(ll, 6.6 + 14.0 * 0.6, 60.0 * 8.0 / 14.0, "ring LL");
    assert_eq!(protocols, [Protocol::Ll128, Protocol::Simple, Protocol::Simple, Protocol::Simple]);
    let (_, protocols) = chosen(Release::Usual);
    assert_eq!(protocols, [Protocol::Ll128, Protocol::Ll128, Protocol::Ll128, Protocol::Simple]);
}

#[test]
fn four_dgx_a100() {
    // Rings of 32 ranks: 62 steps, of which 2 · 4 cross nodes at 2.7 (LL), 4 (LL128), 14 us (Simple). The others take a hop over NVLink
    // or the time to post, whichever is longer: 2 us with AMD's processors, three times that with Simple.
    // 8 rings of 24 GB/s are 192 GB/s; LL at most 19 with AMD's processors and more than two nodes.
    let tuner = tuner(("dgx-a100", 200), 4);
    let entry = |protocol| tuner.entry(Operation::AllReduce, Algorithm::Ring, protocol);
    near(entry(Protocol::Ll), 6.6 + 54.0 * 2.0 + 8.0 * 2.7, 19.0 * 32.0 / 62.0, "LL");
    near(entry(Protocol::Ll128), 14.0 + 54.0 * 2.0 + 8.0 * 4.0, 160.0 * 32.0 / 62.0, "LL128");
    near(entry(Protocol::Simple), 8.4 + 54.0 * 6.0 + 8.0 * 14.0, 192.0 * 32.0 / 62.0, "Simple");
    // Trees: 7 hops in the node and log2 4 = 2 between nodes, both up and down: 2 · (7 · 0.6 + 2 · 5) + 6.8.
    let entry = |protocol| tuner.entry(Operation::AllReduce, Algorithm::Tree, protocol);
    near(entry(Protocol::Ll), 6.8 + 2.0 * (7.0 * 0.6 + 2.0 * 5.0), 19.0 / 2.0, "tree LL");
    // 92 % of 192 GB/s, at most 17.8 for each of 8 channels of Ampere: 142.4 GB/s, half for the message.
    near(entry(Protocol::Simple), 2.0 * (7.0 * 28.0 + 2.0 * 28.0), 142.4 / 2.0, "tree Simple");
}

#[test]
fn switches_of_hopper_reduce() {
    // NVLS: a hop of 25 us. 8 heads of 40 GB/s are 320 GB/s, of which 5/6 count for the message: 266.7 GB/s.
    let one = tuner(("hgx-h100", 400), 1);
    for operation in [Operation::AllReduce, Operation::AllGather, Operation::ReduceScatter] {
        near(one.entry(operation, Algorithm::Nvls, Protocol::Simple), 25.0, 320.0 * 5.0 / 6.0, operation.name());
    }
    assert_eq!(one.entry(Operation::Broadcast, Algorithm::Nvls, Protocol::Simple), None);
    assert_eq!(one.entry(Operation::AllReduce, Algorithm::NvlsTree, Protocol::Simple), None, "one node needs no tree");
    // Its tree over 16 nodes: 25 us, and four levels of 14 us up and down. Half of the 48 GB/s of the network for each of 8 heads.
    let sixteen = tuner(("hgx-h100", 400), 16);
    near(
        sixteen.entry(Operation::AllReduce, Algorithm::NvlsTree, Protocol::Simple),
        25.0 + 2.0 * 4.0 * 14.0,
        8.0 * 24.0 * 5.0 / 6.0,
        "tree",
    );
}

#[test]
fn estimates_are_latency_and_transfer() {
    // 64 MiB in a ring of one DGX A100 with Simple: 56 us + 67,108,864 B / 137.142857 GB/s = 56 + 489.335 us.
    let tuner = tuner(("dgx-a100", 200), 1);
    let estimate = tuner.estimate(Operation::AllReduce, Algorithm::Ring, Protocol::Simple, Bytes(64 << 20)).unwrap();
    let expected = 56.0 + f64::from(64 << 20) / 137_142.857_142_857;
    assert!((estimate.as_us_f64() - expected).abs() < 0.001, "{estimate}");
    // A tree with LL reaches 0.7 of its rate from 4 KiB (64 B · 2⁶) on: 15.2 us + 8192 / (0.7 · 29,052.6 B/us).
    let estimate = tuner.estimate(Operation::AllReduce, Algorithm::Tree, Protocol::Ll, Bytes(8192)).unwrap();
    let expected = 15.2 + 8192.0 / (0.7 * 240_000.0 * 0.92 / 3.8 / 2.0);
    assert!((estimate.as_us_f64() - expected).abs() < 0.001, "{estimate}, not {expected}");
    assert_eq!(tuner.estimate(Operation::Broadcast, Algorithm::Tree, Protocol::Ll, Bytes(8192)), None);
}

#[test]
fn small_messages_have_few_channels_and_threads() {
    // A channel and a thread are left out while there are fewer than 8 B for each thread of LL (times ranks in a ring) and LL128, and
    // 64 B of Simple. Ring with LL, 8 ranks, 512 threads: a channel needs 512 · 64 = 32,768 B. Simple: 512 · 64 as well, and one more
    // warp that only waits. LL128: 640 threads · 8 = 5,120 B.
    let tuner = tuner(("dgx-a100", 200), 1);
    let with = |protocol, bytes| {
        let choice = tuner.with(Operation::AllReduce, Algorithm::Ring, protocol, Bytes(bytes)).unwrap();
        (choice.channels, choice.threads)
    };
    let table = [
        (Protocol::Ll, 24 * 32_768, (24, 512)),
        (Protocol::Ll, 24 * 32_768 - 1, (23, 512)),
        (Protocol::Ll, 32_768, (1, 512)),
        (Protocol::Ll, 16_384, (1, 256)),
        // Never fewer than three warps.
        (Protocol::Ll, 8, (1, 96)),
        (Protocol::Simple, 10 * 32_768, (10, 544)),
        (Protocol::Simple, 1 << 30, (24, 544)),
        (Protocol::Ll128, 3 * 5_120, (3, 640)),
        (Protocol::Ll128, 5_120, (1, 640)),
    ];
    for (protocol, bytes, expected) in table {
        assert_eq!(with(protocol, bytes), expected, "{protocol}, {bytes} B");
    }
    // Trees of NVIDIA have all 640 threads.
    assert_eq!(tuner.with(Operation::AllReduce, Algorithm::Tree, Protocol::Ll, Bytes(8)).unwrap().threads, 640);
}

#[test]
fn flags_take_room() {
    // LL: 4 B of flags for 4 B, lines of 16 B with 8 B of data. LL128: lines of 128 B with 120 B.
    let table = [
        (Protocol::Ll, [(0, 0), (1, 16), (8, 16), (9, 32), (4096, 8192)]),
        (Protocol::Ll128, [(0, 0), (1, 128), (120, 128), (121, 256), (12_000, 12_800)]),
        (Protocol::Simple, [(0, 0), (1, 1), (8, 8), (9, 9), (4096, 4096)]),
    ];
    for (protocol, rows) in table {
        for (data, wire) in rows {
            assert_eq!(protocol.wire(Bytes(data)), Bytes(wire), "{protocol}, {data} B");
        }
    }
}

#[test]
fn the_size_of_a_message_is_the_larger_buffer() {
    // An all-gather of 8 ranks ends with 8 blocks in each, a reduce-scatter begins with them; the others have one.
    let blocks = Operation::ALL.map(|operation| operation.blocks(8));
    assert_eq!(blocks, [1, 1, 8, 8, 1]);
}

/// Tuners of unlike machines, made once.
fn some() -> &'static [Tuner] {
    static TUNERS: OnceLock<Vec<Tuner>> = OnceLock::new();
    TUNERS.get_or_init(|| {
        let all =
            [("dgx-1v", 100, 1), ("dgx-a100", 200, 4), ("hgx-h100", 400, 1), ("hgx-h100", 400, 8), ("mi250x", 200, 4), ("ac922", 100, 2)];
        all.iter().map(|(name, rate, nodes)| tuner((name, *rate), *nodes)).collect()
    })
}

proptest! {
    /// The choice is the fastest of what there is, within the channels of the communicator, and threads are whole warps.
    #[test]
    fn the_fastest_is_chosen(which in 0usize..6, bytes in 1u64..1 << 33, operation in prop::sample::select(Operation::ALL.to_vec())) {
        let tuner = &some()[which];
        let choice = tuner.choose(operation, Bytes(bytes)).unwrap();
        for algorithm in Algorithm::ALL {
            for protocol in Protocol::ALL {
                if let Some(other) = tuner.estimate(operation, algorithm, protocol, Bytes(bytes)) {
                    prop_assert!(choice.estimate <= other, "{} {}: {} beats {:?}", algorithm, protocol, other, choice);
                }
            }
        }
        prop_assert!(choice.channels >= 1 && choice.threads.is_multiple_of(32) && choice.threads >= 96);
        prop_assert!(choice.estimate > Span::ZERO);
    }

    /// More bytes never take less time, nor fewer channels or threads, in a ring.
    #[test]
    fn rings_grow_with_the_message(which in 0usize..4, bytes in 1u64..1 << 30, more in 1u64..1 << 30) {
        let tuner = &some()[which];
        for protocol in Protocol::ALL {
            let with = |bytes| tuner.with(Operation::AllGather, Algorithm::Ring, protocol, Bytes(bytes)).unwrap();
            let (less, more) = (with(bytes), with(bytes + more));
            prop_assert!(less.estimate <= more.estimate);
            prop_assert!((less.channels, less.threads) <= (more.channels, more.threads), "{:?} {:?}", less, more);
        }
    }
}

#[test]
fn plans_of_choices_cover_the_message_in_every_rank() {
    // Whatever is chosen: the steps of a rank that keep something write each byte of its output once.
    let catalog = Catalog::embedded().unwrap();
    for (known, nodes) in [(("dgx-a100", 200), 1), (("dgx-1v", 100), 2), (("hgx-h100", 400), 1), (("mi250x", 200), 2)] {
        let communicator = communicator(&catalog, known, nodes);
        let tuner = Tuner::new(&communicator);
        for bytes in [4, 4096, 1 << 20, 100_000_004] {
            let choice = tuner.choose(Operation::AllReduce, Bytes(bytes)).unwrap();
            let plan = Plan::new(&communicator, choice, bytes / 4, Bytes(4), 0, false).unwrap();
            let share: u64 = plan.parts.iter().map(|part| part.bytes.0).sum();
            assert_eq!(share, bytes, "{}: {choice:?}", known.0);
            for rank in [0, communicator.ranks() - 1] {
                let mut spans: Vec<(u64, u64)> = Vec::new();
                for part in &plan.parts {
                    for lane in plan.lanes(&communicator, rank, part) {
                        let kept = lane.iter().filter_map(|step| Some((step.output?.0, step.bytes.0)));
                        spans.extend(kept.filter(|(_, bytes)| *bytes > 0));
                    }
                }
                spans.sort_unstable();
                let mut at = 0;
                for (offset, bytes) in spans {
                    assert_eq!(offset, at, "{}, rank {rank}: {choice:?}", known.0);
                    at += bytes;
                }
                assert_eq!(at, bytes, "{}, rank {rank}: {choice:?}", known.0);
            }
        }
    }
}
