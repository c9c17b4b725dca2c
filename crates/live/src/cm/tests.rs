//! Two hosts that are carried each other's messages by hand: what each program is told.

use fabriscope_units::{Span, Time};

use super::abi::{AddressVector, Terms};
use super::space::TCP;
use super::{ChannelId, Connections, Message, State, kind, reason};

const UDP: u16 = 0x0111;
const SERVER: (u32, u16) = (0x0a00_0001, 7174);
/// What stands for no status.
const FINE: i32 = 0;

fn at(us: u64) -> Time {
    Time::ZERO + Span::from_us(us)
}

struct Pair {
    all: Connections,
    /// Of the server and of the client.
    channels: [ChannelId; 2],
    listener: u32,
    client: u32,
}

/// A server that listens with this backlog, and a client that knows the way to it.
fn pair(space: u16, backlog: u32) -> Pair {
    let mut all = Connections::default();
    let channels = [all.open(), all.open()];
    let listener = all.create(0, channels[0], (100, space));
    all.bind(listener, SERVER, Some(0)).unwrap();
    all.listen(listener, backlog).unwrap();
    let client = asker(&mut all, channels[1], space);
    Pair { all, channels, listener, client }
}

/// An identifier of host 1 that knows the way to the server.
fn asker(all: &mut Connections, channel: ChannelId, space: u16) -> u32 {
    let id = all.create(1, channel, (200, space));
    all.bind(id, (0x0a00_0002, 0), Some(0)).unwrap();
    let of = all.id(id).unwrap();
    (of.to, of.remote, of.state) = (Some((0, 0)), SERVER, State::Routed);
    id
}

fn terms(qp_num: u32, private: &[u8]) -> Terms {
    Terms { qp_num, responder_resources: 4, initiator_depth: 2, retry_count: 7, private: private.to_vec(), ..Terms::default() }
}

impl Pair {
    /// Carries all messages, also those that follow from them.
    fn carry(&mut self, now: Time) {
        loop {
            let out: Vec<_> = (0..2).flat_map(|node| self.all.take_outgoing(node)).collect();
            if out.is_empty() {
                return;
            }
            for one in out {
                self.all.handle(now, one.to, (one.from, AddressVector::default()), one.message);
            }
        }
    }
    /// Loses all messages, and says which they were.
    fn lose(&mut self) -> Vec<Message> {
        (0..2).flat_map(|node| self.all.take_outgoing(node)).map(|out| out.message).collect()
    }
    /// What the server (0) or the client (1) is told by then: kind, status and identifier.
    fn told(&mut self, side: usize, now: Time) -> Vec<(u32, i32, u32)> {
        std::iter::from_fn(|| self.all.take_event(now, self.channels[side])).map(|event| (event.kind, event.status, event.id)).collect()
    }
    /// Makes the connection; the server's end of it.
    fn connect(&mut self, now: Time) -> u32 {
        self.all.connect(now, self.client, terms(7, b"hi")).unwrap();
        self.carry(now);
        let [(kind::CONNECT_REQUEST, FINE, end)] = self.told(0, now)[..] else { panic!("a request") };
        self.all.accept(now, end, Some(terms(8, b""))).unwrap();
        self.carry(now);
        assert_eq!(self.told(1, now), [(kind::CONNECT_RESPONSE, FINE, self.client)]);
        self.all.accept(now, self.client, None).unwrap();
        self.carry(now);
        assert_eq!(self.told(0, now), [(kind::ESTABLISHED, FINE, end)]);
        end
    }
}

