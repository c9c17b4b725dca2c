//! What an interface is made with.

use std::sync::Arc;

use fabriscope_units::{Bytes, Rate, Span};
use fabriscope_vswitch as vswitch;
use fabriscope_wire::{LinkLayer, Opcode, Part, pad};

use crate::config::{Algorithm, Config};

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
    /// Other frames or cells: of ATM, Fibre Channel, Myrinet.
    Framed(Frames),
}

/// Frames of a link, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frames {
    /// What every packet gets besides.
    pub encapsulation: u32,
    /// Largest payload of a frame.
    pub payload: u32,
    /// A frame beside its payload.
    pub overhead: u32,
    /// Every frame is full.
    pub filled: bool,
    /// The largest IP packet.
    pub mtu: u32,
}

impl Frames {
    const fn wire_bytes(self, bytes: u32) -> u32 {
        let bytes = bytes + self.encapsulation;
        let frames = bytes.div_ceil(if self.payload == 0 { 1 } else { self.payload });
        let carried = if self.filled { frames * self.payload } else { bytes };
        carried + frames * self.overhead
    }
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
            Framing::Framed(frames) => frames.wire_bytes(bytes),
        }
    }
    /// The largest IP packet where links carry packets of `link_mtu` bytes of payload.
    #[must_use]
    pub const fn largest_mtu(self, link_mtu: u32) -> u32 {
        match self {
            Framing::Ethernet => JUMBO,
            Framing::InfinibandDatagram => link_mtu - ENCAPSULATION,
            Framing::InfinibandConnected { .. } => CONNECTED_MTU,
            Framing::Framed(frames) => frames.mtu,
        }
    }
}

/// The parameters of a kernel, each declared here and nowhere else: handed to [`fabriscope_units::bare`] for the model, and to the
/// catalogue for its part, whose keys they are.
#[macro_export]
macro_rules! kernel_parameters {
    ($($with:ident)::+ { $($given:tt)* }) => {
        $($with)::+! {
            { $($given)* }
            values {
                /// Core time of a system call, apart from what it does.
                syscall: Span,
                /// Core time of sending one segment, however long: TCP, IP, driver, doorbell.
                send_segment: Span,
                /// Core time of cutting one packet off a segment where the adapter does not.
                send_packet: Span,
                /// Core time of taking one packet from the adapter and trying to merge it.
                receive_packet: Span,
                /// Core time of bringing one merged segment through IP and TCP to its socket.
                receive_segment: Span,
                /// From the adapter's interrupt to the handling of the first packet.
                interrupt: Span,
                /// From data in a socket to the program that slept on it.
                wake_up: Span,
                /// Core time of sending one datagram, however long, beside its fragments: UDP, IP, driver, doorbell.
                send_datagram: Span,
                /// Core time of bringing one datagram through IP and UDP to its socket.
                receive_datagram: Span,
                /// Core time of asking an adapter that does TCP to send what one write brings, up to 64 KiB.
                offload_send: Span,
                /// Core time of what such an adapter tells of bytes that came.
                offload_receive: Span,
                /// Core time of handling one page of payload, beside its copy: allocation, mapping for the adapter, release.
                page: Span,
                /// Rate of checksums by the core.
                checksum_rate: Rate,
            }
            choices {
                /// The adapter cuts segments (TSO, LSO).
                segmentation_offload: bool,
                /// The core merges packets (GRO).
                receive_offload: bool,
                /// The adapter computes and checks checksums.
                checksum_offload: bool,
            }
            values {
                /// An interrupt comes so long after the first packet; the largest value where it follows the load.
                interrupt_delay: Span,
                /// An interrupt comes with this packet.
                interrupt_frames: u32,
            }
            choices {
                /// The delay follows the load.
                interrupt_adaptive: bool,
                /// Interrupts of a connection are handled by its program's core (accelerated receive flow steering).
                flow_steering: bool,
            }
            values {
                /// Room for data that was not acknowledged.
                send_buffer: Bytes,
                /// Room for data that was not read.
                receive_buffer: Bytes,
                /// Room for datagrams that were not sent, and for those that were not read, as the kernel counts it.
                datagram_buffer: Bytes,
            }
            defaults {
                /// The congestion control.
                congestion: Algorithm,
                /// Marks are asked for and answered.
                ecn: bool,
            }
            values {
                /// Congestion window at the start, in segments.
                initial_window: u32,
                /// How long the acknowledgement of a single segment may wait.
                delayed_ack: Span,
                /// The shortest retransmission timeout.
                min_rto: Span,
            }
        }
    };
}

