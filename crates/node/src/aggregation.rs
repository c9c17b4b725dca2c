//! A process's end of a group whose contributions switches reduce, as SHARP's library has it.
//!
//! ```text
//!  post ─▶ fragments ─ as slots and window allow ─▶ RDMA WRITE to the leaf switch      SEND from there ─▶ the oldest fragment is over
//! ```
//! Vectors up to `from` are cut into operations of `payload`; longer ones stream in messages of `chunk`, as much of them as the window
//! takes.
//!
//! Source: libsharp (`sharp_coll_do_allreduce_nb` and its pipeline: SHARP_COLL_JOB_QUOTA_PAYLOAD_PER_OST, SHARP_COLL_OSTS_PER_GROUP,
//! SHARP_COLL_SAT_THRESHOLD).
//! Modelled: limits of the group, operations in order, several at the same time, results in place or beside.
//! Not modelled: locks of streaming trees, several ports of one process, memory registered on the way.

use std::collections::VecDeque;

use fabriscope_units::Bytes;
use fabriscope_verbs::{
    Access, AhAttr, CqId, Denied, GroupRequest, Lid, Lkey, Mtu, PdId, PostError, QpAttr, QpCap, QpInit, QpNum, QpType, RecvWr, Remote,
    Rkey, SendFlags, SendWr, Sge, VerbsError, Wc, WcStatus,
};
use fabriscope_wire::{Collective, Task};

use crate::process::Process;

/// Who asks for which group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// What the members have in common.
    pub job: u64,
    /// Which of them this is.
    pub member: u32,
    /// How many there are.
    pub members: u32,
}

/// What limits a process's part of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// The most of one operation.
    pub payload: u32,
    /// Operations outstanding.
    pub slots: u32,
    /// Vectors from this length on stream; `u32::MAX` where none do.
    pub from: u32,
    /// A streaming message.
    pub chunk: u32,
    /// Bytes of them in flight.
    pub window: u32,
    /// Contributions up to this length go with their request.
    pub inline: u32,
    /// Path MTU.
    pub mtu: Mtu,
}

/// A vector in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Its first byte.
    pub addr: u64,
    /// The key of its region.
    pub lkey: Lkey,
}

/// An operation, by its place among those of the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reduction(u64);

#[derive(Debug, Clone, Copy)]
struct Fragment {
    task: Task,
    from: Sge,
    to: Sge,
    length: u32,
    streams: bool,
    /// The last of this operation.
    ends: bool,
}

/// A group that was granted.
pub struct Group {
    process: Process,
    nic: usize,
    qp: QpNum,
    cq: CqId,
    me: u32,
    rules: Rules,
    waiting: VecDeque<Fragment>,
    under_way: VecDeque<Fragment>,
    flowing: u32,
    /// Requests since the last one with a completion, which frees their room in the queue.
    unsignaled: u32,
    posted: u64,
    ended: u64,
}

/// Why a group cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum GroupError {
    /// The adapter.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Verbs(#[from] VerbsError),
    /// A queue of the adapter.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Post(#[from] PostError),
    /// A contribution that did not get through.
    #[error("a reduction in the network ended with {status}")]
    #[diagnostic(help("{}", remedy(*.status)))]
    Failed {
        /// How it ended.
        status: WcStatus,
    },
}

fn remedy(status: WcStatus) -> &'static str {
    match status {
        WcStatus::RemInvReqErr => "give all members the same operation, type, length and root",
        _ => "look for a switch or a link of the tree that is down, or leave reductions to the hosts",
    }
}

impl Group {
    /// Asks for the group with all other members; out of band, every one of them has to. `pd` holds the memory of the vectors.
    ///
    /// # Errors
    /// No queue pair; inside, why the manager refused.
    pub async fn join(process: &Process, nic: usize, pd: PdId, member: Member, rules: Rules) -> Result<Result<Group, Denied>, GroupError> {
        let depth = 4 * rules.slots.max(1);
        let cap = QpCap { max_send_wr: depth, max_recv_wr: depth, max_inline_data: Bytes(rules.inline.into()), ..QpCap::default() };
        let made = process.nic(nic, |n| -> Result<_, VerbsError> {
            let cq = n.create_cq(2 * depth)?;
            let qp = n.create_qp(&QpInit { cap, ..QpInit::new(pd, QpType::Rc, cq) })?;
            Ok((cq, qp))
        });
        let (cq, qp) = made?;
        let Member { job, member, members } = member;
        let request = GroupRequest { job, member, members, slots: rules.slots, qp, cq, wr_id: 0 };
        process.nic(nic, |n| n.post_group_request(request));
        let answer = process.wait_cq(nic, cq, 1).await;
        let number = match answer.first().map_or(Err(Denied::NoUnit), GroupRequest::read) {
            Ok(number) => number,
            Err(denied) => return Ok(Err(denied)),
        };
        let av = AhAttr { dlid: Lid::aggregate(number), sl: 0 };
        process.nic(nic, |n| {
            n.modify_qp(qp, &QpAttr::init(Access::ALL))?;
            n.modify_qp(qp, &QpAttr::rtr_rc(rules.mtu, QpNum(0), FIRST, av))?;
            n.modify_qp(qp, &QpAttr::rts_rc(FIRST))
        })?;
        Ok(Ok(Group {
            process: process.clone(),
            nic,
            qp,
            cq,
            me: member,
            rules,
            waiting: VecDeque::new(),
            under_way: VecDeque::new(),
            flowing: 0,
            unsignaled: 0,
            posted: 0,
            ended: 0,
        }))
    }

