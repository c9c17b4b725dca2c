//! A point in simulated time and a length of it, both in whole picoseconds.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

use crate::parse::{self, UnitError};

/// A point in simulated time: picoseconds since the start of the run (reaches 213 days).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

/// A length of simulated time in whole picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(u64);

impl Time {
    /// The start of every run.
    pub const ZERO: Time = Time(0);
    /// Later than every event.
    pub const MAX: Time = Time(u64::MAX);

    /// The point `ps` picoseconds after the start.
    #[inline]
    pub const fn from_ps(ps: u64) -> Time {
        Time(ps)
    }
    /// Picoseconds since the start.
    #[inline]
    pub const fn as_ps(self) -> u64 {
        self.0
    }
    /// Whether this is a point that is reached: [`Time::MAX`] stands for never.
    #[inline]
    pub const fn is_known(self) -> bool {
        self.0 != u64::MAX
    }
    /// The point `span` before this one, or the start of the run where that is later.
    #[inline]
    pub const fn saturating_sub(self, span: Span) -> Time {
        Time(self.0.saturating_sub(span.0))
    }
    /// The point `span` after this one, or [`Time::MAX`] where that is earlier.
    #[inline]
    pub const fn saturating_add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
    /// The first point from this one on that is a multiple of `period` from the start.
    ///
    /// # Panics
    /// `period` is zero.
    pub const fn next_multiple_of(self, period: Span) -> Time {
        Time(self.0.next_multiple_of(period.0))
    }
    /// How long after `earlier` this point lies; zero if it lies before it.
    #[inline]
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);
    /// Longer than any run.
    pub const MAX: Span = Span(u64::MAX);

    /// `ps` picoseconds.
    #[inline]
    pub const fn from_ps(ps: u64) -> Span {
        Span(ps)
    }
    /// `ns` nanoseconds.
    #[inline]
    pub const fn from_ns(ns: u64) -> Span {
        Span(ns * 1_000)
    }
    /// `us` microseconds.
    #[inline]
    pub const fn from_us(us: u64) -> Span {
        Span(us * 1_000_000)
    }
    /// Whole picoseconds.
    #[inline]
    pub const fn as_ps(self) -> u64 {
        self.0
    }
    /// Nanoseconds, for printing and statistics.
    pub fn as_ns_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }
    /// Microseconds, for printing and statistics.
    pub fn as_us_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
    /// Seconds, for printing and statistics.
    pub fn as_s_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }
    /// The difference, or zero where `other` is longer.
    #[inline]
    pub const fn saturating_sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
    /// The sum, or [`Span::MAX`].
    #[inline]
    pub const fn saturating_add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
    /// So many times this length, or [`Span::MAX`].
    #[inline]
    pub const fn saturating_mul(self, times: u64) -> Span {
        Span(self.0.saturating_mul(times))
    }
    /// This length times `units` / 2³², as random numbers come: with 32 bits behind the point.
    #[must_use]
    pub const fn scaled(self, units: u64) -> Span {
        Span(((self.0 as u128 * units as u128) >> 32) as u64)
    }
    /// Reads text such as `"620 ns"`, `"1.5 us"`, `"2 ms"`.
    ///
    /// # Errors
    /// A missing or foreign unit, a negative or fractional number of picoseconds.
    pub fn parse(text: &str) -> Result<Span, UnitError> {
        parse::quantity(text, "a time", "620 ns", UNITS).map(Span)
    }
}

const UNITS: &[(&str, u128)] =
    &[("ps", 1), ("ns", 1_000), ("us", 1_000_000), ("µs", 1_000_000), ("ms", 1_000_000_000), ("s", 1_000_000_000_000)];

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        parse::print(f, self.0, &[("s", 1_000_000_000_000), ("ms", 1_000_000_000), ("us", 1_000_000), ("ns", 1_000), ("ps", 1)])
    }
}
impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Span({self})")
    }
}
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Span(self.0).fmt(f)
    }
}
impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Time({self})")
    }
}

