//! Barriers that adapters carry out: nobody leaves before everybody has come, however far apart and however many in a row.

use fabriscope_collectives::{Algorithm, Call, Kind};
use fabriscope_engine::{Cluster, Engine, Job, RunOptions};
use fabriscope_engine_packet::PacketEngine;
use fabriscope_mpi::{Rank, TriggeredState, World};
use fabriscope_node::{Main, Record};
use fabriscope_platform::{Layout, Target};
use fabriscope_units::{Bytes, Span, Time};
use proptest::prelude::*;

use crate::machine::{parts, target};

/// When each rank came to each of `barriers` barriers, and left it: ranks come `late` apart.
fn barriers(cluster: &str, (nodes, per_node): (u32, u32), algorithm: &str, late: &[Vec<u64>]) -> Vec<Vec<(Time, Time)>> {
    let parts = parts(cluster);
    let ranks = nodes * per_node;
    let target = Target { layout: Layout { nodes, per_node }, ..target(&parts) };
    let world = World::new(parts.sole().software.mpi.as_ref().unwrap(), &target, ranks);
    let (state, algorithm) = (TriggeredState::new(&target), Algorithm::named(Kind::Barrier, algorithm).unwrap());
    let call = Call { operation: Kind::Barrier, ranks, per_node, root: 0, size: Bytes::ZERO, width: Bytes(1) };
    let times = Record::new(vec![Vec::new(); ranks as usize]);
    let main = |rank: u32| -> Main {
        let (world, state, algorithm, times) = (world.clone(), state.clone(), algorithm.clone(), times.clone());
        let waits: Vec<Span> = late.iter().map(|all| Span::from_ns(all[rank as usize % all.len()])).collect();
        Box::new(move |process| {
            Box::pin(async move {
                let peers = algorithm.peers(&call, rank);
                let rank = Rank::init(process, world, &peers).await?;
                rank.open_triggered(&state, &call, &algorithm).await?;
                for wait in waits {
                    rank.work(wait).await;
                    let came = rank.now();
                    let request = rank.triggered_barrier().await?;
                    rank.wait(request).await?;
                    times.lock()[rank.rank() as usize].push((came, rank.now()));
                }
                rank.synchronise().await
            })
        })
    };
    let seats = (0..ranks).map(|rank| rank / per_node).collect();
    let job = Job::programs(seats, (0..ranks).map(main).collect());
    let run = PacketEngine.run(&Cluster::new(parts.clone()).unwrap(), job, &RunOptions::default(), 1);
    run.unwrap_or_else(|error| panic!("{algorithm} of {ranks}: {error}"));
    times.take()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn nobody_leaves_before_everybody_has_come(
        name in prop::sample::select(vec!["recursive_doubling", "dissemination", "dissemination(3)", "tree", "linear"]),
        nodes in 1u32..9,
        per_node in 1u32..3,
        late in prop::collection::vec(prop::collection::vec(0u64..20_000, 1..7), 1..6),
    ) {
        for cluster in ["lab-bxi", "slingshot11-milan"] {
            let times = barriers(cluster, (nodes.min(parts(cluster).nodes()), per_node), name, &late);
            for number in 0..late.len() {
                let last = times.iter().map(|own| own[number].0).max().unwrap();
                let first = times.iter().map(|own| own[number].1).min().unwrap();
                prop_assert!(first >= last, "{cluster}, {name}: left at {first} what somebody came to at {last}");
            }
        }
    }
}
