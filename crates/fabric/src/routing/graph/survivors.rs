//! Routes over what is left of a fabric: what a manager writes into the switches after cables died.
//!
//! Source: as `up_down` (M. Schroeder et al., Autonet, 1991) and `shortest` (P. Merlin and P. Schweitzer, 1980).
//! Modelled: shortest paths with a lane per hop where there are lanes enough, or where nothing can wait for credits; else
//! shortest paths that go up and then down, which need one lane. Several ways are shared as the routing does it: by
//! destination, by flow, by packet, by queue. Parts that cannot reach each other have no routes between them.
//! Not modelled: detours; keeping routes that the dead cables do not touch.

use super::skeleton::{FAR, Plugs, Skeleton};
use super::up_down;
use crate::graph::{EndpointId, LinkId, Node, SwitchId};
use crate::routing::hash::{below, hash};
use crate::routing::{Head, Hop, Routing, RoutingError, Sharing, SwitchView};
use crate::topology::Fabric;

/// Routes over the cables that still work.
#[derive(Clone, Debug)]
pub struct Survivors {
    share: Share,
    plugs: Plugs,
    /// The place among the leaves of each endpoint's switch, and the link that delivers to it; nothing for those cut off.
    home: Vec<Option<(u32, LinkId)>>,
    /// The switch of each leaf.
    leaves: Vec<SwitchId>,
    /// Words of 64 ports for each switch and leaf.
    words: usize,
    /// By switch, then leaf: the ports that lead there.
    ports: Vec<u64>,
    /// By link: whether it comes from a switch.
    trunk: Vec<bool>,
    /// The lane counts the hops, up to this number of lanes.
    lanes: u8,
}

/// How several ways are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    /// By the destination.
    Destination,
    /// By a hash of the flow.
    Flow,
    /// The next one for each packet.
    Packet,
    /// The shortest queue.
    Queue,
}

impl Survivors {
    /// The routes of `fabric` without the cables that are `dead`, shared as `routing` shares them. There are `lanes` lanes for
    /// each service level; `waits` says whether packets wait for credits or pauses, so that cycles must be kept out.
    ///
    /// # Errors
    /// Switches with more than 254 ports, more than 2³⁰ entries.
    pub fn new(fabric: &Fabric, routing: Routing, dead: impl Fn(u32) -> bool, lanes: u8, waits: bool) -> Result<Survivors, RoutingError> {
        let graph = &fabric.graph;
        let skeleton = Skeleton::without(fabric, routing, &dead)?;
        let most_ports = graph.switches().map(|at| graph.port_count(at)).max().unwrap_or(0);
        let words = usize::from(most_ports.div_ceil(64)).max(1);
        let mut home = vec![None; graph.endpoint_count() as usize];
        for (number, leaf) in skeleton.leaves.iter().enumerate() {
            for &(endpoint, _) in &leaf.endpoints {
                home[endpoint.index()] = Some((number as u32, graph.uplink(endpoint).reverse()));
            }
        }
        let mut survivors = Survivors {
            share: share(routing),
            plugs: Plugs::new(fabric),
            home,
            leaves: skeleton.leaves.iter().map(|leaf| leaf.switch).collect(),
            words,
            ports: Vec::new(),
            trunk: graph.links().iter().map(|link| matches!(graph.node(link.from), Node::Switch(_))).collect(),
            lanes: 1,
        };
        let farthest = farthest(&skeleton);
        if !waits || farthest <= u16::from(lanes) {
            survivors.lanes = if waits { lanes } else { 1 };
            survivors.shortest(&skeleton);
        } else {
            survivors.up_down(&skeleton);
        }
        Ok(survivors)
    }

    fn shortest(&mut self, skeleton: &Skeleton) {
        self.clear(skeleton);
        for (number, leaf) in self.leaves.clone().into_iter().enumerate() {
            let distance = skeleton.distances(leaf);
            for at in skeleton.switches().filter(|&at| at != leaf && distance[at.index()] != FAR) {
                for way in skeleton.ways(at).iter().filter(|way| distance[way.to.index()] + 1 == distance[at.index()]) {
                    self.allow(at, number, way.port);
                }
            }
        }
    }

