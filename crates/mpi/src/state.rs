//! The state of one rank: rails, connections, matching queues, requests; and everything that posts.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use fabriscope_catalog::EagerChannel;
use fabriscope_node::{CopyId, Process, ProgramError};
use fabriscope_units::Bytes;
use fabriscope_verbs::{CqId, Lkey, Mr, PdId, RecvWr, Remote, SendFlags, SendWr, Sge, SrqId, WatchId, Wc, WcStatus};
use rustc_hash::FxHashMap;

use super::active_message::Serving;
use super::buffer::{Buffer, RankLocation};
use super::connection::{Connection, Link, Named, Outgoing, Transfer};
use super::layout;
use super::matching::Matching;
use super::protocol::Protocol;
use super::request::{RequestId, Requests, WaitSet};
use super::staged::{CopyOf, StagedIn, StagedOut};
use super::stream::Stream;
use super::wire::{Body, Channel, Envelope};
use super::world::NodeMemory;

/// One NIC of the node, as the library uses it.
#[derive(Debug, Clone)]
pub(crate) struct Rail {
    pub nic: usize,
    pub pd: PdId,
    pub cq: CqId,
    /// The receives of all connections, where there are several.
    pub srq: Option<SrqId>,
    pub mr: Mr,
    /// Where user buffers begin.
    pub user: u64,
    /// The memory of the rank's GPU, where the adapter may read and write it.
    pub device: Option<Mr>,
    /// Where short messages land: in a buffer of the program, where the adapter finds the receive.
    pub lands: Buffer,
}

impl Rail {
    /// Where the user's buffer begins, and the key of its memory.
    pub fn at(&self, buffer: Buffer) -> (u64, Lkey) {
        match self.device.filter(|_| buffer == Buffer::Device) {
            Some(device) => (device.addr, device.lkey),
            None => (self.user, self.mr.lkey),
        }
    }
    /// The receive that is posted for every message that comes by send.
    pub fn receive(&self, protocol: &Protocol) -> RecvWr {
        let (addr, lkey) = self.at(self.lands);
        let sge = Sge { addr, length: protocol.receive_buffer(), lkey };
        RecvWr::new(RECEIVE, sge)
    }
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

/// What is in flight of a long message that is granted in parts.
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
    /// What it shares with the ranks of its node.
    pub memory: Rc<NodeMemory>,
    pub rails: Vec<Rail>,
    pub connections: BTreeMap<u32, Connection>,
    /// Peers whose GPUs links of the own one lead to, though another operating system runs them.
    pub beside: BTreeSet<u32>,
    pub matching: Matching,
    pub requests: Requests,
    /// The sender's request of each receive that reads.
    pub reads: BTreeMap<RequestId, RequestId>,
    /// Short messages of which not all has come, by peer and its number of the message.
    pub partial: BTreeMap<(u32, u64), Partial>,
    /// Receives of long messages of which not all has been granted.
    pub grants: BTreeMap<RequestId, Grant>,
    /// What arrived, with the peers it came from, where messages overtake each other.
    pub arrived: VecDeque<(u32, Envelope)>,
    /// Pieces that the peer has said to be moved.
    pub heard: BTreeMap<RequestId, u32>,
    /// Where this rank sits in its node.
    pub home: RankLocation,
    /// Copies by GPUs that are in progress.
    pub copies: BTreeMap<CopyId, CopyOf>,
    /// Messages that leave and that come through host memory, by their requests here.
    pub leaving: BTreeMap<RequestId, StagedOut>,
    pub coming: BTreeMap<RequestId, StagedIn>,
    /// The longest message that this rank's core has loaded out of its GPU's memory.
    pub loaded: u32,
    /// Peers whose GPU's memory is mapped here.
    pub mapped: BTreeSet<u32>,
    /// The adapters know so many bytes of each buffer.
    pub registered: BTreeMap<Buffer, u32>,
    /// It has just copied what others of the node may have to wait for.
    pub has_copied: bool,
    /// One-sided operations of others whose messages have come or are coming, in order, and how many there were of each.
    pub serving: Vec<Serving>,
    pub served: BTreeMap<u32, u64>,
    /// How many of its own each target was sent, and the old elements that came with answers, by target and tag.
    pub asked: BTreeMap<u32, u64>,
    pub answers: BTreeMap<(u32, u32), u64>,
    /// Words that others write, by NIC, with the count that is waited for.
    pub flags: Vec<(usize, WatchId, u64)>,
    /// Peers of whom something has arrived that is not handled.
    pub news: BTreeSet<u32>,
    /// What the program waits for, all of it.
    pub waits_for: WaitSet,
    /// Peers for whom something may have to be posted.
    unsettled: BTreeSet<u32>,
    /// The peer behind each queue pair, by rail.
    by_qp: FxHashMap<(usize, Named), u32>,
    /// Requests posted to all send queues and not known to be complete.
    in_flight: u64,
    signals: BTreeMap<u64, Signal>,
    next_signal: u64,
    next_message: u64,
}

