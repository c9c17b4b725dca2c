//! Events too far ahead for the ring: a heap ordered by (time, insertion).

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A heap of far events that remembers the order of insertion among equal times.
#[derive(Debug, Clone)]
pub(crate) struct Overflow<E> {
    heap: BinaryHeap<Far<E>>,
    inserted: u64,
    /// Time of the earliest event in ps; `u64::MAX` while empty, which is never too early.
    earliest: u64,
}

#[derive(Debug, Clone, Copy)]
struct Far<E> {
    ps: u64,
    sequence: u64,
    event: E,
}

impl<E: Copy> Overflow<E> {
    pub(crate) fn new() -> Overflow<E> {
        Overflow { heap: BinaryHeap::new(), inserted: 0, earliest: u64::MAX }
    }
    pub(crate) fn push(&mut self, ps: u64, event: E) {
        self.heap.push(Far { ps, sequence: self.inserted, event });
        self.inserted += 1;
        self.earliest = self.earliest.min(ps);
    }
    /// Time of the earliest event in ps.
    pub(crate) fn peek(&self) -> Option<u64> {
        self.heap.peek().map(|far| far.ps)
    }
    /// A lower bound on the time of every event here, in ps; one load.
    #[inline]
    pub(crate) fn earliest(&self) -> u64 {
        self.earliest
    }
    pub(crate) fn pop(&mut self) -> Option<(u64, E)> {
        let far = self.heap.pop()?;
        self.earliest = self.peek().unwrap_or(u64::MAX);
        Some((far.ps, far.event))
    }
}

impl<E> PartialEq for Far<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl<E> Eq for Far<E> {}
impl<E> PartialOrd for Far<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<E> Ord for Far<E> {
    /// Reversed, so that the standard max-heap yields the earliest event.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.ps, other.sequence).cmp(&(self.ps, self.sequence))
    }
}
