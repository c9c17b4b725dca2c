//! Packets between the parts of a divided fabric, and what waits to be exchanged.
//!
//! A part owns the sending side of a link; the buffer at the far end of a link that crosses a border belongs to the other part.
//! Credits are told when they are known; the account of a buffer with pause frames is kept where the packets arrive. Extension headers
//! go once for each message from the part of its sender to that of its receiver, whatever parts its packets pass; where somebody
//! reads or writes them on the way, they go along with each packet.

use crate::packed_packet::PackedPacket;
use fabriscope_switch::Channel;
use fabriscope_units::{Bytes, Time};
use fabriscope_verbs::{Announcement, Ext, Notice};

/// What one part tells another in a window.
#[derive(Default)]
pub(crate) struct BoundaryTraffic {
    /// Packets that arrive: time, lane, packet.
    pub(crate) packets: Vec<(Time, u32, PackedPacket)>,
    /// Extension headers that go along with some of them, by their place in `packets`.
    pub(crate) extensions: Vec<(u32, Ext)>,
    /// Extension headers of packets that are or will be there, and what became of entries.
    pub(crate) headers: Vec<Announcement>,
    pub(crate) notices: Vec<Notice>,
    /// Room behind lanes: from when on, lane, how much.
    pub credits: Vec<(Time, u32, Bytes)>,
    /// Pauses of lanes: from when on and until when the sender obeys.
    pub pauses: Vec<(Time, Time, u32)>,
    /// Packets for hosts of the other part that faults lost.
    pub losses: Vec<LostPacket>,
}

/// A packet that a fault lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LostPacket {
    /// The host, the queue pair there, and the sequence number.
    pub packet: (u32, u32, u32),
    /// Which fault, and when.
    pub fault: u32,
    pub at: Time,
}

impl BoundaryTraffic {
    /// How much of it there is, of what takes room: packets, headers, credits.
    pub(crate) fn amounts(&self) -> [usize; 3] {
        [self.packets.len(), self.headers.len().max(self.extensions.len()), self.credits.len()]
    }
    /// So much was read: room for what comes in ordinary windows stays.
    pub(crate) fn settle(&mut self, [packets, headers, credits]: [usize; 3]) {
        settle(&mut self.packets, packets);
        settle(&mut self.headers, headers);
        settle(&mut self.extensions, headers);
        settle(&mut self.credits, credits);
    }

    /// The earliest moment at which something of this may let a packet arrive or go.
    pub(crate) fn earliest(&self) -> Time {
        let packets = self.packets.iter().map(|(time, ..)| *time);
        let credits = self.credits.iter().map(|(time, ..)| *time);
        packets.chain(credits).chain(self.pauses.iter().map(|(_, until, _)| *until)).min().unwrap_or(Time::MAX)
    }
}

fn settle<T>(read: &mut Vec<T>, used: usize) {
    if read.capacity() > ORDINARY && used < read.capacity() / 8 {
        read.shrink_to(read.capacity() / 4);
    }
}

/// Entries for which there is always room. Basis: assumed.
const ORDINARY: usize = 32;

/// The accounts of buffers with pause frames behind lanes that leave other parts and end here.
///
/// Who owns such a lane knows what it is told: a pause is known there a window later, which is before it is to be obeyed.
#[derive(Debug, Default)]
pub(crate) struct Guards {
    /// Where the account stands, by the place of the way back: [`NOBODY`] where there is none; empty where nobody has one.
    places: Vec<u32>,
    /// What stands for each lane: its buffer and its pause, not its wire.
    pub(crate) buffers: Vec<Channel>,
    /// The pause that was told last.
    told: Vec<(Time, Time)>,
}

/// No account.
const NOBODY: u32 = u32::MAX;

impl Guards {
    /// Whether there is none.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
    /// Makes room for those of `lanes` ways back.
    pub(crate) fn make_room(&mut self, lanes: usize) {
        self.places.resize(lanes, NOBODY);
    }
    /// The account of the lane whose way back is at `place`.
    pub(crate) fn add(&mut self, place: usize, buffer: Channel) {
        self.places[place] = self.buffers.len() as u32;
        self.buffers.push(buffer);
        self.told.push((Time::MAX, Time::ZERO));
    }
    /// Where the account of the lane stands whose way back is at `place`.
    #[inline(always)]
    pub(crate) fn of(&self, place: usize) -> Option<usize> {
        self.places.get(place).filter(|guard| **guard != NOBODY).map(|guard| *guard as usize)
    }
    /// The pause of an account that its sender does not know yet.
    #[inline(always)]
    pub(crate) fn news(&mut self, guard: usize) -> Option<(Time, Time)> {
        if self.buffers[guard].is_open() { None } else { self.changed(guard) }
    }
    #[inline(never)]
    fn changed(&mut self, guard: usize) -> Option<(Time, Time)> {
        let (pause, _) = self.buffers[guard].pause_span();
        let news = pause.filter(|pause| *pause != self.told[guard])?;
        self.told[guard] = news;
        Some(news)
    }
}
