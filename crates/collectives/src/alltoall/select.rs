//! Which algorithm a library takes.
//!
//! Source: MPICH, MPIR_CVAR_ALLTOALL_SHORT_MSG_SIZE, _MEDIUM_MSG_SIZE, _THROTTLE; Open MPI, coll_tuned_decision_fixed.c. Both
//! decide by the size of a block and the number of ranks, in three ranges.

use fabriscope_units::Bytes;

use super::Algorithm;

/// The limits of a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Blocks up to this go by Bruck's algorithm,
    pub bruck_limit: Bytes,
    /// from so many ranks on.
    pub bruck_ranks: u32,
    /// Blocks up to this are posted,
    pub posted_limit: Bytes,
    /// so many at a time; 0 is all.
    pub at_a_time: u32,
    /// Larger ones go pairwise; by exclusive or where that is possible.
    pub exclusive_or: bool,
}

impl Rules {
    /// The algorithm for blocks of `size` among `ranks`.
    #[must_use]
    pub fn select(&self, ranks: u32, size: Bytes) -> Algorithm {
        if size <= self.bruck_limit && ranks >= self.bruck_ranks {
            Algorithm::Bruck
        } else if size <= self.posted_limit {
            Algorithm::Posted { at_a_time: self.at_a_time }
        } else {
            Algorithm::Pairwise { exclusive_or: self.exclusive_or }
        }
    }
    /// The algorithm of this name, with the library's own ways.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<Algorithm> {
        match name {
            "bruck" => Some(Algorithm::Bruck),
            "posted" => Some(Algorithm::Posted { at_a_time: self.at_a_time }),
            "pairwise" => Some(Algorithm::Pairwise { exclusive_or: self.exclusive_or }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_mpich() {
        let rules = Rules { bruck_limit: Bytes(256), bruck_ranks: 8, posted_limit: Bytes(32768), at_a_time: 32, exclusive_or: true };
        let at = |ranks, size| rules.select(ranks, Bytes(size)).to_string();
        assert_eq!([at(8, 256), at(7, 8), at(8, 257), at(64, 32768), at(64, 32769)], ["bruck", "posted", "posted", "posted", "pairwise"]);
        for name in ["bruck", "posted", "pairwise"] {
            assert_eq!(rules.named(name).unwrap().to_string(), name);
        }
        assert_eq!(rules.named("ring"), None);
    }
}
