//! Links that decide packet by packet: several lanes that compete, or a sender that obeys pause frames.
//!
//! The lanes of a link share one wire. Where nobody waits for the link and the credits are there in time, a packet
//! takes the wire at once, behind those that have it: in the order of arrival, one event per hop. Otherwise it waits
//! in its lane, and events at the times at which something may go pick the next by arbitration. Service levels with
//! weights, and pause frames, must not be overtaken by a reservation: there a packet leaves at once only when the
//! wire is free the moment it is ready, or where a pause cannot come in between ([`Channel::cannot_pause`]).
//!
//! [`Channel::cannot_pause`]: fabriscope_switch::Channel::cannot_pause

use fabriscope_units::{Bytes, Time};

/// What the lanes of a link share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wire {
    /// When it is free.
    pub free: Time,
    /// When the one valid look at the waiting packets comes.
    pub(crate) pump_at: Time,
    /// What waits in its lanes.
    pub waiting: Bytes,
    /// What it has sent, where links write their state into packets.
    pub sent: Bytes,
}

impl Wire {
    /// An idle wire.
    pub const IDLE: Wire = Wire { free: Time::ZERO, pump_at: Time::MAX, waiting: Bytes::ZERO, sent: Bytes::ZERO };
}
