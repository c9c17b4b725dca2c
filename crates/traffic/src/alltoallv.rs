//! `MPI_Alltoallv`: every rank has a message of its own length for every other.
//!
//! Source: MPICH 3.3, `MPIR_Alltoallv_intra_scattered` (MVAPICH2 uses the same): receives and sends are posted for a block of
//! ranks, from the own number upwards and downwards, and all of them are waited for before the next block.
//! Modelled: one exchange that is not measured, and as many as asked for, each when the one before has ended at its rank.
//! Not modelled: the copy of a rank's message to itself.

use fabriscope_schedule::{After, Builder, OpId, OpKind, Schedule, ScheduleError};
use fabriscope_units::Bytes;

/// Exchanges one after the other.
#[derive(Debug, Clone)]
pub struct Exchanges {
    /// What the ranks do.
    pub schedule: Schedule,
    /// The operation with which each exchange ends, the one that is not measured first; the same numbers at every rank.
    pub ends: Vec<OpId>,
}

/// `1 + iterations` exchanges; the message from rank *r* to rank *d* has length number (*r* + *d*) mod *n* of `lengths`.
///
/// # Errors
/// No ranks, or more operations than can be numbered.
pub fn alltoallv(ranks: u32, lengths: &[Bytes], iterations: u32) -> Result<Exchanges, ScheduleError> {
    let mut builder = Builder::new(ranks);
    let length = |a: u32, b: u32| match lengths {
        [] => Bytes::ZERO,
        lengths => lengths[((u64::from(a) + u64::from(b)) % lengths.len() as u64) as usize],
    };
    let mut ends = Vec::new();
    let mut posted = Vec::with_capacity(2 * BLOCK as usize);
    for rank in 0..ranks {
        let mut last: Option<After> = None;
        ends.clear();
        for tag in 0..=iterations {
            for first in (0..ranks).step_by(BLOCK as usize) {
                posted.clear();
                let block = first.max(1)..(first + BLOCK).min(ranks);
                for from in block.clone().map(|step| (rank + step) % ranks) {
                    let recv = OpKind::Recv { from, bytes: length(from, rank), tag };
                    posted.push(builder.op_after(rank, recv, last.as_slice()));
                }
                for to in block.map(|step| (rank + ranks - step) % ranks) {
                    let send = OpKind::Send { to, bytes: length(rank, to), tag };
                    posted.push(builder.op_after(rank, send, last.as_slice()));
                }
                last = Some(After::End(builder.join(rank, &posted)));
            }
            ends.extend(last.map(After::op));
        }
    }
    Ok(Exchanges { schedule: builder.build()?, ends })
}

/// Receives and sends that are posted at a time. Basis: published, MPIR_CVAR_ALLTOALL_THROTTLE of MPICH.
const BLOCK: u32 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_sends_to_everybody_once_in_each_exchange() {
        for (ranks, iterations) in [(2, 1), (33, 2), (70, 0)] {
            let lengths = [Bytes(4), Bytes(100), Bytes(7)];
            let Exchanges { schedule, ends } = alltoallv(ranks, &lengths, iterations).unwrap();
            let stats = schedule.stats();
            let (n, rounds) = (u64::from(ranks), u64::from(iterations) + 1);
            assert_eq!((stats.sends, ends.len() as u64), (rounds * n * (n - 1), rounds));
            let bytes: u64 = (0..n).flat_map(|r| (0..n).filter(move |d| *d != r).map(move |d| lengths[((r + d) % 3) as usize].0)).sum();
            assert_eq!(stats.bytes.0, rounds * bytes);
            for rank in 0..ranks {
                assert_eq!(schedule.kinds(rank).len() as u32, ends[ends.len() - 1].0 + 1, "the last operation ends the last exchange");
                assert!(ends.iter().all(|end| matches!(schedule.op(rank, *end).unwrap().kind, OpKind::Compute { .. })));
            }
        }
    }
}
