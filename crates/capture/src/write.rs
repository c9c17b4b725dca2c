//! Capture files: pcap with nanoseconds, and pcapng with an interface for each tap.
//!
//! Source: IETF drafts ietf-opsawg-pcap and ietf-opsawg-pcapng; ERF records (type 21, InfiniBand) for native InfiniBand,
//! which link type 247 would also name but which dissectors do not know.
//! Modelled: time, original length, a snap length; in pcapng the name of the tap and the direction, and a comment of the section that
//! says which protocols are not in a form of their own.
//! Not modelled: compression, name resolution, statistics.

use std::io::{self, Write};

use fabriscope_engine::Sighting;
use fabriscope_units::Time;

use crate::frame::Framing;

/// The container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One header, then packets; does not tell taps apart.
    Pcap,
    /// Blocks, with an interface for each tap.
    PcapNg,
}

/// A place that was tapped, as an interface of the capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name: `switch 0:3`.
    pub name: String,
    /// Its speed in bit/s.
    pub bits_per_s: u64,
}

/// Writes what passed the taps; `place` gives the interface and the Ethernet address of the sending port.
/// Of each frame at most `snap` bytes are kept.
///
/// # Errors
/// What `writer` says; a packet with an opcode that has no bytes.
pub fn write<W: Write + ?Sized>(
    writer: &mut W,
    (format, framing, snap): (Format, Framing, u32),
    interfaces: &[Interface],
    sightings: &[Sighting],
    place: impl Fn(&Sighting) -> (u32, [u8; 6]),
) -> io::Result<()> {
    let ethernet = framing.layer.is_ethernet();
    let snap = snap.clamp(1, LONGEST);
    match format {
        Format::Pcap => pcap_header(writer, ethernet, snap)?,
        Format::PcapNg => {
            section(writer, &framing.stand_ins(sightings))?;
            interfaces.iter().try_for_each(|one| interface(writer, ethernet, snap, one))?;
        }
    }
    for sighting in sightings {
        let (number, sender) = place(sighting);
        let frame = framing.frame(&sighting.seen, sender).map_err(io::Error::other)?;
        let bytes = if ethernet { frame } else { erf(sighting.time, &frame) };
        let kept = &bytes[..bytes.len().min(snap as usize)];
        match format {
            Format::Pcap => {
                let (seconds, nanoseconds) = (sighting.time.as_ps() / PS_PER_S, sighting.time.as_ps() % PS_PER_S / 1000);
                for word in [seconds as u32, nanoseconds as u32, kept.len() as u32, bytes.len() as u32] {
                    writer.write_all(&word.to_le_bytes())?;
                }
                writer.write_all(kept)?;
            }
            Format::PcapNg => packet(writer, number, sighting, kept, bytes.len() as u32)?,
        }
    }
    Ok(())
}

const PS_PER_S: u64 = 1_000_000_000_000;
/// Longer than any frame here, and what capture tools use for "all of it".
const LONGEST: u32 = 262_144;
/// Link types: Ethernet, ERF. Basis: the register of the pcap format.
const ETHERNET: u32 = 1;
const ERF: u32 = 197;

fn link_type(ethernet: bool) -> u32 {
    if ethernet { ETHERNET } else { ERF }
}

/// Magic of nanoseconds, version 2.4, no time zone.
fn pcap_header<W: Write + ?Sized>(writer: &mut W, ethernet: bool, snap: u32) -> io::Result<()> {
    for word in [0xA1B2_3C4D, 4 << 16 | 2, 0, 0, snap, link_type(ethernet)] {
        writer.write_all(&u32::to_le_bytes(word))?;
    }
    Ok(())
}

/// An ERF record: 64 bits of time in 2⁻³² s, type, flags, lengths.
fn erf(time: Time, packet: &[u8]) -> Vec<u8> {
    const INFINIBAND: u8 = 21;
    const VARYING_LENGTH: u8 = 4;
    const HEADER: usize = 16;
    let (seconds, rest) = (time.as_ps() / PS_PER_S, time.as_ps() % PS_PER_S);
    let stamp = seconds << 32 | ((u128::from(rest) << 32) / u128::from(PS_PER_S)) as u64;
    let mut record = stamp.to_le_bytes().to_vec();
    record.extend([INFINIBAND, VARYING_LENGTH]);
    record.extend(((HEADER + packet.len()) as u16).to_be_bytes());
    record.extend([0, 0]);
    record.extend((packet.len() as u16).to_be_bytes());
    record.extend_from_slice(packet);
    record
}

/// A block: its type, its length before and after, filled up to four bytes.
fn block<W: Write + ?Sized>(writer: &mut W, kind: u32, body: &[u8]) -> io::Result<()> {
    let filled = body.len().next_multiple_of(4);
    let length = (filled + 12) as u32;
    writer.write_all(&kind.to_le_bytes())?;
    writer.write_all(&length.to_le_bytes())?;
    writer.write_all(body)?;
    writer.write_all(&[0; 3][..filled - body.len()])?;
    writer.write_all(&length.to_le_bytes())
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend_from_slice(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

fn section<W: Write + ?Sized>(writer: &mut W, comments: &[&str]) -> io::Result<()> {
    let mut body = 0x1A2B_3C4D_u32.to_le_bytes().to_vec();
    body.extend([1, 0, 0, 0]);
    body.extend([0xFF; 8]); // length not told
    for comment in comments {
        option(&mut body, 1, comment.as_bytes()); // opt_comment
    }
    option(&mut body, 4, b"fabriscope"); // shb_userappl
    option(&mut body, 0, &[]);
    block(writer, 0x0A0D_0D0A, &body)
}

fn interface<W: Write + ?Sized>(writer: &mut W, ethernet: bool, snap: u32, interface: &Interface) -> io::Result<()> {
    let mut body = link_type(ethernet).to_le_bytes().to_vec();
    body.extend(snap.to_le_bytes());
    let name = interface.name.as_bytes();
    option(&mut body, 2, &name[..name.len().min(usize::from(u16::MAX))]); // if_name
    option(&mut body, 8, &interface.bits_per_s.to_le_bytes()); // if_speed
    option(&mut body, 9, &[9]); // if_tsresol: 10⁻⁹ s
    option(&mut body, 0, &[]);
    block(writer, 1, &body)
}

fn packet<W: Write + ?Sized>(writer: &mut W, interface: u32, sighting: &Sighting, kept: &[u8], length: u32) -> io::Result<()> {
    let nanoseconds = sighting.time.as_ps() / 1000;
    let mut body = Vec::with_capacity(kept.len() + 40);
    for word in [interface, (nanoseconds >> 32) as u32, nanoseconds as u32, kept.len() as u32, length] {
        body.extend(word.to_le_bytes());
    }
    body.extend_from_slice(kept);
    body.resize(body.len().next_multiple_of(4), 0);
    let direction: u32 = if sighting.tap.arrival { 1 } else { 2 };
    option(&mut body, 2, &direction.to_le_bytes()); // epb_flags
    option(&mut body, 0, &[]);
    block(writer, 6, &body)
}
