//! Bruck's algorithm: in round k every rank sends the blocks whose distance has bit k to the rank 2^k further.
//!
//! Source: J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby, "Efficient Algorithms for All-to-All Communications in
//! Multiport Message-Passing Systems", IEEE TPDS 8(11), 1997; the copies as in MPICH (alltoall_intra_brucks.c): a rotation of
//! two pieces, packing and unpacking of each round's blocks, a rotation and the reversal of all blocks.
//! Modelled: the rounds and their copies. Not modelled: other radices than 2.

use fabriscope_units::Bytes;

use crate::round::{Copies, Message, Round};

/// Rounds of `ranks` ranks: log₂ of it, rounded up; one for a rank alone, which copies.
pub(super) fn rounds(ranks: u32) -> u32 {
    ranks.next_power_of_two().trailing_zeros().max(1)
}

pub(super) fn round(index: u32, rank: u32, ranks: u32, size: Bytes) -> Round {
    let distance = 1 << index;
    let blocks = with_bit(index, ranks);
    let packed = Copies { blocks, bytes: size * blocks };
    let whole = |pieces: u64| Copies { blocks: pieces, bytes: size * u64::from(ranks) };
    let mut round = Round { before: packed, after: packed, ..Round::default() };
    if blocks > 0 {
        round.receives.push(Message { peer: (rank + ranks - distance) % ranks, bytes: packed.bytes });
        round.sends.push(Message { peer: (rank + distance) % ranks, bytes: packed.bytes });
    }
    if index == 0 {
        round.before = join(whole(2), round.before);
    }
    if index + 1 == rounds(ranks) {
        round.after = join(round.after, join(whole(2), whole(ranks.into())));
    }
    round
}

/// How many of the distances below `ranks` have bit `index`.
fn with_bit(index: u32, ranks: u32) -> u64 {
    (0..ranks).filter(|distance| distance >> index & 1 == 1).count() as u64
}

fn join(a: Copies, b: Copies) -> Copies {
    Copies { blocks: a.blocks + b.blocks, bytes: a.bytes + b.bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block for the rank at distance d takes the rounds of the bits of d, whose distances add up to d.
    #[test]
    fn blocks_reach_their_ranks() {
        for ranks in [1u32, 2, 3, 5, 8, 12, 17, 64] {
            // By rank: (origin, destination) of what it holds.
            let mut held: Vec<Vec<(u32, u32)>> = (0..ranks).map(|r| (0..ranks).map(|d| (r, (r + d) % ranks)).collect()).collect();
            for index in 0..rounds(ranks) {
                let mut next = vec![Vec::new(); ranks as usize];
                for rank in 0..ranks {
                    let sends = round(index, rank, ranks, Bytes(1)).sends;
                    let (go, stay): (Vec<_>, Vec<_>) =
                        held[rank as usize].iter().copied().partition(|(from, to)| ((to + ranks - from) % ranks) >> index & 1 == 1);
                    assert_eq!(go.len() as u64, sends.first().map_or(0, |m| m.bytes.0));
                    next[rank as usize].extend(stay);
                    if let Some(message) = sends.first() {
                        next[message.peer as usize].extend(go);
                    }
                }
                held = next;
            }
            for (rank, blocks) in held.iter().enumerate() {
                assert!(blocks.len() as u32 == ranks && blocks.iter().all(|(_, to)| *to == rank as u32), "{ranks} ranks");
            }
        }
    }
}
