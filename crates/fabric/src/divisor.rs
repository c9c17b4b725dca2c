//! Division of 32-bit numbers by a number that is known in advance: a multiplication instead.
//!
//! Source: D. Lemire, O. Kaser, N. Kurz, "Faster remainder by direct computation", Software: Practice
//! and Experience 49(6), 2019: with c = ⌈2⁶⁴ / d⌉, ⌊n / d⌋ = ⌊c · n / 2⁶⁴⌋ for all 32-bit n and d > 1.

/// A divisor of 32-bit numbers, at least 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Divisor {
    magic: u64,
    divisor: u32,
    /// All ones where the divisor is 1, whose magic number would need 65 bits; else zero.
    whole: u32,
}

impl Divisor {
    pub(crate) fn new(divisor: u32) -> Divisor {
        assert!(divisor > 0, "shapes have no level of width zero");
        Divisor { magic: (u64::MAX / u64::from(divisor)).wrapping_add(1), divisor, whole: if divisor == 1 { u32::MAX } else { 0 } }
    }
    /// ⌊n / d⌋
    #[inline(always)]
    pub(crate) fn quotient(self, n: u32) -> u32 {
        ((u128::from(self.magic) * u128::from(n)) >> 64) as u32 | (n & self.whole)
    }
    /// n mod d
    #[inline(always)]
    pub(crate) fn remainder(self, n: u32) -> u32 {
        n.wrapping_sub(self.quotient(n).wrapping_mul(self.divisor))
    }
    #[inline(always)]
    pub(crate) fn get(self) -> u32 {
        self.divisor
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_the_division_of_the_machine(n: u32, d in prop_oneof![1u32..70, 1u32..=u32::MAX]) {
            let divisor = Divisor::new(d);
            prop_assert_eq!(divisor.quotient(n), n / d);
            prop_assert_eq!(divisor.remainder(n), n % d);
        }
    }

    #[test]
    fn the_edges() {
        for d in [1, 2, 3, u32::MAX - 1, u32::MAX] {
            for n in [0, 1, d - 1, d, d.wrapping_add(1), u32::MAX] {
                assert_eq!((Divisor::new(d).quotient(n), Divisor::new(d).remainder(n)), (n / d, n % d), "{n} / {d}");
            }
        }
    }
}
