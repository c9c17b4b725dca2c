//! What operations leave in the memory of GPUs: every algorithm with every protocol, in place and out of place, on one node and on two.
//!
//! Each contribution is a number that goes with its slice over links, slots and adapters; sums that lack one, have one twice or have one of
//! another place are other numbers, and [`Communicator::wrong`] counts their bytes.
//!
//! [`Communicator::wrong`]: fabriscope_nccl_runtime::Communicator::wrong

use crate::gpus;
use fabriscope_catalog::StepParameters;
use fabriscope_engine::Loss;
use fabriscope_machine::{ResourceId, Sharing, Use, Weight};
use fabriscope_nccl::{Algorithm, Operation, Protocol};
use fabriscope_nccl_runtime::{BlockPlan, Contents, Exchange, Fifo, FifoEnd, FifoId, FifoPath, Kernels, Move};
use fabriscope_platform::nccl::Pace;
use fabriscope_units::{Bytes, Rate, Span, Time};
use gpus::{Collective, Machine, collective, collectives, group, ring};
use proptest::prelude::*;

const OPERATIONS: [Operation; 5] =
    [Operation::Broadcast, Operation::Reduce, Operation::AllGather, Operation::ReduceScatter, Operation::AllReduce];

#[test]
fn every_ring_leaves_what_it_should() {
    // Counts that no number of channels or slices divides, and one that is less than an element for each rank.
    for (nodes, per_node) in [(1, 4), (2, 2)] {
        let machine = Machine::of("azure-nda100v4", nodes, per_node);
        for operation in OPERATIONS {
            for protocol in Protocol::ALL {
                for count in [1, 3, 1001, 70_001] {
                    for in_place in [false, true] {
                        let case = Collective { in_place, root: 1, ..ring(operation, protocol, count) };
                        assert_eq!(collective(&machine, case).wrong, Bytes::ZERO, "{case:?} on {nodes} nodes");
                    }
                }
            }
        }
    }
}

#[test]
fn trees_and_switches_leave_the_same_sum() {
    // An all-reduce is the same sum whoever adds: ring, tree, the switch of NVLinks, and that with trees between nodes.
    let one = Machine::of("azure-ndh100v5", 1, 8);
    let two = Machine::of("azure-ndh100v5", 2, 8);
    for (machine, algorithm) in [(&one, Algorithm::Tree), (&two, Algorithm::Tree), (&one, Algorithm::Nvls), (&two, Algorithm::NvlsTree)] {
        for count in [5, 4096, 100_003] {
            let case = Collective { algorithm, ..ring(Operation::AllReduce, Protocol::Simple, count) };
            assert_eq!(collective(machine, case).wrong, Bytes::ZERO, "{case:?} on {} nodes", machine.nodes);
        }
    }
}

#[test]
fn a_reduce_scatter_and_an_all_gather_are_an_all_reduce() {
    // Both leave every rank the whole sum; in the ring they are the same 2 (n − 1) steps, so together they take no less than the
    // all-reduce, and no more than it and what one kernel more costs: a call, its start, a fill of the pipeline.
    let machine = Machine::of("azure-nda100v4", 1, 8);
    for count in [1 << 14, 1 << 18] {
        let block = count / 8;
        let both = [ring(Operation::ReduceScatter, Protocol::Simple, block), ring(Operation::AllGather, Protocol::Simple, block)];
        let (parts, whole) =
            (collectives(&machine, &both).unwrap(), collective(&machine, ring(Operation::AllReduce, Protocol::Simple, count)));
        assert_eq!((parts.wrong, whole.wrong), (Bytes::ZERO, Bytes::ZERO));
        let ratio = parts.slowest().as_us_f64() / whole.slowest().as_us_f64();
        assert!((0.7..2.0).contains(&ratio), "{count} elements: {} in two, {} in one", parts.slowest(), whole.slowest());
    }
}

