//! The sending half of a context: numbers, window, repetition, acknowledgements.
//!
//! Modelled: a window of packets, each acknowledged on its own; where order is kept, everything from the missing packet on goes again; loss found by trimming, by time (a packet is missing when one
//! that left a round trip later has arrived, RFC 8985) and by a timer; completions in the order in which messages are
//! complete.
//! Not modelled: –

use std::collections::VecDeque;

use fabriscope_units::{Bytes, Span, Time};
use fabriscope_wire::{Delivery, NakCode, Psn, Syndrome};

use super::message::{Kind, Message, Route};
use super::{CONTEXT, Context, status_of};
use crate::cc::{AckInfo, Congestion, HEADERS, Loss};
use crate::ext_headers::{Ext, ExtHeaders};
use crate::ids::QpNum;
use crate::packet::{Packet, PacketFlags, Received, Transmit};
use crate::port::Port;
use crate::qp::bitmap::Bitmap;
use crate::wc::WcStatus;

/// The sending half of a context.
pub(crate) struct Sender {
    /// Begun and not known to have arrived as a whole, in the order of their numbers, then those not begun.
    pub(super) messages: VecDeque<Message>,
    /// Answers to the peer that have not begun: they and the messages of queue pairs take turns, so that no request waits behind them all.
    answers: VecDeque<Message>,
    /// The message that began last was an answer.
    answered: bool,
    /// Bytes on the wire of their packets that were never sent, about.
    unsent: u64,
    /// Messages at the front that have begun.
    begun: usize,
    /// Packets of the message at `begun - 1` that were sent.
    sent: u32,
    /// The oldest packet not known to have arrived, the next new one.
    pub(super) una: Psn,
    pub(super) next: Psn,
    pub(super) arrived: Bitmap,
    again: VecDeque<Psn>,
    /// Packets for which there was no receive, and when they go again.
    later: Vec<(Time, Psn)>,
    since_asked: u32,
    pub(super) congestion: Congestion,
    /// Packets are taken in order only.
    in_order: bool,
    /// Packets leave on credit of the receiver only; and this one has run out of it.
    on_credit: bool,
    starved: bool,
    timeout: Span,
    ack_interval: u32,
    deadline: Option<Time>,
    /// The earliest time in the port's heap of timers, and in its heap of pacing.
    entered: Time,
    looked: Time,
    /// Timeouts in a row without progress.
    pub(super) silent: u32,
    /// The number at which this incarnation of the context began; packets carry it.
    pub(super) start: Psn,
    /// READs and atomics whose requests arrived and whose answers are not complete.
    pub(super) waiting: Vec<Waiting>,
}

/// A request that waits for its answer.
pub(super) struct Waiting {
    pub(super) message: Message,
    pub(super) missing: u32,
}

