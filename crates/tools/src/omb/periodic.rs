//! Iterations that repeat: once those of a pair do so to the picosecond, the rest are counted, not simulated.
//!
//! | iterations: | a | b c d b c d b c d | b c | d b … |
//! |---|---|---|---|---|
//! | | begin | a period three times | check | not simulated |
//!
//! Source: nothing in these machines is random as long as packets are not lost, so that an iteration which finds everything as an earlier one
//! did takes as long.
//! Modelled: the shortest period of up to [`LONGEST`] iterations. Both ranks end together, [`AHEAD`] iterations behind the last one that is
//! known, the first of which has to go on as expected: the peer is at most one ahead of the rank that measures.
//! Not modelled: what repeats only after more iterations than that; several pairs, which get in each other's way; short messages,
//! whose iterations are cheap.

use fabriscope_node::Record;
use fabriscope_units::Span;

/// The first iteration of each size that is not simulated, as far as that is known.
#[derive(Debug, Clone)]
pub(super) struct Periodic(Option<Record<Vec<Option<u32>>>>);

impl Periodic {
    /// Of a job that goes through so many sizes; all iterations are simulated where `every` is set.
    pub fn new(sizes: usize, every: bool) -> Periodic {
        Periodic((!every).then(|| Record::new(vec![None; sizes])))
    }

    /// Whether this iteration of a size and those behind it are left out.
    pub fn is_over(&self, at: usize, iteration: u32) -> bool {
        self.0.as_ref().is_some_and(|ends| ends.lock()[at].is_some_and(|end| iteration >= end))
    }

    /// The rank that measures has been through these iterations of a size.
    pub fn ended(&self, at: usize, spans: &[Span]) {
        let Some(ends) = &self.0 else { return };
        let end = &mut ends.lock()[at];
        match (period(spans), *end) {
            (Some(_), None) => *end = Some(spans.len() as u32 + AHEAD),
            // Behind the check the peer may have ended.
            (None, Some(last)) if spans.len() + 1 == last as usize => *end = None,
            _ => {}
        }
    }
}

/// So many iterations, of which the last ones repeat.
pub(super) fn extend(spans: &mut Vec<Span>, iterations: u32) {
    let period = period(spans).unwrap_or(1);
    while let Some(place) = spans.len().checked_sub(period).filter(|_| spans.len() < iterations as usize) {
        spans.push(spans[place]);
    }
}

/// After how many iterations the last ones repeat.
fn period(spans: &[Span]) -> Option<usize> {
    (1..=LONGEST).find(|period| {
        let behind = spans.len().checked_sub((TIMES * period).max(LEAST));
        behind.is_some_and(|first| spans[first..].windows(period + 1).all(|window| window[0] == window[*period]))
    })
}

/// The longest period. Basis: assumed; four were seen.
const LONGEST: usize = 6;
/// How many times it has to be seen, and how many iterations it has to go on at least. Basis: assumed; of short messages up to seven were
/// seen alike before one that was not, which is why those are all simulated.
const TIMES: usize = 3;
const LEAST: usize = 6;
/// Iterations that are simulated behind a period: one to check it, and one that the peer may have begun by then.
const AHEAD: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(all: &[u64]) -> Vec<Span> {
        all.iter().map(|span| Span::from_ps(*span)).collect()
    }

    /// 5, 1, 2, 3 and then 1, 2, 3 twice more repeats after three; five of a kind prove nothing.
    #[test]
    fn periods_go_on() {
        let mut all = spans(&[5, 1, 2, 3, 1, 2, 3, 1, 2, 3]);
        assert_eq!(period(&all), Some(3));
        extend(&mut all, 12);
        assert_eq!(all, spans(&[5, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2]));
        assert_eq!(period(&spans(&[4; 5])), None);
        assert_eq!(period(&spans(&[4; 6])), Some(1));
        assert_eq!(period(&spans(&[1, 2, 3, 4, 5, 6, 7, 8])), None);
    }

    /// Six alike end it with the eighth; one that is unlike goes on.
    #[test]
    fn both_ranks_end_together() {
        let periodic = Periodic::new(1, false);
        periodic.ended(0, &spans(&[9, 7, 7, 7, 7, 7]));
        assert!(!periodic.is_over(0, 100));
        periodic.ended(0, &spans(&[7; 6]));
        assert!(!periodic.is_over(0, 7) && periodic.is_over(0, 8));
        periodic.ended(0, &spans(&[7, 7, 7, 7, 7, 7, 8]));
        assert!(!periodic.is_over(0, 100));
        let every = Periodic::new(1, true);
        every.ended(0, &spans(&[7; 6]));
        assert!(!every.is_over(0, 100));
    }
}
