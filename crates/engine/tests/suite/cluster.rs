//! Which nodes a job gets: shares of groups, neighbours, the far ends, and those that a scheduler finds free.

use crate::bus;
use std::collections::BTreeSet;
use std::sync::OnceLock;

use fabriscope_catalog::NodeChoice;
use fabriscope_engine::{Cluster, timing};
use fabriscope_fabric::EndpointId;
use proptest::prelude::*;

fn on(name: &str) -> Cluster {
    Cluster::new(bus::on(name)).unwrap()
}

/// 16 nodes with eight adapters and eight GPUs, then eight servers with two adapters.
fn storage() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| on("lab-gpu-storage"))
}

/// 1,024 nodes, eight to a leaf (half of the 16 ports of a switch).
fn large() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| on("lab-1024"))
}

/// The switch that the first adapter of a node hangs on.
fn leaf(cluster: &Cluster, node: u32) -> u32 {
    let first = cluster.parts.endpoints_of(node).unwrap().start;
    cluster.fabric.graph.link(cluster.fabric.graph.uplink(EndpointId(first))).to.0
}

#[test]
fn groups_one_after_the_other() {
    let cluster = storage();
    // 16 · 8 = 128 adapters, then 8 · 2 = 16.
    assert_eq!((cluster.nodes(), cluster.ranks(), cluster.is_uniform()), (24, 144, false));
    for (node, group, adapters) in [(0, 0, 0..8), (15, 0, 120..128), (16, 1, 128..130), (23, 1, 142..144)] {
        assert_eq!(cluster.group_of(node), group, "node {node}");
        assert_eq!(cluster.parts.endpoints_of(node), Some(adapters.clone()), "node {node}");
        assert!(adapters.clone().all(|adapter| cluster.group_at(adapter) == group), "node {node}");
    }
    assert_eq!(cluster.parts.endpoints_of(24), None);
}

#[test]
fn each_group_sees_its_own_nodes() {
    let cluster = storage();
    let (gpus, servers) = (cluster.seen_by(0), cluster.seen_by(1));
    assert_eq!([gpus.sole().node.gpus, servers.sole().node.gpus], [8, 0]);
    assert_eq!([gpus.sole().node.nics, servers.sole().node.nics], [8, 2]);
    // Only nodes with GPUs have something inside, and both know the graph of their node.
    assert_eq!(cluster.groups.iter().map(|group| group.inside.is_some()).collect::<Vec<_>>(), [true, false]);
    assert!(cluster.groups.iter().all(|group| group.machine.is_some()));
    // A view has the costs of its own processor.
    let cores = [gpus, servers].map(timing::cpu);
    assert_eq!(cores[1], timing::cpu(&on("betzy-hdr").parts));
    assert_eq!(cores[0].wqe_build, cores[1].wqe_build);
}

#[test]
fn islands_run_at_their_own_speed() {
    // EDR: 4 lanes · 25.78125 Gb/s · 64/66 = 100 Gb/s. HDR: 4 · 53.125 Gb/s, less what error correction takes: 200 Gb/s.
    let cluster = on("lab-edr-hdr");
    let rate = |node: u32| {
        let graph = &cluster.fabric.graph;
        graph.link(graph.uplink(EndpointId(node))).rate.as_bps() / 1_000_000_000
    };
    assert_eq!([rate(0), rate(399), rate(400), rate(799)], [100, 100, 200, 200]);
}

#[test]
fn shares_by_hand() {
    // 16 and 8 nodes: one by one from each; the first has one more of an odd number; what the second lacks the first gives.
    let table = [(0, [0, 0]), (1, [1, 0]), (2, [1, 1]), (5, [3, 2]), (16, [8, 8]), (17, [9, 8]), (24, [16, 8]), (1000, [16, 8])];
    for (count, shares) in table {
        assert_eq!(storage().shares(count), shares, "{count} nodes");
    }
    assert_eq!(large().shares(300), [300]);
}

