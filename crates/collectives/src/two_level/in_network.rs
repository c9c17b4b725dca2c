//! One rank of each node asks the network, which does the rest: to leaders, in the switches, to all.
//!
//! Source: HCOLL and MVAPICH2 with SHARP (one leader of each node, shared memory inside): Graham et al., COMHPC 2016 §IV; B. Ramesh et al.,
//! "Scalable MPI collectives using SHARP", ExaMPI 2020.
//! Modelled: barrier, broadcast, reduction to one and to all. Not modelled: several leaders of a node, segments that overlap.
//!
//! A node alone asks nobody. Switches take operands in the order of their ports, so operators that do not commute lose their order.

use std::fmt;

use fabriscope_units::Bytes;
use fabriscope_wire::Collective;

use super::{NodePosition, at};
use crate::barrier::tree;
use crate::blocks::Vector;
use crate::group::{Nodes, buffers, on};
use crate::kind::Kind;
use crate::names::Name;
use crate::piece::{Buffer, Piece};
use crate::round::{Joint, Round, Rounds};
use crate::{bcast, reduce};

/// A reduction and a broadcast in each node, around an operation of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InNetwork {
    /// To the leader.
    pub reduce: reduce::Algorithm,
    /// From the leader.
    pub bcast: bcast::Algorithm,
}

impl InNetwork {
    /// What [`InNetwork::named`] reads; `sharp` and `inc` mean the same.
    pub const NAMES: &str = "in_network(reduce, bcast)";

    /// Whether the network does this operation.
    #[must_use]
    pub fn does(operation: Kind) -> bool {
        collective(operation).is_some()
    }
    /// Reads `in_network(reduce, bcast)`.
    #[must_use]
    pub fn named(text: &str) -> Option<InNetwork> {
        let mut name = Name::read(text).filter(|name| matches!(name.word, "in_network" | "sharp" | "inc"))?;
        let reduce = name.inner(reduce::Algorithm::named, reduce::Algorithm::KNomial { radix: 4 })?;
        let bcast = name.inner(bcast::Algorithm::named, bcast::Algorithm::KNomial { radix: 4 })?;
        name.end(InNetwork { reduce, bcast })
    }
    /// The rounds of `rank` for an operation; `root` is without meaning where it has none, and nothing is done for others.
    #[must_use]
    pub fn rounds(self, operation: Kind, rank: u32, nodes: &Nodes, root: u32, vector: Vector) -> Rounds {
        let Some(collective) = collective(operation) else { return Box::new(std::iter::empty()) };
        let seat = NodePosition::new(nodes, rank, operation.has_root().then_some(root));
        let members = nodes.members(seat.node);
        let [send, own, recv] = [Buffer::Send, NODE, Buffer::Recv].map(|buffer| vector.whole(buffer));
        // A rank alone on its node gives what the program gave.
        let given = if operation == Kind::Bcast {
            recv
        } else if seat.ranks == 1 && nodes.nodes() > 1 {
            send
        } else if operation == Kind::Reduce && nodes.nodes() > 1 {
            own
        } else {
            recv
        };
        let joint = Joint { collective, member: seat.node, members: nodes.nodes(), root: nodes.seat(root).0, from: given, to: recv };
        let across = (seat.leads() && nodes.nodes() > 1).then(|| Round { joint: Some(joint), ..Round::default() });
        let up: Rounds = match operation {
            Kind::Barrier => Box::new(tree::up(seat.index, seat.ranks, BARRIER)),
            Kind::Bcast => Box::new(std::iter::empty()),
            _ if given == send => Box::new(std::iter::empty()),
            _ => Box::new(into(send, given, self.reduce.rounds(seat.index, seat.ranks, seat.leader, vector))),
        };
        let down: Rounds = match operation {
            Kind::Barrier => Box::new(tree::down(seat.index, seat.ranks, BARRIER)),
            Kind::Reduce => Box::new(std::iter::empty()),
            _ => Box::new(into(at(Buffer::Send, Bytes::ZERO), recv, self.bcast.rounds(seat.index, seat.ranks, seat.leader, vector))),
        };
        Box::new(on(members.clone(), up).chain(across).chain(on(members, down)))
    }
}

