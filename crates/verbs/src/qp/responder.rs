//! The receiving half of a queue pair: what is expected, the message being received, the answers owed.
//!
//! Source: IBA vol. 1 §9.7.4 (responder), §9.7.5.2 (NAKs), §9.7.7 (READ and atomic resources).
//! Modelled: expected PSN, one NAK for each gap, responses in order, results kept for repeated atomics.
//! Not modelled: end-to-end credits (acknowledgements say "unlimited").

use std::collections::VecDeque;

use fabriscope_units::Time;
use fabriscope_wire::{NakCode, Psn, Syndrome};

use crate::access::MemoryId;
use crate::cc::Telemetry;
use crate::packet::Packet;
use crate::qp::bitmap::Bitmap;
use crate::srq::RecvWqe;

/// The message being received.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Inbound {
    pub(crate) kind: Kind,
    /// WRITE: the memory it goes to.
    pub(crate) place: MemoryId,
    /// Bytes received of it.
    pub(crate) offset: u32,
    /// WRITE: bytes of the message. SEND: bytes the receive holds.
    pub(crate) total: u32,
    /// WRITE: where it goes.
    pub(crate) addr: u64,
    /// The receive it goes to; kept when an unreliable message breaks off.
    pub(crate) recv: Option<RecvWqe>,
}

/// What kind of message is being received.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Kind {
    /// None: the next packet starts one.
    #[default]
    None,
    Send,
    Write,
}

/// An acknowledgement owed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ack {
    pub(crate) psn: Psn,
    pub(crate) syndrome: u8,
    /// The packet that asked for it.
    pub(crate) asked: Psn,
    /// It answers a packet whose payload was cut off.
    pub(crate) trimmed: bool,
}

impl Ack {
    /// Whether it says that packets are missing.
    pub(crate) fn is_of_gap(self) -> bool {
        !self.trimmed && self.syndrome == Syndrome::Nak(NakCode::PsnSequenceError).encode()
    }
}

/// A response with data, owed or being sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Response {
    /// The packet number of its next packet.
    pub(crate) psn: Psn,
    pub(crate) kind: ResponseKind,
    /// It answers a repeated request, so it does not count against `max_reads`.
    pub(crate) repeated: bool,
    pub(crate) traced: bool,
}

/// What a response carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ResponseKind {
    Read { addr: u64, left: u32, total: u32, place: MemoryId },
    Atomic { old: u64, place: MemoryId },
}

/// Whether the responder waits for a repeated packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Silence {
    /// No: packets are as expected.
    Not,
    /// It said what it expects, once, and drops everything else.
    Until,
}

/// An atomic carried out, in case it is repeated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Done {
    pub(crate) psn: Psn,
    pub(crate) old: u64,
    pub(crate) place: MemoryId,
}

/// The receiving half of a queue pair; what every packet needs stands first.
#[repr(C)]
pub(crate) struct Responder {
    pub(crate) expected: Psn,
    pub(crate) msn: u32,
    pub(crate) silence: Silence,
    /// The first packet in RTR was reported.
    pub(crate) established: bool,
    pub(crate) ack_queued: bool,
    /// It is in the port's list of turns.
    pub(crate) queued: bool,
    pub(crate) ack: Option<Ack>,
    pub(crate) inbound: Inbound,
    pub(crate) responses: VecDeque<Response>,
    /// READs and atomics the peer may have outstanding.
    pub(crate) max_reads: u32,
    /// Packets that may arrive early, on queue pairs that take any order.
    pub(crate) window: u32,
    pub(crate) arrived: Bitmap,
    /// Those of them that say more than "the next full packet of the message", in order.
    pub(crate) early: VecDeque<Packet>,
    /// The last `max_reads` atomics.
    pub(crate) done: VecDeque<Done>,
    /// What the peer's congestion control has to know.
    pub(crate) seen: Seen,
}

/// What a receiver saw of congestion.
#[derive(Default)]
pub(crate) struct Seen {
    /// When it last sent a notification.
    pub(crate) notified: Option<Time>,
    /// A packet was marked since the last acknowledgement.
    pub(crate) marked: bool,
    /// What links wrote into the packet that is to be acknowledged.
    pub(crate) links: Telemetry,
    /// Packets whose payload was cut off, to be told.
    pub(crate) trimmed: VecDeque<Psn>,
    /// In strict order: the first packet whose payload was cut off, while those before it are on their way.
    pub(crate) cut: Option<Psn>,
}

impl Seen {
    /// Whether the peer has to know anything.
    pub(crate) fn is_something(&self) -> bool {
        self.notified.is_some() || self.marked || !self.links.is_empty() || !self.trimmed.is_empty() || self.cut.is_some()
    }
}

impl Responder {
    pub(crate) fn new() -> Responder {
        Responder {
            expected: Psn::default(),
            msn: 0,
            silence: Silence::Not,
            established: false,
            inbound: Inbound::default(),
            ack: None,
            ack_queued: false,
            queued: false,
            responses: VecDeque::new(),
            max_reads: 0,
            done: VecDeque::new(),
            window: 0,
            arrived: Bitmap::default(),
            early: VecDeque::new(),
            seen: Seen::default(),
        }
    }

    /// Whether the peer has as many READs and atomics here as it may.
    pub(crate) fn is_busy(&self) -> bool {
        let new = self.responses.iter().filter(|response| !response.repeated).count();
        new >= self.max_reads as usize
    }

    /// Whether a NAK is owed.
    pub(crate) fn owes_nak(&self) -> bool {
        self.ack.is_some_and(|ack| !matches!(Syndrome::decode(ack.syndrome), Ok(Syndrome::Ack(_))))
    }

    pub(crate) fn reset(&mut self) {
        let (queued, ack_queued) = (self.queued, self.ack_queued);
        *self = Responder { queued, ack_queued, ..Responder::new() };
    }
}
