//! How many bytes may be in flight: one file per algorithm.

mod cubic;
mod dctcp;
mod new_reno;
mod tahoe;

use std::fmt::Debug;

use fabriscope_units::{Span, Time};

pub use cubic::Cubic;
pub use dctcp::Dctcp;
pub use new_reno::NewReno;
pub use tahoe::Tahoe;

use crate::config::{Algorithm, Config};

/// What an acknowledgement of new data says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Acked {
    /// When it came.
    pub now: Time,
    /// Bytes that it acknowledged first.
    pub bytes: u64,
    /// Bytes still in flight.
    pub in_flight: u64,
    /// The window was what held the sender back.
    pub limited: bool,
    /// The smoothed round trip.
    pub rtt: Option<Span>,
    /// The receiver saw marks.
    pub marked: bool,
}

/// A congestion control.
pub trait Control: Debug + Send {
    /// Bytes that may be in flight.
    fn window(&self) -> u64;
    /// Below this the window grows exponentially.
    fn threshold(&self) -> u64;
    /// New data was acknowledged outside of loss recovery.
    fn acked(&mut self, acked: &Acked);
    /// Segments were lost and the acknowledgements go on: once per recovery.
    fn lost(&mut self, now: Time, in_flight: u64);
    /// Whether after a loss everything behind it counts as lost and goes again.
    fn goes_back(&self) -> bool {
        false
    }
    /// Nothing came back in time.
    fn timed_out(&mut self, now: Time, in_flight: u64);
    /// The receiver saw a mark: once per window.
    fn marked(&mut self, now: Time, in_flight: u64);
}

/// The control that `config` names.
#[must_use]
pub fn control(config: &Config) -> Box<dyn Control> {
    let window = Window::new(config);
    match config.algorithm {
        Algorithm::NewReno => Box::new(NewReno::new(window)),
        Algorithm::Cubic => Box::new(Cubic::new(window)),
        Algorithm::Tahoe => Box::new(Tahoe::new(window)),
        Algorithm::Dctcp => Box::new(Dctcp::new(window)),
    }
}

/// What the algorithms have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// A full segment.
    pub mss: u64,
    /// The congestion window.
    pub bytes: f64,
    /// Where slow start ends.
    pub threshold: f64,
}

impl Window {
    /// The initial window of RFC 6928; slow start until the first loss.
    #[must_use]
    pub fn new(config: &Config) -> Window {
        let mss = u64::from(config.mss);
        Window { mss, bytes: (u64::from(config.initial_window.max(1)) * mss) as f64, threshold: f64::INFINITY }
    }
    /// Whether slow start is on.
    #[must_use]
    pub fn slow(&self) -> bool {
        self.bytes < self.threshold
    }
    /// Slow start: the window grows by what was acknowledged, up to the threshold; returns what is left (RFC 5681 §3.1; bytes are
    /// counted without the limit of one segment per acknowledgement, since one stands for many where adapters merge segments).
    pub fn start(&mut self, bytes: u64) -> f64 {
        let room = (self.threshold - self.bytes).max(0.0);
        let taken = (bytes as f64).min(room);
        self.bytes += taken;
        bytes as f64 - taken
    }
    /// Sets threshold and window to `factor` of what is in flight, at least two segments (RFC 5681, equation 4).
    pub fn cut(&mut self, of: f64, factor: f64) {
        self.threshold = (of * factor).max((2 * self.mss) as f64);
        self.bytes = self.threshold;
    }
    /// One segment (RFC 5681 §3.1: the loss window).
    pub fn restart(&mut self) {
        self.bytes = self.mss as f64;
    }
    /// The window in whole bytes, at least one segment.
    #[must_use]
    pub fn whole(&self) -> u64 {
        (self.bytes as u64).max(self.mss)
    }
    /// The threshold in whole bytes.
    #[must_use]
    pub fn whole_threshold(&self) -> u64 {
        if self.threshold.is_finite() { self.threshold as u64 } else { u64::MAX }
    }
}