impl State {
    pub fn new(
        (me, memory): (u32, Rc<NodeMemory>),
        protocol: Protocol,
        rails: Vec<Rail>,
        connections: BTreeMap<u32, Connection>,
        home: RankLocation,
    ) -> State {
        let links = |(peer, connection): (&u32, &Connection)| {
            let named = |(rail, link): (usize, &Link)| ((rail, link.named), *peer);
            connection.links.iter().enumerate().filter(|_| !connection.local).map(named).collect::<Vec<_>>()
        };
        State {
            me,
            protocol,
            memory,
            rails,
            by_qp: connections.iter().flat_map(links).collect(),
            connections,
            beside: BTreeSet::new(),
            matching: Matching::default(),
            requests: Requests::default(),
            reads: BTreeMap::new(),
            partial: BTreeMap::new(),
            grants: BTreeMap::new(),
            arrived: VecDeque::new(),
            heard: BTreeMap::new(),
            home,
            copies: BTreeMap::new(),
            leaving: BTreeMap::new(),
            coming: BTreeMap::new(),
            loaded: 0,
            mapped: BTreeSet::new(),
            registered: BTreeMap::new(),
            has_copied: false,
            serving: Vec::new(),
            served: BTreeMap::new(),
            asked: BTreeMap::new(),
            answers: BTreeMap::new(),
            flags: Vec::new(),
            news: BTreeSet::new(),
            waits_for: WaitSet::default(),
            unsettled: BTreeSet::new(),
            in_flight: 0,
            signals: BTreeMap::new(),
            next_signal: 0,
            next_message: 0,
        }
    }

    pub fn connection(&mut self, peer: u32) -> Result<&mut Connection, ProgramError> {
        let me = self.me;
        self.connections.get_mut(&peer).ok_or_else(|| ProgramError(format!("rank {me} has no connection to rank {peer}")))
    }

    /// Whether something waits for credits, for a place in a send queue, or for room in a socket.
    pub fn has_unsent(&self) -> bool {
        let waits = |link: &Link| link.stream.as_ref().is_some_and(Stream::has_unwritten);
        self.connections.values().any(|peer| !peer.messages.is_empty() || !peer.transfers.is_empty() || peer.links.iter().any(waits))
    }

    /// What can wake this rank.
    pub fn awaited(&self) -> Awaited {
        let queues = self.rails.iter().map(|rail| (rail.nic, rail.cq)).collect();
        if self.protocol.eager_channel != EagerChannel::RdmaWrite {
            return Awaited { queues, rings: self.flags.clone() };
        }
        let connections = self.connections.values().filter(|connection| !connection.local);
        let links = connections.flat_map(|connection| connection.links.iter().enumerate());
        let rings = links.map(|(rail, link)| (self.rails[rail].nic, link.watch, link.ring_shown + 1));
        let rings = rings.chain(self.flags.iter().copied()).collect();
        Awaited { queues, rings }
    }

    /// Copies `size` bytes from the user's into a library's buffer. The working set is a library buffer for each message that
    /// may be in flight besides this one, and the user's.
    pub fn copy_in(&self, process: &Process, size: u32) {
        let amount = Bytes(size.into());
        process.copy(amount, amount * (self.in_flight + 2));
    }

    /// Copies `size` bytes out of a library's buffer: the NIC has just written them, so they are in no cache of the core. Up to
    /// a line comes within the completion, which the core has read already.
    pub fn copy_out(process: &Process, size: u32) {
        State::copy_out_of(process, process.domain(), size);
    }

