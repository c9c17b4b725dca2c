//! An amount of data in whole bytes.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub, SubAssign};

use crate::parse::{self, UnitError};

/// An amount of data in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

impl Bytes {
    /// Nothing.
    pub const ZERO: Bytes = Bytes(0);

    /// `n` × 1024 bytes.
    #[inline]
    pub const fn from_kib(n: u64) -> Bytes {
        Bytes(n << 10)
    }
    /// `n` × 1024² bytes.
    #[inline]
    pub const fn from_mib(n: u64) -> Bytes {
        Bytes(n << 20)
    }
    /// The number of bytes.
    #[inline]
    pub const fn as_u64(self) -> u64 {
        self.0
    }
    /// As a number of 32 bits; what does not fit is the largest one.
    ///
    /// For lengths in fields of 32 bits and for limits that lengths are compared with. A message has at most 2³¹ B (InfiniBand vol. 1 §9.3), so
    /// the largest number means *longer than any message*.
    #[must_use]
    pub const fn saturating_u32(self) -> u32 {
        if self.0 > u32::MAX as u64 { u32::MAX } else { self.0 as u32 }
    }
    /// The difference, or zero where `other` is larger.
    #[inline]
    pub const fn saturating_sub(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }
    /// How many pieces of `size` hold this amount, the last one perhaps not full.
    ///
    /// # Panics
    /// `size` is zero.
    #[inline]
    pub const fn div_ceil(self, size: Bytes) -> u64 {
        self.0.div_ceil(size.0)
    }
    /// Reads text such as `"64 B"`, `"4 KiB"`, `"2 MB"`. `KB` is refused: it means 1000 to some and 1024 to others.
    ///
    /// # Errors
    /// A missing, foreign or ambiguous unit; a fraction of a byte.
    pub fn parse(text: &str) -> Result<Bytes, UnitError> {
        parse::quantity(text, "an amount of data", "64 B", UNITS).map(Bytes)
    }
}

const UNITS: &[(&str, u128)] = &[
    ("B", 1),
    ("kB", 1_000),
    ("KiB", 1 << 10),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
    ("TB", 1_000_000_000_000),
    ("TiB", 1 << 40),
];

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, size) in [("TiB", 1u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
            if self.0 >= size && self.0.is_multiple_of(size) {
                return write!(f, "{} {unit}", self.0 / size);
            }
        }
        write!(f, "{} B", self.0)
    }
}
impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes({self})")
    }
}

impl Add for Bytes {
    type Output = Bytes;
    #[inline]
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0 + other.0)
    }
}
impl AddAssign for Bytes {
    #[inline]
    fn add_assign(&mut self, other: Bytes) {
        self.0 += other.0;
    }
}
impl Sub for Bytes {
    type Output = Bytes;
    #[inline]
    fn sub(self, other: Bytes) -> Bytes {
        Bytes(self.0 - other.0)
    }
}
impl SubAssign for Bytes {
    #[inline]
    fn sub_assign(&mut self, other: Bytes) {
        self.0 -= other.0;
    }
}
impl Mul<u64> for Bytes {
    type Output = Bytes;
    #[inline]
    fn mul(self, times: u64) -> Bytes {
        Bytes(self.0 * times)
    }
}
impl Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(amounts: I) -> Bytes {
        amounts.fold(Bytes::ZERO, |a, b| a + b)
    }
}

parse::text_serde!(
    Bytes,
    "An amount of data with its unit, such as \"64 B\" or \"4 KiB\".",
    r"^\s*[0-9][0-9_]*(\.[0-9]+)?\s*(B|kB|KiB|MB|MiB|GB|GiB|TB|TiB)\s*$"
);

#[cfg(test)]
mod tests {
    use crate::Remedy;

    use super::*;

    #[test]
    fn text_round_trip() {
        for (text, bytes) in [("64 B", 64), ("4 KiB", 4096), ("2 MB", 2_000_000), ("1.5 KiB", 1536), ("1 TiB", 1 << 40)] {
            assert_eq!(Bytes::parse(text).unwrap(), Bytes(bytes), "{text}");
        }
        for bytes in [0, 1, 1000, 1024, 4096, 1_000_000, 1 << 20] {
            assert_eq!(Bytes::parse(&Bytes(bytes).to_string()).unwrap(), Bytes(bytes));
        }
    }

    #[test]
    fn the_last_piece_may_not_be_full() {
        for (bytes, pieces) in [(0, 0), (1, 1), (64, 1), (65, 2)] {
            assert_eq!(Bytes(bytes).div_ceil(Bytes(64)), pieces);
        }
    }

    #[test]
    fn the_ambiguous_kb_is_refused() {
        let message = Bytes::parse("4 KB").unwrap_err().in_full();
        assert!(message.contains("KiB") && message.contains("kB"), "{message}");
        assert!(Bytes::parse("0.3 B").is_err());
        assert!(Bytes::parse("4096").is_err());
    }
}
