//! All-reduce as plain traffic: ring, and recursive doubling. Reductions take no time here.
//!
//! Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in MPICH", Int. J.
//! High Perform. Comput. Appl. 19(1), 2005, §4.4–4.5 (ring; recursive doubling, with the first ranks folded in pairs where
//! their number is no power of two).

use fabriscope_schedule::{After, Builder, OpKind, Schedule, ScheduleError};
use fabriscope_units::Bytes;

/// Ring all-reduce of `bytes` per rank: n - 1 steps of reduce-scatter and n - 1 of all-gather, each with the n-th part.
///
/// # Errors
/// No ranks, or more operations than can be numbered.
pub fn ring_all_reduce(ranks: u32, bytes: Bytes) -> Result<Schedule, ScheduleError> {
    let mut builder = Builder::new(ranks);
    if ranks > 1 {
        let n = u64::from(ranks);
        let part = |index: u64| Bytes(bytes.0 / n + u64::from(index < bytes.0 % n));
        for rank in 0..ranks {
            let (next, before) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
            let mut received = None;
            for step in 0..2 * (ranks - 1) {
                // In step s rank r sends part r - s and receives part r - 1 - s, counted in a circle.
                let index = |rank: u32| (u64::from(rank) + 2 * n - u64::from(step)) % n;
                let send = OpKind::Send { to: next, bytes: part(index(rank)), tag: step };
                let recv = OpKind::Recv { from: before, bytes: part(index(before)), tag: step };
                let after: &[After] = received.as_slice();
                builder.op_after(rank, send, after);
                received = Some(After::End(builder.op_after(rank, recv, after)));
            }
        }
    }
    builder.build()
}

/// Recursive doubling all-reduce of `bytes` per rank: in step k rank r exchanges all of it with rank r xor 2^k.
///
/// Of ranks beyond a power of two, the first pairs fold: the even one of each gives its part to the odd one before, and
/// gets the result after.
///
/// # Errors
/// No ranks, or more operations than can be numbered.
pub fn recursive_doubling(ranks: u32, bytes: Bytes) -> Result<Schedule, ScheduleError> {
    let mut builder = Builder::new(ranks);
    let power = if ranks == 0 { 1 } else { 1 << ranks.ilog2() };
    let folded = ranks.saturating_sub(power);
    let steps = u32::ilog2(power);
    // Ranks by their number among those that take part: odd ones of the folded pairs, then the others.
    let rank_of = |number: u32| if number < folded { 2 * number + 1 } else { number + folded };
    for number in 0..power {
        let rank = rank_of(number);
        let mut after = None;
        if number < folded {
            builder.send(rank - 1, rank, bytes, 0);
            after = Some(After::End(builder.recv(rank, rank - 1, bytes, 0)));
            builder.recv(rank - 1, rank, bytes, steps + 1);
        }
        for step in 0..steps {
            let peer = rank_of(number ^ (1 << step));
            let before: &[After] = after.as_slice();
            builder.op_after(rank, OpKind::Send { to: peer, bytes, tag: step + 1 }, before);
            after = Some(After::End(builder.op_after(rank, OpKind::Recv { from: peer, bytes, tag: step + 1 }, before)));
        }
        if number < folded {
            let before: &[After] = after.as_slice();
            builder.op_after(rank, OpKind::Send { to: rank - 1, bytes, tag: steps + 1 }, before);
        }
    }
    builder.build()
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
