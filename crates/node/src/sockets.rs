//! The memories of a node and the links between its sockets, as the copies of its cores share them.
//!
//! Source: J. D. McCalpin, "Memory Bandwidth and Machine Balance in Current High Performance Computers", 1995 (STREAM: a copied
//! byte counts twice, once read and once written; lines that a write has to fetch first are not counted); the same author's notes on
//! sustained bandwidth (Little's law: a core has so many lines in flight, and what a line takes longer makes its copies slower).
//! Modelled: each NUMA domain's memory and each link between domains as a server of copies in the order in which they begin, so that
//! m equal copies at a time have an m-th of it each; programs whose buffers fit into the last caches take nothing from the memory, but
//! their lines cross the links all the same; a line that crosses takes the latency of the way longer.
//! Not modelled: channels, snoops and directories beside the lines themselves, DMA of the NICs on the same links, caches other than by
//! their size.

use std::cell::Cell;

use fabriscope_machine::{Access, Machine, Purpose, ResourceId, VertexId};
use fabriscope_units::{Bytes, Rate, Span, Time};
use fabriscope_verbs::MemoryId;

/// What the cores of one node share.
#[derive(Debug)]
pub struct Sockets {
    memory: Option<Bandwidth>,
    /// When the memory of each domain is free.
    domains: Vec<Cell<Time>>,
    /// The way of lines from each domain to each: `from × domains + to`.
    ways: Vec<Lines>,
    /// When each link is free.
    links: Vec<Cell<Time>>,
    /// The domain of each adapter; none where that is not known.
    adapters: Vec<Option<u32>>,
    gpus: u32,
    /// What adapters see of the memory, where it is not the host's.
    own: Option<MemoryId>,
}

/// The memory of each domain.
#[derive(Clone, Copy, Debug)]
pub struct Bandwidth {
    /// As STREAM counts it.
    pub rate: Rate,
    /// What the buffers of one program may take and still be in the last caches.
    pub cached: Bytes,
}

/// The way of cache lines from one domain to another.
#[derive(Debug, Default)]
struct Lines {
    latency: Span,
    /// Which links, and what they carry of lines.
    hops: Vec<(usize, Rate)>,
}

/// Between which domains a copy goes, and where the core is that makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where the bytes are.
    pub from: u32,
    /// Where the core is.
    pub core: u32,
    /// Where they go.
    pub to: u32,
}

impl Sockets {
    /// The domains of `machine`, whose memories have `memory` each where that is known. Without `adapters` each of them is as near as
    /// any to every core.
    #[must_use]
    pub fn new(machine: &Machine, memory: Option<Bandwidth>, adapters: bool) -> Sockets {
        let numas = machine.numas();
        let mut known: Vec<ResourceId> = Vec::new();
        let mut between = |from: VertexId, to: VertexId| -> Lines {
            let path = if from == to { None } else { machine.path(from, to, Purpose::Dma) };
            let Some(path) = path else { return Lines::default() };
            let uses = machine.uses(&path, Access::Write);
            let hop = |used: &fabriscope_machine::Use| {
                let number = known.iter().position(|other| *other == used.resource).unwrap_or_else(|| {
                    known.push(used.resource);
                    known.len() - 1
                });
                Some((number, used.weight.payload_of(machine.capacity(used.resource)?)))
            };
            Lines { latency: path.latency(machine), hops: uses.iter().filter_map(hop).collect() }
        };
        let ways = numas.iter().flat_map(|from| numas.iter().map(|to| (*from, *to)).collect::<Vec<_>>());
        let ways = ways.map(|(from, to)| between(from, to)).collect();
        let home = |nic: &VertexId| machine.home(*nic).and_then(|home| u32::try_from(home).ok()).filter(|_| adapters);
        Sockets {
            memory,
            domains: vec![Cell::default(); numas.len()],
            ways,
            links: vec![Cell::default(); known.len()],
            adapters: machine.nics().iter().map(home).collect(),
            gpus: machine.gpus().len() as u32,
            own: None,
        }
    }

    /// The one memory of the cores on an adapter, which adapters see at `own`.
    #[must_use]
    pub fn on_adapter(memory: Bandwidth, own: MemoryId) -> Sockets {
        Sockets {
            memory: Some(memory),
            domains: vec![Cell::default()],
            ways: vec![Lines::default()],
            links: Vec::new(),
            adapters: Vec::new(),
            gpus: 0,
            own: Some(own),
        }
    }

