//! Latency and bandwidth of every operation by every algorithm and protocol.
//!
//! Source: NCCL 2.22.3, src/graph/tuning.cc (ncclTopoTuneModel); RCCL, the same file.

use super::{Algorithm, Entry, Operation, Protocol, amd};
use crate::architecture::Processor;
use crate::communicator::Communicator;
use crate::path_type::PathType;
use crate::search::{Graph, Pattern};
use crate::settings::{Release, Set};
use crate::tables;

type Table = [[[Option<Entry>; 3]; 6]; 5];

/// What the formulas need to know.
struct Facts<'c> {
    communicator: &'c Communicator,
    ranks: f64,
    nodes: u32,
    /// Ranks of a node, on average.
    each: f64,
    /// The same in whole numbers.
    locals: f64,
    capability: u32,
    amd: Option<usize>,
    /// µs.
    overhead: f64,
}

pub(super) fn table(communicator: &Communicator) -> Table {
    let mut table = [[[None; 3]; 6]; 5];
    if communicator.ranks() <= 1 {
        table
            .iter_mut()
            .for_each(|row| row[Algorithm::Ring as usize][Protocol::Simple as usize] = Some(Entry { latency: 0.0, bandwidth: 5000.0 }));
        return table;
    }
    let kinds = communicator.kinds();
    let facts = kinds[0].topology.facts();
    let overhead = communicator.settings().net_overhead.map_or(tables::post_overhead(facts.processor), |ns| f64::from(ns) / 1000.0);
    let facts = Facts {
        communicator,
        ranks: f64::from(communicator.ranks()),
        nodes: communicator.nodes(),
        each: f64::from(communicator.ranks()) / f64::from(communicator.nodes()),
        locals: f64::from(communicator.ranks() / communicator.nodes()),
        capability: kinds.iter().map(|kind| kind.topology.capability()).min().unwrap_or(0),
        amd: facts.architecture.is_amd().then_some(kinds[0].graphs.tuning),
        overhead,
    };
    for operation in Operation::ALL {
        let mut any = false;
        for algorithm in Algorithm::ALL {
            for protocol in Protocol::ALL {
                let entry = facts.entry(operation, algorithm, protocol).filter(|_| facts.enabled(algorithm, protocol));
                any |= entry.is_some();
                table[operation as usize][algorithm as usize][protocol as usize] = entry;
            }
        }
        if !any {
            // Rings remain where users left nothing that the operation has.
            for protocol in Protocol::ALL.into_iter().filter(|protocol| facts.protocol_enabled(Algorithm::Ring, *protocol)) {
                table[operation as usize][Algorithm::Ring as usize][protocol as usize] = facts.entry(operation, Algorithm::Ring, protocol);
            }
        }
    }
    table
}

