//! Each token by itself to each of its experts: the kernels for few tokens.
//!
//! Source: DeepEP, csrc/kernels/internode_ll.cu; pplx-kernels, csrc/all_to_all/internode_dispatch.cu, internode_combine.cu.
//! Modelled: a message for each token and expert, in the order in which blocks take tokens (dispatch: by token; combine: by expert, and those by
//! source); a signal to each expert's GPU behind them, or before them by blocks that count; GPUs of a node over their links or over adapters;
//! blocks that copy tokens out of buffers, or add them up.
//! Not modelled: casts to fewer bits, which are fast beside the rest.

use std::collections::BTreeMap;

use fabriscope_node::ProgramError;
use fabriscope_units::{Bytes, Span, Time};
use fabriscope_verbs::AppWords;

use crate::job::{Kernel, Phase};
use crate::rank::Rank;

/// A message to be posted.
struct Message {
    to: u32,
    lane: u32,
    bytes: Bytes,
    signal: bool,
    ready: Span,
}

/// The kernel of one rank; when it ends there, apart from what comes over the links of the node.
pub(crate) async fn run(rank: &mut Rank, kernel: &Kernel, begun: Time) -> Result<Time, ProgramError> {
    let messages = messages(rank, kernel);
    let expected = expected(rank, kernel);
    let mut posts: BTreeMap<(Time, usize), Message> = BTreeMap::new();
    for (number, message) in messages.into_iter().enumerate() {
        let ready = begun + message.ready;
        if message.to / rank.job.shape.per_node == rank.node && rank.job.library.within_node {
            let local = message.to % rank.job.shape.per_node;
            let to = rank.job.binding.gpu(local, u32::MAX).unwrap_or(local);
            posts.insert((ready, number), Message { lane: to, ..message });
        } else {
            let at = rank.post_at(ready, (message.to, message.lane), message.signal);
            posts.insert((at, number), message);
        }
    }
    let receive = rank.job.library.receive.as_ref().map_or(Span::ZERO, |span| **span);
    let mut threads = vec![Time::ZERO; *rank.job.library.posters as usize];
    let (mut came, mut last) = (0, begun);
    while !posts.is_empty() || came < expected {
        let now = rank.process.now();
        for _ in rank.wires.heard(&rank.process) {
            came += 1;
            let thread = threads.iter_mut().min();
            let done = thread.map_or(now, |thread| {
                *thread = now.max(*thread) + receive;
                *thread
            });
            last = last.max(done);
        }
        while let Some(first) = posts.first_entry().filter(|first| first.key().0 <= now) {
            let Message { to, lane, bytes, signal, .. } = first.remove();
            if to / rank.job.shape.per_node == rank.node && rank.job.library.within_node {
                let at = rank.carry(now, (rank.gpu, lane), bytes)?;
                rank.shared.borrow_mut().came(lane, at);
            } else {
                let words = AppWords([u64::from(signal), 0, 0, 0]);
                rank.write((to, lane), bytes, words)?;
            }
        }
        if posts.is_empty() && came >= expected {
            break;
        }
        rank.wait(posts.first_key_value().map(|((at, _), _)| *at)).await?;
    }
    Ok(last + finish(rank, kernel))
}

