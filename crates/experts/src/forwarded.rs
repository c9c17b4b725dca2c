//! Dispatch by way of the GPU of the same number on each node.
//!
//! ```text
//! tokens ─ channel: copied, in order ─▶ chunk for a node ─ RDMA WRITE ─▶ forwarders, a warp for each GPU ─ links of the node ─▶ GPU
//!             ◀──────────────── room for so many tokens ───────────────
//! ```
//! Source: DeepEP, csrc/kernels/internode.cu (`dispatch`), intranode.cu.
//! Modelled: channels that take tokens in order and wait where the buffer of a node is full; chunks; a warp that looks at each token and copies
//! those for its GPU, one after the other; a processor's own rate; room that is told when all warps have passed a chunk. On one node, senders
//! copy to the GPUs directly.
//! Not modelled: buffers between the GPUs of a node, which have room for several chunks; the warps that take tokens out of them, but for the last.

use std::collections::VecDeque;

use fabriscope_node::ProgramError;
use fabriscope_units::Time;

use crate::forwarding::{Agenda, Numbers, ROOM, Says};
use crate::job::Kernel;
use crate::merge::set;
use crate::rank::Rank;

enum Act {
    /// A message has been posted.
    Post { node: u32, channel: u32, tokens: u32 },
    /// Tokens for the own node are in its buffer.
    Own { channel: u32, tokens: u32 },
    /// A warp is done with a chunk.
    Done { channel: u32, gpu: u32 },
    /// Room is told.
    Room { node: u32, channel: u32, tokens: u32 },
}

/// A channel that sends.
struct Sender {
    next: usize,
    clock: Time,
    produced: Vec<u32>,
    issued: Vec<u32>,
    /// What the receivers have taken out of their buffers.
    taken: Vec<u32>,
}

/// Tokens that came.
struct Chunk {
    node: u32,
    tokens: u32,
    /// Warps that have not passed it.
    left: u32,
}

/// A warp that forwards to one GPU: chunks that wait, with the tokens of each that are for it.
#[derive(Default)]
struct Warp {
    waiting: VecDeque<(usize, u32)>,
    busy: bool,
}

struct Dispatch<'a> {
    rank: &'a mut Rank,
    numbers: Numbers,
    agenda: Agenda<Act>,
    senders: Vec<Sender>,
    chunks: Vec<Chunk>,
    /// By channel and GPU.
    warps: Vec<Warp>,
    /// When the processor of each channel is free.
    processors: Vec<Time>,
    /// Tokens of each node and channel that came before.
    seen: Vec<usize>,
    /// Tokens that are still to come.
    missing: u64,
    last: Time,
}

/// The kernel of one rank; when it ends there, apart from what comes over the links of the node.
pub(crate) async fn run(rank: &mut Rank, (kernel, chunk): (&Kernel, u32), begun: Time) -> Result<Time, ProgramError> {
    let numbers =
        Numbers::of(rank, kernel.bytes, chunk).ok_or_else(|| ProgramError("a library without kernels that forward".to_owned()))?;
    let Numbers { nodes, per_node, channels, .. } = numbers;
    let job = rank.job.clone();
    let plan = job.plan.as_ref().ok_or_else(|| ProgramError("no channels".to_owned()))?;
    let local = rank.me % per_node;
    let own = rank.node;
    let missing = (0..nodes).flat_map(|node| (0..channels).map(move |channel| (node, channel)));
    let missing = missing.map(|(node, channel)| plan.gpus(node * per_node + local, channel, own).len() as u64).sum();
    let none = || vec![0; nodes as usize];
    let sender = |_| Sender { next: 0, clock: begun, produced: none(), issued: none(), taken: none() };
    let mut run = Dispatch {
        rank,
        numbers,
        agenda: Agenda::new(),
        senders: (0..channels).map(sender).collect(),
        chunks: Vec::new(),
        warps: (0..channels * per_node).map(|_| Warp::default()).collect(),
        processors: vec![begun; channels as usize],
        seen: vec![0; (nodes * channels) as usize],
        missing,
        last: begun,
    };
    for channel in 0..channels {
        if nodes == 1 {
            let tokens = plan.gpus(run.rank.me, channel, own).len() as u32;
            run.pieces(channel, tokens)?;
        } else {
            run.take(channel)?;
        }
    }
    loop {
        let now = run.rank.process.now();
        for words in run.rank.wires.heard(&run.rank.process) {
            let Some(says) = Says::heard(words, numbers.kernel) else { continue };
            match says {
                Says::Tokens { channel, node, tokens } => run.came(node, channel, tokens)?,
                Says::Room { channel, node, tokens } => {
                    let sender = &mut run.senders[channel as usize];
                    sender.taken[node as usize] += tokens;
                    sender.clock = sender.clock.max(now);
                    run.take(channel)?;
                }
            }
        }
        while let Some(act) = run.agenda.due(now) {
            run.act(act, now)?;
        }
        if run.missing == 0 && run.agenda.is_empty() && run.is_sent() {
            return Ok(run.last);
        }
        run.rank.wait(run.agenda.next()).await?;
    }
}