    /// What a line from domain `from` takes longer to domain `to` than within one.
    #[must_use]
    pub fn crossing(&self, from: u32, to: u32) -> Span {
        self.way(from, to).map_or(Span::ZERO, |way| way.latency)
    }
    /// The same between a core and an adapter.
    #[must_use]
    pub fn to_adapter(&self, core: u32, nic: usize) -> Span {
        self.adapters.get(nic).copied().flatten().map_or(Span::ZERO, |home| self.crossing(core, home))
    }
    /// The memory of a domain as an adapter sees it.
    #[must_use]
    pub fn place(&self, domain: u32, nic: usize) -> MemoryId {
        if let Some(own) = self.own {
            return own;
        }
        let near = self.adapters.get(nic).copied().flatten().is_none_or(|home| home == domain);
        // Places count the memories of GPUs from 1, and those of the domains behind them.
        let place = u8::try_from(self.gpus + domain + 1).ok().filter(|_| !near && (domain as usize) < self.domains.len());
        place.map_or(MemoryId::HOST, MemoryId)
    }
    /// When `amount` bytes, copied from `now` on by a program that goes through `footprint` bytes, have passed.
    pub fn copied(&self, now: Time, amount: Bytes, footprint: Bytes, route: Route) -> Time {
        let legs = [(route.from, route.core), (route.core, route.to)];
        let hops = legs.iter().filter_map(|(from, to)| self.way(*from, *to)).flat_map(|way| &way.hops);
        let links = hops.map(|(link, rate)| serve(&self.links[*link], now, rate.time(amount)));
        let crossed = links.max().unwrap_or(now);
        let Some(memory) = self.memory.filter(|memory| footprint > memory.cached) else { return crossed };
        let of = |domain: u32| self.domains.get(domain as usize).map(|free| serve(free, now, memory.rate.time(amount)));
        [Some(crossed), of(route.from), of(route.to)].into_iter().flatten().max().unwrap_or(now)
    }

    fn way(&self, from: u32, to: u32) -> Option<&Lines> {
        let count = self.domains.len();
        self.ways.get(from as usize * count + to as usize).filter(|_| (to as usize) < count)
    }
}

impl Route {
    /// Within one domain.
    #[must_use]
    pub fn within(domain: u32) -> Route {
        Route { from: domain, core: domain, to: domain }
    }
}

/// Takes `span` of a server that is free from then on; when that is over.
fn serve(free: &Cell<Time>, now: Time, span: Span) -> Time {
    let end = free.get().max(now) + span;
    free.set(end);
    end
}

#[cfg(test)]
mod tests {
    use fabriscope_machine::{Link, LinkKind, Vertex, VertexKind};

    use super::*;

    /// Two domains joined by 2 B/ns with 60 ns, memories of 1 B/ns as STREAM counts them, an adapter at the second.
    fn node(cached: u64) -> Sockets {
        let mut builder = Machine::builder();
        let numas = [0, 1].map(|n| builder.vertex(Vertex::new(VertexKind::Numa { package: n }, format!("numa{n}"))));
        for (n, numa) in numas.iter().enumerate() {
            let memory = builder.vertex(Vertex::new(VertexKind::HostMemory, format!("numa{n}-memory")));
            builder.link(Link::new(*numa, memory, LinkKind::Memory, Rate::from_gbps(100), Span::ZERO));
        }
        builder.link(Link::new(numas[0], numas[1], LinkKind::Smp, Rate::from_gbps(16), Span::from_ns(60)));
        let nic = builder.vertex(Vertex::new(VertexKind::Nic, "nic0"));
        builder.link(Link::new(numas[1], nic, LinkKind::Die, Rate::from_gbps(100), Span::ZERO));
        let memory = Bandwidth { rate: Rate::from_gbps(8), cached: Bytes(cached) };
        Sockets::new(&builder.build().unwrap(), Some(memory), true)
    }

    #[test]
    fn copies_share_the_memory_of_their_domain_where_they_miss_the_caches() {
        let sockets = node(1024);
        let at = |ns| Time::ZERO + Span::from_ns(ns);
        let copied = |ns, amount, footprint, domain| sockets.copied(at(ns), Bytes(amount), Bytes(footprint), Route::within(domain));
        // A copied byte counts twice.
        assert_eq!(copied(10, 100, 1024, 0), at(10));
        assert_eq!(copied(10, 100, 1025, 0), at(210));
        assert_eq!(copied(50, 50, 4096, 0), at(310));
        // The other domain has its own.
        assert_eq!(copied(50, 50, 4096, 1), at(150));
        assert_eq!(copied(1000, 50, 4096, 0), at(1100));
    }

    #[test]
    fn copies_between_domains_share_the_link() {
        // Ten copies of 2000 B at 2 B/ns: one after the other, 1 us each, whatever the caches hold; the other direction is free.
        let sockets = node(1 << 30);
        let across = Route { from: 0, core: 1, to: 1 };
        for copy in 1..=10 {
            assert_eq!(sockets.copied(Time::ZERO, Bytes(2000), Bytes::ZERO, across), Time::ZERO + Span::from_us(copy));
        }
        let back = Route { from: 1, core: 0, to: 0 };
        assert_eq!(sockets.copied(Time::ZERO, Bytes(2000), Bytes::ZERO, back), Time::ZERO + Span::from_us(1));
        assert_eq!((sockets.crossing(0, 1), sockets.crossing(1, 1)), (Span::from_ns(60), Span::ZERO));
    }

    #[test]
    fn adapters_have_a_domain() {
        let sockets = node(0);
        assert_eq!((sockets.to_adapter(0, 0), sockets.to_adapter(1, 0)), (Span::from_ns(60), Span::ZERO));
        assert_eq!((sockets.place(1, 0), sockets.place(0, 0)), (MemoryId::HOST, MemoryId(1)));
        assert_eq!(sockets.place(0, 7), MemoryId::HOST);
    }
}
