//! The context of one peer: its two halves, and how the port serves it.

use fabriscope_wire::Delivery;

use super::receiver::Receiver;
use super::sender::Sender;
use crate::attr::QpState;
use crate::ids::Lid;
use crate::port::Port;
use crate::qp::Qp;
use crate::wc::WcStatus;

/// The context of one peer.
pub(crate) struct Context {
    /// Its place among the contexts.
    pub(super) index: u32,
    pub(super) peer: Lid,
    pub(super) sl: u8,
    pub(super) delivery: Delivery,
    /// It is in the port's list of turns.
    pub(super) queued: bool,
    /// It is in the port's list of acknowledgements.
    pub(super) answering: bool,
    pub(super) entropy: u16,
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
}

/// In the port's lists of turns, timers and acknowledgements: the rest is the number of a context, not of a queue pair.
pub(crate) const CONTEXT: u32 = 1 << 31;
/// In the port's list of pacing: it is time to give credit.
pub(super) const GRANT: u32 = CONTEXT - 1;
/// In the port's list of acknowledgements: an answer without a context.
pub(super) const ANSWER: u32 = CONTEXT - 2;

impl Context {
    /// Lines up for sending.
    pub(super) fn want(&mut self, port: &mut Port) {
        if !self.queued {
            self.queued = true;
            port.turns.push_back(CONTEXT | self.index);
        }
    }
    /// Lines up for an acknowledgement.
    pub(super) fn want_to_answer(&mut self, port: &mut Port) {
        if !self.answering {
            self.answering = true;
            port.acks.push_back(CONTEXT | self.index);
        }
    }
    /// What switches hash for the next packet: another path each time, one path where order is kept.
    pub(super) fn next_entropy(&mut self) -> u16 {
        self.entropy = self.entropy.wrapping_add(u16::from(self.delivery != Delivery::Rod));
        self.entropy
    }
}

/// Whether a queue pair takes messages that come this way.
pub(super) fn receives(qp: &Qp, delivery: Delivery) -> bool {
    qp.qp_type.delivery() == delivery && matches!(qp.state, QpState::Rtr | QpState::Rts | QpState::Sqd)
}

/// The status by which a request ends that the peer refused.
pub(super) fn status_of(code: fabriscope_wire::NakCode) -> WcStatus {
    match code {
        fabriscope_wire::NakCode::RemoteAccessError => WcStatus::RemAccessErr,
        fabriscope_wire::NakCode::RemoteOperationalError => WcStatus::RemOpErr,
        _ => WcStatus::RemInvReqErr,
    }
}