fn into(send: Piece, recv: Piece, rounds: Rounds) -> impl Iterator<Item = Round> {
    buffers(send, recv, TAKEN, rounds)
}

/// What switches call it.
fn collective(operation: Kind) -> Option<Collective> {
    match operation {
        Kind::Barrier => Some(Collective::Barrier),
        Kind::Bcast => Some(Collective::Bcast),
        Kind::Reduce => Some(Collective::Reduce),
        Kind::Allreduce => Some(Collective::Allreduce),
        _ => None,
    }
}

impl fmt::Display for InNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "in_network({}, {})", self.reduce, self.bcast)
    }
}

/// Where what a node reduced lies, and scratch buffers that it takes.
const NODE: Buffer = Buffer::Scratch(0);
const TAKEN: u8 = 1;
/// Children of a rank in the tree of a node's barrier. Basis: assumed, as the reduction's.
const BARRIER: u32 = 4;

#[cfg(test)]
mod tests {
    use fabriscope_units::Remedy;

    use super::*;
    use crate::Operation;
    use crate::proof::prove;

    /// Every operation over nodes of equal and of different numbers of ranks, with every root of a few: each contribution counts once.
    #[test]
    fn every_contribution_counts_once() {
        let algorithm = InNetwork::named("sharp").unwrap();
        for nodes in [&[0u32, 0, 0][..], &[0, 1], &[0, 0, 1, 1, 2, 2], &[5, 5, 5, 1, 2, 2, 7], &[0, 1, 0, 1, 0], &[3; 17]] {
            let seats = Nodes::new(nodes);
            let ranks = nodes.len() as u32;
            for count in [0, 1, 37] {
                let vector = Vector { count, width: Bytes(4) };
                for root in 0..ranks {
                    for (kind, operation) in [
                        (Kind::Barrier, Operation::Barrier),
                        (Kind::Bcast, Operation::Bcast { root, blocks: vector.blocks(ranks) }),
                        (Kind::Reduce, Operation::Reduce { root, blocks: vector.blocks(ranks) }),
                        (Kind::Allreduce, Operation::Allreduce { blocks: vector.blocks(ranks) }),
                    ] {
                        let proof = prove(&operation, ranks, |rank| algorithm.rounds(kind, rank, &seats, root, vector));
                        assert!(proof.is_ok(), "{kind}, {nodes:?}, root {root}: {proof:?}");
                    }
                }
            }
        }
        for ranks in 2..=64 {
            let vector = Vector { count: 5, width: Bytes(4) };
            let operation = Operation::Allreduce { blocks: vector.blocks(ranks) };
            let seats = Nodes::filled(ranks, 1);
            let proof = prove(&operation, ranks, |rank| algorithm.rounds(Kind::Allreduce, rank, &seats, 0, vector)).unwrap();
            assert_eq!((proof.messages, proof.most_reduced), (0, Bytes::ZERO), "the hosts do nothing");
        }
    }

    #[test]
    fn a_leader_that_asks_for_something_else_is_found() {
        let algorithm = InNetwork::named("in_network").unwrap();
        let nodes = Nodes::filled(4, 1);
        let vector = Vector { count: 5, width: Bytes(4) };
        let operation = Operation::Allreduce { blocks: vector.blocks(4) };
        let wrong = |rank| algorithm.rounds(if rank == 2 { Kind::Barrier } else { Kind::Allreduce }, rank, &nodes, 0, vector);
        let flaw = prove(&operation, 4, wrong).unwrap_err().in_full();
        assert!(flaw.contains("rank 2 asks the network for something else"), "{flaw}");
        let missing = |rank| -> Rounds {
            if rank == 3 { Box::new(std::iter::empty()) } else { algorithm.rounds(Kind::Allreduce, rank, &nodes, 0, vector) }
        };
        let flaw = prove(&operation, 4, missing).unwrap_err().in_full();
        assert!(flaw.starts_with("nobody can go on"), "{flaw}");
    }
}
