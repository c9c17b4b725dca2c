//! `MPI_Allgather` and `MPI_Allgatherv`: everybody's block, everywhere. Blocks are of any lengths.

use fabriscope_units::Bytes;

use crate::blocks::Blocks;
use crate::piece::{Buffer, Piece};
use crate::registry::algorithms;
use crate::round::{Round, Rounds};
use crate::{bcast, gather};

algorithms! {
    /// How the blocks travel.
    enum Algorithm;
    /// The rounds where a rank's block lies at `own`: in its place, or for algorithms that bring it there, anywhere.
    fn from(own: Piece, rank: u32, blocks: Blocks);

    /// Around a ring.
    [mod ring] Ring = "ring" => ring::rounds(rank, blocks);
    /// Twice as many a round, with ranks that differ in one bit.
    [mod recursive_doubling] RecursiveDoubling = "recursive_doubling" => recursive_doubling::rounds(rank, blocks);
    /// Twice as many a round, with ranks at a distance.
    [mod bruck] Bruck = "bruck" => bruck::rounds(rank, blocks, own);
    /// Two blocks a round, with both neighbours in turn; a ring where the number of ranks is odd.
    [mod neighbour] Neighbour = "neighbour" => neighbour::rounds(rank, blocks);
    /// To everybody, so many messages at a time; 0 is all at once.
    [mod linear] Linear {
        /// Sends, and as many receives.
        at_a_time: u32 = 0, number(0)
    } = "linear" => linear::rounds(rank, blocks, at_a_time);
    /// To rank 0, and from there to all.
    [mod gather_bcast] GatherBcast {
        /// To rank 0.
        gather: gather::Algorithm = gather::Algorithm::KNomial { radix: 2 }, inner(gather::Algorithm::named);
        /// From rank 0.
        bcast: bcast::Algorithm = bcast::Algorithm::KNomial { radix: 2 }, inner(bcast::Algorithm::named)
    } = "gather_bcast" => gather_bcast::rounds(gather, bcast, own, rank, blocks);
}

impl Algorithm {
    /// The rounds of `rank` among `ranks`, which have these blocks.
    #[must_use]
    pub fn rounds(self, rank: u32, ranks: u32, blocks: Blocks) -> Rounds {
        debug_assert_eq!(ranks, blocks.ranks());
        let own = Buffer::Send.piece(Bytes::ZERO, blocks.length(rank));
        if matches!(self, Algorithm::Bruck | Algorithm::GatherBcast { .. }) {
            return self.from(own, rank, blocks);
        }
        let first = Round::local(vec![own.copied(blocks.piece(Buffer::Recv, rank))]);
        Box::new(std::iter::once(first).chain(self.in_place(rank, blocks)))
    }
    /// The same where each rank's block is in its place in [`Buffer::Recv`] already.
    #[must_use]
    pub fn in_place(self, rank: u32, blocks: Blocks) -> Rounds {
        self.from(blocks.piece(Buffer::Recv, rank), rank, blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Operation;
    use crate::Vector;
    use crate::proof::{Proof, prove};
    use crate::rank_counts::rank_counts;

    fn algorithms() -> impl Iterator<Item = Algorithm> {
        let gather = gather::Algorithm::LinearSync { segment: Bytes(3) };
        let bcast = bcast::Algorithm::SplitBinary { segment: Bytes(3) };
        Algorithm::ALL.iter().copied().chain([Algorithm::Linear { at_a_time: 5 }, Algorithm::GatherBcast { gather, bcast }])
    }

    fn proof(algorithm: Algorithm, ranks: u32, blocks: &Blocks) -> Proof {
        let operation = Operation::Allgather { blocks: blocks.clone() };
        match prove(&operation, ranks, |rank| algorithm.rounds(rank, ranks, blocks.clone())) {
            Ok(proof) => proof,
            Err(flaw) => panic!("{algorithm}, {ranks} ranks, {blocks:?}: {flaw}"),
        }
    }

    #[test]
    fn everybody_gets_every_block() {
        for (algorithm, ranks) in algorithms().flat_map(|algorithm| rank_counts().map(move |ranks| (algorithm, ranks))) {
            let n = u64::from(ranks);
            for (count, width) in [(0, 1), (1, 1), (n - 1, 1), (n + 1, 1), (37, 4)] {
                proof(algorithm, ranks, &Vector { count, width: Bytes(width) }.blocks(ranks));
            }
            proof(algorithm, ranks, &Blocks::Even { ranks, block: Bytes(3) });
            // Rank r has (5 r + 2) mod 4 bytes.
            proof(algorithm, ranks, &Blocks::varying(&(0..n).map(|rank| Bytes((5 * rank + 2) % 4)).collect::<Vec<_>>()));
        }
    }

    /// Everybody sends n - 1 blocks of m bytes where nobody has to help others: in n - 1 rounds, ⌈log₂ n⌉, n / 2, or one.
    #[test]
    fn blocks_are_sent_once() {
        let rounds_of = |algorithm: Algorithm, ranks: u32| {
            let proof = proof(algorithm, ranks, &Blocks::Even { ranks, block: Bytes(3) });
            assert_eq!(proof.most_sent, Bytes(3) * u64::from(ranks - 1), "{algorithm}, {ranks} ranks");
            proof.rounds
        };
        for ranks in 2..=64u32 {
            let log = ranks.next_power_of_two().ilog2();
            assert_eq!(rounds_of(Algorithm::Ring, ranks), ranks - 1);
            assert_eq!(rounds_of(Algorithm::Bruck, ranks), log);
            assert_eq!(rounds_of(Algorithm::Linear { at_a_time: 0 }, ranks), 1);
            assert_eq!(rounds_of(Algorithm::Linear { at_a_time: 5 }, ranks), (ranks - 1).div_ceil(5));
            assert_eq!(rounds_of(Algorithm::Neighbour, ranks), if ranks % 2 == 0 { ranks / 2 } else { ranks - 1 });
            if ranks.is_power_of_two() {
                assert_eq!(rounds_of(Algorithm::RecursiveDoubling, ranks), log);
            }
        }
    }

    /// ⌈log₂ n⌉ exchanges, and between them at most ⌊log₂ n⌋ rounds that pass blocks on.
    #[test]
    fn recursive_doubling_helps_those_without_partner() {
        for ranks in (3..=64u32).filter(|ranks| !ranks.is_power_of_two()) {
            let proof = proof(Algorithm::RecursiveDoubling, ranks, &Blocks::Even { ranks, block: Bytes(1) });
            assert!(proof.rounds > ranks.ilog2() + 1 && proof.rounds <= 2 * ranks.ilog2() + 1, "{ranks} ranks: {} rounds", proof.rounds);
        }
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for algorithm in algorithms() {
            assert_eq!(Algorithm::named(&algorithm.to_string()), Some(algorithm));
        }
        assert_eq!(Algorithm::named("gather_bcast"), Algorithm::named("gather_bcast(k_nomial(2), k_nomial(2))"));
        assert_eq!([Algorithm::named("ring(2)"), Algorithm::named("gather_bcast(ring)"), Algorithm::named("star")], [None; 3]);
    }
}
