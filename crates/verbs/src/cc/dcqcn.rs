//! DCQCN: rates cut by notifications, recovered by timer and byte counter.
//!
//! Source: Y. Zhu et al., "Congestion control for large-scale RDMA deployments", SIGCOMM 2015, §3.
//! Modelled: the reaction point as published: α, target and current rate, fast recovery, additive and hyper increase.
//! Not modelled: the start at a rate below the link's that some firmware offers.

use fabriscope_units::{Bytes, Rate, Span, Time, parameters};

use super::{Allowance, Control, Echo, Line, OutOfRange, Scheme, Signals, share};

parameters! {
    /// DCQCN. Parameters are named as in the paper.
    pub struct Parameters as "Dcqcn" {
        /// Weight of the newest notification in α.
        pub g: f64,
        /// α decays once in this time without a notification (K).
        pub alpha_interval: Span,
        /// The rate grows once in this time (T).
        pub increase_interval: Span,
        /// The rate grows once in so many bytes (B).
        pub increase_bytes: Bytes,
        /// Steps of fast recovery (F).
        pub recovery_steps: u32,
        /// Additive increase of the target.
        pub additive: Rate,
        /// Hyper increase of the target.
        pub hyper: Rate,
        /// The rate never falls below this.
        pub least: Rate,
        /// The shortest time between two notifications of a queue pair.
        pub notification_interval: Span,
    }
}

impl Scheme for Parameters {
    type Control = Dcqcn;

    fn control(&self, line: Line) -> Dcqcn {
        Dcqcn::new(*self, line)
    }
    fn signals(&self) -> Signals {
        Signals { echo: Echo::Notify(self.notification_interval), ..Signals::default() }
    }
    fn check(&self) -> Result<(), OutOfRange> {
        share("g", self.g)
    }
}

/// The reaction point of one queue pair.
#[derive(Clone, Debug)]
pub struct Dcqcn {
    p: Parameters,
    line: Line,
    target: f64,
    current: f64,
    alpha: f64,
    /// Increases by timer and by bytes since the last cut.
    by_time: u32,
    by_bytes: u32,
    bytes: u64,
    alpha_at: Time,
    increase_at: Time,
    /// It was cut at least once: before, timers have nothing to do.
    cut: bool,
}

impl Dcqcn {
    /// At the rate of the link.
    pub fn new(p: Parameters, line: Line) -> Dcqcn {
        let rate = line.rate.as_bps() as f64;
        let never = Time::MAX;
        Dcqcn {
            p,
            line,
            target: rate,
            current: rate,
            alpha: 1.0,
            by_time: 0,
            by_bytes: 0,
            bytes: 0,
            alpha_at: never,
            increase_at: never,
            cut: false,
        }
    }

    fn increase(&mut self) {
        let (least, most) = (self.by_time.min(self.by_bytes), self.by_time.max(self.by_bytes));
        if least > self.p.recovery_steps {
            self.target += self.p.hyper.as_bps() as f64;
        } else if most > self.p.recovery_steps {
            self.target += self.p.additive.as_bps() as f64;
        }
        self.target = self.target.min(self.line.rate.as_bps() as f64);
        self.current = (self.target + self.current) / 2.0;
    }
}

impl Control for Dcqcn {
    fn allowance(&self) -> Allowance {
        Allowance::rate(Rate::from_bps(self.current as u64))
    }

    fn sent(&mut self, _: Time, bytes: Bytes) {
        self.bytes += bytes.0;
        if self.cut && self.bytes >= self.p.increase_bytes.0 {
            self.bytes = 0;
            self.by_bytes += 1;
            self.increase();
        }
    }

    fn notified(&mut self, now: Time) {
        self.cut = true;
        self.target = self.current;
        self.current = (self.current * (1.0 - self.alpha / 2.0)).max(self.p.least.as_bps() as f64);
        self.alpha = (1.0 - self.p.g) * self.alpha + self.p.g;
        (self.by_time, self.by_bytes, self.bytes) = (0, 0, 0);
        self.alpha_at = now + self.p.alpha_interval;
        self.increase_at = now + self.p.increase_interval;
    }

    fn wakes(&self) -> Option<Time> {
        self.cut.then(|| self.alpha_at.min(self.increase_at))
    }

    fn wake(&mut self, now: Time) {
        if now >= self.alpha_at {
            self.alpha *= 1.0 - self.p.g;
            self.alpha_at = now + self.p.alpha_interval;
        }
        if now >= self.increase_at {
            self.by_time += 1;
            self.increase();
            self.increase_at = now + self.p.increase_interval;
        }
        // Back at the rate of the link: nothing is left to recover.
        if self.current >= 0.999 * self.line.rate.as_bps() as f64 {
            (self.current, self.cut) = (self.line.rate.as_bps() as f64, false);
        }
    }
}
