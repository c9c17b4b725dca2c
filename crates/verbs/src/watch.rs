//! Watches: what a program sees that spins on a byte of its memory until a peer has written there.
//!
//! Modelled: messages whose last byte falls into a range, counted by the time the byte is visible.
//! Not modelled: partial messages, caches.

use std::collections::VecDeque;

use fabriscope_units::{Bytes, Time};

use crate::ids::WatchId;
use crate::words::AppWords;

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
    /// What was said with some of the messages, by their number from 1.
    words: VecDeque<(u64, AppWords)>,
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

    /// A message ended at `addr + length`, said `words` and is visible from `visible` on.
    pub(crate) fn landed(&mut self, visible: Time, addr: u64, length: u32, words: Option<AppWords>) {
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
                let Watch { settled, pending, words: said } = &mut self.slots[id as usize];
                // Writes of one NIC become visible in order.
                let visible = pending.back().map_or(visible, |before| visible.max(*before));
                pending.push_back(visible);
                said.extend(words.map(|words| (*settled + pending.len() as u64, words)));
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

    /// What was said with the next message that is visible by `now` and said anything.
    pub(crate) fn words(&mut self, id: WatchId, now: Time) -> Option<AppWords> {
        let count = self.count(id, now);
        let said = &mut self.slots.get_mut(id.0 as usize)?.words;
        if said.front()?.0 > count {
            return None;
        }
        said.pop_front().map(|(_, words)| words)
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
        watches.landed(t(10), 140, 11, None); // 140..=150
        watches.landed(t(20), 100, 60, None); // 100..=159
        watches.landed(t(20), 150, 51, None); // 150..=200
        assert_eq!((watches.count(wide, t(9)), watches.count(wide, t(10)), watches.count(wide, t(20))), (0, 1, 2));
        assert_eq!(watches.count(narrow, t(99)), 1);
        watches.landed(t(30), 199, 1, None);
        assert_eq!((watches.reaches(wide, 2), watches.reaches(wide, 3), watches.reaches(wide, 4)), (Some(Time::ZERO), Some(t(30)), None));
    }

    #[test]
    fn words_are_read_when_their_message_is_seen() {
        let mut watches = Watches::default();
        let [ring, all] = [Bytes(100), Bytes(200)].map(|length| watches.create(0, length));
        let (t, says) = (Time::from_ps, |n| Some(AppWords([n; 4])));
        watches.landed(t(10), 0, 8, says(1));
        watches.landed(t(10), 8, 8, None);
        watches.landed(t(20), 150, 8, says(2));
        watches.landed(t(30), 16, 8, says(3));
        assert_eq!(watches.words(ring, t(9)), None);
        assert_eq!([t(10), t(29), t(30), t(31)].map(|now| watches.words(ring, now)), [says(1), None, says(3), None]);
        assert_eq!([t(20), t(20), t(20), t(30)].map(|now| watches.words(all, now)), [says(1), says(2), None, says(3)]);
    }
}
