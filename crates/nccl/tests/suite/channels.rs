//! Channels that the search finds in nodes of the catalogue: whole orders of the GPUs, within the links, and joined over nodes into rings
//! and trees that reach every rank.

use crate::catalogued;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use catalogued::{NODES, communicator, kind};
use fabriscope_catalog::Catalog;
use fabriscope_nccl::{Algorithm, Communicator, Graph, NodeKind, PathType, Settings, Transport};

fn graphs(kind: &NodeKind) -> [(&'static str, &Graph); 2] {
    [("ring", &kind.graphs.ring), ("tree", &kind.graphs.tree)]
}

/// Nodes whose channels are searched: RCCL has models of some nodes, whose rates and adapters are no promises.
fn searches(kind: &NodeKind) -> bool {
    !kind.topology.facts().architecture.is_amd()
}

/// All nodes, alone and with others.
fn kinds() -> &'static [(String, u64, NodeKind)] {
    static KINDS: OnceLock<Vec<(String, u64, NodeKind)>> = OnceLock::new();
    KINDS.get_or_init(searched)
}

fn searched() -> Vec<(String, u64, NodeKind)> {
    let catalog = Catalog::embedded().unwrap();
    let all = NODES.iter().flat_map(|known| [true, false].map(|alone| (known, alone)));
    all.map(|(known, alone)| {
        let name = format!("{}, {}", known.0, if alone { "alone" } else { "with others" });
        (name, known.1, kind(&catalog, *known, alone))
    })
    .collect()
}

#[test]
fn channels_are_orders_of_all_gpus() {
    for (name, _, kind) in kinds() {
        let all: Vec<u32> = (0..kind.topology.gpus() as u32).collect();
        for (shape, graph) in graphs(kind) {
            assert!(!graph.channels.is_empty() || all.len() == 1, "{name}: no {shape}");
            for (number, channel) in graph.channels.iter().enumerate() {
                let mut sorted = channel.gpus.clone();
                sorted.sort_unstable();
                assert_eq!(sorted, all, "{name}: {shape} {number}");
                // Alone a node has no business with its adapters.
                assert_eq!(channel.adapters.is_some(), name.ends_with("others"), "{name}: {shape} {number}");
            }
        }
    }
}

#[test]
fn hops_are_no_worse_than_the_graph_says() {
    for (name, _, kind) in kinds().iter().filter(|(_, _, kind)| searches(kind)) {
        for (shape, graph) in graphs(kind) {
            for channel in &graph.channels {
                let closed = shape == "ring" && channel.adapters.is_none() && channel.gpus.len() > 1;
                let back = closed.then(|| [channel.gpus[channel.gpus.len() - 1], channel.gpus[0]]);
                for hop in channel.gpus.windows(2).map(|pair| [pair[0], pair[1]]).chain(back) {
                    let (class, rate) = kind.topology.between(hop[0] as usize, hop[1] as usize);
                    assert!(class <= graph.type_intra, "{name}: {shape} goes {hop:?} by {class}");
                    assert!(rate >= graph.intra, "{name}: {shape} goes {hop:?} at {rate}, says {}", graph.intra);
                }
                if !graph.cross_nic && shape == "ring" {
                    assert!(channel.adapters.is_none_or(|[first, last]| first == last), "{name}: {channel:?}");
                }
            }
        }
    }
}

#[test]
fn channels_fit_links_and_adapters() {
    // Only where GPUs have links of their own to each other: a switch is below.
    for (name, gigabits, kind) in kinds().iter().filter(|(_, _, kind)| searches(kind)) {
        for (shape, graph) in graphs(kind) {
            let (mut links, mut adapters) = (BTreeMap::<[u32; 2], u64>::new(), BTreeMap::<u32, u64>::new());
            for channel in &graph.channels {
                channel.gpus.windows(2).for_each(|pair| *links.entry([pair[0], pair[1]]).or_default() += graph.intra.as_bps());
                if let Some([first, _]) = channel.adapters {
                    *adapters.entry(first).or_default() += graph.inter.as_bps();
                }
            }
            for (pair, load) in links.into_iter().filter(|_| !kind.topology.switched()) {
                let (class, rate) = kind.topology.between(pair[0] as usize, pair[1] as usize);
                assert!(class != PathType::Nvl || load <= rate.as_bps(), "{name}: {shape}: {load} of {rate} from {pair:?}");
            }
            for (adapter, load) in adapters {
                assert!(load <= *gigabits * 1_000_000_000, "{name}: {shape}: {load} bit/s by adapter {adapter} of {gigabits} Gb/s");
            }
        }
    }
}

