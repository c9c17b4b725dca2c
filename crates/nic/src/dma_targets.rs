//! What the DMA of an adapter reaches beyond its own link: memories of GPUs and of other sockets, over hops that the adapters of a
//! node share.
//!
//! The model is in `fabriscope_node::dma` and, where the GPUs of a node copy, `fabriscope_node::traffic`; here is who uses which
//! hops. Modelled: a path for each memory, hops shared by the adapters of a node, the window that covers the read of each memory.
//! Not modelled: other devices on the same hops.

use std::sync::Arc;

use fabriscope_node::{Devices, DmaHops, DmaPath, Reach, Traffic};
use fabriscope_units::{Bytes, Time};
use fabriscope_verbs::MemoryId;

/// What one adapter reaches.
#[derive(Debug, Clone)]
pub struct DmaTargets {
    reach: Arc<Reach>,
    node: usize,
    /// The adapter among those of its node.
    nic: usize,
    /// The first hop of its node among those of all nodes.
    first_hop: usize,
    /// What may be between fetch and wire, by memory.
    windows: Vec<Bytes>,
}

/// The state of the hops of all nodes.
#[derive(Debug, Default)]
pub struct Hops {
    /// When each is free.
    free: Vec<Time>,
    /// What meets the copies of a node, where its GPUs copy.
    traffic: Vec<Option<Traffic>>,
}

impl Hops {
    /// Idle hops of `nodes` nodes that reach what `reach` says.
    #[must_use]
    pub fn new(reach: Option<&Reach>, nodes: u32) -> Hops {
        let each = reach.map_or(0, |reach| reach.hops().len());
        Hops { free: vec![Time::ZERO; each * nodes as usize], traffic: Vec::new() }
    }
    /// So many idle hops, of nodes that reach different memories.
    #[must_use]
    pub fn idle(count: usize) -> Hops {
        Hops { free: vec![Time::ZERO; count], traffic: Vec::new() }
    }
    /// The GPUs of a node copy: its adapters meet copies from now on.
    pub fn meet(&mut self, reach: &Reach, node: usize, devices: &Devices) {
        if self.traffic.len() <= node {
            self.traffic.resize_with(node + 1, || None);
        }
        self.traffic[node].get_or_insert_with(|| Traffic::new(devices, reach.nics(), reach.places())).look_again();
    }
}

impl DmaTargets {
    /// What the adapter `index`, counted over nodes of `nics` adapters each, reaches. What may be between fetch and wire is `host` for
    /// the memory beside it, and what `window` makes of the path elsewhere.
    #[must_use]
    pub fn new(reach: Arc<Reach>, index: u32, nics: u32, host: Bytes, window: impl Fn(&DmaPath) -> Bytes) -> DmaTargets {
        let (node, nic) = ((index / nics) as usize, (index % nics) as usize);
        let first_hop = node * reach.hops().len();
        DmaTargets::at(reach, (node, nic), first_hop, host, window)
    }

    /// The same of adapter `nic` of `node`, the first hop of which is `first_hop` among those of all nodes.
    #[must_use]
    pub fn at(
        reach: Arc<Reach>,
        (node, nic): (usize, usize),
        first_hop: usize,
        host: Bytes,
        window: impl Fn(&DmaPath) -> Bytes,
    ) -> DmaTargets {
        let of = |place| reach.path(nic, place).map_or(Bytes::ZERO, &window);
        let windows = std::iter::once(host).chain(beyond_the_host(&reach).map(of)).collect();
        DmaTargets { first_hop, node, nic, windows, reach }
    }

    /// The memories that it reaches beside that of the host.
    pub fn places(&self) -> impl Iterator<Item = MemoryId> + '_ {
        beyond_the_host(&self.reach).filter(|place| self.reach.path(self.nic, *place).is_some())
    }
    /// Whether the path to the host memory beside the adapter crosses hops that it shares.
    #[must_use]
    pub fn shares_host_memory(&self) -> bool {
        self.reach.path(self.nic, MemoryId::HOST).is_some_and(|path| !path.reads.is_empty() || !path.writes.is_empty())
    }
    /// The path to a memory, with the state of its hops.
    pub fn way<'a>(&'a self, place: MemoryId, hops: &'a mut Hops) -> Option<DmaHops<'a>> {
        let path = self.reach.path(self.nic, place)?;
        let traffic = hops.traffic.get_mut(self.node).and_then(Option::as_mut);
        let meeting = traffic.map(|traffic| traffic.meeting(self.nic, usize::from(place.0)));
        Some(DmaHops { path, hops: &mut hops.free[self.first_hop..][..self.reach.hops().len()], meeting })
    }
    /// What may be between fetch and wire of bytes that come from a memory.
    #[must_use]
    pub fn window(&self, place: MemoryId) -> Option<Bytes> {
        self.windows.get(usize::from(place.0)).copied()
    }
    /// What a memory is, for reports.
    #[must_use]
    pub fn title(&self, place: MemoryId) -> Option<&str> {
        self.reach.path(self.nic, place).map(|path| path.title.as_str())
    }
}

fn beyond_the_host(reach: &Reach) -> impl Iterator<Item = MemoryId> + use<> {
    (1..reach.places()).filter_map(|place| u8::try_from(place).ok().map(MemoryId))
}
