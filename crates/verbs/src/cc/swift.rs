//! Swift: a window steered to a target delay.
//!
//! Source: G. Kumar et al., "Swift: delay is simple and effective for congestion control in the datacenter", SIGCOMM 2020,
//! §3, algorithm 1 and 2.
//! Modelled: fabric delay against a target with flow scaling, one decrease per round trip, pacing below one packet.
//! Not modelled: the separate window for the delay in the host (hosts here are no bottleneck of this kind).

use fabriscope_units::{Bytes, Rate, Span, Time, parameters};

use super::{Allowance, Control, Feedback, Line, Loss, OutOfRange, Scheme, Signals, share};

parameters! {
    /// Swift. Parameters are named as in the paper; windows are in packets.
    pub struct Parameters as "Swift" {
        /// Target of the delay above the round trip of an idle network.
        pub target: Span,
        /// Packets added per round trip (ai).
        pub additive: f64,
        /// Weight of the excess in a decrease (β).
        pub beta: f64,
        /// Largest decrease (max_mdf).
        pub most_decrease: f64,
        /// Most that flow scaling adds to the target (fs_range).
        pub scaling_range: Span,
        /// Window at and below which it is added whole (fs_min_cwnd).
        pub scaling_least: f64,
        /// Window above which none is added (fs_max_cwnd).
        pub scaling_most: f64,
    }
}

impl Scheme for Parameters {
    type Control = Swift;

    fn control(&self, line: Line) -> Swift {
        Swift::new(*self, line)
    }
    fn signals(&self) -> Signals {
        Signals { ack_interval: Some(1), ..Signals::default() }
    }
    fn check(&self) -> Result<(), OutOfRange> {
        share("most_decrease", self.most_decrease)
    }
}

/// The window of one queue pair.
#[derive(Clone, Debug)]
pub struct Swift {
    p: Parameters,
    line: Line,
    /// In packets.
    window: f64,
    decreased: Time,
    rtt: Span,
    timeouts: u32,
}

/// The least window: one packet in a hundred round trips. Basis: published (Swift, min_cwnd 0.01).
const LEAST: f64 = 0.01;

impl Swift {
    /// A window of the bandwidth–delay product.
    pub fn new(p: Parameters, line: Line) -> Swift {
        let window = line.product().0 as f64 / line.mtu.0.max(1) as f64;
        Swift { p, line, window, decreased: Time::ZERO, rtt: line.base_rtt, timeouts: 0 }
    }

    /// The target for the delay of a round trip.
    fn target(&self) -> f64 {
        let p = &self.p;
        // range · (1/√w − 1/√most) / (1/√least − 1/√most), between 0 and range.
        let root = |window: f64| 1.0 / window.max(LEAST).sqrt();
        let (all, rest) = (root(p.scaling_least) - root(p.scaling_most), root(self.window) - root(p.scaling_most));
        let share = if all > 0.0 { (rest / all).clamp(0.0, 1.0) } else { 0.0 };
        self.line.base_rtt.as_ps() as f64 + p.target.as_ps() as f64 + p.scaling_range.as_ps() as f64 * share
    }

    fn most(&self) -> f64 {
        2.0 * self.line.product().0 as f64 / self.line.mtu.0.max(1) as f64
    }
}

impl Control for Swift {
    fn allowance(&self) -> Allowance {
        let bytes = self.window * self.line.mtu.0 as f64;
        let rate = if self.window >= 1.0 {
            self.line.rate
        } else {
            // Less than a packet in a round trip: paced.
            Rate::from_bps((bytes * 8e12 / self.rtt.as_ps().max(1) as f64).max(1.0) as u64)
        };
        // Headers are not in the window: a tenth more covers them.
        Allowance::window(Bytes(((bytes * 1.1) as u64).max(self.line.mtu.0)), rate)
    }

    fn acknowledged(&mut self, feedback: &Feedback<'_>) {
        self.timeouts = 0;
        self.rtt = feedback.rtt;
        let (delay, target) = (feedback.rtt.as_ps() as f64, self.target());
        let packets = feedback.bytes.0 as f64 / self.line.mtu.0.max(1) as f64;
        if delay < target {
            self.window += self.p.additive * packets / self.window.max(1.0);
        } else if feedback.now >= self.decreased + feedback.rtt {
            let factor = (1.0 - self.p.beta * (delay - target) / delay).max(1.0 - self.p.most_decrease);
            self.window *= factor;
            self.decreased = feedback.now;
        }
        self.window = self.window.clamp(LEAST, self.most());
    }

    fn lost(&mut self, now: Time, loss: Loss) {
        if loss == Loss::Timeout {
            self.timeouts += 1;
        }
        if now >= self.decreased + self.rtt {
            self.window = if self.timeouts > 5 { LEAST } else { self.window * (1.0 - self.p.most_decrease) }.max(LEAST);
            self.decreased = now;
        }
    }
}
