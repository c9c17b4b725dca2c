//! `MPI_Reduce`: the reduction of all send buffers, at the root.

use fabriscope_units::Bytes;

use crate::blocks::Vector;
use crate::group::from_root;
use crate::names::Name;
use crate::piece::Buffer;
use crate::registry::algorithms;
use crate::round::Round;
use crate::tree::{FLAT, Shape};

algorithms! {
    /// How the contributions come together. Segments of zero bytes mean that all goes in one piece. Trees keep the order of operands
    /// where the root is rank 0 and a subtree is ranks side by side: chains and k-nomial trees.
    enum Algorithm also named by shape, as "binomial, pipeline(segment)";
    /// The rounds of `rank` among `ranks`, of which `root` gets the result. No other rank's receive buffer is touched.
    #[must_use]
    pub fn rounds(rank: u32, ranks: u32, root: u32, vector: Vector);

    /// All to the root, which takes them in one by one; keeps the order of operands.
    [mod linear] Linear = "linear" => linear::rounds(rank, ranks, root, vector);
    /// Up a k-nomial tree through slots of memory that the ranks of a node share.
    Slots {
        /// 2 or more; [`FLAT`]: the root reads the slots of all.
        radix: u32 = FLAT, number(2), unless FLAT
    } = "slots" => from_root(root, ranks, k_nomial::rounds((rank + ranks - root) % ranks, ranks, radix, vector)).map(Round::in_slots);
    /// Up a k-nomial tree in one piece, a level a round; binomial: a child a round.
    [mod k_nomial] KNomial {
        /// 2 or more.
        radix: u32 = 4, number(2)
    } = "k_nomial" => from_root(root, ranks, k_nomial::rounds((rank + ranks - root) % ranks, ranks, radix, vector));
    /// Up a tree, from all children at once, in segments.
    [mod segmented] Tree {
        /// Which tree; [`Shape::Chain`] with one chain is a pipeline.
        shape: Shape = Shape::Binary, inner(Shape::named);
        /// The length of a segment.
        segment: Bytes = Bytes::ZERO, size()
    } = "tree" => {
        let (place, at) = ((rank + ranks - root) % ranks, if rank == root { Buffer::Recv } else { Buffer::Scratch(1) });
        from_root(root, ranks, segmented::rounds(place, shape.place(place, ranks), vector, segment, at))
    };
    /// Up a binary tree that is numbered in order; keeps the order of operands.
    [mod in_order_binary] InOrderBinary {
        /// The length of a segment.
        segment: Bytes = Bytes::from_kib(64), size()
    } = "in_order_binary" => in_order_binary::rounds(rank, ranks, root, vector, segment);
    /// Reduce-scatter by halves, then gathered at the root; keeps the order of operands.
    [mod rabenseifner] Rabenseifner = "rabenseifner" => rabenseifner::rounds(rank, ranks, root, vector);
}