#[test]
fn neighbours_and_far_ends() {
    // Same leaf: the first ones. Across: node ⌊i · 1023 / (n − 1)⌋.
    assert_eq!(large().some(3, NodeChoice::SameLeaf, 7), [0, 1, 2]);
    assert_eq!(large().some(2, NodeChoice::Across, 7), [0, 1023]);
    assert_eq!(large().some(3, NodeChoice::Across, 7), [0, 511, 1023]);
    assert_eq!(large().some(5, NodeChoice::Across, 7), [0, 255, 511, 767, 1023]);
    // In groups each has its own first and last: 16 nodes and 8 behind them.
    assert_eq!(storage().some(4, NodeChoice::Across, 7), [0, 15, 16, 23]);
    assert_eq!(storage().some(5, NodeChoice::SameLeaf, 7), [0, 1, 2, 16, 17]);
}

#[test]
fn a_scheduler_packs_small_jobs_below_one_switch() {
    // One node in eight is free: 128 of 1,024 in 128 leaves of eight. The chance that no leaf has two of them is the product of
    // 1 − 7 i / (1024 − i) over i < 128, about e^(−7 · 128² / 2048) = e^−56: a job of two is always below one switch.
    for seed in 0..20 {
        let nodes = large().some(2, NodeChoice::Scattered, seed);
        assert_eq!(leaf(large(), nodes[0]), leaf(large(), nodes[1]), "seed {seed}: {nodes:?}");
    }
    // A job of all free nodes has them all, wherever they are: 128 nodes in many leaves, other ones by another seed.
    let some = large().some(128, NodeChoice::Scattered, 1);
    let leaves: BTreeSet<u32> = some.iter().map(|node| leaf(large(), *node)).collect();
    assert!((60..=128).contains(&leaves.len()), "{} leaves", leaves.len());
    assert_ne!(some, large().some(128, NodeChoice::Scattered, 2));
    // More than are free: others end first.
    assert_eq!(large().some(1024, NodeChoice::Scattered, 1), (0..1024).collect::<Vec<u32>>());
}

#[test]
fn scattered_jobs_take_the_fullest_leaves_where_one_is_not_enough() {
    // 100 of 128 free nodes: the leaves that are left out have no more free nodes than any that is taken whole. So no leaf can be
    // emptied into another one with fewer: at most one leaf is taken in part.
    for seed in 0..5 {
        let count = |nodes: Vec<u32>| {
            let mut below = std::collections::BTreeMap::<u32, u32>::new();
            nodes.iter().for_each(|node| *below.entry(leaf(large(), *node)).or_default() += 1);
            below
        };
        let (free, taken) = (count(large().some(128, NodeChoice::Scattered, seed)), count(large().some(100, NodeChoice::Scattered, seed)));
        let partly = taken.iter().filter(|(leaf, nodes)| free[*leaf] != **nodes).count();
        assert!(partly <= 1, "seed {seed}");
        let least = taken.keys().map(|leaf| free[leaf]).min().unwrap();
        let left = free.iter().filter(|(leaf, _)| !taken.contains_key(*leaf)).map(|(_, nodes)| *nodes).max().unwrap_or(0);
        assert!(left <= least, "seed {seed}: a leaf with {left} free nodes is left, one with {least} is taken");
    }
}

proptest! {
    /// Shares add up to the job, fit the groups, and are even but for the group that is full.
    #[test]
    fn shares_are_fair(count in 0u32..60) {
        let shares = storage().shares(count);
        prop_assert_eq!(shares.iter().sum::<u32>(), count.min(24));
        prop_assert!(shares[0] <= 16 && shares[1] <= 8);
        prop_assert!(shares[0] >= shares[1]);
        prop_assert!(shares[0] - shares[1] <= 1 || shares[1] == 8);
    }

    /// Whatever the choice: as many nodes as asked for, each once, in order, of the right groups; the same for the same seed.
    #[test]
    fn nodes_of_a_job_are_distinct(count in 1u32..24, choice in 0..3, seed in 0u64..100) {
        let choice = [NodeChoice::SameLeaf, NodeChoice::Across, NodeChoice::Scattered][choice as usize];
        let nodes = storage().some(count, choice, seed);
        prop_assert_eq!(nodes.len(), count as usize);
        prop_assert!(nodes.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", nodes);
        let of_first = nodes.iter().filter(|node| storage().group_of(**node) == 0).count();
        prop_assert_eq!(of_first, storage().shares(count)[0] as usize);
        prop_assert_eq!(nodes, storage().some(count, choice, seed));
    }
}
