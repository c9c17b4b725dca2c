//! Switches and the trunks between them, parallel cables merged: what searches and cuts run on.
//!
//! Modelled: cables and rates that add up where several join two switches; endpoints counted at their switch.
//! Not modelled: ports, delays; cables from a switch to itself, which lead nowhere.

use fabriscope_units::Rate;

use crate::graph::{Node, SwitchId};
use crate::topology::Fabric;

/// All cables from one switch to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trunk {
    /// The switch at the other end.
    pub to: SwitchId,
    /// How many cables there are.
    pub cables: u32,
    /// What they carry together in one direction.
    pub rate: Rate,
}

/// Switches with their endpoints counted, and the trunks between them.
#[derive(Clone, Debug)]
pub struct Backbone {
    first: Vec<u32>,
    trunks: Vec<Trunk>,
    endpoints: Vec<u32>,
    host_rate: Vec<Rate>,
    leaves: Vec<SwitchId>,
}

impl Backbone {
    /// The switches of a fabric. Linear in links, apart from sorting those of each switch.
    #[must_use]
    pub fn new(fabric: &Fabric) -> Backbone {
        let graph = &fabric.graph;
        let (mut first, mut trunks, mut near) = (vec![0], Vec::new(), Vec::new());
        let mut endpoints = Vec::with_capacity(graph.switch_count() as usize);
        let mut host_rate = Vec::with_capacity(graph.switch_count() as usize);
        for switch in graph.switches() {
            near.clear();
            let (mut hosts, mut rate) = (0, 0u64);
            for (_, link) in graph.outputs(switch) {
                let link = graph.link(link);
                match graph.node(link.to) {
                    Node::Endpoint(_) => {
                        hosts += 1;
                        rate = rate.saturating_add(link.rate.as_bps());
                    }
                    Node::Switch(to) if to == switch => {}
                    Node::Switch(to) => near.push((to, link.rate.as_bps())),
                }
            }
            near.sort_unstable();
            for cables in near.chunk_by(|one, other| one.0 == other.0) {
                let rate = cables.iter().fold(0u64, |sum, cable| sum.saturating_add(cable.1));
                trunks.push(Trunk { to: cables[0].0, cables: cables.len() as u32, rate: Rate::from_bps(rate) });
            }
            first.push(trunks.len() as u32);
            endpoints.push(hosts);
            host_rate.push(Rate::from_bps(rate));
        }
        let leaves = graph.switches().filter(|switch| endpoints[switch.index()] > 0).collect();
        Backbone { first, trunks, endpoints, host_rate, leaves }
    }

    /// How many switches there are.
    pub fn switches(&self) -> u32 {
        self.endpoints.len() as u32
    }
    /// The trunks of a switch, by the number of the other one.
    #[inline]
    pub fn trunks(&self, switch: SwitchId) -> &[Trunk] {
        &self.trunks[self.first[switch.index()] as usize..self.first[switch.index() + 1] as usize]
    }
    /// How many trunks there are, each counted from both ends.
    pub fn trunk_ends(&self) -> usize {
        self.trunks.len()
    }
    /// Endpoints of a switch.
    #[inline]
    pub fn endpoints(&self, switch: SwitchId) -> u32 {
        self.endpoints[switch.index()]
    }
    /// What the endpoints of a switch send together at most.
    pub fn host_rate(&self, switch: SwitchId) -> Rate {
        self.host_rate[switch.index()]
    }
    /// Switches that have endpoints, by number.
    pub fn leaves(&self) -> &[SwitchId] {
        &self.leaves
    }
}
