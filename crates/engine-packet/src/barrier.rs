//! A meeting point for threads that come often and stay short.
//!
//! Windows of a divided run are a fraction of a millisecond long, hardly more than it takes to wake a sleeping thread: who waits
//! looks again and again, then offers the core to others, and sleeps when the wait is long: where cores are shared, with more
//! threads or with other programs, who looks keeps somebody from coming.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// Threads that wait for each other.
pub(crate) struct Barrier {
    threads: usize,
    looks: u32,
    arrived: AtomicUsize,
    /// Meetings so far.
    meetings: AtomicUsize,
    /// Somebody will never come.
    broken: AtomicBool,
    /// Threads that sleep, or are about to.
    sleepers: AtomicUsize,
    /// Held by who goes to sleep, from its last look until it sleeps.
    lock: Mutex<()>,
    wakes: Condvar,
}

/// Looks before the core is offered to others. Basis: measured (docs/performance.md), some twenty microseconds.
const LOOKS: u32 = 1_000;
/// The same where there are more threads than cores.
const LOOKS_OF_MANY: u32 = 50;
/// Times that the core is offered before the thread sleeps. Basis: measured, some hundred microseconds where nobody takes it.
const OFFERS: u32 = 200;

impl Barrier {
    pub fn new(threads: usize) -> Barrier {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let looks = if threads > cores { LOOKS_OF_MANY } else { LOOKS };
        let [arrived, meetings, sleepers] = [const { AtomicUsize::new(0) }; 3];
        let (lock, wakes) = (Mutex::new(()), Condvar::new());
        Barrier { threads, looks, arrived, meetings, broken: AtomicBool::new(false), sleepers, lock, wakes }
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
            self.meetings.store(meeting.wrapping_add(1), Ordering::SeqCst);
            self.wake();
            return true;
        }
        let mut looks = 0;
        while self.waits_for(meeting) {
            looks += 1;
            if looks < self.looks {
                std::hint::spin_loop();
            } else if looks < self.looks + OFFERS {
                std::thread::yield_now();
            } else {
                self.sleep(meeting);
            }
        }
        !self.broken.load(Ordering::Relaxed)
    }

    /// Whether those of this meeting are still to come, and may be.
    fn waits_for(&self, meeting: usize) -> bool {
        self.meetings.load(Ordering::SeqCst) == meeting && !self.broken.load(Ordering::SeqCst)
    }

    fn sleep(&self, meeting: usize) {
        // Who ends the meeting looks for sleepers behind it, and who sleeps looks for the end behind this: one of them sees the other.
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.wakes.wait_while(held, |()| self.waits_for(meeting)).unwrap_or_else(PoisonError::into_inner));
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    fn wake(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.wakes.notify_all();
        }
    }
}

/// The part of one thread in the meetings.
pub(crate) struct Attendance<'a>(&'a Barrier);

impl Drop for Attendance<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.broken.store(true, Ordering::SeqCst);
            self.0.wake();
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

    /// The other thread sleeps before this one comes, or panics.
    #[test]
    fn sleepers_are_woken() {
        for comes in [true, false] {
            let barrier = Barrier::new(2);
            std::thread::scope(|scope| {
                let sleeper = scope.spawn(|| barrier.wait());
                let other = scope.spawn(|| {
                    let _attendance = barrier.enter();
                    while barrier.sleepers.load(Ordering::SeqCst) == 0 {
                        std::thread::yield_now();
                    }
                    assert!(comes, "on purpose");
                    barrier.wait()
                });
                assert_eq!(sleeper.join().unwrap(), comes);
                assert_eq!(other.join().is_ok_and(|together| together), comes);
            });
        }
    }
}
