//! Iterations that repeat: once those of all pairs do, the rest are counted, not simulated.
//!
//! | iterations: | a | b c d | e | b c d b … |
//! |---|---|---|---|---|
//! | | begin | alike | on its way | not simulated |
//!
//! Source: [`crate::repeats`]; pairs that share a link settle on how they divide it.
//! Modelled: all ranks end together, one iteration behind the last that any pair has been through: the peer is at most one ahead of the rank
//! that measures. Not modelled: as there.

use fabriscope_node::Record;
use fabriscope_units::{Bytes, Span};

use crate::repeats;

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
            *place = repeats::are_alike(spans, bytes);
        }
        if progress.end.is_none() && progress.alike.iter().filter(|alike| **alike).count() == self.pairs {
            progress.end = Some(progress.most + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repeats::tests::{SOME, spans};

    /// One pair ends an iteration behind its sixth, the other had been through seven by then: both end with the eighth.
    #[test]
    fn all_pairs_end_together() {
        let periodic = Periodic::new(1, 2, false);
        periodic.ended(0, (1, SOME), &spans(&[9, 7, 7, 7, 7, 7, 7]));
        assert!(!periodic.is_over(0, 100));
        periodic.ended(0, (0, SOME), &spans(&[9, 7, 7, 7, 7, 7]));
        assert!(!periodic.is_over(0, 100));
        periodic.ended(0, (0, SOME), &spans(&[7; 6]));
        assert!(!periodic.is_over(0, 7) && periodic.is_over(0, 8));
        let every = Periodic::new(1, 1, true);
        every.ended(0, (0, SOME), &spans(&[7; 6]));
        assert!(!every.is_over(0, 100));
    }
}
