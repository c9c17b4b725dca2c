//! `MPI_Bcast`: what the root has is there for all.

mod scatter_allgather;
mod segmented;
mod split_binary;

use std::fmt;

use fabriscope_units::Bytes;

use crate::allgather;
use crate::blocks::Vector;
use crate::group::from_root;
use crate::names::Name;
use crate::piece::Buffer;
use crate::round::{Round, Rounds};
use crate::tree::{Branch, FLAT, Shape, slots};

/// How the data travels. Segments of zero bytes mean that it goes in one piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// Down a k-nomial tree in one piece, a level a round; binomial: a child a round.
    KNomial {
        /// 2 or more.
        radix: u32,
    },
    /// Down a k-nomial tree through slots of memory that the ranks of a node share.
    Slots {
        /// 2 or more; [`FLAT`]: all read the slot of the root.
        radix: u32,
    },
    /// Down a tree, to all children at once, in segments.
    Tree {
        /// Which tree.
        shape: Shape,
        /// The length of a segment.
        segment: Bytes,
    },
    /// Half of the data down each side of a binary tree, then exchanged.
    SplitBinary {
        /// The length of a segment.
        segment: Bytes,
    },
    /// Scattered, then gathered by all around a ring.
    ScatterRing,
    /// Scattered, then gathered by all by recursive doubling.
    ScatterDoubling,
}

impl Algorithm {
    /// Each with parameters as they are usual; [`Shape::Chain`] with one chain is a pipeline.
    pub const ALL: [Algorithm; 9] = [
        Algorithm::KNomial { radix: 2 },
        Algorithm::Slots { radix: FLAT },
        Algorithm::Tree { shape: Shape::Linear, segment: Bytes::ZERO },
        Algorithm::Tree { shape: Shape::NearBinomial, segment: Bytes::ZERO },
        Algorithm::Tree { shape: Shape::Binary, segment: Bytes::from_kib(8) },
        Algorithm::Tree { shape: Shape::Chain { fan_out: 4 }, segment: Bytes::from_kib(64) },
        Algorithm::SplitBinary { segment: Bytes::from_kib(8) },
        Algorithm::ScatterRing,
        Algorithm::ScatterDoubling,
    ];
    /// What [`Algorithm::named`] reads; shapes are [`Shape::NAMES`].
    pub const NAMES: &str = "k_nomial(radix), binomial, slots(radix), tree(shape, segment), pipeline(segment), split_binary(segment), scatter_ring, scatter_doubling";

    /// The algorithm of this name. Shapes other than `k_nomial` are names on their own, with a tree in one piece.
    #[must_use]
    pub fn named(text: &str) -> Option<Algorithm> {
        let mut name = Name::read(text)?;
        let algorithm = match name.word {
            "binomial" => Algorithm::KNomial { radix: 2 },
            "k_nomial" => Algorithm::KNomial { radix: name.number(2, 4)? },
            "slots" => Algorithm::Slots { radix: name.number(2, FLAT)? },
            "tree" => {
                let shape = name.inner(Shape::named, Shape::Binary)?;
                Algorithm::Tree { shape, segment: name.size(Bytes::ZERO)? }
            }
            "pipeline" => Algorithm::Tree { shape: Shape::Chain { fan_out: 1 }, segment: name.size(Bytes::from_kib(64))? },
            "split_binary" => Algorithm::SplitBinary { segment: name.size(Bytes::from_kib(8))? },
            "scatter_ring" => Algorithm::ScatterRing,
            "scatter_doubling" => Algorithm::ScatterDoubling,
            _ => return Shape::named(text).map(|shape| Algorithm::Tree { shape, segment: Bytes::ZERO }),
        };
        name.end(algorithm)
    }

