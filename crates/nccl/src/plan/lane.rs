//! The steps of a rank in a channel.
//!
//! Source: NCCL 2.22.3, src/device/all_reduce.h, all_gather.h, reduce_scatter.h, broadcast.h, reduce.h.

use fabriscope_units::Bytes;
use smallvec::{SmallVec, smallvec};

use super::{Direction, Part, Peer, Plan, Step};
use crate::algorithm::{Algorithm, Operation, Protocol};
use crate::communicator::Communicator;
use crate::tables;
use crate::tuner::Choice;

/// Far ends of connections.
pub type Peers = SmallVec<[Peer; 4]>;

/// Where the chunks of a loop are.
#[derive(Clone, Copy, Debug)]
struct Grid {
    offset: u64,
    bytes: u64,
    chunk: u64,
    /// From loop to loop.
    stride: u64,
    /// The first chunk of this channel within a loop.
    first: u64,
    /// The last loop is split evenly among so many.
    evenly: Option<u64>,
}

impl Grid {
    fn loops(&self) -> u64 {
        self.bytes.div_ceil(self.stride)
    }
    /// Offset in a block and size of a chunk.
    fn piece(&self, turn: u64, number: u64) -> (u64, u64) {
        let start = turn * self.stride;
        let left = self.bytes - start;
        let chunk = match self.evenly {
            Some(among) if left < self.stride => left.div_ceil(among).next_multiple_of(16),
            _ => self.chunk,
        };
        let within = ((self.first + number) * chunk).min(left);
        (self.offset + start + within, chunk.min(left - within))
    }
}

/// What a lane does in each loop.
#[derive(Clone, Debug)]
enum Role {
    /// Input to output.
    Copy,
    /// Around the ring to the sum and around again with it.
    RingTwice,
    /// Around the ring with all blocks.
    RingGather,
    /// Around the ring to the sum of each block.
    RingScatter,
    /// The same chunk from some to others.
    Pass { receive: Peers, send: Peers, input: bool, output: bool, number: u64 },
    /// One chunk to each head.
    Scatter { heads: Vec<(Peer, u64)> },
    /// One chunk from each head.
    Gather { heads: Vec<(Peer, u64)> },
}

/// A group of threads of a rank in a channel, with its steps in order.
#[derive(Clone, Debug)]
pub struct Lane<'c> {
    communicator: &'c Communicator,
    course: Course,
}

/// What such a group does, without the communicator that it belongs to.
#[derive(Clone, Debug)]
pub struct Course {
    ranks: u64,
    channel: u32,
    rank: u32,
    operation: Operation,
    in_place: bool,
    block: u64,
    grid: Grid,
    role: Role,
    /// From whom and to whom around the ring, and steps from rank 0.
    ring: (u32, u32, u32),
}

