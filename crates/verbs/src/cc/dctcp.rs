//! DCTCP: a window cut in proportion to the share of marked bytes.
//!
//! Source: M. Alizadeh et al., "Data center TCP (DCTCP)", SIGCOMM 2010, §3; RFC 8257.
//! Modelled: α over each window of data, one cut per window, additive growth; begins with a full window, as RDMA does.
//! Not modelled: slow start, delayed acknowledgements, retransmission of TCP.

use fabriscope_units::{Bytes, Time, parameters};

use super::{Allowance, Control, Echo, Feedback, Line, Loss, OutOfRange, Scheme, Signals, share, window};

parameters! {
    /// DCTCP. Parameters are named as in the RFC.
    pub struct Parameters as "Dctcp" {
        /// Weight of the newest window in α.
        pub g: f64,
    }
}

impl Scheme for Parameters {
    type Control = Dctcp;

    fn control(&self, line: Line) -> Dctcp {
        Dctcp::new(*self, line)
    }
    fn signals(&self) -> Signals {
        Signals { echo: Echo::Acknowledge, ack_interval: Some(1), ..Signals::default() }
    }
    fn check(&self) -> Result<(), OutOfRange> {
        share("g", self.g)
    }
}

/// The window of one queue pair.
#[derive(Clone, Debug)]
pub struct Dctcp {
    p: Parameters,
    line: Line,
    window: f64,
    alpha: f64,
    /// Of the window of data being observed.
    bytes: u64,
    marked: u64,
    left: f64,
    /// No second cut for loss before this.
    calm: Time,
}

impl Dctcp {
    /// A window of the bandwidth–delay product.
    pub fn new(p: Parameters, line: Line) -> Dctcp {
        let window = line.product().0 as f64;
        Dctcp { p, line, window, alpha: 1.0, bytes: 0, marked: 0, left: window, calm: Time::ZERO }
    }
}

impl Control for Dctcp {
    fn allowance(&self) -> Allowance {
        Allowance::window(window(self.window, self.line.mtu, Bytes(4 * self.line.product().0)), self.line.rate)
    }

    fn acknowledged(&mut self, feedback: &Feedback<'_>) {
        let bytes = feedback.bytes.0;
        self.bytes += bytes;
        self.marked += if feedback.marked { bytes } else { 0 };
        self.left -= bytes as f64;
        if !feedback.marked {
            self.window += self.line.mtu.0 as f64 * bytes as f64 / self.window;
        }
        if self.left <= 0.0 {
            let share = self.marked as f64 / self.bytes.max(1) as f64;
            self.alpha = (1.0 - self.p.g) * self.alpha + self.p.g * share;
            if self.marked > 0 {
                self.window *= 1.0 - self.alpha / 2.0;
            }
            self.window = self.window.clamp(self.line.mtu.0 as f64, 4.0 * self.line.product().0 as f64);
            (self.bytes, self.marked, self.left) = (0, 0, self.window);
        }
    }

    fn lost(&mut self, now: Time, loss: Loss) {
        if now >= self.calm {
            self.window = if loss == Loss::Timeout { self.line.mtu.0 as f64 } else { self.window / 2.0 };
            self.calm = now + self.line.base_rtt;
        }
    }
}
