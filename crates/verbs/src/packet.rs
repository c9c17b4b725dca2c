//! Packets between NICs, and what a NIC says about them to the engine that times them.
//!
//! Source: IBA vol. 1 §9.2 (base transport header), shared with RoCE.
//! Modelled: the fields that decide what happens; sizes on the wire; packets of TCP, PSM2 and iWARP in the same 28 bytes, told apart
//! by their [`Body`].
//! Not modelled: bytes of the headers (crate `wire` encodes them when a capture is written).

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

use fabriscope_units::Bytes;
use fabriscope_wire::Opcode;

use crate::access::MemoryId;
use crate::ext_headers::ExtId;
use crate::ids::{CqId, Lid, QpNum, WqeIndex};
use crate::wc::Wc;
use crate::words::WordsId;

/// Flags of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PacketFlags(pub u8);

impl PacketFlags {
    /// No flag.
    pub const NONE: PacketFlags = PacketFlags(0);
    /// The responder shall acknowledge.
    pub const ACK_REQ: PacketFlags = PacketFlags(1);
    /// Solicited event.
    pub const SE: PacketFlags = PacketFlags(2);
    /// A switch saw congestion.
    pub const ECN_CE: PacketFlags = PacketFlags(4);
    /// The sender of this packet saw congestion on the way here.
    pub const BECN: PacketFlags = PacketFlags(8);
    /// The simulator traces this packet.
    pub const TRACED: PacketFlags = PacketFlags(16);
    /// A switch cut the payload off; on an acknowledgement: the packet it names was cut off.
    pub const TRIMMED: PacketFlags = PacketFlags(32);
    /// The sender is on its first path, with another one ready: the M bit is clear.
    pub const UNMIGRATED: PacketFlags = PacketFlags(64);

    /// Whether all flags of `other` are set.
    #[inline]
    pub const fn contains(self, other: PacketFlags) -> bool {
        self.0 & other.0 == other.0
    }
    /// Sets the flags of `other`.
    #[inline]
    pub fn insert(&mut self, other: PacketFlags) {
        self.0 |= other.0;
    }
}

impl BitOr for PacketFlags {
    type Output = PacketFlags;
    fn bitor(self, other: PacketFlags) -> PacketFlags {
        PacketFlags(self.0 | other.0)
    }
}
impl BitOrAssign for PacketFlags {
    fn bitor_assign(&mut self, other: PacketFlags) {
        self.0 |= other.0;
    }
}
impl fmt::Debug for PacketFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (PacketFlags::ACK_REQ, "ACK_REQ"),
            (PacketFlags::SE, "SE"),
            (PacketFlags::ECN_CE, "ECN_CE"),
            (PacketFlags::BECN, "BECN"),
            (PacketFlags::TRACED, "TRACED"),
            (PacketFlags::TRIMMED, "TRIMMED"),
            (PacketFlags::UNMIGRATED, "UNMIGRATED"),
        ];
        f.debug_list().entries(names.iter().filter(|(flag, _)| self.contains(*flag)).map(|(_, name)| name)).finish()
    }
}

/// What a packet is, by its protocol, with where it goes at its destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    /// It has a base transport header (InfiniBand, RoCE, SRD, UET), or none at all (raw packets).
    Ib {
        /// The opcode, `transport << 5 | operation`.
        opcode: u8,
        /// The queue pair.
        qp: QpNum,
    },
    /// A packet of the kernel's TCP or UDP.
    Tcp {
        /// The port.
        port: u16,
    },
    /// A packet of PSM2.
    Psm2 {
        /// The context of the process.
        context: u32,
    },
    /// A packet of RDMAP over TCP in the adapter.
    Iwarp {
        /// What it carries.
        kind: IwarpKind,
        /// The queue pair.
        qp: QpNum,
    },
}

/// What a packet of iWARP carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IwarpKind {
    /// A segment of a message, or an acknowledgement of TCP alone.
    Segment,
    /// A request for a READ response.
    ReadRequest,
}

/// What stands in the byte of the opcode of packets without a base transport header: numbers that no transport has.
mod tag {
    pub const PSM2: u8 = 0x9B;
    pub const IWARP: u8 = 0x9C;
    pub const IWARP_READ: u8 = 0x9D;
    pub const TCP: u8 = 0x9E;
}

