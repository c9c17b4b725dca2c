//! CUBIC: the window follows a cubic of the time since the last loss, flat around the window at which it happened.
//!
//! Source: RFC 9438 §4.1 to §4.8, constants of §4.6 and §5.
//! Modelled: concave and convex growth, the Reno-friendly region, fast convergence, timeouts.
//! Not modelled: HyStart++, spurious losses.

use fabriscope_units::{Span, Time};

use super::{Acked, Control, Window};

/// The window of one connection; windows in segments, times in seconds, as in the RFC.
#[derive(Clone, Copy, Debug)]
pub struct Cubic {
    w: Window,
    /// Where the next growth has its plateau: the window of the last loss, or less; 0 where no loss says.
    w_max: f64,
    /// The window that the last loss found.
    prior: f64,
    /// The present growth.
    epoch: Option<Epoch>,
}

/// When a growth began, and all that is fixed from then on.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Time,
    k: f64,
    w_max: f64,
    w_est: f64,
}

impl Cubic {
    /// In slow start.
    #[must_use]
    pub fn new(w: Window) -> Cubic {
        Cubic { w, w_max: 0.0, prior: 0.0, epoch: None }
    }

    fn segments(&self) -> f64 {
        self.w.bytes / self.w.mss as f64
    }

    fn reduce(&mut self) {
        let now = self.segments();
        // §4.7: the newcomer gets room.
        self.w_max = if now < self.w_max { now * (1.0 + BETA) / 2.0 } else { now };
        self.prior = now;
        self.epoch = None;
        self.w.cut(self.w.bytes, BETA);
    }
}

impl Control for Cubic {
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
        if rest <= 0.0 {
            return;
        }
        let (now, prior) = (self.segments(), self.prior);
        let rtt = acked.rtt.unwrap_or(Span::ZERO);
        let w_max = self.w_max.max(now);
        // Equation 2.
        let begun = || Epoch { start: acked.now, k: libm::cbrt((w_max - now) / C), w_max, w_est: now };
        let epoch = self.epoch.get_or_insert_with(begun);
        let segments = rest / self.w.mss as f64;
        // Equation 1, one round trip ahead (§4.4, §4.5).
        let t = acked.now.since(epoch.start).as_s_f64() + rtt.as_s_f64() - epoch.k;
        let target = (C * t * t * t + epoch.w_max).clamp(now, 1.5 * now);
        // Equation 4: what Reno would have; from the window of the loss on it grows as Reno does.
        let alpha = if epoch.w_est < prior { 3.0 * (1.0 - BETA) / (1.0 + BETA) } else { 1.0 };
        epoch.w_est += alpha * segments / now;
        let grown = now + (target - now) / now * segments;
        self.w.bytes = grown.max(epoch.w_est) * self.w.mss as f64;
    }
    fn lost(&mut self, _: Time, _: u64) {
        self.reduce();
    }
    fn timed_out(&mut self, _: Time, _: u64) {
        self.reduce();
        // §4.8: the growth behind a timeout begins from where slow start ends, with K = 0.
        self.w_max = 0.0;
        self.w.restart();
    }
    fn marked(&mut self, now: Time, in_flight: u64) {
        self.lost(now, in_flight);
    }
}

/// Multiplicative decrease. Basis: standard, §4.6.
const BETA: f64 = 0.7;
/// Segments per second cubed. Basis: standard, §5.
const C: f64 = 0.4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn returns_to_the_old_window_after_k() {
        let config = Config { mss: 1000, initial_window: 1000, ..Config::default() };
        let mut cubic = Cubic::new(Window::new(&config));
        cubic.lost(Time::ZERO, 0);
        assert_eq!(cubic.window(), 700_000);
        // K = cbrt(W_max (1 − β) / C) = cbrt(300 / 0.4) = 9.086 s; a round trip of 100 ms makes Reno slower than that.
        let rtt = Span::from_us(100_000);
        let (mut now, mut at_k, mut early) = (Time::ZERO, 0, 0);
        while now < Time::ZERO + Span::from_us(12_000_000) {
            let acked = Acked { now, bytes: cubic.window(), in_flight: 0, limited: true, rtt: Some(rtt), marked: false };
            cubic.acked(&acked);
            now += rtt;
            if now <= Time::ZERO + Span::from_us(4_500_000) {
                early = cubic.window();
            }
            if now <= Time::ZERO + Span::from_us(9_086_000) {
                at_k = cubic.window();
            }
        }
        assert!((990_000..=1_010_000).contains(&at_k), "{at_k}");
        // Concave: at half of K, W = W_max − C (K/2)³ = 1000 − 0.4 · 93.8 = 962 segments.
        assert!((950_000..=970_000).contains(&early), "{early}");
        // Convex behind it: 2.9 s later 0.4 · 24.4 = 10 segments more, or Reno's if that is more.
        assert!(cubic.window() > 1_008_000, "{}", cubic.window());
        cubic.lost(now, 0);
        let w_max = cubic.w_max;
        cubic.lost(now, 0);
        assert!(cubic.w_max < w_max * 0.7, "fast convergence: {} after {w_max}", cubic.w_max);
    }
}
