//! Go-back-N between two processes, on their cores.
//!
//! Source: PSM2, `ips_proto_recv.c` (`ips_proto_is_expected_or_nak`, `ips_proto_process_ack`, `ips_proto_process_nak`),
//! `ips_proto_help.h` (`ips_flow_gen_ackflags`).
//! Modelled: cumulative acknowledgements that are asked for, one complaint per gap, a window in packets, a timeout that doubles.
//! Not modelled: the congestion window, numbers that wrap around.

use std::collections::VecDeque;

use fabriscope_units::{Span, Time};

use fabriscope_wire::psm2::Kind;
use fabriscope_wire::psm2::RequestId;

/// A packet until it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Item {
    pub kind: Kind,
    pub payload: u32,
    pub asks: bool,
    /// The send that is done when this packet has arrived.
    pub finishes: Option<RequestId>,
    /// The memory in which its payload is.
    pub place: u8,
}

/// The sending end of a flow.
#[derive(Debug, Default)]
pub(crate) struct Sender {
    /// Number of the first packet of `items`.
    first: u32,
    items: VecDeque<Item>,
    /// So many of them have been sent since the last complaint.
    sent: usize,
    /// Packets since the last one that asks.
    silent: u32,
    /// When to ask, and how long to wait the next time.
    deadline: Option<Time>,
    patience: Span,
}

impl Sender {
    /// Adds a packet; every `interval` packets one asks for an acknowledgement.
    pub fn push(&mut self, mut item: Item, interval: u32) {
        self.silent += 1;
        item.asks |= self.silent > interval;
        if item.asks {
            self.silent = 0;
        }
        self.items.push_back(item);
    }
    /// The next packet to send and its number, if fewer than `window` are outstanding.
    pub fn peek(&self, window: u32) -> Option<(u32, Item)> {
        self.peek_at(0, window)
    }
    /// The packet `ahead` places behind that.
    pub fn peek_at(&self, ahead: usize, window: u32) -> Option<(u32, Item)> {
        let at = self.sent + ahead;
        let item = self.items.get(at).filter(|_| at < window as usize)?;
        Some((self.first + at as u32, *item))
    }
    /// `count` packets were sent at `now`.
    pub fn advance(&mut self, count: usize, now: Time, timeout: Span) {
        self.sent += count;
        if self.deadline.is_none() && self.sent > 0 {
            self.patience = timeout;
            self.deadline = Some(now + timeout);
        }
    }
    /// All below `number` have arrived: the sends that are done with that.
    pub fn acknowledged(&mut self, number: u32, now: Time, timeout: Span) -> Vec<RequestId> {
        let count = number.saturating_sub(self.first).min(self.items.len() as u32);
        if count == 0 {
            return Vec::new();
        }
        self.first += count;
        self.sent = self.sent.saturating_sub(count as usize);
        self.patience = timeout;
        self.deadline = (self.sent > 0).then(|| now + timeout);
        self.items.drain(..count as usize).filter_map(|item| item.finishes).collect()
    }
    /// The packet `number` is missing: all from there on go again. A complaint about what has arrived since says nothing.
    pub fn missing(&mut self, number: u32) {
        if number == self.first {
            self.sent = 0;
        }
    }
    /// The time for asking has come, if it has: the last packet that was sent.
    pub fn expired(&mut self, now: Time, most: Span) -> Option<u32> {
        self.deadline.filter(|deadline| *deadline <= now)?;
        self.patience = (self.patience * 2).min(most);
        self.deadline = Some(now + self.patience);
        // What waits for its second turn is asked for too: the answer tells where to go on.
        Some(self.first + (self.sent.max(1) as u32) - 1)
    }
    /// The last packet that was sent, if any waits for its acknowledgement.
    pub fn last_sent(&self) -> Option<u32> {
        (self.sent > 0).then(|| self.first + self.sent as u32 - 1)
    }
    pub fn deadline(&self) -> Option<Time> {
        self.deadline
    }
    pub fn is_idle(&self) -> bool {
        self.items.is_empty()
    }
}

/// What a packet is to the receiving end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    InOrder,
    /// It came before; its acknowledgement may have been lost.
    Again,
    /// One before it is missing; `complain` for the first of its kind.
    Early {
        complain: bool,
    },
}

/// The receiving end of a flow.
#[derive(Debug, Default)]
pub(crate) struct Receiver {
    next: u32,
    complained: bool,
    /// An acknowledgement is due at the end of this turn.
    pub owes: bool,
}

impl Receiver {
    pub fn accept(&mut self, number: u32) -> Verdict {
        if number == self.next {
            self.next += 1;
            self.complained = false;
            return Verdict::InOrder;
        }
        if number < self.next {
            return Verdict::Again;
        }
        Verdict::Early { complain: !std::mem::replace(&mut self.complained, true) }
    }
    /// The number that comes next.
    pub fn next(&self) -> u32 {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Span = Span::from_us(160);

    fn item(finishes: Option<u32>) -> Item {
        Item { kind: Kind::Acknowledge, payload: 8, asks: finishes.is_some(), finishes: finishes.map(RequestId), place: 0 }
    }

    #[test]
    fn a_gap_sends_all_behind_it_again() {
        let mut sender = Sender::default();
        (0..6).for_each(|n| sender.push(item((n % 2 == 1).then_some(n)), 15));
        while sender.peek(4).is_some() {
            sender.advance(1, Time::ZERO, WAIT);
        }
        assert_eq!(sender.acknowledged(1, Time::ZERO, WAIT), []);
        assert_eq!(sender.peek(4).map(|(n, _)| n), Some(4));
        sender.missing(1);
        assert_eq!(sender.peek(4).map(|(n, _)| n), Some(1));
        // An old complaint changes nothing.
        sender.advance(2, Time::ZERO, WAIT);
        sender.missing(0);
        assert_eq!(sender.peek(4).map(|(n, _)| n), Some(3));
        assert_eq!(sender.acknowledged(6, Time::ZERO, WAIT), [RequestId(1), RequestId(3), RequestId(5)]);
        assert!(sender.is_idle() && sender.deadline().is_none());
    }

    #[test]
    fn one_packet_in_sixteen_asks() {
        let mut sender = Sender::default();
        (0..64).for_each(|_| sender.push(item(None), 15));
        let asking: Vec<usize> = (0..64).filter(|at| sender.peek_at(*at, 64).is_some_and(|(_, item)| item.asks)).collect();
        assert_eq!(asking, [15, 31, 47, 63]);
    }

    #[test]
    fn the_timeout_doubles_up_to_its_end() {
        let mut sender = Sender::default();
        sender.push(item(None), 15);
        sender.advance(1, Time::ZERO, WAIT);
        assert_eq!(sender.expired(Time::from_ps(1), WAIT * 4), None);
        let mut waits = Vec::new();
        for _ in 0..4 {
            let at = sender.deadline().unwrap();
            assert_eq!(sender.expired(at, WAIT * 4), Some(0));
            waits.push(sender.deadline().unwrap() - at);
        }
        assert_eq!(waits, [WAIT * 2, WAIT * 4, WAIT * 4, WAIT * 4]);
    }

    #[test]
    fn a_receiver_complains_once_per_gap() {
        let mut receiver = Receiver::default();
        let verdicts: Vec<Verdict> = [0, 2, 3, 0, 1, 3].map(|n| receiver.accept(n)).into();
        use Verdict::{Again, Early, InOrder};
        assert_eq!(verdicts, [InOrder, Early { complain: true }, Early { complain: false }, Again, InOrder, Early { complain: true }]);
        assert_eq!(receiver.next(), 2);
    }
}
