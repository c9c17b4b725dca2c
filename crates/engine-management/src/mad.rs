//! Management datagrams of the subnet management class: what a manager asks and sets.
//!
//! Source: InfiniBand Architecture Specification vol. 1, §14.2.5 (attributes), §13.4.2 (256 bytes), §7.7 and §9.2 (headers).

use fabriscope_fabric::{LinkId, Vertex};
use fabriscope_units::Bytes;

/// A packet with a datagram: local route, base transport and datagram headers, the datagram, invariant and variant CRC.
/// Basis: standard.
pub const WIRE_BYTES: Bytes = Bytes(8 + 12 + 8 + 256 + 4 + 2);

/// What a datagram is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Attribute {
    /// What a node is, and by which port it was asked.
    NodeInfo,
    /// Its name.
    NodeDescription,
    /// A switch's tables and their sizes.
    SwitchInfo,
    /// A port: its link, address, state.
    PortInfo,
    /// Partitions of a port, 32 a block.
    PKeyTable,
    /// Lanes of service levels, from a port to a port.
    SlToVlMapping,
    /// Weights of lanes, a block of the low or the high table.
    VlArbitration,
    /// 64 entries of a unicast table.
    LinearForwarding,
    /// 16 ports of 32 multicast addresses.
    MulticastForwarding,
}

impl Attribute {
    /// What the standard calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Attribute::NodeInfo => "NodeInfo",
            Attribute::NodeDescription => "NodeDescription",
            Attribute::SwitchInfo => "SwitchInfo",
            Attribute::PortInfo => "PortInfo",
            Attribute::PKeyTable => "P_KeyTable",
            Attribute::SlToVlMapping => "SLtoVLMappingTable",
            Attribute::VlArbitration => "VLArbitrationTable",
            Attribute::LinearForwarding => "LinearForwardingTable",
            Attribute::MulticastForwarding => "MulticastForwardingTable",
        }
    }
}

/// Whether something is asked or set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// `SubnGet`.
    Get,
    /// `SubnSet`.
    Set,
}

impl Method {
    /// What the standard calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Method::Get => "SubnGet",
            Method::Set => "SubnSet",
        }
    }
}

/// A datagram that waits to be sent, or was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mad {
    /// What it is about.
    pub attribute: Attribute,
    /// Whether it asks or sets.
    pub method: Method,
    /// The node that is known already: the one that answers, or the last one before it.
    pub known: Vertex,
    /// The link beyond it to a node that nobody knows yet.
    pub beyond: Option<LinkId>,
    /// The port it is about; 0 is that of a switch's management.
    pub port: u16,
}

impl Mad {
    /// A datagram to a node that is known.
    #[must_use]
    pub const fn to(method: Method, attribute: Attribute, known: Vertex, port: u16) -> Mad {
        Mad { attribute, method, known, beyond: None, port }
    }
    /// The question who is at the other end of a link.
    #[must_use]
    pub const fn who_is(known: Vertex, beyond: LinkId) -> Mad {
        Mad { attribute: Attribute::NodeInfo, method: Method::Get, known, beyond: Some(beyond), port: 0 }
    }
}
