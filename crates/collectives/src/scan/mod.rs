//! `MPI_Scan` and `MPI_Exscan`: the reduction of the send buffers of the ranks up to each, with and without its own.

use crate::blocks::Vector;
use crate::registry::algorithms;

algorithms! {
    /// How the contributions come together; both keep the order of operands.
    enum Algorithm;
    /// The rounds of `rank` among `ranks`; without its own contribution where `exclusive`.
    #[must_use]
    pub fn rounds(rank: u32, ranks: u32, vector: Vector, exclusive: bool);

    /// From each rank to the next.
    [mod linear] Linear = "linear" => linear::rounds(rank, ranks, vector, exclusive);
    /// log₂ n exchanges of everything.
    [mod recursive_doubling] RecursiveDoubling = "recursive_doubling" => recursive_doubling::rounds(rank, ranks, vector, exclusive);
}

#[cfg(test)]
mod tests {
    use fabriscope_units::Bytes;

    use super::*;
    use crate::Operation;
    use crate::proof::Proof;
    use crate::rank_counts::rank_counts;
    use crate::reduction::tests::{proved, vectors};

    fn of(algorithm: Algorithm, ranks: u32, vector: Vector, exclusive: bool) -> Proof {
        let operation = Operation::Scan { blocks: vector.blocks(ranks), exclusive };
        proved(&operation, ranks, vector.width, |rank| algorithm.rounds(rank, ranks, vector, exclusive))
    }

    #[test]
    fn every_contribution_counts_once_in_order() {
        for ranks in rank_counts() {
            for vector in vectors(ranks) {
                for (algorithm, exclusive) in Algorithm::ALL.iter().copied().flat_map(|algorithm| [(algorithm, false), (algorithm, true)]) {
                    assert!(of(algorithm, ranks, vector, exclusive).ordered, "{algorithm}, {ranks} ranks, {vector:?}");
                }
            }
        }
    }

    /// Linear: n - 1 messages. Doubling: log₂ n rounds, in each the group and the result take something in at the last rank; the first
    /// step begins the exclusive result.
    #[test]
    fn rounds_and_reductions() {
        let vector = Vector { count: 5, width: Bytes(4) };
        let measured = |algorithm, ranks, exclusive| {
            let proof = of(algorithm, ranks, vector, exclusive);
            (proof.rounds, proof.messages, proof.most_sent.0 / 20, proof.most_reduced.0 / 20)
        };
        assert_eq!(measured(Algorithm::Linear, 9, false), (2, 8, 1, 1));
        assert_eq!(measured(Algorithm::Linear, 9, true), (2, 8, 1, 1));
        assert_eq!(measured(Algorithm::RecursiveDoubling, 16, false), (4, 64, 4, 8));
        assert_eq!(measured(Algorithm::RecursiveDoubling, 16, true), (4, 64, 4, 7));
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for algorithm in Algorithm::ALL.iter().copied() {
            assert_eq!(Algorithm::named(&algorithm.to_string()), Some(algorithm));
            assert!(Algorithm::names().contains(&algorithm.to_string()));
        }
        assert_eq!(Algorithm::named("linear(2)").or(Algorithm::named("tree")), None);
    }
}
