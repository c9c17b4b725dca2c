//! What serves one request after the other, or several at a time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use fabriscope_units::{Span, Time};

/// Serves in the order of arrival.
#[derive(Clone, Copy, Debug, Default)]
pub struct Line {
    free: Time,
    busy: Span,
}

impl Line {
    /// When the request that comes now is served, if serving takes so long.
    pub fn take(&mut self, now: Time, span: Span) -> Time {
        self.free = self.free.max(now).saturating_add(span);
        self.busy = self.busy.saturating_add(span);
        self.free
    }
    /// When it turns to whoever comes now.
    #[must_use]
    pub fn begins(&self, now: Time) -> Time {
        self.free.max(now)
    }
    /// What was served in all.
    #[must_use]
    pub fn busy(&self) -> Span {
        self.busy
    }
    /// The same until `free`, taken from then on.
    pub fn hold(&mut self, free: Time, busy: Span) {
        self.free = self.free.max(free);
        self.busy = self.busy.saturating_add(busy);
    }
}

/// Several that serve the same requests.
#[derive(Clone, Debug, Default)]
pub struct Cores {
    free: BinaryHeap<Reverse<Time>>,
    count: u32,
    busy: Span,
}

impl Cores {
    /// So many, idle.
    #[must_use]
    pub fn new(count: u32) -> Cores {
        Cores { free: BinaryHeap::new(), count: count.max(1), busy: Span::ZERO }
    }
    /// When the request that comes now is served.
    pub fn take(&mut self, now: Time, span: Span) -> Time {
        let begins = if self.free.len() < self.count as usize { now } else { self.free.pop().map_or(now, |Reverse(free)| free.max(now)) };
        let end = begins.saturating_add(span);
        self.free.push(Reverse(end));
        self.busy = self.busy.saturating_add(span);
        end
    }
    /// How long each was at work, in the mean.
    #[must_use]
    pub fn busy(&self) -> Span {
        Span::from_ps(self.busy.as_ps() / u64::from(self.count))
    }
}

/// So many at a time may be inside; the others wait in turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    used: u32,
    waiting: VecDeque<u32>,
}

impl Slots {
    /// Whether `who` is let in, where `most` may be inside; it waits otherwise.
    pub fn enter(&mut self, who: u32, most: u32) -> bool {
        let free = self.used < most;
        if free {
            self.used += 1;
        } else {
            self.waiting.push_back(who);
        }
        free
    }
    /// One comes out: who enters next.
    pub fn leave(&mut self) -> Option<u32> {
        self.used = self.used.saturating_sub(1);
        self.waiting.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(us: u64) -> Time {
        Time::from_ps(us * 1_000_000)
    }

    #[test]
    fn two_cores_serve_two_at_a_time() {
        let mut cores = Cores::new(2);
        let ends = [0, 0, 0, 25].map(|us| cores.take(at(us), Span::from_us(10)));
        assert_eq!(ends, [at(10), at(10), at(20), at(35)]);
        assert_eq!(cores.busy(), Span::from_us(20));
        let mut slots = Slots::default();
        assert_eq!([1, 2, 3].map(|who| slots.enter(who, 2)), [true, true, false]);
        assert_eq!((slots.leave(), slots.enter(3, 2), slots.leave()), (Some(3), true, None));
        let mut line = Line::default();
        assert_eq!([0, 0].map(|us| line.take(at(us), Span::from_us(10))), [at(10), at(20)]);
    }
}
