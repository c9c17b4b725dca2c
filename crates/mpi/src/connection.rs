//! One rank's connection to one other: a queue pair per rail, credits, and what waits to be posted.

use std::collections::VecDeque;

use fabriscope_verbs::{Lid, QpNum, Remote, Rkey, SendWr, SrqId, UdDestination, WatchId};

use super::buffer::Buffer;
use super::layout::WINDOW;
use super::order::Order;
use super::request::RequestId;
use super::stream::Stream;
use super::wire::{Body, Envelope};

/// What a completion names of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Named {
    /// The queue pair here that takes what that peer alone sends.
    Own(QpNum),
    /// The peer's address and the queue pair that it sends from, where one here serves all.
    Peer(Lid, QpNum),
}

/// The connection on one rail.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    pub qp: QpNum,
    /// The peer's queue pair, where one of ours serves several peers.
    pub to: Option<UdDestination>,
    /// The peer's shared receive queue, where requests name it.
    pub srq: Option<SrqId>,
    /// How completions name the peer.
    pub named: Named,
    /// Sees messages in the ring that the peer writes here.
    pub watch: WatchId,
    /// Key of the peer's memory.
    pub rkey: Rkey,
    /// The peer's ring for this connection.
    pub peer_ring: u64,
    /// The peer's user buffers.
    pub peer_user: u64,
    /// The memory of the peer's GPU and its key, where its adapter reaches it.
    pub peer_device: Option<(u64, Rkey)>,
    /// Messages written to the peer's ring so far.
    pub ring_sent: u64,
    /// Messages that the NIC has shown in the own ring.
    pub ring_shown: u64,
    /// Requests posted to the send queue and known to be complete.
    pub posted: u64,
    pub freed: u64,
    /// Requests since the last one with a completion.
    pub unsignaled: u32,
    /// The socket, where the library runs on sockets.
    pub stream: Option<Stream>,
}

impl Link {
    /// The request with what it has to say of its destination.
    pub fn address(&self, wr: SendWr) -> SendWr {
        match (self.to, self.srq) {
            (Some(to), _) => wr.to(to),
            (None, Some(srq)) => wr.to_srq(srq),
            (None, None) => wr,
        }
    }
    /// The connection on a socket; what belongs to verbs stays unused.
    pub fn over(stream: Stream) -> Link {
        Link { stream: Some(stream), ..Link::unused() }
    }
    /// One over which nothing went yet, and which leads nowhere.
    pub fn unused() -> Link {
        Link {
            qp: QpNum(0),
            to: None,
            srq: None,
            named: Named::Own(QpNum(0)),
            watch: WatchId(0),
            rkey: Rkey(0),
            peer_ring: 0,
            peer_user: 0,
            peer_device: None,
            ring_sent: 0,
            ring_shown: 0,
            posted: 0,
            freed: 0,
            unsignaled: 0,
            stream: None,
        }
    }
}

/// A message that waits for a credit or a place in the send queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outgoing {
    pub rail: usize,
    pub body: Body,
    /// The request that is done when the NIC has read the user's buffer; `None` when a copy was made.
    pub zero_copy: Option<RequestId>,
    /// Where its payload is.
    pub buffer: Buffer,
}

/// An RDMA read or write of a rendezvous that waits for a place in the send queue.
#[derive(Debug, Clone)]
pub(crate) struct Transfer {
    pub rail: usize,
    pub wr: SendWr,
    /// The request one piece of which this moves.
    pub request: RequestId,
    /// Said to the peer right behind it.
    pub then: Option<Body>,
}

impl Transfer {
    /// Makes it one between windows, at so many bytes from their beginnings.
    pub fn shift(&mut self, here: u64, there: u64) {
        self.wr.sge.iter_mut().for_each(|sge| sge.addr += WINDOW + here);
        self.wr.remote = self.wr.remote.map(|remote| Remote { addr: remote.addr + WINDOW + there, ..remote });
    }
}

/// A connection to one peer over all rails.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Both ranks are on one node and talk through its memory; the one link is not used.
    pub local: bool,
    /// The NUMA domain of such a rank.
    pub domain: u32,
    /// As much of its buffer as is mapped here.
    pub attached: u32,
    pub links: Vec<Link>,
    /// Messages the peer still has room for.
    pub credits: u32,
    /// Buffers freed here that the peer does not know of.
    pub owed: u32,
    pub messages: VecDeque<Outgoing>,
    pub transfers: VecDeque<Transfer>,
    /// Messages so far, for taking the rails in turn.
    pub turn: u64,
    /// Puts what arrived in order.
    pub order: Order,
    /// Messages so far that carry a number as immediate data.
    pub tagged: u32,
    /// Something went over it.
    pub made: bool,
}

impl Connection {
    /// A fresh connection over `links`.
    pub fn over(links: Vec<Link>, local: bool, credits: u32) -> Connection {
        Connection {
            local,
            domain: 0,
            attached: 0,
            links,
            credits,
            owed: 0,
            messages: VecDeque::new(),
            transfers: VecDeque::new(),
            turn: 0,
            order: Order::default(),
            tagged: 0,
            made: false,
        }
    }
    /// The envelope for `body` with all credits that are owed; where messages overtake each other only announcements have numbers.
    pub fn envelope(&mut self, unordered: bool, body: Body) -> Envelope {
        let number = (!unordered || body.announces()).then(|| self.order.next());
        Envelope { credits: std::mem::take(&mut self.owed), number, body }
    }
    /// The number that the next message carries as immediate data.
    pub fn next_tag(&mut self) -> u32 {
        self.tagged = self.tagged.wrapping_add(1);
        self.tagged.wrapping_sub(1)
    }
    /// The next turn of the rails.
    pub fn next_turn(&mut self) -> u64 {
        self.turn += 1;
        self.turn - 1
    }
}
