//! Collective operations: the steps of a plan as kernels.
//!
//! Source: `fabriscope_nccl::Plan` for the steps.
//! Modelled: a block for each group of threads of each channel, chunks in slices.
//! Not modelled: all-gather and reduce-scatter by the network's reduction.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use fabriscope_nccl::{self as nccl, Course, Direction, NetWay, Peer, Peers, Plan, Transport};
use fabriscope_node::ProgramError;
use fabriscope_units::Bytes;
use smallvec::{SmallVec, smallvec};

use super::communicator::Communicator;
use super::contents;
use super::fifo::FifoId;
use super::kernels::{BlockPlan, Move, Piece, Turn};
use super::world::{Wire, WireKind, World};

impl Communicator {
    /// A collective operation as one kernel.
    ///
    /// # Errors
    /// Ranks that are not connected.
    pub fn collective(&self, plan: &Arc<Plan>) -> Result<Turn, ProgramError> {
        let (channels, rank) = (&self.proxy.world.0.plan, self.rank());
        let (mut plans, all) = (Vec::new(), contents::of_all(channels.ranks()));
        let mut network = Vec::new();
        for part in &plan.parts {
            for lane in plan.lanes(channels, rank, part) {
                let course = lane.course();
                let pace = self.library().pace_of(plan.choice, lane.share(plan.choice));
                let (receive, send) = course.peers();
                let ends = |peers: &Peers, sends| -> Result<Vec<(Peer, Vec<FifoId>)>, ProgramError> {
                    let of = |peer: &Peer| {
                        let wires = wires(channels, rank, part.channel, *peer, sends);
                        let fifos = wires.into_iter().map(|wire| self.fifo(wire, plan.choice.protocol));
                        Ok((*peer, fifos.collect::<Result<_, ProgramError>>()?))
                    };
                    peers.iter().map(of).collect()
                };
                if lane.steps() > 0 && send.iter().any(|peer| matches!(peer, Peer::Network(_))) {
                    let slices = (0..lane.steps()).map(|step| plan.slices(lane.step(step).bytes).count() as u64).sum();
                    network.push((part.channel, slices));
                }
                let steps = Steps {
                    world: self.proxy.world.clone(),
                    plan: plan.clone(),
                    rank,
                    all,
                    course: course.clone(),
                    next: 0,
                    count: lane.steps(),
                    receive: Ends::new(ends(&receive, false)?),
                    send: Ends::new(ends(&send, true)?),
                    slices: Vec::new(),
                };
                plans.push(BlockPlan { pace, moves: Box::new(steps) });
            }
        }
        self.net.borrow_mut().expect_of_network(network);
        let launch = self.launch(plans);
        self.note_collective(launch, plan);
        Ok(launch.0)
    }
}

/// The connections of all ranks that plans use, with their adapters where they lead to other nodes.
pub fn connections(world: &World, plans: impl IntoIterator<Item = impl Borrow<Plan>>) -> Vec<(Wire, Option<NetWay>)> {
    let (mut found, mut seen) = (BTreeMap::new(), Vec::new());
    for plan in plans {
        let plan = plan.borrow();
        // Messages of other lengths by the same channels meet the same peers.
        let alike = (plan.choice.work(), plan.parts.iter().map(|part| (part.channel, part.bytes.0 > 0)).collect::<Vec<_>>());
        if !seen.contains(&alike) {
            seen.push(alike);
            add_connections(world, plan, &mut found);
        }
    }
    found.into_iter().collect()
}

fn add_connections(world: &World, plan: &Plan, found: &mut BTreeMap<Wire, Option<NetWay>>) {
    let channels = world.plan();
    for rank in 0..channels.ranks() {
        for part in &plan.parts {
            for lane in plan.lanes(channels, rank, part) {
                for wire in lane.course().peers().1.iter().flat_map(|peer| wires(channels, rank, part.channel, *peer, true)) {
                    if wire.kind == WireKind::ToNetwork {
                        found.insert(wire, None);
                    } else if channels.seat(wire.from).node != channels.seat(wire.to).node {
                        let transport = channels.transport(wire.from, wire.to, part.channel, plan.choice.algorithm);
                        found.insert(wire, if let Transport::Net(way) = transport { Some(way) } else { None });
                    }
                }
            }
        }
    }
}