impl Sender {
    pub(super) fn new(port: &Port, delivery: Delivery) -> Sender {
        let settings = &port.congestion;
        Sender {
            messages: VecDeque::new(),
            answers: VecDeque::new(),
            answered: false,
            unsent: 0,
            begun: 0,
            sent: 0,
            una: Psn::default(),
            next: Psn::default(),
            arrived: Bitmap::new(WINDOW),
            again: VecDeque::new(),
            later: Vec::new(),
            since_asked: 0,
            congestion: Congestion::always(settings),
            in_order: delivery == Delivery::Rod,
            on_credit: settings.gives_credit() && delivery != Delivery::Rudi,
            starved: false,
            timeout: settings.timeout.unwrap_or(TIMEOUT),
            ack_interval: settings.ack_interval.unwrap_or(1),
            deadline: None,
            entered: Time::MAX,
            looked: Time::MAX,
            silent: 0,
            start: Psn::default(),
            waiting: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, message: Message, mtu: u32) {
        if self.on_credit {
            self.unsent += weight(&message, 0, mtu);
        }
        match message.kind {
            Kind::ReadResponse { .. } | Kind::AtomicResponse { .. } => self.answers.push_back(message),
            _ => self.messages.push_back(message),
        }
    }

    /// Counts again what was never sent: messages ended before they had begun, or end early.
    fn recount(&mut self, mtu: u32) {
        if self.on_credit {
            let of = |message: &Message| if message.packets == 0 { weight(message, 0, mtu) } else { 0 };
            self.unsent = self.messages.iter().chain(&self.answers).map(of).sum();
            if self.begun > 0 {
                self.unsent += weight(&self.messages[self.begun - 1], self.sent, mtu);
            }
        }
    }

    /// What to ask of the receiver with the next packet.
    fn wants(&self, mtu: u32) -> u32 {
        let again = self.again.len() as u64 * (u64::from(mtu) + HEADERS);
        if self.on_credit { self.congestion.wants(Bytes(self.unsent + again)) } else { 0 }
    }

    /// Puts the message that begins next at its place, if there is one.
    fn take_turns(&mut self) -> bool {
        let own = self.begun < self.messages.len();
        self.answered = !(self.answers.is_empty() || own && self.answered);
        if self.answered
            && let Some(answer) = self.answers.pop_front()
        {
            self.messages.insert(self.begun, answer);
        }
        own || self.answered
    }

    /// Whether there is anything that may be sent, now or later.
    pub(super) fn has_more(&self) -> bool {
        !self.again.is_empty() || self.begun < self.messages.len() || !self.answers.is_empty() || self.unsent()
    }

    /// Whether nothing is on its way or waited for.
    fn is_idle(&self) -> bool {
        self.una == self.next && self.waiting.is_empty() && self.later.is_empty() && !(self.starved && self.has_more())
    }

    /// Whether the message that began last has packets not sent yet.
    fn unsent(&self) -> bool {
        self.begun > 0 && self.sent < self.messages[self.begun - 1].packets
    }

    /// The message of a packet that was sent.
    pub(super) fn position_of(&self, psn: Psn) -> Option<usize> {
        // Messages that have not begun have no packets yet.
        let before = |message: &Message| message.packets > 0 && !psn.is_before(message.first + message.packets);
        let position = self.messages.partition_point(before);
        (position < self.begun).then_some(position)
    }

    /// A request waits for its answer from now on; false if there is nothing to wait for, or it waits already.
    fn await_answer(&mut self, message: Message, port: &Port) -> bool {
        let missing = message.answer_packets(port.packet_mtu());
        let waits = missing > 0 && !message.done && !self.waiting.iter().any(|waiting| waiting.message.first == message.first);
        if waits {
            self.waiting.push(Waiting { message, missing });
        }
        waits
    }

    /// Whether there is credit for the packet `again`, or for the next new one.
    fn has_credit(&self, again: Option<Psn>, mtu: u32) -> bool {
        let psn = again.unwrap_or(self.next);
        let message = self.position_of(psn).map(|position| &self.messages[position]);
        let payload = message.map_or(0, |message| message.payload(psn.distance(message.first) as u32, mtu));
        self.congestion.has_credit(payload.saturating_add(HEADERS as u16))
    }

    /// Takes the next packet that goes again; those that arrived meanwhile are passed over.
    fn next_again(&mut self) -> Option<Psn> {
        while let Some(psn) = self.again.pop_front() {
            if !psn.is_before(self.una) && psn.is_before(self.next) && !self.arrived.has(psn) {
                return Some(psn);
            }
        }
        None
    }

    /// A request of `owner` that has not begun is flushed; one that has ends without a completion.
    pub(super) fn forget(&mut self, owner: QpNum, port: &mut Port) {
        let begun = self.begun;
        let of = |message: &Message| message.origin.is_some_and(|origin| origin.qp == owner);
        for (place, message) in self.messages.iter_mut().enumerate() {
            if of(message) {
                message.finish(WcStatus::WrFlushErr, port);
                if place >= begun {
                    message.origin = None;
                }
            }
        }
        for waiting in self.waiting.iter_mut().filter(|waiting| of(&waiting.message)) {
            waiting.message.finish(WcStatus::WrFlushErr, port);
        }
        let mut place = 0;
        self.messages.retain(|message| {
            place += 1;
            place <= begun || !message.done
        });
        self.recount(port.packet_mtu());
    }
}

/// Bytes on the wire, about, of the packets of a message from number `sent` on.
fn weight(message: &Message, sent: u32, mtu: u32) -> u64 {
    let packets = u64::from(message.packets_at(mtu).saturating_sub(sent));
    let bytes = message.length.saturating_sub(sent.saturating_mul(mtu));
    packets * HEADERS + if message.payload(0, mtu) > 0 { u64::from(bytes) } else { 0 }
}

impl Context {
    /// The next packet, if there is one and it may be sent.
    pub(super) fn poll(&mut self, now: Time, port: &mut Port, side: &mut ExtHeaders) -> Option<Transmit> {
        let mtu = port.packet_mtu();
        let sender = &mut self.sender;
        if sender.in_order && !sender.later.is_empty() {
            return None; // the receiver would drop it
        }
        let again = sender.next_again();
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
        let closes = !sender.congestion.open(following.saturating_mul(2));
        let ask = last || again.is_some() || closes || sender.since_asked >= sender.ack_interval;
        if ask {
            sender.since_asked = 0;
        }
        if sender.deadline.is_none() {
            self.start_timer(now, port);
        }
        let (start, wanted) = (self.sender.start, self.sender.wants(mtu));
        let route = Route { dest: self.peer, sl: self.sl, entropy: self.next_entropy(), start, wanted };
        let sender = &mut self.sender;
        let sent = sender.messages[position].packet(number, route, ask, again.is_some(), port, side);
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
                self.again(asked);
            }
            return self.continue_sending(now, port);
        }
        let before = sender.una;
        let accepted = matches!(syndrome, Syndrome::Ack(_));
        let told = AckInfo { end, asked: (accepted && known).then_some(asked), marked: packet.flags.contains(PacketFlags::BECN) };
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
        if accepted && known {
            self.took(asked, port);
        }
        self.advance(end, port);
        for bit in 0..64 {
            let psn = end + bit;
            if ext.compare_add >> bit & 1 == 1 && psn.is_before(self.sender.next) && !psn.is_before(self.sender.una) {
                self.sender.congestion.note_arrived(psn);
                self.took(psn, port);
            }
        }
        self.advance(end, port);
        if self.sender.una != before {
            self.sender.silent = 0;
            self.start_timer(now, port);
        }
        self.continue_sending(now, port);
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
            port.paced.push(std::cmp::Reverse((at, CONTEXT | self.index)));
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
        let patience = sender.timeout * (1 << sender.silent.min(5));
        let earliest = sender.later.iter().map(|(at, _)| *at).min();
        let deadline = earliest.map_or(now + patience, |at| at.min(now + patience));
        sender.deadline = Some(deadline);
        if deadline < sender.entered {
            sender.entered = deadline;
            port.timers.push(std::cmp::Reverse((deadline, CONTEXT | self.index)));
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
            port.timers.push(std::cmp::Reverse((deadline, CONTEXT | self.index)));
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

/// Packets on their way at most, to one peer; also the size of the map of those that arrived. Basis: assumed; 16 MiB at 4 KiB
/// cover 335 us at 400 Gb/s.
pub(super) const WINDOW: u32 = 1 << 12;
/// How long to wait for an acknowledgement where nothing else is said. Basis: assumed; SRD is published to repeat "much sooner
/// than TCP", whose shortest timer is 1 ms on the operating systems it was compared with.
const TIMEOUT: Span = Span::from_us(500);
/// Timeouts in a row, each up to 32 times as long as the first, after which the peer counts as gone. Basis: assumed, as RC's
/// seven repetitions.
const MOST_TIMEOUTS: u32 = 7;
