//! What can happen, small enough to be copied into the queue.

use fabriscope_verbs::{Packet, QpNum, WqeIndex};

/// An event. Packets travel inside it: a packet under way is nowhere else.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Event {
    /// The head of a packet reaches the switch at the end of the lane, or its tail has passed the receive pipeline
    /// of the NIC there.
    Arrive { lane: u32, packet: Packet },
    /// Look at the packets waiting for a paced link.
    Pump { link: u32 },
    /// A NIC may build packets again.
    Transmit { host: u32 },
    /// A NIC sees new work.
    Doorbell { host: u32, doorbell: u32 },
    /// New work is in the NIC: its entries are fetched.
    Work { host: u32, qp: QpNum, through: WqeIndex },
    /// A transport timer of a NIC.
    Timer { host: u32 },
    /// A program goes on.
    Wake { rank: u32 },
    /// An operation of a schedule ended.
    Done { rank: u32, op: u32 },
}
