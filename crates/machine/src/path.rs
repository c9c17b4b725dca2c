//! Ways through a machine.
//!
//! Modelled: the way with the least latency, and among those the one with the fewest links; memories, adapters and GPUs are ends
//! and not passed, but GPUs that relay. GPUs use their own links where these lead to the peer, then those that are coherent with a
//! processor, and PCI Express otherwise; to host memory they go by their own link to the processor, and on from there.
//! Not modelled: adaptive choice among several ways, access control (ACS) that forces peers through the host bridge.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fabriscope_units::{Rate, Span};
use serde::Serialize;

use crate::graph::{Machine, PeerTraffic, ResourceId};
use crate::link::{LinkId, LinkKind};
use crate::sharing::{Use, Weight};
use crate::vertex::{VertexId, VertexKind};

/// Who moves the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Purpose {
    /// A PCI device by DMA, or a core by loads and stores: they use no links of GPUs.
    Dma,
    /// The engines of a GPU: its own links first.
    Copy,
}

/// Whether the mover of the bytes takes them or brings them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Access {
    /// It reads at the far end: requests go there, data comes back.
    Read,
    /// It writes at the far end.
    Write,
}

/// A link of a path, and which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The link.
    pub link: LinkId,
    /// From its `a` to its `b`.
    pub forwards: bool,
}

/// The way of data from one vertex to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Path {
    /// Where data comes from.
    pub from: VertexId,
    /// Where it goes.
    pub to: VertexId,
    /// The links, in the direction of the data.
    pub steps: Vec<Step>,
}

impl Path {
    /// All vertices on the way, both ends included.
    #[must_use]
    pub fn vertices(&self, machine: &Machine) -> Vec<VertexId> {
        let mut all = vec![self.from];
        for step in &self.steps {
            let link = machine.link(step.link);
            all.push(if step.forwards { link.b } else { link.a });
        }
        all
    }
    /// Latency of all its links.
    #[must_use]
    pub fn latency(&self, machine: &Machine) -> Span {
        self.steps.iter().map(|step| machine.link(step.link).latency).sum()
    }
    /// What it would carry of payload if nothing else were in flight, and the resource that binds it then.
    #[must_use]
    pub fn bound(&self, machine: &Machine, access: Access) -> Option<(Rate, ResourceId)> {
        let each = machine.uses(self, access).into_iter();
        each.filter_map(|used| Some((machine.payload(used)?, used.resource))).min()
    }
    /// What it would carry of payload if nothing else were in flight.
    #[must_use]
    pub fn rate(&self, machine: &Machine, access: Access) -> Rate {
        self.bound(machine, access).map_or(Rate::default(), |(rate, _)| rate)
    }
}

impl Machine {
    /// The way from one vertex to another, if there is one.
    #[must_use]
    pub fn path(&self, from: VertexId, to: VertexId, purpose: Purpose) -> Option<Path> {
        let host =
            |end: VertexId| matches!(self.vertex(end).kind, VertexKind::Numa { .. } | VertexKind::HostMemory | VertexKind::CxlMemory);
        if purpose == Purpose::Copy && [from, to].into_iter().any(host) {
            // To the processor a GPU has a link of its own, beside a slot where it is in one; links to peers are taken where there is no other.
            let own = |kind: LinkKind| !kind.is_scale_up() && !matches!(kind, LinkKind::Pcie { .. });
            let any = || self.search(from, to, |kind| !kind.is_scale_up());
            if let Some(path) = self.search(from, to, own).or_else(any) {
                return Some(path);
            }
        }
        if purpose == Purpose::Copy {
            // Peers have links of their own, though the way through a processor that both share is no longer.
            let own = |kind: LinkKind| kind.is_scale_up() || kind == LinkKind::Memory;
            let near = || self.search(from, to, |kind| own(kind) || kind.is_coherent());
            if let Some(path) = self.search(from, to, own).or_else(near) {
                return Some(path);
            }
        }
        self.search(from, to, |kind| !kind.is_scale_up())
    }

    /// The one of `candidates` with the least latency from `from`; the first of equals.
    #[must_use]
    pub fn nearest(&self, from: VertexId, candidates: &[VertexId], purpose: Purpose) -> Option<VertexId> {
        let reached = candidates.iter().filter_map(|to| Some((self.path(from, *to, purpose)?.latency(self), *to)));
        reached.min_by_key(|(latency, _)| *latency).map(|(_, to)| to)
    }

    /// The host memory nearest to an adapter, the first of equals.
    #[must_use]
    pub fn host_memory_of(&self, adapter: VertexId) -> Option<VertexId> {
        let memories: Vec<VertexId> = self.numas().into_iter().map(|numa| self.own_memory(numa)).collect();
        self.nearest(adapter, &memories, Purpose::Dma)
    }

    /// The number of the NUMA domain nearest to a device, the first of equals.
    #[must_use]
    pub fn home(&self, device: VertexId) -> Option<usize> {
        let numas = self.numas();
        let nearest = self.nearest(device, &numas, Purpose::Copy)?;
        numas.iter().position(|numa| *numa == nearest)
    }

