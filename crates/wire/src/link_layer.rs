//! The bytes a packet occupies on a link.
//!
//! Source: InfiniBand volume 1, §5.2 (packet format) and volume 2 (delimiters); annexes A16 and A17; IEEE 802.3 §3 and §4.4; Broadcom on
//! Tomahawk Ultra (a header of 10 bytes where Ethernet, IP, UDP and FCS have 46).
//! Modelled: every byte that takes time on the link, also preamble and gap of Ethernet, and its shortest frame.
//! Not modelled: VLAN tags, link-level control packets, lane coding (a link's data rate is after coding).
//!
//! ```text
//!  InfiniBand  | start 1 | LRH 8 | (GRH 40) | BTH 12 | ext | payload, pad | ICRC 4 | VCRC 2 | end 1 |
//!  RoCE v1     | preamble 8 | Ethernet 14 | GRH 40              | BTH 12 | ext | payload, pad | ICRC 4 | FCS 4 | gap 12 |
//!  RoCE v2     | preamble 8 | Ethernet 14 | IP 20 or 40 | UDP 8 | BTH 12 | ext | payload, pad | ICRC 4 | FCS 4 | gap 12 |
//!  short       | preamble 8 | short header and FCS 10           | BTH 12 | ext | payload, pad | ICRC 4         | gap 12 |
//! ```

use crate::{Bth, Grh, Lrh, Opcode};

/// What a transport packet is wrapped in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkLayer {
    /// InfiniBand within a subnet.
    InfiniBand,
    /// InfiniBand with a global route header.
    InfiniBandGrh,
    /// RoCE version 1: Ethernet with a global route header.
    RoceV1,
    /// RoCE version 2 over IPv4.
    RoceV2Ipv4,
    /// RoCE version 2 over IPv6.
    RoceV2Ipv6,
    /// RoCE version 2 over IPv4 whose headers before the BTH links carry as a short one.
    RoceShort,
}

impl LinkLayer {
    /// All link layers.
    pub const ALL: [LinkLayer; 6] = [
        LinkLayer::InfiniBand,
        LinkLayer::InfiniBandGrh,
        LinkLayer::RoceV1,
        LinkLayer::RoceV2Ipv4,
        LinkLayer::RoceV2Ipv6,
        LinkLayer::RoceShort,
    ];

    /// Bytes on the wire outside payload and pad.
    #[inline]
    #[must_use]
    pub const fn overhead(self, opcode: Opcode) -> u32 {
        self.framing() + self.addressing() + Bth::BYTES as u32 + opcode.extension_bytes() + ICRC
    }
    /// All bytes on the wire of a packet with this much payload: with its pad, and filled up to the shortest Ethernet frame.
    #[inline]
    #[must_use]
    pub const fn wire_bytes(self, opcode: Opcode, payload: u32) -> u32 {
        let bytes = self.overhead(opcode) + payload + pad(payload);
        if bytes < self.shortest() { self.shortest() } else { bytes }
    }
    /// Bytes of the shortest frame, with preamble and gap; none on InfiniBand, whose packets may be as short as their headers.
    #[inline]
    #[must_use]
    pub const fn shortest(self) -> u32 {
        if self.is_ethernet() { SHORTEST_FRAME } else { 0 }
    }
    /// Whether the link is Ethernet.
    #[inline]
    #[must_use]
    pub const fn is_ethernet(self) -> bool {
        !matches!(self, LinkLayer::InfiniBand | LinkLayer::InfiniBandGrh)
    }

    /// Bytes of the link itself, in bytes.
    const fn framing(self) -> u32 {
        match self {
            LinkLayer::InfiniBand | LinkLayer::InfiniBandGrh => DELIMITERS + Lrh::BYTES as u32 + VCRC,
            LinkLayer::RoceV1 | LinkLayer::RoceV2Ipv4 | LinkLayer::RoceV2Ipv6 => PREAMBLE + ETHERNET + FCS + GAP,
            LinkLayer::RoceShort => PREAMBLE + SHORT + GAP,
        }
    }
    /// Bytes of the network header, in bytes.
    const fn addressing(self) -> u32 {
        match self {
            LinkLayer::InfiniBand | LinkLayer::RoceShort => 0,
            LinkLayer::InfiniBandGrh | LinkLayer::RoceV1 => Grh::BYTES as u32,
            LinkLayer::RoceV2Ipv4 => IPV4 + UDP,
            LinkLayer::RoceV2Ipv6 => IPV6 + UDP,
        }
    }
}

/// Bytes added to a payload to reach a multiple of four.
#[inline]
#[must_use]
pub const fn pad(payload: u32) -> u32 {
    payload.wrapping_neg() & 3
}

// Lengths in bytes. Basis: standards named above.
const ICRC: u32 = 4;
const VCRC: u32 = 2;
/// Start and end of packet, one symbol each.
const DELIMITERS: u32 = 2;
/// Preamble and start of frame delimiter.
const PREAMBLE: u32 = 8;
/// Two addresses and the type.
const ETHERNET: u32 = 14;
const FCS: u32 = 4;
/// What is there in the place of Ethernet, IP, UDP and FCS. Basis: published, Broadcom on Tomahawk Ultra.
const SHORT: u32 = 10;
/// Smallest distance between two frames.
const GAP: u32 = 12;
/// 64 bytes from the addresses to the FCS, with preamble and gap.
const SHORTEST_FRAME: u32 = 64 + PREAMBLE + GAP;
const IPV4: u32 = 20;
const IPV6: u32 = 40;
const UDP: u32 = 8;
