//! Payload that an adapter takes from, or brings to, memory beyond its own link: that of a GPU (GPUDirect RDMA), or of another socket.
//!
//! Source: docs/models/gpudirect.md; S. Potluri et al., "Efficient Inter-node MPI Communication using GPUDirect RDMA for InfiniBand
//! Clusters with NVIDIA GPUs", ICPP 2013 (limits of host bridges for peers, other ones for reads than for writes).
//! Modelled: links and limits on the way as serial resources that all adapters of the node share, cut through from hop to hop; what copies
//! by GPUs leave of them ([`crate::traffic`]); other latencies of reads and writes than those of host memory.
//! Not modelled: access control (ACS), translation.
//!
//! ```text
//!   memory ── hop ── hop ──┬── own link ── adapter 0      end = max over hops (max(now, free) + time), free of each on its own
//!                          └── own link ── adapter 1
//! ```
//! Every hop counts the time at which a transfer is asked for, not that at which its bytes pass: transfers with ways of different
//! lengths then take their turns in the order in which they were asked for.

use std::sync::Arc;

use fabriscope_machine::{Access, Use};
use fabriscope_units::{Bytes, Rate, Span, Time};

use crate::traffic::Meeting;

/// A hop of a way, and how fast payload crosses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// Its number in the node: a direction of a link, or a limit.
    pub hop: u16,
    /// Payload alone: what framing takes is taken off.
    pub rate: Rate,
}

/// The way between an adapter and a memory, but for the adapter's own link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DmaPath {
    /// For people: `gpu0 through switch0 (GPUDirect)`.
    pub title: String,
    /// From asking until the first byte of a read is in the adapter.
    pub read_latency: Span,
    /// From the last byte of a write leaving the adapter until it can be seen.
    pub write_latency: Span,
    /// What reads cross.
    pub reads: Vec<Crossing>,
    /// What writes cross.
    pub writes: Vec<Crossing>,
    /// What a byte read, and one written, takes of the node beside the adapter's own link.
    pub takes: [Arc<[Use]>; 2],
    /// What that link carries of payload that is read, and that is written.
    pub own: [Rate; 2],
}

/// A way with the state of the node's hops: when each is free.
#[derive(Debug)]
pub struct DmaHops<'a> {
    /// The way.
    pub path: &'a DmaPath,
    /// By number of the hop.
    pub hops: &'a mut [Time],
    /// The copies by GPUs that it meets, where there can be any.
    pub meeting: Option<Meeting<'a>>,
}

impl DmaHops<'_> {
    /// When the last of `amount` bytes that are asked for at `now` has passed all hops, not counting latency.
    pub(crate) fn read(&mut self, now: Time, amount: Bytes) -> Time {
        let passed = cross(&self.path.reads, self.hops, now, amount);
        self.meet(Access::Read, now, amount, passed)
    }
    /// The same of bytes that are written.
    pub(crate) fn write(&mut self, now: Time, amount: Bytes) -> Time {
        let passed = cross(&self.path.writes, self.hops, now, amount);
        self.meet(Access::Write, now, amount, passed)
    }
    fn meet(&mut self, access: Access, now: Time, amount: Bytes, passed: Time) -> Time {
        match &mut self.meeting {
            Some(meeting) => passed.max(meeting.pass(self.path, access, now, amount)),
            None => passed,
        }
    }
}

fn cross(crossings: &[Crossing], hops: &mut [Time], now: Time, amount: Bytes) -> Time {
    crossings.iter().fold(now, |end, crossing| {
        let free = &mut hops[usize::from(crossing.hop)];
        *free = now.max(*free) + crossing.rate.time(amount);
        end.max(*free)
    })
}
