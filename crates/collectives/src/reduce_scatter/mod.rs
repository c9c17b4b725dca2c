//! `MPI_Reduce_scatter` and `MPI_Reduce_scatter_block`: the reduction of all send buffers, one block of it at each rank.

use crate::blocks::Blocks;
use crate::halving::Distance;
use crate::registry::algorithms;
use crate::{reduce, scatter};

algorithms! {
    /// How the contributions come together.
    enum Algorithm;
    /// The rounds of `rank` among `ranks`; rank *r* gets block *r* of the reduction.
    #[must_use]
    pub fn rounds(rank: u32, ranks: u32, blocks: Blocks);

    /// Halves of the blocks, far partners first.
    [mod halving] RecursiveHalving = "recursive_halving" => halving::rounds(Distance::Halving, rank, ranks, blocks);
    /// Halves of the blocks, near partners first; keeps the order of operands.
    Butterfly = "butterfly" => halving::rounds(Distance::Doubling, rank, ranks, blocks);
    /// One partner per round.
    [mod pairwise] Pairwise = "pairwise" => pairwise::rounds(rank, ranks, blocks);
    /// Around a ring.
    [mod ring] Ring = "ring" => ring::rounds(rank, ranks, blocks);
    /// log₂ n exchanges of nearly everything; keeps the order of operands.
    [mod recursive_doubling] RecursiveDoubling = "recursive_doubling" => recursive_doubling::rounds(rank, ranks, blocks);
    /// To rank 0, and a block from there to each.
    [mod reduce_then_scatter] ReduceThenScatter {
        /// To rank 0.
        reduce: reduce::Algorithm = reduce::Algorithm::KNomial { radix: 2 }, inner(reduce::Algorithm::named);
        /// From rank 0.
        scatter: scatter::Algorithm = scatter::Algorithm::KNomial { radix: 2 }, inner(scatter::Algorithm::named)
    } = "reduce_then_scatter" => reduce_then_scatter::rounds(reduce, scatter, rank, ranks, blocks);
}

#[cfg(test)]
mod tests {
    use fabriscope_units::Bytes;

    use super::*;
    use crate::Operation;
    use crate::proof::Proof;
    use crate::rank_counts::rank_counts;
    use crate::reduction::tests::{proved, vectors};

    fn algorithms() -> impl Iterator<Item = Algorithm> {
        let two = ["reduce_then_scatter(rabenseifner, linear)", "reduce_then_scatter(pipeline(8 B), k_nomial(4))"];
        Algorithm::ALL.iter().copied().chain(two.map(|name| Algorithm::named(name).unwrap()))
    }

    fn of(algorithm: Algorithm, width: Bytes, blocks: &Blocks) -> Proof {
        let ranks = blocks.ranks();
        let operation = Operation::ReduceScatter { blocks: blocks.clone() };
        proved(&operation, ranks, width, |rank| algorithm.rounds(rank, ranks, blocks.clone()))
    }

    #[test]
    fn every_contribution_counts_once() {
        for ranks in rank_counts() {
            // Rank r gets (5 r mod 4) elements of 4 B.
            let any = Blocks::varying(&(0..ranks).map(|rank| Bytes(u64::from(5 * rank % 4) * 4)).collect::<Vec<_>>());
            let even = Blocks::Even { ranks, block: Bytes(8) };
            let split = vectors(ranks).map(|vector| (vector.width, vector.blocks(ranks)));
            for (width, blocks) in split.chain([(Bytes(4), any), (Bytes(4), even)]) {
                for algorithm in algorithms() {
                    let proof = of(algorithm, width, &blocks);
                    let ordered = !matches!(algorithm, Algorithm::RecursiveHalving | Algorithm::Pairwise | Algorithm::Ring);
                    assert!(proof.ordered || !ordered, "{algorithm}, {ranks} ranks");
                }
            }
        }
    }

    #[test]
    fn others_want_operators_that_commute() {
        for algorithm in [Algorithm::RecursiveHalving, Algorithm::Pairwise, Algorithm::Ring] {
            assert!(!of(algorithm, Bytes(4), &Blocks::Even { ranks: 8, block: Bytes(4) }).ordered, "{algorithm}");
        }
    }

    /// n blocks of b bytes: (n - 1) b leave every rank and are reduced there, in log₂ n rounds or in n - 1. The butterfly has one round
    /// more for all whose bits do not read the same backwards. Recursive doubling sends n log₂ n - (n - 1) blocks.
    #[test]
    fn bandwidth_is_optimal() {
        for steps in 1..=6u32 {
            let ranks = 1 << steps;
            let block = Bytes(4);
            let others = block * u64::from(ranks - 1);
            let measured = |algorithm| {
                let proof = of(algorithm, Bytes(4), &Blocks::Even { ranks, block });
                (proof.rounds, proof.most_sent, proof.most_reduced)
            };
            assert_eq!(measured(Algorithm::RecursiveHalving), (steps, others, others));
            assert_eq!(measured(Algorithm::Pairwise), (ranks - 1, others, others));
            assert_eq!(measured(Algorithm::Ring), (ranks - 1, others, others));
            let turned = u32::from(ranks > 2);
            assert_eq!(measured(Algorithm::Butterfly), (steps + turned, others + block * u64::from(turned), others));
            // Up a tree and down again: rank 0 takes in log₂ n vectors.
            assert_eq!(measured(Algorithm::ALL[5]).0, 2 * steps);
            assert_eq!(measured(Algorithm::ALL[5]).2, block * u64::from(ranks * steps));
            let most = block * u64::from(ranks * steps) - others;
            assert_eq!(measured(Algorithm::RecursiveDoubling), (steps, most, most));
        }
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for algorithm in algorithms() {
            assert_eq!(Algorithm::named(&algorithm.to_string()), Some(algorithm));
        }
        for &algorithm in Algorithm::ALL {
            assert_eq!(Algorithm::named(algorithm.to_string().split('(').next().unwrap()), Some(algorithm));
        }
        assert_eq!(Algorithm::named("ring(4)").or(Algorithm::named("rings")), None);
    }
}
