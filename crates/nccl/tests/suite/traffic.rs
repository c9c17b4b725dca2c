//! Bytes and steps of plans by the formulas of rings and trees, counted over all ranks and channels of DGX A100.

use crate::built;
use built::a100s;
use fabriscope_nccl::{Algorithm, Communicator, Direction, Operation, Peer, Plan, Protocol, Tuner};
use fabriscope_units::Bytes;
use proptest::prelude::*;

/// Bytes that ranks send to ranks, those of them that leave a node, bytes that are written to outputs, and the most steps of a lane.
#[derive(Debug, Default, PartialEq, Eq)]
struct Traffic {
    sent: u64,
    far: u64,
    written: u64,
    reduced: u64,
}

fn traffic(
    communicator: &Communicator,
    operation: Operation,
    algorithm: Algorithm,
    protocol: Protocol,
    count: u64,
    element: u64,
) -> Traffic {
    let tuner = Tuner::new(communicator);
    let choice = tuner.with(operation, algorithm, protocol, Bytes(count * element)).unwrap();
    let plan = Plan::new(communicator, choice, count, Bytes(element), 0, false).unwrap();
    let mut traffic = Traffic::default();
    for rank in 0..communicator.ranks() {
        for part in &plan.parts {
            for lane in plan.lanes(communicator, rank, part) {
                for step in lane.iter() {
                    for peer in &step.send {
                        let Peer::Rank(to, _) = peer else { panic!("{peer:?} in a ring or tree") };
                        traffic.sent += step.bytes.0;
                        traffic.far += if communicator.seat(*to).node == communicator.seat(rank).node { 0 } else { step.bytes.0 };
                    }
                    traffic.written += if step.output.is_some() { step.bytes.0 } else { 0 };
                    traffic.reduced += if step.reduces() { step.bytes.0 } else { 0 };
                }
            }
        }
    }
    traffic
}

/// A mebi of floats.
const COUNT: u64 = 1 << 20;
const SIZE: u64 = 4 * COUNT;

#[test]
fn rings() {
    // n ranks. All-reduce: each of n shares passes n − 1 links as a sum and n − 1 as a result: 2 (n − 1) S together; reduced n − 1 times. All-gather
    // of blocks of S: each passes n − 1 links. Reduce-scatter the same, reduced as often. Broadcast and reduce: S over n − 1 links.
    for nodes in [1, 2, 3] {
        let communicator = a100s(nodes);
        let n = u64::from(8 * nodes);
        for protocol in Protocol::ALL {
            let of = |operation| traffic(&communicator, operation, Algorithm::Ring, protocol, COUNT, 4);
            let all = of(Operation::AllReduce);
            assert_eq!((all.sent, all.reduced, all.written), (2 * (n - 1) * SIZE, (n - 1) * SIZE, n * SIZE), "{protocol}, {n} ranks");
            // What is moved only counts in bytes: a block of COUNT.
            let gathered = of(Operation::AllGather);
            assert_eq!(
                (gathered.sent, gathered.reduced, gathered.written),
                (n * (n - 1) * COUNT, 0, n * n * COUNT),
                "{protocol}, {n} ranks"
            );
            let scattered = of(Operation::ReduceScatter);
            assert_eq!((scattered.sent, scattered.reduced, scattered.written), (n * (n - 1) * SIZE, n * (n - 1) * SIZE, n * SIZE));
            let spread = of(Operation::Broadcast);
            assert_eq!((spread.sent, spread.written, spread.reduced), ((n - 1) * COUNT, n * COUNT, 0), "{protocol}, {n} ranks");
            let reduced = of(Operation::Reduce);
            assert_eq!((reduced.sent, reduced.reduced, reduced.written), ((n - 1) * SIZE, (n - 1) * SIZE, SIZE), "{protocol}, {n} ranks");
        }
    }
}

#[test]
fn a_ring_crosses_each_node_once() {
    // Of n links of a ring `nodes` are between nodes, and all carry about the same: S · 2 (n − 1) / n each.
    for nodes in [2, 4] {
        let communicator = a100s(nodes);
        let n = f64::from(8 * nodes);
        let all = traffic(&communicator, Operation::AllReduce, Algorithm::Ring, Protocol::Simple, COUNT, 4);
        let expected = f64::from(nodes) * 2.0 * (n - 1.0) / n * SIZE as f64;
        assert!((all.far as f64 / expected - 1.0).abs() < 0.02, "{nodes} nodes: {} of {expected} bytes", all.far);
    }
}