kernel_parameters! {
    fabriscope_units::bare {
        /// What the core pays, how packets wait for interrupts, what sockets begin with. Interrupts that no program's own core handles are
        /// handled by another one for each program.
        #[derive(Clone, Copy, PartialEq, Debug)]
        pub struct KernelParameters
    }
}

impl KernelParameters {
    /// The same where interrupts are not held back.
    #[must_use]
    pub(super) fn unmoderated(self) -> KernelParameters {
        KernelParameters { interrupt_delay: Span::ZERO, interrupt_frames: 1, interrupt_adaptive: false, ..self }
    }
    /// What every connection begins with. The keys of a kernel are some of the settings of a connection; an adapter that does iWARP has
    /// others.
    #[must_use]
    pub fn connection(&self) -> Config {
        Config {
            send_buffer: self.send_buffer,
            receive_buffer: self.receive_buffer,
            ecn: self.ecn,
            algorithm: self.congestion,
            initial_window: self.initial_window,
            delayed_ack: self.delayed_ack,
            min_rto: self.min_rto,
            ..Config::default()
        }
    }
}

/// An interface.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// What IP runs on.
    pub framing: Framing,
    /// The largest IP packet.
    pub mtu: u32,
    /// What the core pays, and how it is interrupted.
    pub kernel: KernelParameters,
    /// The adapter does TCP itself (TCP offload engine).
    pub offload: bool,
    /// From the core's doorbell to the adapter.
    pub doorbell: Span,
    /// Every connection; its `mss` is computed from the MTU.
    pub tcp: Config,
    /// The virtual switch below, where programs run in virtual machines that have one.
    pub switching: Option<Arc<vswitch::Settings>>,
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
    /// Bytes of the IP packet on the wire that carries one of `bytes`.
    #[must_use]
    pub fn outer(&self, bytes: u32) -> u32 {
        self.switching.as_ref().map_or(bytes, |switching| switching.encapsulation.outer(bytes))
    }
    /// Payload of a full packet.
    #[must_use]
    pub const fn mss(&self) -> u32 {
        self.mtu.saturating_sub(self.headers())
    }
    /// Core time of each segment that TCP hands down; none where the adapter does TCP.
    #[must_use]
    pub const fn each_segment(&self) -> Span {
        if self.offload { Span::ZERO } else { self.kernel.send_segment }
    }
    /// Payload of the longest segment that TCP hands down or gets.
    #[must_use]
    pub fn longest(&self, offload: bool) -> u32 {
        if offload { ((LONGEST - self.headers()) / self.mss().max(1) * self.mss()).max(self.mss()) } else { self.mss() }
    }
    /// Core time that depends on the payload: pages, and checksums where the adapter does not compute them.
    #[must_use]
    pub fn payload(&self, bytes: u64) -> Span {
        let checksum = if self.kernel.checksum_offload { Span::ZERO } else { self.kernel.checksum_rate.time(Bytes(bytes)) };
        self.kernel.page * bytes / PAGE + checksum
    }
}

/// Basis: standard (x86-64 and Arm base pages).
const PAGE: u64 = 4096;
/// IPv4 without options. Basis: standard, RFC 791.
pub(super) const IP: u32 = 20;
/// The same and TCP without options. Basis: standard.
const HEADERS: u32 = IP + 20;
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
