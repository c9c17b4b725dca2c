//! The machine itself: vertices, links, and what transfers compete for.

use fabriscope_units::Rate;
use serde::Serialize;

use crate::builder::{Builder, MachineError};
use crate::leg::kind_name;
use crate::link::{Link, LinkId};
use crate::sharing::Sharing;
use crate::vertex::{Vertex, VertexId, VertexKind};

/// What transfers compete for: a direction of a link, or a limit of a host bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ResourceId(pub u32);

/// One node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Machine {
    vertices: Vec<Vertex>,
    links: Vec<Link>,
    /// The links of each vertex.
    #[serde(skip)]
    around: Vec<Vec<LinkId>>,
}

/// Traffic between devices that a host bridge or a GPU limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerTraffic {
    /// It writes, and does not read.
    pub writes: bool,
    /// It goes across sockets.
    pub across: bool,
}

impl Machine {
    /// An empty machine to add to.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn new(vertices: Vec<Vertex>, links: Vec<Link>) -> Machine {
        let mut around = vec![Vec::new(); vertices.len()];
        for (index, link) in links.iter().enumerate() {
            around[link.a.index()].push(LinkId(index as u32));
            around[link.b.index()].push(LinkId(index as u32));
        }
        Machine { vertices, links, around }
    }

    /// All vertices, by number.
    #[must_use]
    pub fn vertices(&self) -> &[Vertex] {
        &self.vertices
    }
    /// All links, by number.
    #[must_use]
    pub fn links(&self) -> &[Link] {
        &self.links
    }
    /// One vertex.
    ///
    /// # Panics
    /// If it is of another machine.
    #[must_use]
    pub fn vertex(&self, id: VertexId) -> &Vertex {
        &self.vertices[id.index()]
    }
    /// One link.
    ///
    /// # Panics
    /// If it is of another machine.
    #[must_use]
    pub fn link(&self, id: LinkId) -> &Link {
        &self.links[id.index()]
    }
    /// The links at a vertex.
    #[must_use]
    pub fn around(&self, id: VertexId) -> &[LinkId] {
        self.around.get(id.index()).map_or(&[], Vec::as_slice)
    }
    /// The vertices of which `wanted` says so, in order.
    pub fn of(&self, wanted: impl Fn(VertexKind) -> bool) -> impl Iterator<Item = VertexId> {
        (0..self.vertices.len() as u32).map(VertexId).filter(move |id| wanted(self.vertices[id.index()].kind))
    }
    /// The GPUs, in order.
    #[must_use]
    pub fn gpus(&self) -> Vec<VertexId> {
        self.of(|kind| kind == VertexKind::Gpu).collect()
    }
    /// The adapters, in order.
    #[must_use]
    pub fn nics(&self) -> Vec<VertexId> {
        self.of(|kind| kind == VertexKind::Nic).collect()
    }
    /// The cores on adapters, in order.
    #[must_use]
    pub fn dpus(&self) -> Vec<VertexId> {
        self.of(|kind| kind == VertexKind::Dpu).collect()
    }
    /// The NUMA domains, in order.
    #[must_use]
    pub fn numas(&self) -> Vec<VertexId> {
        self.of(|kind| matches!(kind, VertexKind::Numa { .. })).collect()
    }
    /// The memory right at a GPU, a DPU or a NUMA domain.
    #[must_use]
    pub fn memory_of(&self, id: VertexId) -> Option<VertexId> {
        let ends = self.around(id).iter().map(|link| self.link(*link).other(id));
        ends.into_iter()
            .find(|end| matches!(self.vertex(*end).kind, VertexKind::HostMemory | VertexKind::DeviceMemory | VertexKind::DpuMemory))
    }
    /// The memory of a GPU or NUMA domain; itself where it has none of its own.
    #[must_use]
    pub fn own_memory(&self, id: VertexId) -> VertexId {
        self.memory_of(id).unwrap_or(id)
    }
    /// The vertex called `name`.
    ///
    /// # Errors
    /// There is none.
    pub fn find(&self, name: &str) -> Result<VertexId, MachineError> {
        let place = self.vertices.iter().position(|vertex| vertex.name == name);
        place.map(|index| VertexId(index as u32)).ok_or_else(|| {
            let names: Vec<&str> = self.vertices.iter().map(|vertex| vertex.name.as_str()).collect();
            MachineError::Unknown { name: name.to_owned(), known: names.join(", ") }
        })
    }

    /// What carries `link`, from its `a` to its `b` or back.
    #[must_use]
    pub fn resource_of_link(&self, link: LinkId, forwards: bool) -> ResourceId {
        ResourceId(link.0 * 2 + u32::from(!forwards))
    }
    /// A limit of a host bridge, if it has it.
    #[must_use]
    pub fn resource_of_peers(&self, bridge: VertexId, traffic: PeerTraffic) -> Option<ResourceId> {
        let which = usize::from(traffic.writes) + 2 * usize::from(traffic.across);
        self.vertex(bridge).peer.each()[which].map(|_| ResourceId(self.links.len() as u32 * 2 + bridge.0 * LIMITS + which as u32))
    }
    /// How much a resource carries; nothing for one that does not exist.
    #[must_use]
    pub fn capacity(&self, resource: ResourceId) -> Option<Rate> {
        // Both directions of each link, then the limits of each vertex.
        let index = resource.0 as usize;
        match index.checked_sub(self.links.len() * 2) {
            None => Some(self.links[index / 2].rate[index % 2]),
            Some(limit) => self.vertices.get(limit / LIMITS as usize)?.peer.each()[limit % LIMITS as usize],
        }
    }
    /// What a resource is, for people: `gpu0 -> switch0 (PCIe 4.0 x16)`.
    #[must_use]
    pub fn describe(&self, resource: ResourceId) -> String {
        let links = self.links.len() as u32 * 2;
        if resource.0 < links {
            let link = &self.links[resource.0 as usize / 2];
            let (from, to) = if resource.0.is_multiple_of(2) { (link.a, link.b) } else { (link.b, link.a) };
            let title = if link.title.is_empty() { kind_name(link.kind) } else { &link.title };
            return format!("{} -> {} ({title})", self.vertex(from).name, self.vertex(to).name);
        }
        let (bridge, which) = ((resource.0 - links) / LIMITS, (resource.0 - links) % LIMITS);
        let name = self.vertices.get(bridge as usize).map_or("?", |vertex| vertex.name.as_str());
        let what = ["reads", "writes", "reads across sockets", "writes across sockets"][which as usize];
        format!("peer-to-peer {what} through {name}")
    }
    /// Room for transfers that share what the machine has.
    #[must_use]
    pub fn sharing(&self) -> Sharing {
        let all = (0..self.links.len() as u32 * 2 + self.vertices.len() as u32 * LIMITS).map(ResourceId);
        Sharing::new(all.map(|resource| self.capacity(resource).unwrap_or_default()).collect())
    }

    /// What one operating system sees from `vertex` on, by vertex: all that is joined without links between accelerators. Trays of a rack
    /// that only such links join have a system each.
    #[must_use]
    pub fn system_of(&self, vertex: VertexId) -> Vec<bool> {
        let mut seen = vec![false; self.vertices.len()];
        let mut left = vec![vertex];
        while let Some(here) = left.pop() {
            if seen.get(here.index()).is_some_and(|known| !known) {
                seen[here.index()] = true;
                let links = self.around(here).iter().map(|link| self.link(*link));
                left.extend(links.filter(|link| !link.kind.is_scale_up()).map(|link| link.other(here)));
            }
        }
        seen
    }

    /// A vertex that nothing joins to the first one.
    pub(crate) fn unreached(&self) -> Option<VertexId> {
        let mut seen = vec![false; self.vertices.len()];
        let mut left: Vec<VertexId> = (!seen.is_empty()).then_some(VertexId(0)).into_iter().collect();
        while let Some(here) = left.pop() {
            if !std::mem::replace(&mut seen[here.index()], true) {
                left.extend(self.around(here).iter().map(|link| self.link(*link).other(here)));
            }
        }
        seen.iter().position(|reached| !reached).map(|index| VertexId(index as u32))
    }
}

/// Limits that a vertex may have ([`crate::PeerLimits`]).
const LIMITS: u32 = 4;
