//! Explicit congestion notification: mark a packet by the length of the queue it joins.
//!
//! Source: RFC 3168 (the mark), Floyd and Jacobson 1993 §4 without averaging, as data-centre switches apply it
//! (DCQCN, Zhu et al., SIGCOMM 2015 §3.1: K_min, K_max, P_max).
//! Modelled: instantaneous queue length, linear probability between the thresholds, certainty above.
//! Not modelled: averaging of the queue length.

use fabriscope_units::Bytes;

/// Thresholds of one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EcnLimits {
    /// Below this length nothing is marked.
    pub kmin: Bytes,
    /// Above this length everything is marked.
    pub kmax: Bytes,
    /// Probability at `kmax`, in 1/65536.
    pub pmax: u32,
}

/// The marking decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ecn(pub EcnLimits);

impl Ecn {
    /// Whether a packet that finds `queue` bytes ahead of it is marked; `draw` is a uniform random number.
    #[must_use]
    pub fn marks(&self, queue: Bytes, draw: u16) -> bool {
        let EcnLimits { kmin, kmax, pmax } = self.0;
        if queue <= kmin {
            return false;
        }
        if queue >= kmax {
            return true;
        }
        let share = (u128::from(queue.0 - kmin.0) * u128::from(pmax)) / u128::from(kmax.0 - kmin.0);
        u128::from(draw) < share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probability_rises_linearly() {
        let ecn = Ecn(EcnLimits { kmin: Bytes(1000), kmax: Bytes(3000), pmax: 32_768 });
        // Halfway between the thresholds a quarter of all draws is marked: P_max / 2 = 1/4.
        let marked = (0..=u16::MAX).filter(|&draw| ecn.marks(Bytes(2000), draw)).count();
        assert_eq!(marked, 16_384);
        assert!(!ecn.marks(Bytes(1000), 0));
        assert!(ecn.marks(Bytes(3000), u16::MAX));
    }
}
