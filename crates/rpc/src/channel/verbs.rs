//! Messages over queue pairs: eager ones are copied, long ones read by the receiver.
//!
//! Source: RFC 8166 (RPC over RDMA) for eager messages and long ones by READ; HERD and FaRM (SIGCOMM and NSDI 2014) for messages that are
//! written into a ring.
//! Modelled: a copy at each end of an eager message that is not inline, SENDs into posted receives or WRITEs into a ring, announcements of long
//! messages, READs, notes that a long message was read, a completion for every sixteenth request, threads that spin.
//! Not modelled: registration in the course of a call, completion events, shared receive queues. Rings are as long as the window.

use std::collections::{BTreeMap, VecDeque};

use fabriscope_node::{Process, ProgramError};
use fabriscope_units::{Bytes, Time};
use fabriscope_verbs::{
    Access, CqId, Lkey, Peer, QpCap, QpInit, QpNum, QpType, RecvWr, Remote, Rkey, SendFlags, SendWr, Sge, VerbsError, WatchId, Wc, WcOpcode,
};

use super::contact::{Contacts, QpContact};
use super::{Arrival, Header, NIC, Over, Terms};

/// One connection.
#[derive(Debug)]
struct Pair {
    qp: QpNum,
    watch: Option<WatchId>,
    /// Messages seen in the ring.
    seen: u64,
    /// Requests posted, and those known to be complete.
    posted: u64,
    freed: u64,
    rkey: Rkey,
    ring_end: u64,
    buffers: u64,
}

/// A READ on its way.
#[derive(Debug, Clone, Copy)]
struct Reading {
    connection: usize,
    header: Header,
    /// The owner is told when it is over.
    announced: bool,
    /// Which request of its queue it is.
    posted: u64,
}

/// All queue pairs of a thread.
#[derive(Debug)]
pub struct VerbsPort {
    over: Over,
    terms: Terms,
    cq: CqId,
    lkey: Lkey,
    memory: u64,
    pairs: Vec<Pair>,
    by_qp: BTreeMap<QpNum, usize>,
    readings: BTreeMap<u64, Reading>,
    next_reading: u64,
    arrived: VecDeque<Arrival>,
}

impl VerbsPort {
    pub(super) async fn open(
        process: &Process,
        over: Over,
        peers: &[u32],
        contacts: &Contacts,
        terms: Terms,
    ) -> Result<VerbsPort, ProgramError> {
        let me = process.rank();
        let memory = MEMORY + (u64::from(me) << 40);
        let place = process.place(NIC);
        let receives = 2 * terms.window;
        let depth = (DEPTH + receives) * peers.len().max(1) as u32;
        let made = process.nic(NIC, |nic| -> Result<_, VerbsError> {
            let pd = nic.alloc_pd();
            let mr = nic.reg_mr_at(pd, memory, Bytes(ROOM), Access::ALL, place)?;
            let cq = nic.create_cq(depth)?;
            let cap = QpCap { max_send_wr: DEPTH, max_recv_wr: receives, max_inline_data: Bytes(terms.inline.into()), ..QpCap::default() };
            let mut qps = Vec::new();
            for at in 0..peers.len() as u64 {
                let qp = nic.create_qp(&QpInit { cap, ..QpInit::new(pd, QpType::Rc, cq) })?;
                let ring = memory + at * RING;
                let watch = (over == Over::Write).then(|| nic.create_watch(ring, Bytes(RING)));
                qps.push((qp, watch, ring + RING));
            }
            Ok((mr, cq, qps))
        });
        let (mr, cq, qps) = made?;
        for (&peer, &(qp, _, ring_end)) in peers.iter().zip(&qps) {
            let contact = QpContact { lid: process.lid(NIC), qp, rkey: mr.rkey, ring_end, buffers: memory + ROOM / 2 };
            contacts.tell(me, peer, contact);
        }
        process.barrier().await;
        let mut pairs = Vec::new();
        for (&peer, (qp, watch, _)) in peers.iter().zip(qps) {
            let other = contacts.told(peer, me);
            let other =
                other.ok_or_else(|| ProgramError(format!("program {me} wants to talk to program {peer}, which does not expect it")))?;
            let to = Peer { lid: other.lid, qp: other.qp, sl: 0, mtu: terms.mtu };
            process.nic(NIC, |nic| nic.connect(qp, &to, Access::ALL))?;
            for _ in 0..receives {
                process.post_recv(NIC, qp, &receive(memory, mr.lkey, &terms))?;
            }
            let (rkey, ring_end, buffers) = (other.rkey, other.ring_end, other.buffers);
            pairs.push(Pair { qp, watch, seen: 0, posted: 0, freed: 0, rkey, ring_end, buffers });
        }
        process.barrier().await;
        let by_qp = pairs.iter().enumerate().map(|(at, pair)| (pair.qp, at)).collect();
        let (readings, arrived) = (BTreeMap::new(), VecDeque::new());
        Ok(VerbsPort { over, terms, cq, lkey: mr.lkey, memory, pairs, by_qp, readings, next_reading: 0, arrived })
    }