/// A packet. What its fields stand for is its [`body`](Packet::body).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// Where it goes.
    pub dest: Lid,
    /// The queue pair there, 24 bits; the port of TCP, the context of PSM2.
    pub dest_qp: u32,
    /// Packet sequence number, 24 bits.
    pub psn: u32,
    /// Extension headers; whoever drops the packet calls [`crate::ExtHeaders::free`].
    pub ext: ExtId,
    /// Bytes on the wire, headers and framing included.
    pub wire_bytes: u16,
    /// Bytes of payload, without padding.
    pub payload: u16,
    /// The opcode of the base transport header: `transport << 5 | operation`; for other protocols a tag of [`Body`].
    pub opcode: u8,
    /// Flags.
    pub flags: PacketFlags,
    /// AETH syndrome of acknowledgements and READ responses.
    pub syndrome: u8,
    /// Service level.
    pub sl: u8,
    /// What switches hash to choose among equal paths (UDP source port, source path bits).
    pub entropy: u16,
    /// The low 16 bits of the message sequence number of the AETH; under congestion control those of the number of the packet
    /// that is answered.
    pub msn: u16,
}

impl Packet {
    /// A packet of this kind, with nothing else in it.
    #[must_use]
    pub fn of(body: Body) -> Packet {
        let (opcode, dest_qp) = match body {
            Body::Ib { opcode, qp } => (opcode, qp.0),
            Body::Tcp { port } => (tag::TCP, u32::from(port)),
            Body::Psm2 { context } => (tag::PSM2, context),
            Body::Iwarp { kind: IwarpKind::Segment, qp } => (tag::IWARP, qp.0),
            Body::Iwarp { kind: IwarpKind::ReadRequest, qp } => (tag::IWARP_READ, qp.0),
        };
        Packet { opcode, dest_qp, ..Packet::default() }
    }
    /// What it is.
    #[inline]
    #[must_use]
    pub const fn body(&self) -> Body {
        let qp = QpNum(self.dest_qp);
        match self.opcode {
            tag::TCP => Body::Tcp { port: self.dest_qp as u16 },
            tag::PSM2 => Body::Psm2 { context: self.dest_qp },
            tag::IWARP => Body::Iwarp { kind: IwarpKind::Segment, qp },
            tag::IWARP_READ => Body::Iwarp { kind: IwarpKind::ReadRequest, qp },
            opcode => Body::Ib { opcode, qp },
        }
    }
    /// Whether its answer is what ends its message: requests for READ responses, and atomics.
    #[must_use]
    pub fn awaits_response(&self) -> bool {
        match self.body() {
            Body::Ib { opcode, .. } => Opcode::decode(opcode).is_ok_and(|opcode| opcode.is_read_request() || opcode.is_atomic()),
            Body::Iwarp { kind, .. } => kind == IwarpKind::ReadRequest,
            Body::Tcp { .. } | Body::Psm2 { .. } => false,
        }
    }
    /// Whether it goes back for a request of its receiver, with the request's number.
    #[must_use]
    pub fn is_response(&self) -> bool {
        match self.body() {
            Body::Ib { opcode, .. } => Opcode::decode(opcode).is_ok_and(Opcode::is_response),
            // Each side of the others numbers what it sends itself.
            Body::Iwarp { .. } | Body::Tcp { .. } | Body::Psm2 { .. } => false,
        }
    }
}

impl Default for Packet {
    /// An empty packet without extension headers.
    fn default() -> Packet {
        Packet {
            dest: Lid(0),
            dest_qp: 0,
            psn: 0,
            ext: ExtId::NONE,
            wire_bytes: 0,
            payload: 0,
            opcode: 0,
            flags: PacketFlags::NONE,
            syndrome: 0,
            sl: 0,
            entropy: 0,
            msn: 0,
        }
    }
}

