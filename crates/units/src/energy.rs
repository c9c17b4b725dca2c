//! Power, energy, and the energy that a bit costs.
//!
//! Whole numbers inside: microwatts, attojoules (a microwatt for a picosecond), femtojoules a bit. Sums and products are exact.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul};

use crate::parse::{self, UnitError};
use crate::{Bytes, Ratio, Span};

/// Electrical power in microwatts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Power(u64);

impl Power {
    /// No power.
    pub const ZERO: Power = Power(0);

    /// `microwatts` × 10⁻⁶ W.
    pub const fn from_microwatts(microwatts: u64) -> Power {
        Power(microwatts)
    }
    /// Whole watts; the largest power where they are more.
    pub const fn from_watts(watts: u64) -> Power {
        Power(watts.saturating_mul(1_000_000))
    }
    /// Watts, for printing and statistics.
    pub fn as_watts_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
    /// This power for so long.
    #[must_use]
    pub const fn energy(self, span: Span) -> Energy {
        // Both are below 2⁶⁴, so the product fits.
        Energy(self.0 as u128 * span.as_ps() as u128)
    }
    /// This share of it, rounded down to a microwatt.
    #[must_use]
    pub const fn share(self, ratio: Ratio) -> Power {
        let (numerator, denominator) = ratio.terms();
        // The ratio is at most one, so the result fits.
        Power((self.0 as u128 * numerator as u128 / denominator as u128) as u64)
    }
    /// The sum, or the largest power where it is more.
    #[must_use]
    pub const fn saturating_add(self, other: Power) -> Power {
        Power(self.0.saturating_add(other.0))
    }
    /// So many times it, or the largest power where that is more.
    #[must_use]
    pub const fn saturating_mul(self, times: u64) -> Power {
        Power(self.0.saturating_mul(times))
    }
    /// The difference; `None` where `other` is more.
    #[must_use]
    pub const fn checked_sub(self, other: Power) -> Option<Power> {
        match self.0.checked_sub(other.0) {
            Some(left) => Some(Power(left)),
            None => None,
        }
    }
    /// Reads text such as `"253 W"`, `"0.1 W"`, `"1.2 kW"`.
    ///
    /// # Errors
    /// A missing or foreign unit; a fraction of a microwatt.
    pub fn parse(text: &str) -> Result<Power, UnitError> {
        parse::quantity(text, "a power", "253 W", POWERS).map(Power)
    }
}

const POWERS: &[(&str, u128)] = &[("uW", 1), ("mW", 1_000), ("W", 1_000_000), ("kW", 1_000_000_000), ("MW", 1_000_000_000_000)];

impl fmt::Display for Power {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        parse::print(f, self.0, &[("kW", 1_000_000_000), ("W", 1_000_000), ("mW", 1_000), ("uW", 1)])
    }
}
impl fmt::Debug for Power {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Power({self})")
    }
}

/// Energy in attojoules: what a microwatt gives in a picosecond.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Energy(u128);

impl Energy {
    /// None.
    pub const ZERO: Energy = Energy(0);

    /// Joules, for printing and statistics.
    pub fn as_joules_f64(self) -> f64 {
        self.0 as f64 / 1e18
    }
    /// The mean power of this energy in `span`, in watts; nothing for an empty span.
    #[must_use]
    pub fn mean_watts(self, span: Span) -> Option<f64> {
        (span > Span::ZERO).then(|| self.0 as f64 / span.as_ps() as f64 / 1e6)
    }
    /// Picojoules for each bit of `amount`; nothing where there is none.
    #[must_use]
    pub fn picojoules_per_bit(self, amount: Bytes) -> Option<f64> {
        (amount > Bytes::ZERO).then(|| self.0 as f64 / 1e6 / (amount.as_u64() as f64 * 8.0))
    }
    /// The part of `whole` that it is [0..1]; nothing of nothing.
    #[must_use]
    pub fn part_of(self, whole: Energy) -> Option<f64> {
        (whole > Energy::ZERO).then(|| self.0 as f64 / whole.0 as f64)
    }
}

impl Add for Energy {
    type Output = Energy;
    fn add(self, other: Energy) -> Energy {
        Energy(self.0.saturating_add(other.0))
    }
}
impl AddAssign for Energy {
    fn add_assign(&mut self, other: Energy) {
        *self = *self + other;
    }
}
impl Sum for Energy {
    fn sum<I: Iterator<Item = Energy>>(all: I) -> Energy {
        all.fold(Energy::ZERO, Add::add)
    }
}
impl fmt::Debug for Energy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Energy({} aJ)", self.0)
    }
}