pub(super) fn lanes<'c>(plan: &Plan, communicator: &'c Communicator, rank: u32, part: &Part) -> SmallVec<[Lane<'c>; 4]> {
    let operation = plan.choice.operation;
    let ranks = u64::from(communicator.ranks());
    let channel = part.channel;
    let (offset, bytes, chunk) = (part.offset.0, part.bytes.0, part.chunk.0);
    let plain = Grid { offset, bytes, chunk, stride: chunk, first: 0, evenly: None };
    let even = |among: u64| Grid { stride: among * chunk, evenly: Some(among), ..plain };
    let turns = |among: u64| {
        let channels = plan.parts.len() as u64;
        Grid { stride: channels * among * chunk, first: u64::from(part.number) * among, ..plain }
    };
    let ring = communicator.ring(channel, rank);
    let (in_place, block, ring_place) = (plan.in_place, plan.block.0, (ring.previous, ring.next, ring.index));
    let course = |role: Role, grid: Grid| Course { ranks, channel, rank, operation, in_place, block, grid, role, ring: ring_place };
    let lane = |role: Role, grid: Grid| Lane { communicator, course: course(role, grid) };
    if ranks == 1 {
        return smallvec![lane(Role::Copy, plain)];
    }
    let pass = |receive: Peers, send: Peers, input, output| Role::Pass { receive, send, input, output, number: 0 };
    let up = |rank: u32| Peer::Rank(rank, Direction::Up);
    let down = |rank: u32| Peer::Rank(rank, Direction::Down);
    match (plan.choice.algorithm, operation) {
        (Algorithm::Ring, Operation::AllReduce) => smallvec![lane(Role::RingTwice, even(ranks))],
        (Algorithm::Ring, Operation::AllGather) => smallvec![lane(Role::RingGather, plain)],
        (Algorithm::Ring, Operation::ReduceScatter) => smallvec![lane(Role::RingScatter, plain)],
        (Algorithm::Ring, Operation::Broadcast) => {
            let receive = (rank != plan.root).then_some(up(ring.previous)).into_iter().collect();
            let send = (ring.next != plan.root).then_some(up(ring.next)).into_iter().collect();
            smallvec![lane(pass(receive, send, rank == plan.root, rank != plan.root || !plan.in_place), plain)]
        }
        (Algorithm::Ring, Operation::Reduce) => {
            let receive = (ring.previous != plan.root).then_some(up(ring.previous)).into_iter().collect();
            let send = (rank != plan.root).then_some(up(ring.next)).into_iter().collect();
            smallvec![lane(pass(receive, send, true, rank == plan.root), plain)]
        }
        (Algorithm::Tree, _) => {
            let tree = communicator.tree(channel, rank);
            let from: Peers = tree.down.iter().map(|rank| up(*rank)).collect();
            let to: Peers = tree.down.iter().map(|rank| down(*rank)).collect();
            match tree.up {
                None => smallvec![lane(pass(from, to, true, true), plain)],
                Some(above) => smallvec![
                    lane(pass(from, smallvec![up(above)], true, false), plain),
                    lane(pass(smallvec![down(above)], to, false, true), plain),
                ],
            }
        }
        (Algorithm::CollnetChain, _) => {
            let chain = communicator.collnet_chain(channel, rank);
            let above = |direction| chain.up.map_or(Peer::Network(0), |above| Peer::Rank(above, direction));
            let below = |direction| -> Peers { chain.down.iter().map(|rank| Peer::Rank(*rank, direction)).collect() };
            smallvec![
                lane(pass(below(Direction::Up), smallvec![above(Direction::Up)], true, false), turns(1)),
                lane(pass(smallvec![above(Direction::Down)], below(Direction::Down), false, true), turns(1)),
            ]
        }
        (Algorithm::CollnetDirect, _) => {
            let node = communicator.seat(rank).node;
            let heads = communicator.collnet_heads(node);
            let grid = turns(heads.len() as u64);
            // Each rank begins with another head, so that not all write to one.
            let shift = communicator.seat(rank).gpu as usize % heads.len().max(1);
            let others = |direction| -> Vec<(Peer, u64)> {
                let all = (0..heads.len()).map(|place| (place + shift) % heads.len());
                all.filter(|head| heads[*head] != rank).map(|head| (Peer::Rank(heads[head], direction), head as u64)).collect()
            };
            let mut lanes: SmallVec<[Lane<'c>; 4]> = SmallVec::new();
            if heads.iter().any(|head| *head != rank) {
                lanes.push(lane(Role::Scatter { heads: others(Direction::Up) }, grid));
                lanes.push(lane(Role::Gather { heads: others(Direction::Down) }, grid));
            }
            if let Some(head) = heads.iter().position(|head| *head == rank) {
                let locals = || communicator.ranks_of(node).iter().filter(|local| **local != rank);
                let number = head as u64;
                let network: Peers = smallvec![Peer::Network(head as u32)];
                let receive = locals().map(|rank| up(*rank)).collect();
                lanes.push(lane(Role::Pass { receive, send: network.clone(), input: true, output: false, number }, grid));
                let send = locals().map(|rank| down(*rank)).collect();
                lanes.push(lane(Role::Pass { receive: network, send, input: false, output: true, number }, grid));
            }
            lanes
        }
        (Algorithm::Nvls | Algorithm::NvlsTree, _) => nvls(
            plan,
            communicator,
            rank,
            channel,
            lane,
            [plain, even(u64::from(communicator.nvls_heads())), turns(u64::from(communicator.nvls_heads()))],
        ),
    }
}

/// The switch of NVLinks reduces and spreads.
fn nvls<'c>(
    plan: &Plan,
    communicator: &'c Communicator,
    rank: u32,
    channel: u32,
    lane: impl Fn(Role, Grid) -> Lane<'c>,
    [plain, even, turns]: [Grid; 3],
) -> SmallVec<[Lane<'c>; 4]> {
    let heads = communicator.nvls_heads();
    let own = communicator.nvls_head_of(rank);
    let to_heads = || -> Vec<(Peer, u64)> { (0..heads).map(|head| (Peer::Reduction(head), u64::from(head))).collect() };
    let from_heads = || -> Vec<(Peer, u64)> { (0..heads).map(|head| (Peer::Multicast(head), u64::from(head))).collect() };
    let by_rank = |heads: Vec<(Peer, u64)>| -> Vec<(Peer, u64)> {
        let node = communicator.seat(rank).node;
        heads.into_iter().map(|(peer, head)| (peer, u64::from(communicator.nvls_head(node, head as u32)))).collect()
    };
    let mut lanes: SmallVec<[Lane<'c>; 4]> = SmallVec::new();
    let mut head = |receive: Peers, send: Peers, input, output, grid, number| {
        lanes.push(lane(Role::Pass { receive, send, input, output, number }, grid));
    };
    match plan.choice.operation {
        Operation::AllGather => {
            if let Some(own) = own {
                head(SmallVec::new(), smallvec![Peer::Multicast(own)], true, false, plain, 0);
            }
            lanes.push(lane(Role::Gather { heads: by_rank(from_heads()) }, plain));
        }
        Operation::ReduceScatter => {
            if let Some(own) = own {
                head(smallvec![Peer::Reduction(own)], SmallVec::new(), false, true, plain, 0);
            }
            lanes.push(lane(Role::Scatter { heads: by_rank(to_heads()) }, plain));
        }
        _ => {
            let outside = plan.choice.algorithm == Algorithm::Nvls && communicator.nodes() > 1;
            let grid = if outside || super::chunk::in_turns(communicator, plan) { turns } else { even };
            if let Some(own) = own {
                let (from, to): (Peers, Peers) = (smallvec![Peer::Reduction(own)], smallvec![Peer::Multicast(own)]);
                let number = u64::from(own);
                let tree = (plan.choice.algorithm == Algorithm::NvlsTree).then(|| communicator.nvls_tree(channel, rank)).flatten();
                if let Some(tree) = tree {
                    let below = |direction| tree.down.iter().map(move |rank| Peer::Rank(*rank, direction));
                    let from: Peers = from.into_iter().chain(below(Direction::Up)).collect();
                    let to: Peers = to.into_iter().chain(below(Direction::Down)).collect();
                    match tree.up {
                        None => head(from, to, false, false, grid, number),
                        Some(above) => {
                            head(from, smallvec![Peer::Rank(above, Direction::Up)], false, false, grid, number);
                            head(smallvec![Peer::Rank(above, Direction::Down)], to, false, false, grid, number);
                        }
                    }
                } else if outside {
                    head(from, smallvec![Peer::Network(own)], false, false, grid, number);
                    head(smallvec![Peer::Network(own)], to, false, false, grid, number);
                } else {
                    head(from, to, false, false, grid, number);
                }
            }
            lanes.push(lane(Role::Scatter { heads: to_heads() }, grid));
            lanes.push(lane(Role::Gather { heads: from_heads() }, grid));
        }
    }
    lanes
}

impl Lane<'_> {
    /// The share of a whole block's rate that it has: groups of trees and of NVLS share its threads. What groups copy within the GPU goes a
    /// third faster than over links (assumed).
    #[must_use]
    pub fn share(&self, choice: Choice) -> (u32, u32) {
        let whole = tables::SIMPLE_THREADS / tables::WARP;
        match choice.algorithm {
            Algorithm::Tree => return self.of_tree(choice.protocol).unwrap_or((whole, whole)),
            Algorithm::Nvls | Algorithm::NvlsTree => {}
            _ => return (whole, whole),
        }
        let [scatter, gather, reduce, spread] = match choice.operation {
            Operation::AllGather => tables::NVLS_WARPS_ALL_GATHER,
            Operation::ReduceScatter => tables::NVLS_WARPS_REDUCE_SCATTER,
            _ if self.communicator.nodes() > 1 => tables::NVLS_WARPS_NODES,
            _ if self.communicator.ranks() <= tables::NVLS_FEW => tables::NVLS_WARPS_FEW,
            _ => tables::NVLS_WARPS,
        };
        let (receive, send) = self.course.peers();
        let warps = match &self.course.role {
            Role::Scatter { .. } => return (4 * scatter.max(1), 3 * whole),
            Role::Gather { .. } => return (4 * gather.max(1), 3 * whole),
            _ if receive.iter().any(|peer| matches!(peer, Peer::Reduction(_))) => reduce,
            _ if send.iter().any(|peer| matches!(peer, Peer::Multicast(_))) => spread,
            _ => whole,
        };
        (warps.max(1), whole)
    }
    /// The shares of those who reduce and those who spread in a tree; the root does both with all threads.
    fn of_tree(&self, protocol: Protocol) -> Option<(u32, u32)> {
        let [reduce, spread, of] = if protocol == Protocol::Simple { tables::TREE_SPLIT_SIMPLE } else { tables::TREE_SPLIT_LINES };
        let (receive, send) = self.course.peers();
        let down = |peers: &Peers| peers.iter().any(|peer| matches!(peer, Peer::Rank(_, Direction::Down)));
        let up = |peers: &Peers| peers.iter().any(|peer| matches!(peer, Peer::Rank(_, Direction::Up)));
        if down(&receive) { Some((spread, of)) } else { up(&send).then_some((reduce, of)) }
    }
    /// Number of steps.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.course.steps()
    }
    /// All steps, in order.
    pub fn iter(&self) -> impl Iterator<Item = Step> + '_ {
        (0..self.steps()).map(|number| self.step(number))
    }
    /// A step.
    #[must_use]
    pub fn step(&self, number: u64) -> Step {
        self.course.step(self.communicator, number)
    }
    /// What it does, to be carried out elsewhere.
    #[must_use]
    pub fn course(&self) -> &Course {
        &self.course
    }
}

