//! One connection of one channel: slots that a sender fills and a receiver empties, with flags that take their time.
//!
//! ```text
//! sender ── data, flag ──▶ slots ──▶ receiver
//!        ◀──── credit ────
//! ```
//! Source: NCCL, src/include/device.h (NCCL_STEPS, ncclConnInfo: head and tail).
//! Modelled: when a flag and a credit are seen, slices of several slots.
//! Not modelled: flags that share lines of a cache.

use std::collections::VecDeque;

use fabriscope_machine::Use;
use fabriscope_units::{Bytes, Span, Time};

/// The number of a FIFO of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FifoId(pub(super) u32);

/// Who fills or empties the slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FifoEnd {
    /// A block of a kernel.
    Block,
    /// The proxy thread of this rank.
    Proxy(u32),
}

/// The way of data, flags and credits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FifoPath {
    /// What a byte takes of the node that the sender writes.
    pub uses: Vec<Use>,
    /// What a byte takes that the receiver reads, where the slots are not in its own memory.
    pub takes: Vec<Use>,
    /// Until data and flags are there.
    pub latency: Span,
    /// Until a credit is back.
    pub back: Span,
}

/// Data that waits in slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filled {
    /// When its flag is seen.
    pub seen: Time,
    /// Its length.
    pub bytes: Bytes,
    /// The slots it takes.
    pub slots: u32,
    /// What is in it.
    pub contents: u64,
}

/// Slots between two ends.
#[derive(Debug, Clone)]
pub struct Fifo {
    pub(super) way: FifoPath,
    pub(super) sender: FifoEnd,
    pub(super) receiver: FifoEnd,
    slots: u32,
    filled: VecDeque<Filled>,
    /// Slots that the sender may fill, and from when on.
    free: VecDeque<(Time, u32)>,
}

impl Fifo {
    /// Empty slots.
    #[must_use]
    pub fn new(way: FifoPath, slots: u32, sender: FifoEnd, receiver: FifoEnd) -> Fifo {
        Fifo { way, sender, receiver, slots, filled: VecDeque::new(), free: VecDeque::from([(Time::ZERO, slots)]) }
    }
    /// A slice whose flag leaves at `at`; when it is seen.
    pub fn fill(&mut self, at: Time, bytes: Bytes, slots: u32, contents: u64) -> Time {
        let seen = at + self.way.latency;
        self.filled.push_back(Filled { seen, bytes, slots, contents });
        seen
    }
    /// The oldest slice that was not taken.
    #[must_use]
    pub fn front(&self) -> Option<Filled> {
        self.filled.front().copied()
    }
    /// Takes the oldest slice; its slots stay occupied until [`release`](Self::release).
    pub fn take(&mut self) -> Option<Filled> {
        self.filled.pop_front()
    }
    /// Slots are empty again at `at`; when the sender sees that.
    pub fn release(&mut self, at: Time, slots: u32) -> Time {
        let seen = at + self.way.back;
        self.free.push_back((seen, slots));
        seen
    }
    /// Every slot is empty, or about to be.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.room(self.slots).is_some()
    }
    /// From when on `slots` may be filled, if that is known.
    #[must_use]
    pub fn room(&self, slots: u32) -> Option<Time> {
        let mut wanted = slots;
        if wanted == 0 {
            return Some(Time::ZERO);
        }
        for (at, free) in &self.free {
            if *free >= wanted {
                return Some(*at);
            }
            wanted -= free;
        }
        None
    }
    /// Takes `slots` that are free.
    pub fn occupy(&mut self, slots: u32) {
        let mut wanted = slots;
        while let Some((_, free)) = self.free.front_mut().filter(|_| wanted > 0) {
            let taken = wanted.min(*free);
            (*free, wanted) = (*free - taken, wanted - taken);
            if *free == 0 {
                self.free.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_come_back_after_the_credits_way() {
        let way = FifoPath { latency: Span::from_ns(700), back: Span::from_ns(500), ..FifoPath::default() };
        let mut fifo = Fifo::new(way, 8, FifoEnd::Block, FifoEnd::Proxy(0));
        assert_eq!(fifo.room(8), Some(Time::ZERO));
        for step in 0..4u64 {
            fifo.occupy(2);
            assert_eq!(fifo.fill(Time::from_ps(step), Bytes(10), 2, 0), Time::from_ps(700_000 + step));
        }
        // Every slot is taken: the next slice waits for the first to be emptied.
        assert_eq!((fifo.room(1), fifo.room(0)), (None, Some(Time::ZERO)));
        assert_eq!(fifo.take().map(|filled| filled.seen), Some(Time::from_ps(700_000)));
        assert_eq!(fifo.release(Time::from_ps(1_000_000), 2), Time::from_ps(1_500_000));
        assert_eq!((fifo.room(2), fifo.room(3)), (Some(Time::from_ps(1_500_000)), None));
        assert_eq!(fifo.front().map(|filled| filled.seen), Some(Time::from_ps(700_001)));
    }
}
