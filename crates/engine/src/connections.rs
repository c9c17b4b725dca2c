//! How connections between the ranks of a job are set up: service, order, class, partition, rate, recovery.

use fabriscope_units::Rate;
pub use fabriscope_verbs::Service;

use crate::fault_plan::Recovery;
use crate::library::Library;

/// Settings of all connections of a job, and of those that differ.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Connections {
    /// The transport service.
    pub service: Service,
    /// The order in which receivers take packets.
    pub order: PacketOrder,
    /// The paths of the packets of a message.
    pub spraying: Spraying,
    /// The service level, priority or class; see `levels`.
    pub level: u8,
    /// The P_Key without the bit of membership, 0 for the default partition; see `pkeys`.
    pub pkey: u16,
    /// The most that a connection sends; see `rates`.
    pub rate: Option<Rate>,
    /// Retransmission settings, if not the defaults.
    pub recovery: Recovery,
    /// The library that carries the messages, with its costs; without one, ranks post to the verbs themselves.
    pub library: Option<Library>,
    /// Libraries of ranks that differ from `library`, sorted by rank: jobs beside each other can have one each.
    pub libraries: Vec<(u32, Library)>,
    /// Levels of pairs of ranks that differ from `level`: the lower rank first, sorted.
    pub levels: Vec<((u32, u32), u8)>,
    /// P_Keys of pairs of ranks that differ from `pkey`: as `levels`.
    pub pkeys: Vec<((u32, u32), u16)>,
    /// Rates of pairs of ranks that differ from `rate`: as `levels`.
    pub rates: Vec<((u32, u32), Rate)>,
}

/// The order in which a receiver takes the packets of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PacketOrder {
    /// As they were sent; a gap is a loss.
    #[default]
    Strict,
    /// As they come.
    Any,
}

/// How the packets of one message are spread over paths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Spraying {
    /// All of them take the path of their flow.
    #[default]
    PerFlow,
    /// Each takes its own.
    PerPacket,
}
