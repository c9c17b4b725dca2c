//! Groups of switches joined by global cables: the coordinates that dragonfly and dragonfly+ share.
//!
//! ```text
//!  group 0                     group 1
//!  s0 ─── s1 ─── s2 ─── s3     s4 ─── s5 …        dragonfly: every switch of a group has a cable to every other one,
//!  ││     ││     ││     ││                        endpoints and global cables
//!
//!  s0  s1  s2   │  s6  s7  s8                     dragonfly+: leaves with the endpoints first, then spines with the
//!  │╲╲╱╱╲╱╱│    │                                 global cables; every leaf has a cable to every spine
//!  s3  s4  s5 ──┴─ s9  s10 s11
//! ```
//!
//! Numbers, with S switches in a group, p endpoints below a switch, h global ports on a switch, g groups, m cables
//! between each two groups and L between each two switches that are joined inside a group:
//! * switch s of group G is number G·S + s; endpoint e is plugged into the ⌊e / p⌋-th switch that has endpoints;
//! * ports: endpoints first, then local ones by the number of the other side, then global ones;
//! * the global ports of a group are numbered through, q = 0 … ; cable c from group G to its peer number x (see
//!   [`super::Arrangement`]) is at port q = x + c · (g - 1), which is port q mod h of the ⌊q / h⌋-th switch that has some;
//! * cables: those of the endpoints; then those inside the groups, group by group, by b·(b-1)/2 + a for switches a < b
//!   (leaf · spines + spine in a dragonfly+); then the global ones by H·(H-1)/2 + G for groups G < H. Parallel cables
//!   have consecutive numbers. So routing computes the link instead of looking it up.
//!
//! Not modelled: groups of different sizes, pairs of groups with more cables than others, missing switches.

use std::fmt;

use super::{Arrangement, Coordinates, Counts, Fabric, Links, TopologyError};
use crate::graph::{Builder, EndpointId, MOST_PORTS, Socket, SwitchId};

/// How the switches of a group are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Inside {
    /// Each to each other; all have endpoints and global ports (dragonfly).
    Mesh {
        /// Switches of a group.
        switches: u32,
    },
    /// Leaves with endpoints, spines with global ports, each leaf to each spine (dragonfly+).
    LeafSpine {
        /// Leaves of a group.
        leaves: u32,
        /// Spines of a group.
        spines: u32,
    },
}

impl Inside {
    /// Switches of a group.
    pub const fn switches(self) -> u32 {
        match self {
            Inside::Mesh { switches } => switches,
            Inside::LeafSpine { leaves, spines } => leaves + spines,
        }
    }
    /// Switches of a group that have endpoints: the first ones.
    pub const fn edges(self) -> u32 {
        match self {
            Inside::Mesh { switches } => switches,
            Inside::LeafSpine { leaves, .. } => leaves,
        }
    }
    /// The first switch of a group that has global ports; all after it have some too.
    pub const fn first_gateway(self) -> u32 {
        match self {
            Inside::Mesh { .. } => 0,
            Inside::LeafSpine { leaves, .. } => leaves,
        }
    }
    /// Pairs of switches of a group that are joined.
    pub(crate) const fn pairs(self) -> u64 {
        match self {
            Inside::Mesh { switches } => switches as u64 * (switches as u64 - 1) / 2,
            Inside::LeafSpine { leaves, spines } => leaves as u64 * spines as u64,
        }
    }
}

/// The numbers that make up a fabric of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub inside: Inside,
    pub groups: u32,
    /// Endpoints of a switch that has some.
    pub hosts: u32,
    /// Global ports of a switch that has some.
    pub global: u32,
    pub local_links: u32,
    /// Cables between each two groups.
    pub global_links: u32,
    pub arrangement: Arrangement,
    /// Endpoints in all: the first places are taken.
    pub endpoints: u32,
}

/// The shape of a fabric of groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    shape: Shape,
}

