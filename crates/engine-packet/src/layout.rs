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
        let mut layout = Layout::whole(graph, vls);
        let hosts = graph.endpoint_count();
        let parts = if hosts < worth.two { 1 } else { (hosts / worth.hosts).clamp(2, PARTS) };
        let first_host = host_ranges(graph, parts, together);
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
    /// The shortest delay of all links from one part to another.
    pub fn shortest_crossing(&self, graph: &Graph) -> Span {
        let crosses = |link: &u32| self.slots.of(*link * self.vls).0 != self.part_of_end(LinkId(*link));
        let delays = (0..graph.link_count()).filter(crosses).map(|link| graph.links()[link as usize].delay);
        delays.min().unwrap_or(Span::MAX / 2)
    }
    /// The part that the vertex at the end of a link belongs to: the one that owns the way back.
    pub fn part_of_end(&self, link: LinkId) -> u32 {
        self.slots.of(link.reverse().0 * self.vls).0
    }
}

/// Contiguous ranges of hosts of about equal size; no switch has hosts of two ranges, and no `together` hosts have.
fn host_ranges(graph: &Graph, parts: u32, together: u32) -> Vec<u32> {
    let hosts = graph.endpoint_count();
    // The first and last host of each switch: a border inside would cut it.
    let mut inside = vec![false; hosts as usize + 1];
    for switch in graph.switches() {
        let below = graph.outputs(switch).filter_map(|(_, link)| match graph.node(graph.link(link).to) {
            Node::Endpoint(endpoint) => Some(endpoint.0),
            Node::Switch(_) => None,
        });
        let (first, last) = below.fold((u32::MAX, 0), |(first, last), host| (first.min(host), last.max(host)));
        // Switches seldom have more than some tens of hosts, so this is linear in hosts.
        (first..last).for_each(|host| inside[host as usize + 1] = true);
    }
    let mut borders = vec![0];
    for part in 1..parts {
        let wanted = (u64::from(hosts) * u64::from(part) / u64::from(parts)) as u32;
        let border = (wanted..hosts).find(|&host| !inside[host as usize] && host.is_multiple_of(together)).unwrap_or(hosts);
        if border > borders[borders.len() - 1] && border < hosts {
            borders.push(border);
        }
    }
    borders.push(hosts);
    borders
}

/// The part of each vertex: hosts by range, switches with their hosts, others by their share of each level.
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
                owners[switch.index()] = part as u8;
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
        // Nodes of 24 adapters below switches with 8: borders that are multiples of both.
        assert_eq!(Layout::divided(&graph, 1, 24, RESERVED).first_host, [0, 264, 528, 768, 1024]);
    }
}
