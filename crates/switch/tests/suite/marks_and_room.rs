//! Marks by queue length and the room above a pause threshold, as formulas of what they depend on.

use fabriscope_switch::headroom::{Line, PAUSE_FRAME, headroom};
use fabriscope_switch::{Ecn, EcnLimits};
use fabriscope_units::{Bytes, Rate, Span};
use proptest::prelude::*;

/// Of all 65,536 draws, those that mark a packet behind `queue` bytes.
fn marked(ecn: Ecn, queue: u64) -> u32 {
    // Draws below a bound are marked, all others not: the bound is found by halving.
    let (mut low, mut high) = (0u32, 1 << 16);
    while low < high {
        let middle = (low + high) / 2;
        if ecn.marks(Bytes(queue), middle as u16) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// `pmax` in 1/65536.
fn ecn(kmin: u64, kmax: u64, pmax: u32) -> Ecn {
    Ecn::new(EcnLimits { kmin: Bytes(kmin), kmax: Bytes(kmax), pmax: f64::from(pmax) / 65_536.0 })
}

#[test]
fn the_numbers_of_dcqcn() {
    // Zhu et al., SIGCOMM 2015, §5.4: K_min = 5 KB, K_max = 200 KB, P_max = 1 %: 655 of 65,536. In between p(q) = P_max (q − 5) / 195.
    let ecn = ecn(5000, 200_000, 655);
    for (queue, expected) in [(0, 0), (5000, 0), (102_500, 327), (161_000, 524), (199_999, 654), (200_000, 65_536), (1 << 40, 65_536)] {
        assert_eq!(marked(ecn, queue), expected, "{queue} B");
    }
}

#[test]
fn equal_thresholds_are_a_step() {
    // DCTCP (RFC 8257 §3.1): one threshold K, everything above is marked; a queue of exactly K is not above it.
    for pmax in [0, 655, 65_536] {
        let ecn = ecn(30_000, 30_000, pmax);
        assert_eq!([29_999, 30_000, 30_001].map(|queue| marked(ecn, queue)), [0, 0, 65_536]);
    }
}

proptest! {
    /// A longer queue is never marked less, nothing is marked up to K_min, everything from K_max on, and the line between is straight to a draw.
    #[test]
    fn marks_rise_on_a_line(kmin in 0u64..1_000_000, width in 1u64..1_000_000, pmax in 0u32..=65_536, share in 0u64..=1000, step in 0u64..1000) {
        let ecn = ecn(kmin, kmin + width, pmax);
        let queue = kmin + width * share / 1000;
        prop_assert!(marked(ecn, queue) <= marked(ecn, queue + step));
        prop_assert_eq!((marked(ecn, kmin), marked(ecn, kmin + width)), (0, 65_536));
        if queue > kmin && queue < kmin + width {
            let expected = f64::from(pmax) * (queue - kmin) as f64 / width as f64;
            prop_assert!((f64::from(marked(ecn, queue)) - expected).abs() <= 1.0, "{} B: {} draws, not {}", queue, marked(ecn, queue), expected);
        }
    }

    /// Headroom is what is on the wire for the round trip, two frames and a pause frame: each term by itself, and none twice.
    #[test]
    fn headroom_is_the_sum_of_its_terms(gbps in 1u64..800, delay in 0u64..5000, response in 0u64..10_000, frame in 64u64..10_000) {
        let line = Line { rate: Rate::from_gbps(gbps), delay: Span::from_ns(delay), frame: Bytes(frame), response: Span::from_ns(response) };
        // Gb/s times ns are bits.
        let bits = gbps * (2 * delay + response);
        prop_assert_eq!(headroom(&line).0, bits.div_ceil(8) + 2 * frame + PAUSE_FRAME.0);
        // A cable twice as long costs as much again as the cable did.
        let longer = Line { delay: line.delay * 2, ..line };
        let bare = Line { delay: Span::ZERO, ..line };
        let cable = headroom(&line).0 - headroom(&bare).0;
        prop_assert!((headroom(&longer).0 - headroom(&line).0).abs_diff(cable) <= 1);
    }
}
