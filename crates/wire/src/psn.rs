//! Packet sequence numbers: 24 bits that wrap.
//!
//! Source: InfiniBand volume 1, §9.7.2 (packet sequence numbers).

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A packet sequence number. It has no order, only a [distance](Psn::distance).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Psn(u32);

impl Psn {
    /// How many numbers there are before they repeat: 2²⁴.
    pub const COUNT: u32 = 1 << 24;

    /// The number in the lower 24 bits of `bits`.
    #[inline]
    #[must_use]
    pub const fn new(bits: u32) -> Psn {
        Psn(bits & (Psn::COUNT - 1))
    }
    /// The 24 bits.
    #[inline]
    #[must_use]
    pub const fn as_u32(self) -> u32 {
        self.0
    }
    /// The number after this one.
    #[inline]
    #[must_use]
    pub const fn next(self) -> Psn {
        Psn::new(self.0 + 1)
    }
    /// The number before this one.
    #[inline]
    #[must_use]
    pub const fn previous(self) -> Psn {
        Psn::new(self.0.wrapping_sub(1))
    }
    /// How far this number lies after `base`: −2²³ to 2²³ − 1, negative when it lies before.
    #[inline]
    #[must_use]
    pub const fn distance(self, base: Psn) -> i32 {
        (self.0.wrapping_sub(base.0) << 8) as i32 >> 8
    }
    /// Whether this number comes before `other`.
    #[inline]
    #[must_use]
    pub const fn is_before(self, other: Psn) -> bool {
        self.distance(other) < 0
    }
}

impl Add<u32> for Psn {
    type Output = Psn;
    #[inline]
    fn add(self, packets: u32) -> Psn {
        Psn::new(self.0.wrapping_add(packets))
    }
}
impl AddAssign<u32> for Psn {
    #[inline]
    fn add_assign(&mut self, packets: u32) {
        *self = *self + packets;
    }
}
impl Sub<u32> for Psn {
    type Output = Psn;
    #[inline]
    fn sub(self, packets: u32) -> Psn {
        Psn::new(self.0.wrapping_sub(packets))
    }
}
impl fmt::Display for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
impl fmt::Debug for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Psn({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_wrap() {
        assert_eq!(Psn::new(0xFF_FFFF).next(), Psn::new(0));
        assert_eq!(Psn::new(0).previous(), Psn::new(0xFF_FFFF));
        assert_eq!(Psn::new(0x100_0005), Psn::new(5));
        assert_eq!(Psn::new(2).distance(Psn::new(0xFF_FFFE)), 4);
        assert_eq!(Psn::new(0xFF_FFFE).distance(Psn::new(2)), -4);
        assert_eq!(Psn::new(1 << 23).distance(Psn::new(0)), -(1 << 23));
        assert!(Psn::new(0xFF_FFFF).is_before(Psn::new(0)) && !Psn::new(7).is_before(Psn::new(7)));
    }

    proptest! {
        #[test]
        fn distance_undoes_addition(base in any::<u32>(), packets in 0u32..1 << 23) {
            let base = Psn::new(base);
            prop_assert_eq!((base + packets).distance(base), packets as i32);
            prop_assert_eq!((base - packets).distance(base), -(packets as i32));
            prop_assert_eq!(base + packets - packets, base);
        }
    }
}
