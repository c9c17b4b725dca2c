//! The two checksums of a packet: invariant (end to end) and variant (per link).
//!
//! Source: InfiniBand volume 1, §7.8 (CRCs); annex A17.3.3 for RoCE version 2.
//! Modelled: which fields count as ones because they may change on the way; both polynomials.
//! Not modelled: the Ethernet FCS (crc32fast over the whole frame gives it).

use crate::error::front;
use crate::{Bth, Grh, LinkLayer, Lrh, NextHeader, WireError};

/// The invariant CRC of a packet, to be appended as `to_le_bytes()`.
///
/// `packet` starts with the first header that the CRC covers (LRH; GRH for RoCE version 1; IP for RoCE
/// version 2) and ends with the pad.
///
/// # Errors
/// The packet is shorter than its headers, or the IP version is not the one of `layer`.
pub fn icrc(layer: LinkLayer, packet: &[u8]) -> Result<u32, WireError> {
    let mut crc = crc32fast::Hasher::new();
    let mut rest = packet;
    match layer {
        LinkLayer::InfiniBand | LinkLayer::InfiniBandGrh => {
            let mut lrh: [u8; Lrh::BYTES] = front("LRH", rest)?;
            let global = lrh[1] & 3 == NextHeader::Grh as u8;
            lrh[0] |= 0xF0; // VL
            crc.update(&lrh);
            rest = &rest[Lrh::BYTES..];
            if global {
                rest = version_6(&mut crc, "GRH", rest)?;
            }
        }
        LinkLayer::RoceV1 => {
            crc.update(&NO_LRH);
            rest = version_6(&mut crc, "GRH", rest)?;
        }
        // What the short header stands for is what counts.
        LinkLayer::RoceV2Ipv4 | LinkLayer::RoceShort => {
            crc.update(&NO_LRH);
            let after = version_4(&mut crc, rest)?;
            rest = udp(&mut crc, after)?;
        }
        LinkLayer::RoceV2Ipv6 => {
            crc.update(&NO_LRH);
            let after = version_6(&mut crc, "the IPv6 header", rest)?;
            rest = udp(&mut crc, after)?;
        }
    }
    let mut bth: [u8; Bth::BYTES] = front("BTH", rest)?;
    bth[4] = 0xFF; // FECN, BECN and reserved
    crc.update(&bth);
    crc.update(&rest[Bth::BYTES..]);
    Ok(crc.finalize())
}

/// The variant CRC of an InfiniBand packet, to be appended as `to_le_bytes()`.
///
/// `packet` starts with the LRH and ends with the ICRC.
#[must_use]
pub fn vcrc(packet: &[u8]) -> u16 {
    !packet.iter().fold(0xFFFF, |crc, byte| crc >> 8 ^ VCRC_TABLE[usize::from(crc as u8 ^ byte)])
}

fn version_4<'a>(crc: &mut crc32fast::Hasher, bytes: &'a [u8]) -> Result<&'a [u8], WireError> {
    const HEADER: &str = "the IPv4 header";
    let mut ip: [u8; 20] = front(HEADER, bytes)?;
    if ip[0] >> 4 != 4 {
        return Err(WireError::Version { header: HEADER, version: ip[0] >> 4, expected: 4 });
    }
    let length = usize::from(ip[0] & 0xF) * 4;
    if length < ip.len() || length > bytes.len() {
        return Err(WireError::Short { header: HEADER, needed: length.max(ip.len()), present: bytes.len().min(length) });
    }
    ip[1] = 0xFF; // type of service
    ip[8] = 0xFF; // time to live
    ip[10..12].fill(0xFF); // checksum
    crc.update(&ip);
    crc.update(&bytes[ip.len()..length]);
    Ok(&bytes[length..])
}

/// An IPv6 header or a GRH: traffic class, flow label and hop limit count as ones.
fn version_6<'a>(crc: &mut crc32fast::Hasher, header: &'static str, bytes: &'a [u8]) -> Result<&'a [u8], WireError> {
    let mut ip: [u8; Grh::BYTES] = front(header, bytes)?;
    if ip[0] >> 4 != 6 {
        return Err(WireError::Version { header, version: ip[0] >> 4, expected: 6 });
    }
    ip[0] |= 0x0F;
    ip[1..4].fill(0xFF);
    ip[7] = 0xFF;
    crc.update(&ip);
    Ok(&bytes[ip.len()..])
}

fn udp<'a>(crc: &mut crc32fast::Hasher, bytes: &'a [u8]) -> Result<&'a [u8], WireError> {
    let mut udp: [u8; 8] = front("the UDP header", bytes)?;
    udp[6..8].fill(0xFF); // checksum
    crc.update(&udp);
    Ok(&bytes[udp.len()..])
}

/// Stands for the LRH that RoCE does not have. Basis: standard, annex A16.5.1.
const NO_LRH: [u8; Lrh::BYTES] = [0xFF; Lrh::BYTES];

/// 0x100B, reflected. Basis: standard, §7.8.2.
const VCRC_POLYNOMIAL: u16 = 0xD008;
const VCRC_TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u16;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ VCRC_POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};
