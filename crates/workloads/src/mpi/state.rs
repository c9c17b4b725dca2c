//! The state of one rank: rails, connections, matching queues, requests; and everything that posts.

use std::collections::{BTreeMap, VecDeque};

use fabriscope_node::{Process, ProgramError};
use fabriscope_units::{Bytes, Span};
use fabriscope_verbs::{CqId, Mr, PdId, Remote, SendFlags, SendWr, Sge, WatchId, Wc, WcStatus};

use super::connection::{Connection, Link, Outgoing, Transfer};
use super::matching::Matching;
use super::protocol::Protocol;
use super::request::{RequestId, Requests};
use super::setup;
use super::wire::{Body, Channel, Wires};

/// One NIC of the node, as the library uses it.
#[derive(Debug, Clone)]
pub(crate) struct Rail {
    pub nic: usize,
    pub pd: PdId,
    pub cq: CqId,
    pub mr: Mr,
    /// Where user buffers begin.
    pub user: u64,
}

/// What can wake a rank: completion queues by NIC, and rings by NIC with the count of the next message.
#[derive(Debug, Clone)]
pub(crate) struct Awaited {
    pub queues: Vec<(usize, CqId)>,
    pub rings: Vec<(usize, WatchId, u64)>,
}

/// A short message that comes in parts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Partial {
    /// Bytes that are still to come.
    pub left: u32,
    /// Its receive, once that is found.
    pub request: Option<RequestId>,
}

/// What is under way of a long message that is granted in parts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grant {
    /// The sender's request.
    pub sender: RequestId,
    /// Bytes granted and not here.
    pub open: u32,
}

/// What a completion of the send queue tells.
#[derive(Debug, Clone, Copy)]
struct Signal {
    peer: u32,
    rail: usize,
    /// Requests of the connection that are complete with this one.
    through: u64,
    /// The request that it finishes or advances.
    request: Option<(RequestId, SignalOf)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SignalOf {
    /// The NIC has read the user's buffer.
    ZeroCopy,
    /// One piece of a rendezvous has been moved.
    Piece,
}

/// A rank between two calls.
#[derive(Debug)]
pub(crate) struct State {
    pub me: u32,
    pub protocol: Protocol,
    pub rails: Vec<Rail>,
    pub connections: BTreeMap<u32, Connection>,
    pub matching: Matching,
    pub requests: Requests,
    /// The sender's request of each receive that reads.
    pub reads: BTreeMap<RequestId, RequestId>,
    /// Short messages of which not all has come, by peer and its number of the message.
    pub partial: BTreeMap<(u32, u64), Partial>,
    /// Receives of long messages of which not all has been granted.
    pub grants: BTreeMap<RequestId, Grant>,
    /// Numbers of packets that arrived, with the peers they came from, where they overtake each other.
    pub arrived: VecDeque<(u32, u32)>,
    /// Pieces that the peer has said to be moved.
    pub heard: BTreeMap<RequestId, u32>,
    signals: BTreeMap<u64, Signal>,
    next_signal: u64,
    next_message: u64,
}

impl State {
    pub fn new(me: u32, protocol: Protocol, rails: Vec<Rail>, connections: BTreeMap<u32, Connection>) -> State {
        let (matching, requests) = (Matching::default(), Requests::default());
        State {
            me,
            protocol,
            rails,
            connections,
            matching,
            requests,
            reads: BTreeMap::new(),
            partial: BTreeMap::new(),
            grants: BTreeMap::new(),
            arrived: VecDeque::new(),
            heard: BTreeMap::new(),
            signals: BTreeMap::new(),
            next_signal: 0,
            next_message: 0,
        }
    }

    pub fn connection(&mut self, peer: u32) -> Result<&mut Connection, ProgramError> {
        let me = self.me;
        self.connections.get_mut(&peer).ok_or_else(|| ProgramError(format!("rank {me} has no connection to rank {peer}")))
    }

    /// What can wake this rank.
    pub fn awaited(&self) -> Awaited {
        let queues = self.rails.iter().map(|rail| (rail.nic, rail.cq)).collect();
        let links = self.connections.values().flat_map(|connection| connection.links.iter().enumerate());
        let links = links.filter(|(_, link)| link.stream.is_none());
        let rings = links.map(|(rail, link)| (self.rails[rail].nic, link.watch, link.ring.shown + 1)).collect();
        Awaited { queues, rings }
    }

