//! Links and lanes of a fabric of groups, computed from the numbering of [`crate::topology::groups`].
//!
//! All of it is a few multiplications; nothing is looked up, so that no memory is touched per switch.

use crate::divisor::Divisor;
use crate::graph::{EndpointId, LinkId, SwitchId};
use crate::topology::{Arrangement, Groups};

/// Where a switch stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Location {
    pub group: u32,
    /// Its number in the group.
    pub position: u32,
}

/// What kind of link a packet came in by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    Endpoint,
    Local,
    Global,
}

/// The cables of one switch to one other group: numbers `first` … `first + count - 1` of those between the groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Own {
    pub first: u32,
    pub count: u32,
}

/// A fabric of groups as routing sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub groups: u32,
    /// Cables between each two groups.
    pub pair: u32,
    /// Cables between two neighbours inside a group.
    pub parallel: u32,
    /// Switches that have endpoints in each group: the first ones.
    pub edges: u32,
    /// Switches of each group that have global ports.
    pub gateways: u32,
    /// The first of them: 0 in a dragonfly, the number of leaves in a dragonfly+.
    pub first_gateway: u32,
    /// Global ports of a switch.
    pub global: Divisor,
    /// Other groups; 1 where there are none.
    peers: Divisor,
    hosts: Divisor,
    edge: Divisor,
    size: Divisor,
    arrangement: Arrangement,
    local_per_group: u32,
    first_local: u32,
    first_global: u32,
}

impl Layout {
    pub(super) fn new(groups: &Groups) -> Layout {
        let inside = groups.inside();
        Layout {
            groups: groups.groups(),
            pair: groups.global_links(),
            parallel: groups.local_links(),
            edges: inside.edges(),
            gateways: inside.switches() - inside.first_gateway(),
            first_gateway: inside.first_gateway(),
            global: Divisor::new(groups.global_ports()),
            peers: Divisor::new((groups.groups() - 1).max(1)),
            hosts: Divisor::new(groups.endpoints_per_switch()),
            edge: Divisor::new(inside.edges()),
            size: Divisor::new(inside.switches()),
            arrangement: groups.arrangement(),
            local_per_group: groups.local_cables_per_group(),
            first_local: groups.first_local_cable(),
            first_global: groups.first_global_cable(),
        }
    }

    /// Whether leaves and spines are apart: a dragonfly+.
    #[inline(always)]
    pub(super) fn plus(&self) -> bool {
        self.first_gateway != 0
    }

    /// Whether switches of this position have global ports.
    #[inline(always)]
    pub(super) fn is_gateway(&self, at: Location) -> bool {
        at.position >= self.first_gateway
    }

    #[inline(always)]
    pub(super) fn stand(&self, switch: SwitchId) -> Location {
        let group = self.size.quotient(switch.0);
        Location { group, position: switch.0.wrapping_sub(group.wrapping_mul(self.size.get())) }
    }

    /// The switch that an endpoint is plugged into.
    #[inline(always)]
    pub(super) fn home(&self, endpoint: EndpointId) -> Location {
        let edge = self.hosts.quotient(endpoint.0);
        let group = self.edge.quotient(edge);
        Location { group, position: edge.wrapping_sub(group.wrapping_mul(self.edges)) }
    }

    #[inline(always)]
    pub(super) fn from(&self, input: LinkId) -> From {
        match input.cable() {
            cable if cable < self.first_local => From::Endpoint,
            cable if cable < self.first_global => From::Local,
            _ => From::Global,
        }
    }

    /// The link that delivers to an endpoint.
    #[inline(always)]
    pub(super) fn deliver(&self, endpoint: EndpointId) -> LinkId {
        LinkId(endpoint.0.wrapping_mul(2) | 1)
    }

    /// A link inside a group, to a neighbour of the switch at `from`.
    #[inline(always)]
    pub(super) fn local(&self, from: Location, to: u32, cable: u32) -> LinkId {
        let (low, high) = (from.position.min(to), from.position.max(to));
        let pair = if self.plus() {
            low.wrapping_mul(self.gateways).wrapping_add(high.wrapping_sub(self.first_gateway))
        } else {
            triangle(high).wrapping_add(low)
        };
        let group = self.first_local.wrapping_add(from.group.wrapping_mul(self.local_per_group));
        let number = group.wrapping_add(pair.wrapping_mul(self.parallel)).wrapping_add(cable);
        LinkId(number.wrapping_mul(2) | u32::from(from.position > to))
    }

