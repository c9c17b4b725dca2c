//! Packets out of capture files: pcap of either byte order and resolution, pcapng.
//!
//! Source: IETF drafts ietf-opsawg-pcap and ietf-opsawg-pcapng.
//! Modelled: enhanced, simple and old packet blocks, several sections and interfaces, resolution and offset of times.
//! Not modelled: name resolution, statistics, secrets and custom blocks: they are passed over.

use crate::error::CaptureError;

/// The kind of frames of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkType(pub u32);

impl LinkType {
    /// Ethernet.
    pub const ETHERNET: LinkType = LinkType(1);
}

impl std::fmt::Display for LinkType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            1 => f.write_str("Ethernet"),
            113 | 276 => f.write_str("Linux cooked (the interface `any`)"),
            197 => f.write_str("ERF, as of native InfiniBand"),
            247 => f.write_str("native InfiniBand"),
            101 => f.write_str("raw IP"),
            number => write!(f, "of link type {number}"),
        }
    }
}

/// A packet of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Where its bytes begin in the file.
    pub offset: usize,
    /// Nanoseconds since an epoch of the capture's own.
    pub time_ns: u64,
    /// The kind of frame.
    pub link: LinkType,
    /// Its bytes, perhaps cut by a snap length.
    pub data: &'a [u8],
}

/// The packets of a capture file.
///
/// # Errors
/// Not a capture, cut, or damaged; the message says where.
pub fn records(bytes: &[u8]) -> Result<Vec<Record<'_>>, CaptureError> {
    let magic = bytes.get(..4).ok_or_else(|| foreign(bytes))?;
    let little = u32::from_le_bytes([magic[0], magic[1], magic[2], magic[3]]);
    match (little, little.swap_bytes()) {
        (SECTION, _) => blocks(bytes),
        (MICROSECONDS, _) => pcap(bytes, false, 1000),
        (NANOSECONDS, _) => pcap(bytes, false, 1),
        (_, MICROSECONDS) => pcap(bytes, true, 1000),
        (_, NANOSECONDS) => pcap(bytes, true, 1),
        _ => Err(foreign(bytes)),
    }
}

const SECTION: u32 = 0x0A0D_0D0A;
const MICROSECONDS: u32 = 0xA1B2_C3D4;
const NANOSECONDS: u32 = 0xA1B2_3C4D;
const BYTE_ORDER: u32 = 0x1A2B_3C4D;
/// Longer packets are a sign of damage. Basis: the limit of libpcap for USB, the largest it has (128 MiB).
const LONGEST: u32 = 1 << 27;

fn foreign(bytes: &[u8]) -> CaptureError {
    let found = match bytes {
        [] => "nothing: the file is empty".to_owned(),
        [0x1F, 0x8B, ..] => "the mark of gzip: unpack it with gunzip; compressed".to_owned(),
        [0x28, 0xB5, 0x2F, 0xFD, ..] => "the mark of zstd: unpack it with unzstd; compressed".to_owned(),
        _ => format!("the bytes {}", bytes.iter().take(4).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")),
    };
    CaptureError::NotACapture { found }
}

/// Reads words at places of the file.
#[derive(Clone, Copy)]
struct Words<'a> {
    bytes: &'a [u8],
    big: bool,
}

impl<'a> Words<'a> {
    fn slice(&self, offset: usize, length: usize, what: &'static str) -> Result<&'a [u8], CaptureError> {
        let rest = self.bytes.get(offset..).unwrap_or_default();
        rest.get(..length).ok_or(CaptureError::Cut { offset, what, needed: length, present: rest.len() })
    }
    fn word(&self, offset: usize, what: &'static str) -> Result<u32, CaptureError> {
        let bytes = self.slice(offset, 4, what)?;
        let word = [bytes[0], bytes[1], bytes[2], bytes[3]];
        Ok(if self.big { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) })
    }
    fn half(&self, offset: usize, what: &'static str) -> Result<u16, CaptureError> {
        let bytes = self.slice(offset, 2, what)?;
        Ok(if self.big { u16::from_be_bytes([bytes[0], bytes[1]]) } else { u16::from_le_bytes([bytes[0], bytes[1]]) })
    }
}