    /// The cost of copying `size` bytes from the user's into a library's buffer. The working set is a library buffer for
    /// each message that may be in flight besides this one, and the user's.
    pub fn copy_in(&self, process: &Process, size: u32) -> Span {
        let links = self.connections.values().flat_map(|connection| &connection.links);
        let in_flight: u64 = links.map(|link| link.posted - link.freed).sum();
        let amount = Bytes(size.into());
        process.cpu().copy(amount, amount * (in_flight + 2))
    }

    /// The cost of copying `size` bytes out of a library's buffer: the NIC has just written them, so they are in no cache of
    /// the core. Up to a line comes within the completion, which the core has read already.
    pub fn copy_out(process: &Process, size: u32) -> Span {
        let touch = if size > LINE { process.cpu().dma_touch } else { Span::ZERO };
        touch + process.cpu().copy(Bytes(size.into()), Bytes(u64::MAX))
    }

    /// A number that no other message of this rank has.
    pub fn number(&mut self) -> u64 {
        self.next_message += 1;
        self.next_message - 1
    }

    /// Takes a message into the queue of its connection.
    pub fn say(&mut self, peer: u32, rail: usize, body: Body, zero_copy: Option<RequestId>) -> Result<(), ProgramError> {
        self.connection(peer)?.messages.push_back(Outgoing { rail, body, zero_copy });
        Ok(())
    }

    /// Takes a transfer into the queue of its connection.
    pub fn transfer(&mut self, peer: u32, transfer: Transfer) -> Result<(), ProgramError> {
        self.connection(peer)?.transfers.push_back(transfer);
        Ok(())
    }

    /// Posts all that credits and send queues allow, to every peer.
    pub fn flush(&mut self, process: &Process, wires: &Wires) -> Result<(), ProgramError> {
        let peers: Vec<u32> = self.connections.keys().copied().collect();
        peers.into_iter().try_for_each(|peer| self.flush_one(process, wires, peer))
    }

    /// The same to one peer.
    pub fn flush_one(&mut self, process: &Process, wires: &Wires, peer: u32) -> Result<(), ProgramError> {
        let depth = u64::from(setup::send_depth(&self.protocol));
        loop {
            let connection = self.connection(peer)?;
            let has_room = |connection: &Connection, rail: usize| connection.links[rail].posted - connection.links[rail].freed < depth;
            if let Some(rail) = connection.transfers.front().map(|transfer| transfer.rail)
                && has_room(connection, rail)
                && let Some(transfer) = connection.transfers.pop_front()
            {
                self.post_transfer(process, peer, transfer)?;
                continue;
            }
            if let Some(rail) = connection.messages.front().map(|message| message.rail)
                && connection.credits > 0
                && has_room(connection, rail)
                && let Some(message) = connection.messages.pop_front()
            {
                connection.credits -= 1;
                self.post_message(process, wires, peer, message)?;
                continue;
            }
            break;
        }
        self.return_credits(process, wires, peer)
    }

    /// Tells the peer of half a window of freed buffers, when no other message did.
    fn return_credits(&mut self, process: &Process, wires: &Wires, peer: u32) -> Result<(), ProgramError> {
        let protocol = self.protocol;
        let connection = self.connection(peer)?;
        let rail = protocol.rail(connection.links.len(), connection.turn);
        let link = &connection.links[rail];
        let has_room = link.posted - link.freed < u64::from(setup::send_depth(&protocol));
        if connection.owed >= (protocol.window / 2).max(1) && has_room {
            self.post_message(process, wires, peer, Outgoing { rail, body: Body::Credits, zero_copy: None })?;
        }
        Ok(())
    }

