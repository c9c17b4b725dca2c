//! Workers of a server: who is next, and when.
//!
//! Modelled: one queue for all workers, first come, first served; a worker that slept has to be woken.
//! Not modelled: priorities, work that is stolen, workers that share cores.

use fabriscope_units::{Span, Time};

/// The workers of a server.
#[derive(Debug, Clone, Default)]
pub struct Pool {
    /// When each is done with all that it was given.
    free: Vec<Time>,
    handoff: Span,
}

/// When a piece of work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// When a worker was there for it.
    pub free: Time,
    /// When it began.
    pub begun: Time,
    /// When it was done.
    pub done: Time,
}

impl Pool {
    /// So many workers, all asleep; waking one takes `handoff`.
    #[must_use]
    pub fn new(workers: u32, handoff: Span) -> Pool {
        Pool { free: vec![Time::ZERO; workers.max(1) as usize], handoff }
    }
    /// Hands over work of `span` at `now`; calls come in the order of time.
    pub fn take(&mut self, now: Time, span: Span) -> Turn {
        let at = (0..self.free.len()).min_by_key(|at| self.free[*at]).unwrap_or(0);
        let free = self.free[at].max(now);
        let begun = if self.free[at] > now { free } else { free + self.handoff };
        let done = begun + span;
        self.free[at] = done;
        Turn { free, begun, done }
    }
}

#[cfg(test)]
mod tests {
    use fabriscope_streams::Streams;

    use super::*;

    #[test]
    fn two_workers_share_a_queue() {
        let t = |us| Time::ZERO + Span::from_us(us);
        let mut pool = Pool::new(2, Span::from_us(1));
        let turn = |free, begun, done| Turn { free: t(free), begun: t(begun), done: t(done) };
        assert_eq!(pool.take(t(0), Span::from_us(10)), turn(0, 1, 11));
        assert_eq!(pool.take(t(2), Span::from_us(20)), turn(2, 3, 23));
        // Both work: the third waits for the first to be done, and nobody has to be woken.
        assert_eq!(pool.take(t(4), Span::from_us(5)), turn(11, 11, 16));
        assert_eq!(pool.take(t(30), Span::from_us(5)), turn(30, 31, 36));
    }

    /// Mean wait of M/M/c: `C(c, a) / (c mu - lambda)` with Erlang's C; of M/D/1: `rho / (2 mu (1 - rho))` (Pollaczek and Khinchine).
    #[test]
    fn waits_are_those_of_the_formulas() {
        let erlang_c = |c: u32, a: f64| {
            // Erlang's B by its recursion, then C = B / (1 - rho (1 - B)).
            let b = (1..=c).fold(1.0, |b, k| a * b / (f64::from(k) + a * b));
            b / (1.0 - a / f64::from(c) * (1.0 - b))
        };
        let service = Span::from_us(10);
        let mean_wait = |c: u32, rho: f64, exponential: bool| {
            let streams = Streams::new(5);
            let (mut gaps, mut spans) = (streams.stream("gaps", 0), streams.stream("spans", 0));
            let gap = Span::from_ps((service.as_ps() as f64 / f64::from(c) / rho) as u64);
            let (mut pool, mut now, mut waited) = (Pool::new(c, Span::ZERO), Time::ZERO, 0.0);
            for _ in 0..400_000 {
                now += gap.scaled(gaps.exponential());
                let work = if exponential { service.scaled(spans.exponential()) } else { service };
                waited += pool.take(now, work).begun.since(now).as_us_f64();
            }
            waited / 400_000.0
        };
        for (c, rho) in [(1, 0.5), (1, 0.8), (4, 0.7), (16, 0.9)] {
            let expected = erlang_c(c, rho * f64::from(c)) * 10.0 / f64::from(c) / (1.0 - rho);
            let found = mean_wait(c, rho, true);
            assert!((found / expected - 1.0).abs() < 0.05, "M/M/{c} at {rho}: {found} us against {expected} us");
        }
        for rho in [0.5, 0.9] {
            let (found, expected) = (mean_wait(1, rho, false), rho * 10.0 / 2.0 / (1.0 - rho));
            assert!((found / expected - 1.0).abs() < 0.05, "M/D/1 at {rho}: {found} us against {expected} us");
        }
    }
}