    fn up_down(&mut self, skeleton: &Skeleton) {
        // The switches farthest from endpoints are on top, if that leaves nobody out; else one switch of each part.
        let by_level = up_down::roots_by_level(skeleton);
        for roots in [whole(skeleton, by_level), whole(skeleton, Vec::new())] {
            self.clear(skeleton);
            let order = up_down::Order::new(skeleton, &roots);
            let downwards = order.downwards(skeleton);
            let mut complete = true;
            for (number, leaf) in self.leaves.clone().into_iter().enumerate() {
                let distance = skeleton.distances(leaf);
                let leaves = self.leaves.clone();
                let mut offer = |at: SwitchId, ways: &[super::skeleton::Edge]| {
                    ways.iter().for_each(|way| self.allow(at, number, way.port));
                };
                let missed = |at: SwitchId| complete &= distance[at.index()] == FAR || leaves.binary_search(&at).is_err();
                up_down::ways_to(skeleton, &order, &downwards, leaf, &mut offer, missed);
            }
            if complete {
                return;
            }
        }
    }

    fn clear(&mut self, skeleton: &Skeleton) {
        self.ports = vec![0; skeleton.count() * self.leaves.len() * self.words];
    }
    fn allow(&mut self, at: SwitchId, leaf: usize, port: u8) {
        let row = (at.index() * self.leaves.len() + leaf) * self.words;
        self.ports[row + usize::from(port) / 64] |= 1 << (port % 64);
    }

    /// The next step of a packet at switch `at`; `None` where no way is left.
    pub fn hop(&self, at: SwitchId, head: Head, view: &impl SwitchView) -> Option<Hop> {
        let mut ways = Vec::new();
        self.options(at, head, &mut |hop| ways.push(hop));
        let count = u32::try_from(ways.len()).ok().filter(|count| *count > 0)?;
        let flow = u64::from(head.dest.0) << 32 | u64::from(head.entropy);
        let place = match self.share {
            Share::Destination => head.dest.0 % count,
            Share::Flow => below(hash(flow, at.0), count),
            Share::Packet => below(hash(u64::from(head.dest.0), at.0), count).wrapping_add(head.entropy) % count,
            Share::Queue => {
                let first = below(hash(flow, at.0), count);
                let places = (0..count).map(|step| (first + step) % count);
                places.min_by_key(|&place| view.depth(ways[place as usize].link)).unwrap_or(0)
            }
        };
        ways.get(place as usize).copied()
    }

    /// Every hop that [`Survivors::hop`] could answer with.
    pub fn options(&self, at: SwitchId, head: Head, visit: &mut dyn FnMut(Hop)) {
        let Some((leaf, delivery)) = self.home[head.dest.index()] else { return };
        if self.leaves[leaf as usize] == at {
            return visit(Hop { link: delivery, vl: head.vl, via: 0 });
        }
        let counts = self.lanes > 1 && self.trunk[head.input.index()];
        let vl = if counts { (head.vl + 1).min(self.lanes - 1) } else { head.vl.min(self.lanes - 1) };
        let row = (at.index() * self.leaves.len() + leaf as usize) * self.words;
        for (index, &word) in self.ports[row..row + self.words].iter().enumerate() {
            let mut word = word;
            while word != 0 {
                let port = index as u32 * 64 + word.trailing_zeros();
                visit(Hop { link: self.plugs.link(at, port), vl, via: 0 });
                word &= word - 1;
            }
        }
    }

    /// Whether an endpoint can be reached from somewhere else at all.
    pub fn reaches(&self, dest: EndpointId) -> bool {
        self.home[dest.index()].is_some()
    }
}

fn share(routing: Routing) -> Share {
    match routing.sharing() {
        Sharing::Flow => Share::Flow,
        Sharing::Packet => Share::Packet,
        Sharing::Load | Sharing::Pause => Share::Queue,
        Sharing::Destination => Share::Destination,
    }
}

