//! Connections of a GPU to those on other nodes: adapters beside it, queue pairs, and the memory that peers write to.
//!
//! Modelled: reliable connections by lanes, or one queue pair of SRD on each adapter for all; the adapters that are nearest to a GPU, shared
//! evenly with other GPUs that are as near. Messages say what they are in words that the receiver finds behind its watch.
//! Not modelled: setting up.

use std::collections::BTreeMap;

use fabriscope_node::{Process, ProgramError};
use fabriscope_units::{Bytes, Time};
use fabriscope_verbs::{
    Access, AhAttr, AppWords, CqId, MemoryId, Mr, PdId, Peer, QpCap, QpInit, QpNum, QpType, Remote, SendFlags, SendWr, Sge, UdDestination,
    VerbsError, WatchId, Wc, WcStatus,
};

use crate::job::{Contact, ContactOf, Net};

/// An adapter of this GPU.
pub struct Rail {
    /// Which of the node.
    pub nic: usize,
    pd: PdId,
    /// Where it completes.
    pub cq: CqId,
    memory: Mr,
    /// The queue pair of all connections, over SRD.
    shared: Option<QpNum>,
    /// Counts what peers write.
    pub watch: WatchId,
}

/// A connection to a peer.
#[derive(Debug, Clone, Copy)]
pub struct Wire {
    /// By which adapter.
    pub rail: usize,
    qp: QpNum,
    to: Option<UdDestination>,
    remote: Remote,
}

/// Those of a rank.
pub struct Wires {
    /// Its adapters.
    pub rails: Vec<Rail>,
    wires: BTreeMap<(u32, u32), Wire>,
}

/// The adapters of a GPU: the nearest, shared with those GPUs to which the same are nearest.
///
/// # Errors
/// A node without adapters.
pub fn adapters_of(process: &Process, gpu: u32) -> Result<Vec<usize>, ProgramError> {
    let machine = process.devices()?.machine();
    let (gpus, nics) = (machine.gpus(), machine.nics());
    let near = |gpu: usize| -> Vec<usize> {
        let classes: Vec<_> = nics.iter().take(process.nics()).map(|nic| machine.class(gpus[gpu], *nic)).collect();
        let nearest = classes.iter().min().copied();
        (0..classes.len()).filter(|nic| Some(classes[*nic]) == nearest).collect()
    };
    let own = near(gpu as usize);
    let sharers: Vec<usize> = (0..gpus.len()).filter(|other| near(*other) == own).collect();
    let place = sharers.iter().position(|other| *other == gpu as usize).unwrap_or(0);
    if own.is_empty() {
        return Err(ProgramError(format!("node {} has no adapter to other nodes", process.node())));
    }
    if own.len() <= sharers.len() {
        return Ok(vec![own[place % own.len()]]);
    }
    // A run of neighbours each, as benchmarks number them.
    let each = own.len() / sharers.len();
    Ok(own[place * each..(place + 1) * each].to_vec())
}

/// Queue pairs that were made: to whom, of which lane.
pub type Made = Vec<(u32, u32, Wire)>;

impl Wires {
    /// Opens the adapters of a GPU and makes queue pairs to `peers`, each with so many lanes.
    ///
    /// # Errors
    /// Nodes without adapters, and adapters that refuse.
    pub fn open(process: &Process, net: &Net, (me, gpu): (u32, u32), (peers, lanes): (&[u32], u32)) -> Result<(Wires, Made), ProgramError> {
        let mut rails = Vec::new();
        let mut made = Vec::new();
        if peers.is_empty() {
            return Ok((Wires { rails, wires: BTreeMap::new() }, made));
        }
        let depth = DEPTH.saturating_mul(peers.len() as u32 * lanes).min(MOST_ENTRIES);
        for nic in adapters_of(process, gpu)? {
            rails.push(open_rail(process, net, (nic, me, gpu), depth)?);
        }
        for peer in peers {
            for lane in 0..lanes {
                let rail = (lane as usize + *peer as usize + me as usize) % rails.len();
                let at = &rails[rail];
                let qp = match at.shared {
                    Some(qp) => qp,
                    None => process.nic(at.nic, |nic| nic.create_qp(&queue_pair(at, QpType::Rc, DEPTH)))?,
                };
                let Mr { addr, rkey, .. } = at.memory;
                let contact = Contact { lid: process.lid(at.nic), qp, addr, rkey };
                net.store.put(me, ContactOf { from: me, to: *peer, lane }, contact);
                made.push((*peer, lane, Wire { rail, qp, to: None, remote: Remote { addr, rkey } }));
            }
        }
        Ok((Wires { rails, wires: BTreeMap::new() }, made))
    }

    /// Connects them, when all ranks have told of theirs.
    ///
    /// # Errors
    /// A peer that has told of no other end.
    pub fn connect(&mut self, process: &Process, net: &Net, me: u32, made: Vec<(u32, u32, Wire)>) -> Result<(), ProgramError> {
        for (peer, lane, wire) in made {
            let other = net.store.get(me, ContactOf { from: peer, to: me, lane });
            let other = other.ok_or_else(|| ProgramError(format!("rank {me}: rank {peer} has no other end of lane {lane}")))?;
            let at = &self.rails[wire.rail];
            let to = if at.shared.is_some() {
                let ah = process.nic(at.nic, |nic| nic.create_ah(at.pd, AhAttr { dlid: other.lid, sl: 0 }))?;
                Some(UdDestination { ah, remote_qpn: other.qp, remote_qkey: Peer::QKEY })
            } else {
                let there = Peer { lid: other.lid, qp: other.qp, sl: 0, mtu: net.mtu };
                process.nic(at.nic, |nic| nic.connect(wire.qp, &there, Access::ALL))?;
                None
            };
            let remote = Remote { addr: other.addr, rkey: other.rkey };
            self.wires.insert((peer, lane), Wire { to, remote, ..wire });
        }
        Ok(())
    }

