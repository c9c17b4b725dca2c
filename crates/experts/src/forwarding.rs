//! What kernels that forward have in common: what is to happen when, and what messages between them say.

use std::collections::BTreeMap;

use fabriscope_units::{Bytes, Span, Time};
use fabriscope_verbs::AppWords;

use crate::rank::Rank;

/// What is to happen, in order of time, and of asking at the same time.
pub(crate) struct Agenda<T> {
    entries: BTreeMap<(Time, u64), T>,
    asked: u64,
}

impl<T> Agenda<T> {
    pub fn new() -> Agenda<T> {
        Agenda { entries: BTreeMap::new(), asked: 0 }
    }
    pub fn add(&mut self, at: Time, what: T) {
        self.entries.insert((at, self.asked), what);
        self.asked += 1;
    }
    /// The next that is due.
    pub fn due(&mut self, now: Time) -> Option<T> {
        self.entries.first_entry().filter(|first| first.key().0 <= now).map(|first| first.remove())
    }
    pub fn next(&self) -> Option<Time> {
        self.entries.first_key_value().map(|((at, _), _)| *at)
    }
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// What a message between nodes says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Says {
    /// Tokens of a channel are there.
    Tokens { channel: u32, node: u32, tokens: u32 },
    /// There is room for so many.
    Room { channel: u32, node: u32, tokens: u32 },
}

impl Says {
    /// The words, of a kernel of the job: room of one kernel may be told after the next has begun.
    pub fn words(self, kernel: u32) -> AppWords {
        let (kind, channel, node, tokens) = match self {
            Says::Tokens { channel, node, tokens } => (0, channel, node, tokens),
            Says::Room { channel, node, tokens } => (1, channel, node, tokens),
        };
        AppWords([kind + 2 * u64::from(kernel), channel.into(), node.into(), tokens.into()])
    }
    /// What was said of this kernel.
    pub fn heard(AppWords([kind, channel, node, tokens]): AppWords, kernel: u32) -> Option<Says> {
        let (channel, node, tokens) = (channel as u32, node as u32, tokens as u32);
        let says = if kind % 2 == 0 { Says::Tokens { channel, node, tokens } } else { Says::Room { channel, node, tokens } };
        (kind / 2 == u64::from(kernel)).then_some(says)
    }
}

/// A message that tells of room, in bytes.
pub(crate) const ROOM: Bytes = Bytes(8);

/// The numbers of a kernel that forwards, on one rank.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbers {
    /// Which kernel of the job it is.
    pub kernel: u32,
    pub nodes: u32,
    pub per_node: u32,
    pub channels: u32,
    /// Tokens of a message, and those there is room for.
    pub chunk: u32,
    pub buffer: u32,
    pub bytes: Bytes,
    /// Time of the warps of a channel that serve one GPU, for a token that is theirs and for one that may be.
    pub copy: Span,
    pub look: Span,
    /// Time of the warps that take tokens in at the sender, for each.
    pub take: Span,
    /// Time of a warp to add up a token, and how many there are.
    pub reduce: Span,
    pub reducers: u64,
}

impl Numbers {
    pub fn of(rank: &Rank, bytes: Bytes, chunk: u32) -> Option<Numbers> {
        let kernel = rank.kernel;
        let (shape, forwarding) = (rank.job.shape, rank.job.library.forwarding.as_ref()?);
        let within = shape.nodes == 1;
        let warps = u64::from(if within { *forwarding.senders } else { *forwarding.forwarders });
        let copy = rank.copying(bytes) / warps;
        let full = Bytes(u64::from(REDUCED) * 2);
        Some(Numbers {
            kernel,
            nodes: shape.nodes,
            per_node: shape.per_node,
            channels: rank.job.plan.as_ref()?.channels,
            chunk: chunk.max(1),
            buffer: (*forwarding.buffer).max(chunk),
            bytes,
            copy,
            look: if within { Span::ZERO } else { *forwarding.look / warps },
            take: if within { Span::ZERO } else { rank.copying(bytes) / TAKERS },
            reduce: Span::from_ps((u128::from(forwarding.reduce.as_ps()) * u128::from(bytes.0) / u128::from(full.0)) as u64),
            reducers: u64::from(*forwarding.reducers),
        })
    }
}

/// Warps of a channel that copy tokens into the buffers of nodes. Basis: published (DeepEP, csrc/kernels/internode.cu:
/// kNumDispatchRDMASenderWarps).
const TAKERS: u64 = 7;
/// Elements for which `reduce` is given. Basis: published (DeepSeek-V3's hidden size).
const REDUCED: u32 = 7168;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_heard() {
        for says in [Says::Tokens { channel: 3, node: 7, tokens: 16 }, Says::Room { channel: 0, node: 1, tokens: 128 }] {
            assert_eq!((Says::heard(says.words(5), 5), Says::heard(says.words(5), 6)), (Some(says), None));
        }
    }

    #[test]
    fn what_was_asked_first_happens_first_at_the_same_time() {
        let mut agenda = Agenda::new();
        for (at, what) in [(5, 'c'), (3, 'a'), (3, 'b')] {
            agenda.add(Time::from_ps(at), what);
        }
        assert_eq!((agenda.due(Time::from_ps(2)), agenda.next()), (None, Some(Time::from_ps(3))));
        assert_eq!([3, 3, 5].map(|at| agenda.due(Time::from_ps(at))), [Some('a'), Some('b'), Some('c')]);
        assert!(agenda.is_empty());
    }
}
