//! Whole runs of the flow engine: permutations and all-reduces, set-up of the run included.

use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, criterion_main};
use fabriscope_catalog::Catalog;
use fabriscope_collectives::{Algorithm, Call, Kind};
use fabriscope_engine::{Cluster, Connections, Engine, Folding, Job, RunOptions};
use fabriscope_engine_flow::FlowEngine;
use fabriscope_fabric::Routing;
use fabriscope_schedule::Schedule;
use fabriscope_traffic::{Config, Pattern, recursive_doubling, ring_all_reduce, schedule};
use fabriscope_units::Bytes;

fn cluster(target: &str, routing: Routing) -> Cluster {
    let catalog = Catalog::embedded().expect("the catalogue is sound");
    let mut parts = catalog.target(target).expect("its parts are there");
    parts.routing = routing;
    Cluster::new(parts).expect("it can be wired")
}

fn permutation(ranks: u32, messages: u32) -> Schedule {
    let config = Config { messages, ..Config::new(Pattern::Permutation, Bytes(2_000_000)) };
    schedule(ranks, &config, 1).expect("there are ranks enough")
}

/// Every rank sends to four others: four permutations at once.
fn four_permutations(ranks: u32) -> Schedule {
    let mut builder = fabriscope_schedule::Builder::new(ranks);
    for seed in 1..=4 {
        let config = Config::new(Pattern::Permutation, Bytes(2_000_000));
        let one = schedule(ranks, &config, seed).expect("there are ranks enough");
        for rank in 0..ranks {
            for kind in one.kinds(rank) {
                let _ = builder.op(rank, *kind);
            }
        }
    }
    builder.build().expect("puts need no partner")
}

fn flows(c: &mut Criterion) {
    let mut group = c.benchmark_group("flow");
    group.sample_size(10);
    let mut bench = |name: &str, cluster: &Cluster, schedule: &Schedule| {
        let schedule = Arc::new(schedule.clone());
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            let job = || Job::schedule(Arc::clone(&schedule), Connections::default());
            b.iter(|| FlowEngine.run(cluster, job(), &RunOptions::default(), 1).expect("it ends"));
        });
    };
    for routing in [Routing::DModK, Routing::Ecmp] {
        let tree = cluster("lab-1024", routing);
        bench(&format!("permutation, 1024 hosts, {routing}"), &tree, &permutation(1024, 1));
        bench(&format!("four permutations, 1024 hosts, {routing}"), &tree, &four_permutations(1024));
    }
    let tree = cluster("lab-1024", Routing::DModK);
    bench("ring all-reduce of 8 MiB, 1024 ranks", &tree, &ring_all_reduce(1024, Bytes::from_mib(8)).expect("it is sound"));
    let tree = cluster("lab-8192", Routing::DModK);
    bench("permutation, 8192 hosts", &tree, &permutation(8192, 1));
    bench("recursive doubling of 1 MiB, 8192 ranks", &tree, &recursive_doubling(8192, Bytes::from_mib(1)).expect("it is sound"));
}

/// Collective operations round by round; the first look at what ranks have in common included.
fn collectives(c: &mut Criterion) {
    let mut group = c.benchmark_group("rounds");
    group.sample_size(10);
    let tree = cluster("lab-1024", Routing::DModK);
    let mut bench = |operation: Kind, name: &str, size: u64, folding: Folding| {
        let algorithm = Algorithm::named(operation, name).expect("it has this name");
        let call = Call { operation, ranks: 1024, per_node: 1, root: 0, size: Bytes(size), width: Bytes(4) };
        let job = || Job::rounds((call, algorithm.clone()), 1, folding);
        let how = if folding == Folding::Never { "each rank" } else { "folded" };
        group.bench_function(BenchmarkId::from_parameter(format!("{operation} by {name}, 1024 ranks, {how}")), |b| {
            b.iter(|| FlowEngine.run(&tree, job(), &RunOptions::default(), 1).expect("it ends"));
        });
    };
    for folding in [Folding::Auto, Folding::Never] {
        bench(Kind::Allreduce, "ring", 64 << 20, folding);
        bench(Kind::Alltoall, "pairwise", 64 << 10, folding);
        bench(Kind::Allreduce, "rabenseifner", 64 << 20, folding);
    }
}

#[allow(missing_docs)]
mod group {
    use super::{collectives, flows};
    criterion::criterion_group!(benches, flows, collectives);
}
criterion_main!(group::benches);
