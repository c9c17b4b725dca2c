//! The sending half of a queue pair: its queue, and which packet numbers are sent and acknowledged.
//!
//! Source: IBA vol. 1 §9.7.3 (requester generates PSNs), §9.7.5 (acknowledgements), §9.7.7 (READ and atomic resources).
//! Modelled: three positions over the queue, `front` (oldest not complete) ≤ `cursor` (next to send) ≤ `ready` (rung).
//! Not modelled: end-to-end credits, limits on outstanding requests other than READs and atomics.
//!
//! ```text
//!   queue   | front ........ | cursor ...... | assigned ... | ready ........ | posted
//!   PSN     | una            | cursor_psn    | next_psn     |
//! ```
//! `cursor` lies before `assigned` only while packets are repeated.

use std::collections::VecDeque;

use fabriscope_units::{Bytes, Span};
use fabriscope_wire::Psn;

use crate::access::Access;
use crate::ids::{CqId, Lid, QpNum, WqeIndex};
use crate::mr::Regions;
use crate::packet::{Packet, Transmit};
use crate::port::Port;
use crate::qp::bitmap::Bitmap;
use crate::wc::{Wc, WcStatus};
use crate::words::AppWords;
use crate::wr::{Atomic, Remote, SendFlags, SgeList, WrOpcode};

/// A posted send request.
pub(crate) struct Wqe {
    pub(crate) opcode: WrOpcode,
    pub(crate) flags: SendFlags,
    pub(crate) signaled: bool,
    /// Its last packet carries immediate data or words.
    pub(crate) tells: bool,
    pub(crate) imm: u32,
    pub(crate) length: u32,
    /// Packet number of its first packet, once assigned.
    pub(crate) first_psn: Psn,
    /// Packet numbers it takes, once assigned.
    pub(crate) packets: u32,
    pub(crate) wr_id: u64,
    pub(crate) remote: Remote,
    pub(crate) sge: SgeList,
    pub(crate) extra: Extra,
    /// Data copied when it was posted, if there is memory to copy from.
    pub(crate) inline: Option<Box<[u8]>>,
    /// Where it goes, on transports whose requests name it.
    pub(crate) route: Option<Box<Route>>,
}

/// Where a request goes, and whose it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Route {
    pub(crate) dest: Lid,
    pub(crate) sl: u8,
    /// The target (DC), the queue pair (RD, SRD, UET) or the shared receive queue (XRC) there.
    pub(crate) to: u32,
    pub(crate) qkey: u32,
    /// The queue pair that it was posted to, its place there and where it completes.
    pub(crate) owner: QpNum,
    pub(crate) index: WqeIndex,
    pub(crate) cq: CqId,
}

impl Route {
    /// Completes a request that another queue pair carried out.
    pub(crate) fn complete(&self, wqe: &Wqe, status: WcStatus, port: &mut Port) {
        let success = status == WcStatus::Success;
        if success && !wqe.signaled {
            return port.silent.push(self.owner);
        }
        let byte_len = if success { wqe.length } else { 0 };
        let wc = Wc { byte_len, ..Wc::of(self.owner, wqe.wr_id, status, wqe.opcode.completion(), self.index) };
        port.completions.push_back((self.cq, wc));
    }
}

/// What only some requests have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Extra {
    Nothing,
    /// What the program says with it.
    Words(AppWords),
    Atomic(Atomic),
    Datagram {
        dest: Lid,
        sl: u8,
        qp: QpNum,
        qkey: u32,
        words: Option<AppWords>,
    },
    /// The rights that a memory window gets.
    Window(Access),
}

impl Wqe {
    /// The packet number after its last one.
    #[inline]
    pub(crate) fn end_psn(&self) -> Psn {
        self.first_psn + self.packets
    }
    /// All of its message in one packet; it is at `index` of the queue of `qp`.
    #[inline(always)] // Returned through memory, it would be stored twice.
    pub(crate) fn in_one(&self, packet: Packet, qp: QpNum, index: WqeIndex, regions: &Regions) -> Transmit {
        let inline = self.flags.contains(SendFlags::INLINE);
        Transmit {
            fetch: if inline { Bytes::ZERO } else { Bytes(u64::from(packet.payload)) },
            place: regions.place_in(&self.sge, 0, self.length),
            starts_message: true,
            ends_message: true,
            inline,
            wqe: index,
            wr_id: self.wr_id,
            message_bytes: self.length,
            ..Transmit::plain(packet, qp)
        }
    }
    #[inline]
    pub(crate) fn waits_for_response(&self) -> bool {
        self.opcode.is_read() || self.opcode.is_atomic()
    }
}

