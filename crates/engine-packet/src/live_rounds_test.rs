//! Ranks that make their rounds as they go: the run of a schedule of the same rounds, to the last counter, in memory by what is in progress.

use std::sync::Arc;

use fabriscope_catalog::Catalog;
use fabriscope_collectives::{Algorithm, Call, Kind, Message, Round, Rounds, schedule};
use fabriscope_engine::{Cluster, Connections, EngineError, Job, Prepared, RankRounds, Run, RunOptions, Service, library};
use fabriscope_units::{Bytes, Remedy};

use crate::operations::Operations;
use crate::tests::cluster;
use crate::transfer::Transferring;
use crate::workload::Divided;
use crate::world::World;
use crate::{Counting, Loss, Scenario, Transfers, on_demand};

const CASES: [(Kind, &str, u64); 17] = [
    (Kind::Barrier, "dissemination", 0),
    (Kind::Barrier, "tree", 0),
    (Kind::Bcast, "binomial", 100_000),
    (Kind::Bcast, "scatter_ring", 100_000),
    (Kind::Bcast, "pipeline", 100_000),
    (Kind::Allreduce, "ring", 1 << 18),
    (Kind::Allreduce, "ring", 100_004),
    (Kind::Allreduce, "recursive_doubling", 1 << 16),
    (Kind::Allreduce, "rabenseifner", 1 << 18),
    (Kind::Allreduce, "double_binary_tree", 1 << 18),
    (Kind::Allgather, "bruck", 10_000),
    (Kind::Allgather, "ring", 10_000),
    (Kind::Alltoall, "pairwise", 10_000),
    (Kind::Alltoall, "posted", 10_000),
    (Kind::Alltoall, "bruck", 4_000),
    (Kind::ReduceScatter, "recursive_halving", 1 << 18),
    (Kind::Scan, "recursive_doubling", 10_000),
];

/// An algorithm among so many ranks, one a node.
fn program(operation: Kind, name: &str, ranks: u32, size: u64) -> Arc<dyn RankRounds> {
    let call = Call { operation, ranks, per_node: 1, root: 0, size: Bytes(size), width: Bytes(4) };
    Arc::new((call, Algorithm::named(operation, name).expect("there is one")))
}

fn known(engine: &Scenario, cluster: &Cluster, program: &Arc<dyn RankRounds>) -> Result<Run, EngineError> {
    let schedule = schedule(program.ranks(), |rank| program.rounds(rank)).expect("it is sound");
    engine.run(cluster, &schedule, 1)
}

fn live(engine: &Scenario, cluster: &Cluster, program: &Arc<dyn RankRounds>) -> Result<Run, EngineError> {
    assert!(on_demand::suits(&cluster.parts, engine), "it would be a schedule");
    Box::new(engine.live(cluster, program, 1)?).run()
}

/// A cluster of the catalogue with another routing.
fn named(name: &str, nodes: u32, lines: &str) -> Cluster {
    let catalog = Catalog::embedded().expect("the catalogue is sound");
    let text = format!("name = \"case\"\nbase = \"{name}\"\nnodes = {nodes}\n{lines}\n");
    let parsed = catalog.parse_cluster("case.toml", &text).expect("the cluster is sound");
    Cluster::new(catalog.resolve(&parsed, None).expect("its parts are there")).expect("it can be wired")
}

const FAT_TREE: &str = "topology.fat_tree = { levels = 3, radix = 8 }";

