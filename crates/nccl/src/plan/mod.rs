//! What each rank does in each channel for a message: parts of channels, chunks, and the steps with each.
//!
//! Source: NCCL 2.22.3, src/enqueue.cc (scheduleCollTasksToPlan, calcCollChunking), src/device/*.h for the steps,
//! src/include/device.h and collectives.h for slots and slices.
//! Modelled: how a message is split over channels, chunks, loops and the last partial chunk; rings, trees, NVLS, CollNet; steps as
//! groups of threads carry them out beside each other.
//! Not modelled: several operations in one launch, registered buffers, direct reads and writes of a peer's user buffer.

mod chunk;
mod lane;
#[cfg(test)]
mod parts_test;
pub mod point_to_point;
#[cfg(test)]
mod proof;
mod step;

use fabriscope_units::Bytes;
use smallvec::SmallVec;

pub use lane::{Course, Lane, Peers};
pub use step::{Direction, Peer, Slice, Step};

use crate::algorithm::{Algorithm, Operation, Protocol};
use crate::communicator::Communicator;
use crate::error::NcclError;
use crate::tables;
use crate::tuner::Choice;

/// What one channel does of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The channel.
    pub channel: u32,
    /// Where its share begins in a block.
    pub offset: Bytes,
    /// How long that is. With the network's reduction all channels have the whole message and take chunks in turn.
    pub bytes: Bytes,
    /// Largest chunk.
    pub chunk: Bytes,
    /// Its number among the channels in use.
    pub(crate) number: u32,
}

/// The plan of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How it is done.
    pub choice: Choice,
    /// Root of a broadcast or reduction.
    pub root: u32,
    /// Bytes of a block: what each rank gives to an all-gather or gets of a reduce-scatter, the whole message otherwise.
    pub block: Bytes,
    /// Whether input and output are the same buffer.
    pub in_place: bool,
    /// The channels in use.
    pub parts: Vec<Part>,
    /// Bytes of a slot.
    pub slot: Bytes,
    /// Slots of a chunk, and of a slice.
    pub chunk_slots: u32,
    slice_slots: u32,
}

/// Slots of each connection.
pub const SLOTS: u32 = tables::SLOTS as u32;

impl Plan {
    /// The plan of a message with `count` elements of `element` bytes in a block.
    ///
    /// # Errors
    /// A root that is no rank; a choice that the communicator does not have.
    pub fn new(
        communicator: &Communicator,
        choice: Choice,
        count: u64,
        element: Bytes,
        root: u32,
        in_place: bool,
    ) -> Result<Plan, NcclError> {
        let ranks = communicator.ranks();
        if root >= ranks {
            return Err(NcclError::Root { root, ranks });
        }
        let Choice { operation, algorithm, protocol, .. } = choice;
        let there = match algorithm {
            Algorithm::Ring => true,
            Algorithm::Tree => operation == Operation::AllReduce,
            Algorithm::CollnetChain => operation == Operation::AllReduce && communicator.has_collnet(),
            Algorithm::CollnetDirect => {
                operation == Operation::AllReduce && communicator.has_collnet() && !communicator.collnet_heads(0).is_empty()
            }
            Algorithm::Nvls if communicator.nodes() > 1 => {
                operation == Operation::AllReduce && communicator.has_collnet() && communicator.nvls_heads() > 0
            }
            Algorithm::Nvls if operation == Operation::AllReduce => communicator.nvls_heads() > 0,
            // Blocks go by the switch where each rank is the head of its own.
            Algorithm::Nvls => !matches!(operation, Operation::Broadcast | Operation::Reduce) && communicator.nvls_heads() == ranks,
            Algorithm::NvlsTree => operation == Operation::AllReduce && communicator.nvls_heads() > 0 && communicator.nodes() > 1,
        };
        let plain = matches!(algorithm, Algorithm::Ring | Algorithm::Tree) || protocol == Protocol::Simple;
        if !there || !plain {
            return Err(NcclError::NotThere { operation, algorithm, protocol });
        }
        // What only moves counts in bytes.
        let element = if matches!(operation, Operation::AllGather | Operation::Broadcast) { 1 } else { element.0.max(1) };
        let block = Bytes(if element == 1 { count } else { count * element });
        let amd = communicator.kinds()[0].topology.facts().architecture.is_amd();
        let slot = communicator.settings().buffer(protocol, amd) / tables::SLOTS;
        let (chunk_slots, slice_slots) = chunk::slots(choice);
        let mut plan = Plan { choice, root, block, in_place, parts: Vec::new(), slot: Bytes(slot), chunk_slots, slice_slots };
        if count == 0 {
            return Ok(plan);
        }
        plan.parts = chunk::parts(communicator, &plan, count, element);
        Ok(plan)
    }

