//! One-sided operations: `MPI_Put` and `MPI_Get` into a window that all ranks have exposed, and what `MPI_Win_flush` waits for.
//!
//! Source: MPI 4.1, chapter 12; J. Liu et al., "Design and Implementation of MPICH2 over InfiniBand with RDMA Support", IPDPS 2004, and UCX
//! (`ucp_put_nbx`, `ucp_get_nbx`: RDMA as it is, zero copy).
//! Modelled: a put is an RDMA write, a get an RDMA read, striped over rails as a rendezvous is; a flush waits for their completions. The
//! target's core has no part in it. Memory of GPUs through adapters that reach it. Within a node the window is shared memory: the
//! core of the origin copies.
//! Updates of a window are in `accumulate.rs`. Not modelled: windows that are created or attached while it is measured, locks that others hold, memory of GPUs that no
//! adapter reaches, or of the same node.

use fabriscope_node::ProgramError;
use fabriscope_units::Bytes;
use fabriscope_verbs::{Remote, SendFlags, SendWr, Sge};

use super::active_message::Question;
use super::buffer::Buffer;
use super::protocol::Piece;
use super::rank::Rank;
use super::request::{Carried, Request};
use super::trace::note;

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OneSided {
    /// `MPI_Put`.
    Put,
    /// `MPI_Get`.
    Get,
}

impl Rank {
    /// `MPI_Put` or `MPI_Get` of `size` bytes between a buffer `here` and the window of `target`, which is `there`. The request is done when
    /// a flush would return.
    ///
    /// # Errors
    /// No connection to `target`, or one without RDMA; memory of a GPU that no adapter reaches; a queue pair in error.
    pub fn one_sided(&self, what: OneSided, target: u32, (here, there): (Buffer, Buffer), size: u32) -> Result<Request, ProgramError> {
        if let Some(handed) = self.hand_one_sided(what, target, size) {
            return handed;
        }
        let me = self.rank();
        let state = &mut *self.state.borrow_mut();
        if state.connections.get(&target).is_some_and(|connection| connection.local) && (here, there) == (Buffer::Host, Buffer::Host) {
            let (process, begun) = (&self.process, self.process.now());
            process.compute(state.protocol.send_overhead);
            let (own, other) = (process.domain(), state.domain_of(process, target));
            let ways = if what == OneSided::Put { (own, other) } else { (other, own) };
            process.copy_between(Bytes(size.into()), Bytes(u64::MAX), ways);
            note(process, begun, &[], || {
                format!("{} by the core, in shared memory", if what == OneSided::Put { "stores" } else { "loads" })
            });
            let request = state.requests.open(target, size, here);
            state.requests.at(request).done = true;
            return Ok(Request(Carried::Own(request)));
        }
        if self.onload.is_some() || state.rails.is_empty() || state.connection(target)?.local {
            return Err(ProgramError(format!("rank {me}: no RDMA leads to rank {target}, and one-sided operations need it")));
        }
        let reaches = |buffer| buffer != Buffer::Device || state.is_near(0);
        if !reaches(here) || !reaches(there) {
            return Err(ProgramError(format!("rank {me}: no adapter reaches the memory of the GPU; one-sided operations need one")));
        }
        self.process.compute(state.protocol.send_overhead);
        state.look_at_pointer(&self.process);
        state.handle_device(&self.process, here);
        let inline = what == OneSided::Put && here == Buffer::Host && size <= state.protocol.inline_limit;
        if !inline {
            state.register(&self.process, here, size);
        }
        let request = state.requests.open(target, size, here);
        let pieces = state.pieces(target, size, here, there)?;
        state.requests.at(request).left = pieces.len() as u64;
        let make: fn(u64, Sge, Remote) -> SendWr = match what {
            OneSided::Put if inline => |id, sge, remote| SendWr::write(id, sge, remote).with_flags(SendFlags::INLINE),
            OneSided::Put => SendWr::write,
            OneSided::Get => SendWr::read,
        };
        for piece in pieces {
            let transfer = state.move_between(target, piece, request, (here, there), make, None)?;
            state.transfer(target, transfer)?;
        }
        state.flush_one(&self.process, target)?;
        Ok(Request(Carried::Own(request)))
    }
    /// Takes or gives back a lock on the window of `target`: an atomic operation on its counter that is waited for, or a message and its
    /// answer where there are none.
    ///
    /// # Errors
    /// As [`one_sided`](Self::one_sided).
    pub async fn change_lock(&self, target: u32) -> Result<(), ProgramError> {
        if !self.shares_node_with(target)? && !self.has_atomics() {
            let (request, _) = self.ask(target, Question::Lock, 0)?;
            return self.wait(request).await;
        }
        let request = {
            let state = &mut *self.state.borrow_mut();
            if state.connection(target)?.local {
                let away = self.process.crossing(state.domain_of(&self.process, target));
                self.process.compute(self.process.cpu().detect + away);
                return Ok(());
            }
            self.process.compute(state.protocol.send_overhead);
            let request = state.requests.open(target, COUNTER, Buffer::Host);
            state.requests.at(request).left = 1;
            let piece = Piece { rail: 0, offset: 0, length: COUNTER };
            let add: fn(u64, Sge, Remote) -> SendWr = |id, sge, remote| SendWr::fetch_add(id, sge, remote, 1);
            let transfer = state.move_between(target, piece, request, (Buffer::Host, Buffer::Host), add, None)?;
            state.transfer(target, transfer)?;
            state.flush_one(&self.process, target)?;
            request
        };
        self.wait(Request(Carried::Own(request))).await
    }
}

/// Bytes of a window's counter (basis: standard, InfiniBand atomics).
const COUNTER: u32 = 8;