#[test]
fn a_schedule_of_the_rounds_runs_the_same() {
    let plain = Scenario::default();
    let over = |service| Scenario { transfers: Transfers { service, ..Transfers::default() }, ..Scenario::default() };
    let counted = Scenario { counting: Counting::Sums, link_loads: true, ..Scenario::default() };
    let any = Transfers { any_order: true, spray: true, ..Transfers::default() };
    let sprayed = Scenario { transfers: any, ..Scenario::default() };
    let rdma = cluster("topology.single_switch = {}", 16, "infiniband", "d_mod_k");
    let carried = Transfers { library: library(&named("ri2", 8, "").parts), ..Transfers::default() };
    let library = Scenario { transfers: carried, ..Scenario::default() };
    let settings = [
        ("one switch", &plain, rdma, 16),
        ("a tree", &counted, cluster(FAT_TREE, 128, "infiniband", "d_mod_k"), 47),
        ("hashed paths", &plain, cluster(FAT_TREE, 128, "infiniband", "ecmp"), 33),
        ("packets on any path", &sprayed, cluster(FAT_TREE, 128, "infiniband", "spray"), 36),
        ("unreliable", &over(Service::Uc), cluster(FAT_TREE, 128, "infiniband", "d_mod_k"), 32),
        ("pause frames", &plain, cluster(FAT_TREE, 128, "roce_v2", "ecmp"), 21),
        ("DCQCN", &plain, named("lab-roce-128", 128, "routing = \"ecmp\"\ncongestion = \"dcqcn\""), 24),
        ("adaptive", &sprayed, named("lab-dragonfly-72", 72, "routing = \"ugal_l\""), 36),
        ("a library", &library, named("ri2", 20, ""), 20),
    ];
    for (what, engine, cluster, ranks) in &settings {
        for (operation, name, size) in CASES {
            // A library sends eagerly what fits its buffers.
            let size = if engine.transfers.library.is_some() { size.min(400) } else { size };
            let program = program(operation, name, *ranks, size);
            let (one, other) = (known(engine, cluster, &program), live(engine, cluster, &program));
            let (one, other) = (one.expect("it ends"), other.expect("it ends"));
            assert!(one == other, "{what}, {operation} {name}: {:?} and {:?}, {:?} and {:?}", one.end, other.end, one.stats, other.stats);
        }
    }
}

/// Over the borders of parts too, whatever the number of threads.
#[test]
fn parts_and_threads_change_nothing() {
    let fabrics = ["base = \"lab-1024\"\nrouting = \"d_mod_k\"", "base = \"lab-roce-1024\"\nrouting = \"ecmp\"\ncongestion = \"dcqcn\""];
    for lines in fabrics {
        let base = if lines.contains("roce") { "lab-roce-1024" } else { "lab-1024" };
        let cluster = named(base, 512, lines.split_once('\n').map_or("", |lines| lines.1));
        for (operation, name, ranks, size) in [(Kind::Alltoall, "pairwise", 70, 8_000), (Kind::Allreduce, "ring", 64, 1 << 16)] {
            let spread = spread(program(operation, name, ranks, size), 512);
            let engine = |threads| Scenario { threads, allow_deadlock: true, ..Scenario::default() };
            let one = live(&engine(1), &cluster, &spread).expect("it ends");
            assert_eq!(one, known(&engine(1), &cluster, &spread).expect("it ends"), "{base}, {operation}");
            for threads in [2, 4] {
                assert_eq!(one, live(&engine(threads), &cluster, &spread).expect("it ends"), "{base}, {operation}, {threads} threads");
            }
        }
    }
}

/// The same program with its ranks among `ranks`, each as far from the next as can be; the others do nothing.
fn spread(program: Arc<dyn RankRounds>, ranks: u32) -> Arc<dyn RankRounds> {
    let step = ranks / program.ranks();
    let rounds = move |rank: u32| -> Rounds {
        if !rank.is_multiple_of(step) || rank / step >= program.ranks() {
            return Box::new(std::iter::empty());
        }
        Box::new(program.rounds(rank / step).map(move |round| round.renamed(|peer| peer * step, |piece| piece)))
    };
    Arc::new((ranks, rounds))
}

/// Runs to the end: the most operations at a time, and the most queue pairs that are awake at an adapter.
fn held(cluster: &Cluster, program: &Arc<dyn RankRounds>) -> (usize, u32, u32) {
    let engine = Scenario::default();
    let mut world: World<'_> = crate::setup::world(&engine, cluster, 1).expect("it is sound");
    let mut transfers = Transferring::live(std::slice::from_mut(&mut world), program, engine.transfers).expect("sound").swap_remove(0);
    transfers.begin(&mut world).expect("it begins");
    world.run(&mut transfers).expect("it runs");
    assert!(transfers.done());
    let Operations::Live(rounds) = transfers.operations() else { panic!("a schedule") };
    let awake = world.hosts.iter_mut().map(|host| host.nic().queue_pairs_awake()).max().unwrap_or(0);
    let pairs = world.hosts.iter_mut().map(|host| host.nic().queue_pairs()).max().unwrap_or(0);
    assert_eq!(transfers.waiting_mailboxes(), 0);
    (rounds.most(), awake, pairs)
}