impl Add<Span> for Time {
    type Output = Time;
    #[inline]
    fn add(self, span: Span) -> Time {
        Time(self.0 + span.0)
    }
}
impl AddAssign<Span> for Time {
    #[inline]
    fn add_assign(&mut self, span: Span) {
        self.0 += span.0;
    }
}
impl Sub<Span> for Time {
    type Output = Time;
    #[inline]
    fn sub(self, span: Span) -> Time {
        Time(self.0 - span.0)
    }
}
impl Sub<Time> for Time {
    type Output = Span;
    #[inline]
    fn sub(self, earlier: Time) -> Span {
        Span(self.0 - earlier.0)
    }
}
impl Add for Span {
    type Output = Span;
    #[inline]
    fn add(self, other: Span) -> Span {
        Span(self.0 + other.0)
    }
}
impl AddAssign for Span {
    #[inline]
    fn add_assign(&mut self, other: Span) {
        self.0 += other.0;
    }
}
impl Sub for Span {
    type Output = Span;
    #[inline]
    fn sub(self, other: Span) -> Span {
        Span(self.0 - other.0)
    }
}
impl SubAssign for Span {
    #[inline]
    fn sub_assign(&mut self, other: Span) {
        self.0 -= other.0;
    }
}
impl Mul<u64> for Span {
    type Output = Span;
    #[inline]
    fn mul(self, times: u64) -> Span {
        Span(self.0 * times)
    }
}
impl Div<u64> for Span {
    type Output = Span;
    #[inline]
    fn div(self, parts: u64) -> Span {
        Span(self.0 / parts)
    }
}
impl Sum for Span {
    fn sum<I: Iterator<Item = Span>>(spans: I) -> Span {
        spans.fold(Span::ZERO, |a, b| a + b)
    }
}

parse::text_serde!(
    Span,
    "A length of time with its unit, such as \"620 ns\" or \"1.5 us\".",
    r"^\s*[0-9][0-9_]*(\.[0-9]+)?\s*(ps|ns|us|µs|ms|s)\s*$"
);

#[cfg(test)]
mod tests {
    use crate::Remedy;

    use super::*;

    #[test]
    fn text_round_trip() {
        for (text, ps) in [("620 ns", 620_000), ("1.5us", 1_500_000), ("0 ns", 0), ("2 ms", 2_000_000_000), ("1 ps", 1)] {
            assert_eq!(Span::parse(text).unwrap(), Span::from_ps(ps), "{text}");
        }
        for ps in [0, 1, 999, 1_000, 1_234_567, 999_999_999_999, 81_920] {
            assert_eq!(Span::parse(&Span::from_ps(ps).to_string()).unwrap().as_ps(), ps);
        }
    }

    #[test]
    fn the_ends_of_time_are_kept() {
        let (early, span) = (Time::from_ps(5), Span::from_ps(7));
        assert_eq!((early.saturating_sub(span), early.since(Time::from_ps(6))), (Time::ZERO, Span::ZERO));
        assert_eq!(Time::from_ps(9).saturating_sub(span), Time::from_ps(2));
        assert_eq!((Time::MAX.saturating_add(span), early.saturating_add(span)), (Time::MAX, Time::from_ps(12)));
        assert!(!Time::MAX.is_known() && early.is_known());
        assert_eq!(
            (Span::MAX.saturating_add(span), Span::MAX.saturating_mul(2), span.saturating_mul(3)),
            (Span::MAX, Span::MAX, Span::from_ps(21))
        );
        for (time, next) in [(0, 0), (1, 7), (7, 7), (8, 14)] {
            assert_eq!(Time::from_ps(time).next_multiple_of(span), Time::from_ps(next));
        }
    }

    #[test]
    fn a_bare_number_is_refused_with_a_remedy() {
        let message = Span::parse("620").unwrap_err().in_full();
        assert!(message.contains("no unit") && message.contains("620 ns"), "{message}");
        assert!(Span::parse("-5 ns").is_err());
        assert!(Span::parse("1.0005 ps").is_err());
        assert!(Span::parse("3 min").unwrap_err().in_full().contains("ns"));
    }
}
