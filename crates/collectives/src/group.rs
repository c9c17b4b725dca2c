//! Ranks out of all that take part in an operation, the ranks of a node and their leaders, and rounds among them.
//!
//! Algorithms number the ranks of a group from 0; [`on`] gives them their numbers among all, [`buffers`] puts another buffer in the
//! place of theirs. A two-level algorithm is algorithms of groups, one after the other.

use std::sync::Arc;

use crate::blocks::Blocks;
use crate::piece::{Buffer, Piece};
use crate::round::Round;

/// The ranks that take part, in order. Groups that come from one list share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    members: Members,
    ranks: u32,
    /// At this index stands another rank.
    instead: Option<(u32, u32)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Members {
    /// The first one, and how far it is from each to the next.
    Regular { first: u32, stride: u32 },
    /// A part of a list, from this index on.
    Listed { list: Arc<[u32]>, first: u32 },
}

impl Group {
    /// Of these ranks, each of them once.
    #[must_use]
    pub fn new(ranks: impl IntoIterator<Item = u32>) -> Group {
        let list: Arc<[u32]> = ranks.into_iter().collect();
        Group { ranks: list.len() as u32, members: Members::Listed { list, first: 0 }, instead: None }
    }
    /// Of so many ranks, from `first` on, each `stride` after the one before.
    #[must_use]
    pub fn regular(first: u32, stride: u32, ranks: u32) -> Group {
        Group { members: Members::Regular { first, stride }, ranks, instead: None }
    }
    /// How many take part.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.ranks
    }
    /// The rank at `index`, which is below [`Group::ranks`].
    #[must_use]
    pub fn rank(&self, index: u32) -> u32 {
        match (self.instead, &self.members) {
            (Some((at, rank)), _) if at == index => rank,
            (_, Members::Regular { first, stride }) => first + index * stride,
            (_, Members::Listed { list, first }) => list[(first + index) as usize],
        }
    }
    /// Where `rank` stands, if it takes part; looks through all.
    #[must_use]
    pub fn index(&self, rank: u32) -> Option<u32> {
        (0..).zip(self.iter()).find(|(_, other)| *other == rank).map(|(index, _)| index)
    }
    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.ranks).map(|index| self.rank(index))
    }
    /// The same with `rank` in the place of the one at `index`.
    #[must_use]
    pub fn with(self, index: u32, rank: u32) -> Group {
        Group { instead: Some((index, rank)), ..self }
    }
}

/// Which ranks share a node.
///
/// Nodes are in the order of their lowest ranks, the ranks of a node in their own. Copies share what they hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nodes {
    layout: Layout,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Layout {
    /// One node after the other; the last one has what is left.
    Filled {
        ranks: u32,
        per_node: u32,
    },
    Listed(Arc<Lists>),
}

#[derive(Debug, PartialEq, Eq)]
struct Lists {
    /// All ranks, those of a node together.
    order: Arc<[u32]>,
    /// By node, where its ranks begin in `order`; and the end of all.
    begins: Vec<u32>,
    /// By rank, its place in `order`.
    places: Vec<u32>,
    /// By node, its lowest rank.
    leaders: Group,
    in_order: bool,
}

