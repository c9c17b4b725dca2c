//! Tahoe: slow start after every loss.
//!
//! Source: RFC 5681 §3.1; V. Jacobson, "Congestion Avoidance and Control", SIGCOMM 1988.
//! Modelled: after a fast retransmit, as after a timeout, one segment and everything again that is not acknowledged.

use fabriscope_units::Time;

use super::{Acked, Control, NewReno, Window};

/// The window of one connection.
#[derive(Clone, Copy, Debug)]
pub struct Tahoe(NewReno);

impl Tahoe {
    /// In slow start.
    #[must_use]
    pub fn new(w: Window) -> Tahoe {
        Tahoe(NewReno::new(w))
    }
}

impl Control for Tahoe {
    fn window(&self) -> u64 {
        self.0.window()
    }
    fn threshold(&self) -> u64 {
        self.0.threshold()
    }
    fn acked(&mut self, acked: &Acked) {
        self.0.acked(acked);
    }
    fn lost(&mut self, now: Time, in_flight: u64) {
        self.0.timed_out(now, in_flight);
    }
    fn goes_back(&self) -> bool {
        true
    }
    fn timed_out(&mut self, now: Time, in_flight: u64) {
        self.0.timed_out(now, in_flight);
    }
    fn marked(&mut self, now: Time, in_flight: u64) {
        self.0.marked(now, in_flight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn a_loss_begins_again_with_one_segment() {
        let config = Config { mss: 1000, initial_window: 40, ..Config::default() };
        let mut tahoe = Tahoe::new(Window::new(&config));
        tahoe.lost(Time::ZERO, 40_000);
        assert_eq!((tahoe.window(), tahoe.threshold()), (1000, 20_000));
        tahoe.acked(&Acked { now: Time::ZERO, bytes: 1000, in_flight: 0, limited: true, rtt: None, marked: false });
        assert_eq!(tahoe.window(), 2000);
    }
}
