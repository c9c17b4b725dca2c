//! `MPI_Barrier`: nobody leaves before everybody has come.

pub(crate) mod tree;

use crate::registry::algorithms;
use crate::round::Round;
use crate::tree::FLAT;

algorithms! {
    /// How ranks hear of each other.
    enum Algorithm;
    /// The rounds of `rank` among `ranks`.
    #[must_use]
    pub fn rounds(rank: u32, ranks: u32);

    /// To ranks ever further away, around: ⌈log_radix n⌉ rounds.
    [mod dissemination] Dissemination {
        /// 2 or more; a rank sends `radix` − 1 messages a round.
        radix: u32 = 2, number(2)
    } = "dissemination" => dissemination::rounds(rank, ranks, radix);
    /// With ranks that differ in one bit.
    [mod recursive_doubling] RecursiveDoubling = "recursive_doubling" => recursive_doubling::rounds(rank, ranks);
    /// Up a k-nomial tree to rank 0 and down again.
    Tree {
        /// 2 or more.
        radix: u32 = 2, number(2)
    } = "tree" => tree::rounds(rank, ranks, radix);
    /// All tell rank 0, which tells all.
    Linear = "linear" => tree::rounds(rank, ranks, ranks);
    /// Up a k-nomial tree and down again through slots of memory that the ranks of a node share.
    Slots {
        /// 2 or more; [`FLAT`]: rank 0 reads the slots of all, and all read its own.
        radix: u32 = FLAT, number(2), unless FLAT
    } = "slots" => tree::rounds(rank, ranks, radix).map(Round::in_slots);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Operation;
    use crate::proof::prove;
    use crate::rank_counts::rank_counts;

    fn algorithms() -> impl Iterator<Item = Algorithm> {
        let radices = [3, 4, 7]
            .into_iter()
            .flat_map(|radix| [Algorithm::Dissemination { radix }, Algorithm::Tree { radix }, Algorithm::Slots { radix }]);
        Algorithm::ALL.iter().copied().chain(radices)
    }

    /// With d = ⌈log_radix n⌉: dissemination d rounds; a tree d at the root each way; recursive doubling ⌊log₂ n⌋ and two.
    #[test]
    fn nobody_leaves_early() {
        for (algorithm, ranks) in algorithms().flat_map(|algorithm| rank_counts().map(move |ranks| (algorithm, ranks))) {
            let proof = prove(&Operation::Barrier, ranks, |rank| algorithm.rounds(rank, ranks)).unwrap();
            let digits = |radix: u32| (0..).find(|digits| u64::from(radix).pow(*digits) >= u64::from(ranks)).unwrap();
            let (rounds, messages) = match algorithm {
                Algorithm::Dissemination { radix } => (digits(radix), None),
                Algorithm::RecursiveDoubling => (ranks.ilog2() + if ranks.is_power_of_two() { 0 } else { 2 }, None),
                Algorithm::Tree { radix } | Algorithm::Slots { radix } => (2 * digits(radix), Some(2 * (ranks - 1))),
                Algorithm::Linear => (2 * u32::from(ranks > 1), Some(2 * (ranks - 1))),
            };
            assert_eq!(proof.rounds, rounds, "{algorithm}, {ranks} ranks");
            assert!(messages.is_none_or(|messages| proof.messages == u64::from(messages)), "{algorithm}, {ranks} ranks");
        }
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for algorithm in algorithms() {
            assert_eq!(Algorithm::named(&algorithm.to_string()), Some(algorithm));
        }
        assert_eq!(Algorithm::named("tree"), Some(Algorithm::Tree { radix: 2 }));
        assert_eq!([Algorithm::named("tree(1)"), Algorithm::named("linear(2)"), Algorithm::named("ring")], [None; 3]);
    }
}
