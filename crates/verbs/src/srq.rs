//! Receive queues, a queue pair's own and shared ones.
//!
//! Source: IBA vol. 1 §10.8.2, §10.2.9 (shared receive queues); man pages ibv_post_recv(3), ibv_post_srq_recv(3).
//! Modelled: depth, order, slots freed when the completion is polled, the limit event of shared queues.
//! Not modelled: fetching of receive WQEs from host memory (the engine times it), tag matching.

use std::collections::VecDeque;

use crate::error::PostError;
use crate::ids::{CqId, PdId, WqeIndex, XrcdId};
use crate::wr::{RecvWr, SgeList};

/// A posted receive.
#[derive(Clone, Debug)]
pub(crate) struct RecvWqe {
    pub(crate) wr_id: u64,
    pub(crate) sge: SgeList,
    pub(crate) index: WqeIndex,
}

/// Receives that were posted one after the other and are alike: libraries keep thousands of these.
struct Alike {
    first: RecvWqe,
    count: u32,
}

impl RecvWqe {
    fn copy(&self) -> RecvWqe {
        RecvWqe { wr_id: self.wr_id, sge: copy(&self.sge), index: self.index }
    }
}

impl Alike {
    /// The index after the last one.
    fn end(&self) -> WqeIndex {
        WqeIndex(self.first.index.0 + u64::from(self.count))
    }
}

/// The same list; most have one entry.
#[inline]
fn copy(list: &SgeList) -> SgeList {
    match list[..] {
        [only] => SgeList::from_buf([only]),
        _ => list.clone(),
    }
}

/// A queue of receives.
pub(crate) struct RecvQueue {
    posted: VecDeque<Alike>,
    /// How many these are.
    len: usize,
    next: u64,
    /// Slots taken: posted, in use, or complete and not polled.
    taken: u32,
    depth: u32,
    max_sge: u32,
    /// Taken where nothing is posted, again and again.
    supply: Option<Box<RecvWr>>,
}

impl RecvQueue {
    pub(crate) fn new(depth: u32, max_sge: u32) -> RecvQueue {
        RecvQueue { posted: VecDeque::new(), len: 0, next: 0, taken: 0, depth, max_sge, supply: None }
    }

    /// From now on there is always a receive like this one.
    pub(crate) fn supply(&mut self, wr: &RecvWr) {
        self.supply = Some(Box::new(wr.clone()));
    }

    /// What is posted is all there is.
    pub(crate) fn end_supply(&mut self) {
        self.supply = None;
    }

    pub(crate) fn post(&mut self, wr: &RecvWr) -> Result<(), PostError> {
        // Saturated: more than 32 bits hold is more than any queue takes.
        let sges = u32::try_from(wr.sge.len()).unwrap_or(u32::MAX);
        if sges > self.max_sge {
            return Err(PostError::TooManySges { sges, max: self.max_sge });
        }
        if self.taken >= self.depth {
            return Err(PostError::QueueFull { depth: self.depth });
        }
        let index = WqeIndex(self.next);
        match self.posted.back_mut() {
            Some(last) if last.first.wr_id == wr.wr_id && last.end() == index && last.first.sge == wr.sge => last.count += 1,
            _ => self.posted.push_back(Alike { first: RecvWqe { wr_id: wr.wr_id, sge: wr.sge.clone(), index }, count: 1 }),
        }
        self.len += 1;
        self.next += 1;
        self.taken += 1;
        Ok(())
    }

    #[inline]
    pub(crate) fn take(&mut self) -> Option<RecvWqe> {
        let Some(alike) = self.posted.front_mut() else { return self.supplied() };
        self.len -= 1;
        if alike.count == 1 {
            return self.posted.pop_front().map(|alike| alike.first);
        }
        let wqe = alike.first.copy();
        alike.count -= 1;
        alike.first.index.0 += 1;
        Some(wqe)
    }

