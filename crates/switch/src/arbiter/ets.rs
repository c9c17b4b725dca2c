//! Ethernet's transmission selection: strict priorities above classes that share what is left.
//!
//! Source: IEEE 802.1Q-2022 §8.6.8 (strict priority; enhanced transmission selection, 802.1Qaz): a class with strict priority
//! goes before all below it; the others share the remaining bandwidth by percent. The standard leaves the algorithm open;
//! this is deficit weighted round robin (M. Shreedhar and G. Varghese, IEEE/ACM Trans. Networking 4(3), 1996): a class that has
//! its turn may send its quantum and what it could not send before.
//! Modelled: up to eight classes, each strict or with a share in percent, several lanes in a class in turn.
//! Not modelled: the credit-based shaper, time-aware gates, frame preemption. A class that is held back by a pause loses its
//! deficit as one that has nothing to send does.

use std::sync::Arc;

use fabriscope_units::Bytes;

use super::{Heads, LANES};

/// How a class is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection {
    /// Before all classes of a lower number and all with shares.
    Strict,
    /// This share of what strict classes leave, in percent.
    Share(u8),
}

/// The classes of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ets {
    selections: Vec<Selection>,
    /// Lanes of each class.
    lanes: Vec<u16>,
    class_of: [u8; LANES],
}

/// What one percent may send in a turn, in bytes: a turn of half of the wire is a packet and a half. Basis: assumed.
const QUANTUM: i64 = 128;

impl Ets {
    /// Classes with their lanes; the later ones go first among strict ones. A share of 0 is served as 1.
    #[must_use]
    pub fn new(classes: &[(Selection, u16)]) -> Ets {
        let mut class_of = [0; LANES];
        for (class, (_, lanes)) in classes.iter().enumerate() {
            (0..LANES).filter(|lane| lanes & (1 << lane) != 0).for_each(|lane| class_of[lane] = class as u8);
        }
        Ets { selections: classes.iter().map(|c| c.0).collect(), lanes: classes.iter().map(|c| c.1).collect(), class_of }
    }
}

/// Where a port stands.
#[derive(Debug, Clone)]
pub struct State {
    ets: Arc<Ets>,
    /// Bytes that each class may still send in its turn.
    deficits: Vec<i64>,
    /// The class whose turn it is.
    class: usize,
    /// The lane of each class that was served last.
    lanes: Vec<u8>,
}

impl State {
    pub(super) fn new(ets: Arc<Ets>) -> State {
        let classes = ets.selections.len();
        State { ets, deficits: vec![0; classes], class: 0, lanes: vec![LANES as u8 - 1; classes] }
    }

    pub(super) fn pick(&mut self, ready: u16, heads: &Heads) -> Option<u8> {
        let ets = Arc::clone(&self.ets);
        let strict =
            (0..ets.selections.len()).rev().find(|&class| ets.selections[class] == Selection::Strict && ready & ets.lanes[class] != 0);
        let class = match strict {
            Some(class) => class,
            None => self.share(&ets, ready, heads)?,
        };
        let lane = next(ready & ets.lanes[class], self.lanes[class])?;
        self.lanes[class] = lane;
        Some(lane)
    }

    /// The class with shares that has its turn.
    fn share(&mut self, ets: &Ets, ready: u16, heads: &Heads) -> Option<usize> {
        let mut waiting = 0;
        for class in 0..ets.lanes.len() {
            match ready & ets.lanes[class] {
                0 => self.deficits[class] = 0,
                _ => waiting += 1,
            }
        }
        if waiting == 0 {
            return None;
        }
        // Each round adds at least a quantum to a class that waits, so that one of them will do.
        loop {
            if ets.selections[self.class] != Selection::Strict
                && let Some(lane) = next(ready & ets.lanes[self.class], self.lanes[self.class])
            {
                let bytes = heads[usize::from(lane)].0 as i64;
                if self.deficits[self.class] >= bytes {
                    return Some(self.class);
                }
                if waiting == 1 {
                    // Nobody to wait for.
                    self.deficits[self.class] = bytes;
                    return Some(self.class);
                }
            }
            self.class = (self.class + 1) % ets.lanes.len();
            self.grant(ets, ready);
        }
    }

    /// The class that now has its turn gets its quantum.
    fn grant(&mut self, ets: &Ets, ready: u16) {
        if let Selection::Share(share) = ets.selections[self.class]
            && ready & ets.lanes[self.class] != 0
        {
            self.deficits[self.class] += i64::from(share.max(1)) * QUANTUM;
        }
    }

    pub(super) fn charge(&mut self, lane: u8, amount: Bytes) {
        let class = usize::from(self.ets.class_of[usize::from(lane)]);
        if self.ets.selections[class] != Selection::Strict {
            self.deficits[class] -= amount.0 as i64;
        }
    }
}

/// The lane of `ready` that comes next after `last`.
fn next(ready: u16, last: u8) -> Option<u8> {
    let after = u16::MAX.checked_shl(u32::from(last) + 1).unwrap_or(0);
    let rest = if ready & after != 0 { ready & after } else { ready };
    (ready != 0).then(|| rest.trailing_zeros() as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of each lane while all of `ready` are always full.
    fn served(state: &mut State, ready: u16, heads: &Heads, count: u32) -> [u64; LANES] {
        let mut served = [0; LANES];
        for _ in 0..count {
            let lane = state.pick(ready, heads).expect("a lane is ready");
            state.charge(lane, heads[usize::from(lane)]);
            served[usize::from(lane)] += heads[usize::from(lane)].0;
        }
        served
    }

    /// Under saturation each class has its percent to within a quantum and a packet.
    #[test]
    fn classes_share_by_percent() {
        let shares = [50u8, 30, 15, 5];
        let classes: Vec<(Selection, u16)> = shares.iter().enumerate().map(|(lane, &share)| (Selection::Share(share), 1 << lane)).collect();
        for sizes in [[4178, 4178, 4178, 4178], [4178, 1106, 82, 2130]] {
            let mut heads = [Bytes::ZERO; LANES];
            heads[..4].copy_from_slice(&sizes.map(Bytes));
            let mut state = State::new(Arc::new(Ets::new(&classes)));
            let served = served(&mut state, 0b1111, &heads, 100_000);
            let all: u64 = served.iter().sum();
            for (lane, &share) in shares.iter().enumerate() {
                let expected = all * u64::from(share) / 100;
                let off = served[lane].abs_diff(expected);
                assert!(off <= 2 * (6400 + 4178), "class {lane}: {} of {expected} bytes", served[lane]);
            }
        }
    }

    #[test]
    fn strict_classes_go_first_the_highest_before_the_others() {
        let classes = [(Selection::Share(100), 1), (Selection::Strict, 2), (Selection::Strict, 4)];
        let mut state = State::new(Arc::new(Ets::new(&classes)));
        let heads = [Bytes(1000); LANES];
        assert_eq!(state.pick(0b111, &heads), Some(2));
        assert_eq!(state.pick(0b011, &heads), Some(1));
        assert_eq!(state.pick(0b001, &heads), Some(0));
    }

    #[test]
    fn lanes_of_a_class_take_turns() {
        let mut state = State::new(Arc::new(Ets::new(&[(Selection::Share(50), 0b0011), (Selection::Share(50), 0b0100)])));
        let served = served(&mut state, 0b0111, &[Bytes(1000); LANES], 40_000);
        assert!(served[0].abs_diff(served[1]) <= 1000, "{served:?}");
        assert!(served[2].abs_diff(served[0] + served[1]) <= 2 * 7400, "{served:?}");
    }
}
