//! Messages made shorter while they are on their way: what a run that skips steady states takes out of them.
//!
//! Source: none; no adapter does it. It is the one operation by which an engine leaves out packets that would only repeat what the
//! packets before them did: they are taken from what is not sent yet, so that everything on its way, every window, number and timer
//! stays as it is.
//! Modelled: SENDs and WRITEs over reliable connections (RC, in strict or any order) and over contexts (SRD, UET in RUD and ROD); the
//! sender, what its packets say of the length, and what the receiver still waits for.
//! Not modelled: READs, atomics and answers; bytes: an adapter with memory refuses. A completion tells the length without what was
//! taken out.

use fabriscope_wire::{Delivery, Psn};

use crate::attr::QpType;
use crate::cc::{Allowance, Line};
use crate::ext_headers::ExtHeaders;
use crate::ids::{AhId, Lid, QpNum};
use crate::nic::Nic;
use crate::qp::Qp;
use crate::qp::responder::Kind as InboundKind;

/// A SEND or WRITE of which some packets were sent and some were not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outstanding {
    /// The request.
    pub wr_id: u64,
    /// Where its packets go: the adapter, the queue pair, and the context there, if it is one that has it.
    pub dest: Lid,
    /// The queue pair there.
    pub dest_qp: QpNum,
    /// The service level and the delivery of the context, on transports that have contexts.
    pub context: Option<(u8, Delivery)>,
    /// The number of its first packet, by which the receiver knows it.
    pub first: Psn,
    /// Packets of it that were sent.
    pub sent: u32,
    /// Packets of it that were not.
    pub unsent: u32,
    /// Nothing of the queue pair or context is being sent again.
    pub in_order: bool,
    /// What congestion control allows; nothing where there is none.
    pub allowance: Option<Allowance>,
    /// Congestion control waits for a time at which it will allow more.
    pub recovering: bool,
}

/// Shortening: called by engines that skip steady states.
impl Nic {
    /// Its link, and the longest round trip on the idle network.
    #[must_use]
    pub fn line(&self) -> Line {
        self.port.congestion.line
    }

    /// The message that `qp` sends from now, to the peer of `ah` where requests name their destination.
    #[must_use]
    pub fn outstanding(&self, qp: QpNum, ah: Option<AhId>) -> Option<Outstanding> {
        let qp = &self.qps[self.slot_of(qp)?];
        match qp.qp_type {
            QpType::Rc => of_connection(qp),
            QpType::Srd | QpType::Uet | QpType::UetRod => {
                let (_, peer) = self.ahs.get(ah?.0 as usize).copied().flatten()?;
                self.contexts.outstanding(peer.dlid, peer.sl, qp.qp_type.delivery(), qp.num)
            }
            _ => None,
        }
    }

    /// Whether the receiver of a message knows it, so that both can agree on another length.
    #[must_use]
    pub fn receives(&self, from: Lid, message: &Outstanding) -> bool {
        match message.context {
            Some((sl, delivery)) => self.contexts.receives(from, sl, delivery, message.first),
            None => self.slot_of(message.dest_qp).is_some_and(|slot| {
                let responder = &self.qps[slot].responder;
                responder.expected.distance(message.first) > 0 && responder.inbound.kind != InboundKind::None
            }),
        }
    }

    /// Takes `packets` off the end of the message that `qp` sends from; false, and nothing happens, where less than a packet would
    /// be left, or packets have bytes.
    pub fn shorten(&mut self, qp: QpNum, ah: Option<AhId>, packets: u32, ext_headers: &mut ExtHeaders) -> bool {
        let fits = self.outstanding(qp, ah).is_some_and(|message| message.in_order && packets < message.unsent);
        let Some(slot) = self.slot_of(qp).filter(|_| fits && self.port.memory.is_none()) else { return false };
        let qp = &mut self.qps[slot];
        if qp.qp_type != QpType::Rc {
            let peer = ah.and_then(|ah| self.ahs.get(ah.0 as usize).copied().flatten());
            let Some((_, peer)) = peer else { return false };
            return self.contexts.shorten((peer.dlid, peer.sl, qp.qp_type.delivery()), packets, &self.port, ext_headers);
        }
        let requester = &mut qp.requester;
        let wqe = &mut requester.queue[(requester.cursor - requester.front) as usize];
        wqe.length -= packets << qp.mtu_shift;
        wqe.packets -= packets;
        requester.next_psn = requester.next_psn - packets;
        true
    }

    /// The receiver's side of the same: `packets` fewer will come.
    pub fn expect_less(&mut self, from: Lid, message: &Outstanding, packets: u32) {
        if let Some((sl, delivery)) = message.context {
            return self.contexts.expect_less((from, sl, delivery), message.first, packets);
        }
        let Some(slot) = self.slot_of(message.dest_qp) else { return };
        let Qp { responder, mtu_shift, .. } = &mut self.qps[slot];
        // A SEND ends with its last packet; of a WRITE the first packet said how long it is.
        if responder.inbound.kind == InboundKind::Write {
            responder.inbound.total -= packets << *mtu_shift;
        }
    }
}

/// The message that a reliable connection sends from.
fn of_connection(qp: &Qp) -> Option<Outstanding> {
    let requester = &qp.requester;
    let wqe = requester.at_cursor().filter(|wqe| requester.cursor < requester.assigned && !wqe.waits_for_response())?;
    let sent = requester.cursor_psn.distance(wqe.first_psn).max(0) as u32;
    let last = requester.cursor + 1 == requester.assigned;
    let in_order = last && requester.cursor_psn == requester.sent_end && requester.again.is_empty() && wqe.inline.is_none();
    let control = qp.congestion.as_ref();
    Some(Outstanding {
        wr_id: wqe.wr_id,
        dest: qp.dest,
        dest_qp: QpNum(qp.dest_qp),
        context: None,
        first: wqe.first_psn,
        sent,
        unsent: wqe.packets - sent,
        in_order,
        allowance: control.map(|control| control.allowance()),
        recovering: control.is_some_and(|control| control.wakes().is_some()),
    })
}
