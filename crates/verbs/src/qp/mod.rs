//! Queue pairs: the state of both directions and what they share.
//!
//! Source: IBA vol. 1 §10.2 (resources), §9.7 (reliable service: requester and responder state).
//! Modelled: one requester and one responder for each queue pair; fields used for every packet stand first.
//! Not modelled: end-to-end credits.

pub(crate) mod bitmap;
pub(crate) mod flush;
pub(crate) mod migration;
pub(crate) mod modify;
pub(crate) mod pacing;
pub(crate) mod requester;
pub(crate) mod responder;

use fabriscope_units::Time;
use fabriscope_wire::Psn;

use crate::attr::{QpAttr, QpInit, QpState, QpType};
use crate::cc::Congestion;
use crate::ids::{Lid, QpNum, WqeIndex};
use crate::packet::PacketFlags;
use crate::port::Port;
use crate::qp::requester::{Requester, Route};
use crate::qp::responder::Responder;
use crate::rate_limit::RateLimit;
use crate::srq::RecvQueue;
use crate::transport::iwarp::stream::Stream;

/// What `query_qp` tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpStatus {
    /// Its number.
    pub qp_num: QpNum,
    /// Its state.
    pub state: QpState,
    /// What it was made with.
    pub init: QpInit,
    /// Its attributes; `qp_state` is the state now, `sq_psn` and `rq_psn` are the next packet numbers.
    pub attr: QpAttr,
    /// Send requests posted and not complete.
    pub send_outstanding: u32,
    /// Receives posted and not taken, of its own queue.
    pub recv_posted: u32,
    /// Packets sent more than once.
    pub retransmissions: u64,
}

/// A queue pair. The order of the fields is that of use: what every packet needs fills the first cache lines.
#[repr(C, align(64))]
pub(crate) struct Qp {
    pub(crate) num: QpNum,
    pub(crate) slot: u32,
    pub(crate) dest: Lid,
    pub(crate) dest_qp: u32,
    pub(crate) entropy: u16,
    pub(crate) state: QpState,
    pub(crate) qp_type: QpType,
    /// log2 of the path MTU.
    pub(crate) mtu_shift: u8,
    pub(crate) sl: u8,
    /// The transport in the upper bits of its opcodes.
    pub(crate) service: u8,
    /// Each packet takes a new entropy value.
    pub(crate) spray: bool,
    pub(crate) any_order: bool,
    /// Cleared when the queue pair is destroyed; its slot may be used again.
    pub(crate) live: bool,
    /// What its packets say of path migration.
    pub(crate) path_flag: PacketFlags,
    pub(crate) timer: Timer,
    pub(crate) requester: Requester,
    pub(crate) responder: Responder,
    pub(crate) recv_queue: RecvQueue,
    pub(crate) retransmissions: u64,
    /// Congestion control of what it sends.
    pub(crate) congestion: Option<Box<Congestion>>,
    /// The rate that it keeps to.
    pub(crate) limit: Option<Box<RateLimit>>,
    /// When it has itself looked at by the port, for pacing and timers of congestion control.
    pub(crate) paced_at: Time,
    /// Whose number completions carry: its own, or that of the queue pair that it works for.
    pub(crate) home: QpNum,
    /// Where it is connected to for now, as an initiator or for an initiator of DC.
    pub(crate) dynamic: Option<Box<Dynamic>>,
    pub(crate) migration: migration::Migration,
    /// Its connection, on iWARP.
    pub(crate) stream: Option<Box<Stream>>,
    pub(crate) init: QpInit,
    pub(crate) attr: QpAttr,
}

/// A connection of DC.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Dynamic {
    /// The packet number at which it began: later connections of an initiator have later ones.
    pub(crate) start: Psn,
    pub(crate) qkey: u32,
    /// Its beginning has to be told to the target.
    pub(crate) tell: bool,
    /// The target (address, service level, number) that has to be told of the end of the connection before, and its beginning.
    pub(crate) leave: Option<(Lid, u8, u32, Psn)>,
}

/// What a queue pair waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waiting {
    Nothing,
    Acknowledgement,
    /// The time a "receiver not ready" asked for.
    Receiver,
}

/// The timer of a queue pair.
pub(crate) struct Timer {
    pub(crate) waiting: Waiting,
    pub(crate) deadline: Time,
    /// The earliest time it has in the heap of the port.
    entered: Time,
}

