//! What the ranks of a job know of each other's broadcasts: addresses that they exchange when they open, counters that stand in memory
//! that others read, and what came out of it.
//!
//! A counter that its owner's core has written at a time is seen by nobody before: cores run ahead of the simulation.

use std::collections::BTreeMap;

use fabriscope_node::Memory;
use fabriscope_units::Time;
use fabriscope_verbs::{Lid, QpNum, Rkey};

use super::arrivals::Landing;
use crate::buffer::Buffer;

/// Memory of a rank that adapters of others reach.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub addr: u64,
    pub rkey: Rkey,
}

/// What a source tells those that receive from it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Contact {
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

/// The broadcasts of one source.
#[derive(Debug, Default)]
pub(super) struct Books {
    pub contact: Option<Contact>,
    /// By receiver: its queue pair, and the one of the source for it.
    pub ends: BTreeMap<u32, (Lid, QpNum)>,
    pub answers: BTreeMap<u32, QpNum>,
    /// By receiver that gives its credit to another receiver: its queue pair, and the one of that receiver for it.
    pub ups: BTreeMap<u32, (Lid, QpNum)>,
    pub downs: BTreeMap<u32, QpNum>,
    /// Host memory of receivers that take credit of others.
    pub windows: BTreeMap<u32, (Lid, Window)>,
    /// Packets that have left, by time: the counter that receivers read.
    pub sent: Vec<(Time, u64)>,
    /// The chunk in each place of the pinned buffer.
    pub held: Vec<Option<u64>>,
    /// Of the last two broadcasts, as their headers say it: number, and where the data stays until everybody has it, if that is not the pinned
    /// buffer. Nobody begins a third one before everybody has ended the first.
    pub stays: [(u64, Option<Buffer>); 2],
    /// Broadcasts after which everybody had to say that he has all.
    pub finishes: u64,
    pub seats: BTreeMap<u32, BroadcastState>,
}

impl Books {
    pub fn seat(&mut self, rank: u32) -> &mut BroadcastState {
        self.seats.entry(rank).or_default()
    }
    /// Packets that had left by `now`, as far as the source's core had noticed.
    pub fn sent_by(&self, now: Time) -> u64 {
        let known = self.sent.partition_point(|(at, _)| *at <= now);
        known.checked_sub(1).map_or(0, |last| self.sent[last].1)
    }
}

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Board {
    /// The node of each rank.
    pub nodes: BTreeMap<u32, u32>,
    pub sources: BTreeMap<u32, Books>,
    pub outcome: Outcome,
    /// Steps of senders are noted.
    pub noting: bool,
}

impl Board {
    pub fn books(&mut self, source: u32) -> &mut Books {
        self.sources.entry(source).or_default()
    }
    /// The ranks of the node of `rank`, in the order in which they pass on what `source` sends; the first one has it from the network.
    pub fn members(&self, rank: u32, source: u32) -> Vec<u32> {
        let node = self.nodes.get(&rank);
        let mut members: Vec<u32> = self.nodes.iter().filter(|(_, other)| Some(*other) == node).map(|(rank, _)| *rank).collect();
        if let Some(at) = members.iter().position(|rank| *rank == source) {
            members[..=at].rotate_right(1);
        }
        members
    }
    /// The ranks that receive from the network what `source` sends: the first of each other node.
    pub fn leaders(&self, source: u32) -> Vec<u32> {
        let own = self.nodes.get(&source).copied();
        let mut first: BTreeMap<u32, u32> = BTreeMap::new();
        self.nodes.iter().for_each(|(rank, node)| {
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
        let board = Board { nodes: (0..6).map(|rank| (rank, rank / 2)).collect(), ..Board::default() };
        assert_eq!((board.leaders(3), board.members(2, 3), board.members(0, 3)), (vec![0, 4], vec![3, 2], vec![0, 1]));
    }

    #[test]
    fn nobody_reads_a_counter_before_it_is_written() {
        let at = |us| Time::ZERO + Span::from_us(us);
        let books = Books { sent: vec![(at(1), 64), (at(3), 128)], ..Books::default() };
        assert_eq!([0, 1, 2, 3].map(|us| books.sent_by(at(us))), [0, 64, 64, 128]);
    }
}
