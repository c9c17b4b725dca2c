//! The contexts of a NIC: which one a message or packet is for, and who is given credit.

use std::collections::VecDeque;

use fabriscope_prefetch::{prefetch, prefetch_lines};
use fabriscope_units::Time;
use fabriscope_wire::Delivery;
use rustc_hash::FxHashMap;

use super::context::{ANSWER, CONTEXT, Context, GRANT};
use super::idempotent::{self, Answer};
use super::message::Message;
use super::receiver::Receiver;
use super::sender::Sender;
use crate::attr::QpType;
use crate::cc::{Granter, Scheme, Settings};
use crate::ext_headers::{Ext, ExtHeaders};
use crate::ids::{Lid, QpNum};
use crate::packet::{Packet, Received, Transmit};
use crate::port::Port;
use crate::qp::Qp;
use crate::transport::ud::datagram;
use crate::wc::WcStatus;

/// The contexts of a NIC.
#[derive(Default)]
pub(crate) struct Contexts {
    list: Vec<Context>,
    /// Whose they are.
    peers: Vec<(Lid, u8, Delivery)>,
    /// Where each of them stands, where there are more than [`FEW`].
    by_peer: FxHashMap<(Lid, u8, Delivery), u32>,
    /// Answers to packets of idempotent delivery, to whom they came from.
    answers: VecDeque<Answer>,
    /// Under receiver credits: who gets the next.
    granter: Option<Box<Granter>>,
}