fn pcap(bytes: &[u8], big: bool, ns_per_tick: u64) -> Result<Vec<Record<'_>>, CaptureError> {
    const HEADER: usize = 24;
    const PACKET: usize = 16;
    let words = Words { bytes, big };
    words.slice(0, HEADER, "the header of the file")?;
    // The upper bits tell of an FCS at the end of each frame, which the lengths inside the frame leave out.
    let link = LinkType(words.word(20, "the link type")? & 0x0FFF_FFFF);
    let mut records = Vec::new();
    let mut at = HEADER;
    while at < bytes.len() {
        words.slice(at, PACKET, "the header of a packet")?;
        let (seconds, ticks) = (words.word(at, "a time")?, words.word(at + 4, "a time")?);
        let length = words.word(at + 8, "a length")?;
        if length > LONGEST {
            return Err(CaptureError::Length { offset: at + 8, what: "a packet", length: length.into() });
        }
        let data = words.slice(at + PACKET, length as usize, "a packet")?;
        let time_ns = u64::from(seconds) * 1_000_000_000 + u64::from(ticks) * ns_per_tick;
        records.push(Record { offset: at + PACKET, time_ns, link, data });
        at += PACKET + length as usize;
    }
    Ok(records)
}

/// An interface of a section.
#[derive(Clone, Copy)]
struct Interface {
    link: LinkType,
    snap: u32,
    /// A tick is `10⁻ⁿ` s, or `2⁻ⁿ` s with the top bit set.
    resolution: u8,
    offset_s: u64,
}

impl Interface {
    fn time_ns(&self, ticks: u64) -> u64 {
        let exponent = u32::from(self.resolution & 0x7F);
        let ns = if self.resolution & 0x80 != 0 {
            (u128::from(ticks) * 1_000_000_000).checked_shr(exponent).unwrap_or(0)
        } else if exponent <= 9 {
            u128::from(ticks) * 10u128.pow(9 - exponent)
        } else {
            10u128.checked_pow(exponent - 9).map_or(0, |divisor| u128::from(ticks) / divisor)
        };
        let ns = ns.saturating_add(u128::from(self.offset_s) * 1_000_000_000);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

fn blocks(bytes: &[u8]) -> Result<Vec<Record<'_>>, CaptureError> {
    let mut words = Words { bytes, big: false };
    let mut interfaces: Vec<Interface> = Vec::new();
    let mut records = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        const WHAT: &str = "a block";
        let kind = words.word(at, WHAT)?;
        if kind == SECTION {
            words.big = match words.word(at + 8, "the byte order of a section")? {
                BYTE_ORDER => words.big,
                other if other.swap_bytes() == BYTE_ORDER => !words.big,
                other => return Err(CaptureError::Length { offset: at + 8, what: "a byte order mark", length: other.into() }),
            };
            interfaces.clear();
        }
        let length = words.word(at + 4, WHAT)?;
        if length < 12 || length % 4 != 0 || length > LONGEST {
            return Err(CaptureError::Length { offset: at + 4, what: WHAT, length: length.into() });
        }
        let block = words.slice(at, length as usize, WHAT)?;
        let body = Words { bytes: &bytes[..at + block.len() - 4], big: words.big };
        match kind {
            INTERFACE => interfaces.push(interface(&body, at)?),
            ENHANCED | OLD => records.push(packet(&body, at, kind, &interfaces)?),
            SIMPLE => {
                let interface = described(&interfaces, 0, at)?;
                let length = body.word(at + 8, "a packet")?.min(interface.snap);
                let data = body.slice(at + 12, length as usize, "a packet")?;
                let time_ns = records.last().map_or(0, |last: &Record<'_>| last.time_ns);
                records.push(Record { offset: at + 12, time_ns, link: interface.link, data });
            }
            _ => {}
        }
        at += length as usize;
    }
    Ok(records)
}

// Types of blocks. Basis: draft ietf-opsawg-pcapng §4.
const INTERFACE: u32 = 1;
const OLD: u32 = 2;
const SIMPLE: u32 = 3;
const ENHANCED: u32 = 6;

fn described(interfaces: &[Interface], interface: u32, offset: usize) -> Result<Interface, CaptureError> {
    let known = interfaces.len();
    interfaces.get(interface as usize).copied().ok_or(CaptureError::NoSuchInterface { offset, interface, known })
}

fn interface(body: &Words<'_>, at: usize) -> Result<Interface, CaptureError> {
    const WHAT: &str = "the description of an interface";
    let snap = match body.word(at + 12, WHAT)? {
        0 => u32::MAX,
        snap => snap,
    };
    let mut found = Interface { link: LinkType(body.half(at + 8, WHAT)?.into()), snap, resolution: 6, offset_s: 0 };
    let mut option = at + 16;
    while option + 4 <= body.bytes.len() {
        let (code, length) = (body.half(option, WHAT)?, usize::from(body.half(option + 2, WHAT)?));
        let value = body.slice(option + 4, length, "an option")?;
        match (code, value) {
            (0, _) => break,
            (9, [resolution]) => found.resolution = *resolution,
            (14, [_, _, _, _, _, _, _, _]) => {
                let (first, second) = (u64::from(body.word(option + 4, WHAT)?), u64::from(body.word(option + 8, WHAT)?));
                found.offset_s = if body.big { first << 32 | second } else { second << 32 | first };
            }
            _ => {}
        }
        option += 4 + length.next_multiple_of(4);
    }
    Ok(found)
}

fn packet<'a>(body: &Words<'a>, at: usize, kind: u32, interfaces: &[Interface]) -> Result<Record<'a>, CaptureError> {
    const WHAT: &str = "a packet";
    let number = if kind == OLD { body.half(at + 8, WHAT)?.into() } else { body.word(at + 8, WHAT)? };
    let interface = described(interfaces, number, at)?;
    let ticks = u64::from(body.word(at + 12, WHAT)?) << 32 | u64::from(body.word(at + 16, WHAT)?);
    let length = body.word(at + 20, WHAT)?;
    let data = body.slice(at + 28, length as usize, WHAT)?;
    Ok(Record { offset: at + 28, time_ns: interface.time_ns(ticks), link: interface.link, data })
}

