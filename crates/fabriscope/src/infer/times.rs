//! How long messages of serving take on a cluster.
//!
//! Source: NCCL as [`fabriscope_lab::training::times`] has it; vLLM, csrc/custom_all_reduce.cuh for sums within a node that need no library.
//! Modelled: operations of groups by NCCL or, of few bytes within a node, by kernels that read each other's memory; tokens to experts as an
//! all-to-all, to each expert or to each node once (DeepEP's two ways); keys and values as fluids on the fabric, all
//! transfers that go on sharing it.
//! Not modelled: processors that kernels of experts take; transfers beside operations of groups on the same adapters.

use std::collections::BTreeMap;

use fabriscope_catalog::{Catalog, Gpu, ResolvedCluster};
use fabriscope_engine::Cluster;
use fabriscope_engine_flow::{Fluid, rates};
use fabriscope_inference::{Exchange, Mode, ServingTimes};
use fabriscope_training::{CommunicationTimes, Group, Operation};
use fabriscope_units::{Bytes, Rate, Span};

use crate::error::Error;
use crate::train::{ClusterTimes, Network};

/// The times of a pool's messages.
pub(super) struct PoolTimes<'a> {
    operations: ClusterTimes<'a>,
    direct: Option<Direct>,
    /// What a GPU sends to others of its node.
    links: Option<Rate>,
    per_node: u32,
    /// Tokens go straight to the GPUs of their experts, whatever the rail.
    crossed: bool,
    wires: Option<Wires>,
}

/// How messages of a pool go.
pub(super) struct MessagePaths {
    /// Sums by kernels of the server instead of the library.
    pub direct: bool,
    /// Experts and keys and values lie without regard to rails.
    pub crossed: bool,
    /// To the other pool.
    pub wires: Option<Wires>,
}

impl<'a> PoolTimes<'a> {
    /// Of a pool of so many GPUs.
    pub fn new(
        catalog: &'a Catalog,
        parts: &ResolvedCluster,
        (gpu, gpus, per_node): (&Gpu, u32, u32),
        ways: MessagePaths,
    ) -> Result<PoolTimes<'a>, Error> {
        let direct = Direct::of(catalog, gpu, per_node);
        Ok(PoolTimes {
            operations: ClusterTimes::new(catalog, parts.clone(), gpus)?,
            direct: direct.filter(|_| ways.direct),
            links: direct.map(|direct| direct.rate),
            per_node,
            crossed: ways.crossed,
            wires: ways.wires,
        })
    }
    /// The same with another network.
    pub fn on(&mut self, network: Network) {
        self.operations.on(network);
        if let Some(wires) = &mut self.wires {
            wires.network = network;
        }
    }
}

impl CommunicationTimes for PoolTimes<'_> {
    type Error = Error;
    fn time(&mut self, operation: Operation, bytes: Bytes, group: Group) -> Result<Span, Error> {
        if let Some(direct) = self.direct.filter(|direct| operation == Operation::AllReduce && direct.takes(bytes, group)) {
            return Ok(direct.time(bytes, u64::from(group.size)));
        }
        Ok(self.operations.time(operation, bytes, group)?)
    }
    fn processors(&mut self, operation: Operation, bytes: Bytes, group: Group) -> Result<u32, Error> {
        Ok(self.operations.processors(operation, bytes, group)?)
    }
}

impl ServingTimes for PoolTimes<'_> {
    fn exchange(&mut self, exchange: &Exchange) -> Result<Span, Error> {
        let (size, token) = (exchange.group.size, exchange.hidden * exchange.width);
        let copies = Bytes(exchange.tokens * exchange.per_token * token);
        let whole = size > self.per_node && size.is_multiple_of(self.per_node) && exchange.group.stride == 1;
        let by_node = whole && !self.crossed && exchange.mode == Mode::Throughput;
        let Some(links) = self.links.filter(|_| by_node) else {
            return Ok(self.operations.time(Operation::AllToAll, copies, exchange.group)?);
        };
        // Once to each node on the own rail, and from there over the links of the node to each expert; both go on at once.
        let nodes = size / self.per_node;
        let sent = Bytes((exchange.tokens as f64 * token as f64 * distinct(nodes, exchange)) as u64);
        let rails = self.operations.time(Operation::AllToAll, sent, Group { size: nodes, stride: self.per_node })?;
        Ok(rails.max(links.time(copies)))
    }
    fn transfers(&mut self, active: &[(u32, u32)]) -> Result<Vec<Rate>, Error> {
        self.wires.as_mut().map_or_else(|| Ok(vec![Rate::from_bps(u64::MAX); active.len()]), |wires| wires.rates(active))
    }
}

/// Nodes to which a token goes that takes its experts by chance, its own counted: `n (1 − (1 − 1 / n)ᵏ)`, at most those that routing allows.
fn distinct(nodes: u32, exchange: &Exchange) -> f64 {
    let others = 1.0 - 1.0 / f64::from(nodes);
    let missed = (0..exchange.per_token).fold(1.0, |missed, _| missed * others);
    let taken = f64::from(nodes) * (1.0 - missed);
    exchange.nodes.map_or(taken, |most| taken.min(f64::from(most)))
}

/// Sums by a kernel that reads the memory of all GPUs of its node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Direct {
    rate: Rate,
    latency: Span,
    /// Between the kernel before and this one.
    gap: Span,
    per_node: u32,
}