    /// What a byte of payload on `path` takes of each resource. `access` is that of the device that moves the data, whichever end it is.
    #[must_use]
    pub fn uses(&self, path: &Path, access: Access) -> Vec<Use> {
        let mut uses = Vec::with_capacity(path.steps.len() * 2 + 1);
        for step in &path.steps {
            uses.push(self.carried(step, access));
            let framing = &self.link(step.link).framing;
            let back = if access == Access::Read { framing.request } else { framing.response };
            if !back.takes_nothing() {
                let weight = Weight::of(back.overhead.0, back.payload.0);
                uses.push(Use { resource: self.resource_of_link(step.link, !step.forwards), weight });
            }
        }
        let vertices = path.vertices(self);
        if self.between_devices(path, &vertices) {
            let limits = [self.bridge_limit(path, &vertices, access), self.gpu_limit(path, &vertices, access)];
            uses.extend(limits.into_iter().flatten().map(|resource| Use { resource, weight: Weight::ONE }));
        }
        uses
    }

    /// What a byte of payload takes of a link on its way.
    #[must_use]
    pub fn carried(&self, step: &Step, access: Access) -> Use {
        let framing = &self.link(step.link).framing;
        let packet = if access == Access::Write { framing.write } else { framing.read };
        Use { resource: self.resource_of_link(step.link, step.forwards), weight: packet.weight() }
    }

    /// The payload that a resource carries if nothing else is in flight; nothing for one that does not exist.
    #[must_use]
    pub fn payload(&self, used: Use) -> Option<Rate> {
        self.capacity(used.resource).map(|rate| used.weight.payload_of(rate))
    }

    /// Whether `path`, which has these vertices, leads from device to device.
    fn between_devices(&self, path: &Path, vertices: &[VertexId]) -> bool {
        let kind = |id: VertexId| self.vertex(id).kind;
        let host = |kind| matches!(kind, VertexKind::HostMemory | VertexKind::CxlMemory | VertexKind::Numa { .. } | VertexKind::HostBridge);
        let passed = vertices.iter().any(|id| matches!(kind(*id), VertexKind::HostMemory | VertexKind::CxlMemory));
        !passed && ![path.from, path.to].into_iter().any(|end| host(kind(end)))
    }

    /// The limit of the host bridge for traffic between devices, where it has one.
    fn bridge_limit(&self, path: &Path, vertices: &[VertexId], access: Access) -> Option<ResourceId> {
        let across = path.steps.iter().any(|step| self.link(step.link).kind == LinkKind::Smp);
        let bridges = vertices.iter().filter(|id| self.vertex(**id).kind == VertexKind::HostBridge);
        let traffic = PeerTraffic { writes: access == Access::Write, across };
        bridges.filter_map(|bridge| self.resource_of_peers(*bridge, traffic)).min_by_key(|r| self.capacity(*r))
    }

    /// The limit of the GPU that another device reads or writes over PCI Express.
    fn gpu_limit(&self, path: &Path, vertices: &[VertexId], access: Access) -> Option<ResourceId> {
        let served = match access {
            Access::Read => path.from,
            Access::Write => path.to,
        };
        if !path.steps.iter().any(|step| matches!(self.link(step.link).kind, LinkKind::Pcie { .. })) {
            return None;
        }
        let mut gpus = vertices.iter().filter(|id| self.vertex(**id).kind == VertexKind::Gpu);
        let gpu = gpus.find(|gpu| **gpu == served || self.memory_of(**gpu) == Some(served))?;
        self.resource_of_peers(*gpu, PeerTraffic { writes: access == Access::Write, across: false })
    }

    fn search(&self, from: VertexId, to: VertexId, allowed: impl Fn(LinkKind) -> bool) -> Option<Path> {
        let count = self.vertices().len();
        if from.index() >= count || to.index() >= count {
            return None;
        }
        let mut best: Vec<Option<(u64, u32, Step)>> = vec![None; count];
        let mut done = vec![false; count];
        let mut heap = BinaryHeap::from([Reverse((0, 0, from))]);
        while let Some(Reverse((latency, links, here))) = heap.pop() {
            if std::mem::replace(&mut done[here.index()], true) {
                continue;
            }
            if here == to {
                break;
            }
            if here != from && !self.passes(here, from, to) {
                continue;
            }
            for &id in self.around(here) {
                let link = self.link(id);
                let next = link.other(here);
                if !allowed(link.kind) || done[next.index()] {
                    continue;
                }
                let reached = (latency + link.latency.as_ps(), links + 1);
                if best[next.index()].is_none_or(|(latency, links, _)| reached < (latency, links)) {
                    best[next.index()] = Some((reached.0, reached.1, Step { link: id, forwards: link.a == here }));
                    heap.push(Reverse((reached.0, reached.1, next)));
                }
            }
        }
        let mut steps = Vec::new();
        let mut here = to;
        while here != from {
            let (_, _, step) = best[here.index()].filter(|_| done[here.index()])?;
            steps.push(step);
            here = self.link(step.link).other(here);
        }
        steps.reverse();
        Some(Path { from, to, steps })
    }

    /// Whether a path from `from` to `to` may lead through `here`.
    fn passes(&self, here: VertexId, from: VertexId, to: VertexId) -> bool {
        let vertex = self.vertex(here);
        match vertex.kind {
            // The memory at either end is reached through its GPU or DPU.
            VertexKind::Gpu | VertexKind::Dpu => vertex.relays || [from, to].iter().any(|end| self.memory_of(here) == Some(*end)),
            kind => kind.forwards(),
        }
    }
}
