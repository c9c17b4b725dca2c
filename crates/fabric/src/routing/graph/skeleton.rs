//! The switches of a fabric as tables are made of: neighbours in port order, leaves, distances.

use crate::graph::{EndpointId, LinkId, Node, SwitchId};
use crate::routing::{Routing, RoutingError};
use crate::topology::{Coordinates, Fabric, Irregular, Managed};

/// A cable to another switch, seen from one of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    /// The output port.
    pub(super) port: u8,
    /// The switch behind it.
    pub(super) to: SwitchId,
    /// The number of the cable.
    pub(super) cable: u32,
    /// Its place among all ways, for counters.
    pub(super) slot: u32,
}

/// Endpoints of one switch, in port order.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub(super) switch: SwitchId,
    /// Endpoints with the port that delivers to each.
    pub(super) endpoints: Vec<(EndpointId, u8)>,
}

/// What tables lead to behind the ports of one switch, in port order; no endpoint is an aggregation node.
#[derive(Clone, Debug)]
pub(super) struct Destinations {
    pub(super) switch: SwitchId,
    pub(super) ports: Vec<(Option<EndpointId>, u8)>,
}

/// Switches and the ways between them.
#[derive(Clone, Debug)]
pub(super) struct Skeleton {
    first: Vec<u32>,
    ways: Vec<Edge>,
    /// By way: the way back over the same cable.
    back: Vec<u32>,
    /// Switches that have endpoints, by number.
    pub(super) leaves: Vec<Leaf>,
    /// What tables lead to, in the order in which OpenSM fills them.
    pub(super) destinations: Vec<Destinations>,
    /// GUIDs of the switches; their numbers where there are none.
    pub(super) guids: Vec<u64>,
    /// Whether there are GUIDs.
    managed: bool,
}

impl Skeleton {
    /// The switches of `fabric`, all of which must reach each other.
    pub(super) fn new(fabric: &Fabric, routing: Routing) -> Result<Skeleton, RoutingError> {
        let cannot = |what: &str, remedy| RoutingError::Cannot { routing, what: what.to_owned(), remedy };
        let skeleton = Skeleton::without(fabric, routing, &|_| false)?;
        let reached: usize = skeleton.leaves.iter().map(|leaf| leaf.endpoints.len()).sum();
        if reached != fabric.graph.endpoint_count() as usize {
            return Err(cannot("an endpoint is not connected to a switch", "connect every endpoint to a switch"));
        }
        if let Some(leaf) = skeleton.leaves.first() {
            let distance = skeleton.distances(leaf.switch);
            if let Some(other) = skeleton.leaves.iter().find(|leaf| distance[leaf.switch.index()] == FAR) {
                let name = |switch| fabric.name(Node::Switch(switch));
                let what = format!("no way leads from {} to {}", name(leaf.switch), name(other.switch));
                return Err(cannot(&what, "add the missing cables, or route the parts one by one"));
            }
        }
        Ok(skeleton)
    }

    /// What is left of `fabric` without the cables that are `dead`; it may be in parts.
    pub(super) fn without(fabric: &Fabric, routing: Routing, dead: &dyn Fn(u32) -> bool) -> Result<Skeleton, RoutingError> {
        let graph = &fabric.graph;
        let cannot = |what: String, remedy| RoutingError::Cannot { routing, what, remedy };
        let work = u64::from(graph.switch_count()) * u64::from(graph.endpoint_count());
        if work > MOST_ENTRIES {
            let what = format!("its tables would have {work} entries, more than {MOST_ENTRIES}");
            return Err(cannot(what, "choose a routing that computes with the coordinates of the topology"));
        }
        let (mut first, mut ways, mut leaves) = (vec![0], Vec::new(), Vec::new());
        for switch in graph.switches() {
            let mut endpoints = Vec::new();
            for (port, link) in graph.outputs(switch).filter(|(_, link)| !dead(link.cable())) {
                let Ok(port) = u8::try_from(port.0) else {
                    return Err(too_many_ports(fabric, routing, switch));
                };
                if port > LAST_PORT {
                    return Err(too_many_ports(fabric, routing, switch));
                }
                match graph.node(graph.link(link).to) {
                    Node::Endpoint(endpoint) => endpoints.push((endpoint, port)),
                    // A cable from a switch to itself leads nowhere.
                    Node::Switch(to) if to == switch => {}
                    Node::Switch(to) => ways.push(Edge { port, to, cable: link.cable(), slot: ways.len() as u32 }),
                }
            }
            first.push(ways.len() as u32);
            if !endpoints.is_empty() {
                leaves.push(Leaf { switch, endpoints });
            }
        }
        let guids = match managed(fabric) {
            Some(managed) if managed.guids.len() == graph.switch_count() as usize => managed.guids.clone(),
            _ => graph.switches().map(|at| u64::from(at.0)).collect(),
        };
        let destinations = destinations(fabric, &leaves, &guids);
        let back = back(&ways, graph.cable_count());
        let managed = managed(fabric).is_some();
        Ok(Skeleton { first, ways, back, leaves, destinations, guids, managed })
    }
    pub(super) fn switches(&self) -> impl DoubleEndedIterator<Item = SwitchId> + use<> {
        (0..self.first.len() as u32 - 1).map(SwitchId)
    }
    /// How many switches there are.
    pub(super) fn count(&self) -> usize {
        self.first.len() - 1
    }
    /// All ways out of a switch to other switches, in port order.
    pub(super) fn ways(&self, at: SwitchId) -> &[Edge] {
        &self.ways[self.first[at.index()] as usize..self.first[at.index() + 1] as usize]
    }
    /// By what OpenSM's map of switches is ordered: GUIDs with their bytes in the opposite order; numbers where there are none.
    pub(super) fn key(&self, at: SwitchId) -> u64 {
        let guid = self.guids[at.index()];
        if self.managed { guid.swap_bytes() } else { guid }
    }
    /// The way of a place among all.
    pub(super) fn way(&self, slot: u32) -> Edge {
        self.ways[slot as usize]
    }
    /// The way back over the same cable.
    pub(super) fn back(&self, way: &Edge) -> Edge {
        self.ways[self.back[way.slot as usize] as usize]
    }
    /// How many ways there are.
    pub(super) fn way_count(&self) -> usize {
        self.ways.len()
    }
    /// Switches on the way from each switch to `to`, `to` itself not counted; [`FAR`] where there is no way.
    pub(super) fn distances(&self, to: SwitchId) -> Vec<u16> {
        self.distances_from(&[to])
    }
    /// The distance to the nearest of some switches.
    pub(super) fn distances_from(&self, starts: &[SwitchId]) -> Vec<u16> {
        let mut distance = vec![FAR; self.count()];
        let mut frontier = std::collections::VecDeque::new();
        for &start in starts {
            distance[start.index()] = 0;
            frontier.push_back(start);
        }
        while let Some(at) = frontier.pop_front() {
            for way in self.ways(at) {
                if distance[way.to.index()] == FAR {
                    distance[way.to.index()] = distance[at.index()] + 1;
                    frontier.push_back(way.to);
                }
            }
        }
        distance
    }
}