impl Groups {
    /// Checks that the sizes can be numbered.
    pub(super) fn new(shape: Shape) -> Result<Groups, TopologyError> {
        let groups = Groups { shape };
        let ports = (0..shape.inside.switches()).map(|position| groups.ports(position)).fold(0, u64::saturating_add);
        let ports = ports.saturating_mul(u64::from(shape.groups));
        if ports > u64::from(MOST_PORTS) {
            return Err(TopologyError::TooLarge { ports, most: MOST_PORTS });
        }
        Ok(groups)
    }

    /// How many groups there are.
    pub fn groups(&self) -> u32 {
        self.shape.groups
    }
    /// How the switches of a group are joined.
    pub fn inside(&self) -> Inside {
        self.shape.inside
    }
    /// How many endpoints a switch has places for, where it has endpoints.
    pub fn endpoints_per_switch(&self) -> u32 {
        self.shape.hosts
    }
    /// How many global ports a switch has, used or not, where it has some.
    pub fn global_ports(&self) -> u32 {
        self.shape.global
    }
    /// How many cables join two neighbours inside a group.
    pub fn local_links(&self) -> u32 {
        self.shape.local_links
    }
    /// How many cables join each two groups.
    pub fn global_links(&self) -> u32 {
        self.shape.global_links
    }
    /// In which order the global ports lead to the other groups.
    pub fn arrangement(&self) -> Arrangement {
        self.shape.arrangement
    }
    /// The group of a switch.
    pub fn group(&self, switch: SwitchId) -> u32 {
        switch.0 / self.shape.inside.switches()
    }
    /// The number of a switch in its group.
    pub fn position(&self, switch: SwitchId) -> u32 {
        switch.0 % self.shape.inside.switches()
    }
    /// The switch that an endpoint is plugged into.
    pub fn switch_of(&self, endpoint: EndpointId) -> SwitchId {
        let (edges, edge) = (self.shape.inside.edges(), endpoint.0 / self.shape.hosts);
        self.switch(edge / edges, edge % edges)
    }
    /// The group of an endpoint.
    pub fn group_of(&self, endpoint: EndpointId) -> u32 {
        self.group(self.switch_of(endpoint))
    }
    /// The switch of a group.
    pub fn switch(&self, group: u32, position: u32) -> SwitchId {
        SwitchId(group * self.shape.inside.switches() + position)
    }
    /// The switch of group `from` that cable number `cable` to group `to` starts at, and which of its global ports that is.
    pub fn gateway(&self, from: u32, to: u32, cable: u32) -> (SwitchId, u32) {
        let shape = &self.shape;
        let port = shape.arrangement.peer_number(from, to, shape.groups) + cable * (shape.groups - 1);
        (self.switch(from, shape.inside.first_gateway() + port / shape.global), port % shape.global)
    }
    /// The first cable inside a group.
    pub(crate) fn first_local_cable(&self) -> u32 {
        self.shape.endpoints
    }
    /// The first cable between groups.
    pub(crate) fn first_global_cable(&self) -> u32 {
        self.shape.endpoints + self.shape.groups * self.local_cables_per_group()
    }
    /// Cables inside each group.
    pub(crate) fn local_cables_per_group(&self) -> u32 {
        self.shape.inside.pairs() as u32 * self.shape.local_links
    }

    /// How many endpoints, switches and cables there are, from the shape alone.
    pub fn counts(&self) -> Counts {
        let Shape { groups, global_links, endpoints, inside, .. } = self.shape;
        let pairs = u64::from(groups) * u64::from(groups - 1) / 2;
        let cables = self.first_global_cable() + pairs as u32 * global_links;
        Counts { endpoints, switches: groups * inside.switches(), cables }
    }

    /// Links on the longest of the shortest paths between two endpoints.
    ///
    /// Two switches of a dragonfly are at most three links apart (local, global, local). Whether some two are takes a look
    /// at what each switch reaches by two: on all but the smallest fabrics the first one tells.
    pub fn diameter(&self) -> u32 {
        let Shape { endpoints, hosts, inside, .. } = self.shape;
        let edges = endpoints.div_ceil(hosts);
        if edges <= 1 {
            return 2;
        }
        match inside {
            Inside::LeafSpine { leaves, .. } if edges <= leaves => 4,
            Inside::LeafSpine { .. } => 5,
            Inside::Mesh { .. } => {
                let farthest = (0..edges).map(|switch| self.farthest(SwitchId(switch), edges));
                let mut most = 0;
                for links in farthest {
                    most = most.max(links);
                    if most == 3 {
                        break;
                    }
                }
                2 + most
            }
        }
    }

