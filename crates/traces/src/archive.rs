//! Compressed files and archives: gzip, and the members of a tar file.
//!
//! Source: RFC 1952; POSIX.1-2001 pax for tar, with the long names of GNU tar.
//! Not modelled: links, sparse files, other compressions.

use std::io::Read;

use flate2::read::MultiGzDecoder;

use crate::error::{Position, Problem, TraceError};

/// The most that a file may hold once it is unpacked (bytes). Basis: assumed, some times the largest traces that are published.
const MOST: u64 = 8 << 30;

/// What a file holds, unpacked if it was compressed.
pub(crate) fn unpacked(file: &str, bytes: Vec<u8>) -> Result<Vec<u8>, TraceError> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(bytes);
    }
    let mut content = Vec::new();
    let read = MultiGzDecoder::new(bytes.as_slice()).take(MOST).read_to_end(&mut content);
    read.map_err(|error| damaged(file, Position::Whole, "gzip file", &error.to_string()))?;
    if content.len() as u64 >= MOST {
        return Err(TraceError::new(file, Position::Whole, Problem::TooLarge { what: "the unpacked size", value: MOST, most: MOST - 1 }));
    }
    Ok(content)
}

/// Whether this is a tar file.
pub(crate) fn is_tar(bytes: &[u8]) -> bool {
    bytes.len() >= BLOCK && (bytes[257..262] == *b"ustar" || (bytes[0] != 0 && checksum_holds(&bytes[..BLOCK])))
}

/// The regular files of a tar file, with their names.
pub(crate) fn members(file: &str, bytes: &[u8]) -> Result<Vec<(String, Vec<u8>)>, TraceError> {
    let mut found = Vec::new();
    let mut long_name: Option<String> = None;
    let mut at = 0;
    while let Some(header) = bytes.get(at..at + BLOCK) {
        if header.iter().all(|byte| *byte == 0) {
            return Ok(found);
        }
        let position = Position::Byte(at as u64);
        if !checksum_holds(header) {
            return Err(damaged(file, position, "tar file", "the checksum of a header is wrong"));
        }
        let size = octal(&header[124..136]).ok_or_else(|| damaged(file, position, "tar file", "the size of a member is no number"))?;
        let start = at + BLOCK;
        let end = usize::try_from(size).ok().and_then(|size| start.checked_add(size)).filter(|end| *end <= bytes.len());
        let content = &bytes[start..end.ok_or_else(|| damaged(file, position, "tar file", "it ends within a member"))?];
        match header[156] {
            b'0' | 0 => {
                let name = long_name.take().unwrap_or_else(|| name_of(header));
                found.push((name, content.to_vec()));
            }
            b'L' => long_name = Some(text(content)),
            b'x' => long_name = pax_path(content).or(long_name),
            b'g' => {}
            _ => long_name = None,
        }
        at = start + content.len().div_ceil(BLOCK) * BLOCK;
    }
    // Two empty blocks end an archive; some tools leave them out, but none stops within one.
    if at < bytes.len() { Err(damaged(file, Position::Byte(at as u64), "tar file", "it ends within a header")) } else { Ok(found) }
}

fn damaged(file: &str, at: Position, container: &'static str, what: &str) -> TraceError {
    TraceError::new(file, at, Problem::Damaged { container, what: what.replace(';', ",") })
}

/// The sum of the bytes of a header, its own field taken as blanks.
fn checksum_holds(header: &[u8]) -> bool {
    let sum: u64 = header.iter().enumerate().map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u64::from(*byte) }).sum();
    octal(&header[148..156]) == Some(sum)
}

/// A number in octal digits, ended by a blank or zero; or in base 256 where the first bit is set.
fn octal(field: &[u8]) -> Option<u64> {
    if field.first()? & 0x80 != 0 {
        let digits =
            field.iter().skip(1).try_fold(u64::from(field[0] & 0x7f), |sum, byte| sum.checked_mul(256)?.checked_add(u64::from(*byte)));
        return digits;
    }
    let digits = field.iter().skip_while(|byte| **byte == b' ').take_while(|byte| byte.is_ascii_digit());
    digits
        .map(|byte| u64::from(byte - b'0'))
        .try_fold(0_u64, |sum, digit| if digit < 8 { sum.checked_mul(8)?.checked_add(digit) } else { None })
}

fn name_of(header: &[u8]) -> String {
    let (name, prefix) = (text(&header[..100]), text(&header[345..500]));
    if prefix.is_empty() || header[257..262] != *b"ustar" { name } else { format!("{prefix}/{name}") }
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// The name that a pax header gives the next member: records `length key=value`.
fn pax_path(content: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(content);
    let path = text.lines().find_map(|line| line.split_once(' ')?.1.strip_prefix("path="))?;
    Some(path.to_owned())
}

const BLOCK: usize = 512;