    /// Writes to a peer, now; what arrives says `words`.
    ///
    /// # Errors
    /// A peer without connection, a queue without room.
    pub fn write(&self, process: &Process, (peer, lane): (u32, u32), bytes: Bytes, words: AppWords) -> Result<(), ProgramError> {
        let wire = self.wires.get(&(peer, lane)).ok_or_else(|| ProgramError(format!("rank {peer} is not connected on lane {lane}")))?;
        let rail = &self.rails[wire.rail];
        let length = bytes.saturating_u32();
        let sge = Sge { addr: rail.memory.addr, length, lkey: rail.memory.lkey };
        let mut wr = SendWr::write(0, sge, wire.remote).saying(words).signaled();
        if length <= INLINE {
            wr = wr.with_flags(SendFlags::INLINE);
        }
        if let Some(to) = wire.to {
            wr = wr.to(to);
        }
        Ok(process.post_send(rail.nic, wire.qp, &wr)?)
    }

    /// Takes completions of what was written, so that there is room.
    ///
    /// # Errors
    /// A write that failed.
    pub fn clean(&self, process: &Process) -> Result<(), ProgramError> {
        let now = process.now();
        let mut found: Vec<Wc> = Vec::new();
        for rail in &self.rails {
            while process.nic(rail.nic, |nic| nic.poll_cq(now, rail.cq, AT_A_TIME, &mut found)) > 0 {}
        }
        match found.iter().find(|wc| wc.status != WcStatus::Success) {
            Some(wc) => Err(ProgramError(format!("rank {}: {}", process.rank(), wc.status))),
            None => Ok(()),
        }
    }

    /// What was said with messages that can be seen now.
    #[must_use]
    pub fn heard(&self, process: &Process) -> Vec<AppWords> {
        let now = process.now();
        let mut all = Vec::new();
        for rail in &self.rails {
            process.nic(rail.nic, |nic| {
                while let Some(words) = nic.watch_words(rail.watch, now) {
                    all.push(words);
                }
            });
        }
        all
    }

    /// Where the next message of each adapter shows.
    #[must_use]
    pub fn watches(&self, process: &Process) -> Vec<(usize, WatchId, u64)> {
        let now = process.now();
        self.rails.iter().map(|rail| (rail.nic, rail.watch, process.nic(rail.nic, |nic| nic.watch_count(rail.watch, now)) + 1)).collect()
    }
}

fn open_rail(process: &Process, net: &Net, (nic, me, gpu): (usize, u32, u32), depth: u32) -> Result<Rail, VerbsError> {
    let base = MEMORY + (u64::from(me) << 36);
    let lid = process.lid(nic);
    process.nic(nic, |n| {
        let pd = n.alloc_pd();
        let place = MemoryId::of_gpu(gpu).unwrap_or(MemoryId::HOST);
        let memory = n.reg_mr_at(pd, base, Bytes(BUFFERS), Access::ALL, place)?;
        let watch = n.create_watch(base, Bytes(BUFFERS));
        let cq = n.create_cq(depth)?;
        let mut rail = Rail { nic, pd, cq, memory, shared: None, watch };
        if net.unordered {
            let qp = n.create_qp(&queue_pair(&rail, QpType::Srd, depth.min(MOST_REQUESTS)))?;
            n.connect(qp, &Peer { lid, qp, sl: 0, mtu: net.mtu }, Access::ALL)?;
            rail.shared = Some(qp);
        }
        Ok(rail)
    })
}

fn queue_pair(rail: &Rail, qp_type: QpType, depth: u32) -> QpInit {
    let cap = QpCap { max_send_wr: depth, max_recv_wr: 1, max_inline_data: Bytes(INLINE.into()), ..QpCap::default() };
    QpInit { cap, ..QpInit::new(rail.pd, qp_type, rail.cq) }
}

/// Until when a program waits that waits for ever.
pub const FOR_EVER: Time = Time::MAX;
/// Requests of a connection that can be outstanding. Basis: published (DeepEP, deep_ep/buffer.py: NVSHMEM_QP_DEPTH).
const DEPTH: u32 = 1024;
/// Entries of a completion queue, and of the queue of SRD. Basis: assumed; as large as adapters take.
const MOST_ENTRIES: u32 = 1 << 20;
const MOST_REQUESTS: u32 = 1 << 14;
/// Short messages go with the request. Basis: published (NVSHMEM, ibgda: atomics and signals are inline), in bytes.
const INLINE: u32 = 8;
const AT_A_TIME: usize = 64;
/// Where a rank's memory lies, and how much there is for buffers. Basis: assumed; no bytes are moved.
const MEMORY: u64 = 0x4000_0000_0000;
const BUFFERS: u64 = 1 << 34;