    /// The same out of a buffer in the memory of another NUMA domain.
    pub fn copy_out_of(process: &Process, domain: u32, size: u32) {
        if size > LINE {
            process.compute(process.cpu().dma_touch);
        }
        process.copy_between(Bytes(size.into()), Bytes(u64::MAX), (domain, process.domain()));
    }

    /// A number that no other message of this rank has.
    pub fn number(&mut self) -> u64 {
        self.next_message += 1;
        self.next_message - 1
    }

    /// Takes a message into the queue of its connection.
    pub fn say(&mut self, peer: u32, rail: usize, body: Body, zero_copy: Option<RequestId>) -> Result<(), ProgramError> {
        self.say_out_of(peer, rail, body, zero_copy, Buffer::Host)
    }

    /// The same with a payload that is in `buffer`.
    pub fn say_out_of(
        &mut self,
        peer: u32,
        rail: usize,
        body: Body,
        zero_copy: Option<RequestId>,
        buffer: Buffer,
    ) -> Result<(), ProgramError> {
        self.connection(peer)?.messages.push_back(Outgoing { rail, body, zero_copy, buffer });
        self.unsettled.insert(peer);
        Ok(())
    }

    /// Takes a transfer into the queue of its connection.
    pub fn transfer(&mut self, peer: u32, transfer: Transfer) -> Result<(), ProgramError> {
        self.connection(peer)?.transfers.push_back(transfer);
        self.unsettled.insert(peer);
        Ok(())
    }

    /// Credits, room or buffers of `peer` have changed: [`flush`](Self::flush) will look.
    pub fn unsettle(&mut self, peer: u32) {
        self.unsettled.insert(peer);
    }

    /// Posts all that credits and send queues allow, to every peer for whom anything has changed.
    pub fn flush(&mut self, process: &Process) -> Result<(), ProgramError> {
        while let Some(peer) = self.unsettled.pop_first() {
            self.flush_one(process, peer)?;
        }
        Ok(())
    }

