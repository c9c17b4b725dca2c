//! Which virtual lane sends next on a port where several compete.
//!
//! Source: InfiniBand Architecture Specification vol. 1, §7.6.9 (weights in units of 64 bytes, a lane keeps its
//! turn until its weight is used up or it has nothing to send).
//! Modelled: one weighted table. Not modelled: the high-priority table with its limit.

/// Weighted round robin over up to 16 lanes.
#[derive(Debug, Clone)]
pub struct Arbiter {
    weights: [u8; 16],
    lane: u8,
    left: i32,
}

impl Arbiter {
    /// An arbiter with the weight of each lane in units of 64 bytes; a weight of 0 is served as 1.
    #[must_use]
    pub fn new(weights: [u8; 16]) -> Arbiter {
        Arbiter { weights, lane: 0, left: i32::from(weights[0].max(1)) }
    }

    /// The lane to serve among those set in `ready`; charge the packet with [`Arbiter::charge`].
    #[must_use]
    pub fn pick(&mut self, ready: u16) -> Option<u8> {
        if ready == 0 {
            return None;
        }
        if self.left <= 0 || ready & (1 << self.lane) == 0 {
            let after = u16::MAX.checked_shl(u32::from(self.lane) + 1).unwrap_or(0);
            let rest = if ready & after != 0 { ready & after } else { ready };
            self.lane = rest.trailing_zeros() as u8;
            self.left = i32::from(self.weights[usize::from(self.lane)].max(1));
        }
        Some(self.lane)
    }

    /// Takes a packet of `blocks` 64-byte blocks from the current lane's weight.
    pub fn charge(&mut self, blocks: u32) {
        self.left -= blocks as i32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_share_by_weight() {
        // Weights 192 and 64 with 64-block packets: three packets of lane 0 for one of lane 1.
        let mut weights = [1; 16];
        (weights[0], weights[1]) = (192, 64);
        let mut arbiter = Arbiter::new(weights);
        let mut served = [0; 2];
        for _ in 0..400 {
            let lane = arbiter.pick(0b11).expect("two lanes are ready");
            arbiter.charge(64);
            served[usize::from(lane)] += 1;
        }
        assert_eq!(served, [300, 100]);
    }

    #[test]
    fn an_empty_lane_does_not_hold_the_wire() {
        let mut arbiter = Arbiter::new([255; 16]);
        assert_eq!(arbiter.pick(0b1000_0000_0000_0000), Some(15));
        assert_eq!(arbiter.pick(0b1), Some(0));
        assert_eq!(arbiter.pick(0), None);
    }
}
