//! What a fabric carries once its manager has found ways around what is dead.
//!
//! Modelled: the routes that managers of the packet engine compute for what is left (`fabriscope_fabric::routing::Survivors`); every endpoint
//! sends to every other one as fast as the busiest link lets it.
//! Not modelled: queues, and rates that adapt so that other pairs take what the slowest leave.

use std::collections::BTreeSet;

use fabriscope_fabric::analysis::{Offer, pressure};
use fabriscope_fabric::routing::{Survivors, SwitchView};
use fabriscope_fabric::{EndpointId, Fabric, Head, Hop, LinkId, Node, Route, Routing, SwitchId};

/// The routes of what is left.
struct Repaired {
    routes: Survivors,
    /// Where packets go that have no way left: out of this link of the switch.
    any: Vec<LinkId>,
    longest: u32,
}

impl Route for Repaired {
    fn output(&self, at: SwitchId, head: Head, view: &mut impl SwitchView) -> Hop {
        self.routes.hop(at, head, &*view).unwrap_or(Hop { link: self.any[at.index()], vl: 0, via: 0 })
    }
    fn options(&self, at: SwitchId, head: Head, visit: &mut dyn FnMut(Hop)) {
        self.routes.options(at, head, visit);
    }
    fn lanes(&self) -> u8 {
        LANES
    }
    fn longest(&self) -> u32 {
        self.longest
    }
}

/// Virtual lanes of the routes: as many as paths of trees and dragonflies have hops. Basis: standard; InfiniBand has eight data lanes in common use.
const LANES: u8 = 8;

/// What is dead of a fabric.
#[derive(Default)]
pub(super) struct Dead {
    /// Its cables.
    pub cables: BTreeSet<u32>,
    /// Its endpoints, which neither send nor receive.
    pub endpoints: BTreeSet<EndpointId>,
}

/// What every endpoint that is left sends in an exchange of all with all, as a share of its link; nothing where no routes are found, or a pair
/// of endpoints has no way.
pub(super) fn all_to_all(fabric: &Fabric, routing: Routing, dead: &Dead) -> Option<f64> {
    let graph = &fabric.graph;
    let routes = Survivors::new(fabric, routing, |cable| dead.cables.contains(&cable), LANES, true).ok()?;
    let endpoints: Vec<_> = graph.endpoints().filter(|endpoint| !dead.endpoints.contains(endpoint)).collect();
    if endpoints.len() < 2 || endpoints.iter().any(|endpoint| !routes.reaches(*endpoint)) {
        return None;
    }
    let mut any = vec![LinkId(0); graph.switch_count() as usize];
    for link in (0..graph.link_count()).map(LinkId) {
        if let Node::Switch(at) = graph.node(graph.link(link).from) {
            any[at.index()] = link;
        }
    }
    let repaired = Repaired { routes, any, longest: graph.switch_count().max(8) + 2 };
    let pairs = endpoints.iter().flat_map(|from| endpoints.iter().filter(move |to| *to != from).map(move |to| (*from, *to)));
    let packets = if routing.reorders() { 8 } else { 1 };
    let offer = Offer { messages: endpoints.len() as u32 - 1, packets, hops: 1.0 };
    let found = pressure(fabric, &repaired, pairs, &offer);
    (found.unreachable == 0).then(|| 1.0 / found.worst().max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dossier::design::Design;

    /// Eight leaves of sixteen nodes under sixteen spines, all of one rate. Without one spine of sixteen, fifteen sixteenths of the uplinks are left;
    /// without anything dead no link between switches carries more than its rate, but for what hashing of flows puts on one link.
    #[test]
    fn what_is_left_is_what_the_dead_did_not_carry() {
        let design = Design::of(&fabriscope_catalog::Catalog::embedded().unwrap(), "lab-roce-128").unwrap();
        let fabric = &design.cluster.fabric;
        let without = |cables: &dyn Fn(u32) -> bool| (0..fabric.graph.cable_count()).filter(|cable| cables(*cable)).collect();
        let with =
            |routing, cables: &dyn Fn(u32) -> bool| all_to_all(fabric, routing, &Dead { cables: without(cables), ..Dead::default() });
        let of = |routing, cables: &dyn Fn(u32) -> bool| with(routing, cables).unwrap();
        let graph = &fabric.graph;
        let switch = |link: LinkId| [graph.link(link).from, graph.link(link).to].map(|end| fabric.name(graph.node(end)));
        let spine = |cable: u32| switch(LinkId(2 * cable)).contains(&"spine 0".to_owned());
        let (whole, left) = (of(Routing::Spray, &|_| false), of(Routing::Spray, &spine));
        assert!((0.9..=1.0).contains(&whole), "{whole}");
        // 112 of 127 messages leave the leaf: 16 × 112 / 127 of 15 links, 0.94 of each. Sprayed packets are nearly even.
        assert!(left <= whole && left > 0.8, "{left}");
        let (whole, left) = (of(Routing::Ecmp, &|_| false), of(Routing::Ecmp, &|cable| cable == 128));
        assert!(left <= whole && left > 0.3, "{left} of {whole}");
        // Without the cable of a node there is no exchange of all with all.
        assert_eq!(with(Routing::Ecmp, &|cable| cable == 0), None);
        // The others go on without that node: as before, within what hashing does.
        let apart = Dead { cables: BTreeSet::from([0]), endpoints: BTreeSet::from([EndpointId(0)]) };
        assert!(all_to_all(fabric, Routing::Spray, &apart).unwrap() > 0.9);
    }
}