/// The sending half of a queue pair; what every packet needs stands first.
#[repr(C)]
pub(crate) struct Requester {
    pub(crate) front: u64,
    /// The request to send from next.
    pub(crate) cursor: u64,
    /// Requests before this one were rung.
    pub(crate) ready: u64,
    /// Requests before this one have packet numbers.
    pub(crate) assigned: u64,
    /// Posted and not complete; the first has the index `front`.
    pub(crate) queue: VecDeque<Wqe>,
    /// The packet number to send next.
    pub(crate) cursor_psn: Psn,
    /// The oldest packet number neither acknowledged nor answered.
    pub(crate) una: Psn,
    /// After the latest packet number ever sent.
    pub(crate) sent_end: Psn,
    /// The first packet number of the next new request.
    pub(crate) next_psn: Psn,
    /// Everything before this arrived at the responder.
    pub(crate) acked_end: Psn,
    /// After the latest packet sent, since the last rewind, that asks for an answer.
    pub(crate) asked_end: Psn,
    /// Packets since one asked for an acknowledgement.
    pub(crate) since_asked: u32,
    pub(crate) ack_interval: u32,
    /// Packets that may be outstanding.
    pub(crate) window: u32,
    /// READs and atomics sent and not answered.
    pub(crate) reads: u32,
    pub(crate) max_reads: u32,
    /// It is in the port's list of turns.
    pub(crate) queued: bool,
    /// Draining (SQD) was reported.
    pub(crate) drained: bool,
    /// Repetitions left, and as many as there are after progress.
    pub(crate) retries: u8,
    pub(crate) max_retries: u8,
    /// The same for "receiver not ready".
    pub(crate) receiver_retries: u8,
    pub(crate) max_receiver_retries: u8,
    /// How long to wait for an answer; `None` waits for ever.
    pub(crate) timeout: Option<Span>,
    /// Requests before this one have freed their slots.
    pub(crate) freed: u64,
    /// Where a missing response made it rewind; it does so once for each place and leaves the rest to the timer.
    pub(crate) rewound_at: Option<Psn>,
    /// Responses that arrived, on queue pairs that take any order.
    pub(crate) arrived: Bitmap,
    /// Single packets to send again, on queue pairs that take any order.
    pub(crate) again: VecDeque<Psn>,
}

impl Requester {
    pub(crate) fn new() -> Requester {
        Requester {
            queue: VecDeque::new(),
            front: 0,
            ready: 0,
            cursor: 0,
            assigned: 0,
            cursor_psn: Psn::default(),
            una: Psn::default(),
            sent_end: Psn::default(),
            next_psn: Psn::default(),
            acked_end: Psn::default(),
            asked_end: Psn::default(),
            since_asked: 0,
            ack_interval: 0,
            window: 0,
            reads: 0,
            max_reads: 0,
            retries: 0,
            max_retries: 0,
            receiver_retries: 0,
            max_receiver_retries: 0,
            timeout: None,
            rewound_at: None,
            queued: false,
            drained: false,
            freed: 0,
            arrived: Bitmap::default(),
            again: VecDeque::new(),
        }
    }

    /// The index the next posted request gets.
    #[inline]
    pub(crate) fn posted(&self) -> u64 {
        self.front + self.queue.len() as u64
    }

    /// Packet numbers start anew.
    pub(crate) fn start(&mut self, psn: Psn) {
        self.cursor_psn = psn;
        self.una = psn;
        self.sent_end = psn;
        self.next_psn = psn;
        self.acked_end = psn;
        self.asked_end = psn;
        self.since_asked = 0;
        self.rewound_at = None;
        self.again.clear();
    }

    /// Forgets everything but the count of requests: indices never repeat.
    pub(crate) fn reset(&mut self) {
        let posted = self.posted();
        let queued = self.queued;
        *self = Requester { front: posted, ready: posted, cursor: posted, assigned: posted, freed: posted, queued, ..Requester::new() };
    }