#[cfg(test)]
mod tests {
    use fabriscope_units::Remedy;

    use super::*;

    #[test]
    fn files_that_are_no_captures() {
        for (bytes, told) in [
            (&b""[..], "the file is empty"),
            (b"\x1f\x8b\x08\x00", "gunzip"),
            (b"Hello, world", "48 65 6c 6c"),
            (b"\x4d\x3c\xb2\xa1\x02\x00", "needs 24 bytes and 6 are left"),
        ] {
            let error = records(bytes).unwrap_err().in_full();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn both_byte_orders_and_resolutions() {
        let file = |words: [u32; 10], big: bool| -> Vec<u8> {
            words.iter().flat_map(|word| if big { word.to_be_bytes() } else { word.to_le_bytes() }).chain(*b"abcd").collect()
        };
        for big in [false, true] {
            for (magic, ns) in [(MICROSECONDS, 7_000), (NANOSECONDS, 7)] {
                let version = if big { 2 << 16 | 4 } else { 4 << 16 | 2 };
                let bytes = file([magic, version, 0, 0, 65_535, 1, 3, 7, 4, 90], big);
                let expected = Record { offset: 40, time_ns: 3_000_000_000 + ns, link: LinkType::ETHERNET, data: b"abcd" };
                assert_eq!(records(&bytes), Ok(vec![expected]));
                let cut = records(&bytes[..42]).unwrap_err();
                assert_eq!(cut, CaptureError::Cut { offset: 40, what: "a packet", needed: 4, present: 2 });
            }
        }
    }

    #[test]
    fn ticks_of_any_length() {
        let interface = |resolution| Interface { link: LinkType::ETHERNET, snap: 0, resolution, offset_s: 1 };
        assert_eq!(interface(6).time_ns(5), 1_000_005_000);
        assert_eq!(interface(9).time_ns(5), 1_000_000_005);
        assert_eq!(interface(12).time_ns(5_000), 1_000_000_005);
        assert_eq!(interface(0x80 | 10).time_ns(1024), 2_000_000_000);
        assert_eq!(interface(0x7F).time_ns(u64::MAX), 1_000_000_000);
        assert_eq!(interface(0).time_ns(u64::MAX), u64::MAX);
    }
}
