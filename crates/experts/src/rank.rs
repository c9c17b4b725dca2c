//! A GPU of the job: what its kernels have, and those who post for them.
//!
//! Modelled: a post takes one of the posters its time and keeps others from its queue pair; posters are warps of the GPU, or threads of the
//! CPU that see a command some time after the kernel gave it. Kernels of all ranks begin together, as benchmarks put a barrier before them.
//! Not modelled: the launch of kernels one after the other on a node; what proxies take of each other's cores.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use fabriscope_catalog::Poster;
use fabriscope_node::{CpuCosts, Process, ProgramError};
use fabriscope_units::{Bytes, Span, Time};
use fabriscope_verbs::AppWords;

use crate::job::{Exchange, Job};
use crate::node::{Mail, Node};
use crate::wires::{FOR_EVER, Wires};

/// A rank at work.
pub(crate) struct Rank {
    pub process: Process,
    pub job: Arc<Job>,
    /// Its number; its node and GPU.
    pub me: u32,
    pub node: u32,
    pub gpu: u32,
    /// The kernel that runs.
    pub kernel: u32,
    pub shared: Rc<RefCell<Node>>,
    pub wires: Wires,
    posters: Posters,
}

impl Rank {
    /// The rank of a process, connected with all to whom it writes.
    pub async fn seated(process: Process, job: Arc<Job>) -> Result<Rank, ProgramError> {
        let (me, per_node) = (process.rank(), job.shape.per_node);
        let (node, local) = (me / per_node, me % per_node);
        let count = process.devices()?.count();
        let gpu = job.binding.gpu(local, count as u32).unwrap_or(0);
        if gpu as usize >= count {
            return Err(ProgramError(format!("rank {me} has GPU {gpu} of a node with {count}")));
        }
        let shared = process.segments().of(&job.owner, || RefCell::new(Node::new(count)));
        let cpu = process.cpu();
        process.drive_as(cpu.posted_by_others());
        let scattered = job.kernels.iter().any(|kernel| kernel.exchange == Exchange::Scattered);
        let all = 0..job.shape.ranks();
        let (peers, lanes): (Vec<u32>, u32) = if scattered {
            let beside = |peer: &u32| *peer != me && (*peer / per_node != node || !job.library.within_node);
            (all.filter(beside).collect(), job.queue_pairs())
        } else {
            let opposite = |peer: &u32| *peer != me && *peer % per_node == local;
            (all.filter(opposite).collect(), job.plan.as_ref().map_or(1, |plan| plan.channels))
        };
        let store = job.net.store.clone();
        store.fence(&process).await;
        shared.borrow_mut().ranks.push(me);
        let (mut wires, made) = Wires::open(&process, &job.net, (me, gpu), (&peers, lanes))?;
        store.fence(&process).await;
        wires.connect(&process, &job.net, me, made)?;
        shared.borrow_mut().ranks.sort_unstable();
        let posters = Posters::new(&job, cpu);
        Ok(Rank { process, job, me, node, gpu, kernel: 0, shared, wires, posters })
    }

    /// When a message that is ready has been posted.
    pub fn post_at(&mut self, ready: Time, (peer, lane): (u32, u32), signal: bool) -> Time {
        self.posters.take(ready, (peer, lane), signal)
    }
    /// Hands tokens over to a kernel on the node.
    pub fn send_within(&self, to: u32, mail: Mail) {
        let node = &mut *self.shared.borrow_mut();
        node.mail[to as usize].push(mail);
        let first = self.node * self.job.shape.per_node;
        if let Some(rank) = node.ranks.iter().find(|rank| **rank - first == to) {
            self.process.tell(*rank, mail.at.max(self.process.engine_time()));
        }
    }
    /// What kernels on the node have sent.
    pub fn mail(&self) -> Vec<Mail> {
        std::mem::take(&mut self.shared.borrow_mut().mail[self.gpu as usize])
    }
    /// When bytes are at another GPU of the node.
    pub fn carry(&self, now: Time, ends: (u32, u32), bytes: Bytes) -> Result<Time, ProgramError> {
        self.shared.borrow_mut().carry(self.process.devices()?, now, ends, bytes)
    }
    /// The bytes of a write.
    pub fn write(&self, to: (u32, u32), bytes: Bytes, words: AppWords) -> Result<(), ProgramError> {
        self.wires.write(&self.process, to, bytes, words)
    }
    /// Waits until something comes or `until`.
    pub async fn wait(&self, until: Option<Time>) -> Result<(), ProgramError> {
        let watches = self.wires.watches(&self.process);
        let _ = self.process.wait_any_until(&[], &watches, until.unwrap_or(FOR_EVER)).await;
        let _ = self.process.take_notes();
        self.wires.clean(&self.process)
    }
    /// Time of a warp for the bytes of a token: as often as what is in flight goes into it.
    pub fn copying(&self, bytes: Bytes) -> Span {
        self.job.library.forwarding.as_ref().map_or(Span::ZERO, |of| *of.trip * bytes.0.div_ceil(of.in_flight.0.max(1)))
    }
}

/// Those who post for a GPU.
struct Posters {
    free: Vec<Time>,
    queues: BTreeMap<(u32, u32), Time>,
    post: Span,
    signal: Span,
    handoff: Span,
    hold: Span,
}

impl Posters {
    fn new(job: &Job, cpu: CpuCosts) -> Posters {
        let library = &job.library;
        let verbs = match library.poster {
            Poster::Gpu => Span::ZERO,
            Poster::Proxy => cpu.wqe_build + cpu.mmio_busy + cpu.poll_hit,
        };
        Posters {
            free: vec![Time::ZERO; *library.posters as usize],
            queues: BTreeMap::new(),
            post: *library.post + verbs,
            signal: *library.signal + verbs,
            handoff: *library.handoff,
            hold: library.hold.as_ref().map_or(Span::ZERO, |hold| **hold),
        }
    }
    /// The next who is free posts; who has to wait for the queue pair does nothing else meanwhile.
    fn take(&mut self, ready: Time, queue: (u32, u32), signal: bool) -> Time {
        let ready = ready + self.handoff;
        let Some(poster) = self.free.iter_mut().min() else { return ready };
        let begin = ready.max(*poster);
        let held = self.queues.entry(queue).or_insert(Time::ZERO);
        let begin = if self.hold == Span::ZERO { begin } else { begin.max(*held) };
        *held = begin + self.hold;
        let end = begin + if signal { self.signal } else { self.post };
        *poster = end.max(*held);
        end.max(*held)
    }
}
