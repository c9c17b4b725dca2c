//! Messages between connection managers: what each brings about, and their repetition.

use fabriscope_units::{Span, Time};

use super::abi::{AddressVector, Param, Terms};
use super::{Address, Connections, DATAGRAM_QKEY, Identifier, Port, State, TIME_WAIT, kind, reason};

/// Room for a program's private data in a request, whose first 36 bytes are the connection manager's.
pub(super) const REQUEST_ROOM: usize = 56;
/// The same in a lookup.
pub(super) const LOOKUP_ROOM: usize = 180;
const REPLY_ROOM: usize = 196;
const READY_ROOM: usize = 224;
const REJECT_ROOM: usize = 148;
const FOUND_ROOM: usize = 136;
const GOODBYE_ROOM: usize = 220;

/// How long an answer is waited for (4.096 us << 20), and how often a message is sent.
const AGAIN: Span = Span::from_us(4_294_967);
const TRIES: u32 = 15;

/// What one connection manager tells another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    /// REQ, or SIDR_REQ for datagrams: somebody wants to be connected to who listens at `remote`.
    Request { from: u32, local: Address, remote: Address, space: u16, terms: Terms },
    /// REP.
    Reply { from: u32, to: u32, terms: Terms },
    /// RTU.
    Ready { to: u32 },
    /// REJ; of a request that got no identifier, the asker's alone is known.
    Reject { from: u32, to: Option<u32>, reason: u32, private: Vec<u8> },
    /// DREQ.
    Disconnect { to: u32 },
    /// DREP.
    Disconnected { to: u32 },
    /// SIDR_REP.
    Found { to: u32, terms: Terms },
}

/// A message, and between which ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outgoing {
    pub from: Port,
    pub to: Port,
    pub message: Message,
}

impl Connections {
    pub(super) fn send(&mut self, of: &Identifier, message: Message) {
        if let (Some(nic), Some(to)) = (of.nic, of.to) {
            self.outbox.push(Outgoing { from: (of.node, nic), to, message });
        }
    }
    /// Sends it until it is answered.
    pub(super) fn expect_answer(&mut self, now: Time, id: u32, of: &Identifier, message: Message) {
        if let (Some(nic), Some(to)) = (of.nic, of.to) {
            let out = Outgoing { from: (of.node, nic), to, message };
            self.outbox.push(out.clone());
            self.unanswered.insert(id, super::Unanswered { out, again: now + AGAIN, tries: 1 });
        }
    }
    /// What a host is to send now.
    pub fn take_outgoing(&mut self, node: u32) -> Vec<Outgoing> {
        let (own, others) = std::mem::take(&mut self.outbox).into_iter().partition(|out: &Outgoing| out.from.0 == node);
        self.outbox = others;
        own
    }
    /// When a host has to repeat something.
    pub fn next_repetition(&self, node: u32) -> Option<Time> {
        self.unanswered.values().filter(|waiting| waiting.out.from.0 == node).map(|waiting| waiting.again).min()
    }
    /// Repeats what was not answered in time, or gives up.
    pub fn handle_timeout(&mut self, now: Time, node: u32) {
        let is_due = |waiting: &super::Unanswered| waiting.out.from.0 == node && waiting.again <= now;
        let due: Vec<u32> = self.unanswered.iter().filter(|(_, waiting)| is_due(waiting)).map(|(id, _)| *id).collect();
        for id in due {
            let Some(waiting) = self.unanswered.get_mut(&id) else { continue };
            if waiting.tries < TRIES {
                waiting.tries += 1;
                waiting.again = now + AGAIN;
                let out = waiting.out.clone();
                self.outbox.push(out);
                continue;
            }
            let parting = matches!(waiting.out.message, Message::Disconnect { .. });
            self.unanswered.remove(&id);
            if let Ok(of) = self.id(id) {
                of.state = State::Over;
            }
            let what = if parting { (kind::DISCONNECTED, 0) } else { (kind::UNREACHABLE, -libc::ETIMEDOUT) };
            self.tell(now, id, what, (Param::Nothing, 0));
        }
    }