#[test]
fn a_connection_is_made_and_ends() {
    let mut pair = pair(TCP, 0);
    let end = pair.connect(at(1));
    let (server, client) = (pair.all.id(end).unwrap().clone(), pair.all.id(pair.client).unwrap().clone());
    assert_eq!((server.theirs.qp_num, client.theirs.qp_num), (7, 8));
    assert_eq!((server.theirs.psn, client.theirs.psn), (client.own.psn, server.own.psn));
    // The request counts as an event of who listens, the rest of the end that it made.
    assert_eq!((pair.all.id(pair.listener).unwrap().reported, server.reported), (1, 1));

    pair.all.disconnect(at(2), pair.client).unwrap();
    pair.carry(at(2));
    // The peer is told first, and its answer tells the other.
    assert_eq!((pair.told(0, at(2)), pair.told(1, at(2))), (vec![(kind::DISCONNECTED, FINE, end)], vec![]));
    pair.all.disconnect(at(3), end).unwrap();
    pair.carry(at(3));
    assert_eq!(pair.told(1, at(3)), [(kind::DISCONNECTED, FINE, pair.client)]);
    // Both leave the state in which late packets may come some seconds later.
    let late = at(5_000_000);
    assert_eq!(
        (pair.told(0, late), pair.told(1, late)),
        (vec![(kind::TIMEWAIT_EXIT, FINE, end)], vec![(kind::TIMEWAIT_EXIT, FINE, pair.client)])
    );
    assert_eq!(pair.all.next_repetition(0).or(pair.all.next_repetition(1)), None);
}

#[test]
fn two_that_go_at_once_are_both_told() {
    let mut pair = pair(TCP, 0);
    let end = pair.connect(at(1));
    pair.all.disconnect(at(2), pair.client).unwrap();
    pair.all.disconnect(at(2), end).unwrap();
    pair.carry(at(3));
    assert_eq!(
        (pair.told(0, at(3)), pair.told(1, at(3))),
        (vec![(kind::DISCONNECTED, FINE, end)], vec![(kind::DISCONNECTED, FINE, pair.client)])
    );
}

#[test]
fn what_is_lost_is_repeated_until_nobody_hopes() {
    let mut pair = pair(TCP, 0);
    pair.all.connect(at(0), pair.client, terms(7, b"")).unwrap();
    let first = pair.lose();
    let (mut sent, mut now) = (1, at(0));
    while let Some(again) = pair.all.next_repetition(1) {
        now = again;
        pair.all.handle_timeout(now, 1);
        let repeated = pair.lose();
        assert!(repeated.is_empty() || repeated == first);
        sent += repeated.len();
    }
    // 15 times, 4.3 s apart.
    assert_eq!((sent, now.since(Time::ZERO) / 15), (15, Span::from_us(4_294_967)));
    assert_eq!(pair.told(1, now), [(kind::UNREACHABLE, -libc::ETIMEDOUT, pair.client)]);
    // A repetition that arrives makes the connection, and one that comes twice makes no second.
    let other = asker(&mut pair.all, pair.channels[1], TCP);
    pair.all.connect(now, other, terms(9, b"")).unwrap();
    pair.lose();
    let again = pair.all.next_repetition(1).unwrap();
    pair.all.handle_timeout(again, 1);
    let message = Message::Request { from: other, local: (0, 0), remote: SERVER, space: TCP, terms: terms(9, b"") };
    pair.carry(again);
    pair.all.handle(again, (0, 0), ((1, 0), AddressVector::default()), message);
    assert_eq!(pair.told(0, again).len(), 1);
}

#[test]
fn who_is_not_wanted_is_told_why() {
    let mut pair = pair(TCP, 0);
    let mut refused = |port: u16, space: u16| {
        let id = asker(&mut pair.all, pair.channels[1], space);
        pair.all.id(id).unwrap().remote = (SERVER.0, port);
        pair.all.connect(at(1), id, terms(7, b"")).unwrap();
        pair.carry(at(1));
        pair.told(1, at(1))
    };
    let nobody = |told: Vec<(u32, i32, u32)>| told.first().map(|(kind, status, _)| (*kind, *status));
    assert_eq!(nobody(refused(1, TCP)), Some((kind::REJECTED, reason::NO_SERVICE as i32)));
    assert_eq!(nobody(refused(SERVER.1, UDP)), Some((kind::REJECTED, reason::NO_SERVICE as i32)));

    pair.all.connect(at(2), pair.client, terms(7, b"")).unwrap();
    pair.carry(at(2));
    let [(kind::CONNECT_REQUEST, FINE, end)] = pair.told(0, at(2))[..] else { panic!("a request") };
    pair.all.reject(end, b"no".to_vec()).unwrap();
    pair.carry(at(2));
    let event = pair.all.take_event(at(2), pair.channels[1]).unwrap();
    assert_eq!((event.kind, event.status), (kind::REJECTED, reason::CONSUMER as i32));
    assert_eq!(event.param, super::abi::Param::Connection(Terms { private: b"no".to_vec(), ..Terms::default() }));
}

