//! How long operations of groups take on accelerators whose ports are their own: Gaudi2 with HCL.
//!
//! Source: Habana, Gaudi2 white paper: three ports between each two accelerators of a server and three out of each; HCL's documentation:
//! operations between servers in a hierarchy, among those of a server first.
//! Modelled: within a server each exchanges its part with every other at once; between servers a ring of those with the same number, each on its
//! ports out, whose share of the fabric is that of fluids; engines of the ports move and sum, so that computing goes on.
//! Not modelled: steps of HCL of their own (those of NCCL stand for them), sums of the engines for tensors that are not there yet.

use std::collections::BTreeMap;

use fabriscope_catalog::{Catalog, ResolvedCluster, ScaleUp, Vendor};
use fabriscope_engine::Cluster;
use fabriscope_engine_flow::{Fluid, rates};
use fabriscope_training::{CommunicationTimes, Group, Operation};
use fabriscope_units::{Bytes, Rate, Span};

use super::job::told;
use super::times::Network;
use crate::error::LabError;

/// The times of a job's operations.
pub struct HclTimes {
    cluster: Cluster,
    gpus: u32,
    per_node: u32,
    network: Network,
    /// Between two accelerators of a server.
    pair: Rate,
    hop: Span,
    /// Ports out of each accelerator.
    rails: u32,
    start: Span,
    step: Span,
    /// What a port out carries of a ring, or of everybody's messages, and the way across.
    known: BTreeMap<(Group, bool), (Rate, Span)>,
}

impl HclTimes {
    /// Whether the library of the accelerators is this one.
    #[must_use]
    pub fn drives(parts: &ResolvedCluster) -> bool {
        let library = parts.sole().nccl.as_ref().and_then(|part| part.nccl.as_ref());
        let joined = matches!(parts.sole().node.layout.part.scale_up, Some(ScaleUp::AllToAll(_)));
        joined && library.is_some_and(|library| library.vendor == Vendor::Intel)
    }

    /// For a job on the first of a cluster's accelerators.
    ///
    /// # Errors
    /// Servers that are not joined so, a fabric that its switches cannot form.
    pub fn new(catalog: &Catalog, parts: &ResolvedCluster, gpus: u32, network: Network) -> Result<HclTimes, LabError> {
        let node = &parts.sole().node;
        let refused = || told(format!("HCL on `{}`", parts.name), "take servers whose accelerators are joined each to each: gaudi2-1024");
        let library = parts.sole().nccl.as_ref().and_then(|part| part.nccl.as_ref()).ok_or_else(refused)?;
        let ports = node.gpu.as_ref().and_then(|gpu| gpu.scale_up.as_ref()).ok_or_else(refused)?;
        let Some(ScaleUp::AllToAll(joined)) = &node.layout.part.scale_up else { return Err(refused()) };
        let interconnect = catalog.interconnect(&ports.interconnect)?;
        let cluster =
            Cluster::new(parts.clone()).map_err(|error| told(error.to_string(), "look at the topology: fabriscope topo check"))?;
        Ok(HclTimes {
            cluster,
            gpus,
            per_node: node.gpus,
            network,
            pair: interconnect.data_rate(joined.links),
            hop: interconnect.crossing(),
            rails: (node.nics / node.gpus.max(1)).max(1),
            start: *library.call + *library.simple.start,
            step: *library.simple.begin + *library.simple.end,
            known: BTreeMap::new(),
        })
    }

    /// Members of a group on each of its servers.
    fn on_each(&self, group: Group) -> u32 {
        let most = (self.per_node / group.stride.max(1)).clamp(1, group.size);
        (1..=most).rev().find(|each| group.size.is_multiple_of(*each)).unwrap_or(1)
    }

    /// A part of `bytes` from each to each of a server.
    fn inside(&self, bytes: f64, each: u32) -> Span {
        if each <= 1 {
            return Span::ZERO;
        }
        self.hop + self.step + self.pair.time(Bytes((bytes / f64::from(each)) as u64))
    }

