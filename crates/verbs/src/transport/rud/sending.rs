//! What a context sends and what it hears of it: packets, acknowledgements, timers.
//!
//! Source: Ultra Ethernet Specification 1.0, §3.5 and §3.6: a packet that was trimmed is told by a NACK and goes again when the window
//! lets it; only timeouts count against the peer; RFC 6298 (timers follow the round trip).

use fabriscope_units::Time;
use fabriscope_wire::{NakCode, Psn, Syndrome};

use super::context::{CONTEXT, Context, status_of};
use super::message::{Kind, Message, Route, Sending};
use super::sender::WINDOW;
use crate::cc::{AckInfo, Congestion, HEADERS, Loss};
use crate::ext_headers::{Ext, ExtHeaders};
use crate::packet::{Packet, PacketFlags, Received, Transmit};
use crate::port::Port;
use crate::qp::bitmap::Bitmap;
use crate::wc::WcStatus;
impl Context {
    /// The next packet, if there is one and it may be sent.
    pub(super) fn poll(&mut self, now: Time, port: &mut Port, side: &mut ExtHeaders) -> Option<Transmit> {
        let mtu = port.packet_mtu();
        let sender = &mut self.sender;
        if sender.in_order && !sender.later.is_empty() {
            return None; // the receiver would drop it
        }
        let again = sender.next_again();
        if let Some(psn) = again
            && !sender.readmits(psn, mtu)
        {
            sender.again.push_front(psn);
            return None;
        }
        if again.is_none() {
            if !sender.unsent() {
                if !sender.take_turns() {
                    return None;
                }
                let packets = sender.messages[sender.begun].packets_at(mtu);
                let message = &mut sender.messages[sender.begun];
                (message.first, message.packets) = (sender.next, packets);
                sender.begun += 1;
                sender.sent = 0;
                sender.arrived.size(WINDOW);
            }
            let payload = sender.messages[sender.begun - 1].payload(sender.sent, mtu);
            let inside = (sender.next.distance(sender.una) as u32) < WINDOW;
            if !inside || !sender.congestion.open(payload) {
                return None;
            }
        }
        if sender.on_credit && !sender.has_credit(again, mtu) {
            sender.starved = true;
            if let Some(psn) = again {
                sender.again.push_front(psn);
            }
            if sender.deadline.is_none() {
                self.start_timer(now, port);
            }
            return None;
        }
        let next = sender.congestion.next();
        if next > now {
            if let Some(psn) = again {
                sender.again.push_front(psn);
            }
            self.look_at(next, port);
            return None;
        }
        let psn = again.unwrap_or(sender.next);
        let position = sender.position_of(psn)?;
        let number = psn.distance(sender.messages[position].first) as u32;
        let last = number + 1 == sender.messages[position].packets;
        if again.is_none() {
            sender.next = psn.next();
            sender.sent += 1;
            if sender.on_credit {
                let bytes = u64::from(sender.messages[position].payload(number, mtu));
                sender.unsent = sender.unsent.saturating_sub(bytes + HEADERS);
            }
        }
        sender.starved = false;
        sender.since_asked += 1;
        let following = sender.messages[position].payload(if last { number } else { number + 1 }, mtu);
        // Receivers of Ultra Ethernet count for themselves, and are asked where the window could close on what they have not told.
        let counts = sender.messages[position].qp_type.counts_bytes() && !port.congestion.telemetry;
        let due = match counts {
            true => sender.congestion.closes(following) || sender.congestion.is_small(port.coalescing.trigger),
            false => !sender.congestion.open(following.saturating_mul(2)) || sender.since_asked >= sender.ack_interval,
        };
        let ask = last || again.is_some() || due;
        if ask {
            sender.since_asked = 0;
        }
        if sender.deadline.is_none() {
            self.start_timer(now, port);
        }
        let (start, wanted) = (self.sender.start, self.sender.wants(mtu));
        let route = Route { dest: self.peer, sl: self.sl, entropy: self.next_entropy(), start, wanted };
        let sender = &mut self.sender;
        let sent = sender.messages[position].packet(number, route, Sending { ask, repeated: again.is_some() }, port, side);
        sender.congestion.sent(now, psn, sent.packet.wire_bytes);
        if let Some(at) = sender.congestion.wakes() {
            self.look_at(at.max(now), port);
        }
        Some(sent)
    }