impl Direct {
    /// Over the links between the GPUs of a node; none where they have none.
    pub fn of(catalog: &Catalog, gpu: &Gpu, per_node: u32) -> Option<Direct> {
        let (ports, compute) = (gpu.scale_up.as_ref()?, gpu.compute.as_ref()?);
        let gap = compute.graph_gap.as_ref().map_or(*compute.gap, |gap| **gap);
        let links = catalog.interconnect(&ports.interconnect).ok()?;
        Some(Direct { rate: links.data_rate(ports.links), latency: links.crossing(), gap, per_node })
    }
    /// Up to 8 MiB, two to eight GPUs side by side on a node.
    fn takes(&self, bytes: Bytes, group: Group) -> bool {
        let size = u64::from(group.size);
        group.stride == 1 && (2..=8).contains(&size) && self.per_node.is_multiple_of(group.size) && bytes <= Bytes::from_mib(8)
    }
    /// Everybody reads all the others have; or, where that is too much, each a part of it, and the sums of the others then.
    ///
    /// Flags and data cross the links: a flag there and a fence behind it before data are read and behind, each the way there and back, and
    /// data on request. Source: vLLM, csrc/custom_all_reduce.cuh, `cross_device_reduce_1stage` and `_2stage` with their limits.
    fn time(&self, bytes: Bytes, size: u64) -> Span {
        let trip = self.latency * 2;
        let once = size == 2 || bytes < Bytes::from_kib(if size <= 4 { 512 } else { 256 });
        let (rounds, moved) = if once { (1, (size - 1) * bytes.0) } else { (2, 2 * (size - 1) * bytes.0.div_ceil(size)) };
        // Flags before the first round and behind each.
        self.gap + trip * (1 + rounds) + trip * rounds + self.rate.time(Bytes(moved))
    }
}

/// What transfers between copies of two pools move.
pub(super) struct Wires {
    cluster: Cluster,
    gpus: u32,
    per_node: u32,
    /// The first GPU of the second pool.
    second: u32,
    /// GPUs of a copy in each pool.
    copies: (u32, u32),
    ways: Vec<(u32, u32, f64)>,
    known: BTreeMap<Vec<(u32, u32)>, Vec<Rate>>,
    network: Network,
}

impl Wires {
    /// Of a cluster whose first `second` GPUs are the first pool.
    pub fn new(
        parts: &ResolvedCluster,
        (gpus, per_node, second): (u32, u32, u32),
        copies: (u32, u32),
        ways: Vec<(u32, u32, f64)>,
    ) -> Result<Wires, Error> {
        let cluster = Cluster::new(parts.clone()).map_err(|error| Error::Inference {
            message: error.to_string(),
            help: "look at the topology: fabriscope topo check".to_owned(),
        })?;
        Ok(Wires { cluster, gpus, per_node, second, copies, ways, known: BTreeMap::new(), network: Network::AsItIs })
    }
    fn rates(&mut self, active: &[(u32, u32)]) -> Result<Vec<Rate>, Error> {
        if self.network == Network::None {
            return Ok(vec![Rate::from_bps(u64::MAX); active.len()]);
        }
        let mut found = match self.known.get(active) {
            Some(known) => known.clone(),
            None => {
                let fluids: Vec<Fluid> = active
                    .iter()
                    .map(|(from, to)| {
                        let (from, to) = (from * self.copies.0, self.second + to * self.copies.1);
                        let ways = self.ways.iter().map(|(sender, receiver, share)| (from + sender, to + receiver, *share)).collect();
                        Fluid { ways, most: Rate::from_bps(u64::MAX) }
                    })
                    .collect();
                let found = rates(&self.cluster, self.gpus, self.per_node, &fluids).map_err(|error| Error::Inference {
                    message: format!("keys and values as fluids: {error}"),
                    help: "use a cluster whose routes are fixed, with room for both pools".to_owned(),
                })?;
                self.known.insert(active.to_vec(), found.rates.clone());
                found.rates
            }
        };
        if self.network == Network::TwiceAsFast {
            found.iter_mut().for_each(|rate| *rate = Rate::from_bps(rate.as_bps().saturating_mul(2)));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use fabriscope_inference::Phase;

    use super::*;

    /// Eight experts by chance on four nodes: 4 (1 − (3/4)⁸) = 3.5995 nodes; two where no more are allowed.
    #[test]
    fn tokens_go_to_each_node_once() {
        let group = Group { size: 32, stride: 1 };
        let exchange =
            Exchange { phase: Phase::Dispatch, mode: Mode::Throughput, tokens: 1, hidden: 1, per_token: 8, nodes: None, width: 1, group };
        assert!((distinct(4, &exchange) - 3.599_548).abs() < 1e-6);
        assert!((distinct(4, &Exchange { nodes: Some(2), ..exchange }) - 2.0).abs() < 1e-12);
    }

    /// 450 GB/s and 300 ns: 16 KiB of eight GPUs cross in one round of 7 · 16 KiB, 0.25 us, with three trips of 0.6 us; 1 MiB in two rounds of 7
    /// eighths each, 4.08 us, with five; both 1 us behind the kernel before.
    #[test]
    fn sums_by_reading_each_other() {
        let direct = Direct { rate: Rate::from_gbps(8 * 450), latency: Span::from_ns(300), gap: Span::from_us(1), per_node: 8 };
        let near = |bytes, ns: f64| (direct.time(bytes, 8).as_ns_f64() / ns - 1.0).abs() < 1e-3;
        assert!(near(Bytes::from_kib(16), 2800.0 + 7.0 * 16_384.0 / 450.0));
        assert!(near(Bytes::from_mib(1), 4000.0 + 14.0 / 8.0 * 1_048_576.0 / 450.0));
        assert!(direct.takes(Bytes::from_mib(8), Group { size: 8, stride: 1 }));
        assert!(!direct.takes(Bytes(1), Group { size: 16, stride: 1 }) && !direct.takes(Bytes::from_mib(9), Group { size: 8, stride: 1 }));
    }
}
