//! All-reduce as plain traffic: ring, and recursive doubling. Reductions take no time here, and steps wait for data alone.
//!
//! Source and algorithms: [`fabriscope_collectives::allreduce`].

use fabriscope_collectives::allreduce::Algorithm;
use fabriscope_collectives::{Vector, data_schedule};
use fabriscope_schedule::{Schedule, ScheduleError};
use fabriscope_units::Bytes;

/// Ring all-reduce of `bytes` per rank: n - 1 steps of reduce-scatter and n - 1 of all-gather, each with the n-th part.
///
/// # Errors
/// No ranks, or more operations than can be numbered.
pub fn ring_all_reduce(ranks: u32, bytes: Bytes) -> Result<Schedule, ScheduleError> {
    all_reduce(Algorithm::Ring, ranks, bytes)
}

/// Recursive doubling all-reduce of `bytes` per rank: in step k rank r exchanges all of it with rank r xor 2^k.
///
/// Of ranks beyond a power of two, the first pairs fold: the even one of each gives its part to the odd one before, and
/// gets the result after.
///
/// # Errors
/// No ranks, or more operations than can be numbered.
pub fn recursive_doubling(ranks: u32, bytes: Bytes) -> Result<Schedule, ScheduleError> {
    all_reduce(Algorithm::RecursiveDoubling, ranks, bytes)
}

fn all_reduce(algorithm: Algorithm, ranks: u32, bytes: Bytes) -> Result<Schedule, ScheduleError> {
    data_schedule(ranks, |rank| algorithm.rounds(rank, ranks, Vector { count: bytes.0, width: Bytes(1) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_moves_twice_the_data_but_one_part() {
        // 2 (n - 1) / n of the buffer leaves every rank: 2 · 3 / 4 of 1000 B, for four ranks 6000 B.
        let stats = ring_all_reduce(4, Bytes(1000)).unwrap().stats();
        assert_eq!((stats.messages, stats.bytes), (4 * 6, Bytes(6000)));
        assert_eq!(ring_all_reduce(1, Bytes(1000)).unwrap().stats().messages, 0);
        // Parts of unequal length: 10 B over 4 ranks are 3, 3, 2, 2.
        assert_eq!(ring_all_reduce(4, Bytes(10)).unwrap().stats().bytes, Bytes(60));
    }

    #[test]
    fn doubling_takes_log_n_rounds_and_folds_the_rest() {
        // 8 ranks, 3 rounds. 11 ranks: 3 fold in and out, 8 · 3 in between.
        assert_eq!(recursive_doubling(8, Bytes(64)).unwrap().stats().messages, 24);
        assert_eq!(recursive_doubling(11, Bytes(64)).unwrap().stats().messages, 2 * 3 + 24);
        assert_eq!(recursive_doubling(1, Bytes(64)).unwrap().stats().messages, 0);
        assert_eq!(recursive_doubling(2, Bytes(64)).unwrap().stats().messages, 2);
    }
}
