//! `MPI_Allreduce`: the reduction of all send buffers, everywhere.

use fabriscope_units::Bytes;

use crate::blocks::Vector;
use crate::group::buffers;
use crate::piece::Buffer;
use crate::registry::algorithms;
use crate::round::{Round, Rounds};
use crate::{bcast, reduce};

algorithms! {
    /// How the contributions come together.
    enum Algorithm;
    /// The rounds of `rank` among `ranks`.
    #[must_use]
    pub fn rounds(rank: u32, ranks: u32, vector: Vector);

    /// log₂ n exchanges of everything; keeps the order of operands.
    RecursiveDoubling = "recursive_doubling" => recursive_multiplying::rounds(rank, ranks, 2, vector);
    /// Exchanges of everything among so many ranks; keeps the order of operands.
    [mod recursive_multiplying] RecursiveMultiplying {
        /// Ranks of an exchange, 2 at least.
        radix: u32 = 4, number(2)
    } = "recursive_multiplying" => recursive_multiplying::rounds(rank, ranks, radix.max(2), vector);
    /// Reduce-scatter by halves, then allgather by doubling; keeps the order of operands.
    [mod rabenseifner] Rabenseifner = "rabenseifner" => rabenseifner::rounds(rank, ranks, vector);
    /// Reduce-scatter and allgather around a ring.
    [mod ring] Ring = "ring" => ring::rounds(rank, ranks, vector, None);
    /// A ring whose blocks go in phases.
    RingSegmented {
        /// The most of a block that goes in a phase.
        segment: Bytes = Bytes::from_mib(1), size()
    } = "ring_segmented" => ring::rounds(rank, ranks, vector, Some(segment));
    /// Reduce-scatter by halves, then allgather by doubling, with partners that are near each other on a ring.
    [mod swing] Swing = "swing" => swing::rounds(rank, ranks, vector);
    /// Two trees, half of the data in each; keeps the order of operands of an even number of ranks.
    [mod double_binary_tree] DoubleBinaryTree {
        /// What goes at a time.
        segment: Bytes = Bytes::from_kib(64), size()
    } = "double_binary_tree" => double_binary_tree::rounds(rank, ranks, vector, segment);
    /// To rank 0, and from there to all.
    [mod reduce_bcast] ReduceBcast {
        /// To rank 0.
        reduce: reduce::Algorithm = reduce::Algorithm::KNomial { radix: 2 }, inner(reduce::Algorithm::named);
        /// From rank 0.
        bcast: bcast::Algorithm = bcast::Algorithm::KNomial { radix: 2 }, inner(bcast::Algorithm::named)
    } = "reduce_bcast" => reduce_bcast::rounds(reduce, bcast, rank, ranks, vector);
}