/// What a rank sends.
fn messages(rank: &Rank, kernel: &Kernel) -> Vec<Message> {
    let (job, shape) = (&rank.job, rank.job.shape);
    let lanes = job.queue_pairs();
    let mut all = Vec::new();
    let mut signals = Vec::new();
    let lane_of = |expert: u32| expert % shape.local_experts() % lanes;
    let blocks = job.library.counting_blocks.as_ref().map(|blocks| u64::from(**blocks));
    match kernel.way {
        Phase::Dispatch => {
            for token in 0..shape.tokens {
                for expert in job.routing.of(rank.me, token) {
                    let expert = u32::from(*expert);
                    let to = shape.rank_of(expert);
                    all.push(Message { to, lane: lane_of(expert), bytes: kernel.bytes, signal: false, ready: Span::ZERO });
                }
            }
            for expert in 0..shape.experts {
                // Blocks count one expert after the other.
                let turn = blocks.map_or(0, |blocks| u64::from(expert) / blocks.max(1) + 1);
                let ready = *job.library.signal * turn;
                signals.push(Message { to: shape.rank_of(expert), lane: lane_of(expert), bytes: SIGNAL, signal: true, ready });
            }
        }
        Phase::Combine => {
            for local in 0..shape.local_experts() {
                let own = rank.me * shape.local_experts() + local;
                for from in 0..shape.ranks() {
                    for token in 0..shape.tokens {
                        if job.routing.of(from, token).contains(&(own as u16)) {
                            all.push(Message { to: from, lane: lane_of(own), bytes: kernel.bytes, signal: false, ready: Span::ZERO });
                        }
                    }
                }
            }
            let each = if blocks.is_some() { 1 } else { shape.local_experts() };
            for to in 0..shape.ranks() {
                signals.extend((0..each).map(|local| Message { to, lane: local % lanes, bytes: SIGNAL, signal: true, ready: Span::ZERO }));
            }
        }
    }
    let ordered =
        if blocks.is_some() { signals.into_iter().chain(all).collect::<Vec<_>>() } else { all.into_iter().chain(signals).collect() };
    ordered.into_iter().filter(|message| message.to != rank.me).collect()
}

/// What comes to it by adapters.
fn expected(rank: &Rank, kernel: &Kernel) -> u64 {
    let (job, shape) = (&rank.job, rank.job.shape);
    let by_adapter = |peer: u32| peer != rank.me && (peer / shape.per_node != rank.node || !job.library.within_node);
    let peers = (0..shape.ranks()).filter(|peer| by_adapter(*peer)).count() as u64;
    match kernel.way {
        Phase::Dispatch => {
            let tokens = |from: u32| -> u64 {
                let mine = |expert: &&u16| shape.rank_of((**expert).into()) == rank.me;
                (0..shape.tokens).map(|token| job.routing.of(from, token).iter().filter(mine).count() as u64).sum()
            };
            let sent: u64 = (0..shape.ranks()).filter(|peer| by_adapter(*peer)).map(tokens).sum();
            sent + peers * u64::from(shape.local_experts())
        }
        Phase::Combine => {
            let of =
                |token| job.routing.of(rank.me, token).iter().filter(|expert| by_adapter(shape.rank_of((**expert).into()))).count() as u64;
            let each = if job.library.counting_blocks.is_some() { 1 } else { u64::from(shape.local_experts()) };
            (0..shape.tokens).map(of).sum::<u64>() + peers * each
        }
    }
}

/// From the last message until the tokens are in their place: all bytes are read and written once more, and blocks take their time for each.
fn finish(rank: &Rank, kernel: &Kernel) -> Span {
    let (job, shape) = (&rank.job, rank.job.shape);
    let tokens = match kernel.way {
        Phase::Dispatch => {
            let mine = |expert: &&u16| shape.rank_of((**expert).into()) == rank.me;
            let of = |from: u32| (0..shape.tokens).map(move |token| (from, token));
            (0..shape.ranks()).flat_map(of).map(|(from, token)| job.routing.of(from, token).iter().filter(mine).count() as u64).sum::<u64>()
        }
        Phase::Combine => u64::from(shape.tokens) * u64::from(shape.topk),
    };
    let moved = kernel.bytes * (2 * tokens);
    let memory = if job.memory.as_bps() == 0 { Span::ZERO } else { job.memory.time(moved) };
    let unpack = job.library.unpack.as_ref().map_or(Span::ZERO, |span| **span);
    memory + unpack * tokens.div_ceil(BLOCKS)
}

/// A signal, in bytes.
const SIGNAL: Bytes = Bytes(8);
/// Blocks that copy tokens out of buffers. Basis: published (pplx-kernels, csrc/all_to_all: at most 132).
const BLOCKS: u64 = 132;