    /// An acknowledgement arrived: everything up to its number, the packet that it answers, and a map of those behind.
    pub(super) fn acknowledged(&mut self, now: Time, port: &mut Port, packet: &Packet, ext: &Ext, received: &mut Received) {
        let sender = &mut self.sender;
        let end = Psn::new(packet.psn).next();
        let valid = end.distance(sender.next) <= 0 && end.distance(sender.una) >= -(WINDOW as i32);
        let Ok(syndrome) = Syndrome::decode(packet.syndrome) else {
            received.dropped = true;
            return;
        };
        if !valid {
            received.dropped = true;
            return;
        }
        if self.sender.on_credit {
            self.hear_credit(now, port, ext);
        }
        let sender = &mut self.sender;
        let asked = Psn::new(ext.context);
        let known = !asked.is_before(sender.una) && asked.is_before(sender.next) && !sender.arrived.has(asked);
        let missing = syndrome == Syndrome::Nak(NakCode::PsnSequenceError);
        if packet.flags.contains(PacketFlags::TRIMMED) || missing {
            self.advance(end, port);
            if known {
                self.sender.congestion.lost(now, if missing { Loss::Gap } else { Loss::Trimmed });
                self.sender.congestion.gone(asked);
                self.again(asked);
                self.heard(now, port);
            }
            return self.continue_sending(now, port);
        }
        let accepted = matches!(syndrome, Syndrome::Ack(_));
        // The map may begin behind the first that is missing.
        let map = end + (ext.swap as u32).min(WINDOW);
        let marked = packet.flags.contains(PacketFlags::BECN);
        let told = AckInfo { end, asked: (accepted && known).then_some(asked), marked, map, ahead: ext.compare_add };
        if sender.congestion.acknowledged(now, told, &ext.links, !sender.in_order) > 0 {
            sender.congestion.lost(now, Loss::Gap);
            sender.again.extend(sender.congestion.missing());
        }
        match syndrome {
            Syndrome::Nak(code) if known => {
                self.fail(asked, status_of(code), port);
                self.again(asked);
            }
            Syndrome::RnrNak(timer) if known => {
                let sender = &mut self.sender;
                let position = sender.position_of(asked);
                if position.is_some_and(|position| !sender.messages[position].ask_again()) {
                    self.fail(asked, WcStatus::RnrRetryExcErr, port);
                    self.again(asked);
                } else {
                    sender.later.push((now + timer.span(), asked));
                    self.start_timer(now, port);
                }
            }
            _ => {}
        }
        let before = self.sender.una;
        if accepted && known {
            self.took(asked, port);
        }
        self.advance(end, port);
        let mut ahead = ext.compare_add;
        while ahead != 0 {
            let psn = map + ahead.trailing_zeros();
            ahead &= ahead - 1;
            if psn.is_before(self.sender.next) && !psn.is_before(self.sender.una) {
                self.took(psn, port);
            }
        }
        self.advance(end, port);
        if self.sender.una != before || accepted && known {
            self.heard(now, port);
        }
        self.continue_sending(now, port);
    }

    /// The peer told of a packet for the first time, that it arrived or that its payload was cut off: it is there, and the timer
    /// begins again. Only silence counts against the peer.
    pub(super) fn heard(&mut self, now: Time, port: &mut Port) {
        self.sender.silent = 0;
        if self.sender.deadline.is_some() {
            self.start_timer(now, port);
        }
    }

