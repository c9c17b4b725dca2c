//! What is in the slices: a number that stands for the elements, so that a run can be checked as nccl-tests check theirs.
//!
//! An element at a place of rank *r*'s input is `key(place) · factor(r)`, modulo 2⁶⁴: products of places are added up by reductions as their
//! elements are, and a contribution that is missing, comes twice or to another place leaves another number.
//! Modelled: every contribution to every slice of output, with what came over links and adapters on the way.
//! Not modelled: rounding.

use fabriscope_nccl::{Operation, Plan, Step};
use fabriscope_streams::{GOLDEN, mix};
use fabriscope_units::Bytes;

/// What a step adds, and what has to be there afterwards where it keeps its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Contents {
    /// The own data.
    pub adds: u64,
    /// The result.
    pub expects: Option<u64>,
}

/// What the elements of all ranks at a place are together, by that of the place.
pub(super) fn of_all(ranks: u32) -> u64 {
    (0..ranks).fold(0, |sum: u64, rank| sum.wrapping_add(factor(rank)))
}

/// Contents of a slice of a step, `offset` bytes into its chunk; `all` of [`of_all`].
pub(super) fn of_step(plan: &Plan, rank: u32, all: u64, step: &Step, offset: Bytes) -> Contents {
    let block = plan.block.0;
    let placed = |at: Bytes| {
        let at = at.0 + offset.0;
        if plan.in_place { at - block * u64::from(rank) } else { at }
    };
    let input = |at: Bytes| match plan.choice.operation {
        Operation::AllGather => element(rank, placed(at)),
        _ => element(rank, at.0 + offset.0),
    };
    let output = |at: Bytes| match plan.choice.operation {
        Operation::AllReduce | Operation::Reduce => key(at.0 + offset.0).wrapping_mul(all),
        Operation::Broadcast => element(plan.root, at.0 + offset.0),
        Operation::ReduceScatter => key(block * u64::from(rank) + placed(at)).wrapping_mul(all),
        Operation::AllGather => {
            let at = at.0 + offset.0;
            element((at / block.max(1)) as u32, at % block.max(1))
        }
    };
    Contents { adds: step.input.map_or(0, input), expects: step.output.map(output) }
}

/// Contents of a chunk that `from` sends to `to`, `offset` bytes into the message.
pub(super) fn of_message(from: u32, to: u32, offset: Bytes, sends: bool) -> Contents {
    let value = element(from, offset.0).wrapping_add(key(u64::from(to)));
    if sends { Contents { adds: value, expects: None } } else { Contents { adds: 0, expects: Some(value) } }
}

fn element(rank: u32, place: u64) -> u64 {
    key(place).wrapping_mul(factor(rank))
}
fn factor(rank: u32) -> u64 {
    key(u64::from(rank) ^ (1 << 63)) | 1
}
/// A number without pattern for each place.
fn key(place: u64) -> u64 {
    mix(place.wrapping_add(GOLDEN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_shows_what_is_missing_double_or_misplaced() {
        let whole = (0..64).fold(0, |sum: u64, rank| sum.wrapping_add(element(rank, 4096)));
        assert_eq!(whole, key(4096).wrapping_mul(of_all(64)));
        for rank in 0..64 {
            let own = element(rank, 4096);
            assert_ne!(whole.wrapping_sub(own), whole);
            assert_ne!(whole.wrapping_add(own), whole);
            assert_ne!(whole.wrapping_sub(own).wrapping_add(element(rank, 8192)), whole);
        }
        assert_ne!(of_message(1, 2, Bytes(0), true).adds, of_message(2, 1, Bytes(0), true).adds);
        assert_eq!(Some(of_message(1, 2, Bytes(7), true).adds), of_message(1, 2, Bytes(7), false).expects);
    }
}
