//! Where the state of each link and host lies, when one run is divided into parts.
//!
//! A part owns a range of hosts, some switches, and the sending side of every link that leaves them. Large fabrics are
//! always divided in the same way, on however many cores they run: results depend on the fabric, not on the machine.

use std::sync::Arc;

use fabriscope_fabric::{Graph, LinkId, Node, Vertex};
use fabriscope_units::{Pace, Span};

/// The division of a fabric.
#[derive(Debug)]
pub(crate) struct Layout {
    /// Lanes per link.
    pub vls: u32,
    /// The vertex at the end of each lane, apart from the lanes: small enough to stay in cache.
    pub ends: Arc<[u32]>,
    /// Where the state of each lane lies.
    pub slots: Slots,
    /// First host of each part, and the number of hosts.
    pub first_host: Vec<u32>,
    /// The pace of each link, where links differ.
    pub paces: Vec<Pace>,
}

/// Part and place of the state of each lane; empty where there is one part.
#[derive(Debug, Clone)]
pub(crate) struct Slots(Arc<[u32]>);

impl Slots {
    /// The part that owns a lane, and the place of the lane there.
    #[inline(always)]
    pub fn of(&self, lane: u32) -> (u32, usize) {
        if self.0.is_empty() {
            (0, lane as usize)
        } else {
            let slot = self.0[lane as usize];
            (slot >> PLACE_BITS, (slot & ((1 << PLACE_BITS) - 1)) as usize)
        }
    }
}

/// Bits of a slot that number the lane within its part.
const PLACE_BITS: u32 = 26;

/// How large a fabric and its parts have to be, to be worth dividing. Basis: measured (docs/performance.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Worth {
    /// Hosts of a part, where there are more than two.
    hosts: u32,
    /// Hosts of a fabric that has two.
    two: u32,
}

/// Where packets reserve their links.
pub(crate) const RESERVED: Worth = Worth { hosts: 256, two: 128 };
/// Where links decide packet by packet: windows are shorter.
pub(crate) const ARBITRATED: Worth = Worth { hosts: 256, two: 512 };
/// Where there is more to tell than credits. The tests of this crate divide small fabrics.
pub(crate) const GUARDED: Worth = if cfg!(test) { ARBITRATED } else { Worth { hosts: 512, two: 2048 } };
/// Ranks with programs in a part, and as how many of them each adapter of their nodes counts at least: nodes of accelerators have few
/// ranks and many adapters. Basis: measured (docs/performance.md).
pub(crate) const RANKS_OF_A_PART: u64 = if cfg!(test) { 4 } else { 128 };
pub(crate) const RANKS_OF_AN_ADAPTER: u64 = if cfg!(test) { 1 } else { 4 };
/// Parts that there are at most.
const PARTS: u32 = 16;

impl Layout {
    /// Everything in one part.
    pub fn whole(graph: &Graph, vls: u32) -> Layout {
        let ends = graph.links().iter().flat_map(|link| std::iter::repeat_n(link.to.0, vls as usize)).collect();
        Layout { vls, ends, slots: Slots(Arc::new([])), first_host: vec![0, graph.endpoint_count()], paces: Vec::new() }
    }

    /// Divided into as many parts as the size of the fabric is worth and its wiring allows.
    ///
    /// Of `together` hosts that follow each other, all are in one part.
    pub fn divided(graph: &Graph, vls: u32, together: u32, worth: Worth) -> Layout {
        let hosts = graph.endpoint_count();
        let parts = if hosts < worth.two { 1 } else { (hosts / worth.hosts).clamp(2, PARTS) };
        Layout::in_parts(graph, vls, (together, parts), Borders::Switches, u64::from)
    }

    /// Divided into so many parts, or as many of them as its wiring allows with such borders; `before` a host there is so much load, which
    /// all parts share.
    pub fn in_parts(graph: &Graph, vls: u32, (together, parts): (u32, u32), borders: Borders, before: impl Fn(u32) -> u64) -> Layout {
        let mut layout = Layout::whole(graph, vls);
        let first_host = host_ranges(graph, parts.min(PARTS), (together, borders), before);
        if first_host.len() < 3 || u64::from(graph.link_count()) * u64::from(vls) >= 1 << PLACE_BITS {
            return layout;
        }
        let owners = owners(graph, &first_host);
        let mut counts = vec![0u32; first_host.len() - 1];
        let mut slots = Vec::with_capacity(layout.ends.len());
        for link in graph.links() {
            let part = owners[link.from.index()];
            for _ in 0..vls {
                slots.push(u32::from(part) << PLACE_BITS | counts[usize::from(part)]);
                counts[usize::from(part)] += 1;
            }
        }
        layout.slots = Slots(slots.into());
        layout.first_host = first_host;
        layout
    }

