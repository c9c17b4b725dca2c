//! What lies beyond an adapter's own link: memories of GPUs and of other sockets, over hops that the adapters of a node share.
//!
//! The model is in `fabriscope_node::dma` and, where the GPUs of a node copy, `fabriscope_node::traffic`; here is who uses which hops. Adapters without such memories pay one test of a flag.

use std::sync::Arc;

use fabriscope_catalog::ResolvedCluster;
use fabriscope_engine::{Cluster, EngineError};
use fabriscope_node::{Devices, DmaPath, Reach, Traffic, Way};
use fabriscope_units::{Rate, Time};
use fabriscope_verbs::{Nic, Place};

/// What one adapter reaches.
#[derive(Debug)]
pub(crate) struct Beyond {
    reach: Arc<Reach>,
    node: usize,
    nic: usize,
    /// The first hop of its node among those of the world.
    first_hop: usize,
    /// What may be between fetch and wire, by place.
    windows: Vec<u32>,
}

/// The state of the hops of all nodes of a world.
#[derive(Debug, Default)]
pub(crate) struct Hops {
    /// When each is free.
    free: Vec<Time>,
    /// What meets the copies of a node, where its GPUs copy.
    traffic: Vec<Option<Traffic>>,
}

impl Hops {
    /// Idle, for `nodes` nodes.
    pub fn new(cluster: &Cluster, nodes: u32) -> Hops {
        let each = cluster.reach.as_ref().map_or(0, |reach| reach.hops().len());
        Hops { free: vec![Time::ZERO; each * nodes as usize], traffic: Vec::new() }
    }
    /// The GPUs of a node were asked for a copy: its adapters meet copies from now on.
    pub fn meet(&mut self, cluster: &Cluster, node: usize, devices: &Devices) {
        let Some(reach) = &cluster.reach else { return };
        if self.traffic.len() <= node {
            self.traffic.resize_with(node + 1, || None);
        }
        self.traffic[node].get_or_insert_with(|| Traffic::new(devices, reach.nics(), reach.places())).look_again();
    }
}

impl Beyond {
    /// What the adapter at `index` of those of a world reaches, if it reaches anything; `nic` is told. What may be between fetch and
    /// wire is `here` for the host memory beside it, and `window` elsewhere.
    pub fn new(cluster: &Cluster, index: u32, nic: &mut Nic, here: u32, window: impl Fn(&DmaPath) -> u32) -> Option<Box<Beyond>> {
        let reach = Arc::clone(cluster.reach.as_ref()?);
        let nics = cluster.parts.sole().node.nics.max(1);
        let (node, number) = (index / nics, (index % nics) as usize);
        let mut windows = vec![here];
        for place in (1..reach.places()).filter_map(|place| u8::try_from(place).ok().map(Place)) {
            let path = reach.path(number, place);
            windows.push(path.map_or(0, &window));
            if path.is_some() {
                nic.reach(place);
            }
        }
        Some(Box::new(Beyond { first_hop: node as usize * reach.hops().len(), node: node as usize, nic: number, windows, reach }))
    }

    /// Whether the way to the host memory beside the adapter crosses hops that it shares.
    pub fn is_shared(&self) -> bool {
        self.reach.path(self.nic, Place::HOST).is_some_and(|path| !path.reads.is_empty() || !path.writes.is_empty())
    }
    /// The way to a place.
    pub fn way<'a>(&'a self, place: Place, hops: &'a mut Hops) -> Option<Way<'a>> {
        let path = self.reach.path(self.nic, place)?;
        let traffic = hops.traffic.get_mut(self.node).and_then(Option::as_mut);
        let meeting = traffic.map(|traffic| traffic.meeting(self.nic, usize::from(place.0)));
        Some(Way { path, hops: &mut hops.free[self.first_hop..][..self.reach.hops().len()], meeting })
    }
    /// What may be between fetch and wire of bytes that come from a place.
    pub fn window(&self, place: Place) -> Option<u32> {
        self.windows.get(usize::from(place.0)).copied()
    }
    /// What a place is, for people.
    pub fn title(&self, place: Place) -> Option<&str> {
        self.reach.path(self.nic, place).map(|path| path.title.as_str())
    }
}

/// Adapters that must be in one part of a divided run: those of a node, where they share hops.
pub(crate) fn together(cluster: &Cluster) -> u32 {
    if cluster.reach.is_some() { cluster.parts.sole().node.nics.max(1) } else { 1 }
}

/// Refuses ways of other adapters than the nodes have.
pub(crate) fn check(cluster: &Cluster) -> Result<(), EngineError> {
    let nics = cluster.parts.sole().node.nics as usize;
    match cluster.reach.as_ref().map(|reach| reach.nics()).filter(|reach| *reach != nics) {
        Some(reach) => Err(EngineError::Setup(format!(
            "the ways to memory are those of {reach} adapters, and a node has {nics}; give a machine with as many adapters"
        ))),
        None => Ok(()),
    }
}

/// What may be between fetch and wire: what the wire carries in the time of a fetch, no more than the adapter holds, and a packet on
/// either side.
pub(crate) fn window(parts: &ResolvedCluster, rate: Rate, latency: fabriscope_units::Span) -> u32 {
    let nic = &parts.sole().node.nic;
    let reliable = nic.srd_latency.as_ref().map_or(fabriscope_units::Span::ZERO, |latency| **latency);
    let latency = latency + nic.tx_latency.value + reliable;
    let covered = (u128::from(rate.as_bps()) * u128::from(latency.as_ps()) / 8_000_000_000_000) as u64;
    let packet = match &nic.onload {
        Some(onload) => onload.mtu.value.max(parts.mtu),
        None if nic.iwarp.is_some() => parts.ip.mtu,
        None => nic.datagram_max.as_ref().map_or(parts.mtu, |most| most.value.max(parts.mtu)),
    };
    u32::try_from(covered.min(nic.tx_buffer.value.0) + 2 * packet.0).unwrap_or(u32::MAX)
}
