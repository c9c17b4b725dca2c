//! Slots of memory that the ranks of a node share: collective operations that send no messages within the node.
//!
//! Every rank has slots that it alone writes; a line says that a slot is full. Whoever needs what is in it spins on that line and then
//! reads where it lies, so that the owner writes once, however many read.
//!
//! Source: MVAPICH2, ch3_shmem_coll.c (slots of 8 KiB in a window of 128, a sequence number with the data); S. Jain et al., "Framework for
//! Scalable Intra-Node Collective Operations using Shared Memory", SC 2018 (MPICH: release and gather trees); Cray MPICH
//! (MPICH_SHARED_MEM_COLL_OPT).
//! Modelled: the copy into the slot; the line that a reader finds, one after the other in the order in which it looks at the slots; the
//! first line of a payload that is longer than what is in that line; lines that come from another socket; the copy out of it, or a
//! reduction that reads it where it lies; memory that all cores share.
//! Not modelled: a window of slots that is full, readers of one line that wait for each other.

use fabriscope_catalog::SlotParameters;
use fabriscope_collectives::{Buffer, Message, Move};
use fabriscope_node::ProgramError;
use fabriscope_units::{Bytes, Time};

use super::protocol::slots::parts_of_slots;
use super::rank::Rank;
use super::rounds::reduction_streams;
use super::trace::note;

impl Rank {
    fn slots(&self) -> Result<SlotParameters, ProgramError> {
        let none = || ProgramError(format!("rank {}: the library has no slots in shared memory; take another algorithm", self.rank()));
        self.state.borrow().protocol.slots.ok_or_else(none)
    }

    /// Writes what `messages` carry into slots of its own, the same piece for several readers once.
    ///
    /// # Errors
    /// A library without slots, a reader on another node.
    pub(super) fn write_slots(&self, messages: &[Message]) -> Result<(), ProgramError> {
        if messages.is_empty() {
            return Ok(());
        }
        let (slots, me) = (self.slots()?, self.rank());
        let state = self.state.borrow();
        for readers in messages.chunk_by(|one, other| one.piece == other.piece) {
            let Some(piece) = readers.first().map(|message| message.piece) else { continue };
            for part in parts_of_slots(slots, piece.bytes.saturating_u32()) {
                let begun = self.process.now();
                self.process.copy(Bytes(part.into()), Bytes(u64::MAX));
                note(&self.process, begun, &[], || "copy into a slot".to_owned());
                for reader in readers {
                    let peer = reader.peer;
                    if !state.connections.get(&peer).is_some_and(|connection| connection.local) {
                        return Err(ProgramError(format!("rank {me} shares no memory with rank {peer}: slots are for ranks of one node")));
                    }
                    let visible = self.process.now() + self.process.crossing(state.domain_of(&self.process, peer));
                    self.memory.wires.fill_slot(me, peer, visible, part);
                    self.process.tell(peer, visible);
                }
            }
        }
        Ok(())
    }

    /// Whether everything that `messages` carry can be read by now, as far as the first slot of each tells.
    pub(super) fn sees_slots(&self, messages: &[Message]) -> bool {
        messages.iter().all(|message| self.memory.wires.has_slot(message.peer, self.rank(), self.now()))
    }

    /// Reads what `messages` carry, one after the other. What goes to a buffer of the library stays where it is: those of `moves` that take
    /// it in read it there, and are done.
    ///
    /// # Errors
    /// A library without slots; as [`wait`](Self::wait).
    pub(super) async fn read_slots(&self, messages: &[Message], moves: &mut Vec<Move>) -> Result<(), ProgramError> {
        for message in messages {
            let (slots, mut left) = (self.slots()?, message.piece.bytes.0);
            loop {
                let part = self.read_slot(message.peer, slots.inline, !matches!(message.piece.buffer, Buffer::Scratch(_))).await?;
                left = left.saturating_sub(part.into());
                if left == 0 {
                    break;
                }
            }
            for _ in moves.extract_if(.., |this| this.from == message.piece) {
                let domain = self.state.borrow().domain_of(&self.process, message.peer);
                self.process.copy_between(reduction_streams(message.piece.bytes), Bytes(u64::MAX), (domain, self.process.domain()));
            }
        }
        Ok(())
    }

    async fn read_slot(&self, peer: u32, inline: u32, copied: bool) -> Result<u32, ProgramError> {
        let (me, process, wires) = (self.rank(), &self.process, &self.memory.wires);
        let mut spun = false;
        while !wires.has_slot(peer, me, process.now()) {
            process.wait_any_until(&[], &[], Time::MAX).await;
            self.serve_notes().await?;
            spun = true;
        }
        let begun = process.now();
        let part = wires.take_slot(peer, me).unwrap_or(0);
        let domain = self.state.borrow().domain_of(process, peer);
        let line = process.cpu().detect + process.crossing(domain);
        // Who spins on the line has it when it sees the change.
        let lines = u64::from(!spun) + u64::from(part > inline);
        process.compute(line * lines);
        if copied && part > 0 {
            process.copy_between(Bytes(part.into()), Bytes(u64::MAX), (domain, process.domain()));
        }
        note(process, begun, &[], || format!("reads a slot of rank {peer}"));
        if part > inline {
            process.catch_up().await;
        }
        Ok(part)
    }
}
