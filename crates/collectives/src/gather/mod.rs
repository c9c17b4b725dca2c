//! `MPI_Gather` and `MPI_Gatherv`: everybody's block, at the root. Blocks are of any lengths.

use fabriscope_units::Bytes;

use crate::blocks::Blocks;
use crate::group::from_root;
use crate::piece::{Buffer, Piece};
use crate::registry::algorithms;
use crate::round::Rounds;

algorithms! {
    /// How the blocks travel.
    enum Algorithm also named by binomial, as "binomial";
    /// The rounds of `rank`, whose block lies at `own`, as they are where rank 0 is the root; `root` says whose block is whose.
    fn to_first(own: Piece, rank: u32, root: u32, blocks: Blocks);

    /// Up a k-nomial tree.
    [mod k_nomial] KNomial {
        /// 2 or more.
        radix: u32 = 4, number(2)
    } = "k_nomial" => k_nomial::rounds(rank, root, blocks, radix, own);
    /// Straight to the root, which posts so many receives at a time; 0 is all at once.
    [mod linear] Linear {
        /// Receives.
        at_a_time: u32 = 0, number(0)
    } = "linear" => linear::rounds(rank, root, blocks, at_a_time, own);
    /// Straight to the root, which asks one rank after the other.
    [mod linear_sync] LinearSync {
        /// What comes of a block before the next rank is asked; all of it where this is zero.
        segment: Bytes = Bytes::from_kib(1), size()
    } = "linear_sync" => linear_sync::rounds(rank, root, blocks, segment, own);
}

fn binomial(text: &str) -> Option<Algorithm> {
    (text == "binomial").then_some(Algorithm::KNomial { radix: 2 })
}

impl Algorithm {
    /// The rounds of `rank` among `ranks`, whose blocks go to `root`.
    #[must_use]
    pub fn rounds(self, rank: u32, ranks: u32, root: u32, blocks: Blocks) -> Rounds {
        debug_assert_eq!(ranks, blocks.ranks());
        self.from(Buffer::Send.piece(Bytes::ZERO, blocks.length(rank)), rank, root, blocks)
    }
    /// The same where the rank's block lies at `own`.
    #[must_use]
    pub fn from(self, own: Piece, rank: u32, root: u32, blocks: Blocks) -> Rounds {
        let ranks = blocks.ranks();
        Box::new(from_root(root, ranks, self.to_first(own, (rank + ranks - root) % ranks, root, blocks)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::{Proof, prove};
    use crate::rank_counts::rank_counts;
    use crate::{Operation, Vector};

    fn algorithms() -> impl Iterator<Item = Algorithm> {
        let radices = [2, 3, 8].map(|radix| Algorithm::KNomial { radix });
        let others = [0, 2].map(|segment| Algorithm::LinearSync { segment: Bytes(segment) });
        Algorithm::ALL.iter().copied().chain(radices).chain(others).chain([Algorithm::Linear { at_a_time: 3 }])
    }

    fn proof(algorithm: Algorithm, ranks: u32, root: u32, blocks: &Blocks) -> Proof {
        let operation = Operation::Gather { root, blocks: blocks.clone() };
        match prove(&operation, ranks, |rank| algorithm.rounds(rank, ranks, root, blocks.clone())) {
            Ok(proof) => proof,
            Err(flaw) => panic!("{algorithm}, {ranks} ranks to {root}, {blocks:?}: {flaw}"),
        }
    }

    #[test]
    fn the_root_gets_every_block() {
        for (algorithm, ranks) in algorithms().flat_map(|algorithm| rank_counts().map(move |ranks| (algorithm, ranks))) {
            let n = u64::from(ranks);
            for (count, width) in [(0, 1), (1, 1), (n - 1, 1), (n + 1, 1), (37, 4)] {
                proof(algorithm, ranks, ranks / 3, &Vector { count, width: Bytes(width) }.blocks(ranks));
            }
            proof(algorithm, ranks, 0, &Blocks::uneven(ranks));
        }
    }

    #[test]
    fn anybody_can_be_root() {
        for (algorithm, ranks) in algorithms().flat_map(|algorithm| [2, 5, 8, 13].map(|ranks| (algorithm, ranks))) {
            for root in 0..ranks {
                proof(algorithm, ranks, root, &Blocks::uneven(ranks));
            }
        }
    }

    /// ⌈log₂ n⌉ rounds; the branch of rank 2^(k - 1) is the largest, with half of the blocks for n = 2^k.
    #[test]
    fn binomial_sends_half_of_the_blocks_at_once() {
        for ranks in 2..=64u32 {
            let proof = proof(Algorithm::KNomial { radix: 2 }, ranks, ranks - 1, &Blocks::Even { ranks, block: Bytes(3) });
            let half = ranks.next_power_of_two() / 2;
            let largest = (ranks - half).max(half / 2);
            assert_eq!((proof.rounds, proof.most_sent), (ranks.next_power_of_two().ilog2(), Bytes(3) * u64::from(largest)));
            assert_eq!(proof.messages, u64::from(ranks) - 1);
        }
    }

    /// One after the other: n - 1 rounds, one more for the last second part; a block in two messages, and one that asks for it.
    #[test]
    fn a_root_that_asks_takes_a_round_for_each() {
        for ranks in 2..=64 {
            let blocks = Blocks::Even { ranks, block: Bytes(3) };
            let cut = proof(Algorithm::LinearSync { segment: Bytes(2) }, ranks, 0, &blocks);
            assert_eq!((cut.rounds, cut.messages), (ranks.max(3), 3 * u64::from(ranks - 1)));
            let whole = proof(Algorithm::LinearSync { segment: Bytes(3) }, ranks, 0, &blocks);
            assert_eq!((whole.rounds, whole.messages), ((ranks - 1).max(2), 2 * u64::from(ranks - 1)));
            assert_eq!(proof(Algorithm::Linear { at_a_time: 3 }, ranks, 0, &blocks).rounds, (ranks - 1).div_ceil(3));
        }
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for algorithm in algorithms() {
            assert_eq!(Algorithm::named(&algorithm.to_string()), Some(algorithm));
        }
        assert_eq!(Algorithm::named("binomial"), Some(Algorithm::KNomial { radix: 2 }));
        assert_eq!([Algorithm::named("k_nomial(1)"), Algorithm::named("linear_sync(7)"), Algorithm::named("ring")], [None; 3]);
    }
}
