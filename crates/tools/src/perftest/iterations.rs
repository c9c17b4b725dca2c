//! How many messages a measurement still has to exchange.
//!
//! With a number of iterations both ends know it from the start. With `-D` the sending end decides, once the time is
//! over, that its next message is the last, and the receiving end learns it out of band before that message arrives. It does the
//! same when long messages repeat: the rest are counted, not simulated ([`crate::repeats`]).

use fabriscope_node::Record;
use fabriscope_units::{Span, Time};

use super::settings::Length;

/// Messages per queue pair of one direction of one measurement; clones are the same quota.
#[derive(Debug, Clone)]
pub(crate) struct Quota(Record<Vec<u64>>);

impl Quota {
    /// The quota of `qps` queue pairs.
    pub fn new(length: Length, qps: u32) -> Quota {
        let each = match length {
            Length::Iterations(iterations) => iterations,
            Length::Duration { .. } => u64::MAX,
        };
        Quota(Record::new(vec![each; qps as usize]))
    }
    /// Messages of queue pair `qp`, as far as is known.
    pub fn of(&self, qp: usize) -> u64 {
        self.0.lock()[qp]
    }
    /// Messages of all queue pairs, as far as is known.
    pub fn total(&self) -> u64 {
        self.0.lock().iter().fold(0, |sum, each| sum.saturating_add(*each))
    }
    /// Makes the next message of every queue pair its last; `sent` counts those sent so far.
    pub fn close(&self, sent: &[u64]) {
        for (limit, sent) in self.0.lock().iter_mut().zip(sent) {
            *limit = (*limit).min(sent + 1);
        }
    }
}

/// The clock of a measurement under `-D`; it does nothing without.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    window: Option<(Time, Time, Time)>,
    counted: u64,
}

impl Clock {
    pub fn start(length: Length, now: Time) -> Clock {
        let window = match length {
            Length::Iterations(_) => None,
            Length::Duration { whole, margin } => Some((now + margin, now + whole.saturating_sub(margin), now + whole)),
        };
        Clock { window, counted: 0 }
    }
    /// Whether the time is over.
    pub fn is_over(&self, now: Time) -> bool {
        self.window.is_some_and(|(_, _, end)| now >= end)
    }
    /// Counts `messages` that completed at `now`, if that lies between the margins.
    pub fn count(&mut self, now: Time, messages: u64) {
        if self.window.is_some_and(|(first, last, _)| first <= now && now < last) {
            self.counted += messages;
        }
    }
    /// Messages counted and the time between the margins.
    pub fn result(&self) -> Option<(u64, Span)> {
        self.window.map(|(first, last, _)| (self.counted, last.since(first)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_quota_has_one_message_left() {
        let quota = Quota::new(Length::Duration { whole: Span::from_us(3), margin: Span::from_us(1) }, 2);
        assert_eq!(quota.total(), u64::MAX);
        let far_end = quota.clone();
        quota.close(&[10, 7]);
        assert_eq!((far_end.of(0), far_end.of(1), far_end.total()), (11, 8, 19));
        assert_eq!(Quota::new(Length::Iterations(5), 2).total(), 10);
    }

    #[test]
    fn only_the_middle_counts() {
        let at = |us| Time::ZERO + Span::from_us(us);
        let mut clock = Clock::start(Length::Duration { whole: Span::from_us(10), margin: Span::from_us(2) }, at(100));
        for us in [100, 102, 107, 108, 110] {
            clock.count(at(us), 3);
        }
        assert_eq!(clock.result(), Some((6, Span::from_us(6))));
        assert!(clock.is_over(at(110)) && !clock.is_over(at(109)));
        assert!(!Clock::start(Length::Iterations(5), at(0)).is_over(Time::MAX));
    }
}