/// What tables lead to: switches with most adapters first, aggregation nodes among these; of several the one whose GUID is the smallest
/// with its bytes in the opposite order, as OpenSM's map compares them. By the number of the switch where there are no GUIDs.
///
/// Source: OpenSM 3.3, `osm_ucast_mgr.c` (`sort_ports_by_switch_load`, over a map by GUIDs in network order, on little-endian machines).
fn destinations(fabric: &Fabric, leaves: &[Leaf], guids: &[u64]) -> Vec<Destinations> {
    let ports = |leaf: &Leaf| leaf.endpoints.iter().map(|(endpoint, port)| (Some(*endpoint), *port)).collect();
    let mut all: Vec<Destinations> = leaves.iter().map(|leaf| Destinations { switch: leaf.switch, ports: ports(leaf) }).collect();
    let Some(managed) = managed(fabric) else { return all };
    for (switch, port) in &managed.services {
        let Ok(port) = u8::try_from(port.0) else { continue };
        let at = all.binary_search_by_key(switch, |at| at.switch).unwrap_or_else(|place| {
            all.insert(place, Destinations { switch: *switch, ports: Vec::new() });
            place
        });
        let ports = &mut all[at].ports;
        ports.insert(ports.partition_point(|(_, before)| *before < port), (None, port));
    }
    all.sort_by_key(|at| (std::cmp::Reverse(at.ports.len()), guids[at.switch.index()].swap_bytes()));
    all
}

/// What a subnet manager sees beside the graph, where the fabric is a subnet.
pub(super) fn managed(fabric: &Fabric) -> Option<&Managed> {
    match &fabric.coordinates {
        Coordinates::Irregular(Irregular { managed, .. }) => managed.as_deref(),
        _ => None,
    }
}

/// For each way the one back over the same cable.
fn back(ways: &[Edge], cables: u32) -> Vec<u32> {
    let mut ends = vec![[u32::MAX; 2]; cables as usize];
    for way in ways {
        let [first, second] = &mut ends[way.cable as usize];
        *(if *first == u32::MAX { first } else { second }) = way.slot;
    }
    ways.iter().map(|way| ends[way.cable as usize]).zip(0..).map(|([one, other], slot)| if one == slot { other } else { one }).collect()
}

fn too_many_ports(fabric: &Fabric, routing: Routing, switch: SwitchId) -> RoutingError {
    let what = format!("{} has {} ports; tables number 254", fabric.name(Node::Switch(switch)), fabric.graph.port_count(switch));
    RoutingError::Cannot { routing, what, remedy: "use smaller switches" }
}

/// The link behind each port of each switch, for looking it up without the graph.
#[derive(Clone, Debug)]
pub(super) struct Plugs {
    first: Vec<u32>,
    links: Vec<LinkId>,
}

impl Plugs {
    pub(super) fn new(fabric: &Fabric) -> Plugs {
        let graph = &fabric.graph;
        let (mut first, mut links) = (vec![0], Vec::new());
        for switch in graph.switches() {
            let ports = (0..graph.port_count(switch)).map(crate::graph::PortId);
            links.extend(ports.map(|port| graph.out_link(switch, port).unwrap_or(LinkId(u32::MAX))));
            first.push(links.len() as u32);
        }
        Plugs { first, links }
    }
    /// The link behind a port that has one.
    #[inline]
    pub(super) fn link(&self, at: SwitchId, port: u32) -> LinkId {
        self.links[(self.first[at.index()] + port) as usize]
    }
}

/// No way.
pub(super) const FAR: u16 = u16::MAX;
/// The last port, counted from 0, that a forwarding table can name (255 stands for none).
const LAST_PORT: u8 = 253;
/// Entries that tables may have: 1 GiB (assumed).
const MOST_ENTRIES: u64 = 1 << 30;
