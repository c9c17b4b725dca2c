//! RoCE version 2 out of an Ethernet frame.
//!
//! Source: annex A17 (RoCE version 2), InfiniBand volume 1 §9.2 to §9.4.
//! Modelled: VLAN tags, IPv4 and IPv6, every opcode of the standard; frames cut by a snap length, as long as the headers
//! are there: lengths come from the UDP header.
//! Not modelled: IPv6 extension headers, fragments, the ICRC (a cut frame has none): see [`fabriscope_wire::icrc`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fabriscope_wire::{Aeth, Bth, Deth, Ethernet, Grh, Ipv4, Opcode, Reth, Transport, Udp, WireError};

/// The headers of a RoCE packet that say what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram {
    /// Who sends it.
    pub source: IpAddr,
    /// Who gets it.
    pub destination: IpAddr,
    /// UDP source port.
    pub port: u16,
    /// ECN bits.
    pub ecn: u8,
    /// Base transport header.
    pub bth: Bth,
    /// Bytes of payload, without pad.
    pub payload: u32,
    /// Of WRITE and READ requests.
    pub reth: Option<Reth>,
    /// Of answers.
    pub aeth: Option<Aeth>,
    /// Of datagrams.
    pub deth: Option<Deth>,
}

/// The RoCE packet in an Ethernet frame; `None` where the frame carries something else.
///
/// # Errors
/// A packet for the port of RoCE with headers that are cut or make no sense.
pub fn dissect(frame: &[u8]) -> Result<Option<Datagram>, WireError> {
    let Ok((ethernet, at)) = Ethernet::decode(frame) else { return Ok(None) };
    let rest = &frame[at..];
    let (source, destination, ecn, protocol, rest) = match ethernet.ethertype {
        Ethernet::IPV4 => {
            let Ok((ip, length)) = Ipv4::decode(rest) else { return Ok(None) };
            let (from, to) = (Ipv4Addr::from(ip.source), Ipv4Addr::from(ip.destination));
            (IpAddr::V4(from), IpAddr::V4(to), ip.ecn, ip.protocol, &rest[length..])
        }
        Ethernet::IPV6 => {
            let Ok(ip) = Grh::decode(rest) else { return Ok(None) };
            let (from, to) = (Ipv6Addr::from(ip.sgid), Ipv6Addr::from(ip.dgid));
            (IpAddr::V6(from), IpAddr::V6(to), ip.traffic_class & 3, ip.next_header, &rest[Grh::BYTES..])
        }
        _ => return Ok(None),
    };
    let Some(udp) = Udp::decode(rest).ok().filter(|udp| protocol == Udp::PROTOCOL && udp.destination == Udp::ROCE_V2) else {
        return Ok(None);
    };
    let rest = &rest[Udp::BYTES..];
    let bth = Bth::decode(rest)?;
    let extended = &rest[Bth::BYTES..];
    let headers = Bth::BYTES + bth.opcode.extension_bytes() as usize;
    let outside = Udp::BYTES + headers + usize::from(bth.pad) + ICRC_BYTES;
    let payload = usize::from(udp.length).checked_sub(outside);
    let payload = payload.ok_or(WireError::Short { header: "the packet", needed: outside, present: udp.length.into() })? as u32;
    let mut datagram = Datagram { source, destination, port: udp.source, ecn, bth, payload, reth: None, aeth: None, deth: None };
    fill(&mut datagram, extended)?;
    Ok(Some(datagram))
}

const ICRC_BYTES: usize = 4;

fn fill(datagram: &mut Datagram, extended: &[u8]) -> Result<(), WireError> {
    let opcode = datagram.bth.opcode;
    let before = match (opcode.transport(), opcode.is_response()) {
        (Transport::Ud, _) => {
            datagram.deth = Some(Deth::decode(extended)?);
            Deth::BYTES
        }
        (Transport::Rd, false) => 4 + Deth::BYTES,
        (Transport::Rd, true) | (Transport::Xrc, false) => 4,
        (Transport::Rud, _) | (Transport::Dc, false) => 8,
        _ => 0,
    };
    let rest = extended.get(before..).unwrap_or_default();
    if opcode.has_reth() {
        datagram.reth = Some(Reth::decode(rest)?);
    }
    if opcode.has_aeth() && opcode != Opcode::CNP {
        datagram.aeth = Some(Aeth::decode(rest)?);
    }
    Ok(())
}