    pub(super) async fn send(&mut self, process: &Process, connection: usize, header: Header, bytes: Bytes) -> Result<(), ProgramError> {
        let whole = bytes + self.terms.header;
        if whole > self.terms.eager_limit {
            return self.put(process, connection, (header, LONG), self.terms.header).await;
        }
        if whole.0 > u64::from(self.terms.inline) {
            process.copy(whole, whole);
        }
        self.put(process, connection, (header, 0), whole).await
    }

    pub(super) async fn get(&mut self, process: &Process, connection: usize, header: Header, bytes: Bytes) -> Result<(), ProgramError> {
        let reading = Reading { connection, header, announced: false, posted: 0 };
        self.read(process, reading, bytes).await
    }

    pub(super) async fn next(&mut self, process: &Process, until: Time) -> Result<Option<Arrival>, ProgramError> {
        loop {
            if let Some(arrival) = self.arrived.pop_front() {
                return Ok(Some(arrival));
            }
            if !self.look(process, until).await? {
                return Ok(None);
            }
        }
    }

    /// Waits for anything and handles it; false where nothing came.
    async fn look(&mut self, process: &Process, until: Time) -> Result<bool, ProgramError> {
        let cqs = [(NIC, self.cq)];
        let watches: Vec<_> = self.pairs.iter().filter_map(|pair| Some((NIC, pair.watch?, pair.seen + 1))).collect();
        process.catch_up().await;
        let waits = process.earliest(&cqs, &watches).is_none_or(|at| at > process.now());
        if waits && !process.wait_any_until(&cqs, &watches, until).await {
            return Ok(false);
        }
        let visible = process.earliest(&cqs, &watches).unwrap_or_else(|| process.now());
        for at in 0..self.pairs.len() {
            let Some(watch) = self.pairs[at].watch else { continue };
            let now = process.now();
            while let Some(words) = process.nic(NIC, |nic| nic.watch_words(watch, now)) {
                self.pairs[at].seen += 1;
                process.compute(process.cpu().dma_touch);
                self.handle(process, (at, words), visible).await?;
            }
        }
        if process.earliest(&cqs, &[]).is_some_and(|at| at <= process.now()) {
            for wc in process.poll_cq(NIC, self.cq, 1).await {
                self.complete(process, &wc, visible).await?;
            }
        }
        Ok(true)
    }

    async fn complete(&mut self, process: &Process, wc: &Wc, visible: Time) -> Result<(), ProgramError> {
        let words = process.nic(NIC, |nic| nic.words(wc));
        let Some(&at) = self.by_qp.get(&wc.qp_num) else { return Ok(()) };
        match wc.opcode {
            WcOpcode::Recv => {
                process.post_recv(NIC, wc.qp_num, &receive(self.memory, self.lkey, &self.terms))?;
                let Some(words) = words else { return Ok(()) };
                self.handle(process, (at, words), visible).await
            }
            WcOpcode::RdmaRead => {
                let Some(reading) = self.readings.remove(&wc.wr_id) else { return Ok(()) };
                self.pairs[at].freed = self.pairs[at].freed.max(reading.posted);
                let Reading { connection, header, announced, .. } = reading;
                let now = process.now();
                self.arrived.push_back(Arrival { connection, header, visible: visible.min(now), begun: now, read: now });
                if announced {
                    self.put(process, at, (header, READ), self.terms.header).await?;
                }
                Ok(())
            }
            _ => {
                // A completion stands for those before it that had none.
                self.pairs[at].freed = self.pairs[at].freed.max(wc.wr_id);
                Ok(())
            }
        }
    }

