//! Every plan is carried out symbolically: with eight slots for each connection, every contribution must come once to the right
//! place, and no rank may wait for ever.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fabriscope_machine::{Builder, Link, LinkKind, Machine, Vertex, VertexKind};
use fabriscope_units::{Bytes, Rate, Span};

use super::point_to_point::Schedule;
use super::{Lane, Peer, Plan, SLOTS, Step};
use crate::algorithm::{Algorithm, Operation, Protocol};
use crate::architecture::{Architecture, Processor};
use crate::communicator::{Communicator, NodeKind, RankPlacement};
use crate::search::search;
use crate::settings::Settings;
use crate::topology::{Adapter, Facts, Topology};
use crate::tuner::Choice;

/// A node with so many GPUs, each below a switch with an adapter, and joined by a switch of NVLinks.
fn machine(gpus: u32) -> Machine {
    let mut builder: Builder = Machine::builder();
    let (rate, latency) = (Rate::from_gbps(400), Span::from_ns(100));
    let numa = builder.vertex(Vertex::new(VertexKind::Numa { package: 0 }, "numa0"));
    let bridge = builder.vertex(Vertex::new(VertexKind::HostBridge, "bridge0"));
    builder.link(Link::new(numa, bridge, LinkKind::Die, rate, latency));
    let switched = builder.vertex(Vertex::new(VertexKind::ScaleUpSwitch, "scale-up"));
    let pcie = LinkKind::Pcie { generation: 5, lanes: 16 };
    for number in 0..gpus {
        let switch = builder.vertex(Vertex::new(VertexKind::PcieSwitch, format!("sw{number}")));
        let gpu = builder.vertex(Vertex::new(VertexKind::Gpu, format!("gpu{number}")));
        let nic = builder.vertex(Vertex::new(VertexKind::Nic, format!("nic{number}")));
        builder.link(Link::new(bridge, switch, pcie, rate, latency));
        builder.link(Link::new(switch, gpu, pcie, rate, latency));
        builder.link(Link::new(switch, nic, pcie, rate, latency));
        builder.link(Link::new(gpu, switched, LinkKind::NvLink { generation: 4, links: 18 }, rate, latency));
    }
    builder.build().unwrap()
}

pub(super) fn communicator(nodes: u32, gpus: u32, settings: Settings) -> Communicator {
    let machine = machine(gpus);
    let adapter = Adapter { rate: Rate::from_gbps(400), latency: Span::ZERO, gpudirect: true, collectives: true };
    let facts =
        Facts { architecture: Architecture::Sm(90), processor: Processor::Amd, adapters: vec![adapter; gpus as usize], hosts: 1, rails: 1 };
    let topology = Topology::new(&machine, &machine.gpus(), facts, &settings, nodes == 1).unwrap();
    let graphs = search(&topology, &settings);
    // Ranks go around the nodes, so that rank and place differ.
    let seats: Vec<RankPlacement> = (0..nodes * gpus)
        .map(|rank| RankPlacement { node: rank % nodes, gpu: (rank / nodes) ^ u32::from(gpus.is_multiple_of(2)) })
        .collect();
    Communicator::new(vec![NodeKind { topology, graphs }], &vec![0; nodes as usize], &seats, settings).unwrap()
}

/// An element: whose input it comes from, as place and set of ranks.
type Element = (u32, u64);
const NOTHING: Element = (u32::MAX, 0);

struct Rank<'c> {
    input: Vec<Element>,
    output: Vec<Element>,
    written: Vec<u8>,
    lanes: Vec<(u32, Lane<'c>, u64)>,
}

/// Where a rank's chunks for a peer are put, and from where a peer's are taken: channel, ends, and kind of connection.
type Connection = (u32, [u32; 3], u8);

/// Chunks that a node gave.
type Given = Vec<Vec<Element>>;

/// All chunks in progress.
#[derive(Default)]
struct Wires {
    chunks: BTreeMap<Connection, VecDeque<Vec<Element>>>,
    /// Of the network's reduction, by channel and head: what each node gave, and how many chunks it took.
    network: BTreeMap<(u32, u32), Vec<(Given, usize)>>,
}

struct Proof<'c> {
    communicator: &'c Communicator,
    plan: &'c Plan,
    element: u64,
    ranks: Vec<Rank<'c>>,
    wires: Wires,
}

