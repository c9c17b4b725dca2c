//! How many pairs of endpoints use each link.

use super::{Route, Tables, path};
use crate::graph::{LinkId, Node};
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
        let graph = &fabric.graph;
        let mut load = Load { links: vec![0; graph.links().len()], ..Load::default() };
        for src in graph.endpoints() {
            for dest in graph.endpoints().filter(|&dest| dest != src) {
                let links = path(fabric, route, src, dest, src.0.wrapping_mul(0x9e37_79b9) ^ dest.0);
                let arrives = links.last() == Some(&graph.uplink(dest).reverse());
                if arrives {
                    let switches = links.len() - 1;
                    load.pairs.resize(load.pairs.len().max(switches + 1), 0);
                    load.pairs[switches] += 1;
                } else {
                    load.unreachable += 1;
                }
                links.iter().for_each(|link| load.links[link.index()] += 1);
            }
        }
        load
    }
}
