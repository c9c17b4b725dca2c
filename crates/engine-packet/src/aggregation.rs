//! Reductions inside switches: groups and their trees, contributions on their way up, results on their way down.
//!
//! ```text
//!  adapter ─ RDMA WRITE (header, data) ─▶ leaf switch ═▶ … ═▶ root        a packet goes on when all children brought theirs
//!  adapter ◀──────── SEND (result) ────── leaf switch ◀═ … ◀═ root        copies, as of multicast
//! ```
//! Adapters are connected reliably to their leaf switch, which acknowledges, and sends results of its own numbering. Between switches
//! packets go once. Ordinary packets never come here: the address of a group makes another kind of event.
//!
//! Source: `fabriscope_switch::aggregation` (what a switch does), `fabriscope_fabric::aggregation` (trees), `[aggregation]` of the switch.
//! Modelled: credits, pauses and virtual lanes of every packet; buffers free once operands are in the unit; links that are down when
//! a group is made.
//! Not modelled: results sent again to an adapter that lost one, packets sent again between switches, groups that end before the run, new
//! trees after a fault; the management packets (their time counts, their bytes do not).

use std::collections::BTreeMap;

use fabriscope_catalog::ResolvedCluster;
use fabriscope_fabric::aggregation::{Limits, Manager};
use fabriscope_fabric::{Graph, LinkId, Node};
use fabriscope_switch::aggregation::{Pace, Session, Unit};
use fabriscope_verbs::{GroupRequest, Lid, Packet, QpNum};
use fabriscope_wire::{LinkLayer, Opcode, Operation, Psn, Task, Transport, pad};

/// What a run knows of reductions in switches.
pub(crate) struct Aggregation {
    /// Nothing where switches do not reduce.
    pub(crate) unit: Option<(Pace, Manager)>,
    layer: LinkLayer,
    /// Requests by job, until all members have asked.
    pub(crate) asked: BTreeMap<u64, Vec<(u32, GroupRequest)>>,
    /// Jobs whose answer is due.
    pub(crate) due: Vec<u64>,
    /// The switches of each group.
    pub(crate) groups: Vec<BTreeMap<u32, Station>>,
    pub(crate) units: BTreeMap<u32, Unit>,
}

/// A switch of a group.
pub(crate) struct Station {
    pub(crate) up: Option<LinkId>,
    pub(crate) children: Vec<LinkId>,
    pub(crate) neighbours: Vec<Neighbour>,
    pub(crate) session: Session,
    /// Of the next packet to the parent.
    pub(crate) psn: Psn,
    /// What the result that is going by belongs to.
    pub(crate) passing: Task,
}

/// Who is at the other end of a link to a child.
#[derive(Clone, Copy)]
pub(crate) enum Neighbour {
    Switch,
    /// An adapter, and the number of the next packet to it.
    Adapter {
        lid: Lid,
        qp: QpNum,
        psn: Psn,
    },
}

/// A piece of a result.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) first: bool,
    pub(crate) last: bool,
    pub(crate) payload: u16,
    pub(crate) sl: u8,
}

impl Aggregation {
    pub fn new(parts: &ResolvedCluster) -> Aggregation {
        let part = parts.switch.as_ref().and_then(|switch| switch.aggregation.as_ref());
        let unit = part.map(|part| {
            let limits = Limits { trees: *part.trees, groups: *part.groups, slots: *part.slots, children: *part.children };
            let rate = part.stream.as_ref().map(|stream| *stream.rate);
            (Pace { latency: *part.latency, interval: *part.interval, payload: *part.payload, rate }, Manager::new(limits))
        });
        let layer = parts.link_layer.wire();
        Aggregation { unit, layer, asked: BTreeMap::new(), due: Vec::new(), groups: Vec::new(), units: BTreeMap::new() }
    }

    /// A packet between two neighbours of a tree.
    pub(crate) fn packet(&self, operation: Operation, payload: u16, psn: Psn, sl: u8) -> Packet {
        let opcode = (Transport::Rc as u8) << 5 | operation as u8;
        let headers = Opcode::decode(opcode).map_or(0, |opcode| self.layer.wire_bytes(opcode, 0));
        let wire_bytes = (headers + u32::from(payload) + pad(u32::from(payload))) as u16;
        Packet { psn: psn.as_u32(), wire_bytes, payload, opcode, sl, ..Packet::default() }
    }

    /// Operations that wait for somebody, a line each.
    pub fn waiting(&self, graph: &Graph) -> Vec<String> {
        let mut lines = Vec::new();
        for (number, group) in self.groups.iter().enumerate() {
            for (switch, station) in group {
                let name = |link: LinkId| match graph.node(graph.link(link).to) {
                    Node::Endpoint(endpoint) => format!("adapter {}", endpoint.0),
                    Node::Switch(switch) => format!("switch {}", switch.0),
                };
                let Some((operation, children)) = station.session.waits_for() else {
                    if let Some(up) = station.up.filter(|_| station.session.under_way() > 0) {
                        lines.push(format!("  switch {switch}: a reduction of group {number} waits for the result of {}", name(up)));
                    }
                    continue;
                };
                let who: Vec<String> = children.iter().map(|child| name(station.children[*child as usize])).take(4).collect();
                lines.push(format!("  switch {switch}: reduction {operation} of group {number} waits for {}", who.join(", ")));
            }
        }
        lines.truncate(20);
        lines
    }
}

/// The bits of an opcode that say the operation. Basis: standard.
pub(crate) const OPERATION: u8 = 0x1f;
/// When an adapter may try again that found all slots taken. Basis: assumed, the shortest time of the standard.
pub(crate) const LATER: fabriscope_units::Span = fabriscope_units::Span::from_us(10);
