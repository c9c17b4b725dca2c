//! What a program has to turn to, and when; at the same time in the order in which it was noted.

use std::collections::BTreeMap;

use fabriscope_units::Time;

/// Things to do by time.
#[derive(Debug)]
pub(crate) struct Agenda<T> {
    by_time: BTreeMap<(Time, u64), T>,
    noted: u64,
}

impl<T> Agenda<T> {
    pub fn new() -> Agenda<T> {
        Agenda { by_time: BTreeMap::new(), noted: 0 }
    }
    /// Notes `what` for that time.
    pub fn note(&mut self, at: Time, what: T) {
        self.noted += 1;
        self.by_time.insert((at, self.noted), what);
    }
    /// When the next is due.
    pub fn next(&self) -> Time {
        self.by_time.first_key_value().map_or(Time::MAX, |((at, _), _)| *at)
    }
    /// Takes the next that is due by now, and when it was.
    pub fn due(&mut self, now: Time) -> Option<(Time, T)> {
        if self.next() > now {
            return None;
        }
        self.by_time.pop_first().map(|((at, _), what)| (at, what))
    }
}
