//! Where things lie in the memory of a rank, and how deep its queues are.

use fabriscope_catalog::EagerChannel;

use super::protocol::Protocol;

/// Slots of a ring: one per credit, and some for messages that need no credit.
pub(super) fn slots(protocol: &Protocol) -> u64 {
    u64::from(protocol.window) + u64::from(RESERVE)
}

/// Room in the send queue of one connection.
pub(super) fn send_depth(protocol: &Protocol) -> u32 {
    (4 * protocol.window).max(256)
}

/// Receives of one connection.
pub(super) fn receives(protocol: &Protocol) -> u32 {
    protocol.window + RESERVE
}

/// What a ring takes; nothing where the library has none.
pub(super) fn ring_bytes(protocol: &Protocol) -> u64 {
    if protocol.eager_channel == EagerChannel::RdmaWrite { slots(protocol) * protocol.slot() } else { 0 }
}

/// Messages of credits that may be outstanding beyond the window. At most three are: each stands for half a window
/// of buffers, and the credits themselves are never more than the window.
const RESERVE: u32 = 4;
/// Where a rank's memory lies. Basis: assumed; no bytes are moved.
pub(super) const MEMORY: u64 = 0x1000_0000_0000;
/// Where that of its GPU lies, from there. Basis: assumed.
pub(super) const DEVICE: u64 = 1 << 39;
/// Where windows begin, from the user buffers on: behind the longest message that tools send. Basis: assumed.
pub(super) const WINDOW: u64 = 1 << 30;
/// Room for user buffers: more than the longest message, 2³² − 1 bytes.
pub(super) const USER_BYTES: u64 = 1 << 33;
/// Where in the window old values of atomics go. Basis: assumed; above all that programs use.
pub(super) const SLOTS: u64 = 5 << 30;
/// How many words there are. Basis: assumed; more than can be outstanding.
pub(super) const SLOT_COUNT: u32 = 1 << 16;
/// Where the lock of a window is. Basis: assumed, as what follows.
pub(super) const LOCK: u64 = 11 << 29;
