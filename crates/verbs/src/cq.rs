//! Completion queues.
//!
//! Source: IBA vol. 1 §10.8, §11.4.2; man pages ibv_poll_cq(3), ibv_req_notify_cq(3).
//! Modelled: depth, overflow, the time each entry becomes visible, notification.
//! Not modelled: resizing, interrupt moderation.

use std::collections::VecDeque;

use fabriscope_units::Time;

use crate::ids::QpNum;
use crate::wc::{Wc, WcStatus};
use crate::words::{ArrivedWords, WordsId};

/// A completion queue.
pub(crate) struct Cq {
    /// In the order of delivery; times never fall.
    entries: VecDeque<(Time, Wc)>,
    depth: u32,
    /// Queue pairs that use it.
    pub(crate) users: u32,
    overflowed: bool,
    notify: Notify,
    /// When the events that were raised and not yet taken can be seen.
    raised: VecDeque<Time>,
    /// What was said with the completions that were polled last.
    read: Vec<WordsId>,
}

/// Which delivery raises an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Notify {
    No,
    Solicited,
    Next,
}

/// What a delivery did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Delivery {
    Stored,
    StoredWithEvent,
    /// The queue was full: the entry is lost and the queue is in error from now on.
    Overflow,
    /// The queue was in error already.
    Lost,
}

impl Cq {
    pub(crate) fn new(depth: u32) -> Cq {
        Cq { entries: VecDeque::new(), depth, users: 0, overflowed: false, notify: Notify::No, raised: VecDeque::new(), read: Vec::new() }
    }

    pub(crate) fn deliver(&mut self, visible: Time, wc: Wc) -> Delivery {
        if self.overflowed {
            return Delivery::Lost;
        }
        if self.entries.len() >= self.depth as usize {
            self.overflowed = true;
            return Delivery::Overflow;
        }
        // Entries are written in order: one cannot be seen before its predecessor.
        let visible = self.entries.back().map_or(visible, |before| visible.max(before.0));
        self.entries.push_back((visible, wc));
        let raises = match self.notify {
            Notify::No => false,
            Notify::Solicited => wc.status != WcStatus::Success || (wc.opcode.is_recv() && wc.solicited),
            Notify::Next => true,
        };
        if raises {
            self.notify = Notify::No;
            self.raised.push_back(visible);
            return Delivery::StoredWithEvent;
        }
        Delivery::Stored
    }

    pub(crate) fn request_notification(&mut self, solicited_only: bool) {
        if !solicited_only {
            self.notify = Notify::Next;
        } else if self.notify == Notify::No {
            self.notify = Notify::Solicited;
        }
    }

    #[inline]
    pub(crate) fn poll(&mut self, now: Time) -> Option<Wc> {
        if self.entries.front()?.0 > now {
            return None;
        }
        let (_, wc) = self.entries.pop_front()?;
        if !wc.words.is_none() {
            self.read.push(wc.words);
        }
        Some(wc)
    }

    /// The program polls again: what was said with the completions before is forgotten.
    #[inline]
    pub(crate) fn forget_read(&mut self, words: &mut ArrivedWords) {
        for id in self.read.drain(..) {
            words.take(id);
        }
    }

    /// Removes the entries of a queue pair; returns how many were receives, and adds what was `said` with them.
    pub(crate) fn purge(&mut self, qp: QpNum, said: &mut Vec<WordsId>) -> usize {
        said.extend(self.entries.iter().filter(|(_, wc)| wc.qp_num == qp).map(|(_, wc)| wc.words));
        let receives = self.entries.iter().filter(|(_, wc)| wc.qp_num == qp && wc.opcode.is_recv()).count();
        self.entries.retain(|(_, wc)| wc.qp_num != qp);
        receives
    }

    pub(crate) fn next_visible(&self) -> Option<Time> {
        self.entries.front().map(|(visible, _)| *visible)
    }

    /// When the first event can be seen.
    pub(crate) fn next_event(&self) -> Option<Time> {
        self.raised.front().copied()
    }

    /// Takes the first event, if it can be seen by `now`.
    pub(crate) fn take_event(&mut self, now: Time) -> bool {
        let there = self.next_event().is_some_and(|visible| visible <= now);
        if there {
            self.raised.pop_front();
        }
        there
    }

    pub(crate) fn overflowed(&self) -> bool {
        self.overflowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::WqeIndex;
    use crate::wc::WcOpcode;

    fn wc(wr_id: u64) -> Wc {
        Wc::of(QpNum(2), wr_id, WcStatus::Success, WcOpcode::Recv, WqeIndex(0))
    }

    #[test]
    fn entries_appear_in_order_and_on_time() {
        let mut cq = Cq::new(4);
        assert_eq!(cq.deliver(Time::from_ps(20), wc(1)), Delivery::Stored);
        assert_eq!(cq.deliver(Time::from_ps(10), wc(2)), Delivery::Stored);
        assert_eq!(cq.poll(Time::from_ps(19)), None);
        assert_eq!(cq.next_visible(), Some(Time::from_ps(20)));
        assert_eq!(cq.poll(Time::from_ps(20)).unwrap().wr_id, 1);
        assert_eq!(cq.poll(Time::from_ps(20)).unwrap().wr_id, 2);
        assert_eq!(cq.next_visible(), None);
    }

    #[test]
    fn a_full_queue_fails_for_good() {
        let mut cq = Cq::new(1);
        assert_eq!(cq.deliver(Time::ZERO, wc(1)), Delivery::Stored);
        assert_eq!(cq.deliver(Time::ZERO, wc(2)), Delivery::Overflow);
        assert_eq!(cq.poll(Time::ZERO).unwrap().wr_id, 1);
        assert_eq!(cq.deliver(Time::ZERO, wc(3)), Delivery::Lost);
        assert!(cq.overflowed());
    }

    #[test]
    fn notification_is_once_and_may_wait_for_a_solicited_message() {
        let mut cq = Cq::new(9);
        cq.request_notification(true);
        assert_eq!(cq.deliver(Time::ZERO, wc(1)), Delivery::Stored);
        assert_eq!(cq.deliver(Time::ZERO, Wc { solicited: true, ..wc(2) }), Delivery::StoredWithEvent);
        assert_eq!(cq.deliver(Time::ZERO, Wc { solicited: true, ..wc(3) }), Delivery::Stored);
        cq.request_notification(false);
        cq.request_notification(true);
        assert_eq!(cq.deliver(Time::ZERO, wc(4)), Delivery::StoredWithEvent);
    }
}
