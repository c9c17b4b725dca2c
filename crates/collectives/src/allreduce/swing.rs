//! Swing: a reduce-scatter by halves and the way back, whose partners swing from side to side: 1, 1, 3, 5, 11, … ranks away.
//!
//! ```text
//!  partner of r in step s = r + ρ_s (r even), r − ρ_s (r odd), modulo n;   ρ_s = 1 − 2 + 4 − … = (1 − (−2)^(s+1)) / 3
//! ```
//!
//! On a ring or torus partners are nearer than those of recursive doubling, so that fewer messages share a link.
//! All partners of later steps differ from r by ρ_s modulo 2^(s+1) one way or the other, so what two ranks divide in step s depends on
//! the even one of the two numbers modulo 2^(s+1) alone. Its bits, the lowest first, and the parity are the number of the block
//! with which a rank ends: halves are pieces side by side.
//!
//! Source: D. De Sensi, T. Bonato, D. Saam, T. Hoefler, "Swing: Short-cutting Rings for Higher Bandwidth Allreduce", NSDI 2024, §3
//! (the bandwidth-optimal variant).
//! Modelled: one dimension; ranks beyond a power of two, which fold in pairs. Not modelled: a part of the vector for each
//! dimension of a torus and direction of its rings; the paper's own treatment of other numbers of ranks.

use std::ops::Range;

use crate::blocks::Vector;
use crate::fold::Fold;
use crate::halving::Share;
use crate::piece::Buffer;
use crate::reduction::begin;
use crate::round::Round;

pub(super) fn rounds(rank: u32, ranks: u32, vector: Vector) -> impl Iterator<Item = Round> {
    let fold = Fold::new(ranks, 2);
    let acc = vector.whole(Buffer::Recv);
    let exchange = move |number: u32| {
        let (blocks, steps) = (vector.blocks(fold.power()), fold.steps());
        let share = move |step| {
            let partner = partner(number, step, steps);
            let [own, theirs] = [number, partner].map(|number| {
                let kept = kept(number, step + 1, steps);
                blocks.pieces(Buffer::Recv, kept.start, kept.end)
            });
            Share { rank: fold.rank(number), partner: fold.rank(partner), own, theirs }
        };
        let scatter = (0..steps).map(share.clone()).map(Share::reduce);
        scatter.chain((0..steps).rev().map(share).map(|share| share.gather()))
    };
    std::iter::once(begin(vector.whole(Buffer::Send), acc))
        .chain(fold.join(rank, acc))
        .chain(fold.stays(rank).into_iter().flat_map(exchange))
        .chain(fold.spread(rank, acc))
}

/// ρ of a step, modulo 2³².
fn rho(step: u32) -> u32 {
    (0..=step).fold(0u32, |sum, power| if power % 2 == 0 { sum.wrapping_add(1 << power) } else { sum.wrapping_sub(1 << power) })
}

/// The partner of `number` among 2^`steps`.
fn partner(number: u32, step: u32, steps: u32) -> u32 {
    let rho = rho(step);
    let partner = if number.is_multiple_of(2) { number.wrapping_add(rho) } else { number.wrapping_sub(rho) };
    partner & ((1 << steps) - 1)
}

/// The block with which `number` ends, of 2^`steps`.
fn block(number: u32, steps: u32) -> u32 {
    let Some(last) = steps.checked_sub(1) else { return 0 };
    let even = if number.is_multiple_of(2) { number } else { partner(number, last, steps) };
    // Without its parity, read backwards.
    let reversed = if last == 0 { 0 } else { (even >> 1).reverse_bits() >> (u32::BITS - last) };
    reversed << 1 | number & 1
}

/// The blocks that `number` has after `done` steps.
fn kept(number: u32, done: u32, steps: u32) -> Range<u32> {
    let length = 1 << (steps - done);
    let first = block(number, steps) & !(length - 1);
    first..first + length
}

#[cfg(test)]
mod tests {
    use super::super::Algorithm;
    use super::*;
    use crate::Operation;
    use crate::reduction::tests::proved;
    use fabriscope_units::Bytes;

    /// Figure 1 of the paper: ranks 0 and 1 of 16 meet 1, 15, 3, 11 and 0, 2, 14, 6.
    #[test]
    fn partners_swing() {
        assert_eq!([0, 1, 2, 3].map(|step| partner(0, step, 4)), [1, 15, 3, 11]);
        assert_eq!([0, 1, 2, 3].map(|step| partner(1, step, 4)), [0, 2, 14, 6]);
        for (number, step) in (0..1024).flat_map(|number| (0..10).map(move |step| (number, step))) {
            assert_eq!(partner(partner(number, step, 10), step, 10), number);
        }
    }

    /// Partners have the same blocks before a step and divide them by it.
    #[test]
    fn partners_halve_what_both_have() {
        for (steps, number) in (1..=10u32).flat_map(|steps| (0..1 << steps).map(move |number| (steps, number))) {
            for step in 0..steps {
                let partner = partner(number, step, steps);
                let (own, theirs) = (kept(number, step + 1, steps), kept(partner, step + 1, steps));
                assert_eq!(kept(number, step, steps), kept(partner, step, steps));
                assert!(own.end == theirs.start || theirs.end == own.start, "{number} of 2^{steps}, step {step}: {own:?}, {theirs:?}");
            }
        }
    }

    /// 2 log₂ n rounds, in which 2 (n - 1) / n of the bytes leave every rank and (n - 1) / n are reduced there.
    #[test]
    fn bandwidth_is_optimal() {
        for ranks in [2u32, 4, 8, 16, 32, 64] {
            let vector = Vector { count: 128, width: Bytes(4) };
            let operation = Operation::Allreduce { blocks: vector.blocks(ranks) };
            let proof = proved(&operation, ranks, vector.width, |rank| Algorithm::Swing.rounds(rank, ranks, vector));
            let part = Bytes(vector.bytes().0 / u64::from(ranks) * u64::from(ranks - 1));
            assert_eq!((proof.rounds, proof.most_sent, proof.most_reduced), (2 * ranks.ilog2(), part * 2, part), "{ranks} ranks");
        }
    }
}
