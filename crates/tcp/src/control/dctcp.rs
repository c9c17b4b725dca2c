//! DCTCP: the window is cut by the share of marked bytes.
//!
//! Source: RFC 8257 §3.3 to §3.5; g of §4.2.
//! Modelled: the estimate over one window of data, the cut, NewReno elsewhere.

use fabriscope_units::Time;

use super::{Acked, Control, NewReno, Window};

/// The window of one connection.
#[derive(Clone, Copy, Debug)]
pub struct Dctcp {
    reno: NewReno,
    w: Window,
    alpha: f64,
    bytes: u64,
    marked: u64,
    /// Bytes until the window of data that is observed ends.
    left: u64,
}

impl Dctcp {
    /// In slow start; α is 1, so that the first mark counts as a loss (§4.2).
    #[must_use]
    pub fn new(w: Window) -> Dctcp {
        Dctcp { reno: NewReno::new(w), w, alpha: 1.0, bytes: 0, marked: 0, left: w.whole() }
    }
    /// The estimated share of marked bytes [0..1].
    #[must_use]
    pub fn alpha(&self) -> f64 {
        self.alpha
    }
}

impl Control for Dctcp {
    fn window(&self) -> u64 {
        self.reno.window()
    }
    fn threshold(&self) -> u64 {
        self.reno.threshold()
    }
    fn acked(&mut self, acked: &Acked) {
        self.bytes += acked.bytes;
        self.marked += if acked.marked { acked.bytes } else { 0 };
        self.left = self.left.saturating_sub(acked.bytes);
        if self.left == 0 {
            let share = self.marked as f64 / self.bytes.max(1) as f64;
            self.alpha += G * (share - self.alpha);
            (self.bytes, self.marked, self.left) = (0, 0, self.window());
        }
        if !acked.marked {
            self.reno.acked(acked);
        }
    }
    fn lost(&mut self, now: Time, in_flight: u64) {
        self.reno.lost(now, in_flight);
    }
    fn timed_out(&mut self, now: Time, in_flight: u64) {
        self.reno.timed_out(now, in_flight);
    }
    fn marked(&mut self, _: Time, _: u64) {
        self.w.cut(self.window() as f64, 1.0 - self.alpha / 2.0);
        self.reno = NewReno::new(self.w);
    }
}

/// Weight of the newest window. Basis: standard, §4.2.
const G: f64 = 1.0 / 16.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn alpha_follows_the_marks_and_the_cut_follows_alpha() {
        let config = Config { mss: 1000, initial_window: 100, ..Config::default() };
        let mut dctcp = Dctcp::new(Window::new(&config));
        dctcp.marked(Time::ZERO, 0);
        assert_eq!(dctcp.window(), 50_000, "α = 1 halves");
        // Windows without marks: α falls by 15/16 each.
        for round in 1..=20 {
            let window = dctcp.left;
            dctcp.acked(&Acked { now: Time::ZERO, bytes: window, in_flight: 0, limited: false, rtt: None, marked: false });
            assert!((dctcp.alpha() - libm::pow(15.0 / 16.0, f64::from(round))).abs() < 1e-12);
        }
        let before = dctcp.window();
        let alpha = dctcp.alpha();
        dctcp.marked(Time::ZERO, 0);
        assert_eq!(dctcp.window(), (before as f64 * (1.0 - alpha / 2.0)) as u64);
    }
}