impl Timer {
    fn new() -> Timer {
        Timer { waiting: Waiting::Nothing, deadline: Time::MAX, entered: Time::MAX }
    }
    pub(crate) fn start(&mut self, waiting: Waiting, deadline: Time, slot: u32, port: &mut Port) {
        self.waiting = waiting;
        self.deadline = deadline;
        // A later deadline is found when the entered one comes up: no work for every acknowledgement.
        if deadline < self.entered {
            self.entered = deadline;
            port.set_timer(deadline, slot);
        }
    }
    pub(crate) fn stop(&mut self) {
        self.waiting = Waiting::Nothing;
        self.deadline = Time::MAX;
    }
    /// The heap entry for `at` came up: true if the deadline is reached, else it is entered again.
    pub(crate) fn came_up(&mut self, at: Time, now: Time, slot: u32, port: &mut Port) -> bool {
        if at != self.entered {
            return false; // superseded
        }
        self.entered = Time::MAX;
        if self.waiting == Waiting::Nothing {
            return false;
        }
        if self.deadline <= now {
            return true;
        }
        self.entered = self.deadline;
        port.set_timer(self.deadline, slot);
        false
    }
}

impl Qp {
    pub(crate) fn new(num: QpNum, slot: u32, init: &QpInit) -> Qp {
        Qp {
            state: QpState::Reset,
            qp_type: init.qp_type,
            mtu_shift: DATAGRAM_MTU_SHIFT,
            sl: 0,
            service: (init.qp_type.transport() as u8) << 5,
            entropy: 0,
            spray: false,
            any_order: false,
            num,
            slot,
            dest: Lid(0),
            dest_qp: 0,
            requester: Requester::new(),
            responder: Responder::new(),
            timer: Timer::new(),
            recv_queue: RecvQueue::new(init.cap.max_recv_wr, init.cap.max_recv_sge),
            init: *init,
            attr: QpAttr::default(),
            retransmissions: 0,
            congestion: None,
            limit: None,
            paced_at: Time::MAX,
            home: num,
            dynamic: None,
            live: true,
            path_flag: PacketFlags::NONE,
            migration: migration::Migration::default(),
            stream: None,
        }
    }

    /// What switches hash for the next packet.
    #[inline]
    pub(crate) fn next_entropy(&mut self) -> u16 {
        if self.spray {
            self.entropy = self.entropy.wrapping_add(1);
        }
        self.entropy
    }

    #[inline]
    pub(crate) fn mtu(&self) -> u32 {
        1 << self.mtu_shift
    }

    /// Lines up for sending requests.
    #[inline]
    pub(crate) fn want_requests(&mut self, port: &mut Port) {
        if !self.requester.queued {
            self.requester.queued = true;
            port.turns.push_back(self.slot << 1);
        }
    }

    /// Has the port look at it at `at`, unless it does so before.
    pub(crate) fn look_at(&mut self, at: Time, port: &mut Port) {
        if at < self.paced_at {
            self.paced_at = at;
            port.look_at(at, self.slot);
        }
    }

    /// Lines up for sending READ and atomic responses, or an acknowledgement when there are none.
    #[inline]
    pub(crate) fn want_responses(&mut self, port: &mut Port) {
        if !self.responder.responses.is_empty() {
            if !self.responder.queued {
                self.responder.queued = true;
                port.turns.push_back(self.slot << 1 | 1);
            }
        } else if (self.responder.ack.is_some() || !self.responder.seen.trimmed.is_empty()) && !self.responder.ack_queued {
            self.responder.ack_queued = true;
            port.acks.push_back(self.slot);
        }
    }

    pub(crate) fn status(&self) -> QpStatus {
        let mut attr = self.attr;
        attr.qp_state = Some(self.state);
        attr.sq_psn = attr.sq_psn.map(|_| self.requester.next_psn.as_u32());
        attr.rq_psn = attr.rq_psn.map(|_| self.responder.expected.as_u32());
        QpStatus {
            qp_num: self.num,
            state: self.state,
            init: self.init,
            attr,
            send_outstanding: u32::try_from(self.requester.queue.len()).expect("the depth of a queue is of 32 bits"),
            recv_posted: u32::try_from(self.recv_queue.len()).expect("the depth of a queue is of 32 bits"),
            retransmissions: self.retransmissions,
        }
    }
}

impl Route {
    /// Where the connection of a queue pair leads, for the request that is posted next.
    pub(crate) fn of(qp: &Qp) -> Route {
        let index = WqeIndex(qp.requester.posted());
        Route { dest: qp.dest, sl: qp.sl, to: 0, qkey: 0, owner: qp.num, index, cq: qp.init.send_cq }
    }
}

/// Datagrams have no path MTU; 4 KiB is the largest of the standard (IBA vol. 1 §9.8.3).
pub(crate) const DATAGRAM_MTU_SHIFT: u8 = 12;
