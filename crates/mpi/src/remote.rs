//! RDMA at places of the windows of two ranks: what one-sided layers above put and get are made of.
//!
//! Modelled: copies through memory that both share; a write or read between any two offsets, striped over rails as a long message is, each with a
//! completion of its own.
//! Not modelled: the time to register a window or a symmetric heap, which is spent where it is made (`MPI_Win_create`, `shmem_init`).

use fabriscope_node::{Process, ProgramError};
use fabriscope_units::Bytes;
use fabriscope_verbs::{Remote, SendFlags, SendWr, Sge, WatchId};

use super::buffer::Buffer;
use super::contents::Contents;
use super::exchange::WindowOf;
use super::one_sided::OneSided;
use super::rank::Rank;
use super::request::{Carried, Request};
use super::trace::note;

impl Rank {
    /// Moves `size` bytes between `here` in the own window and `there` in that of `target`. The request is done when the bytes are there.
    ///
    /// # Errors
    /// No connection to `target`, or none with RDMA; a queue pair in error.
    pub fn move_at(&self, what: OneSided, target: u32, (here, there): (u64, u64), size: u32) -> Result<Request, ProgramError> {
        self.needs_rdma(target)?;
        if self.hands_one_sided() {
            let between = (self.user()? + here, self.peer_user(target)? + there);
            return self.hand_between(what, target, size, Some(between));
        }
        let state = &mut *self.state.borrow_mut();
        self.process.compute(state.protocol.call_overhead);
        // Windows and symmetric heaps are registered when they are made.
        let request = state.requests.open(target, size, Buffer::Host);
        let pieces = state.pieces(target, size, Buffer::Host, Buffer::Host)?;
        state.requests.at(request).left = pieces.len() as u64;
        let make = request_of(what, size <= state.protocol.inline_limit);
        for piece in pieces {
            let mut transfer = state.move_between(target, piece, request, (Buffer::Host, Buffer::Host), make, None)?;
            transfer.shift(here, there);
            state.transfer(target, transfer)?;
        }
        state.flush_one(&self.process, target)?;
        Ok(Request(Carried::Own(request)))
    }

    /// Moves bytes through memory that both share: the core of this rank copies. Who waits for a word that is put sees it.
    ///
    /// # Errors
    /// A rank that has no window.
    pub async fn copy_at(&self, what: OneSided, target: u32, (here, there): (u64, u64), size: u32) -> Result<(), ProgramError> {
        let begun = self.now();
        let (overhead, other) = {
            let state = self.state.borrow();
            (state.protocol.call_overhead, state.domain_of(&self.process, target))
        };
        let own = self.process.domain();
        self.compute(overhead);
        let ways = if what == OneSided::Put { (own, other) } else { (other, own) };
        self.process.copy_between(Bytes(size.into()), Bytes(u64::MAX), ways);
        note(&self.process, begun, &[], || {
            format!("{} by the core, in shared memory", if what == OneSided::Put { "stores" } else { "loads" })
        });
        self.process.catch_up().await;
        if let Some(contents) = &self.memory.contents {
            let (here, there) = (self.user()? + here, self.peer_user(target)? + there);
            let (from, to) = if what == OneSided::Put { (here, there) } else { (there, here) };
            contents.copy(from, to, size as usize);
        }
        if what == OneSided::Put && target != self.rank() {
            self.process.tell(target, self.now() + self.process.crossing(other));
        }
        Ok(())
    }

    /// The program's bytes are copied into a buffer of the library at `to`, so that they can leave later.
    ///
    /// # Errors
    /// A rank that has no window.
    pub(crate) fn copy_aside(&self, from: u64, to: u64, size: u32) -> Result<(), ProgramError> {
        let state = self.state.borrow();
        state.copy_in(&self.process, size);
        if let Some(contents) = &self.memory.contents {
            contents.expose(self.user()? + to, size as usize);
            contents.copy(self.user()? + from, self.user()? + to, size as usize);
        }
        Ok(())
    }