/// What a message says of its slice is lost with its packet, and comes with the packet that is sent again.
#[test]
fn what_messages_say_of_slices_survives_lost_packets() {
    for cluster in ["azure-nda100v4", "azure-ndh100v5"] {
        let quiet = Machine::of(cluster, 2, 2);
        let lossy = Machine { loss: Loss::Random(u32::MAX / 50), ..quiet.clone() };
        for protocol in [Protocol::Ll, Protocol::Simple] {
            let case = ring(Operation::AllReduce, protocol, 300_001);
            let Ok(without) = collectives(&quiet, &[case]) else { continue };
            let with = collective(&lossy, case);
            assert_eq!((without.wrong, with.wrong), (Bytes::ZERO, Bytes::ZERO), "{case:?} on {cluster}");
            // One packet of 50 is lost on each link: some of the hundreds were, which takes time.
            assert!(with.slowest() > without.slowest(), "{case:?} on {cluster}");
        }
    }
}

/// Messages of SRD and of UET overtake each other, and with lost packets by far: a slice waits for its own.
#[test]
fn slices_survive_lost_packets_where_messages_overtake_each_other() {
    // EFA's adapters of that cluster only read, so that all is Simple; RCCL has no LL128 on these GPUs.
    let read = (Machine::of("aws-p4de-nccl", 2, 2), &[Protocol::Simple][..]);
    let written = (Machine::over_uet("mi355x-pollara", 2, 2), &[Protocol::Ll, Protocol::Simple][..]);
    for (quiet, protocols) in [read, written] {
        let lossy = Machine { loss: Loss::Random(u32::MAX / 200), ..quiet.clone() };
        for protocol in protocols {
            let case = ring(Operation::AllReduce, *protocol, 300_001);
            let (without, with) = (collective(&quiet, case), collective(&lossy, case));
            assert_eq!((without.wrong, with.wrong), (Bytes::ZERO, Bytes::ZERO), "{case:?} on {}", quiet.parts.name);
            assert!(with.slowest() > without.slowest(), "{case:?} on {}", quiet.parts.name);
        }
    }
}

/// All send to one over switches that trim what finds no room: what is trimmed is asked for again, and all of it comes.
#[test]
fn trimmed_packets_come_in_full() {
    let mut machine = Machine::over_uet("lab-uet", 8, 1);
    machine.parts.congestion = None;
    let switch = machine.parts.switch.as_mut().expect("there are switches");
    (switch.shared, switch.buffer.value) = (None, Bytes(100_000));
    let bytes = Bytes(1_000_000);
    let seen = group(&machine, |rank, ranks| match rank {
        0 => (1..ranks).map(|from| Exchange::receive(from, bytes)).collect(),
        _ => vec![Exchange::send(0, bytes)],
    });
    let seen = seen.expect("it ends");
    assert!(seen.trims > 0, "{seen:?}");
    assert_eq!(seen.wrong, Bytes::ZERO);
    // 7 MB by one adapter of 400 Gb/s.
    assert!((140.0..400.0).contains(&seen.slowest().as_us_f64()), "{}", seen.slowest());
}