    /// What the ports out of an accelerator carry while all groups of the kind are at work, and the way across the fabric.
    fn outside(&mut self, group: Group, everybody: bool) -> Result<(Rate, Span), LabError> {
        if self.network == Network::None {
            return Ok((Rate::from_bps(u64::MAX), Span::ZERO));
        }
        if let Some(known) = self.known.get(&(group, everybody)) {
            return Ok(*known);
        }
        let most = Rate::from_bps(u64::MAX);
        let each = self.on_each(group);
        let whole = self.gpus / (group.size * group.stride).max(1);
        let mut fluids = Vec::new();
        for number in 0..(whole * group.stride).max(1) {
            let (block, within) = (number / group.stride, number % group.stride);
            let first = block * group.stride * group.size + within;
            let members: Vec<u32> = (0..group.size).map(|rank| first + rank * group.stride).collect();
            let there = |rank: u32| members[(rank % group.size) as usize];
            for rank in 0..group.size {
                let others: Vec<u32> = if everybody { (1..group.size).map(|more| rank + more).collect() } else { vec![rank + each] };
                let share = 1.0 / others.len() as f64;
                fluids.push(Fluid { ways: others.into_iter().map(|to| (there(rank), there(to), share)).collect(), most });
            }
        }
        let found = rates(&self.cluster, self.gpus, self.per_node, &fluids)
            .map_err(|error| told(format!("the job as fluids: {error}"), "use a cluster whose routes are fixed, with room for the job"))?;
        let slowest = found.rates.into_iter().min().unwrap_or_default();
        let times = u64::from(self.rails) * if self.network == Network::TwiceAsFast { 2 } else { 1 };
        let known = (Rate::from_bps(slowest.as_bps().saturating_mul(times)), found.latency);
        self.known.insert((group, everybody), known);
        Ok(known)
    }
}

impl CommunicationTimes for HclTimes {
    type Error = LabError;

    fn time(&mut self, operation: Operation, bytes: Bytes, group: Group) -> Result<Span, LabError> {
        if group.size <= 1 || bytes == Bytes::ZERO {
            return Ok(Span::ZERO);
        }
        let each = self.on_each(group);
        let (whole, servers) = (bytes.0 as f64, group.size / each);
        let times = if operation == Operation::AllReduce { 2 } else { 1 };
        match operation {
            Operation::AllReduce | Operation::AllGather | Operation::ReduceScatter => {
                let inside = self.inside(whole, each);
                if servers == 1 {
                    return Ok(self.start + inside * times);
                }
                let (rate, way) = self.outside(group, false)?;
                let steps = u64::from(servers - 1);
                let moved = whole / f64::from(each) * steps as f64 / f64::from(servers);
                Ok(self.start + (inside + (way + self.step) * steps + rate.time(Bytes(moved as u64))) * times)
            }
            Operation::AllToAll | Operation::Tokens { .. } => {
                let part = whole / f64::from(group.size);
                let inside = self.inside(part * f64::from(each), each);
                if servers == 1 {
                    return Ok(self.start + inside);
                }
                let (rate, way) = self.outside(group, true)?;
                // The rate is that of all messages, those within the server too.
                let out = way + self.step + rate.time(Bytes((part * f64::from(group.size - 1)) as u64));
                Ok(self.start + inside.max(out))
            }
            Operation::SendReceive => {
                if group.stride * group.size <= self.per_node {
                    return Ok(self.start + self.hop + self.step + self.pair.time(bytes));
                }
                let (rate, way) = self.outside(group, false)?;
                Ok(self.start + way + self.step + rate.time(bytes))
            }
        }
    }

    fn processors(&mut self, _: Operation, _: Bytes, _: Group) -> Result<u32, LabError> {
        Ok(0)
    }
}
