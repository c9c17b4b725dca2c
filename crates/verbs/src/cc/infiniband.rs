//! InfiniBand congestion control: an index into a table of delays between packets.
//!
//! Source: InfiniBand Architecture Specification vol. 1, annex A10 (congestion control); E. Gran et al., "First experiences with
//! congestion control in InfiniBand hardware", IPDPS 2010 (parameters that work).
//! Modelled: FECN by switches, BECN in the next acknowledgement, in a CNP for unreliable connections, CCTI increase, limit and timer, a linear table.
//! Not modelled: tables by service level, victim masks, congestion control of whole ports.

use fabriscope_units::{Rate, Span, Time, parameters};

use super::{Allowance, Control, Echo, Feedback, Line, OutOfRange, Scheme, Signals, share};

parameters! {
    /// InfiniBand congestion control. Parameters are named as in annex A10.
    pub struct Parameters as "InfiniBandCc" {
        /// Added to the index by a notification (CCTI_Increase).
        pub increase: u32,
        /// The highest index (CCTI_Limit).
        pub limit: u32,
        /// Taken from the index once in this time (CCTI_Timer).
        pub timer: Span,
        /// Entry i of the table delays the next packet by i times this many packets of its own length.
        pub step: f64,
        /// The shortest time between two notifications of a queue pair that has no acknowledgements to carry them.
        pub notification_interval: Span,
    }
}

impl Scheme for Parameters {
    type Control = InfiniBandCc;

    fn control(&self, line: Line) -> InfiniBandCc {
        InfiniBandCc::new(*self, line)
    }
    fn signals(&self) -> Signals {
        Signals { echo: Echo::AcknowledgeOrNotify(self.notification_interval), ..Signals::default() }
    }
    fn check(&self) -> Result<(), OutOfRange> {
        share("step", self.step)
    }
}

/// The index of one queue pair.
#[derive(Clone, Debug)]
pub struct InfiniBandCc {
    p: Parameters,
    line: Line,
    index: u32,
    timer_at: Time,
}

impl InfiniBandCc {
    /// Without delay.
    pub fn new(p: Parameters, line: Line) -> InfiniBandCc {
        InfiniBandCc { p, line, index: 0, timer_at: Time::MAX }
    }
}

impl Control for InfiniBandCc {
    fn allowance(&self) -> Allowance {
        let slowed = 1.0 + f64::from(self.index) * self.p.step;
        Allowance::rate(Rate::from_bps((self.line.rate.as_bps() as f64 / slowed) as u64))
    }

    /// BECN in an acknowledgement.
    fn acknowledged(&mut self, feedback: &Feedback<'_>) {
        if feedback.marked {
            self.notified(feedback.now);
        }
    }

    fn notified(&mut self, now: Time) {
        if self.index == 0 {
            self.timer_at = now + self.p.timer;
        }
        self.index = (self.index + self.p.increase).min(self.p.limit);
    }

    fn wakes(&self) -> Option<Time> {
        (self.index > 0).then_some(self.timer_at)
    }

    fn wake(&mut self, now: Time) {
        if now >= self.timer_at {
            self.index = self.index.saturating_sub(1);
            self.timer_at = now + self.p.timer;
        }
    }
}