#[test]
fn trees() {
    // n − 1 edges with S up and S down; each node but the root sends its sum once to another node, and gets the result once: 2 (nodes − 1) S.
    for nodes in [1, 2, 3, 4, 5] {
        let communicator = a100s(nodes);
        let n = u64::from(8 * nodes);
        for protocol in Protocol::ALL {
            let all = traffic(&communicator, Operation::AllReduce, Algorithm::Tree, protocol, COUNT, 4);
            assert_eq!((all.sent, all.far), (2 * (n - 1) * SIZE, 2 * u64::from(nodes - 1) * SIZE), "{protocol}, {nodes} nodes");
            assert_eq!(all.written, n * SIZE, "{protocol}, {nodes} nodes");
        }
    }
}

#[test]
fn steps_of_a_ring() {
    // A round of an all-reduce has 2 (n − 1) + 1 steps in each rank: send, n − 2 times receive, reduce and send, then reduce, keep and send, n − 2
    // times keep and send, and keep the last. A round of an all-gather has n: copy and send, n − 2 times pass on, take the last.
    let communicator = a100s(1);
    let tuner = Tuner::new(&communicator);
    for (operation, steps) in [(Operation::AllReduce, 15), (Operation::AllGather, 8), (Operation::ReduceScatter, 8)] {
        let choice = tuner.with(operation, Algorithm::Ring, Protocol::Simple, Bytes(SIZE)).unwrap();
        let plan = Plan::new(&communicator, choice, COUNT, Bytes(4), 0, false).unwrap();
        for part in &plan.parts {
            for rank in 0..8 {
                for lane in plan.lanes(&communicator, rank, part) {
                    assert!(lane.steps().is_multiple_of(steps), "{operation}: {} steps in rounds of {steps}", lane.steps());
                    let round: Vec<_> = lane.iter().take(steps as usize).collect();
                    assert!(round[0].receive.is_empty() && !round[0].send.is_empty(), "{operation} begins with a send");
                    assert!(round[steps as usize - 1].send.is_empty(), "{operation} ends with what is kept");
                    assert!(round[1..steps as usize - 1].iter().all(|step| step.receive.len() == 1 && step.send.len() == 1));
                    let sums = round.iter().filter(|step| step.reduces()).count();
                    assert_eq!(sums, if operation == Operation::AllGather { 0 } else { 7 }, "{operation}");
                }
            }
        }
    }
}

#[test]
fn directions_of_trees() {
    // Sums go up and results come down, on connections of their own; the root sends none up.
    let communicator = a100s(3);
    let choice = Tuner::new(&communicator).with(Operation::AllReduce, Algorithm::Tree, Protocol::Simple, Bytes(SIZE)).unwrap();
    let plan = Plan::new(&communicator, choice, COUNT, Bytes(4), 0, false).unwrap();
    for part in &plan.parts {
        for rank in 0..communicator.ranks() {
            let place = communicator.tree(part.channel, rank);
            for lane in plan.lanes(&communicator, rank, part) {
                for peer in lane.iter().flat_map(|step| step.send) {
                    match peer {
                        Peer::Rank(to, Direction::Up) => assert_eq!(Some(to), place.up),
                        Peer::Rank(to, Direction::Down) => assert!(place.down.contains(&to)),
                        other => panic!("{other:?}"),
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// The formulas hold for any number of elements, also for those that no chunk divides.
    #[test]
    fn any_size(count in prop_oneof![1u64..100, 100u64..3_000_000], protocol in prop::sample::select(Protocol::ALL.to_vec()), tree: bool) {
        let communicator = a100s(1);
        let algorithm = if tree { Algorithm::Tree } else { Algorithm::Ring };
        let all = traffic(&communicator, Operation::AllReduce, algorithm, protocol, count, 4);
        prop_assert_eq!((all.sent, all.written), (2 * 7 * 4 * count, 8 * 4 * count));
    }
}