impl Dispatch<'_> {
    fn is_sent(&self) -> bool {
        let sent = |(channel, sender): (usize, &Sender)| self.tokens(channel as u32) == sender.next;
        self.numbers.nodes == 1 || self.senders.iter().enumerate().all(sent)
    }
    fn tokens(&self, channel: u32) -> usize {
        self.rank.job.plan.as_ref().map_or(0, |plan| plan.sent(self.rank.me, channel).len())
    }

    /// All chunks of a channel at once: senders on one node have the tokens at hand.
    fn pieces(&mut self, channel: u32, tokens: u32) -> Result<(), ProgramError> {
        let mut left = tokens;
        while left > 0 {
            let piece = left.min(self.numbers.chunk);
            self.came(self.rank.node, channel, piece)?;
            left -= piece;
        }
        Ok(())
    }

    /// A channel takes tokens in as far as there is room for them, and issues what makes a chunk.
    fn take(&mut self, channel: u32) -> Result<(), ProgramError> {
        let job = self.rank.job.clone();
        let plan = job.plan.as_ref().ok_or_else(|| ProgramError("no channels".to_owned()))?;
        let sent = plan.sent(self.rank.me, channel);
        let Numbers { chunk, buffer, take, bytes, .. } = self.numbers;
        let rate = job.library.forwarding.as_ref().map(|of| *of.write_rate).unwrap_or_default();
        let mut issues = Vec::new();
        let sender = &mut self.senders[channel as usize];
        while let Some(nodes) = sent.get(sender.next).copied() {
            if set(nodes).any(|node| sender.produced[node] - sender.taken[node] >= buffer) {
                break;
            }
            let written = if rate.as_bps() == 0 { take } else { take.max(rate.time(bytes * u64::from(nodes.count_ones()))) };
            sender.clock += written;
            sender.next += 1;
            for node in set(nodes) {
                sender.produced[node] += 1;
                if sender.produced[node] - sender.issued[node] >= chunk {
                    sender.issued[node] += chunk;
                    issues.push((sender.clock, node as u32, chunk));
                }
            }
        }
        if sender.next == sent.len() {
            for node in 0..sender.produced.len() {
                let rest = sender.produced[node] - sender.issued[node];
                sender.issued[node] += rest;
                issues.extend((rest > 0).then_some((sender.clock, node as u32, rest)));
            }
        }
        for (at, node, tokens) in issues {
            if node == self.rank.node {
                self.agenda.add(at, Act::Own { channel, tokens });
            } else {
                let to = (self.peer(node), channel);
                let posted = self.rank.post_at(at, to, false);
                // The tail is told behind the tokens, by the same poster.
                let _ = self.rank.post_at(posted, to, true);
                self.agenda.add(posted, Act::Post { node, channel, tokens });
            }
        }
        Ok(())
    }

    fn peer(&self, node: u32) -> u32 {
        node * self.numbers.per_node + self.rank.me % self.numbers.per_node
    }

    fn act(&mut self, act: Act, now: Time) -> Result<(), ProgramError> {
        match act {
            Act::Post { node, channel, tokens } => {
                let words = Says::Tokens { channel, node: self.rank.node, tokens }.words(self.numbers.kernel);
                self.rank.write((self.peer(node), channel), self.numbers.bytes * u64::from(tokens), words)
            }
            Act::Own { channel, tokens } => self.came(self.rank.node, channel, tokens),
            Act::Done { channel, gpu } => self.done(channel, gpu, now),
            Act::Room { node, channel, tokens } => {
                let words = Says::Room { channel, node: self.rank.node, tokens }.words(self.numbers.kernel);
                self.rank.write((self.peer(node), channel), ROOM, words)
            }
        }
    }

    /// Tokens of a node are in the buffer of a channel.
    fn came(&mut self, node: u32, channel: u32, tokens: u32) -> Result<(), ProgramError> {
        let job = self.rank.job.clone();
        let plan = job.plan.as_ref().ok_or_else(|| ProgramError("no channels".to_owned()))?;
        let Numbers { per_node, channels, .. } = self.numbers;
        let seen = &mut self.seen[(node * channels + channel) as usize];
        let list = plan.gpus(node * per_node + self.rank.me % per_node, channel, self.rank.node);
        let of = list.get(*seen..*seen + tokens as usize).ok_or_else(|| ProgramError("more tokens than were sent".to_owned()))?;
        *seen += tokens as usize;
        let number = self.chunks.len();
        self.chunks.push(Chunk { node, tokens, left: per_node });
        for gpu in 0..per_node {
            let own = of.iter().filter(|gpus| **gpus & (1 << gpu) != 0).count() as u32;
            self.warps[(channel * per_node + gpu) as usize].waiting.push_back((number, own));
            self.start(channel, gpu)?;
        }
        Ok(())
    }

    /// A warp that is idle begins with the next chunk.
    fn start(&mut self, channel: u32, gpu: u32) -> Result<(), ProgramError> {
        let now = self.rank.process.now();
        let Numbers { per_node, bytes, copy, look, .. } = self.numbers;
        let warp = &mut self.warps[(channel * per_node + gpu) as usize];
        let Some((number, own)) = warp.waiting.front().copied().filter(|_| !warp.busy) else { return Ok(()) };
        warp.busy = true;
        let work = look * u64::from(self.chunks[number].tokens) + copy * u64::from(own);
        let moved = bytes * u64::from(own);
        let mut end = now + work;
        if own > 0 {
            let to = self.gpu_of(gpu);
            end = end.max(self.rank.carry(now, (self.rank.gpu, to), moved)?);
            let rate = self.rank.job.library.forwarding.as_ref().map(|of| *of.write_rate).unwrap_or_default();
            if rate.as_bps() > 0 {
                let processor = &mut self.processors[channel as usize];
                *processor = now.max(*processor) + rate.time(moved);
                end = end.max(*processor);
            }
        }
        self.agenda.add(end, Act::Done { channel, gpu });
        Ok(())
    }

    fn gpu_of(&self, local: u32) -> u32 {
        self.rank.job.binding.gpu(local, u32::MAX).unwrap_or(local)
    }

    /// A warp has passed a chunk: the GPU takes its tokens out, and there is room where all warps have.
    fn done(&mut self, channel: u32, gpu: u32, now: Time) -> Result<(), ProgramError> {
        let Numbers { per_node, copy, .. } = self.numbers;
        let warp = &mut self.warps[(channel * per_node + gpu) as usize];
        warp.busy = false;
        let Some((number, own)) = warp.waiting.pop_front() else { return Ok(()) };
        if own > 0 {
            let to = self.gpu_of(gpu);
            self.rank.shared.borrow_mut().came(to, now + copy * u64::from(own));
        }
        let chunk = &mut self.chunks[number];
        chunk.left -= 1;
        let (node, tokens) = (chunk.node, chunk.tokens);
        if chunk.left == 0 {
            self.missing -= u64::from(tokens);
            self.last = self.last.max(now);
            if node == self.rank.node {
                if self.numbers.nodes > 1 {
                    self.senders[channel as usize].taken[node as usize] += tokens;
                    let clock = &mut self.senders[channel as usize].clock;
                    *clock = now.max(*clock);
                    self.take(channel)?;
                }
            } else {
                let at = self.rank.post_at(now, (self.peer(node), channel), true);
                self.agenda.add(at, Act::Room { node, channel, tokens });
            }
        }
        self.start(channel, gpu)
    }
}
