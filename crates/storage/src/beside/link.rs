//! Queue pairs between clients and servers, and the messages on them.
//!
//! Source: `o2iblnd-idl.h` of Lustre for the kinds of messages.
//! Modelled: one reliable connection of a client and a server, on the adapters in turn. Not modelled: several connections of a peer
//! (`conns_per_peer`), work requests of single pages (fragments are registered whole).

use std::collections::BTreeMap;

use fabriscope_node::{Process, ProgramError};
use fabriscope_units::Bytes;
use fabriscope_verbs::{
    Access, CqId, Lid, Mr, Peer, QpCap, QpInit, QpNum, QpType, RecvWr, Remote, Rkey, SendWr, Sge, VerbsError, WcOpcode, WcStatus,
};

use super::traffic::Shared;

/// A message of LNet, with the number that its receiver knows the RPC by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// An RPC with data for a target of the server.
    Request { rpc: u32, target: u32, bytes: u64 },
    /// The server asks for a fragment.
    GetReq { work: u32, bytes: u32 },
    /// It is there.
    GetDone { work: u32 },
    /// The server offers a fragment.
    PutReq { work: u32, bytes: u32 },
    /// The client has room for it.
    PutAck { work: u32, bytes: u32 },
    /// It is there.
    PutDone,
    /// The RPC is done.
    Reply { rpc: u32 },
}

impl Message {
    /// Basis: estimated (a header of LNet of 72 B, ptlrpc's of 184 B and what an RPC of bulk data says; requests of ko2iblnd with one
    /// registered range).
    fn bytes(self) -> u32 {
        match self {
            Message::Request { .. } | Message::Reply { .. } => 512,
            Message::GetReq { .. } | Message::PutReq { .. } | Message::PutAck { .. } => 160,
            Message::GetDone { .. } | Message::PutDone => 64,
        }
    }
}

/// What the other side has to know.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueuePairEnd {
    lid: Lid,
    qp: QpNum,
    addr: u64,
    rkey: Rkey,
}

/// One end of a connection.
pub(super) struct Link {
    nic: usize,
    qp: QpNum,
    mr: Mr,
    peer: Option<QueuePairEnd>,
}

/// The connections of a program: those of a client to all servers, or of a server to all clients.
pub(super) struct Links {
    /// The completion queue of each adapter that is used.
    pub cqs: Vec<(usize, CqId)>,
    links: Vec<Link>,
    by_qp: BTreeMap<(usize, QpNum), u32>,
}

/// What has happened on a connection.
pub(super) enum News {
    /// A message came.
    Came,
    /// The write of this RPC's fragment is over.
    Written(u32),
}

