//! The retransmission timeout.
//!
//! Source: RFC 6298 §2 and §5.5; the lower bound is the caller's (the RFC says 1 s, Linux 200 ms).

use fabriscope_units::Span;

/// Smoothed round trip, its variation, and the timeout that follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rtt {
    smoothed: Option<Span>,
    variation: Span,
    rto: Span,
    least: Span,
    backoff: u32,
}

impl Rtt {
    /// Before the first measurement.
    #[must_use]
    pub fn new(least: Span) -> Rtt {
        Rtt { smoothed: None, variation: Span::ZERO, rto: FIRST.max(least), least, backoff: 0 }
    }
    /// Takes a round trip of a segment that was sent once (Karn's rule is the caller's).
    pub fn measured(&mut self, rtt: Span) {
        match self.smoothed {
            // §2.2
            None => {
                self.smoothed = Some(rtt);
                self.variation = rtt / 2;
            }
            // §2.3: RTTVAR ← 3/4 RTTVAR + 1/4 |SRTT − R'|, SRTT ← 7/8 SRTT + 1/8 R'
            Some(smoothed) => {
                let apart = if smoothed > rtt { smoothed - rtt } else { rtt - smoothed };
                self.variation = (self.variation * 3 + apart) / 4;
                self.smoothed = Some((smoothed * 7 + rtt) / 8);
            }
        }
        let smoothed = self.smoothed.unwrap_or(rtt);
        self.rto = (smoothed + (self.variation * 4).max(GRANULARITY)).max(self.least).min(MOST);
        self.backoff = 0;
    }
    /// A handshake before the clock counts was answered faster than the shortest timeout.
    pub fn answered(&mut self) {
        self.rto = self.least;
    }
    /// The smoothed round trip.
    #[must_use]
    pub fn smoothed(&self) -> Option<Span> {
        self.smoothed
    }
    /// The timeout now.
    #[must_use]
    pub fn timeout(&self) -> Span {
        let doubled = self.rto.as_ps().saturating_mul(1 << self.backoff.min(40));
        Span::from_ps(doubled).min(MOST)
    }
    /// A timeout came: the next one waits twice as long (§5.5).
    pub fn back_off(&mut self) {
        self.backoff += 1;
    }
    /// The peer answered: no more doubling.
    pub fn forward(&mut self) {
        self.backoff = 0;
    }
}

/// Before the first measurement. Basis: standard, RFC 6298 §2.1.
const FIRST: Span = Span::from_us(1_000_000);
/// The clock. Basis: measured, Linux counts microseconds.
const GRANULARITY: Span = Span::from_us(1);
/// The longest timeout. Basis: standard, RFC 6298 §2.5 (at least 60 s); Linux has 120 s.
const MOST: Span = Span::from_us(120_000_000);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formulas_of_rfc_6298() {
        let mut rtt = Rtt::new(Span::ZERO);
        assert_eq!(rtt.timeout(), Span::from_us(1_000_000));
        rtt.measured(Span::from_us(100));
        // RTO = 100 + 4 · 50
        assert_eq!(rtt.timeout(), Span::from_us(300));
        rtt.measured(Span::from_us(180));
        // RTTVAR = 3/4 · 50 + 1/4 · 80 = 57.5, SRTT = 7/8 · 100 + 1/8 · 180 = 110, RTO = 110 + 230
        assert_eq!((rtt.smoothed(), rtt.timeout()), (Some(Span::from_us(110)), Span::from_us(340)));
        rtt.back_off();
        rtt.back_off();
        assert_eq!(rtt.timeout(), Span::from_us(4 * 340));
        for _ in 0..40 {
            rtt.back_off();
        }
        assert_eq!(rtt.timeout(), MOST);
        rtt.forward();
        assert_eq!(rtt.timeout(), Span::from_us(340));
        let mut slow = Rtt::new(Span::from_us(200_000));
        slow.measured(Span::from_us(10));
        assert_eq!(slow.timeout(), Span::from_us(200_000));
    }
}