impl Facts<'_> {
    /// Whether the release is 2.18.
    fn old(&self) -> bool {
        self.amd.is_none() && self.communicator.settings().release == Release::V2_18
    }
    /// The graph of an algorithm in the first node.
    fn graph(&self, algorithm: Algorithm) -> &Graph {
        self.communicator.graph(0, algorithm)
    }
    /// Channels and rates of an algorithm in GB/s, the least of all kinds of nodes.
    fn least(&self, algorithm: Algorithm) -> (f64, f64, f64) {
        let each = self.communicator.kinds().iter().map(|kind| {
            let graphs = &kind.graphs;
            let graph = match algorithm {
                Algorithm::Ring => &graphs.ring,
                Algorithm::Tree => &graphs.tree,
                Algorithm::CollnetDirect => &graphs.collnet_direct,
                Algorithm::CollnetChain => &graphs.collnet_chain,
                Algorithm::Nvls | Algorithm::NvlsTree => &graphs.nvls,
            };
            let gigabytes = |rate: fabriscope_units::Rate| rate.as_bytes_per_s_f64() / 1e9;
            let mut count = graph.channels.len();
            if matches!(algorithm, Algorithm::Ring | Algorithm::Tree) {
                count = graphs.ring.channels.len().min(graphs.tree.channels.len());
            }
            (count as f64, gigabytes(graph.intra), gigabytes(graph.inter))
        });
        each.reduce(|a, b| (a.0.min(b.0), a.1.min(b.1), a.2.min(b.2))).unwrap_or((0.0, 0.0, 0.0))
    }

    fn entry(&self, operation: Operation, algorithm: Algorithm, protocol: Protocol) -> Option<Entry> {
        use Algorithm::{CollnetChain, CollnetDirect, Nvls, NvlsTree, Ring, Tree};
        let there = match operation {
            Operation::Broadcast | Operation::Reduce => algorithm == Ring,
            Operation::AllGather | Operation::ReduceScatter => {
                // Blocks go by the switch where each rank is the head of its own.
                algorithm == Ring || (algorithm == Nvls && self.nodes == 1 && self.communicator.nvls_heads() == self.communicator.ranks())
            }
            Operation::AllReduce => true,
        };
        let simple_only = !matches!(algorithm, Ring | Tree);
        if !there || (simple_only && protocol != Protocol::Simple) {
            return None;
        }
        let (channels, intra, inter) = self.least(algorithm);
        let bandwidth = match self.amd {
            Some(tuning) => {
                self.amd_bandwidth(tuning, operation, algorithm, protocol, channels * if self.nodes <= 2 { intra } else { inter })
            }
            None if self.capability >= 100 && matches!(algorithm, Nvls | NvlsTree) => {
                self.nvls_blackwell(operation, algorithm, channels, intra, inter)
            }
            None => self.bandwidth(algorithm, protocol, channels, intra, inter),
        };
        let blackwell = self.capability >= 100;
        let ratio = match algorithm {
            Ring => self.ranks / self.steps(operation),
            Nvls | NvlsTree if blackwell => self.ranks / self.steps(operation),
            NvlsTree if self.old() => 0.7 * f64::from(self.nodes) / (2.0 * f64::from(self.nodes - 1)).max(1.0),
            Nvls | NvlsTree => 5.0 / 6.0,
            Tree | CollnetDirect | CollnetChain => 0.5,
        };
        let bandwidth = bandwidth * ratio;
        (bandwidth > 0.0).then(|| Entry { latency: self.latency(operation, algorithm, protocol), bandwidth })
    }

    /// Steps of a ring.
    fn steps(&self, operation: Operation) -> f64 {
        match operation {
            Operation::AllReduce => 2.0 * (self.ranks - 1.0),
            Operation::ReduceScatter | Operation::AllGather => self.ranks - 1.0,
            _ => self.ranks,
        }
    }
    /// Those between nodes.
    fn far_steps(&self, operation: Operation) -> f64 {
        let nodes = f64::from(self.nodes);
        match operation {
            Operation::AllReduce if self.nodes == 1 => 0.0,
            Operation::AllReduce if self.amd.is_some() => 2.0 * (nodes - 1.0),
            Operation::AllReduce => 2.0 * nodes,
            Operation::ReduceScatter | Operation::AllGather => nodes - 1.0,
            _ => nodes,
        }
    }

    /// GB/s on the bus.
    fn bandwidth(&self, algorithm: Algorithm, protocol: Protocol, channels: f64, intra: f64, inter: f64) -> f64 {
        use Algorithm::{CollnetChain, CollnetDirect, Nvls, NvlsTree, Ring, Tree};
        let generation = tables::generation(self.capability);
        let nodes = (self.nodes.min(3) - 1) as usize;
        let processor = self.communicator.kinds()[0].topology.facts().processor;
        // Between nodes it is the processor that matters.
        let ll = match self.nodes {
            1 => generation,
            _ => usize::from(processor == Processor::Amd),
        };
        let old = self.old();
        let ll_most =
            if old && self.nodes == 1 && generation >= 2 { tables::LL_MOST_HOPPER_2_18[nodes] } else { tables::LL_MOST[ll][nodes] };
        let each = match algorithm {
            Nvls => intra.min(inter),
            NvlsTree => intra.min(if self.nodes <= 2 { inter } else { inter / 2.0 }),
            CollnetDirect | CollnetChain => intra,
            Ring | Tree if self.nodes <= 2 => intra,
            Ring | Tree => inter,
        };
        let bus = channels * each;
        match (algorithm, protocol) {
            (Ring, Protocol::Ll) => ll_most.min(bus * if old { tables::LL_SHARE_2_18 } else { 0.5 }),
            (Ring, Protocol::Ll128) => {
                let share = if self.each < 2.0 { 0.7 } else { 0.92 };
                (bus * share).min(channels * tables::RING_LL128_MOST[generation][nodes])
            }
            (Tree, protocol) => {
                let bus = (bus * 0.92).min(channels * tables::TREE_MOST[generation][nodes]);
                let bus = match protocol {
                    Protocol::Ll => (bus / 3.8).min(ll_most),
                    Protocol::Ll128 => {
                        let share = if self.nodes == 1 { 7.0 / 9.0 } else { 120.0 / 128.0 };
                        (bus * share).min(channels * tables::TREE_LL128_MOST[generation][nodes])
                    }
                    Protocol::Simple => bus,
                };
                if self.graph(Tree).pattern == Pattern::Tree { bus * 0.85 } else { bus }
            }
            (CollnetDirect, _) => {
                // GPUs without an adapter of their own slow the heads.
                let sharing = self.each / channels.max(1.0);
                let sharing = sharing - (sharing - 1.0) / 2.0;
                bus / sharing * if self.capability >= 90 { 0.85 } else { 1.0 }
            }
            _ => bus,
        }
    }

    /// NVLS as Blackwell's release has it (2.27).
    fn nvls_blackwell(&self, operation: Operation, algorithm: Algorithm, channels: f64, intra: f64, inter: f64) -> f64 {
        if channels < 2.0 {
            return 0.0;
        }
        let tree = algorithm == Algorithm::NvlsTree;
        let reached = intra * tables::NVLS_EFFICIENCY_SM100 * (channels - 1.0) / channels;
        // A sum goes up and comes down at a time.
        let reached = if operation == Operation::AllReduce { 2.0 * reached } else { reached * (self.locals - 1.0) / self.locals };
        let far = if tree && self.nodes <= 2 { 2.0 * inter } else { inter };
        let most = if tree { tables::NVLS_TREE_MOST_SM100[(self.nodes.min(3) - 1) as usize] } else { f64::INFINITY };
        channels * reached.min(far).min(most)
    }

    fn amd_bandwidth(&self, tuning: usize, operation: Operation, algorithm: Algorithm, protocol: Protocol, bus: f64) -> f64 {
        let gfx942 = self.capability >= 94 && self.nodes == 1;
        if !matches!(algorithm, Algorithm::Ring | Algorithm::Tree)
            || (gfx942 && algorithm == Algorithm::Tree && protocol == Protocol::Simple)
        {
            return 0.0;
        }
        let rooted = matches!(operation, Operation::Broadcast | Operation::Reduce);
        let more = if gfx942 && rooted && protocol == Protocol::Ll { 1.65 } else { 1.0 };
        bus * more * amd::tuning(tuning).ratio[usize::from(self.nodes > 2)][algorithm as usize][protocol as usize]
    }

    /// µs.
    fn latency(&self, operation: Operation, algorithm: Algorithm, protocol: Protocol) -> f64 {
        use Algorithm::{CollnetChain, CollnetDirect, Nvls, NvlsTree, Ring, Tree};
        let (a, p) = (algorithm as usize, protocol as usize);
        let base = match self.amd {
            Some(_) => amd::BASE[p],
            None if self.old() => tables::BASE_LATENCY_2_18[a][p],
            None if self.capability >= 100 => tables::BASE_LATENCY_SM100[a][p],
            None => tables::BASE_LATENCY[a][p],
        };
        let hop = |way: usize, algorithm: usize| match self.amd {
            Some(tuning) => amd::tuning(tuning).hops[way].get(algorithm).map_or(0.0, |row| row[p]),
            None if self.old() => tables::HOP_LATENCY_2_18[way][algorithm][p],
            None if self.capability >= 100 => tables::HOP_LATENCY_SM100[way][algorithm][p],
            None => tables::HOP_LATENCY[way][algorithm][p],
        };
        let graph = self.graph(algorithm);
        let inside = usize::from(graph.type_intra != PathType::Nvl);
        let near = hop(inside, a);
        let said = graph.latency.as_ps() as f64 / 1e6;
        let mut far = hop(NET, if self.amd.is_some() && self.each == 1.0 { Tree as usize } else { a }) + said;
        if protocol == Protocol::Simple {
            // What came is read back.
            far += said;
        }
        let nodes = f64::from(self.nodes);
        let depth = f64::from(self.nodes.ilog2());
        base + match algorithm {
            Ring if matches!(operation, Operation::Reduce | Operation::Broadcast) => {
                let way = if self.nodes == 1 { inside } else { NET };
                if graph.same_channels {
                    hop(way, a)
                } else {
                    self.steps(operation) * hop(way, if protocol == Protocol::Simple { Tree as usize } else { a })
                }
            }
            Ring => {
                let post = if self.nodes > 1 { self.overhead * if protocol == Protocol::Simple { 3.0 } else { 1.0 } } else { 0.0 };
                let far_steps = self.far_steps(operation).min(self.steps(operation));
                (self.steps(operation) - far_steps) * near.max(post) + far_steps * far
            }
            Tree => 2.0 * ((self.locals - 1.0) * near + depth * far),
            CollnetDirect => 2.0 * ((self.locals - 1.0).min(1.0) * near + (self.locals - 1.0) * 0.4) + far,
            CollnetChain => 2.0 * (self.locals - 1.0) * near + far,
            Nvls => near + if nodes > 1.0 { far } else { 0.0 },
            NvlsTree if self.old() => 2.0 * (nodes - 1.0) * hop(NET, a),
            NvlsTree => near + 2.0 * depth * far,
        }
    }

    fn enabled(&self, algorithm: Algorithm, protocol: Protocol) -> bool {
        let collnet = self.communicator.has_collnet();
        let allowed = &self.communicator.settings().algorithms;
        let mut wanted = allowed[algorithm as usize];
        let usual = [Algorithm::Ring, Algorithm::Tree, Algorithm::Nvls, Algorithm::NvlsTree];
        if !collnet && !usual.iter().any(|algorithm| allowed[*algorithm as usize]) && usual[..2].contains(&algorithm) {
            // Who wants the network's reduction where there is none gets rings and trees.
            wanted = true;
        }
        let there = match algorithm {
            Algorithm::Ring | Algorithm::Tree => true,
            Algorithm::CollnetDirect => collnet && self.communicator.kinds().iter().all(|kind| kind.topology.switched()),
            Algorithm::CollnetChain => collnet,
            Algorithm::Nvls => self.communicator.nvls_channels() > 0 && (self.nodes == 1 || collnet),
            Algorithm::NvlsTree => self.communicator.nvls_channels() > 0 && self.nodes > 1,
        };
        wanted && there && self.protocol_enabled(algorithm, protocol)
    }

    fn protocol_enabled(&self, algorithm: Algorithm, protocol: Protocol) -> bool {
        match self.communicator.settings().protocols[protocol as usize] {
            Set::Off => false,
            Set::On => true,
            Set::Auto if protocol != Protocol::Ll128 => true,
            // RCCL: for models of nodes that say so, and none of those here does.
            Set::Auto if self.amd.is_some() => false,
            Set::Auto => {
                let kinds = self.communicator.kinds();
                let alike = kinds.iter().all(|kind| kind.topology.capability() == self.capability);
                let known = matches!(self.capability, 70 | 80 | 90 | 100 | 103 | 120);
                let graph = |graphs: &crate::search::Graphs| match algorithm {
                    Algorithm::Tree => graphs.tree.clone(),
                    _ => graphs.ring.clone(),
                };
                let inter = kinds.iter().map(|kind| graph(&kind.graphs).type_inter).max().unwrap_or(PathType::Dis);
                let intra = kinds.iter().map(|kind| graph(&kind.graphs).type_intra).max().unwrap_or(PathType::Dis);
                let near = inter <= PathType::Pxb || (self.capability >= 90 && inter <= PathType::Pxn);
                near && intra <= PathType::Nvb && alike && known
            }
        }
    }
}

/// The row of the network in the tables of latencies.
const NET: usize = 2;