    /// Requests to `target` that are posted or wait to be, and are not known to be complete.
    pub(crate) fn under_way_to(&self, target: u32) -> Result<u64, ProgramError> {
        let state = &mut *self.state.borrow_mut();
        let connection = state.connection(target)?;
        Ok(connection.links.iter().map(|link| link.posted - link.freed).sum::<u64>() + connection.transfers.len() as u64)
    }
    /// Requests to a peer that may be outstanding at a time.
    pub(crate) fn window(&self) -> u64 {
        self.state.borrow().protocol.window.into()
    }
    /// Largest write that goes with the work request.
    pub(crate) fn inline_limit(&self) -> u32 {
        self.state.borrow().protocol.inline_limit
    }
    /// Whether requests to one peer go over several adapters.
    pub(crate) fn takes_several_rails(&self) -> bool {
        let state = self.state.borrow();
        state.rails.len() > 1 && state.protocol.rails != fabriscope_catalog::RailPolicy::First
    }
    /// Sees messages that end in `length` bytes from `offset` of the own window on, by any adapter.
    pub(crate) fn watch(&self, offset: u64, length: u64) -> Result<Vec<(usize, WatchId)>, ProgramError> {
        let addr = self.user()? + offset;
        let nics: Vec<usize> = self.state.borrow().rails.iter().map(|rail| rail.nic).collect();
        Ok(nics.into_iter().map(|nic| (nic, self.process.nic(nic, |n| n.create_watch(addr, Bytes(length))))).collect())
    }
    /// Waits, inside the library, until one of `flags` has its count, or for anything else that happens.
    pub(crate) async fn turn_for(&self, flags: &[(usize, WatchId, u64)]) -> Result<(), ProgramError> {
        self.state.borrow_mut().flags = flags.to_vec();
        let result = self.turn().await;
        self.state.borrow_mut().flags.clear();
        result
    }
    /// The core that runs this rank.
    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    fn needs_rdma(&self, target: u32) -> Result<(), ProgramError> {
        let state = &mut *self.state.borrow_mut();
        if self.onload.is_some() || state.rails.is_empty() || !state.protocol.has_rdma() || state.connection(target)?.local {
            return Err(ProgramError(format!("rank {}: no RDMA leads to rank {target}, and one-sided operations need it", self.rank())));
        }
        Ok(())
    }

    /// Keeps what is written into `length` bytes of the own window from `offset` on; all begins as zero. Nothing happens where the job
    /// keeps no contents.
    ///
    /// # Errors
    /// A rank that has no window.
    pub fn expose(&self, offset: u64, length: usize) -> Result<(), ProgramError> {
        if let Some(contents) = &self.memory.contents {
            contents.expose(self.user()? + offset, length);
        }
        Ok(())
    }
    /// The program writes `bytes` into its own window.
    ///
    /// # Errors
    /// As [`expose`](Self::expose).
    pub fn store(&self, offset: u64, bytes: &[u8]) -> Result<(), ProgramError> {
        if let Some(contents) = &self.memory.contents {
            contents.store(self.user()? + offset, bytes);
        }
        Ok(())
    }
    /// The program reads its own window.
    ///
    /// # Errors
    /// As [`expose`](Self::expose).
    pub fn load(&self, offset: u64, into: &mut [u8]) -> Result<(), ProgramError> {
        into.fill(0);
        if let Some(contents) = &self.memory.contents {
            contents.load(self.user()? + offset, into);
        }
        Ok(())
    }

    /// What is kept of the memories of the ranks.
    pub(crate) fn contents(&self) -> Option<&Contents> {
        self.memory.contents.as_ref()
    }
    /// Where the window of this rank begins.
    pub(crate) fn user(&self) -> Result<u64, ProgramError> {
        self.peer_user(self.rank())
    }
    /// Where that of `peer` does.
    pub(crate) fn peer_user(&self, peer: u32) -> Result<u64, ProgramError> {
        let missing = || ProgramError(format!("rank {}: the memory of rank {peer} is not known here", self.rank()));
        self.world.0.exchange.get(self.rank(), WindowOf { rank: peer }).ok_or_else(missing)
    }
}

fn request_of(what: OneSided, inline: bool) -> fn(u64, Sge, Remote) -> SendWr {
    match what {
        OneSided::Put if inline => |id, sge, remote| SendWr::write(id, sge, remote).with_flags(SendFlags::INLINE),
        OneSided::Put => SendWr::write,
        OneSided::Get => SendWr::read,
    }
}
