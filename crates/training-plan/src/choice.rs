//! What the library takes for a group, and which of its edges leave their nodes.
//!
//! Source: `fabriscope_nccl` (tuner, rings, trees, adapters of channels).
//! Modelled: rings and trees, by the library's own table; groups that have as many ranks on each of their nodes.

use std::collections::BTreeMap;

use fabriscope_nccl::{self as nccl, Algorithm, Communicator, Plan, Tuner};
use fabriscope_platform::nccl::{Library, Pace};
use fabriscope_training::{Group, Operation};
use fabriscope_units::{Bytes, Span};

use crate::error::PlanError;
use crate::seats::Seats;

/// The library with the plans that it has made.
pub(crate) struct Choices<'a> {
    pub library: &'a Library,
    pub seats: &'a Seats,
    joined: BTreeMap<(u32, u32), (Communicator, Tuner)>,
}

/// What is done for a collective operation of a kind of groups.
pub(crate) struct Chosen {
    pub algorithm: Algorithm,
    /// Ranks of a group on each of its nodes.
    pub each: u32,
    pub channels: Vec<Channel>,
}

/// A channel of it.
pub(crate) struct Channel {
    /// Edges from node to node, by ranks of the group: of rings in any order, of trees the way up and the way down one after the other.
    pub edges: Vec<(u32, u32)>,
    /// The slices of the chunks that one message of each loop is.
    pub loops: Vec<Vec<Bytes>>,
    /// How blocks move them: on the way up, or around; on the way down.
    pub paces: [Pace; 2],
    /// Slices in flight on a connection.
    pub window: usize,
}

impl<'a> Choices<'a> {
    pub fn new(library: &'a Library, seats: &'a Seats) -> Choices<'a> {
        Choices { library, seats, joined: BTreeMap::new() }
    }

    /// Ranks of a group on each of its nodes: as many everywhere.
    pub fn on_each(&self, group: Group) -> u32 {
        let most = (self.seats.per_node() / group.stride.max(1)).clamp(1, group.size.max(1));
        (1..=most).rev().find(|each| group.size.is_multiple_of(*each)).unwrap_or(1)
    }

    /// What the library does.
    pub fn of(&mut self, operation: Operation, bytes: Bytes, group: Group) -> Result<Chosen, PlanError> {
        let each = self.on_each(group);
        let nodes = group.size.div_ceil(each);
        let (library, seats) = (self.library, self.seats);
        if let std::collections::btree_map::Entry::Vacant(place) = self.joined.entry((nodes, each)) {
            let joined = library.join(nodes, each, &library.settings)?;
            let tuner = Tuner::new(&joined);
            place.insert((joined, tuner));
        }
        let (joined, tuner) = &self.joined[&(nodes, each)];
        let choice = tuner.choose_among(collective_of(operation), &[Algorithm::Ring, Algorithm::Tree], bytes)?;
        let ranks = u64::from(joined.ranks());
        // All-gathers and reduce-scatters count in blocks of ranks.
        let block = match operation {
            Operation::AllReduce => bytes.0,
            _ => bytes.0.div_ceil(ranks),
        };
        let element = Bytes(4);
        let count = if choice.operation == nccl::Operation::AllGather { block } else { block.div_ceil(element.0) };
        let plan = Plan::new(joined, choice, count, element, 0, true)?;
        let channels = plan.parts.iter().filter(|part| part.bytes > Bytes::ZERO).map(|part| {
            let shares: Vec<(u32, u32)> = plan.lanes(joined, 0, part).iter().map(|lane| lane.share(choice)).collect();
            let pace = |lane: usize| library.pace_of(choice, shares.get(lane).or(shares.first()).copied().unwrap_or((1, 1)));
            let among = if choice.algorithm == Algorithm::Ring && operation == Operation::AllReduce { ranks } else { 1 };
            let stride = (part.chunk.0 * among).max(1);
            let of_loop = |number: u64| {
                let left = (part.bytes.0 - number * stride).min(stride);
                let chunk = if among > 1 && left < stride { left.div_ceil(among).next_multiple_of(16) } else { left / among };
                plan.slices(Bytes(chunk)).map(|slice| slice.bytes).filter(|bytes| *bytes > Bytes::ZERO).collect()
            };
            let slots = plan.slices(part.chunk).map(|slice| slice.slots).max().unwrap_or(1).max(1);
            Channel {
                edges: joined.edges_between_nodes(seats.adapters(), part.channel, choice.algorithm),
                loops: (0..part.bytes.0.div_ceil(stride)).map(of_loop).collect(),
                paces: [pace(0), pace(1)],
                window: (nccl::SLOTS / slots).max(1) as usize,
            }
        });
        let channels = channels.collect();
        Ok(Chosen { algorithm: choice.algorithm, each, channels })
    }

    /// What a message takes at the proxies of both ends beside the network.
    pub fn proxies(&self) -> Span {
        self.library.proxy_step * 2 + self.library.plugin
    }
}

/// The time of a block for a slice.
pub(crate) fn copied(pace: &Pace, bytes: Bytes) -> Span {
    pace.step.begin + pace.most(bytes).time(bytes) + pace.step.end
}

/// What a slice is on the network.
pub(crate) fn on_wire(pace: &Pace, bytes: Bytes) -> Bytes {
    Bytes(bytes.0 * pace.taken.0 / pace.taken.1.max(1))
}

/// The library's name of a collective operation.
#[must_use]
pub const fn collective_of(operation: Operation) -> nccl::Operation {
    match operation {
        Operation::AllGather => nccl::Operation::AllGather,
        Operation::ReduceScatter => nccl::Operation::ReduceScatter,
        _ => nccl::Operation::AllReduce,
    }
}