impl Course {
    /// Steps of a loop.
    #[must_use]
    pub fn steps_of_loop(&self) -> u64 {
        match &self.role {
            Role::Copy | Role::Pass { .. } => 1,
            Role::RingTwice => 2 * self.ranks - 1,
            Role::RingGather | Role::RingScatter => self.ranks,
            Role::Scatter { heads } | Role::Gather { heads } => heads.len() as u64,
        }
    }
    /// Whether the steps of a loop are one to those who take them: one wait for all peers, and one flag to each at the end (prims_simple.h,
    /// ScatterGatherOp).
    #[must_use]
    pub fn is_shared(&self) -> bool {
        matches!(self.role, Role::Scatter { .. } | Role::Gather { .. })
    }
    /// Number of steps.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.grid.loops() * self.steps_of_loop()
    }
    /// Bytes of a part that a whole loop takes.
    #[must_use]
    pub fn stride(&self) -> Bytes {
        Bytes(self.grid.stride)
    }
    /// From whom it takes, and to whom it gives, in any of its steps.
    #[must_use]
    pub fn peers(&self) -> (Peers, Peers) {
        if self.grid.loops() == 0 {
            return (Peers::new(), Peers::new());
        }
        let (previous, next, _) = self.ring;
        let all = |heads: &[(Peer, u64)]| heads.iter().map(|(peer, _)| *peer).collect();
        match &self.role {
            Role::Copy => (Peers::new(), Peers::new()),
            Role::RingTwice | Role::RingGather | Role::RingScatter => {
                (smallvec![Peer::Rank(previous, Direction::Up)], smallvec![Peer::Rank(next, Direction::Up)])
            }
            Role::Pass { receive, send, .. } => (receive.clone(), send.clone()),
            Role::Scatter { heads } => (Peers::new(), all(heads)),
            Role::Gather { heads } => (all(heads), Peers::new()),
        }
    }

    /// A step of the rank in `communicator`.
    #[must_use]
    pub fn step(&self, communicator: &Communicator, number: u64) -> Step {
        let (turn, within) = (number / self.steps_of_loop(), number % self.steps_of_loop());
        let (previous, next, index) = self.ring;
        let previous = Peer::Rank(previous, Direction::Up);
        let next = Peer::Rank(next, Direction::Up);
        let ranks = self.ranks;
        // The rank so many steps before this one.
        let before = |steps: u64| u64::from(communicator.ring_rank(self.channel, ((u64::from(index) + ranks - steps) % ranks) as u32));
        match &self.role {
            Role::Copy => {
                let (at, bytes) = self.grid.piece(turn, 0);
                if self.in_place { Step::new(0) } else { Step::new(bytes).input(at).output(at) }
            }
            Role::RingTwice => {
                // First the chunk of the rank before; the own one is complete after a turn.
                let chunk = (u64::from(index) + 2 * ranks - 1 - within) % ranks;
                let (at, bytes) = self.grid.piece(turn, chunk);
                let step = Step::new(bytes);
                match within {
                    0 => step.input(at).to([next]),
                    _ if within < ranks - 1 => step.from([previous]).input(at).to([next]),
                    _ if within == ranks - 1 => step.from([previous]).input(at).output(at).to([next]),
                    _ if within < 2 * ranks - 2 => step.from([previous]).output(at).to([next]),
                    _ => step.from([previous]).output(at),
                }
            }
            Role::RingGather => {
                let (at, bytes) = self.grid.piece(turn, 0);
                let output = self.block * before(within) + at;
                let step = Step::new(bytes);
                match within {
                    0 if self.in_place => step.input(output).to([next]),
                    0 => step.input(at).output(output).to([next]),
                    _ if within < ranks - 1 => step.from([previous]).output(output).to([next]),
                    _ => step.from([previous]).output(output),
                }
            }
            Role::RingScatter => {
                let (at, bytes) = self.grid.piece(turn, 0);
                let input = self.block * before(within + 1) + at;
                let step = Step::new(bytes).input(input);
                match within {
                    0 => step.to([next]),
                    _ if within < ranks - 1 => step.from([previous]).to([next]),
                    _ => step.from([previous]).output(self.kept(at)),
                }
            }
            Role::Pass { receive, send, input, output, number } => {
                let (at, bytes) = self.grid.piece(turn, *number);
                let mut step = Step::new(bytes).from(receive.iter().copied()).to(send.iter().copied());
                let spread = self.operation == Operation::AllGather && self.in_place;
                step = if *input { step.input(if spread { self.block * u64::from(self.rank) + at } else { at }) } else { step };
                if *output { step.output(if self.operation == Operation::ReduceScatter { self.kept(at) } else { at }) } else { step }
            }
            Role::Scatter { heads } => {
                let (peer, place) = heads[within as usize];
                let (at, bytes) = self.head_piece(turn, place);
                Step::new(bytes).input(at).to([peer])
            }
            Role::Gather { heads } => {
                let (peer, place) = heads[within as usize];
                let (at, bytes) = self.head_piece(turn, place);
                Step::new(bytes).from([peer]).output(at)
            }
        }
    }

    /// Where a rank keeps its block of a reduce-scatter.
    fn kept(&self, at: u64) -> u64 {
        if self.in_place { self.block * u64::from(self.rank) + at } else { at }
    }
    /// The chunk of a head: a share of the loop, or the same place in the head's block.
    fn head_piece(&self, turn: u64, place: u64) -> (u64, u64) {
        if self.operation == Operation::AllReduce {
            return self.grid.piece(turn, place);
        }
        let (at, bytes) = self.grid.piece(turn, 0);
        (self.block * place + at, bytes)
    }
}
