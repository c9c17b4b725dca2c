//! How fast a processor computes.

use std::fmt;

use crate::parse::{self, UnitError};
use crate::{Frequency, Ratio, Span};

/// Floating-point operations per second, in whole 10⁶; a multiplication with its addition counts as two.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct OperationRate(u64);

impl OperationRate {
    /// Operations per second, for printing and models of kernels.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 * 1e6
    }
    /// What so many operations a cycle come to at this clock, rounded down to 10⁶ operations per second; the largest rate where they are more.
    #[must_use]
    pub fn per_cycle(clock: Frequency, operations: u64) -> OperationRate {
        OperationRate((clock.as_hz().saturating_mul(operations)) / 1_000_000)
    }
    /// This share of it, rounded down to 10⁶ operations per second.
    #[must_use]
    pub fn share(self, ratio: Ratio) -> OperationRate {
        let (numerator, denominator) = ratio.terms();
        // The ratio is at most one, so the result fits.
        OperationRate((u128::from(self.0) * u128::from(numerator) / u128::from(denominator)) as u64)
    }
    /// The time that many operations take, to a picosecond; [`Span::MAX`] where nothing is computed.
    pub fn time(self, operations: f64) -> Span {
        let ps = operations / self.as_f64() * 1e12;
        // `as` ends at the largest value.
        if self.0 == 0 { Span::MAX } else { Span::from_ps(ps.round() as u64) }
    }
    /// Reads text such as `"312 TFLOP/s"`.
    ///
    /// # Errors
    /// A missing or foreign unit; a fraction of 10⁶ operations per second.
    pub fn parse(text: &str) -> Result<OperationRate, UnitError> {
        parse::quantity(text, "a rate of operations", "312 TFLOP/s", UNITS).map(OperationRate)
    }
}

const UNITS: &[(&str, u128)] = &[("MFLOP/s", 1), ("GFLOP/s", 1_000), ("TFLOP/s", 1_000_000), ("PFLOP/s", 1_000_000_000)];

impl fmt::Display for OperationRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        parse::print(f, self.0, &[("TFLOP/s", 1_000_000), ("GFLOP/s", 1_000), ("MFLOP/s", 1)])
    }
}
impl fmt::Debug for OperationRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OperationRate({self})")
    }
}

parse::text_serde!(
    OperationRate,
    "Floating-point operations per second with their unit, such as \"312 TFLOP/s\".",
    r"^\s*[0-9][0-9_]*(\.[0-9]+)?\s*[MGTP]FLOP/s\s*$"
);

#[cfg(test)]
mod tests {
    use super::*;

    /// 312 TFLOP/s of an A100 for 10¹² operations: 1 / 312 s.
    #[test]
    fn a_trillion_operations() {
        let rate = OperationRate::parse("312 TFLOP/s").unwrap();
        assert_eq!(rate.time(1e12), Span::from_ps(3_205_128_205));
        assert_eq!(rate.to_string(), "312 TFLOP/s");
        assert_eq!(rate.share(Ratio::new(1, 2).unwrap()).to_string(), "156 TFLOP/s");
        assert!(OperationRate::parse("312 TFLOPS").is_err());
        assert_eq!(OperationRate::default().time(1.0), Span::MAX);
    }
}
