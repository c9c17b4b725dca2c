//! What the operating system takes of a core: interruptions at random times.
//!
//! ```text
//! works    ──────▓▓▓──────▓▓──▶     each lengthens what the core does
//! spins    ──▓▓▓─────────▓▓┊──▶     only one that lasts when the message comes is felt
//! ```
//! Source: F. Petrini, D. Kerbyson, S. Pakin, "The Case of the Missing Supercomputer Performance", SC 2003; T. Hoefler, T. Schneider,
//! A. Lumsdaine, "Characterizing the Influence of System Noise on Large-Scale Applications by Simulation", SC 2010.
//! Modelled: for each core, times from the end of an interruption to the next that are distributed exponentially, and lengths that are; each
//! core by itself, with the run's seed.
//! Not modelled: fixed periods, interruptions of all cores of a node at once, daemons that wake up after messages, frequency that changes.

use fabriscope_streams::{Stream, Streams};
use fabriscope_units::{Span, Time};

/// The interruptions of a core, and what of them has been.
#[derive(Debug, Clone)]
pub struct Noise {
    every: Span,
    lasts: Span,
    stream: Stream,
    /// The next one begins then.
    next: Time,
}

impl Noise {
    /// Those of the core of process `rank`: on average one of length `lasts` after each `every`.
    #[must_use]
    pub fn new((every, lasts): (Span, Span), streams: Streams, rank: u32) -> Noise {
        let mut stream = streams.stream("interruptions of cores", rank.into());
        let next = Time::ZERO + every.scaled(stream.exponential());
        Noise { every, lasts, stream, next }
    }

    /// When work ends that would take the core until `end`: every interruption that begins before comes on top.
    pub(crate) fn working(&mut self, mut end: Time) -> Time {
        while self.next < end {
            let taken = self.take().since(self.next);
            end += taken;
            self.go_on(taken);
        }
        end
    }
    /// When a core that spins sees what is there at `at`.
    pub(crate) fn spinning(&mut self, at: Time) -> Time {
        let mut seen = at;
        while self.next <= at {
            let over = self.take();
            seen = seen.max(over);
            self.go_on(over.since(self.next));
        }
        seen
    }

    /// The end of the next interruption.
    fn take(&mut self) -> Time {
        self.next + self.lasts.scaled(self.stream.exponential())
    }
    fn go_on(&mut self, taken: Span) {
        self.next = self.next + taken + self.every.scaled(self.stream.exponential());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_the_mean_and_the_shape_of_the_distribution() {
        let mut stream = Streams::new(1).stream("test", 0);
        let mean = Span::from_us(10);
        let drawn: Vec<f64> = (0..100_000).map(|_| mean.scaled(stream.exponential()).as_us_f64()).collect();
        let share = |above: f64| drawn.iter().filter(|span| **span > above).count() as f64 / drawn.len() as f64;
        assert!((drawn.iter().sum::<f64>() / drawn.len() as f64 - 10.0).abs() < 0.15);
        // e^-1, e^-2, e^-4 of them are longer than one, two, four times the mean.
        for (times, expected) in [(1.0, 0.367_88), (2.0, 0.135_34), (4.0, 0.018_32)] {
            assert!((share(10.0 * times) - expected).abs() < 0.006, "{times}: {}", share(10.0 * times));
        }
    }

    #[test]
    fn a_core_that_works_loses_all_and_one_that_spins_little() {
        let new = || Noise::new((Span::from_us(1000), Span::from_us(10)), Streams::new(1), 3);
        let second = Time::ZERO + Span::from_us(1_000_000);
        // A thousand interruptions of 10 us in a second.
        let lost = new().working(second).since(second).as_us_f64();
        assert!((9_000.0..11_000.0).contains(&lost), "{lost}");
        // What comes every 100 us is late in one of a hundred cases, by 10 us on average.
        let mut noise = new();
        let late: f64 =
            (1..=10_000).map(|at| Time::ZERO + Span::from_us(at * 100)).map(|at| noise.spinning(at).since(at).as_us_f64()).sum();
        assert!((600.0..1_400.0).contains(&late), "{late}");
    }
}
