//! Packets that wait for a link: an arena with a list per lane.

use fabriscope_prefetch::prefetch_lines;
use fabriscope_switch::Channel;
use fabriscope_switch::channel::NONE;
use fabriscope_units::Time;

use crate::packed_packet::PackedPacket;

/// Where a packet came from, to give its buffer back.
pub(crate) const FROM_HOST: u32 = 1 << 31;
/// It is a copy, of the packet with this record: [`FROM_HOST`] and one bit more.
pub(crate) const COPY: u32 = FROM_HOST | 1 << 30;
/// It holds no buffer: a switch made it. A copy with a record that never is.
pub(crate) const UNHELD: u32 = u32::MAX;

/// A waiting packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueuedPacket {
    pub packed: PackedPacket,
    /// The lane it came in by, or the host with [`FROM_HOST`], or the record with [`COPY`].
    pub from: u32,
    /// When it is ready to leave.
    pub earliest: Time,
    next: u32,
}

/// All waiting packets.
#[derive(Debug)]
pub(crate) struct PacketQueues {
    slots: Vec<QueuedPacket>,
    free: u32,
}

impl PacketQueues {
    pub fn new() -> PacketQueues {
        PacketQueues { slots: Vec::new(), free: NONE }
    }

    /// Appends a packet to the list of `lane`.
    pub fn push(&mut self, lane: &mut Channel, packed: PackedPacket, from: u32, earliest: Time) {
        let entry = QueuedPacket { packed, from, earliest, next: NONE };
        let slot = if self.free == NONE {
            self.slots.push(entry);
            (self.slots.len() - 1) as u32
        } else {
            let slot = self.free;
            self.free = self.slots[slot as usize].next;
            self.slots[slot as usize] = entry;
            slot
        };
        if lane.tail == NONE {
            lane.head = slot;
        } else {
            self.slots[lane.tail as usize].next = slot;
        }
        lane.tail = slot;
        lane.add_waiting(packed.wire_bytes());
    }

    /// Fetches the first packet of the list of `lane`.
    #[inline(always)]
    pub fn prefetch_first(&self, lane: &Channel) {
        if let Some(entry) = self.slots.get(lane.head as usize) {
            prefetch_lines::<_, 2>(entry);
        }
    }
    /// Fetches the second packet of the list of `lane`, some time after [`prefetch_first`](Self::prefetch_first); gives from where
    /// the first one came.
    #[inline(always)]
    pub fn prefetch_second(&self, lane: &Channel) -> Option<u32> {
        let entry = self.slots.get(lane.head as usize)?;
        if let Some(second) = self.slots.get(entry.next as usize) {
            prefetch_lines::<_, 2>(second);
        }
        Some(entry.from)
    }

    /// The first packet of the list of `lane`.
    pub fn first(&self, lane: &Channel) -> Option<&QueuedPacket> {
        self.slots.get(lane.head as usize)
    }

    /// Takes the first packet of the list of `lane`.
    pub fn pop(&mut self, lane: &mut Channel) -> Option<QueuedPacket> {
        let slot = lane.head;
        let entry = *self.slots.get(slot as usize)?;
        lane.head = entry.next;
        if lane.head == NONE {
            lane.tail = NONE;
        }
        lane.take_waiting(entry.packed.wire_bytes());
        self.slots[slot as usize].next = self.free;
        self.free = slot;
        Some(entry)
    }
}