    /// The same to one peer.
    pub fn flush_one(&mut self, process: &Process, peer: u32) -> Result<(), ProgramError> {
        self.unsettled.remove(&peer);
        if self.connection(peer)?.local {
            return self.flush_local(process, peer);
        }
        self.connect_at_first_use(process, peer)?;
        let depth = u64::from(layout::send_depth(&self.protocol));
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
                self.post_message(process, peer, message)?;
                continue;
            }
            break;
        }
        self.return_credits(process, peer)
    }

    /// Tells the peer of half a window of freed buffers, when no other message did.
    fn return_credits(&mut self, process: &Process, peer: u32) -> Result<(), ProgramError> {
        let protocol = self.protocol;
        let connection = self.connection(peer)?;
        let rail = protocol.rail(connection.links.len(), connection.turn);
        let link = &connection.links[rail];
        let has_room = link.posted - link.freed < u64::from(layout::send_depth(&protocol));
        if connection.owed >= protocol.credit_interval && has_room {
            self.post_message(process, peer, Outgoing { rail, body: Body::Credits, zero_copy: None, buffer: Buffer::Host })?;
        }
        Ok(())
    }

    fn post_message(&mut self, process: &Process, peer: u32, message: Outgoing) -> Result<(), ProgramError> {
        let protocol = self.protocol;
        if let Body::Data { size, .. } = message.body
            && protocol.copies_data()
        {
            self.copy_in(process, size);
        }
        let length = protocol.length(message.body);
        let channel = if protocol.takes_ring(message.body.payload().unwrap_or(0)) { Channel::Ring } else { Channel::Send };
        // Over sockets there are no rails of verbs.
        let place = self.rails.get(message.rail).map(|rail| (rail.nic, rail.at(message.buffer)));
        let connection = self.connection(peer)?;
        let envelope = connection.envelope(protocol.unordered, message.body);
        if let Some(stream) = &mut connection.links[message.rail].stream {
            stream.put(process, length.into(), envelope.words(), message.zero_copy)?;
            let done = stream.write(process)?;
            done.into_iter().for_each(|request| self.requests.at(request).done = true);
            return Ok(());
        }
        let link = &mut connection.links[message.rail];
        let Some((nic, (addr, lkey))) = place else { return Ok(()) };
        let sge = Sge { addr, length, lkey };
        let mut wr = match channel {
            Channel::Send => SendWr::send(UNSIGNALED, sge),
            Channel::Ring => {
                let slot = link.ring_sent % layout::slots(&protocol);
                link.ring_sent += 1;
                SendWr::write(UNSIGNALED, sge, Remote { addr: link.peer_ring + slot * protocol.slot(), rkey: link.rkey })
            }
        };
        link.posted += 1;
        link.unsignaled += 1;
        let (qp, through) = (link.qp, link.posted);
        if protocol.signals_each() || link.unsignaled >= protocol.signal_interval || message.zero_copy.is_some() {
            link.unsignaled = 0;
            let request = message.zero_copy.map(|request| (request, SignalOf::ZeroCopy));
            wr.wr_id = self.signal(Signal { peer, rail: message.rail, through, request });
            wr = wr.signaled();
        }
        self.in_flight += 1;
        if length <= protocol.inline_limit && message.buffer == Buffer::Host {
            wr = wr.with_flags(SendFlags::INLINE);
        }
        process.compute(protocol.packet_overhead);
        let connection = self.connection(peer)?;
        if protocol.unordered {
            wr = wr.with_imm(connection.next_tag());
        }
        wr = connection.links[message.rail].address(wr).saying(envelope.words());
        Ok(process.post_send(nic, qp, &wr)?)
    }

    fn post_transfer(&mut self, process: &Process, peer: u32, transfer: Transfer) -> Result<(), ProgramError> {
        let nic = self.rails[transfer.rail].nic;
        let link = &mut self.connection(peer)?.links[transfer.rail];
        link.posted += 1;
        link.unsignaled = 0;
        let (qp, through) = (link.qp, link.posted);
        let mut wr = link.address(transfer.wr.signaled());
        self.in_flight += 1;
        wr.wr_id = self.signal(Signal { peer, rail: transfer.rail, through, request: Some((transfer.request, SignalOf::Piece)) });
        process.post_send(nic, qp, &wr)?;
        let connection = self.connection(peer)?;
        match transfer.then {
            // Further transfers of the same message wait behind this one: its notice does not.
            Some(body @ Body::Chunk { .. }) if connection.credits > 0 => {
                connection.credits -= 1;
                self.post_message(process, peer, Outgoing { rail: transfer.rail, body, zero_copy: None, buffer: Buffer::Host })
            }
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

    /// A message of `peer` came that says nothing a library would.
    pub fn unheard(&self, peer: u32) -> ProgramError {
        ProgramError(format!("rank {}: a message of rank {peer} says nothing that the MPI library knows", self.me))
    }

    /// Counts a completion; returns the request one piece of which has been moved.
    pub fn complete(&mut self, process: &Process, rail: usize, wc: &Wc) -> Result<Option<RequestId>, ProgramError> {
        if wc.status != WcStatus::Success {
            let (text, name) = (wc.status.text(), wc.status.name());
            return Err(ProgramError(format!("rank {}: the MPI library got a completion with error: {text} ({name})", self.me)));
        }
        if wc.wr_id == RECEIVE {
            let (place, wr) = (&self.rails[rail], self.rails[rail].receive(&self.protocol));
            let words = process.nic(place.nic, |n| n.words(wc));
            match place.srq {
                Some(srq) => process.post_srq_recv(place.nic, srq, &wr)?,
                None => process.post_recv(place.nic, wc.qp_num, &wr)?,
            }
            process.compute(self.protocol.packet_overhead);
            let unordered = self.protocol.unordered;
            let from = if self.protocol.names_peers() { Named::Peer(wc.slid, wc.src_qp) } else { Named::Own(wc.qp_num) };
            if let Some(&peer) = self.by_qp.get(&(rail, from)) {
                let Some(envelope) = words.and_then(Envelope::heard) else { return Err(self.unheard(peer)) };
                if unordered {
                    self.arrived.push_back((peer, envelope));
                } else {
                    self.connection(peer)?.order.keep(envelope);
                    self.news.insert(peer);
                }
            }
            return Ok(None);
        }
        let Some(signal) = self.signals.remove(&wc.wr_id) else { return Ok(None) };
        let each = self.protocol.signals_each();
        let link = &mut self.connection(signal.peer)?.links[signal.rail];
        // Where they complete in any order every one has a completion.
        let freed = if each { 1 } else { signal.through.saturating_sub(link.freed) };
        link.freed += freed;
        self.in_flight -= freed;
        self.unsettled.insert(signal.peer);
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