impl Proof<'_> {
    fn locals(&self, rank: u32) -> &[u32] {
        self.communicator.ranks_of(self.communicator.seat(rank).node)
    }
    /// The connections that a rank sends into.
    fn out(&self, channel: u32, rank: u32, peer: Peer) -> Vec<Connection> {
        match peer {
            Peer::Rank(to, direction) => vec![(channel, [rank, to, 0], direction as u8)],
            Peer::Reduction(head) => vec![(channel, [self.communicator.seat(rank).node, head, rank], 2)],
            Peer::Multicast(head) => {
                self.locals(rank).iter().map(|local| (channel, [self.communicator.seat(rank).node, head, *local], 3)).collect()
            }
            Peer::Network(_) => Vec::new(),
        }
    }
    /// Those that it receives from.
    fn back(&self, channel: u32, rank: u32, peer: Peer) -> Vec<Connection> {
        match peer {
            Peer::Rank(from, direction) => vec![(channel, [from, rank, 0], direction as u8)],
            Peer::Reduction(head) => {
                self.locals(rank).iter().map(|local| (channel, [self.communicator.seat(rank).node, head, *local], 2)).collect()
            }
            Peer::Multicast(head) => vec![(channel, [self.communicator.seat(rank).node, head, rank], 3)],
            Peer::Network(_) => Vec::new(),
        }
    }

    fn can(&self, channel: u32, rank: u32, step: &Step) -> bool {
        let slots = (SLOTS / self.plan.chunk_slots) as usize;
        let node = self.communicator.seat(rank).node as usize;
        let network = |head: u32| self.wires.network.get(&(channel, head));
        let there = |connection: &Connection| self.wires.chunks.get(connection).is_some_and(|queue| !queue.is_empty());
        let room = |connection: &Connection| self.wires.chunks.get(connection).is_none_or(|queue| queue.len() < slots);
        let receive = step.receive.iter().all(|peer| match peer {
            Peer::Network(head) => network(*head).is_some_and(|nodes| {
                let next = nodes[node].1;
                nodes.iter().all(|(given, _)| given.len() > next)
            }),
            peer => self.back(channel, rank, *peer).iter().all(there),
        });
        let send = step.send.iter().all(|peer| match peer {
            Peer::Network(head) => network(*head).is_none_or(|nodes| nodes[node].0.len() - nodes[node].1 < slots),
            peer => self.out(channel, rank, *peer).iter().all(room),
        });
        receive && send
    }

    fn carry_out(&mut self, channel: u32, rank: u32, step: &Step) {
        let count = (step.bytes.0 / self.element) as usize;
        assert_eq!(step.bytes.0 % self.element, 0, "chunks are whole elements");
        let mut sum = vec![NOTHING; count];
        let mut first = true;
        let mut add = |chunk: &[Element]| {
            assert_eq!(chunk.len(), count, "both ends mean the same chunk");
            for (sum, value) in sum.iter_mut().zip(chunk) {
                if first {
                    *sum = *value;
                } else {
                    assert_eq!(sum.0, value.0, "only the same places are added");
                    assert_eq!(sum.1 & value.1, 0, "a contribution came twice");
                    sum.1 |= value.1;
                }
            }
            first = false;
        };
        let node = self.communicator.seat(rank).node as usize;
        for peer in &step.receive {
            for connection in self.back(channel, rank, *peer) {
                add(&self.wires.chunks.get_mut(&connection).unwrap().pop_front().unwrap());
            }
            if let Peer::Network(head) = peer {
                let nodes = self.wires.network.get_mut(&(channel, *head)).unwrap();
                let next = nodes[node].1;
                nodes.iter().for_each(|(given, _)| add(&given[next]));
                nodes[node].1 += 1;
            }
        }
        let here = &mut self.ranks[rank as usize];
        if let Some(input) = step.input {
            let at = (input.0 / self.element) as usize;
            let buffer = if self.plan.in_place { &here.output } else { &here.input };
            add(&buffer[at..at + count]);
        }
        if let Some(output) = step.output {
            let at = (output.0 / self.element) as usize;
            here.output[at..at + count].copy_from_slice(&sum);
            here.written[at..at + count].iter_mut().for_each(|times| *times += 1);
        }
        for peer in &step.send {
            for connection in self.out(channel, rank, *peer) {
                self.wires.chunks.entry(connection).or_default().push_back(sum.clone());
            }
            if let Peer::Network(head) = peer {
                let nodes = self.communicator.nodes() as usize;
                let given = self.wires.network.entry((channel, *head)).or_insert_with(|| vec![Default::default(); nodes]);
                given[node].0.push(sum.clone());
            }
        }
    }

    fn run(&mut self) {
        loop {
            let mut moved = false;
            for rank in 0..self.ranks.len() {
                for lane in 0..self.ranks[rank].lanes.len() {
                    loop {
                        let (channel, known, next) = &self.ranks[rank].lanes[lane];
                        if *next == known.steps() {
                            break;
                        }
                        let (channel, step) = (*channel, known.step(*next));
                        if !self.can(channel, rank as u32, &step) {
                            break;
                        }
                        self.carry_out(channel, rank as u32, &step);
                        self.ranks[rank].lanes[lane].2 += 1;
                        moved = true;
                    }
                }
            }
            if !moved {
                break;
            }
        }
        for (rank, here) in self.ranks.iter().enumerate() {
            for (channel, lane, next) in &here.lanes {
                assert_eq!(*next, lane.steps(), "rank {rank} waits in channel {channel}: {:?} of {:?}", lane.step(*next), self.plan.choice);
            }
        }
        assert!(self.wires.chunks.values().all(VecDeque::is_empty), "nothing is left in a slot");
    }
}