    /// Packet `psn` goes again; where order is kept, all that were sent after it too.
    pub(super) fn again(&mut self, psn: Psn) {
        let sender = &mut self.sender;
        if !sender.in_order {
            return sender.again.push_back(psn);
        }
        sender.again.clear();
        let mut psn = psn;
        while psn.is_before(sender.next) {
            sender.again.push_back(psn);
            psn = psn.next();
        }
    }

    /// The peer says what it gave in all.
    fn hear_credit(&mut self, now: Time, port: &mut Port, ext: &Ext) {
        let sender = &mut self.sender;
        if Psn::new(ext.start) == sender.start && sender.congestion.granted(ext.credit) {
            (sender.starved, sender.silent) = (false, 0);
            if sender.deadline.is_some() {
                self.start_timer(now, port);
            }
        }
    }

    /// Packet `psn` arrived: its message may be complete.
    pub(super) fn took(&mut self, psn: Psn, port: &mut Port) {
        let sender = &mut self.sender;
        if psn.is_before(sender.una) || sender.arrived.set(psn) {
            return;
        }
        let Some(position) = sender.position_of(psn) else { return };
        let message = &mut sender.messages[position];
        message.arrived += 1;
        let ends = matches!(message.kind, Kind::Data(_)) || message.qp_type.repeats();
        if message.arrived == message.packets && !message.done && ends {
            message.finish(WcStatus::Success, port);
        }
    }

    /// Everything before `end` arrived.
    pub(super) fn advance(&mut self, end: Psn, port: &mut Port) {
        let mut psn = self.sender.una;
        while psn.is_before(end) {
            self.took(psn, port);
            psn = psn.next();
        }
        let sender = &mut self.sender;
        while sender.una.is_before(sender.next) && sender.arrived.take(sender.una) {
            sender.una = sender.una.next();
        }
        while sender.begun > 0 && !sender.una.is_before(sender.messages[0].first + sender.messages[0].packets) {
            let Some(message) = sender.messages.pop_front() else { break };
            sender.begun -= 1;
            sender.await_answer(message, port);
        }
        if sender.is_idle() {
            sender.deadline = None;
        }
    }

    /// The peer refused the message of `psn`: it ends, others go on. What is still sent of it carries nothing.
    pub(super) fn fail(&mut self, psn: Psn, status: WcStatus, port: &mut Port) {
        if let Some(position) = self.sender.position_of(psn) {
            let message = &mut self.sender.messages[position];
            message.finish(status, port);
            message.kind = Kind::Void;
            self.sender.recount(port.packet_mtu());
        }
    }

    /// A packet of an answer: gives the request, which stays unless all of the answer is here.
    pub(super) fn answered(&mut self, request: Psn, port: &Port) -> Option<(&mut Message, bool)> {
        let sender = &mut self.sender;
        // The answer may be here before the acknowledgement of the request.
        if let Some(position) = sender.position_of(request).filter(|position| sender.messages[*position].first == request) {
            let message = sender.messages[position].clone();
            sender.messages[position].done |= sender.await_answer(message, port);
        }
        let place = sender.waiting.iter().position(|waiting| waiting.message.first == request)?;
        sender.silent = 0; // it answers, however long the answer is
        let waiting = &mut sender.waiting[place];
        waiting.missing = waiting.missing.saturating_sub(1);
        let complete = waiting.missing == 0;
        Some((&mut sender.waiting[place].message, complete))
    }

    /// Forgets a request whose answer is complete.
    pub(super) fn answered_in_full(&mut self, request: Psn) {
        self.sender.waiting.retain(|waiting| waiting.message.first != request);
    }

    /// Lines up if there is something to send, and sets the alarm that congestion control asks for.
    pub(super) fn continue_sending(&mut self, now: Time, port: &mut Port) {
        if let Some(at) = self.sender.congestion.wakes() {
            self.look_at(at.max(now), port);
        }
        if self.sender.has_more() {
            self.want(port);
        }
    }

    fn look_at(&mut self, at: Time, port: &mut Port) {
        if at < self.sender.looked {
            self.sender.looked = at;
            port.look_at(at, CONTEXT | self.index);
        }
    }