impl Contexts {
    /// None yet.
    pub(crate) fn new(settings: &Settings) -> Contexts {
        let granter = settings.algorithm.and_then(|algorithm| algorithm.granter(settings.line)).map(Box::new);
        Contexts { granter, ..Contexts::default() }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Where the context of a peer stands, if there is one.
    #[inline]
    fn place(&self, peer: Lid, sl: u8, delivery: Delivery) -> Option<u32> {
        let key = (peer, sl, delivery);
        if self.peers.len() > FEW {
            return self.by_peer.get(&key).copied();
        }
        self.peers.iter().position(|other| *other == key).map(|place| place as u32)
    }

    /// Fetches what [`prefetch`](Self::prefetch) looks at; to be called some time before.
    #[inline]
    pub(crate) fn prefetch_peers(&self) {
        if let Some(first) = self.peers.first() {
            prefetch(first);
        }
    }
    /// Fetches the context of the sender of a packet, or without a packet the one of `turn`.
    pub(crate) fn prefetch(&self, ext: Option<&Ext>, turn: Option<u32>) {
        let index = match ext {
            // The service level is not in the extension; nearly all contexts are of the first.
            Some(ext) => self.place(ext.slid, 0, ext.delivery),
            None => turn.filter(|turn| turn & CONTEXT != 0).map(|turn| turn & !CONTEXT),
        };
        if let Some(context) = index.and_then(|index| self.list.get(index as usize)) {
            prefetch_lines::<Context, 12>(context);
        }
    }

    /// The context of a peer, if there is one.
    pub(super) fn at(&self, peer: Lid, sl: u8, delivery: Delivery) -> Option<&Context> {
        self.list.get(self.place(peer, sl, delivery)? as usize)
    }
    /// The same to change.
    pub(super) fn at_mut(&mut self, peer: Lid, sl: u8, delivery: Delivery) -> Option<&mut Context> {
        let place = self.place(peer, sl, delivery)?;
        self.list.get_mut(place as usize)
    }

    fn of(&mut self, peer: Lid, sl: u8, delivery: Delivery, port: &Port) -> &mut Context {
        let next = self.list.len() as u32;
        let index = self.place(peer, sl, delivery).unwrap_or(next);
        if index == next {
            self.peers.push((peer, sl, delivery));
            if self.peers.len() > FEW {
                self.by_peer.extend(self.peers.iter().copied().zip(0..).skip(self.by_peer.len()));
            }
            if self.list.len() == self.list.capacity() {
                // Many adapters have one or two, and they are large.
                self.list.reserve_exact(self.list.len().max(1));
            }
            self.list.push(Context {
                index,
                peer,
                sl,
                delivery,
                queued: false,
                answering: false,
                entropy: crate::qp::modify::entropy(port.lid, peer, index),
                sender: Sender::new(port, delivery),
                receiver: Receiver::new(),
            });
        }
        &mut self.list[index as usize]
    }

    /// A request of a queue pair, or an answer to one.
    pub(crate) fn post(&mut self, peer: Lid, sl: u8, message: Message, port: &mut Port) {
        let context = self.of(peer, sl, message.qp_type.delivery(), port);
        context.sender.push(message, port.packet_mtu());
        context.want(port);
    }

    /// The acknowledgement that the context at `index` owes.
    pub(crate) fn poll_ack(&mut self, index: u32, port: &mut Port, side: &mut ExtHeaders) -> Option<Transmit> {
        if index == ANSWER {
            return self.answers.pop_front().map(|answer| answer.packet(port, side));
        }
        let context = self.list.get_mut(index as usize)?;
        context.answering = false;
        let credit = self.granter.as_mut().map_or(0, |granter| granter.granted(index));
        let sent = context.poll_ack(credit, port, side);
        if context.receiver.owes() {
            context.want_to_answer(port);
        }
        sent
    }

    /// The next packet of the context at `index`.
    pub(crate) fn poll(&mut self, index: u32, now: Time, port: &mut Port, side: &mut ExtHeaders) -> Option<Transmit> {
        let context = self.list.get_mut(index as usize)?;
        context.queued = false;
        let sent = context.poll(now, port, side);
        if sent.is_some() && context.sender.has_more() {
            context.want(port);
        }
        sent
    }

    /// A packet of reliable unordered delivery arrived; who sent it stands in its extension.
    pub(crate) fn handle(
        &mut self,
        target: Option<&mut Qp>,
        now: Time,
        port: &mut Port,
        packet: &Packet,
        side: &mut ExtHeaders,
        received: &mut Received,
    ) {
        let Some(ext) = side.at_mut(packet.ext) else {
            received.dropped = true;
            return;
        };
        match (ext.delivery, target) {
            (Delivery::Uud, Some(qp)) if idempotent::is_whole(packet) && qp.qp_type == QpType::UetUud => {
                datagram::take(qp, port, packet, ext, received);
            }
            (Delivery::Uud, _) => received.dropped = true,
            (Delivery::Rudi, target) => self.handle_idempotent(target, now, port, packet, ext, received),
            (_, target) => self.handle_in_context(target, now, port, packet, ext, received),
        }
        side.free(packet.ext);
    }

    fn handle_in_context(
        &mut self,
        target: Option<&mut Qp>,
        now: Time,
        port: &mut Port,
        packet: &Packet,
        ext: &mut Ext,
        received: &mut Received,
    ) {
        let context = self.of(ext.slid, packet.sl, ext.delivery, port);
        if packet.opcode & 0x1f == fabriscope_wire::Operation::Acknowledge as u8 {
            context.acknowledged(now, port, packet, ext, received);
            return;
        }
        let (wanted, begins, index) = (ext.credit, context.receiver.begins(ext), context.index);
        let answer = context.arrived(target, port, packet, ext, received);
        if let Some(message) = answer {
            context.sender.push(message, port.packet_mtu());
            context.want(port);
        }
        if let Some(granter) = &mut self.granter {
            if begins {
                granter.restart(index);
            }
            if let Some(at) = granter.heard(now, index, wanted) {
                port.look_at(at, CONTEXT | GRANT);
            }
        }
    }

    /// Gives the next credit.
    fn grant(&mut self, now: Time, port: &mut Port) {
        let Some(granter) = &mut self.granter else { return };
        let (sender, again) = granter.grant(now);
        if let Some(at) = again {
            port.look_at(at, CONTEXT | GRANT);
        }
        if let Some(context) = sender.and_then(|sender| self.list.get_mut(sender as usize)) {
            context.receiver.owe_credit();
            context.want_to_answer(port);
        }
    }

    /// The deadline of the context at `index` may have come.
    pub(crate) fn handle_timeout(&mut self, index: u32, at: Time, now: Time, port: &mut Port) {
        if let Some(context) = self.list.get_mut(index as usize) {
            context.handle_timeout(at, now, port);
        }
    }

    /// The time at which pacing or congestion control wanted to be looked at.
    pub(crate) fn look(&mut self, index: u32, at: Time, now: Time, port: &mut Port) {
        if index == GRANT {
            self.grant(now, port);
        } else if let Some(context) = self.list.get_mut(index as usize) {
            context.look(at, now, port);
        }
    }

    /// The queue pair failed or is gone: what it asked for and has not begun is flushed, the rest ends in silence.
    pub(crate) fn forget(&mut self, owner: QpNum, port: &mut Port) {
        for context in &mut self.list {
            context.sender.forget(owner, port);
            context.receiver.abandon(WcStatus::WrFlushErr, port, |_, target| target == owner);
        }
    }

    /// A packet of idempotent delivery: a request is carried out, an answer goes to the context that asked.
    fn handle_idempotent(
        &mut self,
        target: Option<&mut Qp>,
        now: Time,
        port: &mut Port,
        packet: &Packet,
        ext: &Ext,
        received: &mut Received,
    ) {
        if !idempotent::is_answer(packet) {
            self.answers.push_back(idempotent::execute(target, port, packet, ext, received));
            return port.acks.push_back(CONTEXT | ANSWER);
        }
        match self.at_mut(ext.slid, packet.sl, Delivery::Rudi) {
            Some(context) => context.answered_alone(now, port, packet, ext, received),
            None => received.dropped = true,
        }
    }
}

/// So many contexts are looked through one by one. Basis: assumed, a cache line of them.
const FEW: usize = 8;