/// Shapes other than `linear` and `k_nomial` are names on their own, with a tree in one piece.
fn shape(text: &str) -> Option<Algorithm> {
    let mut name = Name::read(text)?;
    let algorithm = match name.word {
        "binomial" => Algorithm::KNomial { radix: 2 },
        "pipeline" => Algorithm::Tree { shape: Shape::Chain { fan_out: 1 }, segment: name.size(Bytes::from_kib(64))? },
        _ => return Shape::named(text).map(|shape| Algorithm::Tree { shape, segment: Bytes::ZERO }),
    };
    name.end(algorithm)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Operation;
    use crate::proof::Proof;
    use crate::rank_counts::rank_counts;
    use crate::reduction::tests::{proved, vectors};

    fn algorithms() -> impl Iterator<Item = Algorithm> {
        let shapes = [Shape::KNomial { radix: 3 }, Shape::Chain { fan_out: 1 }, Shape::Chain { fan_out: 3 }, Shape::Binary, Shape::Linear];
        let cut = shapes.map(|shape| Algorithm::Tree { shape, segment: Bytes(12) });
        let radices = [3, 4, 8].into_iter().flat_map(|radix| [Algorithm::KNomial { radix }, Algorithm::Slots { radix }]);
        Algorithm::ALL.iter().copied().chain(cut).chain(radices).chain([Algorithm::InOrderBinary { segment: Bytes(12) }])
    }

    fn of(algorithm: Algorithm, ranks: u32, root: u32, vector: Vector) -> Proof {
        let operation = Operation::Reduce { root, blocks: vector.blocks(ranks) };
        proved(&operation, ranks, vector.width, |rank| algorithm.rounds(rank, ranks, root, vector))
    }

    /// Whether operators need not commute.
    fn keeps_order(algorithm: Algorithm, root: u32) -> bool {
        match algorithm {
            Algorithm::Linear | Algorithm::InOrderBinary { .. } | Algorithm::Rabenseifner => true,
            Algorithm::KNomial { .. }
            | Algorithm::Slots { .. }
            | Algorithm::Tree { shape: Shape::KNomial { .. } | Shape::Chain { .. } | Shape::Linear, .. } => root == 0,
            Algorithm::Tree { .. } => false,
        }
    }

    #[test]
    fn every_contribution_counts_once() {
        for (algorithm, ranks) in algorithms().flat_map(|algorithm| rank_counts().map(move |ranks| (algorithm, ranks))) {
            for vector in vectors(ranks) {
                for root in [0, ranks / 3] {
                    let proof = of(algorithm, ranks, root, vector);
                    assert!(proof.ordered || !keeps_order(algorithm, root), "{algorithm}, {ranks} ranks to {root}, {vector:?}");
                    assert_eq!(proof.messages == 0, ranks == 1);
                }
            }
        }
    }

    #[test]
    fn every_root() {
        let vector = Vector { count: 7, width: Bytes(4) };
        for (algorithm, ranks) in algorithms().flat_map(|algorithm| [2u32, 3, 6, 8, 11, 16].map(move |ranks| (algorithm, ranks))) {
            for root in 0..ranks {
                let proof = of(algorithm, ranks, root, vector);
                assert!(proof.ordered || !keeps_order(algorithm, root), "{algorithm}, {ranks} ranks to {root}");
            }
        }
        let binary = Algorithm::Tree { shape: Shape::Binary, segment: Bytes::from_kib(64) };
        assert!(!of(Algorithm::KNomial { radix: 2 }, 8, 3, vector).ordered && !of(binary, 8, 0, vector).ordered);
    }

    /// Up a k-nomial tree: ⌈log_k n⌉ rounds at the root, which takes in a child of each digit of each level; n - 1 messages.
    #[test]
    fn trees_have_few_rounds() {
        let vector = Vector { count: 10, width: Bytes(4) };
        let measured = |algorithm, ranks| {
            let proof = of(algorithm, ranks, 0, vector);
            (proof.rounds, proof.messages, proof.most_sent.0 / 40, proof.most_reduced.0 / 40)
        };
        assert_eq!(measured(Algorithm::KNomial { radix: 2 }, 32), (5, 31, 1, 5));
        assert_eq!(measured(Algorithm::KNomial { radix: 4 }, 64), (3, 63, 1, 9));
        assert_eq!(measured(Algorithm::KNomial { radix: 4 }, 17), (3, 16, 1, 3 + 3 + 1));
        assert_eq!(measured(Algorithm::Linear, 9), (8, 8, 1, 8));
        assert_eq!(measured(Algorithm::Slots { radix: FLAT }, 36), (1, 35, 1, 35));
        assert_eq!(measured(Algorithm::Slots { radix: 4 }, 17), (3, 16, 1, 3 + 3 + 1));
    }

    /// A pipeline of m segments has m + 1 rounds at ranks in between, which take in all bytes of each child; every rank sends all once.
    #[test]
    fn segments_follow_each_other() {
        let vector = Vector { count: 20, width: Bytes(4) };
        for (shape, children) in [(Shape::Chain { fan_out: 1 }, 1), (Shape::Chain { fan_out: 3 }, 3), (Shape::Binary, 2)] {
            let proof = of(Algorithm::Tree { shape, segment: Bytes(16) }, 12, 0, vector);
            assert_eq!((proof.rounds, proof.messages), (5 + 1, 11 * 5), "{shape}");
            assert_eq!((proof.most_sent, proof.most_reduced), (vector.bytes(), vector.bytes() * children), "{shape}");
        }
        // The top of the tree in order sends once more where it is not the root.
        let in_order = Algorithm::InOrderBinary { segment: Bytes(16) };
        assert_eq!(of(in_order, 12, 11, vector).messages + 1, of(in_order, 12, 0, vector).messages);
    }

    /// (n - 1) / n of the bytes are reduced by every rank; all but the root send as many, or less, in the first half, and at most as
    /// many again on the way to the root.
    #[test]
    fn halves_share_the_work() {
        for steps in 1..=6u32 {
            let n = 1u64 << steps;
            let vector = Vector { count: 64, width: Bytes(4) };
            let part = Bytes(256 / n * (n - 1));
            let proof = of(Algorithm::Rabenseifner, n as u32, 0, vector);
            // The partner of the root's last step sends half of the bytes to it at the end.
            assert_eq!((proof.rounds, proof.most_reduced, proof.most_sent), (2 * steps, part, part + Bytes(128)));
        }
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for algorithm in algorithms() {
            assert_eq!(Algorithm::named(&algorithm.to_string()), Some(algorithm));
        }
        assert_eq!(Algorithm::named("chain"), Some(Algorithm::Tree { shape: Shape::Chain { fan_out: 4 }, segment: Bytes::ZERO }));
        assert_eq!(Algorithm::named("pipeline(1 KiB)").unwrap().to_string(), "tree(chain(1), 1 KiB)");
        assert_eq!(Algorithm::named("k_nomial(1)").or(Algorithm::named("linear(2)")).or(Algorithm::named("ring")), None);
    }
}
