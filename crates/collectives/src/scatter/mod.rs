//! `MPI_Scatter` and `MPI_Scatterv`: a block of the root for everybody. Blocks are of any lengths.

use crate::blocks::Blocks;
use crate::group::from_root;
use crate::registry::algorithms;
use crate::round::Rounds;

algorithms! {
    /// How the blocks travel.
    enum Algorithm also named by binomial, as "binomial";
    /// The rounds of `rank` as they are where rank 0 is the root; `root` says whose block is whose.
    fn from_first(rank: u32, root: u32, blocks: Blocks);

    /// Down a k-nomial tree.
    [mod k_nomial] KNomial {
        /// 2 or more.
        radix: u32 = 4, number(2)
    } = "k_nomial" => k_nomial::rounds(rank, root, blocks, radix);
    /// Straight from the root, so many at a time; 0 is all at once.
    [mod linear] Linear {
        /// Sends.
        at_a_time: u32 = 0, number(0)
    } = "linear" => linear::rounds(rank, root, blocks, at_a_time);
}

fn binomial(text: &str) -> Option<Algorithm> {
    (text == "binomial").then_some(Algorithm::KNomial { radix: 2 })
}

impl Algorithm {
    /// The rounds of `rank` among `ranks`, whose blocks come from `root`.
    #[must_use]
    pub fn rounds(self, rank: u32, ranks: u32, root: u32, blocks: Blocks) -> Rounds {
        debug_assert_eq!(ranks, blocks.ranks());
        Box::new(from_root(root, ranks, self.from_first((rank + ranks - root) % ranks, root, blocks)))
    }
}

#[cfg(test)]
mod tests {
    use fabriscope_units::Bytes;

    use super::*;
    use crate::proof::{Proof, prove};
    use crate::rank_counts::rank_counts;
    use crate::{Operation, Vector};

    fn algorithms() -> impl Iterator<Item = Algorithm> {
        let radices = [2, 3, 8].map(|radix| Algorithm::KNomial { radix });
        Algorithm::ALL.iter().copied().chain(radices).chain([Algorithm::Linear { at_a_time: 1 }])
    }

    fn proof(algorithm: Algorithm, ranks: u32, root: u32, blocks: &Blocks) -> Proof {
        let operation = Operation::Scatter { root, blocks: blocks.clone() };
        match prove(&operation, ranks, |rank| algorithm.rounds(rank, ranks, root, blocks.clone())) {
            Ok(proof) => proof,
            Err(flaw) => panic!("{algorithm}, {ranks} ranks from {root}, {blocks:?}: {flaw}"),
        }
    }

    #[test]
    fn everybody_gets_its_block() {
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

    /// ⌈log₂ n⌉ rounds; the root sends every block but its own, whatever the tree, and nobody sends more.
    #[test]
    fn the_root_sends_every_block_once() {
        for (algorithm, ranks) in algorithms().flat_map(|algorithm| (2..=64u32).map(move |ranks| (algorithm, ranks))) {
            let proof = proof(algorithm, ranks, ranks - 1, &Blocks::Even { ranks, block: Bytes(3) });
            assert_eq!((proof.most_sent, proof.messages), (Bytes(3) * u64::from(ranks - 1), u64::from(ranks) - 1));
            let rounds = match algorithm {
                Algorithm::KNomial { radix } => (0..).find(|digits| radix.pow(*digits) >= ranks).unwrap(),
                Algorithm::Linear { at_a_time: 0 } => 1,
                Algorithm::Linear { at_a_time } => (ranks - 1).div_ceil(at_a_time),
            };
            assert_eq!(proof.rounds, rounds, "{algorithm}, {ranks} ranks");
        }
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for algorithm in algorithms() {
            assert_eq!(Algorithm::named(&algorithm.to_string()), Some(algorithm));
        }
        assert_eq!(Algorithm::named("binomial"), Some(Algorithm::KNomial { radix: 2 }));
        assert_eq!([Algorithm::named("k_nomial(1)"), Algorithm::named("linear(x)"), Algorithm::named("ring")], [None; 3]);
    }
}
