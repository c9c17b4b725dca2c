//! Messages that overtook each other, put in order again.
//!
//! Source: libfabric, prov/efa (efa_rdm_pke_rtm.c, ofi_recvwin.h): requests carry a message number for each peer; one that comes
//! early is copied out of its receive buffer (`FI_EFA_RX_COPY_OOO`) and waits in a window; packets that belong to a message that is
//! known need no order.
//! Between several rails, and between rings and sends, every message has a number: each of them delivers in order, all of them together
//! do not.
//! Modelled: numbers, waiting, the copy. Not modelled: the end of the window, 16,384 messages.

use std::collections::{BTreeMap, VecDeque};

use super::wire::Envelope;

/// The order of the messages between two ranks; where single ones overtake each other, of their announcements.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// The number of the next one that is sent, and that is handled.
    sent: u32,
    due: u32,
    /// Those that came before their turn, by their numbers from `due` on.
    early: VecDeque<(u32, Envelope)>,
    /// Bytes of messages whose announcement has not been handled.
    parts: BTreeMap<u64, Vec<u32>>,
}

impl Order {
    /// The number of the next one to send.
    pub fn next(&mut self) -> u32 {
        self.sent = self.sent.wrapping_add(1);
        self.sent.wrapping_sub(1)
    }
    /// Something arrived: it waits for its turn, if it has one.
    pub fn keep(&mut self, envelope: Envelope) {
        let Some(number) = envelope.number else { return };
        let ahead = |number: u32| number.wrapping_sub(self.due);
        let at = self.early.partition_point(|(other, _)| ahead(*other) < ahead(number));
        self.early.insert(at, (number, envelope));
    }
    /// Something arrived: gives it back if its turn has come; otherwise it waits.
    pub fn arrived(&mut self, envelope: Envelope) -> Option<Envelope> {
        match envelope.number {
            Some(number) if number != self.due => {
                self.keep(envelope);
                None
            }
            Some(_) => {
                self.due = self.due.wrapping_add(1);
                Some(envelope)
            }
            None => Some(envelope),
        }
    }
    /// The next of those that waited, if its turn has come.
    pub fn waited(&mut self) -> Option<Envelope> {
        if self.early.front()?.0 != self.due {
            return None;
        }
        self.due = self.due.wrapping_add(1);
        self.early.pop_front().map(|(_, envelope)| envelope)
    }
    /// Whether the turn of one of those that waited has come.
    pub fn has_due(&self) -> bool {
        self.early.front().is_some_and(|(number, _)| *number == self.due)
    }
    /// A part came before the announcement of its message was handled.
    pub fn keep_part(&mut self, message: u64, size: u32) {
        self.parts.entry(message).or_default().push(size);
    }
    /// The parts that came before.
    pub fn take_parts(&mut self, message: u64) -> Vec<u32> {
        self.parts.remove(&message).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::Body;
    use super::*;

    #[test]
    fn what_comes_early_waits() {
        let mut order = Order::default();
        let [first, second, third] = [(); 3].map(|()| {
            let body = Body::Eager { tag: 0, size: 1, here: 1, message: 0 };
            Envelope { credits: 0, number: Some(order.next()), body }
        });
        assert_eq!(order.arrived(third), None);
        assert_eq!(order.arrived(second), None);
        assert_eq!(order.waited(), None);
        let free = Envelope { number: None, body: Body::Credits, ..first };
        assert_eq!(order.arrived(free), Some(free), "what belongs to a known message needs no order");
        assert_eq!(order.arrived(first), Some(first));
        assert_eq!([order.waited(), order.waited(), order.waited()], [Some(second), Some(third), None]);
    }
}
