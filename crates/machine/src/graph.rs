//! The machine itself: vertices, links, and what transfers compete for.

use fabriscope_units::Rate;
use serde::Serialize;

use crate::builder::{Builder, MachineError};
use crate::leg::kind_name;
use crate::link::{Link, LinkId};
use crate::sharing::Sharing;
use crate::vertex::{PeerLimits, Vertex, VertexId, VertexKind};

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
    /// The NUMA domains, in order.
    #[must_use]
    pub fn numas(&self) -> Vec<VertexId> {
        self.of(|kind| matches!(kind, VertexKind::Numa { .. })).collect()
    }
    /// The memory right at a GPU or a NUMA domain.
    #[must_use]
    pub fn memory_of(&self, id: VertexId) -> Option<VertexId> {
        let ends = self.around(id).iter().map(|link| self.link(*link).other(id));
        ends.into_iter().find(|end| matches!(self.vertex(*end).kind, VertexKind::HostMemory | VertexKind::DeviceMemory))
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

    /// Both directions of each link, then the four limits of each host bridge.
    fn resources(&self) -> impl Iterator<Item = Option<Rate>> {
        let limits = |vertex: &Vertex| {
            let PeerLimits { read, write, read_across, write_across } = vertex.peer;
            [read, write, read_across, write_across]
        };
        self.links.iter().flat_map(|link| link.rate.map(Some)).chain(self.vertices.iter().flat_map(limits))
    }
    /// What carries `link`, from its `a` to its `b` or back.
    #[must_use]
    pub fn resource_of_link(&self, link: LinkId, forwards: bool) -> ResourceId {
        ResourceId(link.0 * 2 + u32::from(!forwards))
    }
    /// A limit of a host bridge, if it has it.
    #[must_use]
    pub fn resource_of_peers(&self, bridge: VertexId, writes: bool, across: bool) -> Option<ResourceId> {
        let PeerLimits { read, write, read_across, write_across } = self.vertex(bridge).peer;
        let limits = [read, write, read_across, write_across];
        let which = usize::from(writes) + 2 * usize::from(across);
        limits[which].map(|_| ResourceId(self.links.len() as u32 * 2 + bridge.0 * 4 + which as u32))
    }
    /// How much a resource carries; nothing for one that does not exist.
    #[must_use]
    pub fn capacity(&self, resource: ResourceId) -> Option<Rate> {
        self.resources().nth(resource.0 as usize).flatten()
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
        let (bridge, which) = ((resource.0 - links) / 4, (resource.0 - links) % 4);
        let name = self.vertices.get(bridge as usize).map_or("?", |vertex| vertex.name.as_str());
        let what = ["reads", "writes", "reads across sockets", "writes across sockets"][which as usize];
        format!("peer-to-peer {what} through {name}")
    }
    /// Room for transfers that share what the machine has.
    #[must_use]
    pub fn sharing(&self) -> Sharing {
        Sharing::new(self.resources().map(Option::unwrap_or_default).collect())
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
