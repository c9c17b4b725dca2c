//! Combine by way of the GPU of the same number on each node: what experts made of tokens comes back and is added up on the way.
//!
//! ```text
//! GPUs ─ links of the node, a warp for each GPU ─▶ forwarders add up the parts of a token ─ RDMA WRITE ─▶ receivers add up those of nodes
//!                                                        ◀── room for so many tokens ──
//! ```
//! Source: DeepEP, csrc/kernels/internode.cu (`combine`), intranode.cu.
//! Modelled: senders that take the nodes in turn, chunk by chunk; a token leaves a node when all its parts there have come, and is done when all
//! nodes' have; warps that add up one token each; a processor's own rate; room that is told when tokens are done.
//! Not modelled: buffers between the GPUs of a node, which senders do not wait for here; biases.

use std::collections::VecDeque;

use fabriscope_node::ProgramError;
use fabriscope_units::Time;

use crate::forwarding::{Agenda, Numbers, ROOM, Says};
use crate::job::Kernel;
use crate::merge::Merge;
use crate::node::Mail;
use crate::rank::Rank;

enum Act {
    /// A warp that sends to a GPU is done with a chunk.
    Sent { channel: u32, gpu: u32 },
    /// Tokens of a channel have come from a GPU of the node.
    Mail(Mail),
    /// Tokens for a node have been added up.
    Added { channel: u32, node: u32, tokens: u32 },
    /// A message has been posted.
    Post { node: u32, channel: u32, tokens: u32 },
    /// Tokens of a channel are done.
    Done { channel: u32 },
    /// Room is told.
    Room { node: u32, channel: u32, tokens: u32 },
}

/// Tokens for one node of a channel.
#[derive(Default)]
struct Lane {
    parts: Merge,
    free: Time,
    ready: u32,
    issued: u32,
    taken: u32,
    all: u32,
}

/// Tokens of a channel that come back.
struct Channel {
    parts: Merge,
    free: Time,
    told: Vec<u32>,
}

struct Combine<'a> {
    rank: &'a mut Rank,
    numbers: Numbers,
    agenda: Agenda<Act>,
    /// By channel and GPU: chunks to be sent, with the node whose tokens they are.
    sending: Vec<VecDeque<(u32, u32)>>,
    processors: Vec<Time>,
    /// By channel and node.
    lanes: Vec<Lane>,
    channels: Vec<Channel>,
    last: Time,
}

/// The kernel of one rank; when it ends there.
pub(crate) async fn run(rank: &mut Rank, (kernel, chunk): (&Kernel, u32), begun: Time) -> Result<Time, ProgramError> {
    let numbers =
        Numbers::of(rank, kernel.bytes, chunk).ok_or_else(|| ProgramError("a library without kernels that forward".to_owned()))?;
    let mut run = Combine::new(rank, numbers, begun)?;
    for channel in 0..numbers.channels {
        for gpu in 0..numbers.per_node {
            run.start(channel, gpu)?;
        }
    }
    loop {
        let now = run.rank.process.now();
        for words in run.rank.wires.heard(&run.rank.process) {
            let Some(says) = Says::heard(words, numbers.kernel) else { continue };
            match says {
                Says::Tokens { channel, node, tokens } => run.came(channel, node, tokens, now),
                Says::Room { channel, node, tokens } => {
                    run.lane(channel, node).taken += tokens;
                    run.issue(channel, node, now);
                }
            }
        }
        for mail in run.rank.mail() {
            run.agenda.add(mail.at, Act::Mail(mail));
        }
        while let Some(act) = run.agenda.due(now) {
            run.act(act, now)?;
        }
        if run.agenda.is_empty() && run.is_over() {
            return Ok(run.last);
        }
        run.rank.wait(run.agenda.next()).await?;
    }
}