#[test]
fn channels_through_a_switch_fit_the_links_of_a_gpu() {
    // Each GPU sends once in each ring. NCCL takes a link for 20 (Ampere), 20.6 (Hopper), 40.1 GB/s (Blackwell): with 12, 18 and 18
    // links 240, 370.8 and 721.8 GB/s. Rings found: 12 · 20 = 240, 12 · 30 = 360, 16 · 45 = 720.
    let catalog = Catalog::embedded().unwrap();
    for (known, links, found) in [(("dgx-a100", 200), 240.0, 240.0), (("hgx-h100", 400), 370.8, 360.0), (("hgx-b200", 400), 721.8, 720.0)] {
        let kind = kind(&catalog, known, true);
        let total = kind.graphs.ring.total_intra().as_bytes_per_s_f64() / 1e9;
        assert!((total - found).abs() < 1e-6 && total <= links, "{}: {total} GB/s", known.0);
    }
}

#[test]
fn rings_enter_and_leave_each_node_once() {
    let catalog = Catalog::embedded().unwrap();
    for (known, nodes) in NODES.into_iter().flat_map(|known| [(known, 2), (known, 3)]) {
        let communicator = communicator(&catalog, known, nodes);
        let ranks = communicator.ranks();
        for channel in 0..communicator.channels() {
            let order: Vec<u32> = (0..ranks).map(|index| communicator.ring_rank(channel, index)).collect();
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..ranks).collect::<Vec<u32>>(), "{}: ring {channel}", known.0);
            let node = |rank: u32| communicator.seat(rank).node;
            let crossings = (0..order.len()).filter(|index| node(order[*index]) != node(order[(index + 1) % order.len()]));
            assert_eq!(crossings.count() as u32, nodes, "{}: ring {channel} of {nodes} nodes", known.0);
            for (index, rank) in order.iter().enumerate() {
                let place = communicator.ring(channel, *rank);
                let next = order[(index + 1) % order.len()];
                assert_eq!((place.index, place.next), (index as u32, next), "{}: ring {channel}", known.0);
                assert_eq!(communicator.ring(channel, next).previous, *rank, "{}: ring {channel}", known.0);
            }
        }
    }
}

/// The rank at the top, after a check that every rank is below it in the tree of a channel.
fn root(communicator: &Communicator, channel: u32) -> u32 {
    let ranks = communicator.ranks();
    let roots: Vec<u32> = (0..ranks).filter(|rank| communicator.tree(channel, *rank).up.is_none()).collect();
    assert_eq!(roots.len(), 1, "channel {channel}: {roots:?}");
    let (mut open, mut seen) = (roots.clone(), 0);
    while let Some(rank) = open.pop() {
        seen += 1;
        assert!(seen <= ranks, "channel {channel} has a cycle");
        let down = communicator.tree(channel, rank).down;
        // A chain within the node, and two nodes below.
        assert!(down.len() <= 3, "channel {channel}: {down:?} below {rank}");
        for below in down {
            assert_eq!(communicator.tree(channel, below).up, Some(rank), "channel {channel}");
            open.push(below);
        }
    }
    assert_eq!(seen, ranks, "channel {channel} reaches all");
    roots[0]
}

#[test]
fn trees_reach_every_rank() {
    let catalog = Catalog::embedded().unwrap();
    for (known, nodes) in NODES.into_iter().flat_map(|known| [(known, 1), (known, 2), (known, 5)]) {
        let communicator = communicator(&catalog, known, nodes);
        for channel in 0..communicator.channels() {
            let _ = root(&communicator, channel);
        }
    }
}