impl Links {
    /// Makes the queue pairs of `me`, tells the others, connects to theirs.
    pub async fn open(process: &Process, shared: &Shared, (me, is_client): (u32, bool)) -> Result<Links, ProgramError> {
        let traffic = &shared.traffic;
        let others = if is_client { traffic.servers.len() } else { traffic.clients.len() } as u32;
        let (depth, nics) = (shared.depth(), process.nics().max(1) as u32);
        let pair = |other: u32| if is_client { (me, other) } else { (other, me) };
        let nic_of = |other: u32| {
            let (client, server) = pair(other);
            (client.wrapping_add(server) % nics) as usize
        };
        let mut links = Links { cqs: Vec::new(), links: Vec::new(), by_qp: BTreeMap::new() };
        for nic in 0..nics as usize {
            let count = (0..others).filter(|other| nic_of(*other) == nic).count() as u32;
            if count > 0 {
                links.cqs.push((nic, process.nic(nic, |n| n.create_cq(count.saturating_mul(2 * depth)))?));
            }
        }
        for other in 0..others {
            let nic = nic_of(other);
            let Some((_, cq)) = links.cqs.iter().copied().find(|(of, _)| *of == nic) else { continue };
            let link = Link::open(process, shared, (nic, cq), u64::from(me) << 16 | u64::from(other) << 1 | u64::from(is_client))?;
            links.by_qp.insert((nic, link.qp), other);
            let (client, server) = pair(other);
            let mut connections = shared.connections.lock();
            let connection = &mut connections[shared.place(client, server)];
            let end = QueuePairEnd { lid: process.lid(nic), qp: link.qp, addr: link.mr.addr, rkey: link.mr.rkey };
            *(if is_client { &mut connection.client } else { &mut connection.server }) = Some(end);
            links.links.push(link);
        }
        shared.meet(process, 0).await;
        for (other, link) in (0..).zip(&mut links.links) {
            let (client, server) = pair(other);
            let connections = shared.connections.lock();
            let connection = &connections[shared.place(client, server)];
            let peer = if is_client { connection.server } else { connection.client };
            let peer = peer.ok_or_else(|| ProgramError("a peer of the file system opened no queue pair".to_owned()))?;
            let there = Peer { lid: peer.lid, qp: peer.qp, sl: traffic.level, mtu: traffic.mtu };
            process.nic(link.nic, |n| n.connect(link.qp, &there, Access::ALL))?;
            (0..depth).try_for_each(|_| link.post_receive(process))?;
            link.peer = Some(peer);
        }
        shared.meet(process, 1).await;
        Ok(links)
    }
    /// What is new on which connection; receives are posted again.
    pub async fn news(&self, process: &Process, found: &mut Vec<(u32, News)>) -> Result<(), ProgramError> {
        for (nic, cq) in &self.cqs {
            for wc in process.poll_cq(*nic, *cq, MOST).await {
                if wc.status != WcStatus::Success {
                    return Err(ProgramError(format!("an RPC of the file system with error: {} ({})", wc.status.text(), wc.status.name())));
                }
                let Some(other) = self.by_qp.get(&(*nic, wc.qp_num)) else { continue };
                match wc.opcode {
                    WcOpcode::Recv => {
                        self.links[*other as usize].post_receive(process)?;
                        found.push((*other, News::Came));
                    }
                    WcOpcode::Send if wc.wr_id != UNTOLD => found.push((*other, News::Written(wc.wr_id as u32))),
                    _ => {}
                }
            }
        }
        Ok(())
    }
    /// Sends a message.
    pub fn send(&self, process: &Process, other: u32, message: Message) -> Result<(), ProgramError> {
        let link = &self.links[other as usize];
        Ok(process.post_send(link.nic, link.qp, &link.message(message, UNTOLD))?)
    }
    /// Writes a fragment into the peer's memory and sends a message behind it; `told`: its number in [`News::Written`].
    pub fn write(&self, process: &Process, other: u32, (bytes, message): (u32, Message), told: Option<u32>) -> Result<(), ProgramError> {
        let link = &self.links[other as usize];
        let Some(peer) = link.peer else { return Ok(()) };
        let sge = Sge { addr: link.mr.addr, length: bytes, lkey: link.mr.lkey };
        let data = SendWr::write(UNTOLD, sge, Remote { addr: peer.addr, rkey: peer.rkey }).signaled();
        let behind = link.message(message, told.map_or(UNTOLD, u64::from));
        Ok(process.post_send_list(link.nic, link.qp, &[data, behind])?)
    }
}

impl Link {
    fn open(process: &Process, shared: &Shared, (nic, cq): (usize, CqId), number: u64) -> Result<Link, ProgramError> {
        let (depth, fragment) = (shared.depth(), *shared.traffic.system.costs.lnet.fragment);
        let place = process.place(nic);
        // Fragments share their addresses: no bytes move.
        let (qp, mr) = process.nic(nic, |n| -> Result<_, VerbsError> {
            let pd = n.alloc_pd();
            let mr = n.reg_mr_at(pd, BUFFERS + number * BETWEEN, fragment.max(Bytes(4096)), Access::ALL, place)?;
            let cap = QpCap { max_send_wr: 2 * depth, max_recv_wr: depth + 1, ..QpCap::default() };
            let qp = n.create_qp(&QpInit { send_cq: cq, recv_cq: cq, cap, ..QpInit::new(pd, QpType::Rc, cq) })?;
            Ok((qp, mr))
        })?;
        Ok(Link { nic, qp, mr, peer: None })
    }
    fn post_receive(&self, process: &Process) -> Result<(), ProgramError> {
        let sge = Sge { addr: self.mr.addr, length: 4096, lkey: self.mr.lkey };
        Ok(process.post_recv(self.nic, self.qp, &RecvWr::new(0, sge))?)
    }
    fn message(&self, message: Message, id: u64) -> SendWr {
        SendWr::send(id, Sge { addr: self.mr.addr, length: message.bytes(), lkey: self.mr.lkey }).signaled()
    }
}

/// The number of requests whose end nobody waits for.
const UNTOLD: u64 = u64::MAX;
/// Completions of one poll. Basis: assumed (an event thread of the LND takes those that there are).
const MOST: usize = 64;
/// Where buffers of a node lie, and how far from each other. Basis: assumed; it decides nothing.
const BUFFERS: u64 = 0x40_0000_0000;
const BETWEEN: u64 = 0x100_0000;
