//! Messages of contexts made shorter while they are on their way (see `nic/shortening.rs`).
//!
//! All packets of a message share one entry of extension headers where they say the same, with the length of the message; it is
//! rewritten, those on their way included. Packets with an entry of their own say the old length, by which a full packet before the
//! new end is as right as by the new one.

use fabriscope_wire::{Delivery, Psn};

use super::contexts::Contexts;
use super::message::Kind;
use crate::ext_headers::ExtHeaders;
use crate::ids::{Lid, QpNum};
use crate::nic::shortening::Outstanding;
use crate::port::Port;

impl Contexts {
    /// The message of `owner` that the context sends from.
    pub(crate) fn outstanding(&self, peer: Lid, sl: u8, delivery: Delivery, owner: QpNum) -> Option<Outstanding> {
        let sender = &self.at(peer, sl, delivery)?.sender;
        let message = sender.begun.checked_sub(1).map(|last| &sender.messages[last]).filter(|_| sender.unsent())?;
        if !matches!(message.kind, Kind::Data(_)) || message.from != owner || message.done {
            return None;
        }
        let origin = message.origin?;
        // Without an algorithm the control of a context only keeps account.
        let allowance = sender.congestion.allowance();
        Some(Outstanding {
            wr_id: origin.wr_id,
            dest: peer,
            dest_qp: message.to,
            context: Some((sl, delivery)),
            first: message.first,
            sent: sender.sent,
            unsent: message.packets - sender.sent,
            in_order: sender.again.is_empty() && sender.later.is_empty() && message.inline.is_none(),
            allowance: Some(allowance),
            recovering: sender.congestion.wakes().is_some(),
        })
    }

    /// Whether packets of the message that begins with `first` arrived from `peer`, and others are missing.
    pub(crate) fn receives(&self, peer: Lid, sl: u8, delivery: Delivery, first: Psn) -> bool {
        let context = self.at(peer, sl, delivery);
        context.is_some_and(|context| context.receiver.partial.iter().any(|partial| partial.first == first))
    }

    /// Takes `packets` off the message that a context sends from.
    pub(crate) fn shorten(&mut self, (peer, sl, delivery): (Lid, u8, Delivery), packets: u32, port: &Port, side: &mut ExtHeaders) -> bool {
        let Some(context) = self.at_mut(peer, sl, delivery) else { return false };
        let (sender, mtu) = (&mut context.sender, port.packet_mtu());
        let Some(message) = sender.begun.checked_sub(1).and_then(|last| sender.messages.get_mut(last)) else { return false };
        message.length -= packets * mtu;
        message.packets -= packets;
        if let Some(origin) = &mut message.origin {
            origin.length = message.length;
        }
        if let Some(ext) = side.at_mut(message.headers) {
            ext.dma_length = message.length;
        }
        sender.recount(mtu);
        true
    }

    /// `packets` fewer of the message that begins with `first` will come.
    pub(crate) fn expect_less(&mut self, (peer, sl, delivery): (Lid, u8, Delivery), first: Psn, packets: u32) {
        let Some(context) = self.at_mut(peer, sl, delivery) else { return };
        if let Some(partial) = context.receiver.partial.iter_mut().find(|partial| partial.first == first) {
            partial.missing -= packets;
        }
    }
}