    /// Links from a switch of a dragonfly to the farthest of the first `edges` switches.
    fn farthest(&self, from: SwitchId, edges: u32) -> u32 {
        let mut links = vec![u8::MAX; self.counts().switches as usize];
        links[from.index()] = 0;
        let near = self.neighbours(from);
        near.iter().for_each(|next| links[next.index()] = 1);
        for next in near.iter().flat_map(|next| self.neighbours(*next)) {
            links[next.index()] = links[next.index()].min(2);
        }
        links[..edges as usize].iter().max().map_or(0, |&most| u32::from(most.min(3)))
    }

    /// The switches that a switch of a dragonfly has cables to.
    fn neighbours(&self, switch: SwitchId) -> Vec<SwitchId> {
        let Shape { inside, groups, global, global_links, arrangement, .. } = self.shape;
        let (group, position) = (self.group(switch), self.position(switch));
        let mut near: Vec<SwitchId> =
            (0..inside.switches()).filter(|&other| other != position).map(|other| self.switch(group, other)).collect();
        for port in position * global..((position + 1) * global).min(global_links * (groups - 1)) {
            let (number, cable) = (port % (groups - 1), port / (groups - 1));
            near.push(self.gateway(arrangement.peer(group, number, groups), group, cable).0);
        }
        near
    }

    /// Plugs all cables in.
    pub(super) fn build(self, links: &Links, radix: u32) -> Result<Fabric, TopologyError> {
        let Shape { inside, groups, hosts, endpoints, .. } = self.shape;
        let ports = (0..groups * inside.switches()).map(|switch| self.ports(switch % inside.switches()) as u16);
        let mut builder = Builder::new(endpoints, ports)?;
        builder.reserve(self.counts().cables);
        for endpoint in 0..endpoints {
            let port = (endpoint % hosts) as u16;
            builder.cable(Socket::endpoint(endpoint), Socket::switch(self.switch_of(EndpointId(endpoint)).0, port), &links.host)?;
        }
        for group in 0..groups {
            self.plug_group(&mut builder, links, group)?;
        }
        for upper in 0..groups {
            for lower in 0..upper {
                self.plug_pair(&mut builder, links, lower, upper)?;
            }
        }
        Ok(Fabric { graph: builder.build()?, coordinates: Coordinates::Dragonfly(self), radix })
    }

    /// The cables inside a group, in the order of their numbers.
    fn plug_group(&self, builder: &mut Builder, links: &Links, group: u32) -> Result<(), TopologyError> {
        let mut join = |a: u32, b: u32| -> Result<(), TopologyError> {
            for cable in 0..self.shape.local_links {
                let socket = |here, there| Socket::switch(self.switch(group, here).0, self.local_port(here, there, cable) as u16);
                builder.cable(socket(a, b), socket(b, a), &links.trunk)?;
            }
            Ok(())
        };
        match self.shape.inside {
            Inside::Mesh { switches } => (0..switches).try_for_each(|upper| (0..upper).try_for_each(|lower| join(lower, upper))),
            Inside::LeafSpine { leaves, spines } => {
                (0..leaves).try_for_each(|leaf| (leaves..leaves + spines).try_for_each(|spine| join(leaf, spine)))
            }
        }
    }

    /// The cables between two groups.
    fn plug_pair(&self, builder: &mut Builder, links: &Links, lower: u32, upper: u32) -> Result<(), TopologyError> {
        for cable in 0..self.shape.global_links {
            let socket = |from, to| {
                let (switch, port) = self.gateway(from, to, cable);
                Socket::switch(switch.0, (self.first_global_port(self.position(switch)) + port) as u16)
            };
            builder.cable(socket(lower, upper), socket(upper, lower), &links.global)?;
        }
        Ok(())
    }

