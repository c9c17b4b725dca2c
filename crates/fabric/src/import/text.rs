//! From the bytes of a file to text: decompression, and a clear word where it is neither.

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Read};

use super::ImportError;

/// The text in `bytes`, which may be compressed by gzip.
///
/// # Errors
/// Damaged compression; bytes that are no text.
pub fn text(bytes: &[u8]) -> Result<Cow<'_, str>, ImportError> {
    if bytes.starts_with(&GZIP) {
        let mut plain = Vec::new();
        flate2::read::MultiGzDecoder::new(bytes)
            .take(LARGEST + 1)
            .read_to_end(&mut plain)
            .map_err(|error| ImportError::Damaged { what: error.to_string() })?;
        if plain.len() as u64 > LARGEST {
            return Err(ImportError::Damaged { what: format!("it holds more than {LARGEST} bytes") });
        }
        return Ok(Cow::Owned(checked(&plain)?.to_owned()));
    }
    checked(bytes).map(Cow::Borrowed)
}

/// The lines of a file that may be compressed by gzip, without holding all of it.
///
/// # Errors
/// A file that cannot be read.
pub fn plain<'a>(mut file: impl BufRead + 'a) -> io::Result<Box<dyn BufRead + 'a>> {
    if file.fill_buf()?.starts_with(&GZIP) {
        return Ok(Box::new(BufReader::new(flate2::bufread::MultiGzDecoder::new(file))));
    }
    Ok(Box::new(file))
}

fn checked(bytes: &[u8]) -> Result<&str, ImportError> {
    let text = std::str::from_utf8(bytes).map_err(|error| ImportError::Binary { offset: error.valid_up_to() })?;
    match text.bytes().position(|byte| byte == 0) {
        Some(offset) => Err(ImportError::Binary { offset }),
        None => Ok(text),
    }
}

/// How gzip files begin (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The largest fabric that is unpacked, in bytes: a hundred times the largest known.
const LARGEST: u64 = 1 << 29;
