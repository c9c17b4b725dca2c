//! What benchmarks of servers print: times to tokens and between them.
//!
//! Source: vLLM, benchmarks/serve.py, and GenAI-Perf for the definitions; percentiles between the nearest ranks, as NumPy's.

use fabriscope_units::Span;

/// Spans with how often each came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spread {
    /// In the order of coming until they are sorted.
    all: Vec<(Span, u64)>,
    sorted: bool,
}

impl Spread {
    /// One more.
    pub fn add(&mut self, span: Span) {
        self.sorted = false;
        match self.all.last_mut() {
            Some((known, count)) if *known == span => *count += 1,
            _ => self.all.push((span, 1)),
        }
    }
    /// How many.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.all.iter().map(|(_, count)| count).sum()
    }
    /// Their mean; none is zero.
    #[must_use]
    pub fn mean(&self) -> Span {
        let sum: u128 = self.all.iter().map(|(span, count)| u128::from(span.as_ps()) * u128::from(*count)).sum();
        Span::from_ps(u64::try_from(sum / u128::from(self.count().max(1))).unwrap_or(u64::MAX))
    }
    /// The percentile, between the ranks beside it.
    #[must_use]
    pub fn percentile(&mut self, percent: u64) -> Span {
        if !self.sorted {
            self.all.sort_unstable();
            self.sorted = true;
        }
        let hundredths = percent * self.count().saturating_sub(1);
        let (rank, part) = (hundredths / 100, hundredths % 100);
        let (low, high) = (self.ranked(rank).as_ps(), self.ranked(rank + 1).as_ps());
        Span::from_ps(low + (high - low) / 100 * part + (high - low) % 100 * part / 100)
    }
    /// The longest but `rank` shorter ones.
    fn ranked(&self, rank: u64) -> Span {
        let mut before = 0;
        for (span, count) in &self.all {
            before += count;
            if rank < before {
                return *span;
            }
        }
        self.all.last().map_or(Span::ZERO, |(span, _)| *span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NumPy: percentile([1, 2, 3, 4], 50) = 2.5, 90: 3.7, 99: 3.97.
    #[test]
    fn percentiles_lie_between_ranks() {
        let mut spread = Spread::default();
        [3, 1, 4, 2].into_iter().for_each(|us| spread.add(Span::from_us(us)));
        let found = [50, 90, 99, 0, 100].map(|percent| spread.percentile(percent));
        assert_eq!(found, [2_500, 3_700, 3_970, 1_000, 4_000].map(Span::from_ns));
        assert_eq!((spread.mean(), spread.count()), (Span::from_ns(2_500), 4));
    }
}
