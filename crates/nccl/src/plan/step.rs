//! What a rank does with one chunk.

use fabriscope_units::Bytes;
use smallvec::SmallVec;

/// Which of the two connections between a pair of ranks in a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Around a ring, towards the root of a tree, or to a head.
    Up,
    /// Away from it.
    Down,
}

/// The far end of a connection. A connection is one of a channel and has slots of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// Another rank.
    Rank(u32, Direction),
    /// The switch of NVLinks, towards a head: what all GPUs of the node put there, the head receives as one sum.
    Reduction(u32),
    /// The same away from a head: what it puts there, all GPUs of the node receive.
    Multicast(u32),
    /// The network's reduction for a head: each node puts its sum there, and receives that of all.
    Network(u32),
}

/// One step: wait for what comes and for room where it goes, add own data, pass it on, keep it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// From where chunks come; all of them are added.
    pub receive: SmallVec<[Peer; 4]>,
    /// To where the result goes.
    pub send: SmallVec<[Peer; 4]>,
    /// Where own data is in the input buffer, if it is used.
    pub input: Option<Bytes>,
    /// Where the result goes in the output buffer, if it is kept.
    pub output: Option<Bytes>,
    /// Size of the chunk. It may be empty: it still takes its slots.
    pub bytes: Bytes,
}

impl Step {
    /// Whether something is added up.
    #[must_use]
    pub fn reduces(&self) -> bool {
        self.receive.len() + usize::from(self.input.is_some()) > 1
    }
    pub(super) fn new(bytes: u64) -> Step {
        Step { receive: SmallVec::new(), send: SmallVec::new(), input: None, output: None, bytes: Bytes(bytes) }
    }
    pub(super) fn from(mut self, peers: impl IntoIterator<Item = Peer>) -> Step {
        self.receive.extend(peers);
        self
    }
    pub(super) fn to(mut self, peers: impl IntoIterator<Item = Peer>) -> Step {
        self.send.extend(peers);
        self
    }
    pub(super) fn input(mut self, offset: u64) -> Step {
        self.input = Some(Bytes(offset));
        self
    }
    pub(super) fn output(mut self, offset: u64) -> Step {
        self.output = Some(Bytes(offset));
        self
    }
}

/// A part of a chunk after which the peer is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// From the beginning of the chunk.
    pub offset: Bytes,
    /// Its size; it may be empty.
    pub bytes: Bytes,
    /// Slots that it takes.
    pub slots: u32,
}
