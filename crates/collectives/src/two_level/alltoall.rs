//! Hierarchical alltoall(v): members give all they send to the leader, leaders exchange what is for each other's nodes, members get what is
//! for them.
//!
//! Source: J. L. Träff, A. Rougier, "MPI Collectives and Datatypes for Hierarchical All-to-all Communication", EuroMPI/ASIA 2014 (with
//! copies in the place of their data types).
//! Modelled: one leader, all its copies: by node before the exchange, by rank afterwards. Not modelled: several leaders, members that copy
//! straight from the leader's memory.

use std::fmt;

use fabriscope_units::Bytes;

use super::{NodePosition, at, name, partners};
use crate::blocks::Blocks;
use crate::group::{Nodes, buffers, on};
use crate::piece::{Buffer, Move, Piece};
use crate::round::{Round, Rounds};
use crate::{alltoall, gather, scatter};

/// At the leader: what its members send, one member after the other.
const GATHERED: Buffer = Buffer::Scratch(0);
/// The same by node it is for, then by member.
const GOING: Buffer = Buffer::Scratch(1);
/// What comes for the members, by rank it is from in the order of nodes, then by member.
const COMING: Buffer = Buffer::Scratch(2);
/// The same as each member receives it, one member after the other.
const SORTED: Buffer = Buffer::Scratch(3);
/// Scratch buffers of this level.
const TAKEN: u8 = 4;

/// How blocks travel between nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alltoall {
    /// A gather of each node, an exchange of leaders, a scatter of each node.
    Leaders(Leaders),
    /// Every rank sends what its node has for one rank of each other node.
    Partners,
}

/// Who does what in the exchange by leaders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaders {
    /// To the leader.
    pub gather: gather::Algorithm,
    /// Among leaders.
    pub outer: alltoall::Algorithm,
    /// From the leader.
    pub scatter: scatter::Algorithm,
}

impl Alltoall {
    /// What [`Alltoall::named`] reads.
    pub const NAMES: &str = "two_level(gather, outer, scatter), partners";

    /// Reads `two_level(gather, outer, scatter)` and `partners`.
    #[must_use]
    pub fn named(text: &str) -> Option<Alltoall> {
        if text.trim() == "partners" {
            return Some(Alltoall::Partners);
        }
        let mut name = name(text)?;
        let gather = name.inner(gather::Algorithm::named, gather::Algorithm::Linear { at_a_time: 0 })?;
        let outer = name.inner(alltoall::Algorithm::named, alltoall::Algorithm::Pairwise { partners: alltoall::Partners::ExclusiveOr })?;
        let scatter = name.inner(scatter::Algorithm::named, scatter::Algorithm::Linear { at_a_time: 0 })?;
        name.end(Alltoall::Leaders(Leaders { gather, outer, scatter }))
    }
    /// The rounds of `rank`, with blocks of `size`.
    #[must_use]
    pub fn rounds(self, rank: u32, nodes: &Nodes, size: Bytes) -> Rounds {
        let blocks = Blocks::Even { ranks: nodes.ranks(), block: size };
        let of = move |_: u32| blocks.clone();
        match (self, nodes.per_node()) {
            (Alltoall::Leaders(leaders), Some(members)) => {
                let block = size * u64::from(members) * u64::from(members);
                let outer = |node: u32| -> Rounds { Box::new(leaders.outer.rounds(node, nodes.nodes(), block)) };
                leaders.compose(rank, nodes, of.clone(), of, outer)
            }
            _ => self.rounds_of(rank, nodes, of.clone(), of),
        }
    }
    /// The rounds of `rank` with blocks of any lengths: what each rank sends, and what each receives.
    #[must_use]
    pub fn rounds_of(
        self,
        rank: u32,
        nodes: &Nodes,
        sends: impl Fn(u32) -> Blocks + Clone + Send + 'static,
        receives: impl Fn(u32) -> Blocks + Clone + Send + 'static,
    ) -> Rounds {
        let Alltoall::Leaders(leaders) = self else { return partners::rounds(rank, nodes, sends, receives) };
        let outer = |node: u32| -> Rounds {
            let members = nodes.members(node);
            // What one member after the other has with the ranks of each node.
            let shared = |of: &dyn Fn(u32) -> Blocks| {
                let mut lengths = vec![Bytes::ZERO; nodes.nodes() as usize];
                for blocks in members.iter().map(of) {
                    for (length, other) in lengths.iter_mut().zip(0..) {
                        *length += nodes.members(other).iter().map(|peer| blocks.length(peer)).sum::<Bytes>();
                    }
                }
                Blocks::varying(&lengths)
            };
            Box::new(leaders.outer.rounds_of(node, shared(&sends), shared(&receives)))
        };
        leaders.compose(rank, nodes, sends.clone(), receives.clone(), outer)
    }
}

