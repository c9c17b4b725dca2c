//! Packets between the parts of a divided fabric, and what waits to be exchanged.
//!
//! A part owns the sending side of a link; the buffer at the far end of a link that crosses a border belongs to the other part.
//! Credits are told when they are known; the account of a buffer with pause frames is kept where the packets arrive.

use crate::packed_packet::PackedPacket;
use fabriscope_switch::Channel;
use fabriscope_units::{Bytes, Time};
use fabriscope_verbs::Ext;

/// What one part tells another in a window.
#[derive(Default)]
pub(crate) struct BoundaryTraffic {
    /// Packets that arrive: time, lane, packet.
    pub(crate) packets: Vec<(Time, u32, PackedPacket)>,
    /// Extension headers of some of them, by their place in `packets`.
    pub(crate) extensions: Vec<(u32, Ext)>,
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
    /// The earliest moment at which something of this may let a packet arrive or go.
    pub(crate) fn earliest(&self) -> Time {
        let packets = self.packets.iter().map(|(time, ..)| *time);
        let credits = self.credits.iter().map(|(time, ..)| *time);
        packets.chain(credits).chain(self.pauses.iter().map(|(_, until, _)| *until)).min().unwrap_or(Time::MAX)
    }
}

/// The account of a buffer with pause frames behind a lane that leaves another part.
///
/// Who owns the lane knows what it is told: a pause is known there a window later, which is before it is to be obeyed.
#[derive(Debug)]
pub(crate) struct Guard {
    /// Stands for the lane: its buffer and its pause, not its wire.
    pub(crate) buffer: Channel,
    /// The pause that was told last.
    pub(crate) told: (Time, Time),
}

impl Guard {
    pub(crate) fn new(buffer: Channel) -> Guard {
        Guard { buffer, told: (Time::MAX, Time::ZERO) }
    }

    /// The pause that its sender does not know yet.
    pub(crate) fn news(&mut self) -> Option<(Time, Time)> {
        let (pause, _) = self.buffer.pause_span();
        let news = pause.filter(|pause| *pause != self.told)?;
        self.told = news;
        Some(news)
    }
}