impl Combine<'_> {
    fn new(rank: &mut Rank, numbers: Numbers, begun: Time) -> Result<Combine<'_>, ProgramError> {
        let Numbers { nodes, per_node, channels, chunk, .. } = numbers;
        let job = rank.job.clone();
        let plan = job.plan.as_ref().ok_or_else(|| ProgramError("no channels".to_owned()))?;
        let (own, local) = (rank.node, rank.me % per_node);
        let mut sending = Vec::new();
        for channel in 0..channels {
            for gpu in 0..per_node {
                let mine =
                    |node: u32| plan.gpus(node * per_node + gpu, channel, own).iter().filter(|gpus| **gpus & (1 << local) != 0).count();
                let mut left: Vec<u32> = (0..nodes).map(|node| mine(node) as u32).collect();
                let mut chunks = VecDeque::new();
                while left.iter().any(|left| *left > 0) {
                    for turn in 0..nodes {
                        let node = (turn + channel) % nodes;
                        let tokens = left[node as usize].min(chunk);
                        left[node as usize] -= tokens;
                        chunks.extend((tokens > 0).then_some((node, tokens)));
                    }
                }
                sending.push(chunks);
            }
        }
        let lane = |channel: u32, node: u32| {
            let of: Vec<u64> = plan.gpus(node * per_node + local, channel, own).iter().map(|gpus| u64::from(*gpus)).collect();
            Lane { all: of.len() as u32, parts: Merge::new(of, per_node as usize), free: begun, ..Lane::default() }
        };
        let lanes = (0..channels).flat_map(|channel| (0..nodes).map(move |node| (channel, node)));
        let lanes = lanes.map(|(channel, node)| lane(channel, node)).collect();
        let of_channel = |channel| Channel {
            parts: Merge::new(plan.sent(rank.me, channel).to_vec(), nodes as usize),
            free: begun,
            told: vec![0; nodes as usize],
        };
        let received = (0..channels).map(of_channel).collect();
        let processors = vec![begun; channels as usize];
        Ok(Combine { rank, numbers, agenda: Agenda::new(), sending, processors, lanes, channels: received, last: begun })
    }

    fn is_over(&self) -> bool {
        let sent = |lane: &Lane| lane.parts.is_complete() && lane.issued == lane.all;
        self.sending.iter().all(VecDeque::is_empty) && self.lanes.iter().all(sent) && self.channels.iter().all(|of| of.parts.is_complete())
    }
    fn lane(&mut self, channel: u32, node: u32) -> &mut Lane {
        &mut self.lanes[(channel * self.numbers.nodes + node) as usize]
    }
    fn peer(&self, node: u32) -> u32 {
        node * self.numbers.per_node + self.rank.me % self.numbers.per_node
    }

    fn act(&mut self, act: Act, now: Time) -> Result<(), ProgramError> {
        match act {
            Act::Sent { channel, gpu } => {
                let of = &mut self.sending[(channel * self.numbers.per_node + gpu) as usize];
                if let Some((node, tokens)) = of.pop_front() {
                    let to = self.rank.job.binding.gpu(gpu, u32::MAX).unwrap_or(gpu);
                    let from = self.rank.me % self.numbers.per_node;
                    let mail = Mail { at: now, channel, node, from, tokens };
                    if to == self.rank.gpu {
                        self.agenda.add(now, Act::Mail(mail));
                    } else {
                        self.rank.send_within(to, mail);
                    }
                }
                self.start(channel, gpu)?;
            }
            Act::Mail(Mail { channel, node, from, tokens, .. }) => {
                let Numbers { nodes, reduce, reducers, .. } = self.numbers;
                let warps = (reducers / u64::from(nodes)).max(1);
                let lane = self.lane(channel, node);
                let complete = lane.parts.come(from as usize, tokens);
                if complete > 0 {
                    lane.free = now.max(lane.free) + reduce * u64::from(complete) / warps;
                    let at = lane.free;
                    self.agenda.add(at, Act::Added { channel, node, tokens: complete });
                }
            }
            Act::Added { channel, node, tokens } => {
                self.lane(channel, node).ready += tokens;
                self.issue(channel, node, now);
            }
            Act::Post { node, channel, tokens } => {
                let words = Says::Tokens { channel, node: self.rank.node, tokens }.words(self.numbers.kernel);
                self.rank.write((self.peer(node), channel), self.numbers.bytes * u64::from(tokens), words)?;
            }
            Act::Done { channel } => self.tell(channel, now),
            Act::Room { node, channel, tokens } => {
                let words = Says::Room { channel, node: self.rank.node, tokens }.words(self.numbers.kernel);
                self.rank.write((self.peer(node), channel), ROOM, words)?;
            }
        }
        Ok(())
    }

    /// A warp begins with the next chunk for a GPU of the node.
    fn start(&mut self, channel: u32, gpu: u32) -> Result<(), ProgramError> {
        let now = self.rank.process.now();
        let Numbers { per_node, bytes, copy, .. } = self.numbers;
        let Some((_, tokens)) = self.sending[(channel * per_node + gpu) as usize].front().copied() else { return Ok(()) };
        let moved = bytes * u64::from(tokens);
        let to = self.rank.job.binding.gpu(gpu, u32::MAX).unwrap_or(gpu);
        let mut end = (now + copy * u64::from(tokens)).max(self.rank.carry(now, (self.rank.gpu, to), moved)?);
        let rate = self.rank.job.library.forwarding.as_ref().map(|of| *of.write_rate).unwrap_or_default();
        if rate.as_bps() > 0 {
            let processor = &mut self.processors[channel as usize];
            *processor = now.max(*processor) + rate.time(moved);
            end = end.max(*processor);
        }
        self.agenda.add(end, Act::Sent { channel, gpu });
        Ok(())
    }

    /// Tokens for a node leave as far as they make chunks and there is room.
    fn issue(&mut self, channel: u32, node: u32, now: Time) {
        let Numbers { chunk, buffer, .. } = self.numbers;
        loop {
            let lane = self.lane(channel, node);
            let tokens = (lane.ready - lane.issued).min(chunk);
            let is_rest = lane.ready == lane.all;
            if tokens == 0 || (tokens < chunk && !is_rest) || lane.issued - lane.taken + tokens > buffer {
                return;
            }
            lane.issued += tokens;
            if node == self.rank.node {
                self.lane(channel, node).taken += tokens;
                self.came(channel, node, tokens, now);
            } else {
                let to = (self.peer(node), channel);
                let posted = self.rank.post_at(now, to, false);
                let _ = self.rank.post_at(posted, to, true);
                self.agenda.add(posted, Act::Post { node, channel, tokens });
            }
        }
    }

    /// Tokens of a channel have come back from a node.
    fn came(&mut self, channel: u32, node: u32, tokens: u32, now: Time) {
        let Numbers { nodes, reduce, reducers, per_node, .. } = self.numbers;
        // The warps that do not send to GPUs of the node.
        let warps = reducers.saturating_sub(u64::from(per_node)).max(1);
        let of = &mut self.channels[channel as usize];
        let complete = of.parts.come(node as usize, tokens);
        if complete > 0 {
            let work = if nodes > 1 { reduce * u64::from(complete) / warps } else { fabriscope_units::Span::ZERO };
            of.free = now.max(of.free) + work;
            self.last = self.last.max(of.free);
            let at = of.free;
            self.agenda.add(at, Act::Done { channel });
        }
    }

    /// Tells nodes of room, a chunk at a time.
    fn tell(&mut self, channel: u32, now: Time) {
        let own = self.rank.node;
        for node in (0..self.numbers.nodes).filter(|node| *node != own) {
            let of = &mut self.channels[channel as usize];
            let used = of.parts.used(node as usize) - of.told[node as usize];
            if used >= self.numbers.chunk {
                of.told[node as usize] += used;
                let at = self.rank.post_at(now, (self.peer(node), channel), true);
                self.agenda.add(at, Act::Room { node, channel, tokens: used });
            }
        }
    }
}
