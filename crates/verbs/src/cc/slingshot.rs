//! Slingshot's congestion management: the network knows what every pair has on its way and holds back those that
//! fill a congested endpoint port, at once, and nobody else.
//!
//! Source: D. De Sensi et al., "An in-depth analysis of the Slingshot interconnect", SC 2020, §II-D (all packets between each
//! pair of endpoints are tracked; back-pressure on the sources of congestion only); the rule by which sources are held back is
//! not published. Here the last switch of the path tells with each acknowledgement how much waits for the endpoint's link; a pair
//! whose packets wait there keeps no more on its way than that it would have at its share of the link.
//! Modelled: per-pair windows set within a round trip. Not modelled: the switch's table of pairs and its size.

use fabriscope_units::{Bytes, Time, parameters};

use super::{Allowance, Control, Feedback, Line, Loss, OutOfRange, Scheme, Signals, share, window};

parameters! {
    /// Per-pair back-pressure, as Slingshot's.
    pub struct Parameters as "Slingshot" {
        /// Bytes waiting for an endpoint's link above which its sources are held back, as a share of the bandwidth–delay product.
        pub threshold: f64,
        /// Share of the window that comes back per round trip without congestion.
        pub release: f64,
    }
}

impl Scheme for Parameters {
    type Control = Slingshot;

    fn control(&self, line: Line) -> Slingshot {
        Slingshot::new(*self, line)
    }
    fn signals(&self) -> Signals {
        Signals { ack_interval: Some(1), telemetry: true, ..Signals::default() }
    }
    fn check(&self) -> Result<(), OutOfRange> {
        share("release", self.release)
    }
}

/// The window of one pair.
#[derive(Clone, Debug)]
pub struct Slingshot {
    p: Parameters,
    line: Line,
    window: f64,
    changed: Time,
}

impl Slingshot {
    /// A window of the bandwidth–delay product and the threshold.
    pub fn new(p: Parameters, line: Line) -> Slingshot {
        let window = line.product().0 as f64 * (1.0 + p.threshold);
        Slingshot { p, line, window, changed: Time::ZERO }
    }
}

/// The least window in packets: sources that share a port by the hundred need less than one. Basis: assumed.
const LEAST: f64 = 1.0;

impl Control for Slingshot {
    fn allowance(&self) -> Allowance {
        Allowance::window(window(self.window, self.line.mtu, Bytes(u64::MAX)), self.line.rate)
    }

    fn acknowledged(&mut self, feedback: &Feedback<'_>) {
        let Some(last) = feedback.links.last() else { return };
        let product = self.line.product().0 as f64;
        let (queue, limit) = (last.queue.0 as f64, self.p.threshold * product);
        if queue > limit {
            // What is on its way to the port is the product and the queue; it should be the product and half the limit.
            if feedback.now >= self.changed + feedback.rtt {
                self.window *= ((product + limit / 2.0) / (product + queue)).min(1.0);
                self.changed = feedback.now;
            }
        } else {
            self.window += self.p.release * self.window * feedback.bytes.0 as f64 / self.window.max(1.0);
        }
        self.window = self.window.clamp(LEAST * self.line.mtu.0 as f64, product * (1.0 + self.p.threshold));
    }

    fn lost(&mut self, _: Time, _: Loss) {}
}
