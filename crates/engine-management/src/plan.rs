//! What a manager sends in each stage, and what its parts cost.
//!
//! Source: InfiniBand Architecture Specification vol. 1, §14.2.5; OpenSM: the order of its managers (partitions, quality of service,
//! addresses, unicast, multicast, states of links).
//! Modelled: one block of partitions for each adapter and each switch; mappings of service levels for each pair of ports of a switch and
//! both tables of weights, where quality of service is on; blocks of 64 addresses; one range of 32 multicast addresses.

use fabriscope_fabric::{Graph, Node, Vertex};
use fabriscope_units::Span;

use crate::mad::{Attribute, Mad, Method};
use crate::report::Stage;

/// What a manager and agents take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// Datagrams that the manager has in flight at most, at least 1.
    pub window: u32,
    /// How long it waits for an answer.
    pub timeout: Span,
    /// How often it sends a datagram again.
    pub retries: u32,
    /// What the manager takes for an answer.
    pub handling: Span,
    /// What the agent of a switch takes to answer.
    pub switch_agent: Span,
    /// What the agent of an adapter takes to answer.
    pub adapter_agent: Span,
    /// What a switch takes to pass a packet with a directed route on.
    pub directed_hop: Span,
    /// Packets that a switch or adapter holds for its agent, the one at work included; at least 1.
    pub buffer: u32,
    /// What the manager takes to compute the routes.
    pub computing: Span,
}

/// How packets find their way to nodes whose tables stand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Routed {
    /// Switch by switch, through the agent of each.
    #[default]
    Directed,
    /// By address, through crossbars. While nodes are not known, packets are directed all the same.
    ByAddress,
}

/// What a sweep is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SweepKind {
    /// A fabric that was just switched on: all is set.
    #[default]
    First,
    /// A fabric that has changed: it is looked at again, and gets new unicast tables.
    Again,
}

/// The stages of a sweep after discovery; those of quality of service where it is on.
pub(crate) fn stages(kind: SweepKind, service_levels: bool) -> Vec<Stage> {
    let all = match kind {
        SweepKind::Again => vec![Stage::Computing, Stage::Tables],
        SweepKind::First => vec![
            Stage::Partitions,
            Stage::ServiceLevels,
            Stage::Ports,
            Stage::Computing,
            Stage::Tables,
            Stage::Multicast,
            Stage::Arm,
            Stage::Activate,
        ],
    };
    all.into_iter().filter(|stage| *stage != Stage::ServiceLevels || service_levels).collect()
}

/// The datagrams of a stage for a fabric of which these nodes are known.
pub(crate) fn datagrams(stage: Stage, kind: SweepKind, graph: &Graph, known: &[Vertex]) -> Vec<Mad> {
    let mut all = Vec::new();
    // Addresses are counted from 1 to that of the last node.
    let blocks = (known.len() as u64 + 1).div_ceil(ENTRIES);
    for &vertex in known {
        let set = |attribute, port| Mad::to(Method::Set, attribute, vertex, port);
        match graph.node(vertex) {
            Node::Endpoint(_) => match stage {
                Stage::Partitions => all.push(set(Attribute::PKeyTable, 1)),
                Stage::ServiceLevels => {
                    all.push(set(Attribute::SlToVlMapping, 1));
                    all.extend([set(Attribute::VlArbitration, 1); WEIGHT_BLOCKS]);
                }
                Stage::Ports | Stage::Arm | Stage::Activate => all.push(set(Attribute::PortInfo, 1)),
                Stage::Discovery | Stage::Computing | Stage::Tables | Stage::Multicast => {}
            },
            Node::Switch(switch) => {
                let up = || graph.outputs(switch).map(|(port, _)| port.0 + 1);
                match stage {
                    Stage::Partitions => all.push(set(Attribute::PKeyTable, 0)),
                    Stage::ServiceLevels => {
                        // From each port, that of management included, to each port.
                        for out in up() {
                            all.extend((0..=graph.port_count(switch)).map(|_| set(Attribute::SlToVlMapping, out)));
                            all.extend([set(Attribute::VlArbitration, out); WEIGHT_BLOCKS]);
                        }
                    }
                    Stage::Ports => all.extend(std::iter::once(0).chain(up()).map(|port| set(Attribute::PortInfo, port))),
                    Stage::Arm | Stage::Activate => all.extend(up().map(|port| set(Attribute::PortInfo, port))),
                    Stage::Tables => {
                        if kind == SweepKind::First {
                            all.push(set(Attribute::SwitchInfo, 0));
                        }
                        all.extend((0..blocks).map(|_| set(Attribute::LinearForwarding, 0)));
                    }
                    Stage::Multicast => {
                        let masks = u32::from(graph.port_count(switch)) + 1;
                        all.extend((0..masks.div_ceil(MASK_PORTS)).map(|_| set(Attribute::MulticastForwarding, 0)));
                    }
                    Stage::Discovery | Stage::Computing => {}
                }
            }
        }
    }
    all
}

/// Addresses in a block of a unicast table. Basis: standard.
const ENTRIES: u64 = 64;
/// Ports in a block of a multicast table. Basis: standard.
const MASK_PORTS: u32 = 16;
/// Blocks of weights of a port: one of the low table and one of the high, 32 entries each. Basis: standard.
const WEIGHT_BLOCKS: usize = 2;
