//! Sends and receives to all ranks, posted before anything is waited for.
//!
//! Source: MPICH, alltoall_intra_scattered.c (so many at a time, partners in the order of their distance); Open MPI,
//! coll_base_alltoall.c, basic linear (all at once).

use fabriscope_units::Bytes;

use crate::round::{Copies, Message, Round};

pub(super) fn rounds(ranks: u32, at_a_time: u32) -> u32 {
    ranks.div_ceil(batch(ranks, at_a_time))
}

pub(super) fn round(index: u32, at_a_time: u32, rank: u32, ranks: u32, size: Bytes) -> Round {
    let batch = batch(ranks, at_a_time);
    let distances = index * batch..((index + 1) * batch).min(ranks);
    let message = |peer: u32| (peer != rank).then_some(Message { peer, bytes: size });
    Round {
        before: if index == 0 { Copies { blocks: 1, bytes: size } } else { Copies::default() },
        receives: distances.clone().filter_map(|distance| message((rank + distance) % ranks)).collect(),
        sends: distances.filter_map(|distance| message((rank + ranks - distance) % ranks)).collect(),
        after: Copies::default(),
    }
}

fn batch(ranks: u32, at_a_time: u32) -> u32 {
    if at_a_time == 0 { ranks.max(1) } else { at_a_time }
}
