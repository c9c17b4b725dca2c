//! What passes a place of the network: taps, and what they see.
//!
//! Modelled: one record for each packet and pause frame, with the time at which its first bit passes.
//! Not modelled: bytes; crate `capture` makes frames of the records.

use fabriscope_units::Time;
use fabriscope_verbs::{Ext, Packet};

/// A place where packets are noted: one end of a directed link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tap {
    /// Number of the link in the fabric's graph.
    pub link: u32,
    /// At its far end, where packets arrive; otherwise where they leave.
    pub arrival: bool,
}

/// Something that passed a tap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// When its first bit passed.
    pub time: Time,
    /// Where.
    pub tap: Tap,
    /// What.
    pub seen: Seen,
}

/// What passed a tap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// A packet of a NIC.
    Packet {
        /// The adapter that sent it, where it is known.
        source: Option<u32>,
        /// The lane of the link.
        lane: u8,
        /// Its fields.
        packet: Packet,
        /// Its extension headers.
        ext: Option<Box<Ext>>,
    },
    /// A frame that pauses a priority or ends its pause.
    Pause {
        /// The priority.
        priority: u8,
        /// For how many times 512 bits; 0 ends the pause.
        quanta: u16,
    },
}
