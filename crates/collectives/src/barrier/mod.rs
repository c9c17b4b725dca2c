//! `MPI_Barrier`: nobody leaves before everybody has come.

mod dissemination;
mod recursive_doubling;
pub(crate) mod tree;

use std::fmt;

use crate::names::Name;
use crate::round::{Round, Rounds};
use crate::tree::{FLAT, slots};

/// How ranks hear of each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// To ranks ever further away, around: ⌈log_radix n⌉ rounds.
    Dissemination {
        /// 2 or more; a rank sends `radix` − 1 messages a round.
        radix: u32,
    },
    /// With ranks that differ in one bit.
    RecursiveDoubling,
    /// Up a k-nomial tree to rank 0 and down again.
    Tree {
        /// 2 or more.
        radix: u32,
    },
    /// All tell rank 0, which tells all.
    Linear,
    /// Up a k-nomial tree and down again through slots of memory that the ranks of a node share.
    Slots {
        /// 2 or more; [`FLAT`]: rank 0 reads the slots of all, and all read its own.
        radix: u32,
    },
}

impl Algorithm {
    /// Each with its usual parameters.
    pub const ALL: [Algorithm; 5] = [
        Algorithm::Dissemination { radix: 2 },
        Algorithm::RecursiveDoubling,
        Algorithm::Tree { radix: 2 },
        Algorithm::Linear,
        Algorithm::Slots { radix: FLAT },
    ];
    /// What [`Algorithm::named`] reads.
    pub const NAMES: &str = "dissemination(radix), recursive_doubling, tree(radix), linear, slots(radix)";

    /// The algorithm of this name.
    #[must_use]
    pub fn named(text: &str) -> Option<Algorithm> {
        let mut name = Name::read(text)?;
        let algorithm = match name.word {
            "dissemination" => Algorithm::Dissemination { radix: name.number(2, 2)? },
            "recursive_doubling" => Algorithm::RecursiveDoubling,
            "tree" => Algorithm::Tree { radix: name.number(2, 2)? },
            "linear" => Algorithm::Linear,
            "slots" => Algorithm::Slots { radix: name.number(2, FLAT)? },
            _ => return None,
        };
        name.end(algorithm)
    }

    /// The rounds of `rank` among `ranks`.
    #[must_use]
    pub fn rounds(self, rank: u32, ranks: u32) -> Rounds {
        let tree = |radix: u32| Box::new(tree::up(rank, ranks, radix).chain(tree::down(rank, ranks, radix)));
        match self {
            Algorithm::Dissemination { radix } => Box::new(dissemination::rounds(rank, ranks, radix)),
            Algorithm::RecursiveDoubling => Box::new(recursive_doubling::rounds(rank, ranks)),
            Algorithm::Tree { radix } => tree(radix),
            Algorithm::Linear => tree(ranks),
            Algorithm::Slots { radix } => Box::new(tree(radix).map(Round::in_slots)),
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Algorithm::Dissemination { radix } => write!(f, "dissemination({radix})"),
            Algorithm::RecursiveDoubling => f.write_str("recursive_doubling"),
            Algorithm::Tree { radix } => write!(f, "tree({radix})"),
            Algorithm::Linear => f.write_str("linear"),
            Algorithm::Slots { radix } => slots(*radix, f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Operation;
    use crate::proof::prove;

    fn algorithms() -> impl Iterator<Item = Algorithm> {
        let radices = [3, 4, 7]
            .into_iter()
            .flat_map(|radix| [Algorithm::Dissemination { radix }, Algorithm::Tree { radix }, Algorithm::Slots { radix }]);
        Algorithm::ALL.into_iter().chain(radices)
    }

    /// With d = ⌈log_radix n⌉: dissemination d rounds; a tree d at the root each way; recursive doubling ⌊log₂ n⌋ and two.
    #[test]
    fn nobody_leaves_early() {
        for (algorithm, ranks) in algorithms().flat_map(|algorithm| (1..=64u32).map(move |ranks| (algorithm, ranks))) {
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