    /// The port of the switch at position `here` for a cable to the one at position `there` of the same group.
    fn local_port(&self, here: u32, there: u32, cable: u32) -> u32 {
        let Shape { inside, hosts, local_links, .. } = self.shape;
        let (first, number) = match inside {
            Inside::Mesh { .. } => (hosts, there - u32::from(there > here)),
            Inside::LeafSpine { leaves, .. } if here < leaves => (hosts, there - leaves),
            Inside::LeafSpine { .. } => (0, there),
        };
        first + number * local_links + cable
    }

    /// The first global port of the switch at `position`.
    fn first_global_port(&self, position: u32) -> u32 {
        let Shape { inside, hosts, local_links, .. } = self.shape;
        match inside {
            Inside::Mesh { switches } => hosts + (switches - 1) * local_links,
            Inside::LeafSpine { leaves, spines } if position < leaves => hosts + spines * local_links,
            Inside::LeafSpine { leaves, .. } => leaves * local_links,
        }
    }

    /// Ports of the switch at `position`, used or not.
    fn ports(&self, position: u32) -> u64 {
        let global = if position < self.shape.inside.first_gateway() { 0 } else { self.shape.global };
        u64::from(self.first_global_port(position)) + u64::from(global)
    }

    /// What reports call a switch: `group 3 switch 2`, `group 3 leaf 2`, `group 3 spine 0`.
    pub(super) fn name(&self, switch: SwitchId) -> String {
        let (group, position) = (self.group(switch), self.position(switch));
        match self.shape.inside {
            Inside::Mesh { .. } => format!("group {group} switch {position}"),
            Inside::LeafSpine { leaves, .. } if position < leaves => format!("group {group} leaf {position}"),
            Inside::LeafSpine { leaves, .. } => format!("group {group} spine {}", position - leaves),
        }
    }
}

impl fmt::Display for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups = self.shape.groups;
        match self.shape.inside {
            Inside::Mesh { switches } => write!(f, "dragonfly of {groups} groups of {switches} switches"),
            Inside::LeafSpine { leaves, spines } => write!(f, "dragonfly+ of {groups} groups of {leaves} leaves and {spines} spines"),
        }
    }
}

/// Checks how many groups there may be, and gives them with the number of cables between each two.
///
/// `ports` is how many global ports a group has.
pub(super) fn spread(groups: Option<u32>, global_links: Option<u32>, ports: u64) -> Result<(u32, u32), TopologyError> {
    let per_pair = super::positive("global_links", global_links.unwrap_or(1))?;
    // Groups and cables that 32 bits do not hold are refused where the ports of the fabric are counted.
    let most = ports / u64::from(per_pair) + 1;
    let groups = super::positive("groups", groups.unwrap_or(u32::try_from(most).unwrap_or(u32::MAX)))?;
    if u64::from(groups) > most {
        let expected = match per_pair {
            1 => format!("a group has {ports} global ports: write at most {most}, or raise `global`"),
            _ => format!("a group has {ports} global ports: write at most {most}, raise `global` or lower `global_links`"),
        };
        return Err(TopologyError::OutOfRange { name: "groups", value: u64::from(groups), expected });
    }
    if groups == 1 {
        return match global_links {
            Some(_) => Err(TopologyError::NoEffect { name: "global_links", why: "there is one group" }),
            None => Ok((1, 0)),
        };
    }
    let all = u32::try_from(ports / u64::from(groups - 1)).unwrap_or(u32::MAX);
    Ok((groups, global_links.unwrap_or(all)))
}

/// Checks how many of the `places` have an endpoint.
pub(super) fn filled(asked: Option<u32>, places: u64) -> Result<u32, TopologyError> {
    match asked {
        Some(endpoints) if u64::from(super::positive("total_endpoints", endpoints)?) > places => {
            Err(TopologyError::TooManyEndpoints { endpoints: u64::from(endpoints), fits: places, remedy: " per switch, raise `groups`" })
        }
        Some(endpoints) => Ok(endpoints),
        None => u32::try_from(places).map_err(|_| TopologyError::TooLarge { ports: places, most: MOST_PORTS }),
    }
}
