//! What an interface is made with.

use fabriscope_units::{Bytes, Rate, Span};
use fabriscope_wire::{LinkLayer, Opcode, Part, pad};

use crate::config::Config;

/// What IP runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// Ethernet.
    Ethernet,
    /// IP over InfiniBand by unreliable datagrams: one packet of the fabric each.
    InfinibandDatagram,
    /// IP over InfiniBand by reliable connections: packets of up to 64 KiB, cut to the MTU of the fabric.
    InfinibandConnected {
        /// Payload of a packet of the fabric.
        path_mtu: u32,
    },
}

impl Framing {
    /// Bytes on the wire of an IP packet of `bytes`, headers of TCP and IP included; of one piece of it in connected mode.
    #[must_use]
    pub const fn wire_bytes(self, bytes: u32, part: Part) -> u32 {
        match self {
            Framing::Ethernet => {
                let frame = ETHERNET + bytes;
                if frame < SHORTEST { SHORTEST } else { frame }
            }
            Framing::InfinibandDatagram => {
                let payload = bytes + ENCAPSULATION;
                LinkLayer::InfiniBand.overhead(Opcode::UD_SEND_ONLY) + payload + pad(payload)
            }
            Framing::InfinibandConnected { .. } => {
                let opcode = match part {
                    Part::Only => Opcode::RC_SEND_ONLY,
                    Part::First => Opcode::RC_SEND_FIRST,
                    Part::Middle => Opcode::RC_SEND_MIDDLE,
                    Part::Last => Opcode::RC_SEND_LAST,
                };
                LinkLayer::InfiniBand.overhead(opcode) + bytes + pad(bytes)
            }
        }
    }
    /// The largest IP packet where links carry packets of `link_mtu` bytes of payload.
    #[must_use]
    pub const fn largest_mtu(self, link_mtu: u32) -> u32 {
        match self {
            Framing::Ethernet => JUMBO,
            Framing::InfinibandDatagram => link_mtu - ENCAPSULATION,
            Framing::InfinibandConnected { .. } => CONNECTED_MTU,
        }
    }
}

/// How packets that arrive wait for an interrupt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Coalescing {
    /// An interrupt comes so long after the first packet (`rx-usecs`) …
    pub delay: Span,
    /// … or with this packet (`rx-frames`).
    pub frames: u32,
    /// The delay follows the load (`adaptive-rx`): `delay` is then its largest value.
    pub adaptive: bool,
}

/// Which core handles interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Steering {
    /// The program's own: what it handles the program cannot do (accelerated receive flow steering).
    SameCore,
    /// Another one per program.
    OtherCore,
}

/// What the core pays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// A system call, apart from what it does.
    pub syscall: Span,
    /// Sending one segment, however long: TCP, IP, driver, doorbell.
    pub send_segment: Span,
    /// Cutting one packet off a segment where the adapter does not.
    pub send_packet: Span,
    /// Taking one packet from the adapter and trying to merge it.
    pub receive_packet: Span,
    /// Bringing one merged segment through IP and TCP to its socket.
    pub receive_segment: Span,
    /// From the adapter's interrupt to the handling of the first packet.
    pub interrupt: Span,
    /// From data in a socket to the program that slept on it.
    pub wake_up: Span,
    /// Handling one page of payload, beside its copy: allocation, mapping for the adapter, release.
    pub page: Span,
    /// Checksums by the core.
    pub checksum: Rate,
    /// From the core's doorbell to the adapter.
    pub doorbell: Span,
}

/// An interface.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// What IP runs on.
    pub framing: Framing,
    /// The largest IP packet.
    pub mtu: u32,
    /// The adapter cuts segments.
    pub tso: bool,
    /// The core merges packets.
    pub gro: bool,
    /// The adapter computes and checks checksums.
    pub checksum_offload: bool,
    /// Interrupts.
    pub coalescing: Coalescing,
    /// Their core.
    pub steering: Steering,
    /// What the core pays.
    pub costs: Costs,
    /// Every connection; its `mss` is computed from the MTU.
    pub tcp: Config,
}

/// What an interface cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
pub enum SettingsError {
    /// No room for headers.
    #[error("an MTU of {mtu} B has no room for data behind the headers")]
    #[diagnostic(help("use at least {LEAST_MTU} B"))]
    SmallMtu {
        /// As given.
        mtu: u32,
    },
    /// More than the link carries.
    #[error("an MTU of {mtu} B is more than the {most} B of this link")]
    #[diagnostic(help("use at most {most} B"))]
    LargeMtu {
        /// As given.
        mtu: u32,
        /// What fits.
        most: u32,
    },
}

impl Settings {
    /// Refuses an MTU that headers fill or that the link, with `link_mtu` bytes of payload, does not carry.
    ///
    /// # Errors
    /// As said.
    pub fn check(&self, link_mtu: u32) -> Result<(), SettingsError> {
        let most = self.framing.largest_mtu(link_mtu);
        if self.mtu < LEAST_MTU {
            return Err(SettingsError::SmallMtu { mtu: self.mtu });
        }
        if self.mtu > most {
            return Err(SettingsError::LargeMtu { mtu: self.mtu, most });
        }
        Ok(())
    }
    /// Bytes of IP and TCP headers of a data segment.
    #[must_use]
    pub const fn headers(&self) -> u32 {
        HEADERS + if self.tcp.timestamps { 12 } else { 0 }
    }
    /// Payload of a full packet.
    #[must_use]
    pub const fn mss(&self) -> u32 {
        self.mtu.saturating_sub(self.headers())
    }
    /// Payload of the longest segment that TCP hands down or gets.
    #[must_use]
    pub fn longest(&self, offload: bool) -> u32 {
        if offload { ((LONGEST - self.headers()) / self.mss().max(1) * self.mss()).max(self.mss()) } else { self.mss() }
    }
    /// Core time that depends on the payload: pages, and checksums where the adapter does not compute them.
    #[must_use]
    pub fn payload(&self, bytes: u64) -> Span {
        let checksum = if self.checksum_offload { Span::ZERO } else { self.costs.checksum.time(Bytes(bytes)) };
        self.costs.page * bytes / PAGE + checksum
    }
}

/// Basis: standard (x86-64 and Arm base pages).
const PAGE: u64 = 4096;
/// IPv4 and TCP without options. Basis: standard.
const HEADERS: u32 = 40;
/// Preamble 8, addresses and type 14, check 4, gap 12. Basis: standard, IEEE 802.3.
const ETHERNET: u32 = 38;
/// The shortest frame, with preamble and gap. Basis: standard.
const SHORTEST: u32 = 84;
/// The header of IP over InfiniBand. Basis: standard, RFC 4391 §6.
const ENCAPSULATION: u32 = 4;
/// Largest frame of Ethernet adapters and switches in common use. Basis: datasheets (9216 B less headers).
const JUMBO: u32 = 9198;
/// Connected mode. Basis: published (Linux, Documentation/infiniband/ipoib.rst).
const CONNECTED_MTU: u32 = 65_520;
/// The least MTU of IPv4. Basis: standard, RFC 791.
const LEAST_MTU: u32 = 88;
/// The longest segment. Basis: published (Linux, GSO_LEGACY_MAX_SIZE).
const LONGEST: u32 = 65_535;