/// Hops between the leaves that are farthest apart but reach each other.
fn farthest(skeleton: &Skeleton) -> u16 {
    let reach = |leaf: &super::skeleton::Leaf| {
        let distance = skeleton.distances(leaf.switch);
        skeleton.leaves.iter().map(|leaf| distance[leaf.switch.index()]).filter(|&hops| hops != FAR).max()
    };
    skeleton.leaves.iter().filter_map(reach).max().unwrap_or(0)
}

/// The roots, and one more for each part of the fabric that has none.
fn whole(skeleton: &Skeleton, mut roots: Vec<SwitchId>) -> Vec<SwitchId> {
    loop {
        let distance = skeleton.distances_from(&roots);
        match skeleton.switches().find(|at| distance[at.index()] == FAR) {
            Some(at) => roots.push(at),
            None => return roots,
        }
    }
}

#[cfg(test)]
mod tests {
    use fabriscope_units::{Rate, Span};

    use super::*;
    use crate::graph::LinkSpec;
    use crate::routing::Idle;
    use crate::topology::{FatTree, Links, Topology};

    fn tree() -> Fabric {
        let links = Links::uniform(LinkSpec::new(Rate::from_gbps(100), Span::from_ns(10)));
        Topology::FatTree(FatTree { levels: Some(3), ..FatTree::default() }).build(&links, 4).expect("a tree")
    }

    /// The links of a packet from one endpoint to another.
    fn follow(fabric: &Fabric, survivors: &Survivors, from: EndpointId, dest: EndpointId, entropy: u32) -> Option<Vec<LinkId>> {
        let graph = &fabric.graph;
        let mut path = vec![graph.uplink(from)];
        let mut vl = 0;
        loop {
            let input = path[path.len() - 1];
            let Node::Switch(at) = graph.node(graph.link(input).to) else { return Some(path) };
            let hop = survivors.hop(at, Head { dest, entropy, input, vl, via: 0 }, &Idle::new())?;
            vl = hop.vl;
            path.push(hop.link);
            assert!(path.len() < 20, "a loop from {from} to {dest}: {path:?}");
        }
    }

    #[test]
    fn whatever_single_cable_dies_the_rest_is_reached_around_it() {
        let fabric = tree();
        let graph = &fabric.graph;
        for routing in [Routing::DModK, Routing::Ecmp, Routing::Spray, Routing::Adaptive] {
            for dead in 0..graph.cable_count() {
                let survivors = Survivors::new(&fabric, routing, |cable| cable == dead, 1, true).expect("routes");
                for from in graph.endpoints() {
                    for dest in graph.endpoints().filter(|dest| *dest != from) {
                        let cut_off = [from, dest].iter().any(|end| graph.uplink(*end).cable() == dead);
                        if cut_off {
                            continue;
                        }
                        let path = follow(&fabric, &survivors, from, dest, dead * 7 + from.0).expect("a way");
                        assert!(path.iter().all(|link| link.cable() != dead), "{routing} {from} {dest}: {path:?}");
                        assert_eq!(graph.link(path[path.len() - 1]).to.0, dest.0);
                    }
                }
            }
        }
    }

    #[test]
    fn parts_have_no_way_between_them() {
        let fabric = tree();
        let graph = &fabric.graph;
        // All cables of the first leaf but those of its endpoints.
        let leaf = graph.node(graph.link(graph.uplink(EndpointId(0))).to);
        let Node::Switch(leaf) = leaf else { panic!("an endpoint on an endpoint") };
        let endpoints = graph.endpoint_count();
        let up: Vec<u32> =
            graph.outputs(leaf).filter(|(_, link)| graph.link(*link).to.0 >= endpoints).map(|(_, link)| link.cable()).collect();
        for waits in [true, false] {
            let survivors = Survivors::new(&fabric, Routing::Ecmp, |cable| up.contains(&cable), 1, waits).expect("routes");
            assert!(follow(&fabric, &survivors, EndpointId(0), EndpointId(1), 3).is_some(), "two of one leaf");
            assert!(follow(&fabric, &survivors, EndpointId(0), EndpointId(9), 3).is_none());
            assert!(follow(&fabric, &survivors, EndpointId(9), EndpointId(0), 3).is_none());
            assert!(follow(&fabric, &survivors, EndpointId(9), EndpointId(4), 3).is_some());
        }
    }
}
