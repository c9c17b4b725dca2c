//! The receiving half of a context: every packet once, messages when they are complete.
//!
//! Modelled: a map of the packets that arrived; SENDs take a receive with their first packet to arrive; keys, bounds and rights
//! are checked for each packet; acknowledgements name the packet and carry a map of 64, of SRD behind the first that is missing,
//! of Ultra Ethernet where there is something to tell.
//! Packets that are refused stay unacknowledged until the sender takes them back, so that no acknowledgement hides a refusal.
//! Not modelled: –

use std::collections::VecDeque;

use fabriscope_wire::{NakCode, Psn, Syndrome};

use super::coalescing::Untold;
use super::message::Message;
use crate::access::Access;
use crate::attr::QpType;
use crate::cc::Telemetry;
use crate::ext_headers::Ext;
use crate::ids::{CqId, QpNum};
use crate::packet::PacketFlags;
use crate::port::Port;
use crate::qp::Qp;
use crate::qp::bitmap::Bitmap;
use crate::srq::RecvWqe;
use crate::wc::{Wc, WcOpcode, WcStatus};
use crate::words::AppWords;

/// The receiving half of a context.
pub(crate) struct Receiver {
    /// The number at which the peer's incarnation of the context began; none before its first packet.
    pub(super) start: Option<Psn>,
    pub(super) expected: Psn,
    pub(super) arrived: Bitmap,
    /// Messages of several packets of which some are missing.
    pub(super) partial: Vec<Partial>,
    pub(super) acks: VecDeque<Ack>,
    /// Packets that were refused and not taken back, with the reason.
    pub(super) refused: Vec<(Psn, NakCode)>,
    /// What Ultra Ethernet has not acknowledged yet.
    pub(super) untold: Untold,
    /// In order: the packet that is missing was asked for.
    pub(super) asked_again: bool,
    /// What a packet of credit alone is made like: that of the packet before.
    pub(super) last: (QpType, QpNum),
}

/// A message of which some packets arrived.
pub(super) struct Partial {
    pub(super) first: Psn,
    pub(super) missing: u32,
    pub(super) target: QpNum,
    /// Where its receive completes.
    pub(super) cq: CqId,
    pub(super) recv: Option<RecvWqe>,
    pub(super) imm: Option<u32>,
    pub(super) words: Option<AppWords>,
    pub(super) solicited: bool,
}

/// An acknowledgement owed.
#[derive(Clone)]
pub(super) struct Ack {
    pub(super) asked: Psn,
    /// Where its map begins at the earliest.
    pub(super) map: Psn,
    pub(super) syndrome: u8,
    pub(super) flags: PacketFlags,
    pub(super) qp_type: QpType,
    /// The queue pair that the packet was for.
    pub(super) target: QpNum,
    pub(super) links: Telemetry,
}

/// Why a packet is not taken.
pub(super) enum Refusal {
    /// There is no receive for it: it may come again.
    NoReceive,
    /// Its message ends here.
    Refused(NakCode),
}

/// The answer that a packet asks for, if it is taken.
pub(super) type Outcome = Result<Option<Message>, Refusal>;

impl Receiver {
    pub(super) fn new() -> Receiver {
        Receiver {
            start: None,
            expected: Psn::default(),
            arrived: Bitmap::default(), // sized with the first packet
            partial: Vec::new(),
            acks: VecDeque::new(),
            refused: Vec::new(),
            untold: Untold::default(),
            asked_again: false,
            last: (QpType::Uet, QpNum(0)),
        }
    }
    /// Whether a packet is of an incarnation of the context that comes after the present one.
    pub(super) fn begins(&self, ext: &Ext) -> bool {
        self.start.is_none_or(|now| Psn::new(ext.start).distance(now) > 0)
    }
    /// The sender was given credit: the next acknowledgement says so, or one that answers no packet.
    pub(super) fn owe_credit(&mut self) {
        if self.acks.is_empty() {
            let (qp_type, target) = self.last;
            let asked = self.start.unwrap_or_default().previous();
            let (syndrome, flags) = (Syndrome::ACK.encode(), PacketFlags::NONE);
            self.acks.push_back(Ack { asked, map: self.expected, syndrome, flags, qp_type, target, links: Telemetry::default() });
        }
    }
    pub(super) fn owes(&self) -> bool {
        !self.acks.is_empty()
    }

    pub(super) fn refuse(&mut self, psn: Psn, code: NakCode) {
        if !self.refused.iter().any(|(refused, _)| *refused == psn) {
            self.refused.push((psn, code));
        }
    }

    /// Gives up the incomplete messages that `which` names: their receives end with `status`.
    pub(super) fn abandon(&mut self, status: WcStatus, port: &mut Port, which: impl Fn(Psn, QpNum) -> bool) {
        self.partial.retain(|partial| {
            let gone = which(partial.first, partial.target);
            if let Some(wqe) = partial.recv.as_ref().filter(|_| gone) {
                let wc = Wc::of(partial.target, wqe.wr_id, status, WcOpcode::Recv, wqe.index);
                port.completions.push_back((partial.cq, wc));
            }
            !gone
        });
    }
}

pub(super) fn check(qp: &Qp, port: &Port, ext: &Ext, length: u64, needed: Access) -> Result<(), Refusal> {
    let allowed = qp.attr.qp_access_flags.unwrap_or_default().contains(needed);
    if allowed && port.regions.check(ext.rkey.0, qp.init.pd, ext.remote_addr, length, needed).is_ok() {
        Ok(())
    } else {
        Err(Refusal::Refused(NakCode::RemoteAccessError))
    }
}