    /// Begins an operation over `bytes` at `from`, with its result at `to`; all members begin the same ones in the same order.
    ///
    /// # Errors
    /// A queue pair in error.
    pub fn post(&mut self, task: Task, from: Region, to: Region, bytes: u32) -> Result<Reduction, GroupError> {
        let streams = bytes >= self.rules.from;
        let most = if streams { self.rules.chunk } else { self.rules.payload }.max(1);
        let mut offset = 0;
        loop {
            let length = (bytes - offset).min(most);
            let at = |region: Region| Sge { addr: region.addr + u64::from(offset), length, lkey: region.lkey };
            let ends = bytes - offset == length;
            self.waiting.push_back(Fragment { task, from: at(from), to: at(to), length, streams, ends });
            offset += length;
            if ends {
                break;
            }
        }
        self.posted += 1;
        self.send()?;
        Ok(Reduction(self.posted))
    }

    /// Whether an operation is over.
    #[must_use]
    pub fn is_done(&self, reduction: Reduction) -> bool {
        self.ended >= reduction.0
    }
    /// Whether nothing is outstanding.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.ended == self.posted
    }
    /// Where completions show.
    #[must_use]
    pub fn queue(&self) -> (usize, CqId) {
        (self.nic, self.cq)
    }

    /// Takes what completed by now, and sends what can go.
    ///
    /// # Errors
    /// A contribution that was refused or not answered.
    pub async fn progress(&mut self) -> Result<(), GroupError> {
        let (process, queue) = (self.process.clone(), self.queue());
        while process.earliest(&[queue], &[]).is_some_and(|at| at <= process.now()) {
            for wc in process.poll_cq(self.nic, self.cq, AT_A_TIME).await {
                self.complete(&wc)?;
            }
        }
        Ok(())
    }

    /// Waits for an operation.
    ///
    /// # Errors
    /// As [`progress`](Self::progress).
    pub async fn wait(&mut self, reduction: Reduction) -> Result<(), GroupError> {
        while !self.is_done(reduction) {
            for wc in self.process.clone().wait_cq(self.nic, self.cq, AT_A_TIME).await {
                self.complete(&wc)?;
            }
        }
        Ok(())
    }

    /// A completion of its queue.
    ///
    /// # Errors
    /// As [`progress`](Self::progress).
    pub fn complete(&mut self, wc: &Wc) -> Result<(), GroupError> {
        if wc.status != WcStatus::Success {
            return Err(GroupError::Failed { status: wc.status });
        }
        if !wc.opcode.is_recv() {
            return Ok(());
        }
        if let Some(fragment) = self.under_way.pop_front() {
            self.flowing -= if fragment.streams { fragment.length } else { 0 };
            self.ended += u64::from(fragment.ends);
        }
        self.send()
    }

    /// Sends fragments while there are slots and the window is open.
    fn send(&mut self) -> Result<(), GroupError> {
        while let Some(fragment) = self.waiting.front().copied() {
            let full = self.under_way.len() >= self.rules.slots as usize;
            let closed = fragment.streams && self.flowing > 0 && self.flowing + fragment.length > self.rules.window;
            if full || closed {
                break;
            }
            self.waiting.pop_front();
            let listens = fragment.task.collective == Collective::Bcast && fragment.task.root != self.me;
            let sends = Sge { length: if listens { 0 } else { fragment.length }, ..fragment.from };
            self.process.post_recv(self.nic, self.qp, &RecvWr::new(0, fragment.to))?;
            let header = Remote { addr: fragment.task.pack(), rkey: Rkey(0) };
            let mut wr = SendWr::write(0, sends, header);
            self.unsignaled += 1;
            if self.unsignaled >= 2 * self.rules.slots {
                self.unsignaled = 0;
                wr = wr.signaled();
            }
            if sends.length <= self.rules.inline {
                wr.flags |= SendFlags::INLINE;
            }
            self.process.post_send(self.nic, self.qp, &wr)?;
            self.flowing += if fragment.streams { fragment.length } else { 0 };
            self.under_way.push_back(fragment);
        }
        Ok(())
    }
}

/// The first packet number of both directions. Basis: assumed; nothing depends on it but that switches begin with it too.
const FIRST: u32 = 0;
/// Completions that one poll takes. Basis: assumed; polling again costs little.
const AT_A_TIME: usize = 16;