/// Carries out a plan and checks what every rank has.
fn prove(communicator: &Communicator, choice: Choice, count: u64, root: u32, in_place: bool) {
    let operation = choice.operation;
    let ranks = communicator.ranks();
    let element = if matches!(operation, Operation::AllGather | Operation::Broadcast) { 1 } else { 4 };
    let plan = Plan::new(communicator, choice, count, Bytes(4), root, in_place).unwrap();
    let blocks = |wanted: Operation| if operation == wanted { u64::from(ranks) } else { 1 };
    let (inputs, outputs) = (count * blocks(Operation::ReduceScatter), count * blocks(Operation::AllGather));
    let shared = inputs.max(outputs);
    let states = (0..ranks).map(|rank| {
        let mine = |place: u64| (place as u32, 1u64 << rank);
        let input: Vec<Element> = (0..inputs).map(mine).collect();
        let mut output = vec![NOTHING; if in_place { shared } else { outputs } as usize];
        if in_place {
            // An all-gather's own block is at its place.
            let at = if operation == Operation::AllGather { count * u64::from(rank) } else { 0 } as usize;
            output[at..at + input.len()].copy_from_slice(&input);
        }
        let lanes = plan.parts.iter().flat_map(|part| plan.lanes(communicator, rank, part).into_iter().map(|lane| (part.channel, lane, 0)));
        Rank { written: vec![0; output.len()], input, output, lanes: lanes.collect() }
    });
    let mut proof = Proof { communicator, plan: &plan, element, ranks: states.collect(), wires: Wires::default() };
    proof.run();
    let all = if ranks == 64 { u64::MAX } else { (1 << ranks) - 1 };
    for rank in 0..ranks {
        let here = &proof.ranks[rank as usize];
        let expected = |place: u64| -> Option<Element> {
            Some(match operation {
                Operation::AllReduce => (place as u32, all),
                Operation::Broadcast => (place as u32, 1 << root),
                Operation::Reduce if rank == root => (place as u32, all),
                Operation::Reduce => return None,
                Operation::AllGather => ((place % count) as u32, 1 << (place / count)),
                Operation::ReduceScatter => ((count * u64::from(rank) + place) as u32, all),
            })
        };
        for place in 0..outputs {
            let at = if in_place && operation == Operation::ReduceScatter { count * u64::from(rank) + place } else { place } as usize;
            if let Some(expected) = expected(place) {
                assert_eq!(
                    here.output[at], expected,
                    "{operation} by {} with {count} elements, {ranks} ranks: rank {rank}, place {place}",
                    choice.algorithm
                );
                assert!(here.written[at] <= 1, "place {place} of rank {rank} was written {} times", here.written[at]);
            }
        }
    }
}

fn choice(operation: Operation, algorithm: Algorithm, protocol: Protocol, channels: u32) -> Choice {
    Choice { operation, algorithm, protocol, channels, threads: 512, estimate: Span::ZERO }
}

/// Small buffers, so that messages of some KiB take several loops.
fn small() -> Settings {
    Settings { buffers: [Some(Bytes(8 * 256)), Some(Bytes(8 * 2048)), Some(Bytes(8 * 512))], most_channels: Some(4), ..Settings::default() }
}

const LAYOUTS: [(u32, u32); 13] = [(1, 2), (1, 3), (1, 4), (1, 8), (2, 1), (2, 2), (2, 4), (3, 1), (3, 2), (5, 3), (4, 8), (8, 8), (64, 1)];