/// The connections by which a rank takes from a peer, or sends to it.
fn wires(channels: &nccl::Communicator, rank: u32, channel: u32, peer: Peer, sends: bool) -> SmallVec<[Wire; 4]> {
    let node = channels.seat(rank).node;
    let wire = |other: u32, kind| {
        let (from, to) = if sends { (rank, other) } else { (other, rank) };
        Wire { from, to, channel, kind }
    };
    let is_own = |head| channels.nvls_head(node, head) == rank;
    let all = |kind| channels.ranks_of(node).iter().map(|other| wire(*other, kind)).collect();
    smallvec![match peer {
        Peer::Rank(other, Direction::Up) => wire(other, WireKind::Up),
        Peer::Rank(other, Direction::Down) => wire(other, WireKind::Down),
        // The head takes from all, and fills all; the others meet the head.
        Peer::Reduction(head) if !sends && is_own(head) => return all(WireKind::Reduction),
        Peer::Multicast(head) if sends && is_own(head) => return all(WireKind::Multicast),
        Peer::Reduction(head) => wire(channels.nvls_head(node, head), WireKind::Reduction),
        Peer::Multicast(head) => wire(channels.nvls_head(node, head), WireKind::Multicast),
        Peer::Network(_) => wire(rank, if sends { WireKind::ToNetwork } else { WireKind::FromNetwork }),
    }]
}

/// The FIFOs at one side of a lane.
struct Ends {
    by_peer: Vec<(Peer, Vec<FifoId>)>,
    /// Those of the last step, and whom it met.
    last: (Peers, Rc<[FifoId]>),
}

impl Ends {
    fn new(by_peer: Vec<(Peer, Vec<FifoId>)>) -> Ends {
        Ends { by_peer, last: (Peers::new(), Rc::from([])) }
    }
    /// Those that lead to these, in their order.
    fn of(&mut self, peers: &Peers) -> Rc<[FifoId]> {
        if self.last.0 != *peers {
            let of = |peer: &Peer| self.by_peer.iter().find(|(other, _)| other == peer).map_or(&[][..], |(_, fifos)| fifos.as_slice());
            self.last = (peers.clone(), peers.iter().flat_map(of).copied().collect());
        }
        Rc::clone(&self.last.1)
    }
}

/// The steps of a lane, slice by slice.
struct Steps {
    world: World,
    plan: Arc<Plan>,
    rank: u32,
    /// The elements of all ranks together.
    all: u64,
    course: Course,
    next: u64,
    count: u64,
    receive: Ends,
    send: Ends,
    /// Slices of the step before that are still to come, the last first.
    slices: Vec<Move>,
}

impl Iterator for Steps {
    type Item = Move;
    fn next(&mut self) -> Option<Move> {
        if let Some(slice) = self.slices.pop() {
            return Some(slice);
        }
        if self.next == self.count {
            return None;
        }
        if self.course.is_shared() {
            return Some(self.shared());
        }
        let step = self.course.step(self.world.plan(), self.next);
        self.next += 1;
        let (from, to) = (self.receive.of(&step.receive), self.send.of(&step.send));
        let slice = |slice: nccl::Slice| Move {
            from: Rc::clone(&from),
            to: Rc::clone(&to),
            bytes: slice.bytes,
            slots: slice.slots,
            in_place: false,
            contents: contents::of_step(&self.plan, self.rank, self.all, &step, slice.offset),
            ..Move::default()
        };
        self.slices.extend(self.plan.slices(step.bytes).map(slice));
        self.slices.reverse();
        self.slices.pop()
    }
}

impl Steps {
    /// All steps of a loop that scatters or gathers, which are one to the block: it waits for all peers, copies to or from each, and then
    /// tells all.
    fn shared(&mut self) -> Move {
        let steps = self.next..(self.next + self.course.steps_of_loop()).min(self.count);
        self.next = steps.end;
        let (mut receive, mut send) = (Peers::new(), Peers::new());
        let mut piece = |number| {
            let step = self.course.step(self.world.plan(), number);
            receive.extend_from_slice(&step.receive);
            send.extend_from_slice(&step.send);
            Piece { bytes: step.bytes, contents: contents::of_step(&self.plan, self.rank, self.all, &step, Bytes::ZERO) }
        };
        let pieces: Rc<[Piece]> = steps.map(&mut piece).collect();
        let bytes = pieces.iter().map(|piece| piece.bytes).sum();
        Move { from: self.receive.of(&receive), to: self.send.of(&send), bytes, slots: 1, pieces, ..Move::default() }
    }
}