    /// A message has come to a port from another one; `vector` is where datagrams to that one go.
    pub fn handle(&mut self, now: Time, at: Port, (from, vector): (Port, AddressVector), message: Message) {
        match message {
            Message::Request { from: peer, local, remote, space, terms } => self.asked(now, at, from, (peer, local, remote, space, terms)),
            Message::Reply { from: peer, to, terms } => {
                let Ok(of) = self.id(to) else { return };
                if of.state != State::Asks {
                    return;
                }
                (of.state, of.peer, of.theirs) = (State::Agreed, Some(peer), terms.clone());
                self.unanswered.remove(&to);
                self.tell(now, to, (kind::CONNECT_RESPONSE, 0), (Param::Connection(as_heard(terms)), REPLY_ROOM));
            }
            Message::Ready { to } => {
                let Ok(of) = self.id(to) else { return };
                if of.state == State::Agrees {
                    of.state = State::Connected;
                    self.unanswered.remove(&to);
                    self.tell(now, to, (kind::ESTABLISHED, 0), (Param::Connection(Terms::default()), READY_ROOM));
                }
            }
            Message::Reject { from: peer, to, reason, private } => {
                let to = to.or_else(|| self.ids.iter().find(|(_, of)| of.peer == Some(peer) && of.node == at.0).map(|(id, _)| *id));
                let Some(to) = to else { return };
                let Ok(of) = self.id(to) else { return };
                if matches!(of.state, State::Asks | State::Asked | State::Agrees | State::Agreed) {
                    of.state = State::Over;
                    self.unanswered.remove(&to);
                    let terms = Terms { private, ..Terms::default() };
                    self.tell(now, to, (kind::REJECTED, reason as i32), (Param::Connection(terms), REJECT_ROOM));
                }
            }
            Message::Disconnect { to } => match self.id(to) {
                Ok(of) if matches!(of.state, State::Connected | State::Agrees | State::Agreed) => {
                    of.state = State::Parted;
                    self.unanswered.remove(&to);
                    self.tell(now, to, (kind::DISCONNECTED, 0), (Param::Connection(Terms::default()), GOODBYE_ROOM));
                }
                // Both went at once: each has asked, and that is the answer.
                Ok(of) if of.state == State::Parting => self.parted(now, to),
                _ => {}
            },
            Message::Disconnected { to } => {
                if self.id(to).is_ok_and(|of| of.state == State::Parting) {
                    self.parted(now, to);
                }
            }
            Message::Found { to, terms } => {
                let Ok(of) = self.id(to) else { return };
                if of.state == State::Asks {
                    (of.state, of.theirs) = (State::Connected, terms.clone());
                    self.unanswered.remove(&to);
                    self.tell(now, to, (kind::ESTABLISHED, 0), (Param::Datagram(terms, vector), FOUND_ROOM));
                }
            }
        }
    }

    fn parted(&mut self, now: Time, id: u32) {
        if let Ok(of) = self.id(id) {
            of.state = State::Over;
        }
        self.unanswered.remove(&id);
        self.tell(now, id, (kind::DISCONNECTED, 0), (Param::Nothing, 0));
        self.tell(now + TIME_WAIT, id, (kind::TIMEWAIT_EXIT, 0), (Param::Nothing, 0));
    }

    /// Somebody asks who listens here.
    fn asked(&mut self, now: Time, at: Port, from: Port, (peer, local, remote, space, terms): (u32, Address, Address, u16, Terms)) {
        if self.ids.values().any(|of| of.peer == Some(peer) && of.state != State::Over) {
            // It was asked before, and the answer is on its way.
            return;
        }
        let listener = self.ports.get(&(at.0, space, remote.1)).copied();
        let fits = |of: &&Identifier| matches!(of.state, State::Listening { .. }) && of.nic.is_none_or(|nic| nic == at.1);
        let Some(by) = listener.and_then(|id| self.ids.get(&id)).filter(fits).cloned() else {
            let message = Message::Reject { from: 0, to: Some(peer), reason: reason::NO_SERVICE, private: Vec::new() };
            self.outbox.push(Outgoing { from: at, to: from, message });
            return;
        };
        let State::Listening { backlog } = by.state else { return };
        let waiting = self.ids.values().filter(|of| of.listener == listener && of.state == State::Asked && !of.known).count();
        if waiting >= backlog {
            // It asks again.
            return;
        }
        let id = self.create(at.0, by.channel, (0, space));
        let heard = terms.clone();
        if let Ok(of) = self.id(id) {
            (of.nic, of.to, of.local, of.remote) = (Some(at.1), Some(from), remote, local);
            (of.state, of.peer, of.theirs, of.listener) = (State::Asked, Some(peer), terms, listener);
            of.known = false;
        }
        let (param, room) = if by.is_datagram() {
            (Param::Datagram(Terms { qkey: DATAGRAM_QKEY, ..heard }, AddressVector::default()), LOOKUP_ROOM)
        } else {
            (Param::Connection(as_heard(heard)), REQUEST_ROOM)
        };
        self.tell_as((now, by.uid), id, (kind::CONNECT_REQUEST, 0), (param, room));
    }
}

/// Parameters as the other end hears them: what one asks for, the other has to answer.
fn as_heard(terms: Terms) -> Terms {
    Terms { responder_resources: terms.initiator_depth, initiator_depth: terms.responder_resources, ..terms }
}