    /// The request at `cursor`, if it was rung.
    #[inline]
    pub(crate) fn at_cursor(&self) -> Option<&Wqe> {
        if self.cursor < self.ready { self.queue.get((self.cursor - self.front) as usize) } else { None }
    }

    /// Sends again from the oldest packet that is not acknowledged.
    pub(crate) fn rewind(&mut self) {
        self.cursor = self.front;
        self.cursor_psn = self.una;
        self.asked_end = self.una;
        self.since_asked = 0;
        self.reads = 0;
        self.again.clear();
    }

    /// READ requests end at multiples of this many packets, so that any READ fits the window.
    #[inline]
    pub(crate) fn read_chunk(&self) -> u32 {
        self.window / 4
    }

    /// Moves `una` to `psn` within the request at the front. READ requests that are answered thereby no longer count.
    #[inline]
    pub(crate) fn move_una(&mut self, psn: Psn) {
        let wqe = &self.queue[0];
        if wqe.waits_for_response() && psn != self.una {
            let chunk = self.read_chunk();
            let (from, to) = (self.una.distance(wqe.first_psn) as u32, psn.distance(wqe.first_psn) as u32);
            // Ends of requests in (from, to] that were sent since the last rewind.
            let mut end = (from / chunk + 1) * chunk;
            while end.min(wqe.packets) <= to {
                if !self.cursor_psn.is_before(wqe.first_psn + end.min(wqe.packets)) {
                    self.reads -= 1;
                }
                if end >= wqe.packets {
                    break;
                }
                end += chunk;
            }
        }
        self.una = psn;
    }

    /// The peer answers: the counters start again.
    #[inline]
    pub(crate) fn renew_retries(&mut self) {
        self.retries = self.max_retries;
        self.receiver_retries = self.max_receiver_retries;
    }

    /// Takes the front request off the queue, all of it being acknowledged or answered.
    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<Wqe> {
        let wqe = self.queue.pop_front()?;
        self.front += 1;
        if self.cursor < self.front {
            self.cursor = self.front;
        }
        Some(wqe)
    }

    /// The request that `psn` belongs to, as a position in `queue`.
    pub(crate) fn position_of(&self, psn: Psn) -> Option<usize> {
        let (mut low, mut high) = (0, (self.assigned - self.front) as usize);
        while low < high {
            let middle = (low + high) / 2;
            if psn.is_before(self.queue[middle].end_psn()) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        self.queue.get(low).filter(|wqe| low < (self.assigned - self.front) as usize && !psn.is_before(wqe.first_psn)).map(|_| low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wqe(opcode: WrOpcode, first_psn: Psn, packets: u32) -> Wqe {
        Wqe {
            opcode,
            flags: SendFlags::NONE,
            signaled: true,
            tells: false,
            imm: 0,
            length: 0,
            first_psn,
            packets,
            wr_id: 0,
            remote: Remote::default(),
            sge: SgeList::new(),
            extra: Extra::Nothing,
            inline: None,
            route: None,
        }
    }

    #[test]
    fn packets_find_their_request() {
        let mut requester = Requester::new();
        let first = Psn::new(0xff_fffe);
        requester.start(first);
        requester.queue.push_back(wqe(WrOpcode::RdmaRead, first, 3));
        requester.queue.push_back(wqe(WrOpcode::Send, first + 3, 1));
        requester.assigned = 2;
        let found: Vec<_> = (0..5).map(|n| requester.position_of(first + n)).collect();
        assert_eq!(found, [Some(0), Some(0), Some(0), Some(1), None]);
        assert_eq!(requester.position_of(first.previous()), None);
    }

    #[test]
    fn answered_reads_no_longer_count_unless_a_rewind_uncounted_them() {
        let mut requester = Requester::new();
        requester.window = 64; // requests of 16 packets
        let first = Psn::new(0);
        requester.queue.push_back(wqe(WrOpcode::RdmaRead, first, 40));
        requester.assigned = 1;
        requester.reads = 3;
        requester.cursor_psn = first + 40;
        requester.move_una(first + 15);
        assert_eq!(requester.reads, 3);
        requester.move_una(first + 33);
        assert_eq!(requester.reads, 1);
        requester.rewind();
        assert_eq!(requester.reads, 0);
        requester.move_una(first + 40); // a response that was in flight
        assert_eq!(requester.reads, 0);
    }
}