/// What a bit costs beyond the power that is drawn anyway, in femtojoules.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EnergyPerBit(u64);

impl EnergyPerBit {
    /// Reads text such as `"5 pJ/b"`.
    ///
    /// # Errors
    /// A missing or foreign unit; a fraction of a femtojoule.
    pub fn parse(text: &str) -> Result<EnergyPerBit, UnitError> {
        parse::quantity(text, "an energy per bit", "5 pJ/b", &[("fJ/b", 1), ("pJ/b", 1_000), ("nJ/b", 1_000_000)]).map(EnergyPerBit)
    }
    /// The power of a stream at `rate`, rounded down to a microwatt: `e · rate`.
    #[must_use]
    pub const fn at(self, rate: crate::Rate) -> Power {
        // fJ/b · b/s = 10⁻¹⁵ W = 10⁻⁹ uW.
        let microwatts = self.0 as u128 * rate.as_bps() as u128 / 1_000_000_000;
        Power(if microwatts > u64::MAX as u128 { u64::MAX } else { microwatts as u64 })
    }
}

impl Mul<Bytes> for EnergyPerBit {
    type Output = Energy;
    fn mul(self, amount: Bytes) -> Energy {
        // 1 fJ is 1000 aJ; below 2⁶⁴ · 2⁶⁴ · 8000 the sum of a run is far away.
        Energy((u128::from(self.0) * 8_000).saturating_mul(u128::from(amount.as_u64())))
    }
}
impl fmt::Display for EnergyPerBit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        parse::print(f, self.0, &[("nJ/b", 1_000_000), ("pJ/b", 1_000), ("fJ/b", 1)])
    }
}
impl fmt::Debug for EnergyPerBit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EnergyPerBit({self})")
    }
}

parse::text_serde!(Power, "A power with its unit, such as \"253 W\".", r"^\s*[0-9][0-9_]*(\.[0-9]+)?\s*(uW|mW|W|kW|MW)\s*$");
parse::text_serde!(EnergyPerBit, "An energy per bit with its unit, such as \"5 pJ/b\".", r"^\s*[0-9][0-9_]*(\.[0-9]+)?\s*[fpn]J/b\s*$");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rate;

    /// 24.9 W for 2 s are 49.8 J; 5 pJ for each bit of 400 Gb/s are 2 W, and of 1 GB 0.04 J.
    #[test]
    fn power_for_a_time_and_energy_for_bits() {
        let card = Power::parse("24.9 W").unwrap();
        let energy = card.energy(Span::from_us(2_000_000));
        assert!((energy.as_joules_f64() - 49.8).abs() < 1e-12);
        assert!((energy.mean_watts(Span::from_us(2_000_000)).unwrap() - 24.9).abs() < 1e-12);
        let bit = EnergyPerBit::parse("5 pJ/b").unwrap();
        assert_eq!(bit.at(Rate::from_gbps(400)), Power::from_watts(2));
        let moved = bit * Bytes(1_000_000_000);
        assert!((moved.as_joules_f64() - 0.04).abs() < 1e-15);
        assert!((moved.picojoules_per_bit(Bytes(1_000_000_000)).unwrap() - 5.0).abs() < 1e-12);
        assert_eq!(moved.picojoules_per_bit(Bytes::ZERO), None);
    }

    #[test]
    fn text_round_trip() {
        for (text, microwatts) in [("253 W", 253_000_000), ("0.1 W", 100_000), ("1.72 kW", 1_720_000_000), ("2500 mW", 2_500_000)] {
            let power = Power::parse(text).unwrap();
            assert_eq!(power, Power::from_microwatts(microwatts), "{text}");
            assert_eq!(Power::parse(&power.to_string()).unwrap(), power);
        }
        assert_eq!(Power::from_watts(253).to_string(), "253 W");
        assert_eq!(EnergyPerBit::parse("5.5 pJ/b").unwrap().to_string(), "5.5 pJ/b");
        assert!(Power::parse("253").is_err() && Power::parse("253 VA").is_err() && EnergyPerBit::parse("5 pJ").is_err());
    }

    #[test]
    fn a_share_and_what_is_left() {
        let port = Power::from_watts(2);
        assert_eq!(port.share(Ratio::new(1, 10).unwrap()), Power::from_microwatts(200_000));
        assert_eq!(port.checked_sub(Power::from_watts(3)), None);
        assert_eq!(Power::from_microwatts(u64::MAX).saturating_add(port), Power::from_microwatts(u64::MAX));
        assert_eq!(Energy::ZERO.part_of(Energy::ZERO), None);
    }
}
