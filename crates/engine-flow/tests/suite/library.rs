//! Ranks of a library at costs that are written down: what they take is what the costs say.

use crate::agrees::cluster;
use fabriscope_collectives::{Buffer, Outline, Round};
use fabriscope_engine_flow::library::{LibraryWork, Outcome, Queues, Step, Steps, run};
use fabriscope_fabric::Routing;
use fabriscope_mpi::Packing;
use fabriscope_mpi::probe::{Costs, Gaps, MessageCosts};
use fabriscope_units::{Bytes, Span};

const NS: fn(u64) -> Span = Span::from_ns;

/// Eager up to 100 B, met by a handshake from 1,000 B on. The adapters of a node take a message every 30 ns.
fn costs() -> Costs {
    let eager = MessageCosts {
        post: NS(100),
        receive: NS(10),
        take: NS(50),
        ready: NS(1000),
        late: NS(70),
        found: NS(60),
        sent: NS(100),
        released: None,
        needs_sender: false,
    };
    let met = MessageCosts { ready: NS(5000), late: NS(4000), found: NS(4000), sent: NS(5500), released: Some(NS(4500)), ..eager };
    let gaps = Gaps { remote: NS(30), ..Gaps::default() };
    Costs {
        sizes: vec![100, 1000],
        domains: vec![0, 0],
        crossings: vec![(0, 0, Span::ZERO)],
        local: vec![(Span::ZERO, vec![eager, met])],
        near: vec![(0, vec![eager, met])],
        far: Vec::new(),
        gaps: vec![gaps.clone(), gaps],
    }
}

/// Two nodes with two ranks each; `rounds` of each rank, timed from the begin to the end.
fn timed(rounds: fn(u32) -> Vec<Round>) -> Outcome {
    let (cluster, costs) = (cluster("lab-16", Routing::DModK), costs());
    let work = LibraryWork {
        nodes: &[0, 1],
        per_node: 2,
        costs: &costs,
        measured: [0, 1, 1],
        packing: Packing::default(),
        slots: None,
        footprint: Bytes::ZERO,
        queues: Queues::Refused,
    };
    let steps = move |rank: u32| -> Steps {
        let rounds = rounds(rank).into_iter().map(|round| Step::Round(Outline::from(round)));
        Box::new(std::iter::once(Step::Begin).chain(rounds).chain([Step::End]))
    };
    run(&cluster, &work, &steps).unwrap()
}

fn one_way(rank: u32, from: u32, to: u32, bytes: u64) -> Vec<Round> {
    let message = |peer| Some(Buffer::Recv.piece(Bytes::ZERO, Bytes(bytes)).with(peer));
    match rank {
        rank if rank == from => vec![Round::exchange(None, message(to))],
        rank if rank == to => vec![Round::exchange(message(from), None)],
        _ => Vec::new(),
    }
}

#[test]
fn an_eager_message_takes_what_was_measured() {
    // The sender is over with its call, the receiver when it is ready.
    assert_eq!(timed(|rank| one_way(rank, 0, 2, 100)).timed, [NS(100), NS(0), NS(1000), NS(0)]);
}

#[test]
fn a_handshake_keeps_the_sender() {
    assert_eq!(timed(|rank| one_way(rank, 0, 2, 1000)).timed, [NS(5500), NS(0), NS(5000), NS(0)]);
}

#[test]
fn two_ranks_of_a_node_share_its_adapter() {
    // Both post at once: the second waits 30 ns, in whichever order.
    let both = |rank: u32| one_way(rank, rank % 2, rank % 2 + 2, 100);
    let mut times = timed(both).timed;
    times.sort_unstable();
    assert_eq!(times, [NS(100), NS(100), NS(1000), NS(1030)]);
}

#[test]
fn what_came_before_is_taken_late() {
    // Rank 2 is busy with rank 3 first: a round trip of 1,000 and 1,000 ns. It looks at the message of rank 0 at the end of that, and its
    // receive of 10 ns finds it: 60 less the 10 of the call.
    let rounds = |rank: u32| match rank {
        0 => one_way(0, 0, 2, 100),
        2 => [one_way(2, 2, 3, 100), one_way(2, 3, 2, 100), one_way(2, 0, 2, 100)].concat(),
        3 => [one_way(3, 2, 3, 100), one_way(3, 3, 2, 100)].concat(),
        _ => Vec::new(),
    };
    assert_eq!(timed(rounds).timed[2], NS(2000) + NS(10) + NS(10) + NS(50));
}

#[test]
fn ranks_that_wait_for_nothing_are_named() {
    let (cluster, costs) = (cluster("lab-16", Routing::DModK), costs());
    let (packing, slots, footprint) = (Packing::default(), None, Bytes::ZERO);
    let work =
        LibraryWork { nodes: &[0, 1], per_node: 2, costs: &costs, measured: [0, 1, 1], packing, slots, footprint, queues: Queues::Refused };
    let steps = |rank: u32| -> Steps { Box::new(one_way(rank, 9, 1, 8).into_iter().map(|round| Step::Round(Outline::from(round)))) };
    let error = run(&cluster, &work, &steps).unwrap_err();
    assert!(error.to_string().contains("rank 1"), "{error}");
}