impl Nodes {
    /// By rank, a number that the ranks of its node share and no others.
    #[must_use]
    pub fn new(node_of: &[u32]) -> Nodes {
        let mut order: Vec<u32> = (0..node_of.len() as u32).collect();
        // A node's lowest rank says where the node comes.
        let mut lowest = vec![u32::MAX; node_of.iter().max().map_or(0, |most| *most as usize + 1)];
        for (rank, node) in (0..).zip(node_of) {
            lowest[*node as usize] = rank.min(lowest[*node as usize]);
        }
        order.sort_by_key(|rank| (lowest[node_of[*rank as usize] as usize], *rank));
        let new_node =
            |index: &u32| *index == 0 || node_of[order[*index as usize] as usize] != node_of[order[*index as usize - 1] as usize];
        let mut begins: Vec<u32> = (0..order.len() as u32).filter(new_node).collect();
        let leaders = Group::new(begins.iter().map(|at| order[*at as usize]));
        begins.push(order.len() as u32);
        let mut places = vec![0; order.len()];
        for (place, rank) in (0..).zip(&order) {
            places[*rank as usize] = place;
        }
        let in_order = order.is_sorted();
        Nodes { layout: Layout::Listed(Arc::new(Lists { order: order.into(), begins, places, leaders, in_order })) }
    }
    /// Nodes of `per_node` ranks, filled one after the other; the last one has what is left. Holds no list.
    #[must_use]
    pub fn filled(ranks: u32, per_node: u32) -> Nodes {
        Nodes { layout: Layout::Filled { ranks, per_node: per_node.max(1) } }
    }
    /// How many nodes.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.leaders().ranks()
    }
    /// How many ranks.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        match &self.layout {
            Layout::Filled { ranks, .. } => *ranks,
            Layout::Listed(lists) => lists.order.len() as u32,
        }
    }
    /// The node of `rank`, and which of its ranks it is.
    #[must_use]
    pub fn seat(&self, rank: u32) -> (u32, u32) {
        match &self.layout {
            Layout::Filled { per_node, .. } => (rank / per_node, rank % per_node),
            Layout::Listed(lists) => {
                let place = lists.places[rank as usize];
                let node = lists.begins.partition_point(|begin| *begin <= place) as u32 - 1;
                (node, place - lists.begins[node as usize])
            }
        }
    }
    /// The ranks of `node`.
    #[must_use]
    pub fn members(&self, node: u32) -> Group {
        let (first, ranks) = (self.before(node), self.before(node + 1) - self.before(node));
        match &self.layout {
            Layout::Filled { .. } => Group::regular(first, 1, ranks),
            Layout::Listed(lists) => Group { members: Members::Listed { list: lists.order.clone(), first }, ranks, instead: None },
        }
    }
    /// The first rank of each node.
    #[must_use]
    pub fn leaders(&self) -> Group {
        match &self.layout {
            Layout::Filled { ranks, per_node } => Group::regular(0, *per_node, ranks.div_ceil(*per_node)),
            Layout::Listed(lists) => lists.leaders.clone(),
        }
    }
    /// The first rank of each node, and of its own node `root`.
    #[must_use]
    pub fn leaders_with(&self, root: u32) -> Group {
        self.leaders().with(self.seat(root).0, root)
    }
    /// All ranks, those of a node together.
    #[must_use]
    pub fn order(&self) -> Group {
        match &self.layout {
            Layout::Filled { ranks, .. } => Group::regular(0, 1, *ranks),
            Layout::Listed(lists) => {
                Group { members: Members::Listed { list: lists.order.clone(), first: 0 }, ranks: self.ranks(), instead: None }
            }
        }
    }
    /// Where `rank` stands in [`Nodes::order`].
    #[must_use]
    pub fn place(&self, rank: u32) -> u32 {
        match &self.layout {
            Layout::Filled { .. } => rank,
            Layout::Listed(lists) => lists.places[rank as usize],
        }
    }
    /// Ranks before those of `node` in [`Nodes::order`]; all where `node` is the number of nodes.
    #[must_use]
    pub fn before(&self, node: u32) -> u32 {
        match &self.layout {
            Layout::Filled { ranks, per_node } => node.saturating_mul(*per_node).min(*ranks),
            Layout::Listed(lists) => lists.begins[node as usize],
        }
    }
    /// Whether [`Nodes::order`] is that of the ranks.
    #[must_use]
    pub fn in_order(&self) -> bool {
        match &self.layout {
            Layout::Filled { .. } => true,
            Layout::Listed(lists) => lists.in_order,
        }
    }
    /// The ranks of each node, if all have as many.
    #[must_use]
    pub fn per_node(&self) -> Option<u32> {
        let (nodes, ranks) = (self.nodes(), self.ranks());
        let each = ranks.checked_div(nodes).filter(|each| each * nodes == ranks)?;
        match &self.layout {
            Layout::Filled { per_node, .. } => (nodes == 1 || each == *per_node).then_some(each),
            Layout::Listed(lists) => lists.begins.windows(2).all(|pair| pair[1] - pair[0] == each).then_some(each),
        }
    }
    /// Blocks of all ranks in [`Nodes::order`].
    #[must_use]
    pub fn ordered(&self, blocks: &Blocks) -> Blocks {
        if self.in_order() { blocks.clone() } else { blocks.of(self.order().iter()) }
    }
    /// Blocks of all ranks in [`Nodes::order`], those of a node as one.
    #[must_use]
    pub fn joined(&self, blocks: &Blocks) -> Blocks {
        Blocks::Joined { of: Arc::new(self.ordered(blocks)), nodes: self.clone() }
    }
}

/// Rounds among the ranks of `group`, with the numbers that these have among all.
pub fn on(group: Group, rounds: impl Iterator<Item = Round>) -> impl Iterator<Item = Round> {
    rounds.map(move |round| round.renamed(|peer| group.rank(peer), |piece| piece))
}

/// Rounds among `ranks` that are numbered from `root` on.
pub fn from_root(root: u32, ranks: u32, rounds: impl Iterator<Item = Round>) -> impl Iterator<Item = Round> {
    rounds.map(move |round| round.renamed(|peer| (peer + root) % ranks, |piece| piece))
}

