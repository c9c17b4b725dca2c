//! What every multicast tree must satisfy on every fabric.

use super::tree::Tree;
use crate::graph::{EndpointId, Graph, LinkId, Node, SwitchId};

/// What is wrong with a tree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Defect {
    /// A copy goes where the switch has no such port.
    #[error("a packet of {sender}: {switch} copies it to {link}, which does not leave there")]
    Elsewhere {
        /// Who sent.
        sender: EndpointId,
        /// Where the copy was made.
        switch: SwitchId,
        /// The link named.
        link: LinkId,
    },
    /// A copy comes by a link a second time.
    #[error("a packet of {sender} goes over {link} twice: the tree has a cycle")]
    Cycle {
        /// Who sent.
        sender: EndpointId,
        /// The link.
        link: LinkId,
    },
    /// An endpoint gets the packet more than once.
    #[error("a packet of {sender} comes to {receiver} twice")]
    Twice {
        /// Who sent.
        sender: EndpointId,
        /// Who got it.
        receiver: EndpointId,
    },
    /// A receiver does not get the packet.
    #[error("a packet of {sender} does not come to {receiver}")]
    Missed {
        /// Who sent.
        sender: EndpointId,
        /// Who did not get it.
        receiver: EndpointId,
    },
    /// An endpoint gets what it is not to get.
    #[error("a packet of {sender} comes to {receiver}, which is not to get it")]
    Stranger {
        /// Who sent.
        sender: EndpointId,
        /// Who got it.
        receiver: EndpointId,
    },
    /// A switch that leads to nobody.
    #[error("{switch} is on the tree, but only one of its ports is: nobody is served by it")]
    Stub {
        /// The switch.
        switch: SwitchId,
    },
}

/// What [`conforms`] followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Packets sent.
    pub packets: u64,
    /// Copies that arrived.
    pub arrivals: u64,
    /// Links that copies went over, in all.
    pub links: u64,
    /// Links on the way of the farthest receiver.
    pub longest: u32,
}

/// Sends a packet from each of `senders` along `tree` and checks that every receiver but the sender gets it exactly once,
/// and nobody else; that no switch is on the tree for nothing; `senders` are all that may send.
///
/// # Errors
/// The first defect found.
pub fn conforms(graph: &Graph, tree: &Tree, senders: &[EndpointId], receivers: &[EndpointId]) -> Result<Delivered, Defect> {
    let mut wanted = vec![false; graph.endpoint_count() as usize];
    receivers.iter().for_each(|receiver| wanted[receiver.index()] = true);
    let mut delivered = Delivered::default();
    let mut used = vec![u32::MAX; graph.link_count() as usize];
    for (round, &sender) in senders.iter().enumerate() {
        let mut got = vec![false; wanted.len()];
        let mut ways = vec![(graph.uplink(sender), 1)];
        while let Some((link, length)) = ways.pop() {
            if std::mem::replace(&mut used[link.index()], round as u32) == round as u32 {
                return Err(Defect::Cycle { sender, link });
            }
            delivered.links += 1;
            match graph.node(graph.link(link).to) {
                Node::Endpoint(receiver) if !wanted[receiver.index()] => return Err(Defect::Stranger { sender, receiver }),
                Node::Endpoint(receiver) if std::mem::replace(&mut got[receiver.index()], true) => {
                    return Err(Defect::Twice { sender, receiver });
                }
                Node::Endpoint(_) => {
                    delivered.arrivals += 1;
                    delivered.longest = delivered.longest.max(length);
                }
                Node::Switch(switch) => {
                    for &next in tree.outputs(switch).iter().filter(|next| **next != link.reverse()) {
                        if graph.node(graph.link(next).from) != Node::Switch(switch) {
                            return Err(Defect::Elsewhere { sender, switch, link: next });
                        }
                        ways.push((next, length + 1));
                    }
                }
            }
        }
        if let Some(&receiver) = receivers.iter().find(|receiver| **receiver != sender && !got[receiver.index()]) {
            return Err(Defect::Missed { sender, receiver });
        }
        if got[sender.index()] {
            return Err(Defect::Stranger { sender, receiver: sender });
        }
        delivered.packets += 1;
    }
    match stub(graph, tree, senders) {
        Some(switch) => Err(Defect::Stub { switch }),
        None => Ok(delivered),
    }
}

/// A switch whose only port on the tree leads to another switch, though nobody sends from it.
fn stub(graph: &Graph, tree: &Tree, senders: &[EndpointId]) -> Option<SwitchId> {
    let sends = |switch| senders.iter().any(|sender| graph.node(graph.link(graph.uplink(*sender)).to) == Node::Switch(switch));
    tree.switches().filter(|switch| !(tree.is_anchored() && *switch == tree.root())).find(|switch| match tree.outputs(*switch) {
        [only] => matches!(graph.node(graph.link(*only).to), Node::Switch(_)) && !sends(*switch),
        _ => false,
    })
}
