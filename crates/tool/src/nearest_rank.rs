//! Quantiles of measured times, as tools print them.

use fabriscope_units::Span;

/// The smallest of `sorted` that `share` in `of` of them do not exceed; nothing of none.
#[must_use]
pub fn nearest_rank(sorted: &[Span], share: u64, of: u64) -> Span {
    let rank = (sorted.len() as u64 * share).div_ceil(of).max(1) as usize;
    sorted.get(rank - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_nearest_ranks() {
        let spans: Vec<Span> = (1..=1000).map(Span::from_us).collect();
        assert_eq!([500, 900, 999, 1000].map(|share| nearest_rank(&spans, share, 1000)), [500, 900, 999, 1000].map(Span::from_us));
        assert_eq!((nearest_rank(&spans[..1], 999, 1000), nearest_rank(&[], 500, 1000)), (Span::from_us(1), Span::ZERO));
    }
}
