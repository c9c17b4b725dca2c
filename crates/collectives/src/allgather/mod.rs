//! `MPI_Allgather` and `MPI_Allgatherv`: everybody's block, everywhere. Blocks are of any lengths.

mod bruck;
mod linear;
mod neighbour;
mod recursive_doubling;
mod ring;

use std::fmt;

use fabriscope_units::Bytes;

use crate::blocks::{Blocks, Vector};
use crate::names::Name;
use crate::piece::{Buffer, Piece};
use crate::round::{Round, Rounds};
use crate::{bcast, gather};

/// How the blocks travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// Around a ring.
    Ring,
    /// Twice as many a round, with ranks that differ in one bit.
    RecursiveDoubling,
    /// Twice as many a round, with ranks at a distance.
    Bruck,
    /// Two blocks a round, with both neighbours in turn; a ring where the number of ranks is odd.
    Neighbour,
    /// To everybody, so many messages at a time; 0 is all at once.
    Linear {
        /// Sends, and as many receives.
        at_a_time: u32,
    },
    /// To rank 0, and from there to all.
    GatherBcast {
        /// To rank 0.
        gather: gather::Algorithm,
        /// From rank 0.
        bcast: bcast::Algorithm,
    },
}

const GATHER_BCAST: Algorithm =
    Algorithm::GatherBcast { gather: gather::Algorithm::KNomial { radix: 2 }, bcast: bcast::Algorithm::KNomial { radix: 2 } };

impl Algorithm {
    /// Each with its usual parameters.
    pub const ALL: [Algorithm; 6] = [
        Algorithm::Ring,
        Algorithm::RecursiveDoubling,
        Algorithm::Bruck,
        Algorithm::Neighbour,
        Algorithm::Linear { at_a_time: 0 },
        GATHER_BCAST,
    ];
    /// What [`Algorithm::named`] reads.
    pub const NAMES: &str = "ring, recursive_doubling, bruck, neighbour, linear(at_a_time), gather_bcast(gather, bcast)";

    /// The algorithm of this name.
    #[must_use]
    pub fn named(text: &str) -> Option<Algorithm> {
        let mut name = Name::read(text)?;
        let algorithm = match name.word {
            "ring" => Algorithm::Ring,
            "recursive_doubling" => Algorithm::RecursiveDoubling,
            "bruck" => Algorithm::Bruck,
            "neighbour" => Algorithm::Neighbour,
            "linear" => Algorithm::Linear { at_a_time: name.number(0, 0)? },
            "gather_bcast" => {
                let gather = name.inner(gather::Algorithm::named, gather::Algorithm::KNomial { radix: 2 })?;
                Algorithm::GatherBcast { gather, bcast: name.inner(bcast::Algorithm::named, bcast::Algorithm::KNomial { radix: 2 })? }
            }
            _ => return None,
        };
        name.end(algorithm)
    }

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

    /// The rounds where a rank's block lies at `own`: in its place, or for algorithms that bring it there, anywhere.
    fn from(self, own: Piece, rank: u32, blocks: Blocks) -> Rounds {
        let ranks = blocks.ranks();
        match self {
            Algorithm::RecursiveDoubling => Box::new(recursive_doubling::rounds(rank, blocks)),
            Algorithm::Bruck => Box::new(bruck::rounds(rank, blocks, own)),
            Algorithm::Neighbour if ranks.is_multiple_of(2) => Box::new(neighbour::rounds(rank, blocks)),
            Algorithm::Ring | Algorithm::Neighbour => Box::new(ring::rounds(rank, blocks)),
            Algorithm::Linear { at_a_time } => Box::new(linear::rounds(rank, blocks, at_a_time)),
            Algorithm::GatherBcast { gather, bcast } => {
                let all = Vector { count: blocks.total().0, width: Bytes(1) };
                Box::new(gather.from(own, rank, 0, blocks).chain(bcast.rounds(rank, ranks, 0, all)))
            }
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Algorithm::Ring => f.write_str("ring"),
            Algorithm::RecursiveDoubling => f.write_str("recursive_doubling"),
            Algorithm::Bruck => f.write_str("bruck"),
            Algorithm::Neighbour => f.write_str("neighbour"),
            Algorithm::Linear { at_a_time } => write!(f, "linear({at_a_time})"),
            Algorithm::GatherBcast { gather, bcast } => write!(f, "gather_bcast({gather}, {bcast})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Operation;
    use crate::proof::{Proof, prove};

    fn algorithms() -> impl Iterator<Item = Algorithm> {
        let gather = gather::Algorithm::LinearSync { segment: Bytes(3) };
        let bcast = bcast::Algorithm::SplitBinary { segment: Bytes(3) };
        Algorithm::ALL.into_iter().chain([Algorithm::Linear { at_a_time: 5 }, Algorithm::GatherBcast { gather, bcast }])
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
        for (algorithm, ranks) in algorithms().flat_map(|algorithm| (1..=64u32).map(move |ranks| (algorithm, ranks))) {
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
        assert_eq!(Algorithm::named("gather_bcast"), Some(GATHER_BCAST));
        assert_eq!(GATHER_BCAST.to_string(), "gather_bcast(k_nomial(2), k_nomial(2))");
        assert_eq!([Algorithm::named("ring(2)"), Algorithm::named("gather_bcast(ring)"), Algorithm::named("star")], [None; 3]);
    }
}
