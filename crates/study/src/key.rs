//! The key of a result: a hash of all that it depends on.

use std::fmt;

use serde::Serialize;
use sha2::{Digest, Sha256};

/// What results are kept under besides their inputs: the release, and a hash of the sources that it was built from.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "-", env!("FABRISCOPE_SOURCES"));

/// A hash of content, 128 bits in hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

impl Key {
    /// Of what serialises to the same JSON, in this version.
    pub(crate) fn of(content: &impl Serialize) -> Key {
        let mut hash = Sha256::new();
        hash.update(VERSION.as_bytes());
        // What cannot be written as JSON has no key of its own: none of the types that are asked for is such.
        hash.update(serde_json::to_vec(content).unwrap_or_default());
        Key(hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect())
    }
    /// The digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
