//! Trees over ranks that are numbered from the root, which is rank 0.
//!
//! Source: MPICH, bcast_intra_binomial.c; MVAPICH2, bcast_osu.c (k-nomial); Open MPI, coll_base_topo.c (`build_kmtree`, `build_bmtree`,
//! `build_tree`, `build_chain`).

use std::fmt;

use crate::names::Name;
use crate::piece::Piece;
use crate::round::Round;

/// How ranks are joined to a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// All below the root.
    Linear,
    /// The children of a rank differ from it in one digit, lower than its lowest that is not 0, to base `radix`. A subtree is ranks that
    /// stand side by side, the largest first: far children before near ones.
    KNomial {
        /// 2 or more; 2 is binomial.
        radix: u32,
    },
    /// Binomial as well, but near children come first: the children of *r* are *r* + 2^k for 2^k > *r*.
    NearBinomial,
    /// Two children each; odd ranks in one subtree of the root, even ones in the other.
    Binary,
    /// Chains of equal length below the root, the first ones longer by one.
    Chain {
        /// How many, 1 or more.
        fan_out: u32,
    },
}

/// Where a rank stands in a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreePosition {
    /// Nobody for the root.
    pub parent: Option<u32>,
    /// In the order in which they are served.
    pub children: Vec<u32>,
}

impl Shape {
    /// Shapes with their usual parameters.
    pub const ALL: [Shape; 5] =
        [Shape::Linear, Shape::KNomial { radix: 2 }, Shape::NearBinomial, Shape::Binary, Shape::Chain { fan_out: 4 }];
    /// What [`Shape::named`] reads.
    pub const NAMES: &str = "linear, k_nomial(radix), near_binomial, binary, chain(fan_out)";

    /// The shape of this name.
    #[must_use]
    pub fn named(text: &str) -> Option<Shape> {
        let mut name = Name::read(text)?;
        let shape = match name.word {
            "linear" => Shape::Linear,
            "binomial" => Shape::KNomial { radix: 2 },
            "k_nomial" => Shape::KNomial { radix: name.number(2, 4)? },
            "near_binomial" => Shape::NearBinomial,
            "binary" => Shape::Binary,
            "chain" => Shape::Chain { fan_out: name.number(1, 4)? },
            _ => return None,
        };
        name.end(shape)
    }

    /// Where `rank` stands among `ranks`.
    #[must_use]
    pub fn place(self, rank: u32, ranks: u32) -> TreePosition {
        let below = |children: &mut dyn Iterator<Item = u32>| children.take_while(|child| *child < ranks).collect();
        let parent = |parent: u32| (rank > 0).then_some(parent);
        match self {
            Shape::Linear => TreePosition { parent: parent(0), children: if rank == 0 { (1..ranks).collect() } else { Vec::new() } },
            Shape::KNomial { radix } => {
                let branch = Branch::new(rank, ranks, radix);
                TreePosition { parent: branch.parent, children: branch.levels().flatten().map(|child| child.rank).collect() }
            }
            Shape::NearBinomial => {
                let first = (rank + 1).next_power_of_two();
                let mut children = (first.trailing_zeros()..u32::BITS - 1).map(|bit| rank + (1 << bit));
                TreePosition { parent: parent(rank - (first >> 1)), children: below(&mut children) }
            }
            Shape::Binary => {
                // Level l begins with rank 2^l - 1; the children of r are 2^l and 2·2^l further.
                let level = 1 << (rank + 1).ilog2();
                let up = level >> 1;
                let over = if rank >= level - 1 + up { 2 * up } else { up };
                TreePosition { parent: parent(rank.wrapping_sub(over)), children: below(&mut [rank + level, rank + 2 * level].into_iter()) }
            }
            Shape::Chain { fan_out } => chain(rank, ranks, fan_out.max(1)),
        }
    }
}

fn chain(rank: u32, ranks: u32, fan_out: u32) -> TreePosition {
    let others = ranks.saturating_sub(1);
    let chains = fan_out.min(others).max(1);
    // The first chain rank of chain `index`; the chains before have `others / chains` ranks, the first ones one more.
    let begin = |index: u32| 1 + others / chains * index + (others % chains).min(index);
    if rank == 0 {
        let children = if others == 0 { Vec::new() } else { (0..chains).map(begin).collect() };
        return TreePosition { parent: None, children };
    }
    let begins = |at: u32| (0..=chains).any(|index| begin(index) == at);
    TreePosition {
        parent: Some(if begins(rank) { 0 } else { rank - 1 }),
        children: if begins(rank + 1) { Vec::new() } else { vec![rank + 1] },
    }
}

/// The radix of a k-nomial tree in which all are right below the root, however many there are.
pub const FLAT: u32 = u32::MAX;

/// A subtree of a k-nomial tree: the ranks from `rank` to before `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Branch {
    /// Its root.
    pub rank: u32,
    /// The first rank after it.
    pub end: u32,
    /// Of its root.
    pub parent: Option<u32>,
    radix: u64,
    /// How many ranks a whole branch of this level has.
    span: u64,
}

