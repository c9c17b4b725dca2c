//! Collective operations: the steps of a plan as kernels.
//!
//! Source: `fabriscope_nccl::Plan` for the steps.
//! Modelled: a block for each group of threads of each channel, chunks in slices.
//! Not modelled: all-gather and reduce-scatter by the network's reduction.

use std::collections::BTreeMap;
use std::sync::Arc;

use fabriscope_nccl::{self as nccl, Direction, NetWay, Peer, Plan, Step, Transport};
use fabriscope_node::ProgramError;
use smallvec::SmallVec;

use super::communicator::Communicator;
use super::contents;
use super::fifo::FifoId;
use super::kernels::{BlockPlan, Move, Turn};
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
        for (place, part) in plan.parts.iter().enumerate() {
            for (number, lane) in plan.lanes(channels, rank, part).iter().enumerate() {
                let mut fifos = BTreeMap::new();
                let pace = if heads(&lane.step(0)) { self.library().pace_of_switch() } else { self.library().pace(plan.choice.protocol) };
                for step in (0..lane.steps().min(turn(channels))).map(|step| lane.step(step)) {
                    for (wires, sends) in [
                        (wires(channels, rank, part.channel, &step, false), false),
                        (wires(channels, rank, part.channel, &step, true), true),
                    ] {
                        for wire in wires {
                            fifos.insert((wire, sends), self.fifo(wire, plan.choice.protocol)?);
                        }
                    }
                }
                if lane.steps() > 0 && lane.step(0).send.iter().any(|peer| matches!(peer, Peer::Network(_))) {
                    let slices = (0..lane.steps()).map(|step| plan.slices(lane.step(step).bytes).count() as u64).sum();
                    network.push((part.channel, slices));
                }
                let steps = Steps {
                    world: self.proxy.world.clone(),
                    plan: plan.clone(),
                    rank,
                    all,
                    part: place,
                    lane: number,
                    next: 0,
                    count: lane.steps(),
                    fifos,
                    slices: Vec::new(),
                };
                plans.push(BlockPlan { pace, moves: Box::new(steps) });
            }
        }
        self.net.borrow_mut().expect_of_network(network);
        Ok(self.enqueue(plans))
    }
}

/// Whether the switch of the links reduces for this step, or spreads its bytes.
fn heads(step: &Step) -> bool {
    let (reduces, spreads) = (|peer: &Peer| matches!(peer, Peer::Reduction(_)), |peer: &Peer| matches!(peer, Peer::Multicast(_)));
    step.receive.iter().any(reduces) || step.send.iter().any(spreads)
}

/// The connections of all ranks that a plan uses, with their adapters where they lead to other nodes.
pub fn connections(world: &World, plan: &Plan) -> Vec<(Wire, Option<NetWay>)> {
    let channels = world.plan();
    let mut found = BTreeMap::new();
    for rank in 0..channels.ranks() {
        for part in &plan.parts {
            for lane in plan.lanes(channels, rank, part) {
                for step in (0..lane.steps().min(turn(channels))).map(|step| lane.step(step)) {
                    for wire in wires(channels, rank, part.channel, &step, true) {
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
    found.into_iter().collect()
}

/// Steps after which a lane has met all its neighbours.
fn turn(channels: &nccl::Communicator) -> u64 {
    2 * u64::from(channels.ranks())
}

/// The connections that a step takes from, or fills.
fn wires(channels: &nccl::Communicator, rank: u32, channel: u32, step: &Step, sends: bool) -> SmallVec<[Wire; 4]> {
    let mut all = SmallVec::new();
    let node = channels.seat(rank).node;
    let own = channels.nvls_head_of(rank);
    for peer in if sends { &step.send } else { &step.receive } {
        let wire = |other: u32, kind| {
            let (from, to) = if sends { (rank, other) } else { (other, rank) };
            Wire { from, to, channel, kind }
        };
        match *peer {
            Peer::Rank(other, Direction::Up) => all.push(wire(other, WireKind::Up)),
            Peer::Rank(other, Direction::Down) => all.push(wire(other, WireKind::Down)),
            // The head takes from all, and fills all; the others meet the head.
            Peer::Reduction(head) if !sends && own == Some(head) => {
                all.extend(channels.ranks_of(node).iter().map(|other| wire(*other, WireKind::Reduction)));
            }
            Peer::Multicast(head) if sends && own == Some(head) => {
                all.extend(channels.ranks_of(node).iter().map(|other| wire(*other, WireKind::Multicast)));
            }
            Peer::Reduction(head) => all.push(wire(channels.nvls_head(node, head), WireKind::Reduction)),
            Peer::Multicast(head) => all.push(wire(channels.nvls_head(node, head), WireKind::Multicast)),
            Peer::Network(_) => all.push(wire(rank, if sends { WireKind::ToNetwork } else { WireKind::FromNetwork })),
        }
    }
    all
}

/// The steps of a lane, slice by slice.
struct Steps {
    world: World,
    plan: Arc<Plan>,
    rank: u32,
    /// The elements of all ranks together.
    all: u64,
    part: usize,
    lane: usize,
    next: u64,
    count: u64,
    fifos: BTreeMap<(Wire, bool), FifoId>,
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
        let channels = self.world.plan();
        let part = &self.plan.parts[self.part];
        let step = self.plan.lanes(channels, self.rank, part)[self.lane].step(self.next);
        self.next += 1;
        let fifos = |sends| {
            let wires = wires(channels, self.rank, part.channel, &step, sends);
            wires.into_iter().filter_map(|wire| self.fifos.get(&(wire, sends)).copied()).collect::<Vec<FifoId>>()
        };
        let (from, to) = (fifos(false), fifos(true));
        let slice = |slice: nccl::Slice| Move {
            from: from.clone(),
            to: to.clone(),
            bytes: slice.bytes,
            slots: slice.slots,
            in_place: false,
            contents: contents::of_step(&self.plan, self.rank, self.all, &step, slice.offset),
        };
        self.slices = self.plan.slices(step.bytes).map(slice).collect();
        self.slices.reverse();
        self.slices.pop()
    }
}
