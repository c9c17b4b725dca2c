//! What can be wrong with bytes or codes.

/// Why bytes are not the header asked for, or a number is not a code of the standard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum WireError {
    /// The bytes end too early.
    #[error("{header} needs {needed} bytes and only {present} are left")]
    #[diagnostic(help("check where the packet was cut"))]
    Short {
        /// The header that was to be read.
        header: &'static str,
        /// Its length in bytes.
        needed: usize,
        /// The bytes that are there.
        present: usize,
    },
    /// A version field holds an unknown version.
    #[error("{header} has version {version} instead of {expected}")]
    #[diagnostic(help("the bytes are probably not {header}"))]
    Version {
        /// The header that was to be read.
        header: &'static str,
        /// The version found.
        version: u8,
        /// The only version there is.
        expected: u8,
    },
    /// A code without a meaning.
    #[error("{value} is not {what}")]
    #[diagnostic(help("use {allowed}"))]
    Code {
        /// The kind of code.
        what: &'static str,
        /// The value found.
        value: u32,
        /// The values with a meaning.
        allowed: &'static str,
    },
}

/// The first `N` bytes.
pub(crate) fn front<const N: usize>(header: &'static str, bytes: &[u8]) -> Result<[u8; N], WireError> {
    bytes.first_chunk().copied().ok_or(WireError::Short { header, needed: N, present: bytes.len() })
}
