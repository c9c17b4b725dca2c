//! What a run leaves behind: counts, per-link loads, per-rank ends, traces.

use fabriscope_node::Work;
use fabriscope_units::{Bytes, Span, Time};

use crate::breakage::Breakage;
use crate::counters::Counters;
use crate::series::Series;
use crate::sighting::Sighting;
use crate::skipped::Skipped;
use crate::stage::MessageTrace;

/// Result of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Run {
    /// When the last event happened that belongs to the workload.
    pub end: Time,
    /// When each rank was done, by rank.
    pub ranks: Vec<Time>,
    /// Counts over the whole run.
    pub stats: Stats,
    /// Load of each directed link that carried anything, by link number.
    pub links: Vec<LinkLoad>,
    /// Messages that were followed on request.
    pub traces: Vec<MessageTrace>,
    /// What cores and GPUs did beside the network, by rank; noted where messages are followed.
    pub works: Vec<Work>,
    /// When each operation of a schedule started and ended, by rank and operation; empty unless asked for.
    pub ops: Vec<OpTimes>,
    /// What faults did; away where none were planned.
    pub breakage: Option<Breakage>,
    /// What passed the taps, in the order of time; empty unless asked for.
    pub sightings: Vec<Sighting>,
    /// What ports and adapters counted, where asked for.
    pub counters: Option<Counters>,
    /// Queues and rates over time, where asked for.
    pub series: Option<Series>,
    /// How many ranks ran for how many others, where ranks make their rounds as they go.
    pub folded: Option<Folded>,
    /// Steady states that were left out, where that was asked for.
    pub skipped: Option<Skipped>,
}

/// How a job of rounds was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Folded {
    /// How many classes of ranks ran, one rank of each; nothing where all ranks ran.
    pub classes: Option<u32>,
    /// Messages that were followed.
    pub followed: u64,
}

/// When an operation of a schedule started and ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpTimes {
    /// All that it waits for was over, or in flight.
    pub started: Time,
    /// It was over, as its rank sees it.
    pub ended: Time,
}

/// Counts over a whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Stats {
    /// Messages that ended.
    pub messages: u64,
    /// Packets built by NICs, ACKs and retransmissions included.
    pub packets: u64,
    /// A packet each time it crossed a link.
    pub packet_hops: u64,
    /// Packets lost: planned loss, or an overflowing buffer.
    pub drops: u64,
    /// Packets marked by explicit congestion notification.
    pub ecn_marks: u64,
    /// Packets whose payload a switch cut off.
    pub trims: u64,
    /// Pause frames sent.
    pub pauses: u64,
    /// Copies that switches made of packets for groups: one for each port.
    pub copies: u64,
    /// Packets that switches made of those of all their children.
    pub reductions: u64,
    /// Unregistered multicast drops: packets for groups without a member behind a switch, or without a queue pair of an adapter.
    pub unwanted: u64,
    /// The most bytes that waited for one link of a switch; measured where links decide packet by packet.
    pub deepest_queue: u64,
    /// Payload bytes handed to the network, retransmissions included.
    pub bytes_sent: u64,
    /// Payload bytes that arrived.
    pub bytes_delivered: u64,
    /// The most queue pairs at one adapter, at the end.
    pub queue_pairs: u64,
    /// Packets that waited for the context of their queue pair.
    pub context_misses: u64,
    /// Packets of another partition that adapters dropped.
    pub pkey_violations: u64,
    /// Link-level retries: packets that a link sent again by itself.
    pub link_retries: u64,
    /// Exits of links from their low-power state.
    pub link_wakes: u64,
    /// Events handled.
    pub events: u64,
}

impl Stats {
    /// Adds the counts of another part of the run.
    pub fn add(&mut self, other: &Stats) {
        let Stats {
            messages,
            packets,
            packet_hops,
            drops,
            ecn_marks,
            trims,
            pauses,
            copies,
            reductions,
            unwanted,
            deepest_queue,
            bytes_sent,
            bytes_delivered,
            queue_pairs,
            context_misses,
            pkey_violations,
            link_retries,
            link_wakes,
            events,
        } = other;
        self.messages += messages;
        self.packets += packets;
        self.packet_hops += packet_hops;
        self.drops += drops;
        self.ecn_marks += ecn_marks;
        self.trims += trims;
        self.pauses += pauses;
        self.copies += copies;
        self.reductions += reductions;
        self.unwanted += unwanted;
        self.deepest_queue = self.deepest_queue.max(*deepest_queue);
        self.bytes_sent += bytes_sent;
        self.bytes_delivered += bytes_delivered;
        self.queue_pairs = self.queue_pairs.max(*queue_pairs);
        self.context_misses += context_misses;
        self.pkey_violations += pkey_violations;
        self.link_retries += link_retries;
        self.link_wakes += link_wakes;
        self.events += events;
    }
}

/// What one directed link carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct LinkLoad {
    /// Number of the link in the fabric's graph.
    pub link: u32,
    /// Packets.
    pub packets: u64,
    /// Bytes on the wire, headers included.
    pub bytes: Bytes,
    /// How long it rested in a low-power state, where links do; one that carried nothing is not listed.
    pub rested: Span,
}
