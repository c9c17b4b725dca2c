//! A core's clock and a ratio.
//!
//! Text carries its unit as everywhere; whole numbers inside (hertz, numerator and denominator).

use std::fmt;

use crate::parse::text_serde;
use crate::{Rate, UnitError};

/// The clock of a core in hertz.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Frequency(u64);

impl Frequency {
    /// Whole hertz.
    pub const fn as_hz(self) -> u64 {
        self.0
    }
    /// Reads text such as `"2.4 GHz"`.
    ///
    /// # Errors
    /// A missing or foreign unit; a fraction of a hertz.
    pub fn parse(text: &str) -> Result<Frequency, UnitError> {
        quantity(text, "a frequency", "2.4 GHz", &[("Hz", 1), ("kHz", 1000), ("MHz", 1_000_000), ("GHz", 1_000_000_000)]).map(Frequency)
    }
}

impl fmt::Display for Frequency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 % 1_000_000 {
            0 if self.0.is_multiple_of(1_000_000_000) => write!(f, "{} GHz", self.0 / 1_000_000_000),
            0 => write!(f, "{} MHz", self.0 / 1_000_000),
            _ => write!(f, "{} Hz", self.0),
        }
    }
}

/// A ratio of whole numbers not above one, `"64/66"`: payload bits per line bits, or a share of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ratio {
    numerator: u32,
    denominator: u32,
}

impl Ratio {
    /// `numerator/denominator`; `None` for a ratio above one or without a denominator.
    pub const fn new(numerator: u32, denominator: u32) -> Option<Ratio> {
        if denominator == 0 || numerator > denominator { None } else { Some(Ratio { numerator, denominator }) }
    }
    /// The two numbers of which this is the ratio.
    pub const fn terms(self) -> (u32, u32) {
        (self.numerator, self.denominator)
    }
    /// This share of `rate`, rounded down to a bit per second.
    pub const fn of(self, rate: Rate) -> Rate {
        // The ratio is at most one, so the result fits what the rate fitted.
        Rate::from_bps((rate.as_bps() as u128 * self.numerator as u128 / self.denominator as u128) as u64)
    }
    /// This share of a whole number, rounded down.
    pub const fn of_count(self, count: u32) -> u32 {
        (count as u64 * self.numerator as u64 / self.denominator as u64) as u32
    }
    /// The ratio as a number [0..1], for printing and statistics.
    pub fn as_f64(self) -> f64 {
        f64::from(self.numerator) / f64::from(self.denominator)
    }
    /// Reads text such as `"64/66"`.
    ///
    /// # Errors
    /// Anything but two whole numbers with a slash between, the first not larger than the second.
    pub fn parse(text: &str) -> Result<Ratio, UnitError> {
        text.split_once('/')
            .and_then(|(a, b)| Ratio::new(a.trim().parse().ok()?, b.trim().parse().ok()?))
            .ok_or_else(|| UnitError::NoNumber { text: text.to_owned(), what: "a ratio of at most one", example: "64/66" })
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.numerator, self.denominator)
    }
}

/// Reads `<decimal number> <unit>` into whole steps of the smallest unit, with at most nine decimals.
fn quantity(text: &str, what: &'static str, example: &'static str, units: &[(&str, u64)]) -> Result<u64, UnitError> {
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
    let (number, unit) = (&trimmed[..split], trimmed[split..].trim());
    let no_number = || UnitError::NoNumber { text: text.to_owned(), what, example };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.contains('.') || (number.contains('.') && fraction.is_empty()) {
        return Err(no_number());
    }
    if unit.is_empty() {
        return Err(UnitError::NoUnit { text: text.to_owned(), what, example: example.to_owned() });
    }
    let Some(&(_, scale)) = units.iter().find(|(name, _)| *name == unit) else {
        let known = units.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        return Err(UnitError::UnknownUnit { unit: unit.to_owned(), what, known });
    };
    let too_large = || UnitError::TooLarge { text: text.to_owned(), what };
    let too_fine = || UnitError::TooFine { text: text.to_owned(), what };
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > 9 {
        return Err(too_fine());
    }
    let whole: u64 = whole.parse().map_err(|_| too_large())?;
    let digits: u64 = if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| no_number())? };
    let decimals = 10u64.pow(fraction.len() as u32);
    // Below 10^9 times 10^9: fits.
    let parts = digits * scale;
    if !parts.is_multiple_of(decimals) {
        return Err(too_fine());
    }
    whole.checked_mul(scale).and_then(|w| w.checked_add(parts / decimals)).ok_or_else(too_large)
}

text_serde!(Frequency, "A frequency with its unit, such as \"2.4 GHz\".", r"^\s*[0-9]+(\.[0-9]+)?\s*(Hz|kHz|MHz|GHz)\s*$");
text_serde!(Ratio, "A ratio of at most one, such as \"64/66\".", r"^\s*[0-9]+\s*/\s*[0-9]+\s*$");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Remedy;

    #[test]
    fn text_round_trip() {
        assert_eq!(Frequency::parse("2.4 GHz").unwrap().as_hz(), 2_400_000_000);
        assert_eq!(Frequency::parse("2.4 GHz").unwrap().to_string(), "2400 MHz");
        assert_eq!(Ratio::parse("64/66").unwrap().to_string(), "64/66");
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(Frequency::parse("2").unwrap_err().to_string().contains("no unit"));
        assert!(Frequency::parse("2 rpm").unwrap_err().in_full().contains("GHz"));
        assert!(Frequency::parse("0.1 Hz").is_err());
        assert!(Frequency::parse("99999999999999999999 Hz").is_err());
        for text in ["66/64", "1/0", "1", "a/b", "-1/2"] {
            assert!(Ratio::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_ratio_of_a_rate() {
        // EDR: 4 lanes of 25.78125 Gb/s carry 64 of 66 bits.
        let line = Rate::parse("25.78125 Gb/s").unwrap() * 4;
        assert_eq!(Ratio::parse("64/66").unwrap().of(line), Rate::from_gbps(100));
    }
}
