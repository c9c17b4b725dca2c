//! A data rate in whole bits per second.

use std::fmt;
use std::ops::{Div, Mul};

use crate::parse::{self, UnitError};
use crate::{Bytes, Span};

/// A data rate in bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(u64);

impl Rate {
    /// `bits` bits per second.
    #[inline]
    pub const fn from_bps(bits: u64) -> Rate {
        Rate(bits)
    }
    /// `gigabits` × 10⁹ bits per second.
    pub const fn from_gbps(gigabits: u64) -> Rate {
        Rate(gigabits * 1_000_000_000)
    }
    /// Bits per second.
    #[inline]
    pub const fn as_bps(self) -> u64 {
        self.0
    }
    /// Bytes per second, for printing and statistics.
    pub fn as_bytes_per_s_f64(self) -> f64 {
        self.0 as f64 / 8.0
    }
    /// The time `amount` takes at this rate, rounded up to a picosecond: `8 · bytes / rate`.
    ///
    /// A rate of zero gives [`Span::MAX`].
    #[inline]
    pub const fn time(self, amount: Bytes) -> Span {
        if self.0 == 0 {
            return Span::MAX;
        }
        // A packet fits u64 arithmetic: 8e12 · 2 MiB < 2^64.
        if amount.0 < 2_000_000 {
            return Span::from_ps((amount.0 * 8_000_000_000_000).div_ceil(self.0));
        }
        let ps = (amount.0 as u128 * 8_000_000_000_000).div_ceil(self.0 as u128);
        Span::from_ps(if ps > u64::MAX as u128 { u64::MAX } else { ps as u64 })
    }
    /// What this rate carries in `span`, rounded down.
    pub const fn amount_in(self, span: Span) -> Bytes {
        let bytes = self.0 as u128 * span.as_ps() as u128 / 8_000_000_000_000;
        Bytes(if bytes > u64::MAX as u128 { u64::MAX } else { bytes as u64 })
    }
    /// The rate that carries `amount` in `span`, rounded down; zero for an empty span.
    pub const fn of(amount: Bytes, span: Span) -> Rate {
        if span.as_ps() == 0 {
            return Rate(0);
        }
        let bits = amount.0 as u128 * 8_000_000_000_000 / span.as_ps() as u128;
        Rate(if bits > u64::MAX as u128 { u64::MAX } else { bits as u64 })
    }
    /// Reads text such as `"400 Gb/s"`, `"12.5 GB/s"`, `"1 MiB/s"`.
    ///
    /// # Errors
    /// A missing or foreign unit; a fraction of a bit per second.
    pub fn parse(text: &str) -> Result<Rate, UnitError> {
        parse::quantity(text, "a rate", "400 Gb/s", UNITS).map(Rate)
    }
}

const UNITS: &[(&str, u128)] = &[
    ("b/s", 1),
    ("kb/s", 1_000),
    ("Mb/s", 1_000_000),
    ("Gb/s", 1_000_000_000),
    ("Tb/s", 1_000_000_000_000),
    ("B/s", 8),
    ("kB/s", 8_000),
    ("MB/s", 8_000_000),
    ("GB/s", 8_000_000_000),
    ("TB/s", 8_000_000_000_000),
    ("KiB/s", 8 << 10),
    ("MiB/s", 8 << 20),
    ("GiB/s", 8 << 30),
];

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        parse::print(f, self.0, &[("Tb/s", 1_000_000_000_000), ("Gb/s", 1_000_000_000), ("Mb/s", 1_000_000), ("kb/s", 1_000), ("b/s", 1)])
    }
}
impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rate({self})")
    }
}
impl Mul<u64> for Rate {
    type Output = Rate;
    fn mul(self, times: u64) -> Rate {
        Rate(self.0 * times)
    }
}
impl Div<u64> for Rate {
    type Output = Rate;
    fn div(self, parts: u64) -> Rate {
        Rate(self.0 / parts)
    }
}

parse::text_serde!(
    Rate,
    "A data rate with its unit, such as \"400 Gb/s\" (bits) or \"12.5 GB/s\" (bytes).",
    r"^\s*[0-9][0-9_]*(\.[0-9]+)?\s*([kMGT]?[bB]|[KMG]iB)/s\s*$"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_mtu_at_400g() {
        // 4096 B · 8 b/B / 400 Gb/s = 81.92 ns
        assert_eq!(Rate::from_gbps(400).time(Bytes(4096)), Span::from_ps(81_920));
    }

    #[test]
    fn time_agrees_on_both_sides_of_the_fast_path() {
        // 2 000 000 B at 8 Gb/s is 2 ms on either path.
        let rate = Rate::from_gbps(8);
        assert_eq!(rate.time(Bytes(1_999_999)) + Span::from_ns(1), rate.time(Bytes(2_000_000)));
        assert_eq!(Rate::from_bps(0).time(Bytes(1)), Span::MAX);
    }

    #[test]
    fn what_a_rate_carries() {
        assert_eq!(Rate::from_gbps(400).amount_in(Span::from_ps(81_920)), Bytes(4096));
        assert_eq!(Rate::from_bps(u64::MAX).amount_in(Span::MAX), Bytes(u64::MAX));
    }

    #[test]
    fn text_round_trip() {
        for (text, bits) in [("400 Gb/s", 400_000_000_000), ("12.5 GB/s", 100_000_000_000), ("25.78125 Gb/s", 25_781_250_000)] {
            assert_eq!(Rate::parse(text).unwrap(), Rate::from_bps(bits), "{text}");
            assert_eq!(Rate::parse(&Rate::from_bps(bits).to_string()).unwrap(), Rate::from_bps(bits));
        }
        assert!(Rate::parse("100 Gbps").is_err());
    }
}