#[test]
fn rings_bring_every_contribution_once() {
    for (nodes, gpus) in LAYOUTS {
        let communicator = communicator(nodes, gpus, small());
        let ranks = communicator.ranks();
        for operation in Operation::ALL {
            for protocol in Protocol::ALL {
                let counts: &[u64] = if ranks > 16 { &[1, 301] } else { &[1, 37, 1001, 5003] };
                for count in counts {
                    for in_place in [false, true] {
                        prove(
                            &communicator,
                            choice(operation, Algorithm::Ring, protocol, communicator.channels()),
                            *count,
                            (*count % u64::from(ranks)) as u32,
                            in_place,
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn trees_bring_every_contribution_once() {
    for (nodes, gpus) in LAYOUTS {
        let communicator = communicator(nodes, gpus, small());
        for protocol in Protocol::ALL {
            for count in [1, 37, 1001, 9999] {
                prove(&communicator, choice(Operation::AllReduce, Algorithm::Tree, protocol, communicator.channels()), count, 0, false);
            }
        }
    }
}

#[test]
fn switches_of_nvlinks_bring_every_contribution_once() {
    for gpus in [3, 4, 8] {
        let communicator = communicator(1, gpus, small());
        assert_eq!(communicator.nvls_heads(), gpus);
        for operation in [Operation::AllReduce, Operation::AllGather, Operation::ReduceScatter] {
            for count in [1, 37, 1001, 9999] {
                for in_place in [false, true] {
                    prove(
                        &communicator,
                        choice(operation, Algorithm::Nvls, Protocol::Simple, communicator.nvls_channels()),
                        count,
                        0,
                        in_place,
                    );
                }
            }
        }
    }
    for (nodes, gpus) in [(2, 3), (3, 4), (8, 8)] {
        let communicator = communicator(nodes, gpus, small());
        for count in [1, 37, 1001, 99_999] {
            prove(
                &communicator,
                choice(Operation::AllReduce, Algorithm::NvlsTree, Protocol::Simple, communicator.nvls_channels()),
                count,
                0,
                false,
            );
        }
    }
}

#[test]
fn the_networks_reduction_brings_every_contribution_once() {
    for (nodes, gpus) in [(2, 1), (2, 2), (3, 4), (8, 8)] {
        let communicator = communicator(nodes, gpus, Settings { collnet: true, ..small() });
        assert!(communicator.has_collnet());
        for algorithm in [Algorithm::CollnetChain, Algorithm::CollnetDirect, Algorithm::Nvls] {
            if algorithm == Algorithm::Nvls && gpus < 3 {
                continue;
            }
            for count in [1, 37, 1001, 99_999] {
                prove(&communicator, choice(Operation::AllReduce, algorithm, Protocol::Simple, 4), count, 0, false);
            }
        }
    }
}

#[test]
fn usual_buffers_and_channels_hold_too() {
    for (nodes, gpus, count) in [(1, 8, 1 << 20), (2, 4, 300_001), (1, 2, 3_000_001)] {
        let communicator = communicator(nodes, gpus, Settings::default());
        for algorithm in [Algorithm::Ring, Algorithm::Tree] {
            for protocol in Protocol::ALL {
                prove(&communicator, choice(Operation::AllReduce, algorithm, protocol, communicator.channels()), count, 0, false);
            }
        }
    }
}

#[test]
fn a_single_rank_copies() {
    let communicator = communicator(1, 1, Settings::default());
    for operation in Operation::ALL {
        prove(&communicator, choice(operation, Algorithm::Ring, Protocol::Simple, 1), 1001, 0, false);
    }
}

#[test]
fn rounds_pair_all_ranks_and_pieces_cover_messages() {
    for (nodes, gpus) in LAYOUTS {
        let communicator = communicator(nodes, gpus, Settings::default());
        let schedule = Schedule::new(&communicator);
        let ranks = communicator.ranks();
        for rank in 0..ranks {
            let mut met = BTreeSet::new();
            for round in 0..ranks {
                let pair = schedule.pair(&communicator, rank, round);
                assert_eq!(schedule.pair(&communicator, pair.to, round).from, rank, "both ends meet in one round");
                assert_eq!(schedule.round(&communicator, rank, pair.to), round);
                met.insert(pair.to);
            }
            assert_eq!(met.len() as u32, ranks, "{rank} meets all");
        }
        for bytes in [0, 1, 4095, 65_537, 1 << 20, (64 << 20) + 3] {
            for network in [false, true] {
                let split = schedule.split(ranks / 2, Bytes(bytes), network);
                assert!(split.parts.len() as u32 <= schedule.channels_per_peer());
                let channels: BTreeSet<u32> = split.parts.iter().map(|part| part.channel).collect();
                assert_eq!(channels.len(), split.parts.len(), "each piece has a channel of its own");
                let mut at = 0;
                for part in &split.parts {
                    for (offset, size) in split.chunks(*part) {
                        assert_eq!(offset.0, at);
                        assert!(size <= split.chunk);
                        at += size.0;
                    }
                }
                assert_eq!(at, bytes, "the pieces are the message");
            }
        }
    }
}
