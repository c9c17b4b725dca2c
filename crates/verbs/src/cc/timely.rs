//! TIMELY: a rate steered by how fast the round trip grows.
//!
//! Source: R. Mittal et al., "TIMELY: RTT-based congestion control for the datacenter", SIGCOMM 2015, §4, algorithm 1.
//! Modelled: smoothed gradient of the round trip, thresholds below which it always grows and above which it always shrinks,
//! additive increase, hyperactive increase after a number of completions without a gradient. A gradient counts as 1 at the most: the
//! algorithm has no limit, and from 1/β on its rate would be negative.
//! Not modelled: bursts of whole segments between two updates (packets are paced one by one); the time of a
//! segment on the wire, which §4.1 takes off the round trip (a packet's is in it here); the patched algorithm of Zhu et
//! al., "ECN or delay", CoNEXT 2016, whose rates converge to one point.

use fabriscope_units::{Bytes, Rate, Span, Time, parameters};

use super::{Allowance, Control, Feedback, Line, Loss, OutOfRange, Scheme, Signals, share};

parameters! {
    /// TIMELY. Parameters are named as in the paper.
    pub struct Parameters as "Timely" {
        /// Weight of the newest difference between two round trips (α).
        pub alpha: f64,
        /// Weight of the gradient, or of the excess, in a decrease (β).
        pub beta: f64,
        /// Additive increase (δ).
        pub additive: Rate,
        /// Round trip below which the rate always grows (T_low).
        pub low: Span,
        /// Round trip above which it always shrinks (T_high).
        pub high: Span,
        /// Bytes acknowledged from one update to the next: a segment of the paper.
        pub segment: Bytes,
        /// Updates without a gradient after which the rate grows as many times as fast (N of hyperactive increase).
        pub hyperactive: u32,
        /// The rate never falls below this.
        pub least: Rate,
    }
}

impl Scheme for Parameters {
    type Control = Timely;

    fn control(&self, line: Line) -> Timely {
        Timely::new(*self, line)
    }
    fn signals(&self) -> Signals {
        Signals { ack_interval: Some(1), ..Signals::default() }
    }
    fn check(&self) -> Result<(), OutOfRange> {
        share("alpha", self.alpha)?;
        share("beta", self.beta)
    }
}

/// The rate of one queue pair.
#[derive(Clone, Debug)]
pub struct Timely {
    p: Parameters,
    line: Line,
    /// In bit/s.
    rate: f64,
    /// Of the last update; none before the first.
    rtt: Option<Span>,
    /// Smoothed difference between two round trips, in ps.
    difference: f64,
    /// Acknowledged since the last update.
    bytes: u64,
    /// Updates in a row without a gradient.
    calm: u32,
}

impl Timely {
    /// At the rate of the link.
    pub fn new(p: Parameters, line: Line) -> Timely {
        Timely { p, line, rate: line.rate.as_bps() as f64, rtt: None, difference: 0.0, bytes: 0, calm: 0 }
    }

    /// Algorithm 1 of the paper.
    fn update(&mut self, rtt: Span) {
        let last = self.rtt.replace(rtt).unwrap_or(rtt);
        let newest = rtt.as_ps() as f64 - last.as_ps() as f64;
        self.difference = (1.0 - self.p.alpha) * self.difference + self.p.alpha * newest;
        let gradient = self.difference / self.line.base_rtt.as_ps().max(1) as f64;
        self.calm = if gradient <= 0.0 { self.calm + 1 } else { 0 };
        let step = self.p.additive.as_bps() as f64;
        if rtt < self.p.low {
            self.rate += step;
        } else if rtt > self.p.high {
            self.rate *= 1.0 - self.p.beta * (1.0 - self.p.high.as_ps() as f64 / rtt.as_ps() as f64);
        } else if gradient <= 0.0 {
            let times = if self.calm >= self.p.hyperactive { self.p.hyperactive } else { 1 };
            self.rate += f64::from(times) * step;
        } else {
            self.rate *= 1.0 - self.p.beta * gradient.min(1.0);
        }
        self.bound();
    }

    fn bound(&mut self) {
        let most = self.line.rate.as_bps() as f64;
        self.rate = self.rate.clamp((self.p.least.as_bps() as f64).min(most), most);
    }
}

impl Control for Timely {
    fn allowance(&self) -> Allowance {
        Allowance::rate(Rate::from_bps(self.rate as u64))
    }

    fn acknowledged(&mut self, feedback: &Feedback<'_>) {
        self.bytes += feedback.bytes.0;
        if self.bytes >= self.p.segment.0 {
            self.bytes = 0;
            self.update(feedback.rtt);
        }
    }

    /// The paper leaves loss to the transport; without an answer there is no round trip to go by.
    fn lost(&mut self, _: Time, loss: Loss) {
        if loss == Loss::Timeout {
            self.rate /= 2.0;
            self.bound();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: Line = Line { rate: Rate::from_gbps(10), base_rtt: Span::from_us(20), mtu: Bytes(4096) };
    const P: Parameters = Parameters {
        alpha: 0.875,
        beta: 0.8,
        additive: Rate::from_bps(10_000_000),
        low: Span::from_us(50),
        high: Span::from_us(500),
        segment: Bytes(4096),
        hyperactive: 5,
        least: Rate::from_bps(10_000_000),
    };

    fn after(control: &mut Timely, rtt: u64) -> f64 {
        let feedback =
            Feedback { now: Time::ZERO, bytes: Bytes(4096), rtt: Span::from_us(rtt), marked: false, in_flight: Bytes::ZERO, links: &[] };
        control.acknowledged(&feedback);
        control.allowance().rate.as_bps() as f64 / 1e9
    }

    #[test]
    fn the_rate_follows_algorithm_1() {
        let mut control = Timely::new(P, LINE);
        assert_eq!(after(&mut control, 100), 10.0, "the first round trip has no gradient, and the line is the most");
        // From 100 to 110 us: the difference is 0.875 · 10 us, the gradient 8.75/20; 1 − 0.8 · 0.4375 = 0.65.
        assert!((after(&mut control, 110) - 6.5).abs() < 1e-6);
        // Back to 100 us: 0.125 · 8.75 − 0.875 · 10 = −7.66 us: one step of 10 Mb/s.
        assert!((after(&mut control, 100) - 6.51).abs() < 1e-6);
        // Above 500 us whatever the gradient: 1 − 0.8 · (1 − 500/1000) = 0.6.
        assert!((after(&mut control, 1000) - 6.51 * 0.6).abs() < 1e-6);
        // Below 50 us always a step.
        assert!((after(&mut control, 40) - (3.906 + 0.01)).abs() < 1e-6);
    }

    #[test]
    fn a_calm_network_is_taken_faster() {
        let mut control = Timely::new(P, LINE);
        control.rate = 1e9;
        // Five updates without a gradient: a step each of the first four, five steps from then on.
        for expected in [1.01, 1.02, 1.03, 1.04, 1.09, 1.14] {
            assert!((after(&mut control, 100) - expected).abs() < 1e-6);
        }
    }
}