    #[cold]
    fn supplied(&mut self) -> Option<RecvWqe> {
        let RecvWr { wr_id, sge } = self.supply.as_deref()?;
        let wqe = RecvWqe { wr_id: *wr_id, sge: copy(sge), index: WqeIndex(self.next) };
        self.next += 1;
        self.taken += 1;
        Some(wqe)
    }

    /// The receive was not used after all.
    pub(crate) fn put_back(&mut self, wqe: RecvWqe) {
        self.len += 1;
        self.posted.push_front(Alike { first: wqe, count: 1 });
    }

    /// The completion of one receive was polled.
    #[inline]
    pub(crate) fn free_one(&mut self) {
        self.taken = self.taken.saturating_sub(1);
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Forgets everything, as a queue pair in RESET does.
    pub(crate) fn reset(&mut self) {
        *self = RecvQueue::new(self.depth, self.max_sge);
    }
}

/// A shared receive queue.
pub(crate) struct Srq {
    pub(crate) queue: RecvQueue,
    pub(crate) pd: PdId,
    /// Queue pairs that use it.
    pub(crate) users: u32,
    /// Of an XRC domain: which one, and where its receives complete.
    pub(crate) xrc: Option<(XrcdId, CqId)>,
    /// An event is due when fewer receives are posted; 0 when disarmed.
    pub(crate) limit: u32,
}

impl Srq {
    /// Takes a receive; true when the limit event is due.
    #[inline]
    pub(crate) fn take(&mut self) -> (Option<RecvWqe>, bool) {
        let wqe = self.queue.take();
        let due = self.limit > 0 && self.queue.len() < self.limit as usize;
        if due {
            self.limit = 0;
        }
        (wqe, due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wr::Sge;

    #[test]
    fn a_slot_is_free_again_only_after_its_completion_was_polled() {
        let mut queue = RecvQueue::new(2, 1);
        let wr = RecvWr::new(7, Sge::default());
        queue.post(&wr).unwrap();
        queue.post(&wr).unwrap();
        assert_eq!(queue.post(&wr), Err(PostError::QueueFull { depth: 2 }));
        assert_eq!(queue.take().unwrap().index, WqeIndex(0));
        assert!(queue.post(&wr).is_err());
        queue.free_one();
        queue.post(&wr).unwrap();
        let two = RecvWr { wr_id: 1, sge: [Sge::default(); 2].into_iter().collect() };
        assert_eq!(queue.post(&two), Err(PostError::TooManySges { sges: 2, max: 1 }));
    }

    /// Receives that are alike are one entry; they come out in the order of posting, with their own numbers.
    #[test]
    fn thousands_that_are_alike_take_the_room_of_one() {
        let mut queue = RecvQueue::new(1 << 20, 1);
        let (one, other) = (RecvWr::new(7, Sge::default()), RecvWr::new(8, Sge::default()));
        (0..5000).for_each(|_| queue.post(&one).unwrap());
        assert_eq!((queue.posted.len(), queue.len()), (1, 5000));
        queue.post(&other).unwrap();
        queue.post(&one).unwrap();
        assert_eq!((queue.posted.len(), queue.len()), (3, 5002));
        let first = queue.take().unwrap();
        assert_eq!(first.index, WqeIndex(0));
        queue.put_back(first);
        let taken: Vec<(u64, u64)> = std::iter::from_fn(|| queue.take()).map(|wqe| (wqe.wr_id, wqe.index.0)).collect();
        let wanted: Vec<(u64, u64)> = (0..5002).map(|index| (if index == 5000 { 8 } else { 7 }, index)).collect();
        assert_eq!(taken, wanted);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn the_limit_event_is_raised_once() {
        let mut srq = Srq { queue: RecvQueue::new(8, 1), pd: PdId(0), users: 0, xrc: None, limit: 2 };
        for id in 0..4 {
            srq.queue.post(&RecvWr::new(id, Sge::default())).unwrap();
        }
        let events: Vec<bool> = (0..4).map(|_| srq.take().1).collect();
        assert_eq!(events, [false, false, true, false]);
    }
}
