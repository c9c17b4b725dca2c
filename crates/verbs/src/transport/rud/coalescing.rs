//! When a receiver of Ultra Ethernet acknowledges: after so many bytes, at marks, and when it is asked.
//!
//! Source: Ultra Ethernet Specification 1.0, §3.5 (packet delivery sublayer): ACK_Gen_Trigger, ACK_Gen_Min_Pkt_Add, ACK_On_ECN,
//! the AR flag, the map of 64 packets with an offset of its own.
//! Modelled: the count of bytes per context, with a least for short packets; an acknowledgement at once for a packet that asks, and
//! again when the gaps before it are closed; for a marked packet; and before what is told would not fit into one map.
//! Not modelled: maps that are longer than 64 packets, acknowledgements that ride on packets of the other direction.

use fabriscope_units::{Bytes, parameters};
use fabriscope_wire::Psn;

parameters! {
    /// When a receiver of Ultra Ethernet acknowledges.
    pub struct AckCoalescing as "AckCoalescing" {
        /// Bytes that arrive from one acknowledgement to the next (ACK_Gen_Trigger).
        pub trigger: Bytes,
        /// What a packet counts for at least (ACK_Gen_Min_Pkt_Add).
        pub least: Bytes,
        /// Whether a marked packet is acknowledged at once (ACK_On_ECN).
        pub at_marks: bool,
    }
}

impl AckCoalescing {
    /// What the specification has where nothing else is set.
    pub const STANDARD: AckCoalescing = AckCoalescing { trigger: Bytes::from_kib(16), least: Bytes::from_kib(1), at_marks: true };
}

impl Default for AckCoalescing {
    fn default() -> AckCoalescing {
        AckCoalescing::STANDARD
    }
}

/// What a receiver has taken since it acknowledged last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Untold {
    /// Bytes, as they count.
    bytes: u64,
    /// The first and the last of the packets, by their numbers; none while there is none.
    span: Option<(Psn, Psn)>,
    /// The packet that came last.
    newest: Psn,
    /// One of them was marked.
    pub(super) marked: bool,
    /// The last packet that had come when an acknowledgement was asked for: another follows when all before it are here.
    asked: Option<Psn>,
}

/// Packets that one map tells of.
const MAP: i32 = 64;

impl Untold {
    /// Packet `psn` of `payload` was taken. Gives the packet to acknowledge before it where one map could not tell of both.
    pub(super) fn add(&mut self, psn: Psn, payload: Bytes, marked: bool, rules: AckCoalescing) -> Option<(Psn, Psn)> {
        let span = self.span.map_or((psn, psn), |(first, last)| {
            (if psn.is_before(first) { psn } else { first }, if last.is_before(psn) { psn } else { last })
        });
        let before = self.span.filter(|_| span.1.distance(span.0) >= MAP).map(|(first, _)| (self.newest, first));
        self.bytes += payload.max(rules.least).0;
        self.span = Some(if before.is_some() { (psn, psn) } else { span });
        self.newest = psn;
        self.marked |= marked;
        before
    }

    /// Whether it is time to acknowledge the packet that came last, while everything before `expected` is here.
    pub(super) fn is_due(&self, asked: bool, expected: Psn, rules: AckCoalescing) -> bool {
        let closed = self.asked.is_some_and(|last| last.is_before(expected));
        asked || closed || self.bytes >= rules.trigger.0 || (self.marked && rules.at_marks)
    }

    /// The packet that came last is acknowledged: gives where the map begins, and whether there was a mark.
    pub(super) fn tell(&mut self, asked: bool, expected: Psn) -> (Psn, bool) {
        let first = self.span.map_or(expected, |(first, _)| first);
        // Several may have asked: the last of them by its number is the one that everything must be here for.
        let waits = match self.asked {
            Some(before) if !asked || self.newest.is_before(before) => Some(before),
            before => {
                if asked {
                    Some(self.newest)
                } else {
                    before
                }
            }
        };
        let marked = self.marked;
        *self = Untold { asked: waits.filter(|last| !last.is_before(expected)), newest: self.newest, ..Untold::default() };
        (first, marked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: AckCoalescing = AckCoalescing::STANDARD;

    /// Feeds packets of `payload` that come in order; gives those that are acknowledged.
    fn acknowledged(payload: u64, packets: u32) -> Vec<u32> {
        let mut untold = Untold::default();
        let take = |number: u32| {
            let psn = Psn::new(number);
            assert_eq!(untold.add(psn, Bytes(payload), false, RULES), None);
            let due = untold.is_due(false, psn.next(), RULES);
            if due {
                untold.tell(false, psn.next());
            }
            due.then_some(number)
        };
        (0..packets).filter_map(take).collect()
    }

    #[test]
    fn every_sixteen_kib_and_every_sixteen_short_packets() {
        assert_eq!(acknowledged(4096, 12), [3, 7, 11]);
        assert_eq!(acknowledged(64, 34), [15, 31]);
    }

    #[test]
    fn a_mark_is_told_at_once_and_once() {
        let mut untold = Untold::default();
        untold.add(Psn::new(0), Bytes(4096), true, RULES);
        assert!(untold.is_due(false, Psn::new(1), RULES));
        assert!(untold.tell(false, Psn::new(1)).1);
        assert!(!untold.is_due(false, Psn::new(1), RULES) && !untold.marked);
    }

    /// The last packet asks and comes first: the sender hears again when the others are there.
    #[test]
    fn gaps_before_a_packet_that_asked_are_told_when_they_close() {
        let mut untold = Untold::default();
        untold.add(Psn::new(2), Bytes(100), false, RULES);
        assert!(untold.is_due(true, Psn::new(0), RULES));
        untold.tell(true, Psn::new(0));
        untold.add(Psn::new(0), Bytes(100), false, RULES);
        assert!(!untold.is_due(false, Psn::new(1), RULES));
        untold.add(Psn::new(1), Bytes(100), false, RULES);
        assert!(untold.is_due(false, Psn::new(3), RULES));
        untold.tell(false, Psn::new(3));
        assert!(!untold.is_due(false, Psn::new(3), RULES));
    }

    /// Two packets ask, the later one comes first: its gaps count.
    #[test]
    fn the_later_question_stays() {
        let mut untold = Untold::default();
        for (psn, asks) in [(5, true), (3, true)] {
            untold.add(Psn::new(psn), Bytes(100), false, RULES);
            assert!(untold.is_due(asks, Psn::new(0), RULES));
            untold.tell(asks, Psn::new(0));
        }
        for (psn, expected, due) in [(0, 1, false), (1, 2, false), (2, 4, false), (4, 6, true)] {
            untold.add(Psn::new(psn), Bytes(100), false, RULES);
            assert_eq!(untold.is_due(false, Psn::new(expected), RULES), due, "{psn}");
        }
    }

    #[test]
    fn what_one_map_cannot_tell_is_told_before() {
        let mut untold = Untold::default();
        assert_eq!(untold.add(Psn::new(10), Bytes(4096), false, RULES), None);
        assert_eq!(untold.add(Psn::new(73), Bytes(4096), false, RULES), None);
        assert_eq!(untold.add(Psn::new(9), Bytes(4096), false, RULES), Some((Psn::new(73), Psn::new(10))));
        assert_eq!(untold.tell(false, Psn::new(0)).0, Psn::new(9));
    }
}
