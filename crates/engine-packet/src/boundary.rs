//! Packets between the parts of a divided fabric, and what waits to be exchanged.

use crate::packed_packet::PackedPacket;
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
}
