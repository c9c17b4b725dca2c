//! The time of a byte on a wire, as a fixed-point number.

use std::fmt;

use crate::{Bytes, Rate, Span};

/// The time of a byte at some rate, in 2⁻¹⁶ ps: the form of a [`Rate`] in which the time of a packet is one multiplication.
///
/// Exact to 2⁻¹⁶ ps a byte, which is 0.06 ps for 4 KiB. Amounts must be below 1 MiB: what a wire sends at a time is a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Pace(u64);

/// Fraction bits.
const FRACTION: u32 = 16;
/// 8 · 10¹² ps are a byte at 1 b/s.
const BYTE_AT_ONE_BPS: u128 = 8_000_000_000_000 << FRACTION;
/// Slower than 30 kb/s: 2²⁰ bytes of it fit into 64 bits.
const SLOWEST: u128 = (1 << 44) - 1;

impl Pace {
    /// The time of a byte at `rate`, rounded down; rates below 30 kb/s count as that.
    #[must_use]
    pub const fn of(rate: Rate) -> Pace {
        let bits = if rate.as_bps() == 0 { 1 } else { rate.as_bps() as u128 };
        let pace = BYTE_AT_ONE_BPS / bits;
        Pace(if pace > SLOWEST { SLOWEST as u64 } else { pace as u64 })
    }
    /// How long `amount` occupies the wire.
    #[inline]
    #[must_use]
    pub const fn time(self, amount: Bytes) -> Span {
        Span::from_ps((amount.0 * self.0) >> FRACTION)
    }
    /// What the wire carries in `span`.
    #[inline]
    #[must_use]
    pub const fn bytes_in(self, span: Span) -> Bytes {
        Bytes((span.as_ps() << FRACTION) / self.nonzero())
    }
    /// The rate, to a few parts in a million.
    #[must_use]
    pub const fn rate(self) -> Rate {
        Rate::from_bps((BYTE_AT_ONE_BPS / self.nonzero() as u128) as u64)
    }
    /// The pace of a wire of which `left` lanes of `all` are in use.
    #[must_use]
    pub const fn on_lanes(self, left: u32, all: u32) -> Pace {
        let left = if left == 0 { 1 } else { left as u128 };
        let pace = self.0 as u128 * all as u128 / left;
        Pace(if pace > SLOWEST { SLOWEST as u64 } else { pace as u64 })
    }

    const fn nonzero(self) -> u64 {
        if self.0 == 0 { 1 } else { self.0 }
    }
}

impl fmt::Debug for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pace({})", self.rate())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_packet_at_400g() {
        // 20 ps a byte: 4178 B take 83.56 ns, and as many bytes go in that time.
        let pace = Pace::of(Rate::from_gbps(400));
        assert_eq!(pace.time(Bytes(4178)), Span::from_ps(83_560));
        assert_eq!(pace.bytes_in(Span::from_ps(83_560)), Bytes(4178));
        assert_eq!(pace.rate(), Rate::from_gbps(400));
    }

    #[test]
    fn a_pace_is_a_rate_to_a_picosecond_a_packet() {
        for gigabits in [1, 3, 10, 25, 56, 100, 200, 400, 800, 1600] {
            let rate = Rate::from_gbps(gigabits);
            let (pace, exact) = (Pace::of(rate).time(Bytes(4096)), rate.time(Bytes(4096)));
            assert!(exact - pace <= Span::from_ps(1), "{rate}: {pace} and {exact}");
        }
    }

    #[test]
    fn half_the_lanes_take_twice_the_time() {
        let pace = Pace::of(Rate::from_gbps(400));
        assert_eq!(pace.on_lanes(2, 4), Pace::of(Rate::from_gbps(200)));
        assert_eq!(pace.on_lanes(4, 4), pace);
    }

    #[test]
    fn no_rate_is_too_slow_for_a_packet() {
        let slowest = Pace::of(Rate::from_bps(1));
        assert_eq!(slowest, Pace::of(Rate::from_bps(0)));
        assert!(slowest.time(Bytes((1 << 20) - 1)) > Span::from_us(200_000_000), "a mebibyte at 30 kb/s takes 280 s");
        assert_eq!(Pace::of(Rate::from_bps(u64::MAX)).bytes_in(Span::from_ps(1)), Bytes(1 << 16), "no division by zero");
    }
}
