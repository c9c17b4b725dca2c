//! What the ranks of a job know of each other's broadcasts: addresses that they exchange when they open, what ranks of a node tell each
//! other in its memory, what receivers read in the memory of a source, and what came out of it.
//!
//! A counter that its owner's core has written at a time is seen by nobody before: cores run ahead of the simulation.

use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;

use fabriscope_node::exchange::Exchange;
use fabriscope_node::{Memory, Record, exchange_keys};
use fabriscope_units::Time;
use fabriscope_verbs::{Lid, QpNum, Rkey};

use super::arrivals::Landing;
use crate::buffer::Buffer;

/// Memory of a rank that adapters of others reach.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub addr: u64,
    pub rkey: Rkey,
}

/// What a source tells those that receive from it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Contact {
    pub lid: Lid,
    /// Its buffers, credits and progress in host memory.
    pub host: Window,
    /// Its buffer on the GPU, where its adapter reaches it.
    pub device: Option<Window>,
}

/// A step of the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// It asked for the copy of a chunk into the pinned buffer.
    Copy,
    /// It posted the packets of a chunk.
    Post,
    /// They had left.
    Sent,
}

/// What the ranks have seen in all broadcasts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Broadcasts, each counted at every rank.
    pub messages: u64,
    /// Packets that receivers missed.
    pub lost: u64,
    /// RDMA reads of what was missed, and their bytes.
    pub gets: u64,
    /// Bytes of these.
    pub got: u64,
    /// Reads of the sender's progress after a wait.
    pub probes: u64,
    /// Packets that had to be moved to their places.
    pub moved: u64,
    /// Packets that came after they were given up.
    pub repeated: u64,
    /// Packets at a place of another one when a broadcast was over.
    pub wrong: u64,
    /// What each sender did and when: rank, step, chunk, time.
    pub steps: Vec<(u32, Step, u64, Time)>,
}

/// A rank in the current broadcast of a source.
#[derive(Debug, Clone, Default)]
pub(super) struct BroadcastState {
    /// Broadcasts that it has begun, and since when this can be seen.
    pub entered: (u64, Time),
    /// Chunks that lie in its buffer, and since when this can be seen.
    pub given: Vec<(Time, u32)>,
    /// What has landed where.
    pub landing: Option<Landing>,
    /// Where its buffer is.
    pub memory: Option<Memory>,
}

exchange_keys! {
    /// The node of a rank.
    nodes: NodeOf { rank: u32 } => u32;
    /// What a source tells.
    contacts: ContactOf { source: u32 } => Contact;
    /// By receiver: its queue pair, and the one of the source for it.
    ends: EndOf { source: u32, rank: u32 } => (Lid, QpNum);
    answers: AnswerOf { source: u32, rank: u32 } => QpNum;
    /// By receiver that gives its credit to another receiver: its queue pair, and the one of that receiver for it.
    ups: UpOf { source: u32, rank: u32 } => (Lid, QpNum);
    downs: DownOf { source: u32, rank: u32 } => QpNum;
    /// Host memory of receivers that take credit of others.
    windows: WindowOf { source: u32, rank: u32 } => (Lid, Window);
}

/// What ranks of a node tell each other, by source and rank.
#[derive(Debug, Default)]
pub(super) struct Seats(RefCell<BTreeMap<(u32, u32), BroadcastState>>);

impl Seats {
    /// A rank in the current broadcast of a source.
    pub fn of(&self, source: u32, rank: u32) -> RefMut<'_, BroadcastState> {
        RefMut::map(self.0.borrow_mut(), |seats| seats.entry((source, rank)).or_default())
    }
}

/// What the memory of a source says of its broadcasts to those that read it.
#[derive(Debug, Default)]
pub(super) struct Books {
    /// Packets that have left, by time: the counter that receivers read.
    pub sent: Vec<(Time, u64)>,
    /// The chunk in each place of the pinned buffer.
    pub held: Vec<Option<u64>>,
    /// Of the last two broadcasts, as their headers say it: number, and where the data stays until everybody has it, if that is not the pinned
    /// buffer. Nobody begins a third one before everybody has ended the first.
    pub stays: [(u64, Option<Buffer>); 2],
    /// Broadcasts after which everybody had to say that he has all.
    pub finishes: u64,
}

impl Books {
    /// Packets that had left by `now`, as far as the source's core had noticed.
    pub fn sent_by(&self, now: Time) -> u64 {
        let known = self.sent.partition_point(|(at, _)| *at <= now);
        known.checked_sub(1).map_or(0, |last| self.sent[last].1)
    }
}

/// What a job shares of its broadcasts.
#[derive(Debug, Default)]
pub(super) struct Board {
    pub exchange: Exchange<Tables>,
    pub sources: Record<BTreeMap<u32, Books>>,
    pub outcome: Record<Outcome>,
    /// Steps of senders are noted.
    pub noting: bool,
}

/// The node of each rank.
#[derive(Debug)]
pub(super) struct Nodes(BTreeMap<u32, u32>);

impl Nodes {
    /// As rank `me` knows it, once all have said theirs.
    pub fn of(exchange: &Exchange<Tables>, me: u32) -> Nodes {
        Nodes(exchange.all::<NodeOf>(me).into_iter().map(|(key, node)| (key.rank, node)).collect())
    }
    /// The ranks of the node of `rank`, in the order in which they pass on what `source` sends; the first one has it from the network.
    pub fn members(&self, rank: u32, source: u32) -> Vec<u32> {
        let node = self.0.get(&rank);
        let mut members: Vec<u32> = self.0.iter().filter(|(_, other)| Some(*other) == node).map(|(rank, _)| *rank).collect();
        if let Some(at) = members.iter().position(|rank| *rank == source) {
            members[..=at].rotate_right(1);
        }
        members
    }
    /// The ranks that receive from the network what `source` sends: the first of each other node.
    pub fn leaders(&self, source: u32) -> Vec<u32> {
        let own = self.0.get(&source).copied();
        let mut first: BTreeMap<u32, u32> = BTreeMap::new();
        self.0.iter().for_each(|(rank, node)| {
            first.entry(*node).or_insert(*rank);
        });
        let mut leaders: Vec<u32> = first.into_iter().filter(|(node, _)| Some(*node) != own).map(|(_, rank)| rank).collect();
        leaders.sort_unstable();
        leaders
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriscope_units::Span;

    #[test]
    fn one_rank_of_each_other_node_receives_and_the_source_stands_first_in_its_own() {
        let nodes = Nodes((0..6).map(|rank| (rank, rank / 2)).collect());
        assert_eq!((nodes.leaders(3), nodes.members(2, 3), nodes.members(0, 3)), (vec![0, 4], vec![3, 2], vec![0, 1]));
    }

    #[test]
    fn nobody_reads_a_counter_before_it_is_written() {
        let at = |us| Time::ZERO + Span::from_us(us);
        let books = Books { sent: vec![(at(1), 64), (at(3), 128)], ..Books::default() };
        assert_eq!([0, 1, 2, 3].map(|us| books.sent_by(at(us))), [0, 64, 64, 128]);
    }
}