    /// A link from one group to another.
    #[inline(always)]
    pub(super) fn global(&self, from: u32, to: u32, cable: u32) -> LinkId {
        let pair = triangle(from.max(to)).wrapping_add(from.min(to));
        let number = self.first_global.wrapping_add(pair.wrapping_mul(self.pair)).wrapping_add(cable);
        LinkId(number.wrapping_mul(2) | u32::from(from > to))
    }

    /// The position of the switch where a cable to another group starts.
    #[inline(always)]
    pub(super) fn gateway(&self, from: u32, to: u32, cable: u32) -> u32 {
        let port = self.arrangement.peer_number(from, to, self.groups).wrapping_add(cable.wrapping_mul(self.peers.get()));
        self.first_gateway.wrapping_add(self.global.quotient(port))
    }

    /// The cables of a switch to another group.
    #[inline(always)]
    pub(super) fn own(&self, at: Location, to: u32) -> Own {
        if !self.is_gateway(at) {
            return Own { first: 0, count: 0 };
        }
        let number = self.arrangement.peer_number(at.group, to, self.groups);
        let ports = (at.position - self.first_gateway).wrapping_mul(self.global.get());
        if self.pair == 1 {
            return Own { first: 0, count: u32::from(number.wrapping_sub(ports) < self.global.get()) };
        }
        // Cables to that group at the ports before `port`.
        let before = |port: u32| if port <= number { 0 } else { self.pair.min(self.peers.quotient(port - 1 - number) + 1) };
        let first = before(ports);
        Own { first, count: before(ports + self.global.get()) - first }
    }

    /// The group that a global port of a switch leads to, and the number of its cable; none where the port is unused.
    #[inline(always)]
    pub(super) fn behind(&self, at: Location, port: u32) -> Option<(u32, u32)> {
        let port = (at.position - self.first_gateway).wrapping_mul(self.global.get()).wrapping_add(port);
        let cable = self.peers.quotient(port);
        let number = port.wrapping_sub(cable.wrapping_mul(self.peers.get()));
        (cable < self.pair).then(|| (self.arrangement.peer(at.group, number, self.groups), cable))
    }

    /// The lane of a local link for a packet that came in from `from` on lane `vl`; `down` is from a spine to a leaf.
    ///
    /// The lanes make every link of a path come later than the one before in one order:
    ///
    /// ```text
    ///  dragonfly     local 0 < global 0 < local 1 < global 1 < local 2 < to the endpoints
    ///  dragonfly+    up 0 < global 0 < down 0 < up 1 < global 1 < down 1 < to the endpoints
    /// ```
    #[inline(always)]
    pub(super) fn local_lane(&self, at: Location, from: From, vl: u8) -> u8 {
        let down = self.plus() && self.is_gateway(at);
        if down || from == From::Endpoint { vl } else { vl + 1 }
    }

    /// The lane of a global link.
    #[inline(always)]
    pub(super) fn global_lane(&self, from: From, vl: u8) -> u8 {
        vl + u8::from(from == From::Global)
    }

    /// Lanes that paths with at most one global link need.
    pub(super) fn minimal_lanes(&self) -> u8 {
        if !self.plus() && self.groups > 1 && self.edges > 1 { 2 } else { 1 }
    }

    /// Lanes that paths with a detour need.
    pub(super) fn detour_lanes(&self) -> u8 {
        match (self.plus(), self.groups, self.edges) {
            (false, 3.., 2..) => 3,
            (_, 3.., _) | (false, 1, 3..) => 2,
            _ => self.minimal_lanes(),
        }
    }

    /// Links of the longest path with at most one global link, those of the endpoints included.
    pub(super) fn minimal_longest(&self) -> u32 {
        5
    }

    /// The same with a detour: in a dragonfly+ the spine where a packet comes in need not be the one where it leaves.
    pub(super) fn detour_longest(&self) -> u32 {
        if self.plus() { 8 } else { 7 }
    }
}

