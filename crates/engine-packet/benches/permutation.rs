//! Packet-hops per second of whole runs: every host of a fat tree sends to a random other host.

use std::sync::Arc;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_main};
use fabriscope_catalog::Catalog;
use fabriscope_engine::{Cluster, Connections, Engine, Job, PacketOrder, RunOptions, Spraying};
use fabriscope_engine_packet::PacketEngine;
use fabriscope_schedule::{Builder, Schedule};
use fabriscope_streams::Streams;
use fabriscope_units::Bytes;

/// Every rank sends `bytes` to another; nobody receives two.
fn permutation(ranks: u32, bytes: Bytes) -> Schedule {
    let mut builder = Builder::new(ranks);
    let targets = Streams::new(1).stream("bench permutation", 0).cyclic_permutation(ranks);
    for (from, to) in targets.into_iter().enumerate() {
        let from = from as u32;
        let _ = builder.send(from, to, bytes, 0);
        let _ = builder.recv(to, from, bytes, 0);
    }
    builder.build().expect("every send has its receive")
}

fn permutations(c: &mut Criterion) {
    let catalog = Catalog::embedded().expect("the catalogue is sound");
    let mut group = c.benchmark_group("permutation");
    group.sample_size(10);
    for (target, size) in [("lab-1024:128", 2_000_000), ("lab-1024", 2_000_000), ("lab-8192", 200_000)] {
        let cluster = Cluster::new(catalog.target(target).expect("its parts are there")).expect("it can be wired");
        let schedule = Arc::new(permutation(cluster.nodes(), Bytes(size)));
        let connections = Connections { order: PacketOrder::Any, spraying: Spraying::PerPacket, ..Connections::default() };
        let job = || Job::schedule(Arc::clone(&schedule), connections.clone());
        let prepare = || PacketEngine.prepare(&cluster, job(), &RunOptions::default(), 1).expect("it can be set up");
        let hops = prepare().run().expect("it ends").stats.packet_hops;
        group.throughput(Throughput::Elements(hops));
        group.bench_function(BenchmarkId::from_parameter(target), |b| {
            b.iter_batched(prepare, |run| run.run().expect("it ends"), BatchSize::PerIteration);
        });
    }
    group.finish();
}

#[allow(missing_docs)]
mod group {
    use super::permutations;
    criterion::criterion_group!(benches, permutations);
}
criterion_main!(group::benches);