    /// How many parts there are.
    pub fn parts(&self) -> u32 {
        self.first_host.len() as u32 - 1
    }
    /// The part that has a host; `None` for what is no host, as a group.
    pub fn part_of_host(&self, host: u32) -> Option<u32> {
        let after = self.first_host.partition_point(|first| *first <= host) as u32;
        (1..=self.parts()).contains(&after).then(|| after - 1)
    }
    /// The shortest delays of all links from one part to another: those of hosts, and those between switches.
    pub fn shortest_crossings(&self, graph: &Graph) -> (Span, Span) {
        let (mut hosts, mut switches) = (Span::MAX / 2, Span::MAX / 2);
        for (number, link) in (0..).zip(graph.links()) {
            if self.slots.of(number * self.vls).0 != self.part_of_end(LinkId(number)) {
                let shortest = if link.from.0.min(link.to.0) < graph.endpoint_count() { &mut hosts } else { &mut switches };
                *shortest = link.delay.min(*shortest);
            }
        }
        (hosts, switches)
    }
    /// Whether parts have time to run apart: no link without delay leads from one to another.
    pub fn has_windows(&self, graph: &Graph) -> bool {
        let (hosts, switches) = self.shortest_crossings(graph);
        hosts.min(switches) > Span::ZERO
    }
    /// The part that the vertex at the end of a link belongs to: the one that owns the way back.
    pub fn part_of_end(&self, link: LinkId) -> u32 {
        self.slots.of(link.reverse().0 * self.vls).0
    }
}

/// Where parts end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Borders {
    /// Between the hosts of two switches.
    Switches,
    /// Between any two hosts: a switch is in one part, and some of its hosts in others. Windows are shorter.
    Hosts,
}

/// Contiguous ranges of hosts with about equal loads and such borders; no `together` hosts are in two of them.
fn host_ranges(graph: &Graph, parts: u32, (together, borders): (u32, Borders), before: impl Fn(u32) -> u64) -> Vec<u32> {
    let hosts = graph.endpoint_count();
    // The first and last host of each switch: a border inside would cut it.
    let mut inside = vec![false; hosts as usize + 1];
    for switch in graph.switches().filter(|_| borders == Borders::Switches) {
        let below = graph.outputs(switch).filter_map(|(_, link)| match graph.node(graph.link(link).to) {
            Node::Endpoint(endpoint) => Some(endpoint.0),
            Node::Switch(_) => None,
        });
        let (first, last) = below.fold((u32::MAX, 0), |(first, last), host| (first.min(host), last.max(host)));
        // Switches seldom have more than some tens of hosts, so this is linear in hosts.
        (first..last).for_each(|host| inside[host as usize + 1] = true);
    }
    let mut firsts = vec![0];
    for part in 1..parts {
        let wanted = before(hosts) * u64::from(part) / u64::from(parts);
        let (mut low, mut high) = (0, hosts);
        while low < high {
            let middle = u32::midpoint(low, high);
            if before(middle) < wanted { low = middle + 1 } else { high = middle }
        }
        let border = (low..hosts).find(|&host| !inside[host as usize] && host.is_multiple_of(together)).unwrap_or(hosts);
        if border > firsts[firsts.len() - 1] && before(border) < before(hosts) {
            firsts.push(border);
        }
    }
    firsts.push(hosts);
    firsts
}