    /// The same with the chunks of `other`, as a part of a longer message has them.
    #[must_use]
    pub fn with_chunks_of(mut self, other: &Plan) -> Plan {
        if let Some(long) = other.parts.first() {
            self.parts.iter_mut().for_each(|part| part.chunk = long.chunk);
        }
        self
    }

    /// What ranks of the first nodes of a job do if they are to take the steps that those of the `whole` job take: the same channels,
    /// chunks and loops. Around a ring blocks stay as long, so that a message which is cut into one for each rank is shorter.
    #[must_use]
    pub fn on_fewer(&self, whole: &Communicator, fewer: &Communicator) -> Plan {
        let mut plan = self.clone();
        plan.root %= fewer.ranks();
        if (self.choice.algorithm, self.choice.operation) == (Algorithm::Ring, Operation::AllReduce) {
            let share = |bytes: Bytes| {
                let cells = u128::from(bytes.0.div_ceil(chunk::CELL)) * u128::from(fewer.ranks());
                Bytes(cells.div_ceil(u128::from(whole.ranks())) as u64 * chunk::CELL)
            };
            plan.block = Bytes::ZERO;
            for part in &mut plan.parts {
                (part.offset, part.bytes) = (plan.block, share(part.bytes));
                plan.block += part.bytes;
            }
        }
        plan
    }

    /// Whole loops that each channel goes through at least; all ranks of a channel go through the same.
    #[must_use]
    pub fn loops(&self, communicator: &Communicator) -> u64 {
        let of = |part: &Part| self.stride(communicator, part).map_or(0, |stride| part.bytes.0 / stride);
        self.parts.iter().map(of).min().unwrap_or(0)
    }

    /// The same without as many whole loops of every channel as are more than `loops`: what is left over at the end of each stays.
    #[must_use]
    pub fn with_loops(&self, communicator: &Communicator, loops: u64) -> Plan {
        let skipped = self.loops(communicator).saturating_sub(loops);
        let mut plan = self.clone();
        for part in &mut plan.parts {
            let stride = self.stride(communicator, part).unwrap_or(0);
            part.bytes = Bytes(part.bytes.0.saturating_sub(skipped * stride));
        }
        plan
    }

    /// The same with so many whole loops of every channel, and nothing left over at their ends.
    #[must_use]
    pub fn of_whole_loops(&self, communicator: &Communicator, loops: u64) -> Plan {
        let mut plan = self.clone();
        for part in &mut plan.parts {
            part.bytes = Bytes(loops * self.stride(communicator, part).unwrap_or(0));
        }
        plan
    }

    /// What a loop of a part takes of it.
    fn stride(&self, communicator: &Communicator, part: &Part) -> Option<u64> {
        self.lanes(communicator, 0, part).first().map(|lane| lane.course().stride().0.max(1))
    }

    /// The part of a channel.
    #[must_use]
    pub fn part(&self, channel: u32) -> Option<&Part> {
        self.parts.iter().find(|part| part.channel == channel)
    }

    /// What a rank does for a part: each lane is a group of threads that takes its steps in order, beside the others.
    #[must_use]
    pub fn lanes<'c>(&self, communicator: &'c Communicator, rank: u32, part: &Part) -> SmallVec<[Lane<'c>; 4]> {
        lane::lanes(self, communicator, rank, part)
    }

    /// A chunk of `bytes` in slices: data goes on slice by slice, and all of them take their slots.
    pub fn slices(&self, bytes: Bytes) -> impl Iterator<Item = Slice> + use<> {
        let (slots, count) = (self.slice_slots, u64::from(self.chunk_slots / self.slice_slots));
        // Slices are equal, and not too small.
        let least = self.slot.0 * u64::from(slots) / 32;
        let size = if count == 1 { bytes.0 } else { (bytes.0.div_ceil(16 * count) * 16).max(least) };
        (0..count).map(move |number| {
            let offset = (number * size).min(bytes.0);
            Slice { offset: Bytes(offset), bytes: Bytes(size.min(bytes.0 - offset)), slots }
        })
    }
}
