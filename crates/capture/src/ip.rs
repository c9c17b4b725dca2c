//! Packets of sockets as bytes: IPv4 with TCP or UDP, and the four bytes that go before them on InfiniBand.
//!
//! Source: RFC 9293 §3.1 (header, checksum over the pseudo header), RFC 791; RFC 4391 §6 (IP over InfiniBand: the EtherType and two
//! reserved bytes behind the headers of a datagram).
//! Modelled: both checksums of TCP, fragments of UDP (without a checksum), options of TCP as the connection has them; the frames of iWARP
//! (MPA, DDP, RDMAP) in the stream of their connection.
//! Not modelled: the bytes of the payload of sockets, which are zero; the request and answer with which iWARP's connections open, and
//! markers; numbers of IPoIB's queue pairs, which a subnet manager hands out; the ECT
//! bits of what was not marked.

use fabriscope_tcp::kernel::Datagram;
use fabriscope_verbs::iwarp::{Control, Frame};
use fabriscope_wire::{Bth, Deth, Ethernet, Ipv4, Mpa, Opcode, Psn, Tcp, Udp, WireError, checksum, pad};

use crate::address::Address;

/// The IP packet around a segment with this data.
pub(crate) fn datagram(tcp: &Tcp, payload: &[u8], (from, to): (Address, Address), dscp: u8, ecn: u8) -> Vec<u8> {
    let mut segment = tcp.encode();
    segment.extend_from_slice(payload);
    let mut covered = Vec::with_capacity(PSEUDO_HEADER + segment.len());
    covered.extend(from.ipv4());
    covered.extend(to.ipv4());
    covered.extend([0, Tcp::PROTOCOL]);
    covered.extend((segment.len() as u16).to_be_bytes());
    covered.extend_from_slice(&segment);
    segment[CHECKSUM..CHECKSUM + 2].copy_from_slice(&checksum(&covered).to_be_bytes());
    let mut bytes = header(Tcp::PROTOCOL, segment.len(), (from, to), (dscp, ecn)).encode().to_vec();
    bytes.extend(segment);
    bytes
}

/// The packet of IP around a datagram of UDP, or a fragment of it; its bytes are zero, and it has no checksum.
pub(crate) fn fragment(datagram: &Datagram, ends: (Address, Address), dscp: u8, ecn: u8) -> Vec<u8> {
    let ip = header(Udp::PROTOCOL, datagram.bytes() as usize, ends, (dscp, ecn));
    let mut bytes = ip.encode_fragment(datagram.identification as u16, datagram.offset as u16, !datagram.is_last()).to_vec();
    if datagram.offset == 0 {
        let length = (datagram.length as usize + Udp::BYTES) as u16;
        bytes.extend(Udp { source: datagram.source, destination: datagram.destination, length }.encode());
    }
    bytes.resize(bytes.len() + datagram.payload as usize, 0);
    bytes
}

/// The header of IP before so many bytes.
pub(crate) fn header(protocol: u8, behind: usize, (from, to): (Address, Address), (dscp, ecn): (u8, u8)) -> Ipv4 {
    Ipv4 {
        dscp,
        ecn,
        total_length: (Ipv4::BYTES + behind) as u16,
        time_to_live: TIME_TO_LIVE,
        protocol,
        source: from.ipv4(),
        destination: to.ipv4(),
    }
}

/// The stream bytes of a segment of iWARP: one frame of MPA, or nothing.
///
/// # Errors
/// A frame that is longer than its length field can say.
pub(crate) fn iwarp(frame: &Frame, payload: usize, data: Option<&[u8]>) -> Result<Vec<u8>, WireError> {
    let Some(ddp) = &frame.ddp else { return Ok(vec![0; frame.segment.payload as usize]) };
    let body = match frame.control {
        Control::Data => data.filter(|data| data.len() == payload).map_or_else(|| vec![0; payload], <[u8]>::to_vec),
        Control::Read(request) => request.encode().to_vec(),
        Control::Terminate(code) => code.encode().to_vec(),
    };
    Mpa::frame(&ddp.encode(), &body)
}

/// The same as the payload of an unreliable datagram, from the BTH to the pad.
pub(crate) fn over_infiniband(datagram: &[u8], pkey: u16) -> Vec<u8> {
    let filled = pad((ENCAPSULATION + datagram.len()) as u32);
    let bth = Bth { pad: filled as u8, pkey, ..Bth::new(Opcode::UD_SEND_ONLY, INTERFACE, Psn::default()) };
    let mut bytes = bth.encode().to_vec();
    bytes.extend(Deth { qkey: QKEY, source_qp: INTERFACE }.encode());
    bytes.extend(Ethernet::IPV4.to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend_from_slice(datagram);
    bytes.resize(bytes.len() + filled as usize, 0);
    bytes
}

/// Hops left in what is sent. Basis: the default of Linux.
pub(crate) const TIME_TO_LIVE: u8 = 64;
/// Addresses, protocol and length, over which the checksum of TCP goes (standard).
const PSEUDO_HEADER: usize = 12;
/// Where it stands in the header (standard).
const CHECKSUM: usize = 16;
/// EtherType and reserved bytes. Basis: standard, RFC 4391.
const ENCAPSULATION: usize = 4;
/// Queue pair of the interfaces. Basis: assumed.
const INTERFACE: u32 = 0x48;
/// Key of the broadcast group. Basis: the default of OpenSM.
const QKEY: u32 = 0x0B1B;