#[test]
fn the_two_trees_share_no_inner_node() {
    // Sanders, Speck, Träff: with an even number of nodes a leaf of one tree is inner in the other, so that every node sends each byte
    // up once. The halves of the channels have one tree each.
    let catalog = Catalog::embedded().unwrap();
    for nodes in [2, 4, 6, 8] {
        let communicator = communicator(&catalog, ("dgx-a100", 200), nodes);
        let half = communicator.kinds()[0].graphs.tree.channels.len() as u32;
        assert_eq!(communicator.channels(), 2 * half);
        for channel in 0..half {
            let node = |rank: u32| communicator.seat(rank).node;
            // Nodes below each node in a channel's tree.
            let below = |channel: u32| {
                let mut below = vec![0; nodes as usize];
                for rank in 0..communicator.ranks() {
                    let far = communicator.tree(channel, rank).down.iter().filter(|down| node(**down) != node(rank)).count();
                    below[node(rank) as usize] += far;
                }
                below
            };
            let (one, other) = (below(channel), below(channel + half));
            assert!(one.iter().zip(&other).all(|(one, other)| *one == 0 || *other == 0), "{one:?} {other:?}");
            assert_eq!((one.iter().sum::<usize>(), other.iter().sum::<usize>()), (nodes as usize - 1, nodes as usize - 1));
        }
    }
}

#[test]
fn the_network_is_between_nodes_only() {
    let catalog = Catalog::embedded().unwrap();
    for known in NODES {
        let communicator = communicator(&catalog, known, 2);
        let adapters = communicator.kinds()[0].topology.facts().adapters.len() as u32;
        let node = |rank: u32| communicator.seat(rank).node;
        for channel in 0..communicator.channels() {
            for rank in 0..communicator.ranks() {
                let next = communicator.ring(channel, rank).next;
                let way = communicator.transport(rank, next, channel, Algorithm::Ring);
                if node(rank) == node(next) {
                    // An A40 or a K80 pair may find the network faster than the host's memory; others never leave the node.
                    let linked = communicator.kinds()[0].topology.all_linked();
                    assert!(!linked || !matches!(way, Transport::Net(_)), "{}: {rank} to {next}", known.0);
                    continue;
                }
                let Transport::Net(way) = way else { panic!("{}: {rank} to {next} by {way:?}", known.0) };
                assert!(way.send_adapter < adapters && way.receive_adapter < adapters, "{}: {way:?}", known.0);
                assert_eq!(node(way.send_proxy), node(rank), "{}: the proxy is at the sender", known.0);
                // What is not written to the GPU by the adapter needs no flush.
                assert!(way.receive_gpudirect || !way.flush, "{}: {way:?}", known.0);
            }
        }
    }
}

#[test]
fn ranks_may_be_anywhere() {
    // Ranks dealt to nodes like cards: rank r on node r mod 3. The rings are those of the nodes all the same.
    let catalog = Catalog::embedded().unwrap();
    let kind = kind(&catalog, ("dgx-a100", 200), false);
    let seats: Vec<_> = (0..24).map(|rank| fabriscope_nccl::RankPlacement { node: rank % 3, gpu: rank / 3 }).collect();
    let dealt = Communicator::new(vec![kind], &[0, 0, 0], &seats, Settings::default()).unwrap();
    let blocks = communicator(&catalog, ("dgx-a100", 200), 3);
    assert_eq!(dealt.channels(), blocks.channels());
    for channel in 0..dealt.channels() {
        let _ = root(&dealt, channel);
        for rank in 0..24 {
            // Rank r of the blocks is on node r / 8 and GPU r % 8; that GPU has rank 3 · GPU + node here.
            let here = |rank: u32| 3 * (rank % 8) + rank / 8;
            let (a, b) = (blocks.ring(channel, rank), dealt.ring(channel, here(rank)));
            assert_eq!((here(a.previous), here(a.next)), (b.previous, b.next), "ring {channel}");
        }
    }
}

#[test]
fn unlike_nodes_have_the_channels_that_both_have() {
    let catalog = Catalog::embedded().unwrap();
    let (four, eight) = (kind(&catalog, ("ibex-a100x4", 200), false), kind(&catalog, ("dgx-a100", 200), false));
    let found = |kind: &NodeKind| kind.graphs.ring.channels.len().min(kind.graphs.tree.channels.len()) as u32;
    let least = found(&four).min(found(&eight));
    let seat = |rank: u32| fabriscope_nccl::RankPlacement { node: u32::from(rank >= 4), gpu: if rank < 4 { rank } else { rank - 4 } };
    let seats: Vec<_> = (0..12).map(seat).collect();
    let both = Communicator::new(vec![four, eight], &[0, 1], &seats, Settings::default()).unwrap();
    // Each found channel counts twice, one for each of the two trees.
    assert_eq!((both.ranks(), both.nodes(), both.channels()), (12, 2, 2 * least));
    for channel in 0..both.channels() {
        let _ = root(&both, channel);
    }
}
