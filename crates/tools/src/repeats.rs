//! When iterations of a tool are so alike that the rest need not be simulated.
//!
//! Source: nothing in these machines is random as long as packets are not lost, so that an iteration which finds everything as an earlier one
//! did takes as long.
//! Modelled: [`ALIKE`] iterations in a row within one part in [`APART`] of each other, most of them equal to the picosecond.
//! Not modelled: what drifts by less than that; short messages, whose iterations are cheap.

use fabriscope_units::{Bytes, Span};

/// Whether messages of this size are long enough to look whether they repeat. Basis: assumed; of short ones up to seven were seen alike
/// before one that was not.
pub(crate) fn are_looked_at(size: u32) -> bool {
    size > SHORT
}

/// Whether the last iterations, of so many bytes each, are alike.
pub(crate) fn are_alike(spans: &[Span], bytes: Bytes) -> bool {
    let Some(first) = spans.len().checked_sub(enough(bytes)) else { return false };
    let last = &spans[first..];
    let (least, most) = last.iter().fold((Span::MAX, Span::ZERO), |(least, most), span| (least.min(*span), most.max(*span)));
    (most - least) * APART <= most
}

/// So many iterations of so many bytes each: those that were alike once more, in their order. The last one is another: somebody else was
/// over by then.
pub(crate) fn extend(spans: &mut Vec<Span>, iterations: usize, bytes: Bytes) {
    let Some(first) = spans.len().checked_sub(enough(bytes) + 1) else { return };
    let last = spans.len() - 1;
    let alike: Vec<Span> = spans[first..last].to_vec();
    let missing = iterations.saturating_sub(spans.len());
    spans.extend(alike.into_iter().cycle().take(missing));
}

fn enough(bytes: Bytes) -> usize {
    if bytes >= LONG { ALIKE_OF_LONG } else { ALIKE }
}

/// Iterations in a row that have to be alike, of those that are long and of others. Basis: assumed; of a window of 64 messages of 1 MiB one
/// was never seen alike before one that was not.
pub(crate) const ALIKE: usize = 6;
const ALIKE_OF_LONG: usize = 2;
/// What is long: a window of 64 messages of 1 MiB.
pub(crate) const LONG: Bytes = Bytes(64 << 20);
/// They differ by a part in so many at most. Basis: assumed.
const APART: u64 = 2_000;
/// The longest short messages, in bytes.
const SHORT: u32 = 8192;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const SOME: Bytes = Bytes(4 << 20);

    pub(crate) fn spans(all: &[u64]) -> Vec<Span> {
        all.iter().map(|span| Span::from_ps(*span)).collect()
    }

    /// Six alike, and the last, which is not asked: they go on as the six did.
    #[test]
    fn what_is_alike_goes_on() {
        let mut all = spans(&[5000, 4001, 4002, 4000, 4001, 4002, 4000, 3000]);
        assert!(are_alike(&all[..7], SOME) && !are_alike(&all, SOME) && !are_alike(&all[..6], SOME) && !are_alike(&all[..3], SOME));
        extend(&mut all, 11, SOME);
        assert_eq!(all, spans(&[5000, 4001, 4002, 4000, 4001, 4002, 4000, 3000, 4001, 4002, 4000]));
        // A part in 2,000 of 4,002 is two.
        assert!(!are_alike(&spans(&[4000, 4003, 4000, 4000, 4000, 4000]), SOME));
        let mut all = spans(&[9, 7, 7, 6]);
        extend(&mut all, 6, LONG);
        assert_eq!(all, spans(&[9, 7, 7, 6, 7, 7]));
    }
}
