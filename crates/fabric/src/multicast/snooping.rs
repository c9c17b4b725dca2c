//! Multicast on Ethernet: one spanning tree for all, from which switches prune the ports that nobody reports behind.
//!
//! The spanning tree has its root at the querier, the switch that asks for reports; every switch forwards packets of a
//! group towards it as well, for it might be a router. Without snooping every packet of a group goes to every endpoint.
//!
//! Source: IEEE 802.1Q-2022 clause 13 (one spanning tree), RFC 4541 §2.1 (snooping: forward to members and to routers).
//! Modelled: the ports that are used once reports have been heard. When they are heard: `fabriscope-switch`, module `snooping`.
//! Not modelled: election of the querier (the switch with the least sum of hops to all endpoints), several VLANs.

use super::tree::Tree;
use crate::graph::{EndpointId, Graph, LinkId, Node, SwitchId};

/// The spanning tree of an Ethernet, and what a group uses of it.
#[derive(Clone, Debug)]
pub struct Snooping {
    all: Tree,
    used: Tree,
}

impl Snooping {
    /// The spanning tree of all endpoints; `None` where there is no switch.
    #[must_use]
    pub fn new(graph: &Graph) -> Option<Snooping> {
        let leaves: Vec<SwitchId> = graph
            .endpoints()
            .filter_map(|endpoint| match graph.node(graph.link(graph.uplink(endpoint)).to) {
                Node::Switch(switch) => Some(switch),
                Node::Endpoint(_) => None,
            })
            .collect();
        let querier = Tree::best_root(graph, &leaves)?;
        let used = Tree::rooted(graph, querier, true);
        let mut all = used.clone();
        all.span(graph, graph.endpoints(), []);
        Some(Snooping { all, used })
    }
    /// The switch that asks for reports.
    #[must_use]
    pub fn querier(&self) -> SwitchId {
        self.all.root()
    }
    /// The spanning tree with all endpoints: where packets go that no switch has learned about.
    #[must_use]
    pub fn flood(&self) -> &Tree {
        &self.all
    }
    /// What is left of it for these receivers, with the ways from them and from the senders to the querier.
    #[must_use]
    pub fn pruned(
        &self,
        graph: &Graph,
        receivers: impl IntoIterator<Item = EndpointId>,
        senders: impl IntoIterator<Item = EndpointId>,
    ) -> Tree {
        let mut tree = self.used.clone();
        tree.span(graph, receivers, senders);
        tree
    }
    /// The link of `switch` towards the querier; `None` at the querier.
    #[must_use]
    pub fn towards_querier(&self, switch: SwitchId) -> Option<LinkId> {
        self.all.up(switch)
    }
}
