//! What every fabric must satisfy, whatever its family.

use super::{Counts, Fabric};
use crate::graph::{LinkId, Node, SwitchId};

/// What is wrong with a fabric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Defect {
    /// The numbers are not those of the closed form.
    #[error("built {built}, the closed form says {expected}")]
    Counts {
        /// What was built.
        built: Counts,
        /// What the family says.
        expected: Counts,
    },
    /// The two directions of a cable do not match, or a port does not know its link.
    #[error("link {link} and its reverse do not join the same two ports")]
    OneWay {
        /// The link.
        link: LinkId,
    },
    /// A switch has more cables than ports.
    #[error("switch {switch} has {degree} cables, more than its {radix} ports")]
    Degree {
        /// The switch.
        switch: SwitchId,
        /// Its cables.
        degree: u32,
        /// Its ports.
        radix: u32,
    },
    /// A part cannot be reached from endpoint 0.
    #[error("{node:?} cannot be reached from endpoint 0")]
    Unreachable {
        /// The part.
        node: Node,
    },
}

/// Checks a fabric: every cable joins two ports in both directions, no switch has more cables than ports,
/// everything is reachable, and the counts are those of the closed form. Linear in the number of links.
///
/// # Errors
/// The first defect found.
pub fn conforms(fabric: &Fabric) -> Result<(), Defect> {
    let (built, expected) = (fabric.counts(), fabric.coordinates.counts());
    if built != expected {
        return Err(Defect::Counts { built, expected });
    }
    cables_join_both_ways(fabric)?;
    for switch in fabric.graph.switches() {
        let degree = fabric.graph.outputs(switch).count() as u32;
        if degree > fabric.radix || u32::from(fabric.graph.port_count(switch)) > fabric.radix {
            return Err(Defect::Degree { switch, degree, radix: fabric.radix });
        }
    }
    everything_is_reachable(fabric)
}

fn cables_join_both_ways(fabric: &Fabric) -> Result<(), Defect> {
    let graph = &fabric.graph;
    for (number, link) in graph.links().iter().enumerate() {
        let id = LinkId(number as u32);
        let back = graph.link(id.reverse());
        let mirrored = (link.from, link.from_port, link.to, link.to_port) == (back.to, back.to_port, back.from, back.from_port);
        let plugged = match graph.node(link.from) {
            Node::Endpoint(endpoint) => graph.uplink(endpoint) == id,
            Node::Switch(switch) => link.from_port.0 < graph.port_count(switch) && graph.out_link(switch, link.from_port) == Some(id),
        };
        if !mirrored || !plugged {
            return Err(Defect::OneWay { link: id });
        }
    }
    Ok(())
}

/// One search serves all pairs: every cable leads both ways.
fn everything_is_reachable(fabric: &Fabric) -> Result<(), Defect> {
    let graph = &fabric.graph;
    let mut seen = vec![false; (graph.endpoint_count() + graph.switch_count()) as usize];
    let first = graph.link(graph.uplink(crate::EndpointId(0)));
    seen[first.from.index()] = true;
    let mut frontier = vec![first.to];
    while let Some(vertex) = frontier.pop() {
        if std::mem::replace(&mut seen[vertex.index()], true) {
            continue;
        }
        if let Node::Switch(switch) = graph.node(vertex) {
            frontier.extend(graph.outputs(switch).map(|(_, link)| graph.link(link).to).filter(|to| !seen[to.index()]));
        }
    }
    match seen.iter().position(|seen| !seen) {
        Some(vertex) => Err(Defect::Unreachable { node: graph.node(crate::Vertex(vertex as u32)) }),
        None => Ok(()),
    }
}