    /// The time at which pacing or congestion control wanted to be looked at.
    pub(super) fn look(&mut self, at: Time, now: Time, port: &mut Port) {
        let sender = &mut self.sender;
        if at != sender.looked {
            return;
        }
        sender.looked = Time::MAX;
        if sender.congestion.wakes().is_some_and(|at| at <= now) {
            sender.congestion.wake(now);
        }
        self.continue_sending(now, port);
    }

    pub(super) fn start_timer(&mut self, now: Time, port: &mut Port) {
        let sender = &mut self.sender;
        let patience = sender.congestion.patience(sender.timeout) * (1 << sender.silent.min(5));
        let earliest = sender.later.iter().map(|(at, _)| *at).min();
        let deadline = earliest.map_or(now + patience, |at| at.min(now + patience));
        sender.deadline = Some(deadline);
        if deadline < sender.entered {
            sender.entered = deadline;
            port.set_timer(deadline, CONTEXT | self.index);
        }
    }

    /// The heap entry for `at` came up.
    pub(super) fn handle_timeout(&mut self, at: Time, now: Time, port: &mut Port) {
        let sender = &mut self.sender;
        if at != sender.entered {
            return; // superseded
        }
        sender.entered = Time::MAX;
        let Some(deadline) = sender.deadline else { return };
        if deadline > now {
            sender.entered = deadline;
            port.set_timer(deadline, CONTEXT | self.index);
            return;
        }
        let (again, in_order, una, next) = (&mut sender.again, sender.in_order, sender.una, sender.next);
        let mut due = false;
        sender.later.retain(|(at, psn)| {
            let now_due = *at <= now;
            if now_due && !in_order {
                again.push_back(*psn);
            }
            due |= now_due;
            !now_due
        });
        if due && in_order {
            again.clear();
            again.extend((0..next.distance(una)).map(|ahead| una + ahead as u32));
        }
        if !due {
            sender.silent += 1;
            port.counts.ack_timeouts += 1;
            if sender.silent > MOST_TIMEOUTS {
                return self.give_up(WcStatus::RetryExcErr, port);
            }
            if sender.una != sender.next || sender.starved {
                sender.congestion.lost(now, Loss::Timeout);
            }
            sender.again.clear();
            let mut psn = sender.una;
            while psn.is_before(sender.next) {
                if !sender.arrived.has(psn) && !sender.later.iter().any(|(_, later)| *later == psn) {
                    sender.congestion.gone(psn);
                    sender.again.push_back(psn);
                }
                psn = psn.next();
            }
        }
        sender.deadline = None;
        if !self.sender.is_idle() {
            self.start_timer(now, port);
        }
        self.continue_sending(now, port);
    }

    /// The peer does not answer: everything that is for it ends. What comes later begins a new incarnation.
    fn give_up(&mut self, status: WcStatus, port: &mut Port) {
        let sender = &mut self.sender;
        for message in sender.messages.iter_mut().chain(sender.waiting.iter_mut().map(|waiting| &mut waiting.message)) {
            message.finish(status, port);
        }
        sender.messages.clear();
        sender.answers.clear();
        sender.waiting.clear();
        sender.again.clear();
        sender.later.clear();
        (sender.begun, sender.sent, sender.silent, sender.deadline) = (0, 0, 0, None);
        (sender.unsent, sender.starved) = (0, false);
        sender.arrived = Bitmap::new(WINDOW);
        (sender.una, sender.start) = (sender.next, sender.next);
        let una = sender.una;
        sender.congestion.settle(una);
        if sender.on_credit {
            sender.congestion = Congestion::always(&port.congestion); // the peer counts from nothing too
        }
    }
}

/// Timeouts in a row, each up to 32 times as long as the first, after which the peer counts as gone. Basis: assumed, as RC's
/// seven repetitions.
const MOST_TIMEOUTS: u32 = 7;
