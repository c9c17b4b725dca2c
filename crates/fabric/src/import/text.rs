//! From the bytes of a file to text: decompression, and a clear word where it is neither.

use std::borrow::Cow;
use std::io::Read;

use super::ImportError;

/// The text in `bytes`, which may be compressed by gzip.
///
/// # Errors
/// Damaged compression; bytes that are no text.
pub fn text(bytes: &[u8]) -> Result<Cow<'_, str>, ImportError> {
    if bytes.starts_with(&GZIP) {
        let mut plain = Vec::new();
        flate2::read::MultiGzDecoder::new(bytes)
            .read_to_end(&mut plain)
            .map_err(|error| ImportError::Damaged { what: error.to_string() })?;
        return Ok(Cow::Owned(checked(&plain)?.to_owned()));
    }
    checked(bytes).map(Cow::Borrowed)
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
