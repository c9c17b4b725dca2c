//! NewReno: one segment more per round trip, half at a loss.
//!
//! Source: RFC 5681 §3.1 and §3.2, RFC 6582.

use fabriscope_units::Time;

use super::{Acked, Control, Window};

/// The window of one connection.
#[derive(Clone, Copy, Debug)]
pub struct NewReno {
    w: Window,
}

impl NewReno {
    /// In slow start.
    #[must_use]
    pub fn new(w: Window) -> NewReno {
        NewReno { w }
    }
}

impl Control for NewReno {
    fn window(&self) -> u64 {
        self.w.whole()
    }
    fn threshold(&self) -> u64 {
        self.w.whole_threshold()
    }
    fn acked(&mut self, acked: &Acked) {
        if !acked.limited {
            return;
        }
        let rest = self.w.start(acked.bytes);
        if rest > 0.0 {
            // Equation 3, summed over the acknowledged bytes.
            self.w.bytes += self.w.mss as f64 * rest / self.w.bytes;
        }
    }
    fn lost(&mut self, _: Time, in_flight: u64) {
        self.w.cut(in_flight as f64, 0.5);
    }
    fn timed_out(&mut self, _: Time, in_flight: u64) {
        self.w.cut(in_flight as f64, 0.5);
        self.w.restart();
    }
    fn marked(&mut self, now: Time, in_flight: u64) {
        self.lost(now, in_flight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn doubles_then_adds_one_segment_per_round() {
        let config = Config { mss: 1000, initial_window: 10, ..Config::default() };
        let mut reno = NewReno::new(Window::new(&config));
        let round = |reno: &mut NewReno| {
            let window = reno.window();
            for _ in 0..window / 1000 {
                reno.acked(&Acked { now: Time::ZERO, bytes: 1000, in_flight: 0, limited: true, rtt: None, marked: false });
            }
            reno.window()
        };
        assert_eq!([round(&mut reno), round(&mut reno)], [20_000, 40_000]);
        reno.lost(Time::ZERO, 40_000);
        assert_eq!((reno.window(), reno.threshold()), (20_000, 20_000));
        // Equation 3: about one segment per round trip.
        let grown = round(&mut reno);
        assert!((20_900..=21_000).contains(&grown), "{grown}");
        reno.timed_out(Time::ZERO, 20_000);
        assert_eq!((reno.window(), reno.threshold()), (1000, 10_000));
        // A sender that does not use its window does not earn a larger one (RFC 7661).
        reno.acked(&Acked { now: Time::ZERO, bytes: 1000, in_flight: 0, limited: false, rtt: None, marked: false });
        assert_eq!(reno.window(), 1000);
    }
}
