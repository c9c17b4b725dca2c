//! Explicit congestion notification: mark a packet by the length of the queue it joins.
//!
//! Source: RFC 3168 (the mark), Floyd and Jacobson 1993 §4 without averaging, as data-centre switches apply it
//! (DCQCN, Zhu et al., SIGCOMM 2015 §3.1: K_min, K_max, P_max).
//! Modelled: instantaneous queue length, linear probability between the thresholds, certainty above.
//! Not modelled: averaging of the queue length.

use fabriscope_units::{Bytes, parameters};

parameters! {
    /// Thresholds of congestion marking (RFC 3168), per queue.
    pub struct EcnLimits as "Ecn" {
        /// No mark below this filling.
        pub kmin: Bytes,
        /// Every packet is marked above this filling.
        pub kmax: Bytes,
        /// Share of packets marked just below `kmax` [0..1].
        pub pmax: f64,
    }
}

/// The marking decision.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ecn {
    limits: EcnLimits,
    /// Probability at `kmax`, in 1/65536.
    odds: u32,
}

impl Ecn {
    /// Marking by these thresholds.
    #[must_use]
    pub fn new(limits: EcnLimits) -> Ecn {
        Ecn { limits, odds: (limits.pmax * 65_536.0) as u32 }
    }
    /// Whether a packet that finds `queue` bytes ahead of it is marked; `draw` is a uniform random number.
    #[must_use]
    pub fn marks(&self, queue: Bytes, draw: u16) -> bool {
        let EcnLimits { kmin, kmax, .. } = self.limits;
        if queue <= kmin {
            return false;
        }
        if queue >= kmax {
            return true;
        }
        let share = (u128::from(queue.0 - kmin.0) * u128::from(self.odds)) / u128::from(kmax.0 - kmin.0);
        u128::from(draw) < share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probability_rises_linearly() {
        let ecn = Ecn::new(EcnLimits { kmin: Bytes(1000), kmax: Bytes(3000), pmax: 0.5 });
        // Halfway between the thresholds a quarter of all draws is marked: P_max / 2 = 1/4.
        let marked = (0..=u16::MAX).filter(|&draw| ecn.marks(Bytes(2000), draw)).count();
        assert_eq!(marked, 16_384);
        assert!(!ecn.marks(Bytes(1000), 0));
        assert!(ecn.marks(Bytes(3000), u16::MAX));
    }
}
