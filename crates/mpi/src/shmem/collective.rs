//! `shmem_barrier_all` and the collective operations on all PEs.
//!
//! Source: OpenSHMEM 1.5, §9.9; Open MPI `scoll/mpi` (the MPI library's collective operations); Sandia OpenSHMEM `src/collectives.c` (puts, and
//! counters that the receiver waits for).
//! Modelled: the rounds of [`fabriscope_collectives`]. By messages: as MPI's. By puts: the data of a message as a put, a fence, and a flag of 8
//! bytes as another put; the receiver waits for the flag. A barrier begins with a quiet.
//! Not modelled: the contents of results (the crate of the algorithms proves them); waiting until a work array is free again.

use fabriscope_collectives::{Algorithm, Amount, Call, Kind, Message, Round};
use fabriscope_node::{Awaited, ProgramError};
use fabriscope_verbs::WatchId;

use super::pe::{Flags, Pe};
use crate::Buffer;

/// A collective operation of OpenSHMEM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// `shmem_barrier_all`.
    Barrier,
    /// `shmem_broadcast`.
    Broadcast,
    /// `shmem_collect`: blocks of any sizes.
    Collect,
    /// `shmem_fcollect`: blocks of one size.
    FCollect,
    /// `shmem_sum_to_all` and its kin.
    Reduce,
    /// `shmem_alltoall`.
    AllToAll,
}

impl Operation {
    /// The operation of MPI that does the same.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Operation::Barrier => Kind::Barrier,
            Operation::Broadcast => Kind::Bcast,
            Operation::Collect => Kind::Allgatherv,
            Operation::FCollect => Kind::Allgather,
            Operation::Reduce => Kind::Allreduce,
            Operation::AllToAll => Kind::Alltoall,
        }
    }
    /// The call.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Operation::Barrier => "shmem_barrier_all",
            Operation::Broadcast => "shmem_broadcast",
            Operation::Collect => "shmem_collect",
            Operation::FCollect => "shmem_fcollect",
            Operation::Reduce => "shmem_sum_to_all",
            Operation::AllToAll => "shmem_alltoall",
        }
    }
}

impl Pe {
    /// Carries out `operation` by `algorithm`; `call` says on what.
    ///
    /// # Errors
    /// As [`put`](Self::put); an algorithm that needs switches.
    pub async fn collective(&self, operation: Operation, algorithm: &Algorithm, call: &Call) -> Result<(), ProgramError> {
        if operation == Operation::Barrier {
            self.quiet().await?;
        }
        if self.job.0.puts {
            for round in algorithm.rounds(call, self.me()) {
                self.round_by_puts(operation.name(), &round).await?;
            }
            self.rank.process().awaits(Awaited::Unsaid);
            return Ok(());
        }
        let under_way = self.rank.begin(algorithm.outlines(call, self.me()), self.job.0.packing, Buffer::Host)?.called(operation.name());
        self.rank.complete(under_way).await
    }

    async fn round_by_puts(&self, name: &'static str, round: &Round) -> Result<(), ProgramError> {
        if round.joint.is_some() {
            return Err(ProgramError(format!("{name}: puts of PEs do not reach the reductions of switches; use another algorithm")));
        }
        self.rank.go_through(Amount::of(&round.before), self.job.0.packing, Buffer::Host)?;
        for Message { peer, piece, .. } in &round.sends {
            let size = u32::try_from(piece.bytes.0).map_err(|_| ProgramError(format!("{name}: a block of {}", piece.bytes)))?;
            self.put_with_flag(*peer, size).await?;
        }
        for Message { peer, .. } in &round.receives {
            self.rank.process().awaits(Awaited::Arrival { at: name, of: *peer });
            self.take_flag(*peer).await?;
        }
        if round.sends.iter().any(|message| message.piece.bytes.0 > 0) {
            self.drain().await?;
        }
        self.rank.go_through(Amount::of(&round.after), self.job.0.packing, Buffer::Host)
    }

    /// Data, and behind it the flag that says so.
    async fn put_with_flag(&self, peer: u32, size: u32) -> Result<(), ProgramError> {
        if self.rank.shares_node_with(peer)? {
            self.rank.copy_at(crate::OneSided::Put, peer, (STAGE, STAGE), size).await?;
            let process = self.rank.process();
            // The line of the flag was the receiver's last.
            process.compute(process.cpu().detect);
            let seen = process.now();
            self.rank.memory.flags.borrow_mut().entry((self.me(), peer)).or_default().push_back(seen);
            process.tell(peer, seen);
            return Ok(());
        }
        if size > 0 {
            self.put_anywhere(peer, STAGE, size).await?;
            self.fence().await?;
        }
        self.put_anywhere(peer, FLAGS + 8 * u64::from(self.me()), 8).await
    }

    /// Waits for the next flag of `peer`.
    async fn take_flag(&self, peer: u32) -> Result<(), ProgramError> {
        let process = self.rank.process();
        if self.rank.shares_node_with(peer)? {
            loop {
                process.catch_up().await;
                let first = self.rank.memory.flags.borrow().get(&(peer, self.me())).and_then(|lines| lines.front().copied());
                if first.is_some_and(|seen| seen <= process.now()) {
                    self.rank.memory.flags.borrow_mut().get_mut(&(peer, self.me())).and_then(std::collections::VecDeque::pop_front);
                    return Ok(());
                }
                self.rank.turn_for(&[]).await?;
            }
        }
        let missing = || ProgramError(format!("PE {}: no flag of PE {peer}", self.me()));
        let Flags { watches, taken } = self.flags.borrow().get(&peer).cloned().ok_or_else(missing)?;
        process.catch_up().await;
        loop {
            let now = process.now();
            let count = |&(nic, watch): &(usize, WatchId)| (nic, watch, process.nic(nic, |n| n.watch_count(watch, now)) + 1);
            let next: Vec<(usize, WatchId, u64)> = watches.iter().map(count).collect();
            if next.iter().map(|(_, _, count)| count - 1).sum::<u64>() > taken {
                break;
            }
            self.rank.turn_for(&next).await?;
        }
        self.flags.borrow_mut().insert(peer, Flags { watches, taken: taken + 1 });
        Ok(())
    }

    /// Makes the words in which others say that their data has come.
    pub(super) fn make_flags(&self, peers: &[u32]) -> Result<(), ProgramError> {
        for peer in peers {
            if self.rank.shares_node_with(*peer)? {
                continue;
            }
            let watches = self.rank.watch(FLAGS + 8 * u64::from(*peer), 8)?;
            self.flags.borrow_mut().insert(*peer, Flags { watches, taken: 0 });
        }
        Ok(())
    }
}

/// Where data of collective operations goes in the window, and where the flags of the PEs are. Basis: assumed.
const STAGE: u64 = 3 << 30;
const FLAGS: u64 = 4 << 30;