#[test]
fn a_full_backlog_makes_others_ask_again() {
    let mut pair = pair(TCP, 1);
    let other = asker(&mut pair.all, pair.channels[1], TCP);
    for id in [pair.client, other] {
        pair.all.connect(at(1), id, terms(7, b"")).unwrap();
    }
    pair.carry(at(1));
    assert_eq!(pair.told(0, at(1)).len(), 1);
    let again = pair.all.next_repetition(1).unwrap();
    pair.all.handle_timeout(again, 1);
    pair.carry(again);
    assert_eq!(pair.told(0, again).len(), 1);
}

/// A process that ends leaves nobody behind who waits: what it had asked, was asked and had connected is given up.
#[test]
fn the_end_of_a_channel_is_the_end_of_its_connections() {
    let mut pair = pair(TCP, 0);
    pair.connect(at(1));
    let waiting = asker(&mut pair.all, pair.channels[1], TCP);
    pair.all.connect(at(2), waiting, terms(9, b"")).unwrap();
    pair.carry(at(2));
    pair.all.close(at(3), pair.channels[0]);
    pair.carry(at(3));
    let mut told = pair.told(1, at(3));
    told.sort_unstable();
    assert_eq!(told, [(kind::REJECTED, reason::CONSUMER as i32, waiting), (kind::DISCONNECTED, FINE, pair.client)]);
    assert_eq!(pair.all.of(pair.channels[0], pair.listener).err(), Some(libc::ENOENT));
    // The port is free again.
    let channel = pair.all.open();
    let next = pair.all.create(0, channel, (1, TCP));
    pair.all.bind(next, SERVER, Some(0)).unwrap();
    let taken = pair.all.create(0, channel, (2, TCP));
    assert_eq!(pair.all.bind(taken, SERVER, Some(0)), Err(libc::EADDRINUSE));
}

#[test]
fn datagrams_are_looked_up() {
    let mut pair = pair(UDP, 0);
    pair.all.connect(at(1), pair.client, terms(7, b"")).unwrap();
    pair.carry(at(1));
    let [(kind::CONNECT_REQUEST, FINE, end)] = pair.told(0, at(1))[..] else { panic!("a request") };
    pair.all.accept(at(1), end, Some(terms(8, b""))).unwrap();
    pair.carry(at(1));
    let event = pair.all.take_event(at(1), pair.channels[1]).unwrap();
    let super::abi::Param::Datagram(found, _) = event.param else { panic!("where datagrams go") };
    assert_eq!((event.kind, found.qp_num, found.qkey), (kind::ESTABLISHED, 8, super::DATAGRAM_QKEY));
    // Who was asked is told nothing more.
    assert_eq!(pair.told(0, at(1)), []);
}

#[test]
fn events_go_with_an_identifier_to_another_channel() {
    let mut pair = pair(TCP, 0);
    let end = pair.connect(at(1));
    pair.all.disconnect(at(2), pair.client).unwrap();
    pair.carry(at(2));
    let other = pair.all.open();
    assert_eq!(pair.all.migrate(end, pair.channels[0], other), Ok(1));
    assert_eq!(pair.told(0, at(2)), []);
    assert_eq!(pair.all.take_event(at(2), other).map(|event| (event.kind, event.id)), Some((kind::DISCONNECTED, end)));
    assert_eq!(pair.all.migrate(end, pair.channels[0], other), Err(libc::ENOENT));
}