/// Rounds with other buffers: what was the send buffer and what was the receive buffer lie at these pieces, and the scratch buffers
/// come after the first `scratch`. Copies of a piece to where it is are left out.
pub fn buffers(send: Piece, recv: Piece, scratch: u8, rounds: impl Iterator<Item = Round>) -> impl Iterator<Item = Round> {
    let place = move |piece: Piece| match piece.buffer {
        Buffer::Send => send.buffer.piece(send.offset + piece.offset, piece.bytes),
        Buffer::Recv => recv.buffer.piece(recv.offset + piece.offset, piece.bytes),
        Buffer::Scratch(index) => piece.of(Buffer::Scratch(scratch + index)),
    };
    rounds.map(move |round| {
        let mut round = round.renamed(|peer| peer, place);
        round.before.retain(|this| !this.is_idle());
        round.after.retain(|this| !this.is_idle());
        round
    })
}

#[cfg(test)]
mod tests {
    use fabriscope_units::Bytes;

    use super::*;

    #[test]
    fn ranks_of_nodes() {
        let nodes = Nodes::new(&[7, 2, 7, 2, 0, 7]);
        assert_eq!((nodes.nodes(), nodes.ranks(), nodes.in_order()), (3, 6, false));
        let list = |group: Group| group.iter().collect::<Vec<_>>();
        assert_eq!([0, 1, 2].map(|node| list(nodes.members(node))), [vec![0, 2, 5], vec![1, 3], vec![4]]);
        assert_eq!(list(nodes.leaders()), [0, 1, 4]);
        assert_eq!(list(nodes.leaders_with(3)), [0, 3, 4]);
        assert_eq!(list(nodes.order()), [0, 2, 5, 1, 3, 4]);
        assert_eq!([0, 5, 3, 4].map(|rank| nodes.seat(rank)), [(0, 0), (0, 2), (1, 1), (2, 0)]);
        assert_eq!((nodes.place(3), nodes.before(1), nodes.before(3)), (4, 3, 6));
        assert_eq!((nodes.members(1).index(3), nodes.members(1).index(2)), (Some(1), None));
        assert!(Nodes::new(&[0, 0, 1]).in_order());
        assert_eq!([&[0, 0, 1][..], &[1, 0, 0, 1], &[]].map(|nodes| Nodes::new(nodes).per_node()), [None, Some(2), None]);
        assert_eq!(Nodes::new(&[]).nodes(), 0);
    }

    /// A layout without lists says the same as one with.
    #[test]
    fn nodes_that_are_filled() {
        for (ranks, per_node) in (0..20).flat_map(|ranks| [1, 2, 3, 7, 40].map(|per_node| (ranks, per_node))) {
            let (filled, listed) =
                (Nodes::filled(ranks, per_node), Nodes::new(&(0..ranks).map(|rank| rank / per_node).collect::<Vec<_>>()));
            let list = |group: Group| group.iter().collect::<Vec<_>>();
            let whole = |nodes: &Nodes| {
                (nodes.nodes(), nodes.ranks(), nodes.in_order(), nodes.per_node(), list(nodes.leaders()), list(nodes.order()))
            };
            let of_rank = |nodes: &Nodes, rank| (nodes.seat(rank), nodes.place(rank), list(nodes.leaders_with(rank)));
            let of_node = |nodes: &Nodes, node| (list(nodes.members(node)), nodes.before(node), nodes.before(node + 1));
            assert_eq!(whole(&filled), whole(&listed));
            assert!((0..ranks).all(|rank| of_rank(&filled, rank) == of_rank(&listed, rank)), "{ranks} ranks, {per_node} each");
            assert!((0..filled.nodes()).all(|node| of_node(&filled, node) == of_node(&listed, node)), "{ranks} ranks, {per_node} each");
        }
    }

    #[test]
    fn rounds_of_a_group() {
        let piece = |buffer: Buffer, offset| buffer.piece(Bytes(offset), Bytes(4));
        let round = Round::exchange(Some(piece(Buffer::Recv, 8).with(1)), Some(piece(Buffer::Send, 0).with(0))).then([piece(
            Buffer::Scratch(0),
            0,
        )
        .copied(piece(Buffer::Recv, 0))]);
        let group = Group::new([3, 5]);
        let there = on(group, std::iter::once(round));
        let rounds: Vec<Round> = buffers(piece(Buffer::Recv, 16), piece(Buffer::Scratch(0), 4), 2, there).collect();
        let wanted = Round::exchange(Some(piece(Buffer::Scratch(0), 12).with(5)), Some(piece(Buffer::Recv, 16).with(3))).then([piece(
            Buffer::Scratch(2),
            0,
        )
        .copied(piece(Buffer::Scratch(0), 4))]);
        assert_eq!(rounds, [wanted]);
    }
}
