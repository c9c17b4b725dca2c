//! How many pairs of endpoints use each link, or packets of them.

use super::path::follow;
use super::{Route, Tables};
use crate::graph::{EndpointId, LinkId, Node};
use crate::topology::Fabric;

/// Where the paths of all pairs of endpoints lead, each pair once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Pairs whose path uses each link.
    pub links: Vec<u64>,
    /// Pairs by the switches on their path.
    pub pairs: Vec<u64>,
    /// Pairs without a path.
    pub unreachable: u64,
}

impl Load {
    /// The paths of tables; the first address of each endpoint. Time grows with endpoints × switches.
    #[must_use]
    pub fn of_tables(fabric: &Fabric, tables: &Tables) -> Load {
        let graph = &fabric.graph;
        let survey = super::survey(fabric, tables);
        let mut load = Load { links: vec![0; graph.links().len()], pairs: survey.pairs, unreachable: survey.unreachable };
        for endpoint in graph.endpoints() {
            load.links[graph.uplink(endpoint).index()] += u64::from(graph.endpoint_count()) - 1;
        }
        let switches = graph.switch_count() as usize;
        let (mut flow, mut next, mut waits) = (vec![0u64; switches], vec![None; switches], vec![0u32; switches]);
        for dest in graph.endpoints() {
            flow.fill(0);
            waits.fill(0);
            for src in graph.endpoints().filter(|&src| src != dest) {
                if let Node::Switch(at) = graph.node(graph.link(graph.uplink(src)).to) {
                    flow[at.index()] += 1;
                }
            }
            for at in graph.switches() {
                let link = tables.port(at, dest, 0).and_then(|port| graph.out_link(at, port));
                next[at.index()] = link;
                if let Some(Node::Switch(to)) = link.map(|link| graph.node(graph.link(link).to)) {
                    waits[to.index()] += 1;
                }
            }
            // From the switches that nobody sends through to the destination's: each after all that come by it.
            let mut open: Vec<_> = graph.switches().filter(|at| waits[at.index()] == 0).collect();
            while let Some(at) = open.pop() {
                let Some(link) = next[at.index()] else { continue };
                let link: LinkId = link;
                load.links[link.index()] += flow[at.index()];
                if let Node::Switch(to) = graph.node(graph.link(link).to) {
                    flow[to.index()] += flow[at.index()];
                    waits[to.index()] -= 1;
                    if waits[to.index()] == 0 {
                        open.push(to);
                    }
                }
            }
        }
        load
    }

    /// The paths of a routing in an idle fabric, with one value of entropy for each pair. Time grows with endpoints².
    #[must_use]
    pub fn of_route(fabric: &Fabric, route: &impl Route) -> Load {
        let others = |src: EndpointId| fabric.graph.endpoints().filter(move |&dest| dest != src).map(move |dest| (src, dest));
        Load::of_flows(fabric, route, fabric.graph.endpoints().flat_map(others), 1)
    }

    /// The paths of some pairs in an idle fabric: `packets` of each pair, each with a value of entropy of its own.
    #[must_use]
    pub fn of_flows(fabric: &Fabric, route: &impl Route, flows: impl IntoIterator<Item = (EndpointId, EndpointId)>, packets: u32) -> Load {
        let graph = &fabric.graph;
        let mut load = Load { links: vec![0; graph.links().len()], ..Load::default() };
        for (src, dest) in flows {
            let flow = src.0.wrapping_mul(0x9e37_79b9) ^ dest.0;
            for packet in 0..packets {
                let entropy = flow ^ packet.wrapping_mul(0x85eb_ca6b);
                let (mut links, mut last) = (0, None);
                for hop in follow(fabric, route, src, dest, entropy) {
                    load.links[hop.link.index()] += 1;
                    (links, last) = (links + 1, Some(hop.link));
                }
                if last == Some(graph.uplink(dest).reverse()) {
                    load.pairs.resize(load.pairs.len().max(links), 0);
                    load.pairs[links - 1] += 1;
                } else {
                    load.unreachable += 1;
                }
            }
        }
        load
    }
}