impl Algorithm {
    /// The same for ranks whose contribution lies in the receive buffer (`MPI_IN_PLACE`): copies from the one to the other are left out.
    #[must_use]
    pub fn in_place(self, rank: u32, ranks: u32, vector: Vector) -> Rounds {
        let recv = vector.whole(Buffer::Recv);
        match self {
            Algorithm::ReduceBcast { reduce, bcast } => Box::new(reduce_bcast::in_place(reduce, bcast, rank, ranks, vector)),
            // These do not read the send buffer any more once they wrote the receive buffer.
            _ => Box::new(buffers(recv, recv, 0, self.rounds(rank, ranks, vector)).filter(|round| *round != Round::default())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Operation;
    use crate::proof::Proof;
    use crate::rank_counts::rank_counts;
    use crate::reduction::begin;
    use crate::reduction::tests::{proved, vectors};

    fn algorithms() -> impl Iterator<Item = Algorithm> {
        let two =
            ["reduce_bcast(linear, linear)", "reduce_bcast(pipeline(8 B), scatter_ring)", "reduce_bcast(rabenseifner, tree(binary, 8 B))"];
        Algorithm::ALL
            .iter()
            .copied()
            .chain([3, 8].map(|radix| Algorithm::RecursiveMultiplying { radix }))
            .chain([Algorithm::RingSegmented { segment: Bytes(4) }, Algorithm::DoubleBinaryTree { segment: Bytes(8) }])
            .chain(two.map(|name| Algorithm::named(name).unwrap()))
    }

    fn of(algorithm: Algorithm, ranks: u32, vector: Vector) -> Proof {
        let operation = Operation::Allreduce { blocks: vector.blocks(ranks) };
        proved(&operation, ranks, vector.width, |rank| algorithm.rounds(rank, ranks, vector))
    }

    #[test]
    fn every_contribution_counts_once() {
        for ranks in rank_counts() {
            for vector in vectors(ranks) {
                for algorithm in algorithms() {
                    let proof = of(algorithm, ranks, vector);
                    let ordered = match algorithm {
                        Algorithm::RecursiveDoubling
                        | Algorithm::RecursiveMultiplying { .. }
                        | Algorithm::Rabenseifner
                        | Algorithm::ReduceBcast { .. } => true,
                        Algorithm::DoubleBinaryTree { .. } => ranks % 2 == 0 || vector.count == 0,
                        _ => false,
                    };
                    assert!(proof.ordered || !ordered, "{algorithm}, {ranks} ranks, {vector:?}");
                }
            }
        }
        assert!(!of(Algorithm::Ring, 5, Vector { count: 10, width: Bytes(1) }).ordered);
    }

    /// What the program has in its receive buffer takes part as if it were copied there.
    #[test]
    fn in_place() {
        for (algorithm, ranks) in algorithms().flat_map(|algorithm| (1..=33).map(move |ranks| (algorithm, ranks))) {
            for vector in vectors(ranks) {
                let operation = Operation::Allreduce { blocks: vector.blocks(ranks) };
                let put = begin(vector.whole(Buffer::Send), vector.whole(Buffer::Recv));
                proved(&operation, ranks, vector.width, |rank| {
                    std::iter::once(put.clone()).chain(algorithm.in_place(rank, ranks, vector).inspect(|round| {
                        let pieces = round.before.iter().chain(&round.after).map(|this| this.from.buffer);
                        assert!(pieces.chain(round.sends.iter().map(|send| send.piece.buffer)).all(|buffer| buffer != Buffer::Send));
                    }))
                });
            }
        }
    }

    /// Recursive doubling of n ranks: log₂ n rounds of all bytes, which are reduced as often; two more rounds where pairs fold.
    #[test]
    fn doubling_takes_log_n_rounds() {
        let vector = Vector { count: 10, width: Bytes(4) };
        let measured = |ranks, radix| {
            let proof = of(Algorithm::RecursiveMultiplying { radix }, ranks, vector);
            (proof.rounds, proof.messages, proof.most_sent.0 / 40, proof.most_reduced.0 / 40)
        };
        assert_eq!(of(Algorithm::RecursiveDoubling, 32, vector), of(Algorithm::RecursiveMultiplying { radix: 2 }, 32, vector));
        assert_eq!(measured(32, 2), (5, 32 * 5, 5, 5));
        // 11 ranks: three pairs fold in and out.
        assert_eq!(measured(11, 2), (2 + 3, 2 * 3 + 8 * 3, 3 + 1, 1 + 3));
        // log_k n rounds of k - 1 messages each way.
        assert_eq!(measured(64, 4), (3, 64 * 3 * 3, 9, 9));
        assert_eq!(measured(27, 3), (3, 27 * 3 * 2, 6, 6));
    }

    /// 2 (n - 1) / n of the bytes leave every rank, (n - 1) / n are reduced there.
    #[test]
    fn bandwidth_is_optimal() {
        for ranks in [2u32, 4, 8, 16, 32, 64] {
            let vector = Vector { count: 128, width: Bytes(4) };
            let (n, bytes) = (u64::from(ranks), vector.bytes());
            let part = Bytes(bytes.0 / n * (n - 1));
            let segmented = Algorithm::RingSegmented { segment: Bytes(bytes.0 / n) };
            for (algorithm, rounds) in
                [(Algorithm::Rabenseifner, 2 * ranks.ilog2()), (Algorithm::Ring, 2 * (ranks - 1)), (segmented, 2 * (ranks - 1))]
            {
                let proof = of(algorithm, ranks, vector);
                assert_eq!((proof.rounds, proof.most_sent, proof.most_reduced), (rounds, part * 2, part), "{algorithm}, {ranks} ranks");
            }
        }
    }

    /// Every phase goes round once, the gathering once for all: with blocks of 16 elements of 4 B and segments of 20 B, four phases.
    #[test]
    fn phases_of_a_segmented_ring() {
        let vector = Vector { count: 80, width: Bytes(4) };
        assert_eq!(ring::phases(5, vector, Bytes(20)), 4);
        let proof = of(Algorithm::RingSegmented { segment: Bytes(20) }, 5, vector);
        assert_eq!((proof.rounds, proof.most_sent, proof.most_reduced), (4 * 4 + 4, Bytes(2 * 4 * 64), Bytes(4 * 64)));
    }

    /// A rank with two children in a tree sends half of the bytes up, to each child down, and as a leaf of the other tree up: twice the
    /// bytes together, and takes in half of them from each child. The pipeline of m segments has m + 2 ⌊log₂ n⌋ - 1 steps.
    #[test]
    fn two_trees_share_the_load() {
        for ranks in [8u32, 13, 64] {
            let vector = Vector { count: 64, width: Bytes(4) };
            let proof = of(Algorithm::DoubleBinaryTree { segment: Bytes(16) }, ranks, vector);
            assert_eq!((proof.most_sent, proof.most_reduced), (vector.bytes() * 2, vector.bytes()), "{ranks} ranks");
            let segments = 128 / 16;
            assert!(proof.rounds < segments + 2 * double_binary_tree::deepest(ranks));
            assert_eq!(proof.messages, u64::from(2 * 2 * segments * (ranks - 1)));
        }
    }

    /// Rounds are made one at a time: those of a rank among 16 million begin at once.
    #[test]
    fn many_ranks() {
        let vector = Vector { count: 1 << 30, width: Bytes(4) };
        for algorithm in algorithms() {
            let sent: u64 =
                algorithm.rounds(12_345_678, 1 << 24, vector).take(3).flat_map(|round| round.sends).map(|m| m.piece.bytes.0).sum();
            assert!(sent > 0, "{algorithm}");
        }
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for algorithm in algorithms() {
            let text = algorithm.to_string();
            assert_eq!(Algorithm::named(&text), Some(algorithm));
            let word = text.split('(').next().unwrap();
            assert_eq!(Algorithm::named(word).unwrap().to_string().split('(').next(), Some(word));
            assert!(Algorithm::names().contains(word));
        }
        assert_eq!(Algorithm::named("ring(4)").or(Algorithm::named("rings")), None);
    }
}
