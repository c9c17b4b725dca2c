//! A meeting point for threads that come often and stay short.
//!
//! Windows of a divided run are a fraction of a millisecond long, less than it takes to wake a sleeping thread: who waits
//! looks again and again, and leaves the core to others only when the wait is long.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Threads that wait for each other.
pub(crate) struct Barrier {
    threads: usize,
    looks: u32,
    arrived: AtomicUsize,
    /// Meetings so far.
    meetings: AtomicUsize,
    /// Somebody will never come.
    broken: AtomicBool,
}

/// Looks before the core is offered to others. Basis: measured, some ten microseconds.
const LOOKS: u32 = 20_000;
/// The same where there are more threads than cores: who waits keeps somebody from coming.
const LOOKS_OF_MANY: u32 = 50;

impl Barrier {
    pub fn new(threads: usize) -> Barrier {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let looks = if threads > cores { LOOKS_OF_MANY } else { LOOKS };
        Barrier { threads, looks, arrived: AtomicUsize::new(0), meetings: AtomicUsize::new(0), broken: AtomicBool::new(false) }
    }

    /// To be held by a thread that takes part: where it panics, nobody waits for it.
    pub fn enter(&self) -> Attendance<'_> {
        Attendance(self)
    }

    /// Waits for all others; false when one of them will never come. What they wrote before is seen afterwards.
    #[must_use]
    pub fn wait(&self) -> bool {
        let meeting = self.meetings.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.arrived.store(0, Ordering::Relaxed);
            self.meetings.store(meeting.wrapping_add(1), Ordering::Release);
            return true;
        }
        let mut looks = 0;
        while self.meetings.load(Ordering::Acquire) == meeting {
            if self.broken.load(Ordering::Relaxed) {
                return false;
            }
            looks += 1;
            if looks < self.looks {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        true
    }
}

/// The part of one thread in the meetings.
pub(crate) struct Attendance<'a>(&'a Barrier);

impl Drop for Attendance<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.broken.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_runs_ahead() {
        let (barrier, steps) = (Barrier::new(3), [const { AtomicUsize::new(0) }; 3]);
        std::thread::scope(|scope| {
            for me in 0..3 {
                let (barrier, steps) = (&barrier, &steps);
                scope.spawn(move || {
                    for step in 1..=200 {
                        steps[me].store(step, Ordering::Relaxed);
                        assert!(barrier.wait());
                        assert!(steps.iter().all(|other| other.load(Ordering::Relaxed) == step));
                        assert!(barrier.wait());
                    }
                });
            }
        });
    }
}
