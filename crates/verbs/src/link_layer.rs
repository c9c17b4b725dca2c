//! Sizes of packets on the wire.

/// The link layer under the transport.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum LinkLayer {
    /// InfiniBand within a subnet.
    #[default]
    InfiniBand,
    /// InfiniBand with a global route header on every packet.
    InfiniBandGrh,
    /// RoCE, version 1.
    RoceV1,
    /// RoCE, version 2 over IPv4.
    RoceV2Ipv4,
    /// RoCE, version 2 over IPv6.
    RoceV2Ipv6,
}
