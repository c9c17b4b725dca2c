//! HPCC: a window set by what every link of the path wrote into the packet.
//!
//! Source: Y. Li et al., "HPCC: high precision congestion control", SIGCOMM 2019, §3, algorithm 1.
//! Modelled: time stamp, bytes sent, queue and rate of each link; reference window once per round trip, stages of additive
//! increase. Not modelled: the bytes that telemetry adds to packets (42 at five hops, 1 % of 4 KiB).

use std::ops::Deref;

use fabriscope_units::{Bytes, Rate, Time, parameters};
use smallvec::SmallVec;

use super::{Allowance, Control, Feedback, Line, Loss, OutOfRange, Scheme, Signals, share, window};

/// What a link writes into a packet as it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LinkState {
    /// When.
    pub at: Time,
    /// Bytes that the link has sent since the start.
    pub sent: u64,
    /// Bytes waiting for it.
    pub queue: Bytes,
    /// Its rate.
    pub rate: Rate,
}

/// The states of the links of a path; a word where links write nothing.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Telemetry(Option<Box<SmallVec<[LinkState; PATH]>>>);

impl Telemetry {
    /// The next link of the path writes its state.
    pub fn push(&mut self, state: LinkState) {
        self.0.get_or_insert_default().push(state);
    }
}

impl Deref for Telemetry {
    type Target = [LinkState];
    #[inline]
    fn deref(&self) -> &[LinkState] {
        self.0.as_ref().map_or(&[], |states| states.as_slice())
    }
}

/// Links of most paths. Basis: a tree of three levels.
const PATH: usize = 6;

parameters! {
    /// HPCC. Parameters are named as in the paper.
    pub struct Parameters as "Hpcc" {
        /// Utilisation to aim for (η).
        pub utilisation: f64,
        /// Stages of additive increase before a multiplicative step (maxStage).
        pub stages: u32,
        /// Flows that share a link at most, for which the additive step is sized (N in W_AI = W (1 − η) / N).
        pub flows: f64,
    }
}

impl Scheme for Parameters {
    type Control = Hpcc;

    fn control(&self, line: Line) -> Hpcc {
        Hpcc::new(*self, line)
    }
    fn signals(&self) -> Signals {
        Signals { ack_interval: Some(1), telemetry: true, ..Signals::default() }
    }
    fn check(&self) -> Result<(), OutOfRange> {
        share("utilisation", self.utilisation)
    }
}

/// The window of one queue pair.
#[derive(Clone, Debug)]
pub struct Hpcc {
    p: Parameters,
    line: Line,
    window: f64,
    /// The reference window W^c.
    reference: f64,
    stage: u32,
    /// Smoothed utilisation U.
    utilisation: f64,
    /// The state of the links at the last acknowledgement.
    last: Vec<LinkState>,
    /// When the reference was renewed: the first acknowledgement of a packet that left after this renews it again.
    renewed: Time,
}

impl Hpcc {
    /// A window of the bandwidth–delay product.
    pub fn new(p: Parameters, line: Line) -> Hpcc {
        let window = line.product().0 as f64;
        Hpcc { p, line, window, reference: window, stage: 0, utilisation: 1.0, last: Vec::new(), renewed: Time::ZERO }
    }

    /// Function MeasureInflight of the paper.
    fn measure(&mut self, links: &[LinkState]) -> bool {
        let base = self.line.base_rtt.as_ps() as f64;
        let (mut most, mut span) = (0.0f64, base);
        let known = self.last.len() == links.len();
        for (now, before) in links.iter().zip(&self.last) {
            let time = (now.at.as_ps().saturating_sub(before.at.as_ps())).max(1) as f64;
            let rate = now.rate.as_bps() as f64 / 8e12;
            let sent = now.sent.saturating_sub(before.sent) as f64 / time;
            let queue = now.queue.min(before.queue).0 as f64;
            let used = queue / (rate * base) + sent / rate;
            if used > most {
                (most, span) = (used, time);
            }
        }
        self.last.clear();
        self.last.extend_from_slice(links);
        if known {
            let share = span.min(base) / base;
            self.utilisation = (1.0 - share) * self.utilisation + share * most;
        }
        known
    }
}

impl Control for Hpcc {
    fn allowance(&self) -> Allowance {
        // The rate follows the window: R = W / T.
        let rate = (self.window * 8e12 / self.line.base_rtt.as_ps().max(1) as f64) as u64;
        let most = self.line.rate.as_bps();
        Allowance::window(window(self.window, self.line.mtu, self.line.product()), Rate::from_bps(rate.clamp(1_000_000, most)))
    }

    fn acknowledged(&mut self, feedback: &Feedback<'_>) {
        if feedback.links.is_empty() || !self.measure(feedback.links) {
            return;
        }
        let product = self.line.product().0 as f64;
        let additive = product * (1.0 - self.p.utilisation) / self.p.flows;
        let renew = feedback.now >= self.renewed + feedback.rtt;
        if self.utilisation >= self.p.utilisation || self.stage >= self.p.stages {
            self.window = self.reference / (self.utilisation / self.p.utilisation).max(1e-3) + additive;
            if renew {
                self.stage = 0;
            }
        } else {
            self.window = self.reference + additive;
            if renew {
                self.stage += 1;
            }
        }
        self.window = self.window.clamp(additive.min(self.line.mtu.0 as f64), product);
        if renew {
            self.reference = self.window;
            self.renewed = feedback.now;
        }
    }

    fn lost(&mut self, _: Time, loss: Loss) {
        if loss == Loss::Timeout {
            self.window = (self.window / 2.0).max(self.line.mtu.0 as f64);
            self.reference = self.window;
        }
    }
}