/// The part of each vertex: hosts by range, switches with most of their hosts or in turn, others by their share of each level.
fn owners(graph: &Graph, first_host: &[u32]) -> Vec<u8> {
    let hosts = graph.endpoint_count();
    let parts = first_host.len() as u32 - 1;
    let vertices = hosts + graph.switch_count();
    let mut owners = vec![0u8; vertices as usize];
    let mut level = vec![u32::MAX; vertices as usize];
    let mut frontier = Vec::new();
    for part in 0..parts {
        for host in first_host[part as usize]..first_host[part as usize + 1] {
            owners[host as usize] = part as u8;
            let switch = graph.link(graph.uplink(fabriscope_fabric::EndpointId(host))).to;
            if switch.0 >= hosts && level[switch.index()] == u32::MAX {
                level[switch.index()] = 1;
                owners[switch.index()] = part_of_switch(graph, switch, first_host);
                frontier.push(switch);
            }
        }
    }
    // Levels by distance from the hosts; each is shared out in the order of its switches.
    let mut distance = 1;
    while !frontier.is_empty() {
        distance += 1;
        let mut next: Vec<Vertex> = Vec::new();
        for vertex in frontier {
            let Node::Switch(switch) = graph.node(vertex) else { continue };
            for (_, link) in graph.outputs(switch) {
                let to = graph.link(link).to;
                if to.0 >= hosts && level[to.index()] == u32::MAX {
                    level[to.index()] = distance;
                    next.push(to);
                }
            }
        }
        next.sort_unstable();
        for (index, vertex) in next.iter().enumerate() {
            owners[vertex.index()] = (index as u64 * u64::from(parts) / next.len() as u64) as u8;
        }
        frontier = next;
    }
    owners
}

/// The part with most hosts below a switch; of several, switches take turns.
fn part_of_switch(graph: &Graph, switch: Vertex, first_host: &[u32]) -> u8 {
    let Node::Switch(number) = graph.node(switch) else { return 0 };
    let mut below = vec![0u32; first_host.len() - 1];
    for (_, link) in graph.outputs(number) {
        if let Node::Endpoint(host) = graph.node(graph.link(link).to) {
            below[first_host.partition_point(|first| *first <= host.0) - 1] += 1;
        }
    }
    let most = below.iter().copied().max().unwrap_or(0);
    let candidates: Vec<usize> = (0..below.len()).filter(|part| below[*part] == most).collect();
    candidates[number.0 as usize % candidates.len()] as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriscope_fabric::topology::FatTree;
    use fabriscope_fabric::{LinkSpec, Links, Topology};
    use fabriscope_units::Rate;

    #[test]
    fn a_large_tree_is_divided_evenly_between_its_leaves() {
        let cable = LinkSpec::new(Rate::from_gbps(400), Span::from_ns(25));
        let tree = FatTree { levels: Some(3), ..FatTree::default() };
        let graph = Topology::FatTree(tree).build(&Links::uniform(cable), 16).unwrap().graph;
        let layout = Layout::divided(&graph, 1, 1, RESERVED);
        assert_eq!(layout.first_host, [0, 256, 512, 768, 1024]);
        let mut lanes = vec![0; 4];
        for lane in 0..graph.link_count() {
            let (part, place) = layout.slots.of(lane);
            assert_eq!(place, lanes[part as usize], "places are counted within the part");
            lanes[part as usize] += 1;
            let from = graph.link(LinkId(lane)).from.0;
            if from < 1024 {
                assert_eq!(part, from / 256);
            }
        }
        assert_eq!(lanes, [1536; 4]);
        assert_eq!(Layout::whole(&graph, 2).slots.of(17), (0, 17));
        // Two switches of eight hosts in four parts, each switch with hosts of two: both take turns.
        let small = Topology::FatTree(FatTree { levels: Some(2), ..FatTree::default() }).build(&Links::uniform(cable), 16).unwrap().graph;
        let borders = |borders| Layout::in_parts(&small, 1, (1, 4), borders, |host| u64::from(host.min(16)));
        assert_eq!(borders(Borders::Switches).first_host, [0, 8, small.endpoint_count()]);
        let hosts = borders(Borders::Hosts);
        assert_eq!(hosts.first_host, [0, 4, 8, 12, small.endpoint_count()]);
        let part_of_switch = |host: u32| hosts.part_of_end(LinkId(small.uplink(fabriscope_fabric::EndpointId(host)).0));
        assert_eq!([0, 4, 8].map(part_of_switch), [0, 0, 3], "even switches with the first of their parts, odd ones with the second");
        assert_eq!(hosts.shortest_crossings(&small), (cable.delay, cable.delay));
        // Nodes of 24 adapters below switches with 8: borders that are multiples of both.
        assert_eq!(Layout::divided(&graph, 1, 24, RESERVED).first_host, [0, 264, 528, 768, 1024]);
    }
}