/// Pairs among the numbers below `n`.
#[inline(always)]
fn triangle(n: u32) -> u32 {
    n.wrapping_mul(n.wrapping_sub(1)) / 2
}

/// The order that [`Layout::local_lane`] shows.
pub(super) const PROOF: &str = "every hop comes later than the one before in one order of links and lanes: local 0, global 0, \
    local 1, global 1, local 2, endpoints (dragonfly+: up 0, global 0, down 0, up 1, global 1, down 1, endpoints)";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{LinkSpec, Node};
    use crate::topology::{Coordinates, Dragonfly, DragonflyPlus, Fabric, Links, Topology};
    use fabriscope_units::{Rate, Span};

    fn fabrics() -> Vec<Fabric> {
        let links = Links::uniform(LinkSpec::new(Rate::from_gbps(200), Span::from_ns(10)));
        let mut fabrics = Vec::new();
        for arrangement in [Arrangement::Absolute, Arrangement::Relative, Arrangement::Circulant] {
            for (groups, local_links) in [(1, 1), (2, 2), (3, 1), (4, 3), (9, 1)] {
                let (groups, local_links) = (Some(groups), Some(local_links));
                let family = Dragonfly { groups, switches: Some(4), global: Some(2), local_links, arrangement, ..Dragonfly::default() };
                fabrics.push(Topology::Dragonfly(family).build(&links, 64).unwrap());
                let (leaves, spines) = (Some(3), Some(2));
                let family = DragonflyPlus {
                    groups,
                    leaves,
                    spines,
                    global: Some(4),
                    endpoints: Some(2),
                    local_links,
                    arrangement,
                    ..Default::default()
                };
                fabrics.push(Topology::DragonflyPlus(family).build(&links, 64).unwrap());
            }
        }
        fabrics
    }

    #[test]
    fn computed_links_are_those_of_the_graph() {
        for fabric in fabrics() {
            let Coordinates::Dragonfly(groups) = &fabric.coordinates else { panic!() };
            let layout = Layout::new(groups);
            let graph = &fabric.graph;
            let mut seen = 0;
            for link in graph.links() {
                let id = graph.out_link(switch(graph.node(link.from)).unwrap_or(SwitchId(0)), link.from_port);
                let (Some(from), Some(id)) = (switch(graph.node(link.from)), id) else { continue };
                let at = layout.stand(from);
                let computed = match graph.node(link.to) {
                    Node::Endpoint(endpoint) => {
                        assert_eq!(layout.home(endpoint), at);
                        vec![layout.deliver(endpoint)]
                    }
                    Node::Switch(to) if layout.stand(to).group == at.group => {
                        assert_eq!(layout.from(id), From::Local);
                        (0..layout.parallel).map(|cable| layout.local(at, layout.stand(to).position, cable)).collect()
                    }
                    Node::Switch(to) => {
                        assert_eq!(layout.from(id), From::Global);
                        let own = layout.own(at, layout.stand(to).group);
                        (own.first..own.first + own.count).map(|cable| layout.global(at.group, layout.stand(to).group, cable)).collect()
                    }
                };
                assert!(computed.contains(&id), "{fabric}: {link:?} is none of {computed:?}");
                seen += 1;
            }
            assert_eq!(seen, graph.link_count() - graph.endpoint_count());
        }
    }

    fn switch(node: Node) -> Option<SwitchId> {
        match node {
            Node::Switch(switch) => Some(switch),
            Node::Endpoint(_) => None,
        }
    }

    #[test]
    fn global_ports_know_what_is_behind_them() {
        for fabric in fabrics() {
            let Coordinates::Dragonfly(groups) = &fabric.coordinates else { panic!() };
            let layout = Layout::new(groups);
            let mut found = 0;
            for at in fabric.graph.switches().map(|switch| layout.stand(switch)).filter(|&at| layout.is_gateway(at)) {
                for (to, cable) in (0..layout.global.get()).filter_map(|port| layout.behind(at, port)) {
                    let own = layout.own(at, to);
                    assert!((own.first..own.first + own.count).contains(&cable), "{fabric}");
                    assert_eq!(layout.gateway(at.group, to, cable), at.position);
                    found += 1;
                }
            }
            assert_eq!(found, layout.groups * (layout.groups - 1) * layout.pair);
        }
    }
}
