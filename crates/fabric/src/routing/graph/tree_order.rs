//! A fat tree as OpenSM's `ftree` sees it: the rank of each switch, the order of leaves and of the switches above and below.
//!
//! A search from one leaf gives every switch a tuple with one digit for each step between ranks. A step between ranks *r* - 1 and
//! *r* changes digit *r* alone, to the lowest value that makes a new tuple: so switches of one subtree agree in the first digits,
//! and leaves in the order of their tuples are ordered by subtrees. The search begins at the leaf whose GUID is the smallest with
//! its bytes in the opposite order, and looks at ports in turn.
//!
//! Source: E. Zahavi et al., 2010, section 3 (tuples of k-ary n-trees, S. Öhring et al., "On generalized fat trees", IPPS 1995).

use std::collections::BTreeSet;

use super::ftree::NoTree;
use super::skeleton::{Edge, FAR, Leaf, Skeleton};
use crate::graph::SwitchId;

/// A cable seen from below and from above.
#[derive(Clone, Copy, Debug)]
pub(super) struct WayDown {
    pub(super) up: Edge,
    pub(super) down: Edge,
}

/// Ranks and orders.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    /// By switch: the cables to each switch above, switches in the order of their tuples.
    above: Vec<Vec<Vec<WayDown>>>,
    /// By switch: the cables to each switch below.
    below: Vec<Vec<Vec<Edge>>>,
    /// The places of leaves in the skeleton, in the order of their tuples.
    leaves: Vec<usize>,
}

impl Shape {
    /// The tree below `roots`; without them, the switches farthest from the leaves are on top.
    pub(super) fn new(skeleton: &Skeleton, roots: Option<&[SwitchId]>) -> Result<Shape, NoTree> {
        let rank = match roots {
            Some(roots) => skeleton.distances_from(roots),
            None => from_leaves(skeleton),
        };
        let bottom = rank.iter().copied().filter(|&rank| rank != FAR).max().unwrap_or(0);
        for at in skeleton.switches() {
            let height = bottom - rank[at.index()].min(bottom);
            if let Some(way) = skeleton.ways(at).iter().find(|way| rank[way.to.index()] == rank[at.index()]) {
                return Err(NoTree::Level(at, way.to, height));
            }
        }
        let rank_of = |leaf: &Leaf| rank[leaf.switch.index()];
        let lowest = skeleton.leaves.iter().map(rank_of).max().unwrap_or(bottom);
        if let Some(leaf) = skeleton.leaves.iter().find(|leaf| rank_of(leaf) != lowest) {
            return Err(NoTree::Above(leaf.switch, rank_of(leaf), lowest));
        }
        let tuple = tuples(skeleton, &rank, bottom);
        let groups = |at: SwitchId, up: bool| {
            let fits = |way: &&Edge| (rank[way.to.index()] < rank[at.index()]) == up;
            let mut ways: Vec<Edge> = skeleton.ways(at).iter().filter(fits).copied().collect();
            ways.sort_by(|one, other| tuple[one.to.index()].cmp(&tuple[other.to.index()]));
            ways.chunk_by(|one, other| one.to == other.to).map(<[Edge]>::to_vec).collect::<Vec<_>>()
        };
        let both = |ways: Vec<Edge>| ways.into_iter().map(|up| WayDown { up, down: skeleton.back(&up) }).collect();
        let above = skeleton.switches().map(|at| groups(at, true).into_iter().map(both).collect()).collect();
        let below = skeleton.switches().map(|at| groups(at, false)).collect();
        let mut leaves: Vec<usize> = (0..skeleton.leaves.len()).collect();
        leaves.sort_by(|&one, &other| {
            let tuple = |leaf: usize| &tuple[skeleton.leaves[leaf].switch.index()];
            tuple(one).cmp(tuple(other))
        });
        Ok(Shape { above, below, leaves })
    }
    /// The cables to each switch above.
    pub(super) fn above(&self, at: SwitchId) -> impl Iterator<Item = &[WayDown]> {
        self.above[at.index()].iter().map(Vec::as_slice)
    }
    /// The cables to each switch below.
    pub(super) fn below(&self, at: SwitchId) -> impl Iterator<Item = &[Edge]> {
        self.below[at.index()].iter().map(Vec::as_slice)
    }
    /// Leaves in the order in which they are routed to.
    pub(super) fn leaves(&self) -> &[usize] {
        &self.leaves
    }
}

/// Ranks counted from the switches that are farthest from leaves.
fn from_leaves(skeleton: &Skeleton) -> Vec<u16> {
    let leaves: Vec<SwitchId> = skeleton.leaves.iter().map(|leaf| leaf.switch).collect();
    let level = skeleton.distances_from(&leaves);
    let top = level.iter().copied().filter(|&level| level != FAR).max().unwrap_or(0);
    level.into_iter().map(|level| if level == FAR { FAR } else { top - level }).collect()
}

/// The tuple of each switch; none for those that the search does not come to.
fn tuples(skeleton: &Skeleton, rank: &[u16], bottom: u16) -> Vec<Vec<u32>> {
    let mut tuple: Vec<Vec<u32>> = vec![Vec::new(); skeleton.count()];
    let mut taken: BTreeSet<Vec<u32>> = BTreeSet::new();
    let first = skeleton.leaves.iter().map(|leaf| leaf.switch).min_by_key(|&at| skeleton.key(at));
    let Some(first) = first else { return tuple };
    let mut own = vec![0; usize::from(bottom) + 1];
    own[0] = u32::from(rank[first.index()]);
    taken.insert(own.clone());
    tuple[first.index()] = own;
    let mut frontier = std::collections::VecDeque::from([first]);
    while let Some(at) = frontier.pop_front() {
        for way in skeleton.ways(at) {
            if !tuple[way.to.index()].is_empty() {
                continue;
            }
            let mut next = tuple[at.index()].clone();
            next[0] = u32::from(rank[way.to.index()]);
            let digit = usize::from(rank[at.index()].max(rank[way.to.index()]));
            next[digit] = 0;
            while taken.contains(&next) {
                next[digit] += 1;
            }
            taken.insert(next.clone());
            tuple[way.to.index()] = next;
            frontier.push_back(way.to);
        }
    }
    tuple
}
