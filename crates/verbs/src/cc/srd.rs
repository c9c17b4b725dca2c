//! Latency-based congestion control as SRD's: keep the queue of every path short by its round trips.
//!
//! Source: L. Shalev et al., "A cloud-optimized transport protocol for elastic and scalable HPC", IEEE Micro 40(6), 2020: a
//! limit on what is on the way, adapted to estimated rate and round trips, little queueing, spread over many paths; the
//! formula is not published. This one is that of a window that grows additively below a bound of the round trip and shrinks
//! multiplicatively above it (R. Mittal et al., "TIMELY", SIGCOMM 2015, §4, with thresholds and without gradient).
//! Modelled: the window. Not modelled: choosing among paths by their round trips.

use fabriscope_units::{Bytes, Span, Time, parameters};

use super::{Allowance, Control, Feedback, Line, Loss, OutOfRange, Scheme, Signals, share, window};

parameters! {
    /// Latency-based congestion control as SRD's.
    pub struct Parameters as "Srd" {
        /// Queueing delay to stay below, as a share of the round trip of an idle network.
        pub bound: f64,
        /// Packets added per round trip.
        pub additive: f64,
        /// Weight of the excess in a decrease.
        pub beta: f64,
        /// How long to wait for an answer before sending again.
        pub timeout: Span,
    }
}

impl Scheme for Parameters {
    type Control = Srd;

    fn control(&self, line: Line) -> Srd {
        Srd::new(*self, line)
    }
    fn signals(&self) -> Signals {
        Signals { ack_interval: Some(1), timeout: Some(self.timeout), ..Signals::default() }
    }
    fn check(&self) -> Result<(), OutOfRange> {
        share("beta", self.beta)
    }
}

/// The window of one queue pair.
#[derive(Clone, Debug)]
pub struct Srd {
    p: Parameters,
    line: Line,
    window: f64,
    decreased: Time,
}

impl Srd {
    /// A window of the bandwidth–delay product.
    pub fn new(p: Parameters, line: Line) -> Srd {
        Srd { p, line, window: line.product().0 as f64, decreased: Time::ZERO }
    }
}

impl Control for Srd {
    fn allowance(&self) -> Allowance {
        Allowance::window(window(self.window, self.line.mtu, Bytes(u64::MAX)), self.line.rate)
    }

    fn acknowledged(&mut self, feedback: &Feedback<'_>) {
        let base = self.line.base_rtt.as_ps() as f64;
        let (rtt, bound) = (feedback.rtt.as_ps() as f64, base * (1.0 + self.p.bound));
        if rtt <= bound {
            self.window += self.p.additive * self.line.mtu.0 as f64 * feedback.bytes.0 as f64 / self.window.max(1.0);
        } else if feedback.now >= self.decreased + feedback.rtt {
            self.window *= (1.0 - self.p.beta * (1.0 - bound / rtt)).max(0.5);
            self.decreased = feedback.now;
        }
        self.window = self.window.clamp(self.line.mtu.0 as f64, 2.0 * self.line.product().0 as f64);
    }

    fn lost(&mut self, now: Time, _: Loss) {
        if now >= self.decreased + self.line.base_rtt {
            self.window = (self.window / 2.0).max(self.line.mtu.0 as f64);
            self.decreased = now;
        }
    }
}
