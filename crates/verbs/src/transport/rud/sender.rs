//! The sending half of a context: numbers, window, repetition, acknowledgements.
//!
//! Modelled: a window of packets, each acknowledged on its own; where order is kept, everything from the missing packet on goes again; loss found by trimming, by time (a packet is missing when one
//! that left a round trip later has arrived, RFC 8985) and by a timer; completions in the order in which messages are
//! complete.
//! Not modelled: –

use std::collections::VecDeque;

use fabriscope_units::{Bytes, Span, Time};
use fabriscope_wire::{Delivery, Psn};

use super::message::{Kind, Message};
use crate::cc::{Congestion, HEADERS};
use crate::ids::QpNum;
use crate::port::Port;
use crate::qp::bitmap::Bitmap;
use crate::wc::WcStatus;

/// The sending half of a context.
pub(crate) struct Sender {
    /// Begun and not known to have arrived as a whole, in the order of their numbers, then those not begun.
    pub(super) messages: VecDeque<Message>,
    /// Answers to the peer that have not begun: they and the messages of queue pairs take turns, so that no request waits behind them all.
    pub(super) answers: VecDeque<Message>,
    /// The message that began last was an answer.
    pub(super) answered: bool,
    /// Bytes on the wire of their packets that were never sent, about.
    pub(super) unsent: u64,
    /// Messages at the front that have begun.
    pub(super) begun: usize,
    /// Packets of the message at `begun - 1` that were sent.
    pub(super) sent: u32,
    /// The oldest packet not known to have arrived, the next new one.
    pub(super) una: Psn,
    pub(super) next: Psn,
    pub(super) arrived: Bitmap,
    pub(super) again: VecDeque<Psn>,
    /// Packets for which there was no receive, and when they go again.
    pub(super) later: Vec<(Time, Psn)>,
    pub(super) since_asked: u32,
    pub(super) congestion: Congestion,
    /// Packets are taken in order only.
    pub(super) in_order: bool,
    /// Packets leave on credit of the receiver only; and this one has run out of it.
    pub(super) on_credit: bool,
    pub(super) starved: bool,
    pub(super) timeout: Span,
    pub(super) ack_interval: u32,
    pub(super) deadline: Option<Time>,
    /// The earliest time in the port's heap of timers, and in its heap of pacing.
    pub(super) entered: Time,
    pub(super) looked: Time,
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
            arrived: Bitmap::default(), // sized with the first packet
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
    pub(super) fn recount(&mut self, mtu: u32) {
        if self.on_credit {
            let of = |message: &Message| if message.packets == 0 { weight(message, 0, mtu) } else { 0 };
            self.unsent = self.messages.iter().chain(&self.answers).map(of).sum();
            if self.begun > 0 {
                self.unsent += weight(&self.messages[self.begun - 1], self.sent, mtu);
            }
        }
    }

    /// What to ask of the receiver with the next packet.
    pub(super) fn wants(&self, mtu: u32) -> u32 {
        let again = self.again.len() as u64 * (u64::from(mtu) + HEADERS);
        if self.on_credit { self.congestion.wants(Bytes(self.unsent + again)) } else { 0 }
    }

    /// Puts the message that begins next at its place, if there is one.
    pub(super) fn take_turns(&mut self) -> bool {
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
    pub(super) fn is_idle(&self) -> bool {
        self.una == self.next && self.waiting.is_empty() && self.later.is_empty() && !(self.starved && self.has_more())
    }

    /// Whether the message that began last has packets not sent yet.
    pub(super) fn unsent(&self) -> bool {
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
    pub(super) fn await_answer(&mut self, message: Message, port: &Port) -> bool {
        let missing = message.answer_packets(port.packet_mtu());
        let waits = missing > 0 && !message.done && !self.waiting.iter().any(|waiting| waiting.message.first == message.first);
        if waits {
            self.waiting.push(Waiting { message, missing });
        }
        waits
    }

    /// Whether the window lets packet `psn` go again.
    pub(super) fn readmits(&mut self, psn: Psn, mtu: u32) -> bool {
        let message = self.position_of(psn).map(|position| &self.messages[position]);
        let payload = message.map_or(0, |message| message.payload(psn.distance(message.first) as u32, mtu));
        self.congestion.readmits(psn, payload)
    }

    /// Whether there is credit for the packet `again`, or for the next new one.
    pub(super) fn has_credit(&self, again: Option<Psn>, mtu: u32) -> bool {
        let psn = again.unwrap_or(self.next);
        let message = self.position_of(psn).map(|position| &self.messages[position]);
        let payload = message.map_or(0, |message| message.payload(psn.distance(message.first) as u32, mtu));
        self.congestion.has_credit(payload.saturating_add(HEADERS as u16))
    }

    /// Takes the next packet that goes again; those that arrived meanwhile are passed over.
    pub(super) fn next_again(&mut self) -> Option<Psn> {
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
pub(super) fn weight(message: &Message, sent: u32, mtu: u32) -> u64 {
    let packets = u64::from(message.packets_at(mtu).saturating_sub(sent));
    let bytes = message.length.saturating_sub(sent.saturating_mul(mtu));
    packets * HEADERS + if message.payload(0, mtu) > 0 { u64::from(bytes) } else { 0 }
}

/// Packets on their way at most, to one peer; also the size of the map of those that arrived. Basis: assumed; 16 MiB at 4 KiB
/// cover 335 us at 400 Gb/s.
pub(super) const WINDOW: u32 = 1 << 12;
/// How long to wait for an acknowledgement where nothing else is said. Basis: assumed; SRD is published to repeat "much sooner
/// than TCP", whose shortest timer is 1 ms on the operating systems it was compared with.
pub(super) const TIMEOUT: Span = Span::from_us(500);