#[test]
fn roots_are_equal() {
    // Every rank can be the root of a broadcast and of a reduction.
    let machine = Machine::of("azure-nda100v4", 1, 8);
    for operation in [Operation::Broadcast, Operation::Reduce] {
        for root in 0..8 {
            let case = Collective { root, ..ring(operation, Protocol::Ll, 777) };
            assert_eq!(collective(&machine, case).wrong, Bytes::ZERO, "{case:?}");
        }
    }
    let beyond = Collective { root: 8, ..ring(Operation::Broadcast, Protocol::Ll, 777) };
    assert!(collectives(&machine, &[beyond]).is_err(), "rank 8 of 8");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    /// Groups of any pairs: who sends to whom with which length is drawn; every receiver finds what its sender sent.
    #[test]
    fn groups_bring_what_was_sent(
        pairs in prop::collection::btree_set((0u32..4, 0u32..4), 1..10),
        kib in 1u64..400,
        two_nodes in any::<bool>(),
    ) {
        let machine = if two_nodes { Machine::of("azure-nda100v4", 2, 2) } else { Machine::of("azure-nda100v4", 1, 4) };
        let bytes = Bytes(kib * 1000);
        let seen = group(&machine, |rank, _| {
            let sends = pairs.iter().filter(|(from, _)| *from == rank).map(|(_, to)| Exchange::send(*to, bytes));
            let receives = pairs.iter().filter(|(_, to)| *to == rank).map(|(from, _)| Exchange::receive(*from, bytes));
            sends.chain(receives).collect()
        });
        prop_assert_eq!(seen.map(|seen| seen.wrong), Ok(Bytes::ZERO));
    }

    /// Any count, ring and protocol.
    #[test]
    fn any_count(count in 1u64..200_000, operation in prop::sample::select(OPERATIONS.to_vec()), protocol in prop::sample::select(Protocol::ALL.to_vec()), in_place in any::<bool>()) {
        let machine = Machine::of("azure-nda100v4", 1, 4);
        let case = Collective { in_place, root: 2, ..ring(operation, protocol, count) };
        prop_assert_eq!(collective(&machine, case).wrong, Bytes::ZERO);
    }
}

#[test]
fn a_receive_without_its_send_never_ends() {
    // Rank 1 waits for rank 0, which sends nothing: an error, not an end.
    let machine = Machine::of("azure-nda100v4", 1, 2);
    let seen = group(&machine, |rank, _| if rank == 1 { vec![Exchange::receive(0, Bytes(4096))] } else { Vec::new() });
    assert!(seen.is_err(), "{seen:?}");
}

#[test]
fn wrong_contents_are_counted_by_their_bytes() {
    // A block fills a slot with 5, the receiver adds 2 and keeps the sum. If 7 is expected nothing is wrong; if 8 is, all 4096 B are.
    for (expected, wrong) in [(7, 0), (8, 4096)] {
        let rate = Rate::from_gbps(80);
        let pace = Pace {
            rate,
            wave: Bytes::ZERO,
            taken: (1, 1),
            step: StepParameters { start: Span::ZERO, begin: Span::ZERO, end: Span::ZERO },
            fenced: false,
        };
        let mut kernels = Kernels::new(Sharing::new(vec![rate]), vec![Vec::new(); 2]);
        let uses = vec![Use { resource: ResourceId(0), weight: Weight::ONE }];
        let fifo = kernels.add_fifo(Fifo::new(FifoPath { uses, ..FifoPath::default() }, 8, FifoEnd::Block, FifoEnd::Block));
        let step = |from: Vec<FifoId>, to: Vec<FifoId>, contents| Move {
            from: from.into(),
            to: to.into(),
            bytes: Bytes(4096),
            slots: 1,
            contents,
            ..Move::default()
        };
        let sends = step(Vec::new(), vec![fifo], Contents { adds: 5, expects: None });
        let keeps = step(vec![fifo], Vec::new(), Contents { adds: 2, expects: Some(expected) });
        kernels.launch(0, Time::ZERO, vec![BlockPlan { pace, moves: Box::new(std::iter::once(sends)) }]);
        kernels.launch(1, Time::ZERO, vec![BlockPlan { pace, moves: Box::new(std::iter::once(keeps)) }]);
        while let Some(next) = kernels.next_event() {
            kernels.advance(next);
        }
        assert_eq!(kernels.wrong(), Bytes(wrong));
    }
}

/// What ranks of different nodes share may be used by threads side by side: it has no cell of a single thread.
const _: () = {
    const fn is_for_all_threads<T: Send + Sync>() {}
    is_for_all_threads::<fabriscope_nccl_runtime::World>();
};