    /// The rounds of `rank` among `ranks`, of which `root` has the data.
    #[must_use]
    pub fn rounds(self, rank: u32, ranks: u32, root: u32, vector: Vector) -> Rounds {
        let rank = (rank + ranks - root) % ranks;
        let rounds: Rounds = match self {
            Algorithm::KNomial { radix } => Box::new(Branch::new(rank, ranks, radix).down(move |_, _| vector.whole(Buffer::Recv))),
            Algorithm::Slots { radix } => {
                Box::new(Branch::new(rank, ranks, radix).down(move |_, _| vector.whole(Buffer::Recv)).map(Round::in_slots))
            }
            Algorithm::Tree { shape, segment } => {
                let piece = move |index: u64| vector.segment(segment, Buffer::Recv, index);
                Box::new(segmented::rounds(shape.place(rank, ranks), vector.segments(segment), piece))
            }
            Algorithm::SplitBinary { segment } => split_binary::rounds(rank, ranks, vector, segment),
            Algorithm::ScatterRing => Box::new(scatter_allgather::rounds(rank, ranks, vector, allgather::Algorithm::Ring)),
            Algorithm::ScatterDoubling => Box::new(scatter_allgather::rounds(rank, ranks, vector, allgather::Algorithm::RecursiveDoubling)),
        };
        Box::new(from_root(root, ranks, rounds))
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Algorithm::KNomial { radix } => write!(f, "k_nomial({radix})"),
            Algorithm::Slots { radix } => slots(*radix, f),
            Algorithm::Tree { shape, segment } => write!(f, "tree({shape}, {segment})"),
            Algorithm::SplitBinary { segment } => write!(f, "split_binary({segment})"),
            Algorithm::ScatterRing => f.write_str("scatter_ring"),
            Algorithm::ScatterDoubling => f.write_str("scatter_doubling"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Operation;
    use crate::proof::{Proof, prove};

    fn algorithms() -> impl Iterator<Item = Algorithm> {
        let shapes =
            [Shape::KNomial { radix: 4 }, Shape::Chain { fan_out: 1 }, Shape::Chain { fan_out: 3 }, Shape::Binary, Shape::NearBinomial];
        let cut = shapes.map(|shape| Algorithm::Tree { shape, segment: Bytes(12) });
        let radices = [3, 4, 8].map(|radix| Algorithm::KNomial { radix });
        Algorithm::ALL.into_iter().chain(cut).chain(radices).chain([Algorithm::SplitBinary { segment: Bytes(12) }])
    }

    fn proof(algorithm: Algorithm, ranks: u32, root: u32, vector: Vector) -> Proof {
        let operation = Operation::Bcast { root, blocks: vector.blocks(1) };
        match prove(&operation, ranks, |rank| algorithm.rounds(rank, ranks, root, vector)) {
            Ok(proof) => proof,
            Err(flaw) => panic!("{algorithm}, {ranks} ranks from {root}, {vector:?}: {flaw}"),
        }
    }

    #[test]
    fn everybody_gets_everything() {
        for (algorithm, ranks) in algorithms().flat_map(|algorithm| (1..=64u32).map(move |ranks| (algorithm, ranks))) {
            let n = u64::from(ranks);
            for (count, width) in [(0, 1), (1, 4), (n - 1, 1), (n + 1, 1), (37, 1), (37, 4)] {
                proof(algorithm, ranks, ranks / 3, Vector { count, width: Bytes(width) });
            }
        }
    }

    #[test]
    fn anybody_can_be_root() {
        for (algorithm, ranks) in algorithms().flat_map(|algorithm| [2, 5, 8, 13].map(|ranks| (algorithm, ranks))) {
            for root in 0..ranks {
                proof(algorithm, ranks, root, Vector { count: 11, width: Bytes(2) });
            }
        }
    }

    /// A level of the tree a round at the root, all data to each child: ⌈log₂ n⌉ of them.
    #[test]
    fn binomial_has_few_rounds() {
        for ranks in 2..=64 {
            let proof = proof(Algorithm::KNomial { radix: 2 }, ranks, 0, Vector { count: 5, width: Bytes(1) });
            let children = ranks.next_power_of_two().ilog2();
            assert_eq!((proof.rounds, proof.most_sent, proof.messages), (children, Bytes(5) * u64::from(children), u64::from(ranks) - 1));
        }
    }

    /// A pipeline of s segments: s rounds at the root, one more at the others; nobody sends more than the data once.
    #[test]
    fn a_pipeline_sends_everything_once() {
        let algorithm = Algorithm::Tree { shape: Shape::Chain { fan_out: 1 }, segment: Bytes(8) };
        for ranks in 3..=64 {
            let proof = proof(algorithm, ranks, 0, Vector { count: 10, width: Bytes(4) });
            assert_eq!((proof.rounds, proof.most_sent, proof.messages), (6, Bytes(40), 5 * (u64::from(ranks) - 1)));
        }
    }

    /// The root sends each half once, and so does a rank with one child; with two children, the half twice, and once more to its partner.
    #[test]
    fn split_binary_sends_less_than_binary() {
        let vector = Vector { count: 16, width: Bytes(1) };
        let binary = proof(Algorithm::Tree { shape: Shape::Binary, segment: Bytes(4) }, 15, 0, vector);
        let split = proof(Algorithm::SplitBinary { segment: Bytes(4) }, 15, 0, vector);
        assert_eq!((binary.most_sent, split.most_sent), (Bytes(32), Bytes(24)));
        // Two segments of a half, one round behind, and the exchange.
        assert_eq!((binary.rounds, split.rounds), (5, 4));
    }

    /// For n = 2^k and m bytes the root scatters m (n - 1) / n and everybody sends as much again; k and n - 1 rounds, or 2 k.
    #[test]
    fn scatter_and_allgather_send_twice_the_data() {
        for bits in 1..=6 {
            let (ranks, blocks) = (1 << bits, (1 << bits) - 1u64);
            let vector = Vector { count: 1 << bits, width: Bytes(3) };
            let ring = proof(Algorithm::ScatterRing, ranks, 0, vector);
            let doubling = proof(Algorithm::ScatterDoubling, ranks, 0, vector);
            assert_eq!((ring.most_sent, ring.rounds), (Bytes(6) * blocks, bits + ranks - 1));
            assert_eq!((doubling.most_sent, doubling.rounds), (Bytes(6) * blocks, 2 * bits));
        }
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for algorithm in algorithms() {
            assert_eq!(Algorithm::named(&algorithm.to_string()), Some(algorithm));
        }
        assert_eq!(Algorithm::named("binomial"), Some(Algorithm::KNomial { radix: 2 }));
        assert_eq!(Algorithm::named("linear").unwrap().to_string(), "tree(linear, 0 B)");
        assert_eq!(Algorithm::named("pipeline(8KiB)").unwrap().to_string(), "tree(chain(1), 8 KiB)");
        for text in ["ring", "pipeline(8)", "scatter_ring(2)", "k_nomial(1)", "tree(star)"] {
            assert_eq!(Algorithm::named(text), None, "{text}");
        }
    }
}
