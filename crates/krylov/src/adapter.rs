//! A rank and the program that helps it on the cores of its adapter: memory, queue pairs, writes into each other's memory.
//!
//! Source: BlueField in embedded mode: a process on the host and one on the adapter talk by RDMA through the adapter's internal switch.
//! Modelled: everything as anywhere else: work requests, both buses, the adapter's engines, which messages of other nodes share; packets turn
//! round within the adapter. Who waits spins on a line of its own memory, behind what was written there.
//! Not modelled: registration, which is done before anything is measured.

use std::cell::Cell;

use fabriscope_node::{Process, ProgramError, Record};
use fabriscope_units::{Bytes, Span};
use fabriscope_verbs::{
    Access, CqId, Lid, Mr, Mtu, Peer, QpCap, QpInit, QpNum, QpType, Remote, Rkey, SendFlags, SendWr, Sge, VerbsError, WatchId,
};

/// Which end of a bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndKind {
    Host,
    Cores,
}

/// What each end tells the other out of band.
#[derive(Debug, Clone, Copy)]
struct Contact {
    lid: Lid,
    qp: QpNum,
    rkey: Rkey,
    told: u64,
}

/// What both ends of a bridge know.
#[derive(Debug, Default)]
pub(super) struct Board(Record<[Option<Contact>; 2]>);

/// One end.
pub(super) struct ConnectionEnd {
    process: Process,
    inline: u32,
    cq: CqId,
    qp: QpNum,
    mr: Mr,
    /// Counts what the other end tells.
    watch: WatchId,
    heard: Cell<u64>,
    /// Requests without a completion yet.
    open: Cell<u32>,
    peer: Contact,
}

impl ConnectionEnd {
    /// Makes one end and connects it; the other end does so as well, and all wait for each other twice.
    pub async fn open(process: Process, board: &Board, side: EndKind, (mtu, inline): (Mtu, u32)) -> Result<ConnectionEnd, ProgramError> {
        let base = MEMORY + (u64::from(process.rank()) << 40);
        let told = base + ROOM;
        let place = process.place(NIC);
        let made = process.nic(NIC, |nic| -> Result<_, VerbsError> {
            let pd = nic.alloc_pd();
            let mr = nic.reg_mr_at(pd, base, Bytes(2 * ROOM), Access::ALL, place)?;
            let cq = nic.create_cq(DEPTH * 2)?;
            let cap = QpCap { max_send_wr: DEPTH, max_inline_data: Bytes(inline.into()), ..QpCap::default() };
            let qp = nic.create_qp(&QpInit { cap, ..QpInit::new(pd, QpType::Rc, cq) })?;
            Ok((mr, cq, qp, nic.create_watch(told, LINE)))
        });
        let (mr, cq, qp, watch) = made?;
        board.0.lock()[side as usize] = Some(Contact { lid: process.lid(NIC), qp, rkey: mr.rkey, told });
        process.barrier().await;
        let other = board.0.lock()[1 - side as usize];
        let peer = other.ok_or_else(|| ProgramError("a rank and its helper on the adapter do not know each other".to_owned()))?;
        let to = Peer { lid: peer.lid, qp: peer.qp, sl: 0, mtu };
        process.nic(NIC, |nic| nic.connect(qp, &to, Access::ALL))?;
        process.barrier().await;
        Ok(ConnectionEnd { process, inline, cq, qp, mr, watch, heard: Cell::new(0), open: Cell::new(0), peer })
    }

    /// The core of this end.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Writes `bytes` into the memory of the other end.
    pub async fn put(&self, bytes: Bytes) -> Result<(), ProgramError> {
        self.write(bytes, self.peer.told - ROOM).await
    }
    /// The same, so that the other end sees when they are there, and all that was written before.
    pub async fn tell(&self, bytes: Bytes) -> Result<(), ProgramError> {
        let last = Bytes(bytes.0.clamp(1, PIECE));
        if bytes > last {
            self.write(bytes - last, self.peer.told - ROOM).await?;
        }
        // The last byte is the last of the line that is watched.
        self.write(last, self.peer.told + LINE.0 - last.0).await
    }
    /// Spins until the next thing is told.
    pub async fn wait(&self) {
        self.heard.set(self.heard.get() + 1);
        self.process.wait_watch(NIC, self.watch, self.heard.get()).await;
    }
    /// Keeps the core busy, beside others.
    pub async fn work(&self, span: Span) {
        self.process.compute(span);
        self.process.catch_up().await;
    }

    async fn write(&self, bytes: Bytes, addr: u64) -> Result<(), ProgramError> {
        let mut left = bytes.0;
        while left > 0 {
            let here = left.min(PIECE);
            while self.open.get() >= DEPTH {
                let done = self.process.wait_cq(NIC, self.cq, DEPTH as usize).await.len() as u32;
                self.open.set(self.open.get().saturating_sub(done));
            }
            let sge = Sge { addr: self.mr.addr, length: here as u32, lkey: self.mr.lkey };
            let remote = Remote { addr: addr + bytes.0 - left, rkey: self.peer.rkey };
            let flags = if here <= u64::from(self.inline) { SendFlags::INLINE } else { SendFlags::NONE };
            self.process.post_send(NIC, self.qp, &SendWr::write(0, sge, remote).with_flags(flags).signaled())?;
            self.open.set(self.open.get() + 1);
            left -= here;
        }
        Ok(())
    }
}

/// The adapter: the first of the node.
const NIC: usize = 0;
/// Where the memory of each end lies, and half of how much there is. Basis: assumed; no bytes are moved.
const MEMORY: u64 = 0x2000_0000_0000;
const ROOM: u64 = 1 << 38;
/// What is watched. Basis: standard, a cache line.
const LINE: Bytes = Bytes(64);
/// Requests in a send queue. Basis: assumed.
const DEPTH: u32 = 64;
/// The longest message. Basis: standard, below the 2³¹ bytes of InfiniBand.
const PIECE: u64 = 1 << 30;
