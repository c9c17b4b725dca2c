//! A connection's queue pair at either end: buffers, receives, completions.

use fabriscope_node::{Process, ProgramError};
use fabriscope_units::Bytes;
use fabriscope_verbs::{
    Access, CqId, MemoryId, Mr, Peer, QpCap, QpInit, QpNum, QpType, RecvWr, Remote, SendWr, Sge, VerbsError, Wc, WcStatus,
};

use crate::command::{QueuePairEnd, SUBMISSION};
use crate::settings::Settings;

/// The adapter that all use.
pub(crate) const NIC: usize = 0;

/// A queue pair with its memory.
pub(crate) struct QueuePair {
    pub qp: QpNum,
    mr: Mr,
    bytes: Bytes,
    capsules: u64,
}

/// A completion queue for so many connections.
pub(crate) fn completions(process: &Process, s: &Settings, connections: u32) -> Result<CqId, ProgramError> {
    process.nic(NIC, |nic| nic.create_cq(connections * (6 * s.depth + 4))).map_err(ProgramError::from)
}

impl QueuePair {
    /// Makes it, with a slot of data and one of capsules for each command outstanding, and posts the receives.
    pub fn open(process: &Process, s: &Settings, cq: CqId, (number, place): (u32, MemoryId)) -> Result<QueuePair, ProgramError> {
        let slots = u64::from(s.depth);
        let data = slots * s.bytes.0;
        let capsule = SUBMISSION.0 + s.bytes.0;
        let base = BUFFER + u64::from(number) * BETWEEN;
        let (qp, mr) = process.nic(NIC, |nic| -> Result<_, VerbsError> {
            let pd = nic.alloc_pd();
            let mr = nic.reg_mr_at(pd, base, Bytes(data + slots * capsule), Access::ALL, place)?;
            let cap = QpCap { max_send_wr: 3 * s.depth + 2, max_recv_wr: s.depth + 1, ..QpCap::default() };
            let qp = nic.create_qp(&QpInit { send_cq: cq, recv_cq: cq, cap, ..QpInit::new(pd, QpType::Rc, cq) })?;
            Ok((qp, mr))
        })?;
        Ok(QueuePair { qp, mr, bytes: s.bytes, capsules: base + data })
    }
    /// What the other end has to know.
    pub fn end(&self, process: &Process) -> QueuePairEnd {
        QueuePairEnd { lid: process.lid(NIC), qp: self.qp, base: self.mr.addr, rkey: self.mr.rkey }
    }
    /// Connects it and posts a receive for each capsule that may come.
    pub fn connect(&self, process: &Process, s: &Settings, peer: &QueuePairEnd) -> Result<(), ProgramError> {
        let there = Peer { lid: peer.lid, qp: peer.qp, sl: 0, mtu: s.mtu };
        process.nic(NIC, |nic| nic.connect(self.qp, &there, Access::ALL))?;
        (0..s.depth).try_for_each(|slot| self.post_receive(process, slot))
    }
    /// Posts a receive for a capsule.
    pub fn post_receive(&self, process: &Process, slot: u32) -> Result<(), ProgramError> {
        let length = (SUBMISSION.0 + self.bytes.0) as u32;
        let sge = Sge { addr: self.capsules + u64::from(slot) * u64::from(length), length, lkey: self.mr.lkey };
        Ok(process.post_recv(NIC, self.qp, &RecvWr::new(u64::from(slot), sge))?)
    }
    /// A capsule of so many bytes.
    pub fn capsule(&self, slot: u32, bytes: Bytes) -> SendWr {
        let length = SUBMISSION.0 + self.bytes.0;
        let sge = Sge { addr: self.capsules + u64::from(slot) * length, length: bytes.0 as u32, lkey: self.mr.lkey };
        SendWr::send(u64::from(slot), sge).with_flags(fabriscope_verbs::SendFlags::SIGNALED)
    }
    /// Data of a slot, written to the other end or read from there.
    pub fn data(&self, slot: u32, peer: &QueuePairEnd, read: bool) -> SendWr {
        let offset = u64::from(slot) * self.bytes.0;
        let sge = Sge { addr: self.mr.addr + offset, length: self.bytes.0 as u32, lkey: self.mr.lkey };
        let remote = Remote { addr: peer.base + offset, rkey: peer.rkey };
        if read { SendWr::read(u64::from(slot), sge, remote).signaled() } else { SendWr::write(u64::from(slot), sge, remote) }
    }
}

/// What completed, or the error that ended the run.
pub(crate) fn checked(completions: Vec<Wc>) -> Result<Vec<Wc>, ProgramError> {
    match completions.iter().find(|wc| wc.status != WcStatus::Success) {
        None => Ok(completions),
        Some(bad) => Err(ProgramError(format!("a completion with error: {} ({})", bad.status.text(), bad.status.name()))),
    }
}

/// Where the buffers of a node's first connection lie, and how far the next's are. Basis: assumed; it decides nothing.
const BUFFER: u64 = 0x20_0000_0000;
const BETWEEN: u64 = 0x40_0000_0000;
