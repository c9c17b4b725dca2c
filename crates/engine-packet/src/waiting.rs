//! Packets that wait for a link: an arena with a list per lane.

use fabriscope_switch::Channel;
use fabriscope_switch::channel::NONE;

use crate::event::Parcel;

/// Where a packet came from, to give its buffer back.
pub(crate) const FROM_HOST: u32 = 1 << 31;
/// It is a copy, of the packet with this record: [`FROM_HOST`] and one bit more.
pub(crate) const COPY: u32 = FROM_HOST | 1 << 30;
/// It holds no buffer: a switch made it. A copy with a record that never is.
pub(crate) const UNHELD: u32 = u32::MAX;

/// A waiting packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiting {
    pub parcel: Parcel,
    /// The lane it came in by, or the host with [`FROM_HOST`], or the record with [`COPY`].
    pub from: u32,
    /// Ready to leave (ps).
    pub earliest: u64,
    next: u32,
}

/// All waiting packets.
#[derive(Debug)]
pub(crate) struct WaitingRoom {
    seats: Vec<Waiting>,
    free: u32,
}

impl WaitingRoom {
    pub fn new() -> WaitingRoom {
        WaitingRoom { seats: Vec::new(), free: NONE }
    }

    /// Appends a packet to the list of `lane`.
    pub fn push(&mut self, lane: &mut Channel, parcel: Parcel, from: u32, earliest: u64) {
        let entry = Waiting { parcel, from, earliest, next: NONE };
        let seat = if self.free == NONE {
            self.seats.push(entry);
            (self.seats.len() - 1) as u32
        } else {
            let seat = self.free;
            self.free = self.seats[seat as usize].next;
            self.seats[seat as usize] = entry;
            seat
        };
        if lane.tail == NONE {
            lane.head = seat;
        } else {
            self.seats[lane.tail as usize].next = seat;
        }
        lane.tail = seat;
        lane.waiting += parcel.wire_bytes();
    }

    /// The first packet of the list of `lane`.
    pub fn first(&self, lane: &Channel) -> Option<&Waiting> {
        self.seats.get(lane.head as usize)
    }

    /// Takes the first packet of the list of `lane`.
    pub fn pop(&mut self, lane: &mut Channel) -> Option<Waiting> {
        let seat = lane.head;
        let entry = *self.seats.get(seat as usize)?;
        lane.head = entry.next;
        if lane.head == NONE {
            lane.tail = NONE;
        }
        lane.waiting -= entry.parcel.wire_bytes();
        self.seats[seat as usize].next = self.free;
        self.free = seat;
        Some(entry)
    }
}