    /// A message came over connection `at`.
    async fn handle(
        &mut self,
        process: &Process,
        (at, words): (usize, fabriscope_verbs::AppWords),
        visible: Time,
    ) -> Result<(), ProgramError> {
        let begun = process.now();
        let visible = visible.min(begun);
        let (header, flags) = Header::read(words);
        match flags {
            READ => Ok(()),
            LONG => {
                let reading = Reading { connection: at, header, announced: true, posted: 0 };
                self.read(process, reading, Bytes(header.bytes)).await
            }
            _ => {
                let whole = Bytes(header.bytes) + self.terms.header;
                process.copy(whole, whole);
                self.arrived.push_back(Arrival { connection: at, header, visible, begun, read: process.now() });
                Ok(())
            }
        }
    }

    async fn read(&mut self, process: &Process, reading: Reading, bytes: Bytes) -> Result<(), ProgramError> {
        let at = reading.connection;
        self.make_room(process, at).await?;
        let number = self.next_reading;
        self.next_reading += 1;
        let pair = &mut self.pairs[at];
        self.readings.insert(number, Reading { posted: pair.posted + 1, ..reading });
        let sge = Sge { addr: self.memory + ROOM / 2, length: bytes.0.clamp(1, LONGEST) as u32, lkey: self.lkey };
        let remote = Remote { addr: pair.buffers, rkey: pair.rkey };
        process.post_send(NIC, pair.qp, &SendWr::read(number, sge, remote).signaled())?;
        pair.posted += 1;
        Ok(())
    }

    /// Posts a message of `bytes` with what it says.
    async fn put(&mut self, process: &Process, at: usize, (header, flags): (Header, u64), bytes: Bytes) -> Result<(), ProgramError> {
        self.make_room(process, at).await?;
        let pair = &mut self.pairs[at];
        let length = bytes.0.max(1);
        let sge = Sge { addr: self.memory + ROOM / 2, length: length as u32, lkey: self.lkey };
        pair.posted += 1;
        let wr = match self.over {
            Over::Write => SendWr::write(pair.posted, sge, Remote { addr: pair.ring_end - length, rkey: pair.rkey }),
            _ => SendWr::send(pair.posted, sge),
        };
        let mut wr = wr.saying(header.words(flags));
        if length <= u64::from(self.terms.inline) {
            wr = wr.with_flags(SendFlags::INLINE);
        }
        if pair.posted.is_multiple_of(SIGNALED) {
            wr = wr.signaled();
        }
        process.post_send(NIC, pair.qp, &wr)?;
        Ok(())
    }

    /// Waits until the send queue of a connection has room.
    async fn make_room(&mut self, process: &Process, at: usize) -> Result<(), ProgramError> {
        while self.pairs[at].posted - self.pairs[at].freed >= u64::from(DEPTH) - 1 {
            let cqs = [(NIC, self.cq)];
            process.wait_any(&cqs, &[]).await;
            let visible = process.now();
            for wc in process.poll_cq(NIC, self.cq, 1).await {
                Box::pin(self.complete(process, &wc, visible)).await?;
            }
        }
        Ok(())
    }
}

fn receive(memory: u64, lkey: Lkey, terms: &Terms) -> RecvWr {
    RecvWr::new(0, Sge { addr: memory + ROOM / 4, length: terms.eager_limit.max(terms.header).0.max(1) as u32, lkey })
}

/// A message that is announced, and one that says that such a message was read.
const LONG: u64 = 1;
const READ: u64 = 2;
/// Where the memory of each program lies, how much there is, and the ring of a connection in it. Basis: assumed; no bytes are moved.
const MEMORY: u64 = 0x2000_0000_0000;
const ROOM: u64 = 1 << 38;
const RING: u64 = 1 << 20;
/// Requests in a send queue, and which of them have a completion. Basis: assumed.
const DEPTH: u32 = 256;
const SIGNALED: u64 = 16;
/// The longest message. Basis: standard, below the 2³¹ bytes of InfiniBand.
const LONGEST: u64 = 1 << 30;