#[test]
fn what_is_in_memory_is_what_is_in_progress() {
    let cluster = cluster(FAT_TREE, 128, "infiniband", "d_mod_k");
    for (operation, name, size, pairs) in
        [(Kind::Alltoall, "pairwise", 10_000, 127), (Kind::Allgather, "ring", 1000, 2), (Kind::Allreduce, "ring", 1 << 16, 2)]
    {
        let (operations, awake, all) = held(&cluster, &program(operation, name, 128, size));
        // A round of these is a send and a receive.
        assert!(operations <= 2 * 128, "{operation}: {operations} operations");
        assert_eq!(all, pairs, "{operation}");
        assert!(awake <= 20 && awake <= pairs, "{operation}: {awake} of {pairs} queue pairs are awake");
    }
    let (operations, awake, all) = held(&cluster, &program(Kind::Alltoall, "posted", 128, 1000));
    // 32 of each at a time.
    assert!(operations == 2 * 32 * 128 && awake <= 64 && all == 127, "{operations} operations, {awake} of {all}");
}

/// A job that says more of its connections than this has a model of is a schedule, with the same result as ever.
#[test]
fn other_jobs_are_schedules() {
    let cluster = cluster("topology.single_switch = {}", 6, "infiniband", "d_mod_k");
    let program = program(Kind::Alltoall, "pairwise", 6, 2000);
    let job = |connections| {
        let work = fabriscope_engine::RoundsWork { program: Arc::clone(&program), folding: fabriscope_engine::Folding::Auto };
        Job { placement: fabriscope_engine::Placement::default(), connections, work: fabriscope_engine::Work::Rounds(work) }
    };
    let connections = [
        Connections { service: Service::Uet, ..Connections::default() },
        Connections { service: Service::Dc, ..Connections::default() },
        Connections { rate: Some(fabriscope_units::Rate::from_bps(1_000_000_000)), ..Connections::default() },
    ];
    for connections in connections {
        let schedule = schedule(6, |rank| program.rounds(rank)).expect("it is sound");
        let engine = Scenario::new(&fabriscope_engine::Placement::default(), connections.clone(), &RunOptions::default());
        assert!(!on_demand::suits(&cluster.parts, &engine));
        let options = RunOptions { deadlock: fabriscope_engine::DeadlockPolicy::Allow, ..RunOptions::default() };
        let run = crate::scenario::prepare(&cluster, job(connections), &options, 1).and_then(|run| run.run()).expect("it ends");
        assert_eq!(run, engine.run(&cluster, &schedule, 1).expect("it ends"));
    }
    let lossy = Scenario { loss: Loss::Random(1), ..Scenario::default() };
    assert!(!on_demand::suits(&cluster.parts, &lossy) && on_demand::suits(&cluster.parts, &Scenario::default()));
}

#[test]
fn a_job_that_cannot_end_says_who_waits() {
    let cluster = cluster("topology.single_switch = {}", 4, "infiniband", "d_mod_k");
    let rounds = |rank: u32| -> Rounds {
        let message = |peer| Some(Message::empty(peer));
        Box::new((0..2).map(move |number| match (rank, number) {
            (0, 1) => Round::exchange(message(1), None),
            (0, _) => Round::exchange(None, message(1)),
            (_, 0) => Round::exchange(message(0), None),
            _ => Round::default(),
        }))
    };
    let program: Arc<dyn RankRounds> = Arc::new((2, rounds));
    let stalled = live(&Scenario::default(), &cluster, &program).expect_err("a message never comes").in_full();
    assert!(stalled.contains("1 of 2 ranks still wait") && stalled.contains("rank 0: round 2 of messages from 1"), "{stalled}");
    let many: Arc<dyn RankRounds> = Arc::new((5, |_: u32| -> Rounds { Box::new(std::iter::empty()) }));
    assert!(matches!(live(&Scenario::default(), &cluster, &many), Err(EngineError::TooManyRanks { ranks: 5, .. })));
}