    fn post_message(&mut self, process: &Process, wires: &Wires, peer: u32, message: Outgoing) -> Result<(), ProgramError> {
        let protocol = self.protocol;
        if let Body::Data { size, .. } = message.body
            && protocol.copies_data()
        {
            process.compute(self.copy_in(process, size));
        }
        let length = message.body.payload().map_or(protocol.control, |payload| protocol.header + payload);
        let channel = if protocol.takes_ring(message.body.payload().unwrap_or(0)) { Channel::Ring } else { Channel::Send };
        // Over sockets there are no rails of verbs.
        let place = self.rails.get(message.rail).map(|rail| (rail.nic, rail.user, rail.mr.lkey));
        let connection = self.connection(peer)?;
        let envelope = connection.envelope(message.rail, channel, message.body);
        if let Some(stream) = &mut connection.links[message.rail].stream {
            stream.put(length.into(), message.zero_copy);
            let done = stream.write(process)?;
            done.into_iter().for_each(|request| self.requests.at(request).done = true);
            wires.put(self.me, peer, envelope);
            return Ok(());
        }
        let link = &mut connection.links[message.rail];
        let Some((nic, addr, lkey)) = place else { return Ok(()) };
        let sge = Sge { addr, length, lkey };
        let mut wr = match channel {
            Channel::Send => SendWr::send(UNSIGNALED, sge),
            Channel::Ring => {
                let slot = link.ring_sent % setup::slots(&protocol);
                link.ring_sent += 1;
                SendWr::write(UNSIGNALED, sge, Remote { addr: link.peer_ring + slot * protocol.slot(), rkey: link.rkey })
            }
        };
        link.posted += 1;
        link.unsignaled += 1;
        let (qp, to, through) = (link.qp, link.to, link.posted);
        if protocol.unordered || link.unsignaled >= protocol.signal_interval || message.zero_copy.is_some() {
            link.unsignaled = 0;
            let request = message.zero_copy.map(|request| (request, SignalOf::ZeroCopy));
            wr.wr_id = self.signal(Signal { peer, rail: message.rail, through, request });
            wr = wr.signaled();
        }
        if length <= protocol.inline_limit {
            wr = wr.with_flags(SendFlags::INLINE);
        }
        match to {
            Some(to) => wr = wr.with_imm(wires.number(self.me, peer, envelope)).to(to),
            None => wires.put(self.me, peer, envelope),
        }
        Ok(process.post_send(nic, qp, &wr)?)
    }

    fn post_transfer(&mut self, process: &Process, peer: u32, transfer: Transfer) -> Result<(), ProgramError> {
        let nic = self.rails[transfer.rail].nic;
        let link = &mut self.connection(peer)?.links[transfer.rail];
        link.posted += 1;
        link.unsignaled = 0;
        let (qp, through) = (link.qp, link.posted);
        let mut wr = transfer.wr.signaled();
        wr.ud = link.to;
        wr.wr_id = self.signal(Signal { peer, rail: transfer.rail, through, request: Some((transfer.request, SignalOf::Piece)) });
        process.post_send(nic, qp, &wr)?;
        match transfer.then {
            Some(body) => self.say(peer, transfer.rail, body, None),
            None => Ok(()),
        }
    }

    fn signal(&mut self, signal: Signal) -> u64 {
        let id = FIRST_SIGNAL + self.next_signal;
        self.next_signal += 1;
        self.signals.insert(id, signal);
        id
    }

    /// Counts a completion; returns the request one piece of which has been moved.
    pub fn complete(&mut self, process: &Process, rail: usize, wc: &Wc) -> Result<Option<RequestId>, ProgramError> {
        if wc.status != WcStatus::Success {
            let (text, name) = (wc.status.text(), wc.status.name());
            return Err(ProgramError(format!("rank {}: the MPI library got a completion with error: {text} ({name})", self.me)));
        }
        if wc.wr_id == RECEIVE {
            let (nic, wr) = (self.rails[rail].nic, setup::receive(&self.rails[rail], &self.protocol));
            if self.protocol.unordered {
                let from = |link: &Link| link.to.is_some_and(|to| to.remote_qpn == wc.src_qp) && link.lid == wc.slid;
                let peer = self.connections.iter().find(|(_, connection)| connection.links.get(rail).is_some_and(from));
                self.arrived.extend(peer.and_then(|(peer, _)| Some((*peer, wc.imm?))));
            } else {
                let mut links = self.connections.values_mut().flat_map(|connection| connection.links.get_mut(rail));
                if let Some(link) = links.find(|link| link.qp == wc.qp_num) {
                    link.sends.shown += 1;
                }
            }
            process.post_recv(nic, wc.qp_num, &wr)?;
            return Ok(None);
        }
        let Some(signal) = self.signals.remove(&wc.wr_id) else { return Ok(None) };
        let unordered = self.protocol.unordered;
        let link = &mut self.connection(signal.peer)?.links[signal.rail];
        // Where they complete in any order every one has a completion.
        link.freed = if unordered { link.freed + 1 } else { link.freed.max(signal.through) };
        match signal.request {
            Some((request, SignalOf::ZeroCopy)) => self.requests.at(request).done = true,
            Some((request, SignalOf::Piece)) => return Ok(Some(request)),
            None => {}
        }
        Ok(None)
    }
}

/// Payload that an mlx5 adapter scatters into a completion of 64 bytes. Basis: published (rdma-core, providers/mlx5).
const LINE: u32 = 32;
/// `wr_id` of a receive.
pub(crate) const RECEIVE: u64 = 0;
/// `wr_id` of a send without completion.
const UNSIGNALED: u64 = 1;
/// The first `wr_id` of those with one.
const FIRST_SIGNAL: u64 = 2;
