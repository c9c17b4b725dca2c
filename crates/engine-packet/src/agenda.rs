//! Ends of computations, kept apart from the event queue where steady states are skipped.
//!
//! The clock of the event queue counts what is simulated; what was skipped is an offset to it, and both together are the time of the
//! run. Packets, windows and timers live by the clock of the queue alone. A computation ends at a time of the run: when the
//! offset grows, its event comes earlier in the queue.
//!
//! Modelled: one planned event, for the earliest end; those planned before a skip find nothing to do.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fabriscope_units::{Span, Time};

/// What happens at times of the run.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    /// Time of the run, order of insertion, rank and operation.
    entries: BinaryHeap<Reverse<(Time, u64, u32, u32)>>,
    inserted: u64,
    /// What was skipped so far.
    offset: Span,
    /// The earliest event in the queue for this, by the clock of the queue.
    planned: Option<Time>,
}

impl Agenda {
    /// What was skipped so far.
    pub fn offset(&self) -> Span {
        self.offset
    }
    /// The time of the run of the earliest entry.
    pub fn earliest(&self) -> Option<Time> {
        self.entries.peek().map(|entry| entry.0.0)
    }

    /// Operation `op` of `rank` ends `after` from `now` by the clock of the queue. Gives when an event is needed, if none comes early
    /// enough.
    pub fn add(&mut self, now: Time, after: Span, rank: u32, op: u32) -> Option<Time> {
        self.entries.push(Reverse((now + self.offset + after, self.inserted, rank, op)));
        self.inserted += 1;
        self.plan(now)
    }

    /// `span` is skipped at `now`; it may reach up to the earliest entry.
    pub fn skip(&mut self, now: Time, span: Span) -> Option<Time> {
        self.offset += span;
        self.plan(now)
    }

    /// An event came at `now`: adds what is due to `due`, rank and operation.
    pub fn take(&mut self, now: Time, due: &mut Vec<(u32, u32)>) -> Option<Time> {
        let time = now + self.offset;
        while let Some(Reverse((_, _, rank, op))) = self.entries.peek().copied().filter(|entry| entry.0.0 <= time) {
            self.entries.pop();
            due.push((rank, op));
        }
        if self.planned.is_some_and(|planned| planned <= now) {
            self.planned = None;
        }
        self.plan(now)
    }

    fn plan(&mut self, now: Time) -> Option<Time> {
        let at = Time::ZERO + self.earliest()?.since(Time::ZERO + self.offset);
        let at = at.max(now);
        if self.planned.is_some_and(|planned| planned <= at) {
            return None;
        }
        self.planned = Some(at);
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    #[test]
    fn ends_come_earlier_in_the_queue_by_what_was_skipped() {
        let (mut agenda, mut due) = (Agenda::default(), Vec::new());
        assert_eq!(agenda.add(us(0), Span::from_us(100), 0, 1), Some(us(100)));
        assert_eq!(agenda.add(us(10), Span::from_us(200), 1, 2), None, "an earlier event is planned");
        assert_eq!(agenda.earliest(), Some(us(100)));
        assert_eq!(agenda.skip(us(20), Span::from_us(70)), Some(us(30)));
        assert_eq!(agenda.take(us(30), &mut due), Some(us(140)), "210 us of the run");
        assert_eq!(due, [(0, 1)]);
        // The event that was planned first comes and finds nothing.
        due.clear();
        assert_eq!(agenda.take(us(100), &mut due), None);
        assert!(due.is_empty());
        assert_eq!(agenda.take(us(140), &mut due), None);
        assert_eq!((due, agenda.earliest()), (vec![(1, 2)], None));
    }

    #[test]
    fn equal_ends_keep_their_order() {
        let (mut agenda, mut due) = (Agenda::default(), Vec::new());
        for op in [7, 3, 5] {
            agenda.add(us(0), Span::from_us(4), op, op);
        }
        agenda.take(us(4), &mut due);
        assert_eq!(due, [(7, 7), (3, 3), (5, 5)]);
    }
}
