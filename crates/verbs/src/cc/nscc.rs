//! NSCC, the network-signalled congestion control of Ultra Ethernet: marks and delay together decide.
//!
//! Source: Ultra Ethernet Specification 1.0, §3.6 (congestion management sublayer): four cases by mark and queueing delay, quick
//! adaptation after trimmed packets.
//!
//! | | delay below target | delay above target |
//! |---|---|---|
//! | no mark | grow in proportion to what is missing | grow by a little, all flows alike |
//! | mark | keep | shrink in proportion to the excess, once per round trip |
//!
//! Modelled: the four cases, quick adaptation to what arrived in the last round trip; receiver credits beside it are RCCC's.
//! Not modelled: avoidance of single paths.

use fabriscope_units::{Bytes, Span, Time, parameters};

use super::{Allowance, Control, Echo, Feedback, Line, Loss, OutOfRange, Scheme, Signals, share, window};

parameters! {
    /// NSCC of Ultra Ethernet.
    pub struct Parameters as "Nscc" {
        /// Target of the queueing delay, as a share of the round trip of an idle network.
        pub target: f64,
        /// Most that the window shrinks at once, as a share of it.
        pub most_decrease: f64,
        /// Weight of the excess in a decrease.
        pub gamma: f64,
        /// Packets added per round trip where all flows grow alike.
        pub fair: f64,
        /// Share of the window added per round trip at no delay at all.
        pub proportional: f64,
        /// How long to wait for an answer before sending again.
        pub timeout: Span,
    }
}

impl Scheme for Parameters {
    type Control = Nscc;

    fn control(&self, line: Line) -> Nscc {
        Nscc::new(*self, line)
    }
    fn signals(&self) -> Signals {
        Signals { echo: Echo::Acknowledge, ack_interval: Some(1), timeout: Some(self.timeout), ..Signals::default() }
    }
    fn check(&self) -> Result<(), OutOfRange> {
        share("most_decrease", self.most_decrease)
    }
}

/// The window of one queue pair.
#[derive(Clone, Debug)]
pub struct Nscc {
    p: Parameters,
    line: Line,
    pub(super) window: f64,
    /// Smoothed queueing delay in ps.
    delay: f64,
    decreased: Time,
    /// Bytes that arrived, and packets that were trimmed, since the round trip began.
    arrived: u64,
    trimmed: u64,
    pub(super) round_at: Time,
}

impl Nscc {
    /// A window of one and a half bandwidth–delay products, the most there is.
    pub fn new(p: Parameters, line: Line) -> Nscc {
        let window = MOST * line.product().0 as f64;
        Nscc { p, line, window, delay: 0.0, decreased: Time::ZERO, arrived: 0, trimmed: 0, round_at: Time::ZERO }
    }

    fn target(&self) -> f64 {
        self.p.target * self.line.base_rtt.as_ps() as f64
    }

    /// At the end of a round trip in which packets were trimmed, the window is what arrived.
    fn round(&mut self, now: Time) {
        if now < self.round_at {
            return;
        }
        let trimmed = self.trimmed * self.line.mtu.0;
        if trimmed * 4 > self.arrived {
            self.window = self.arrived as f64;
            self.decreased = now;
        }
        (self.arrived, self.trimmed) = (0, 0);
        self.round_at = now + self.line.base_rtt + Span::from_ps(self.target() as u64);
        self.bound();
    }

    fn bound(&mut self) {
        self.window = self.window.clamp(self.line.mtu.0 as f64, MOST * self.line.product().0 as f64);
    }
}

/// The most of the window, in bandwidth–delay products. Basis: published (Ultra Ethernet 1.0: 1.5).
const MOST: f64 = 1.5;
/// Weight of the newest delay. Basis: published (Ultra Ethernet 1.0: 1/8 for the smoothed delay).
const NEWEST: f64 = 0.125;

impl Control for Nscc {
    fn allowance(&self) -> Allowance {
        Allowance::window(window(self.window, self.line.mtu, Bytes(u64::MAX)), self.line.rate)
    }

    fn acknowledged(&mut self, feedback: &Feedback<'_>) {
        let queueing = feedback.rtt.as_ps().saturating_sub(self.line.base_rtt.as_ps()) as f64;
        self.delay = (1.0 - NEWEST) * self.delay + NEWEST * queueing;
        self.arrived += feedback.bytes.0;
        let (target, bytes) = (self.target(), feedback.bytes.0 as f64);
        let share = bytes / self.window.max(1.0);
        match (feedback.marked, queueing >= target) {
            (false, false) => {
                let missing = 1.0 - queueing / target.max(1.0);
                self.window += self.p.proportional * missing * bytes + self.p.fair * self.line.mtu.0 as f64 * share;
            }
            (false, true) => self.window += self.p.fair * self.line.mtu.0 as f64 * share,
            (true, false) => {}
            (true, true) if feedback.now >= self.decreased + self.line.base_rtt && self.delay > target => {
                let excess = self.p.gamma * (self.delay - target) / self.delay;
                self.window *= (1.0 - excess).max(1.0 - self.p.most_decrease);
                self.decreased = feedback.now;
            }
            (true, true) => {}
        }
        self.round(feedback.now);
        self.bound();
    }

    fn lost(&mut self, now: Time, loss: Loss) {
        match loss {
            Loss::Trimmed => {
                self.trimmed += 1;
                self.window = (self.window - self.line.mtu.0 as f64).max(self.line.mtu.0 as f64);
                self.round(now);
            }
            Loss::Gap => {}
            Loss::Timeout => self.window = self.line.mtu.0 as f64,
        }
    }
}