/// A packet to put on the wire, and what it takes to build it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
#[expect(clippy::struct_excessive_bools, reason = "each is a bit of a header, or of what is known of the packet")]
pub struct Transmit {
    /// The packet.
    pub packet: Packet,
    /// The queue pair it comes from.
    pub qp: QpNum,
    /// Payload bytes to read from memory for it; zero for inline data, acknowledgements and requests without payload.
    pub fetch: Bytes,
    /// The memory they are in; that of the operand where it answers an atomic.
    pub place: MemoryId,
    /// It answers a request of the peer (acknowledgement, READ response, atomic response).
    pub responder: bool,
    /// It is a READ response: its payload comes from memory of this side, `wqe` is without meaning.
    pub read_response: bool,
    /// It is the first packet of its message.
    pub starts_message: bool,
    /// It is the last packet of its message.
    pub ends_message: bool,
    /// The payload was copied when the request was posted.
    pub inline: bool,
    /// It was on the wire before.
    pub retransmission: bool,
    /// The work request it belongs to (requester only).
    pub wqe: WqeIndex,
    /// `wr_id` of that work request.
    pub wr_id: u64,
    /// Bytes of the whole message.
    pub message_bytes: u32,
}

impl Transmit {
    /// A packet that belongs to no work request of this side and fetches nothing.
    #[inline(always)] // Returned through memory, it would be stored twice.
    pub fn plain(packet: Packet, qp: QpNum) -> Transmit {
        Transmit {
            packet,
            qp,
            fetch: Bytes::ZERO,
            place: MemoryId::HOST,
            responder: false,
            read_response: false,
            starts_message: false,
            ends_message: false,
            inline: false,
            retransmission: false,
            wqe: WqeIndex(0),
            wr_id: 0,
            message_bytes: 0,
        }
    }
}

/// A range that a peer has finished writing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Landed {
    /// First byte.
    pub addr: u64,
    /// Length in bytes.
    pub length: u32,
    /// What the peer said with it.
    pub words: WordsId,
}

impl Landed {
    /// A range with which nothing was said.
    #[inline]
    pub(crate) const fn silent(addr: u64, length: u32) -> Landed {
        Landed { addr, length, words: WordsId::NONE }
    }
}

/// What became of a packet that arrived.
///
/// `poll_completion` and `poll_landed` come first, then `completion` and `landed`: those two wait for `write`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[must_use]
pub struct Received {
    /// Payload bytes to write to memory now.
    pub write: Bytes,
    /// Which memory.
    pub place: MemoryId,
    /// The last byte of a message written by the peer: report it with `landed` once it is in memory.
    pub landed: Option<Landed>,
    /// A completion that follows the payload of this packet into memory: a receive, a READ, an atomic.
    pub completion: Option<(CqId, Wc)>,
    /// Completions that wait in `poll_completion`.
    pub completions_sent: u32,
    /// A receive work request was taken (the NIC fetched it from the queue in host memory).
    pub recv_wqe_consumed: bool,
    /// The NIC may have something to send now: call `poll_transmit`.
    pub transmit: bool,
    /// The packet ended a message that was delivered.
    pub ended: bool,
    /// The packet was of no use: a duplicate, out of order, or for no queue pair in a state to receive it.
    pub dropped: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_28_bytes_and_what_it_takes_to_send_it_72() {
        assert_eq!(size_of::<Packet>(), 28);
        assert_eq!(size_of::<Transmit>(), 72);
        assert_eq!((size_of::<Landed>(), size_of::<Received>()), (16, 120));
    }

    #[test]
    fn a_packet_is_what_it_was_made_as() {
        let qp = QpNum(0x00ab_cdef);
        let bodies = [
            Body::Tcp { port: 5201 },
            Body::Psm2 { context: 17 },
            Body::Iwarp { kind: IwarpKind::Segment, qp },
            Body::Iwarp { kind: IwarpKind::ReadRequest, qp },
        ];
        for body in bodies {
            assert_eq!(Packet::of(body).body(), body);
            // No transport of the standard, or of ours, has the number.
            assert!(Opcode::decode(Packet::of(body).opcode).is_err(), "{body:?}");
        }
        for opcode in (0..=255).filter(|byte| Opcode::decode(*byte).is_ok()) {
            assert_eq!(Packet::of(Body::Ib { opcode, qp }).body(), Body::Ib { opcode, qp });
        }
    }
}
