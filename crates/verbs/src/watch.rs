//! Watches: what a program sees that spins on a byte of its memory until a peer has written there.
//!
//! Modelled: messages whose last byte falls into a range, counted by the time the byte is visible.
//! Not modelled: partial messages, caches.

use std::collections::VecDeque;

use fabriscope_units::{Bytes, Time};

use crate::ids::WatchId;

/// All watches of a NIC.
#[derive(Default)]
pub(crate) struct Watches {
    slots: Vec<Watch>,
    /// (first, last, slot), sorted.
    ranges: Vec<(u64, u64, u32)>,
    longest: u64,
}

#[derive(Default)]
struct Watch {
    /// Messages that every later question sees.
    settled: u64,
    /// When the others become visible, in order.
    pending: VecDeque<Time>,
}

impl Watches {
    pub(crate) fn create(&mut self, addr: u64, length: Bytes) -> WatchId {
        let id = u32::try_from(self.slots.len()).expect("fewer than 2^32 watches");
        let last = addr.saturating_add(length.0.max(1) - 1);
        let range = (addr, last, id);
        let at = self.ranges.partition_point(|other| *other < range);
        self.ranges.insert(at, range);
        self.longest = self.longest.max(last - addr);
        self.slots.push(Watch::default());
        WatchId(id)
    }

    /// A message ended at `addr + length` and is visible from `visible` on.
    pub(crate) fn landed(&mut self, visible: Time, addr: u64, length: u32) {
        if self.ranges.is_empty() || length == 0 {
            return;
        }
        let byte = addr + (u64::from(length) - 1);
        let end = self.ranges.partition_point(|range| range.0 <= byte);
        for &(first, last, id) in self.ranges[..end].iter().rev() {
            if byte - first > self.longest {
                break;
            }
            if byte <= last {
                let pending = &mut self.slots[id as usize].pending;
                // Writes of one NIC become visible in order.
                let visible = pending.back().map_or(visible, |before| visible.max(*before));
                pending.push_back(visible);
            }
        }
    }

    pub(crate) fn count(&mut self, id: WatchId, now: Time) -> u64 {
        let Some(watch) = self.slots.get_mut(id.0 as usize) else { return 0 };
        while watch.pending.front().is_some_and(|visible| *visible <= now) {
            watch.pending.pop_front();
            watch.settled += 1;
        }
        watch.settled
    }

    /// When the count reaches `count`, as far as is known.
    pub(crate) fn reaches(&self, id: WatchId, count: u64) -> Option<Time> {
        let watch = self.slots.get(id.0 as usize)?;
        match count.checked_sub(watch.settled + 1) {
            None => Some(Time::ZERO),
            Some(index) => watch.pending.get(usize::try_from(index).ok()?).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_byte_decides() {
        let mut watches = Watches::default();
        let wide = watches.create(100, Bytes(100));
        let narrow = watches.create(150, Bytes(1));
        let t = Time::from_ps;
        watches.landed(t(10), 140, 11); // 140..=150
        watches.landed(t(20), 100, 60); // 100..=159
        watches.landed(t(20), 150, 51); // 150..=200
        assert_eq!((watches.count(wide, t(9)), watches.count(wide, t(10)), watches.count(wide, t(20))), (0, 1, 2));
        assert_eq!(watches.count(narrow, t(99)), 1);
        watches.landed(t(30), 199, 1);
        assert_eq!((watches.reaches(wide, 2), watches.reaches(wide, 3), watches.reaches(wide, 4)), (Some(Time::ZERO), Some(t(30)), None));
    }
}
