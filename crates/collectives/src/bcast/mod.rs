//! `MPI_Bcast`: what the root has is there for all.

use fabriscope_units::Bytes;

use crate::allgather;
use crate::blocks::Vector;
use crate::group::from_root;
use crate::names::Name;
use crate::piece::Buffer;
use crate::registry::algorithms;
use crate::round::{Round, Rounds};
use crate::tree::{Branch, FLAT, Shape};

algorithms! {
    /// How the data travels. Segments of zero bytes mean that it goes in one piece.
    enum Algorithm also named by shape, as "binomial, pipeline(segment)";
    /// The rounds of `rank` as they are where rank 0 has the data.
    fn from_first(rank: u32, ranks: u32, vector: Vector);

    /// Down a k-nomial tree in one piece, a level a round; binomial: a child a round.
    KNomial {
        /// 2 or more.
        radix: u32 = 4, number(2)
    } = "k_nomial" => Branch::new(rank, ranks, radix).down(move |_, _| vector.whole(Buffer::Recv));
    /// Down a k-nomial tree through slots of memory that the ranks of a node share.
    Slots {
        /// 2 or more; [`FLAT`]: all read the slot of the root.
        radix: u32 = FLAT, number(2), unless FLAT
    } = "slots" => Branch::new(rank, ranks, radix).down(move |_, _| vector.whole(Buffer::Recv)).map(Round::in_slots);
    /// Down a tree, to all children at once, in segments.
    [mod segmented] Tree {
        /// Which tree; [`Shape::Chain`] with one chain is a pipeline.
        shape: Shape = Shape::Binary, inner(Shape::named);
        /// The length of a segment.
        segment: Bytes = Bytes::ZERO, size()
    } = "tree" => {
        segmented::rounds(shape.place(rank, ranks), vector.segments(segment), move |index| vector.segment(segment, Buffer::Recv, index))
    };
    /// Half of the data down each side of a binary tree, then exchanged.
    [mod split_binary] SplitBinary {
        /// The length of a segment.
        segment: Bytes = Bytes::from_kib(8), size()
    } = "split_binary" => split_binary::rounds(rank, ranks, vector, segment);
    /// Scattered, then gathered by all around a ring.
    [mod scatter_allgather] ScatterRing = "scatter_ring" => {
        scatter_allgather::rounds(rank, ranks, vector, allgather::Algorithm::Ring)
    };
    /// Scattered, then gathered by all by recursive doubling.
    ScatterDoubling = "scatter_doubling" => {
        scatter_allgather::rounds(rank, ranks, vector, allgather::Algorithm::RecursiveDoubling)
    };
}

/// Shapes other than `k_nomial` are names on their own, with a tree in one piece.
fn shape(text: &str) -> Option<Algorithm> {
    let mut name = Name::read(text)?;
    let algorithm = match name.word {
        "binomial" => Algorithm::KNomial { radix: 2 },
        "pipeline" => Algorithm::Tree { shape: Shape::Chain { fan_out: 1 }, segment: name.size(Bytes::from_kib(64))? },
        _ => return Shape::named(text).map(|shape| Algorithm::Tree { shape, segment: Bytes::ZERO }),
    };
    name.end(algorithm)
}

impl Algorithm {
    /// The rounds of `rank` among `ranks`, of which `root` has the data.
    #[must_use]
    pub fn rounds(self, rank: u32, ranks: u32, root: u32, vector: Vector) -> Rounds {
        Box::new(from_root(root, ranks, self.from_first((rank + ranks - root) % ranks, ranks, vector)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Operation;
    use crate::proof::{Proof, prove};
    use crate::rank_counts::rank_counts;

    fn algorithms() -> impl Iterator<Item = Algorithm> {
        let shapes = [
            Shape::Linear,
            Shape::KNomial { radix: 4 },
            Shape::Chain { fan_out: 1 },
            Shape::Chain { fan_out: 3 },
            Shape::Binary,
            Shape::NearBinomial,
        ];
        let cut = shapes.map(|shape| Algorithm::Tree { shape, segment: Bytes(12) });
        let radices = [2, 3, 8].map(|radix| Algorithm::KNomial { radix });
        Algorithm::ALL.iter().copied().chain(cut).chain(radices).chain([Algorithm::SplitBinary { segment: Bytes(12) }])
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
        for (algorithm, ranks) in algorithms().flat_map(|algorithm| rank_counts().map(move |ranks| (algorithm, ranks))) {
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
