//! Whole runs of the flow engine: permutations and all-reduces, set-up of the run included.

use criterion::{BenchmarkId, Criterion, criterion_main};
use fabriscope_catalog::Catalog;
use fabriscope_engine::{Cluster, Engine};
use fabriscope_engine_flow::FlowEngine;
use fabriscope_fabric::Routing;
use fabriscope_schedule::Schedule;
use fabriscope_units::Bytes;
use fabriscope_workloads::pattern::{Config, Pattern, recursive_doubling, ring_all_reduce, schedule};

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
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            b.iter(|| FlowEngine::default().run(cluster, schedule, 1).expect("it ends"));
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

#[allow(missing_docs)]
mod group {
    use super::flows;
    criterion::criterion_group!(benches, flows);
}
criterion_main!(group::benches);