impl Leaders {
    /// All levels; `outer` is what the leader of a node does among leaders.
    fn compose(
        self,
        rank: u32,
        nodes: &Nodes,
        sends: impl Fn(u32) -> Blocks + Send + 'static,
        receives: impl Fn(u32) -> Blocks + Send + 'static,
        outer: impl Fn(u32) -> Rounds,
    ) -> Rounds {
        let seat = NodePosition::new(nodes, rank, None);
        let members = nodes.members(seat.node);
        let totals = |of: &dyn Fn(u32) -> Blocks| Blocks::varying(&members.iter().map(|rank| of(rank).total()).collect::<Vec<_>>());
        let (gathered, sorted) = (totals(&sends), totals(&receives));
        let whole = |buffer: Buffer| at(buffer, Bytes::ZERO);

        let gather = self.gather.rounds(seat.index, seat.ranks, 0, gathered.clone());
        let gather = on(members.clone(), buffers(whole(Buffer::Send), whole(GATHERED), TAKEN, gather));
        let scatter = self.scatter.rounds(seat.index, seat.ranks, 0, sorted.clone());
        let scatter = on(members, buffers(whole(SORTED), whole(Buffer::Recv), TAKEN, scatter));
        if !seat.leads() {
            return Box::new(gather.chain(scatter));
        }
        let across = on(nodes.leaders(), buffers(whole(GOING), whole(COMING), TAKEN, outer(seat.node)));
        let pack = pack(nodes.clone(), seat.node, sends, gathered);
        Box::new(gather.chain(pack).chain(across).chain(unpack(nodes.clone(), seat.node, receives, sorted)).chain(scatter))
    }
}

/// What the leader of `node` copies before the exchange: a round for each node that it sends to.
fn pack(nodes: Nodes, node: u32, sends: impl Fn(u32) -> Blocks, gathered: Blocks) -> impl Iterator<Item = Round> {
    let mut filled = Bytes::ZERO;
    (0..nodes.nodes()).map(move |other| {
        let mut copies = Copies::default();
        for (member, begin) in nodes.members(node).iter().zip((0..).map(|index| gathered.offset(index))) {
            let blocks = sends(member);
            for peer in nodes.members(other).iter() {
                let from = blocks.piece(GATHERED, peer);
                copies.push(GATHERED.piece(begin + from.offset, from.bytes), GOING.piece(filled, from.bytes));
                filled += from.bytes;
            }
        }
        Round::local(copies.moves)
    })
}

/// What it copies afterwards: a round for each rank that something comes from.
fn unpack(nodes: Nodes, node: u32, receives: impl Fn(u32) -> Blocks, sorted: Blocks) -> impl Iterator<Item = Round> {
    let mut emptied = Bytes::ZERO;
    (0..nodes.ranks()).map(move |place| {
        let from = nodes.order().rank(place);
        let mut copies = Copies::default();
        for (member, begin) in nodes.members(node).iter().zip((0..).map(|index| sorted.offset(index))) {
            let to = receives(member).piece(SORTED, from);
            copies.push(COMING.piece(emptied, to.bytes), SORTED.piece(begin + to.offset, to.bytes));
            emptied += to.bytes;
        }
        Round::local(copies.moves)
    })
}

/// Copies one after the other; those that go on where the last one ended are one with it.
#[derive(Default)]
struct Copies {
    moves: Vec<Move>,
}

impl Copies {
    fn push(&mut self, from: Piece, to: Piece) {
        match self.moves.last_mut().filter(|last| last.from.end() == from.offset.0 && last.to.end() == to.offset.0) {
            Some(last) => {
                last.from.bytes += from.bytes;
                last.to.bytes += to.bytes;
            }
            None if from.bytes > Bytes::ZERO => self.moves.push(from.copied(to)),
            None => {}
        }
    }
}

impl fmt::Display for Alltoall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Alltoall::Leaders(Leaders { gather, outer, scatter }) => write!(f, "two_level({gather}, {outer}, {scatter})"),
            Alltoall::Partners => f.write_str("partners"),
        }
    }
}
