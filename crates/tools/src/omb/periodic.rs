//! Iterations that repeat: once those of all pairs do, the rest are counted, not simulated.
//!
//! | iterations: | a | b c d | e | b c d b … |
//! |---|---|---|---|---|
//! | | begin | alike | on its way | not simulated |
//!
//! Source: nothing in these machines is random as long as packets are not lost, so that an iteration which finds everything as an earlier one
//! did takes as long; pairs that share a link settle on how they divide it.
//! Modelled: [`ALIKE`] iterations in a row of every pair within one part in [`APART`] of each other, most of them equal to the picosecond.
//! All ranks end together, one iteration behind the last that any pair has been through: the peer is at most one ahead of the rank that
//! measures.
//! Not modelled: what drifts by less than that; short messages, whose iterations are cheap.

use fabriscope_node::Record;
use fabriscope_units::{Bytes, Span};

/// What is known of each size.
#[derive(Debug, Clone)]
pub(super) struct Periodic {
    pairs: usize,
    sizes: Option<Record<Vec<Progress>>>,
}

#[derive(Debug, Clone, Default)]
struct Progress {
    /// The first iteration that is not simulated.
    end: Option<u32>,
    /// Iterations that a pair has been through, at most.
    most: u32,
    /// Whose last iterations are alike, by pair.
    alike: Vec<bool>,
}

impl Periodic {
    /// Of a job that goes through so many sizes; all iterations are simulated where `every` is set.
    pub fn new(sizes: usize, pairs: u32, every: bool) -> Periodic {
        let pairs = pairs as usize;
        let progress = Progress { alike: vec![false; pairs], ..Progress::default() };
        Periodic { pairs, sizes: (!every).then(|| Record::new(vec![progress; sizes])) }
    }

    /// Whether this iteration of a size and those behind it are left out.
    pub fn is_over(&self, at: usize, iteration: u32) -> bool {
        self.sizes.as_ref().is_some_and(|sizes| sizes.lock()[at].end.is_some_and(|end| iteration >= end))
    }

    /// A pair has been through these iterations of a size, of so many bytes each.
    pub fn ended(&self, at: usize, (pair, bytes): (u32, Bytes), spans: &[Span]) {
        let Some(sizes) = &self.sizes else { return };
        let progress = &mut sizes.lock()[at];
        progress.most = progress.most.max(spans.len() as u32);
        if let Some(place) = progress.alike.get_mut(pair as usize) {
            *place = are_alike(spans, enough(bytes));
        }
        if progress.end.is_none() && progress.alike.iter().filter(|alike| **alike).count() == self.pairs {
            progress.end = Some(progress.most + 1);
        }
    }
}

/// So many iterations: those that were alike once more, in their order. The last one is another: some pairs were over by then.
pub(super) fn extend(spans: &mut Vec<Span>, iterations: u32, bytes: Bytes) {
    let enough = enough(bytes);
    let Some(first) = spans.len().checked_sub(enough + 1) else { return };
    let last = spans.len() - 1;
    let alike: Vec<Span> = spans[first..last].to_vec();
    let missing = (iterations as usize).saturating_sub(spans.len());
    spans.extend(alike.into_iter().cycle().take(missing));
}

fn are_alike(spans: &[Span], enough: usize) -> bool {
    let Some(first) = spans.len().checked_sub(enough) else { return false };
    let last = &spans[first..];
    let (least, most) = last.iter().fold((Span::MAX, Span::ZERO), |(least, most), span| (least.min(*span), most.max(*span)));
    (most - least) * APART <= most
}

fn enough(bytes: Bytes) -> usize {
    if bytes >= LONG { ALIKE_OF_LONG } else { ALIKE }
}

/// Iterations in a row that have to be alike, of those that are long and of others. Basis: assumed; of short messages up to seven were seen
/// alike before one that was not, which is why those are all simulated, and of a window of 1 MiB each, never one.
const ALIKE: usize = 6;
const ALIKE_OF_LONG: usize = 2;
/// What is long: a window of 64 messages of 1 MiB.
const LONG: Bytes = Bytes(64 << 20);
/// They differ by a part in so many at most. Basis: assumed.
const APART: u64 = 2_000;

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Bytes = Bytes(4 << 20);

    fn spans(all: &[u64]) -> Vec<Span> {
        all.iter().map(|span| Span::from_ps(*span)).collect()
    }

    /// Six alike, and the last, which is not asked: they go on as the six did.
    #[test]
    fn what_is_alike_goes_on() {
        let mut all = spans(&[5000, 4001, 4002, 4000, 4001, 4002, 4000, 3000]);
        assert!(are_alike(&all[..7], 6) && !are_alike(&all, 6) && !are_alike(&all[..6], 6) && !are_alike(&all[..3], 6));
        extend(&mut all, 11, SHORT);
        assert_eq!(all, spans(&[5000, 4001, 4002, 4000, 4001, 4002, 4000, 3000, 4001, 4002, 4000]));
        // A part in 2,000 of 4,002 is two.
        assert!(!are_alike(&spans(&[4000, 4003, 4000, 4000, 4000, 4000]), 6));
        let mut all = spans(&[9, 7, 7, 6]);
        extend(&mut all, 6, LONG);
        assert_eq!(all, spans(&[9, 7, 7, 6, 7, 7]));
    }

    /// One pair ends an iteration behind its sixth, the other had been through seven by then: both end with the eighth.
    #[test]
    fn all_pairs_end_together() {
        let periodic = Periodic::new(1, 2, false);
        periodic.ended(0, (1, SHORT), &spans(&[9, 7, 7, 7, 7, 7, 7]));
        assert!(!periodic.is_over(0, 100));
        periodic.ended(0, (0, SHORT), &spans(&[9, 7, 7, 7, 7, 7]));
        assert!(!periodic.is_over(0, 100));
        periodic.ended(0, (0, SHORT), &spans(&[7; 6]));
        assert!(!periodic.is_over(0, 7) && periodic.is_over(0, 8));
        let every = Periodic::new(1, 1, true);
        every.ended(0, (0, SHORT), &spans(&[7; 6]));
        assert!(!every.is_over(0, 100));
    }
}