impl Branch {
    /// The branch of `rank` in the tree of `ranks`.
    #[must_use]
    pub fn new(rank: u32, ranks: u32, radix: u32) -> Branch {
        let radix = u64::from(radix.max(2));
        let mut span = 1;
        while span < u64::from(ranks) && u64::from(rank) % (span * radix) == 0 {
            span *= radix;
        }
        let parent = (rank > 0).then(|| rank - (u64::from(rank) % (span * radix)) as u32);
        Branch { rank, end: (u64::from(rank) + span).min(u64::from(ranks)) as u32, parent, radix, span }
    }
    /// The branches below, level by level, from the largest on; levels without any are left out.
    pub fn levels(self) -> impl DoubleEndedIterator<Item = Vec<Branch>> {
        let spans: Vec<u64> =
            std::iter::successors(Some(self.span / self.radix), |span| Some(span / self.radix)).take_while(|span| *span > 0).collect();
        let level = move |span: u64| {
            let ranks = (u64::from(self.rank) + span..u64::from(self.end)).step_by(span as usize).take(self.radix as usize - 1);
            let end = |rank: u64| (rank + span).min(u64::from(self.end)) as u32;
            ranks.map(|rank| Branch { rank: rank as u32, end: end(rank), parent: Some(self.rank), radix: self.radix, span }).collect()
        };
        spans.into_iter().map(level).filter(|branches: &Vec<Branch>| !branches.is_empty())
    }
    /// From the root down: each rank receives what is for its branch, then sends to its children, a level a round. `piece` is what
    /// is for the ranks from the first to before the second.
    pub fn down(self, piece: impl Fn(u32, u32) -> Piece + Clone) -> impl Iterator<Item = Round> {
        let receive = self.parent.map(|parent| Round::exchange(Some(piece(self.rank, self.end).with(parent)), None));
        let sends = move |level: Vec<Branch>| {
            let sends = level.into_iter().map(|child| piece(child.rank, child.end).with(child.rank)).collect();
            Round { sends, ..Round::default() }
        };
        receive.into_iter().chain(self.levels().map(sends))
    }
    /// Up to the root: each rank receives from its children, the smallest branches first and a level a round, then sends what its branch
    /// has.
    pub fn up(self, piece: impl Fn(u32, u32) -> Piece + Clone) -> impl Iterator<Item = Round> {
        let send = self.parent.map(|parent| Round::exchange(None, Some(piece(self.rank, self.end).with(parent))));
        let receives = move |level: Vec<Branch>| {
            let receives = level.into_iter().map(|child| piece(child.rank, child.end).with(child.rank)).collect();
            Round { receives, ..Round::default() }
        };
        self.levels().rev().map(receives).chain(send)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Linear => f.write_str("linear"),
            Shape::KNomial { radix } => write!(f, "k_nomial({radix})"),
            Shape::NearBinomial => f.write_str("near_binomial"),
            Shape::Binary => f.write_str("binary"),
            Shape::Chain { fan_out } => write!(f, "chain({fan_out})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes() -> impl Iterator<Item = Shape> {
        let more = [1, 2, 3, 100].map(|fan_out| Shape::Chain { fan_out });
        Shape::ALL.into_iter().chain([3, 4, 8, u32::MAX].map(|radix| Shape::KNomial { radix })).chain(more)
    }

    /// Everybody but the root has one parent, which has it as a child, and comes to the root.
    #[test]
    fn each_shape_is_a_tree() {
        for (shape, ranks) in shapes().flat_map(|shape| (1..=70).map(move |ranks| (shape, ranks))) {
            let places: Vec<TreePosition> = (0..ranks).map(|rank| shape.place(rank, ranks)).collect();
            let children: usize = places.iter().map(|place| place.children.len()).sum();
            assert_eq!(children, ranks as usize - 1, "{shape}, {ranks} ranks");
            for rank in 0..ranks {
                for child in &places[rank as usize].children {
                    assert_eq!(places[*child as usize].parent, Some(rank), "{shape}, {ranks} ranks");
                }
                let ancestors = std::iter::successors(Some(rank), |rank| places[*rank as usize].parent).take(ranks as usize);
                assert_eq!(ancestors.last(), Some(0), "{shape}, {ranks} ranks, rank {rank}");
            }
        }
    }

    #[test]
    fn shapes_as_published() {
        let children = |shape: Shape, ranks: u32| (0..3).map(|rank| shape.place(rank, ranks).children).collect::<Vec<_>>();
        assert_eq!(children(Shape::KNomial { radix: 2 }, 8), [vec![4, 2, 1], vec![], vec![3]]);
        assert_eq!(children(Shape::KNomial { radix: 3 }, 12), [vec![9, 3, 6, 1, 2], vec![], vec![]]);
        assert_eq!(children(Shape::NearBinomial, 8), [vec![1, 2, 4], vec![3, 5], vec![6]]);
        assert_eq!(children(Shape::Binary, 7), [vec![1, 2], vec![3, 5], vec![4, 6]]);
        assert_eq!(children(Shape::Chain { fan_out: 2 }, 6), [vec![1, 4], vec![2], vec![3]]);
    }

    /// The branches below a rank are the ranks after it, up to its end.
    #[test]
    fn branches_stand_side_by_side() {
        for (radix, ranks) in [2, 3, 4, 64].into_iter().flat_map(|radix| (1..=70).map(move |ranks| (radix, ranks))) {
            for rank in 0..ranks {
                let branch = Branch::new(rank, ranks, radix);
                let mut below: Vec<Branch> = branch.levels().flatten().collect();
                assert!(below.iter().all(|child| *child == Branch::new(child.rank, ranks, radix)));
                below.sort_by_key(|child| child.rank);
                let ends = below.iter().fold(rank + 1, |at, child| {
                    assert_eq!(child.rank, at);
                    child.end
                });
                assert_eq!(ends, branch.end);
            }
        }
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for shape in shapes() {
            assert_eq!(Shape::named(&shape.to_string()), Some(shape));
        }
        assert_eq!(Shape::named("binomial"), Some(Shape::KNomial { radix: 2 }));
        assert_eq!([Shape::named("k_nomial(1)"), Shape::named("chain(0)"), Shape::named("linear(2)"), Shape::named("star")], [None; 4]);
    }
}
