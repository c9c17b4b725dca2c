//! What users set and what of it takes effect: channels within bounds, buffers in slots, algorithms and protocols that are left; and how
//! messages between two ranks are split on the catalogue's nodes.

use crate::catalogued;
use std::collections::BTreeSet;

use catalogued::{NODES, communicator, kind};
use fabriscope_catalog::Catalog;
use fabriscope_nccl::point_to_point::Schedule;
use fabriscope_nccl::{Algorithm, Communicator, Operation, PathType, Plan, Protocol, RankPlacement, SLOTS, Set, Settings, Tuner};
use fabriscope_units::Bytes;
use proptest::prelude::*;

fn set(variables: &[(&str, &str)]) -> Settings {
    let mut settings = Settings::default();
    for (name, value) in variables {
        assert!(settings.set(name, value).unwrap(), "{name} is known");
    }
    settings
}

/// Two nodes of a kind under these settings.
fn with(known: (&'static str, u64), nodes: u32, settings: Settings) -> Communicator {
    let kind = kind(&Catalog::embedded().unwrap(), known, nodes == 1);
    let gpus = kind.topology.gpus() as u32;
    let seats: Vec<_> = (0..nodes * gpus).map(|rank| RankPlacement { node: rank / gpus, gpu: rank % gpus }).collect();
    Communicator::new(vec![kind], &vec![0; nodes as usize], &seats, settings).unwrap()
}

#[test]
fn variables_and_their_values() {
    // NCCL's documentation: names, numbers of old releases for levels, lists with `^` for what is left out.
    let settings = set(&[("NCCL_ALGO", "^Tree,ring"), ("NCCL_PROTO", "simple")]);
    assert_eq!(settings.algorithms, [false, false, true, true, true, true]);
    assert_eq!(settings.protocols, [Set::Off, Set::Off, Set::On]);
    let levels = [
        ("LOC", PathType::Loc),
        ("PIX", PathType::Pix),
        ("SYS", PathType::Sys),
        ("0", PathType::Loc),
        ("2", PathType::Pxb),
        ("4", PathType::Sys),
    ];
    for (text, class) in levels {
        assert_eq!(set(&[("NCCL_P2P_LEVEL", text)]).p2p_level, Some(class), "{text}");
        assert_eq!(set(&[("NCCL_NET_GDR_LEVEL", text)]).gdr_level, Some(class), "{text}");
    }
    // Old names mean the same as new ones.
    for name in ["NCCL_MAX_NCHANNELS", "NCCL_MAX_NRINGS", "NCCL_MAX_CTAS"] {
        assert_eq!(set(&[(name, "7")]).most_channels, Some(7), "{name}");
    }
    // Threads are whole warps between two and sixteen of them.
    assert_eq!(
        ["32", "64", "256", "1024"].map(|threads| set(&[("NCCL_NTHREADS", threads)]).threads),
        [Some(64), Some(64), Some(256), Some(512)]
    );
    let off = set(&[("NCCL_SHM_DISABLE", "1"), ("NCCL_NVLS_ENABLE", "0"), ("NCCL_PXN_DISABLE", "1"), ("NCCL_NVB_DISABLE", "1")]);
    assert_eq!((off.shared_memory, off.nvls, off.pxn, off.nvb), (false, false, Set::Off, false));
    // A switch that is set to what is usual changes nothing.
    assert_eq!(set(&[("NCCL_P2P_DISABLE", "0"), ("NCCL_SHM_DISABLE", "0"), ("NCCL_NVLS_ENABLE", "1")]), Settings::default());
}

#[test]
fn what_is_left_is_used() {
    // With one algorithm and one protocol allowed, every message takes them; operations that have only rings take rings.
    for (algorithm, protocol) in [(Algorithm::Tree, Protocol::Ll), (Algorithm::Ring, Protocol::Simple), (Algorithm::Tree, Protocol::Simple)]
    {
        let tuner = Tuner::new(&with(("dgx-a100", 200), 2, set(&[("NCCL_ALGO", algorithm.name()), ("NCCL_PROTO", protocol.name())])));
        for bytes in [8, 1 << 16, 1 << 28] {
            let choice = tuner.choose(Operation::AllReduce, Bytes(bytes)).unwrap();
            assert_eq!((choice.algorithm, choice.protocol), (algorithm, protocol), "{bytes} B");
            let gather = tuner.choose(Operation::AllGather, Bytes(bytes)).unwrap();
            assert_eq!((gather.algorithm, gather.protocol), (Algorithm::Ring, protocol), "{bytes} B");
        }
    }
}

#[test]
fn buffers_are_eight_slots() {
    // 4 MiB of Simple, 512 threads · 8 lines · 16 B · 8 slots of LL, 640 · 120 · 8 · 8 of LL128; or what users say.
    let catalog = Catalog::embedded().unwrap();
    let usual = communicator(&catalog, ("dgx-a100", 200), 1);
    let slot = |communicator: &Communicator, protocol| {
        let choice = Tuner::new(communicator).with(Operation::AllReduce, Algorithm::Ring, protocol, Bytes(1 << 20)).unwrap();
        Plan::new(communicator, choice, 1 << 18, Bytes(4), 0, false).unwrap().slot.0
    };
    assert_eq!(SLOTS, 8);
    assert_eq!(Protocol::ALL.map(|protocol| slot(&usual, protocol)), [512 * 8 * 16, 120 * 640 * 8, 512 << 10]);
    let larger = with(("dgx-a100", 200), 1, set(&[("NCCL_BUFFSIZE", "8388608"), ("NCCL_LL_BUFFSIZE", "65536")]));
    assert_eq!([Protocol::Ll, Protocol::Simple].map(|protocol| slot(&larger, protocol)), [8192, 1 << 20]);
}

#[test]
fn heads_of_switches() {
    // Each of eight Hopper GPUs is the head of one channel of NVLS; the trees between nodes join heads of the same number.
    let catalog = Catalog::embedded().unwrap();
    let communicator = communicator(&catalog, ("hgx-h100", 400), 4);
    assert_eq!(communicator.nvls_heads(), 8);
    for node in 0..4 {
        let heads: BTreeSet<u32> = (0..8).map(|head| communicator.nvls_head(node, head)).collect();
        assert_eq!(heads.len(), 8);
        assert!(heads.iter().all(|rank| communicator.seat(*rank).node == node));
    }
    for channel in 0..communicator.nvls_channels() {
        for rank in 0..communicator.ranks() {
            let tree = communicator.nvls_tree(channel, rank).unwrap();
            let head = communicator.nvls_head_of(rank);
            for peer in tree.up.iter().chain(&tree.down) {
                assert_eq!(communicator.nvls_head_of(*peer), head, "channel {channel}");
                assert_ne!(communicator.seat(*peer).node, communicator.seat(rank).node);
            }
            if let Some(up) = tree.up {
                assert!(communicator.nvls_tree(channel, up).unwrap().down.contains(&rank), "channel {channel}");
            }
        }
        let roots = (0..communicator.ranks()).filter(|rank| communicator.nvls_tree(channel, *rank).unwrap().up.is_none()).count();
        assert_eq!(roots, 8, "one root for each head");
    }
    // Ampere has switches that do not reduce.
    assert_eq!(communicator_of_ampere().nvls_heads(), 0);
}

fn communicator_of_ampere() -> Communicator {
    communicator(&Catalog::embedded().unwrap(), ("dgx-a100", 200), 1)
}

#[test]
fn every_pair_of_ranks_meets_once() {
    let catalog = Catalog::embedded().unwrap();
    for known in NODES.into_iter().filter(|(name, _)| *name != "gb200-nvl72") {
        for nodes in [1, 3] {
            let communicator = communicator(&catalog, known, nodes);
            let (schedule, ranks) = (Schedule::new(&communicator), communicator.ranks());
            assert!(schedule.channels().is_power_of_two() && schedule.channels_per_peer() <= schedule.channels(), "{}", known.0);
            let mut met = BTreeSet::new();
            for rank in 0..ranks {
                for round in 0..ranks {
                    let pair = schedule.pair(&communicator, rank, round);
                    assert_eq!(schedule.pair(&communicator, pair.to, round).from, rank, "{}: round {round}", known.0);
                    assert_eq!(schedule.round(&communicator, rank, pair.to), round, "{}", known.0);
                    met.insert((rank, pair.to));
                }
            }
            assert_eq!(met.len() as u32, ranks * ranks, "{}, {nodes} nodes", known.0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// However many channels users allow or ask for: at least the least, at most the most, where both can be.
    #[test]
    fn channels_are_within_what_users_say(least in 1usize..40, most in 1usize..40, nodes in 1u32..3) {
        let settings = Settings { least_channels: least, most_channels: Some(most), ..Settings::default() };
        let channels = with(("dgx-a100", 200), nodes, settings).channels() as usize;
        prop_assert!(channels <= most.max(least), "{} of {} to {}", channels, least, most);
        prop_assert!(channels >= least.min(32));
    }

    /// A message between two ranks is split without a gap, over different channels, in chunks that fit a slot.
    #[test]
    fn messages_are_split_without_gaps(which in 0usize..4, bytes in 0u64..1 << 27, round in 0u32..8, network in any::<bool>()) {
        let known = [("dgx-a100", 200), ("dgx-1v", 100), ("hgx-h100", 400), ("mi250x", 200)][which];
        let communicator = communicator(&Catalog::embedded().unwrap(), known, 1);
        let schedule = Schedule::new(&communicator);
        let split = schedule.split(round, Bytes(bytes), network);
        let mut at = 0;
        for part in &split.parts {
            prop_assert_eq!(part.offset.0, at.min(bytes));
            at += part.bytes.0;
            prop_assert!(split.chunks(*part).all(|(_, size)| size <= split.chunk));
        }
        prop_assert_eq!(at, bytes);
        let channels: BTreeSet<u32> = split.parts.iter().map(|part| part.channel).collect();
        prop_assert_eq!(channels.len(), split.parts.len());
        prop_assert!(channels.iter().all(|channel| *channel < schedule.channels()));
        // LL has no buffers on the network.
        prop_assert!(!network || split.protocol == Protocol::Simple);
    }
}
