//! Collective operations on ranks: whoever needs data of others leaves after they have come, in every algorithm, eager and rendezvous.

use crate::machine;
use fabriscope_catalog::ResolvedCluster;
use fabriscope_collectives::{Algorithm, Call, Kind};
use fabriscope_engine::{Cluster, Engine, Job, RunOptions};
use fabriscope_engine_packet::PacketEngine;
use fabriscope_mpi::{Packing, Rank, World};
use fabriscope_node::{Main, Record};
use fabriscope_platform::{Binding, Layout, Target};
use fabriscope_units::Remedy;
use fabriscope_units::{Bytes, Span, Time};

/// When each rank came and left.
type Times = Vec<(Time, Time)>;

/// All ranks carry out one call; rank r comes r · `late` after the first.
fn carry_out(parts: &ResolvedCluster, algorithm: &Algorithm, call: Call, late: Span) -> Result<Times, String> {
    let layout = Layout { nodes: call.ranks.div_ceil(call.per_node), per_node: call.per_node };
    let target = Target::of(parts, layout, Binding::default());
    let mpi = parts.sole().software.mpi.as_ref().unwrap();
    let (world, packing) = (World::new(mpi, &target, call.ranks), Packing::from(mpi));
    let times = Record::new(vec![(Time::ZERO, Time::ZERO); call.ranks as usize]);
    let main = |_| -> Main {
        let (world, times, algorithm) = (world.clone(), times.clone(), algorithm.clone());
        Box::new(move |process| {
            Box::pin(async move {
                let rank = Rank::init_all(process, world).await?;
                rank.synchronise().await?;
                rank.sleep_until(rank.now() + late * u64::from(rank.rank())).await;
                let came = rank.now();
                rank.carry_out(algorithm.outlines(&call, rank.rank()), packing).await?;
                times.lock()[rank.rank() as usize] = (came, rank.now());
                rank.synchronise().await
            })
        })
    };
    let nodes = (0..call.ranks).map(|rank| rank / call.per_node).collect();
    let job = Job::programs(nodes, (0..call.ranks).map(main).collect());
    let run = PacketEngine.run(&Cluster::new(parts.clone()).unwrap(), job, &RunOptions::default(), 1);
    run.map_err(|error| error.in_full())?;
    Ok(times.take())
}

fn call(operation: Kind, ranks: u32, per_node: u32, size: u64) -> Call {
    let size = if operation == Kind::Barrier { 0 } else { size };
    Call { operation, ranks, per_node, root: ranks / 2, size: Bytes(size), width: Bytes(4) }
}

/// Whose data `rank` needs before it can leave.
fn needs(operation: Kind, rank: u32, root: u32, other: u32) -> bool {
    match operation {
        Kind::Bcast | Kind::Scatter => other == root,
        Kind::Reduce | Kind::Gather => rank == root,
        Kind::Scan => other <= rank,
        Kind::Exscan => other < rank,
        _ => true,
    }
}

const ALGORITHMS: [(Kind, &[&str]); 10] = [
    (Kind::Barrier, &["dissemination", "recursive_doubling", "tree", "linear"]),
    (Kind::Bcast, &["binomial", "scatter_ring", "scatter_doubling", "linear", "binary", "two_level(binomial, binomial)"]),
    (Kind::Reduce, &["binomial", "rabenseifner", "linear", "binary"]),
    (Kind::Allreduce, &["ring", "recursive_doubling", "rabenseifner", "two_level(binomial, ring, binomial)"]),
    (Kind::Allgather, &["ring", "bruck", "recursive_doubling", "neighbour"]),
    (Kind::Alltoall, &["pairwise(exclusive_or)", "bruck", "posted(32)", "partners"]),
    (Kind::ReduceScatterBlock, &["ring", "pairwise", "recursive_halving"]),
    (Kind::Gather, &["binomial", "linear"]),
    (Kind::Scatter, &["binomial", "linear"]),
    (Kind::Scan, &["recursive_doubling", "linear"]),
];

#[test]
fn nobody_leaves_before_the_data_it_needs() {
    let parts = machine::ri2(4, 1);
    let mut carried = 0;
    for (operation, names) in ALGORITHMS {
        // Names of other operations, or that want a power of two, are passed over where they do not exist; most do.
        for algorithm in names.iter().filter_map(|name| Algorithm::named(operation, name).ok()) {
            for (ranks, per_node) in [(4, 1), (8, 2)] {
                for size in [64, 65_536] {
                    let call = call(operation, ranks, per_node, size);
                    if algorithm.proof(&call).is_err() {
                        continue;
                    }
                    let what = format!("{operation} of {size} B by {algorithm} on {ranks} ranks");
                    let times = carry_out(&parts, &algorithm, call, Span::from_us(50)).unwrap_or_else(|error| panic!("{what}: {error}"));
                    for (rank, (_, left)) in times.iter().enumerate() {
                        for (other, (came, _)) in times.iter().enumerate().filter(|(other, _)| *other != rank) {
                            if needs(operation, rank as u32, call.root, other as u32) {
                                assert!(left > came, "{what}: rank {rank} left at {left}, rank {other} came at {came}");
                            }
                        }
                    }
                    carried += 1;
                }
            }
        }
    }
    assert!(carried > 80, "{carried} were carried out");
}

#[test]
fn the_usual_names_exist() {
    let missing: Vec<String> = ALGORITHMS
        .iter()
        .flat_map(|(operation, names)| names.iter().map(move |name| (*operation, *name)))
        .filter(|(operation, name)| Algorithm::named(*operation, name).is_err())
        .map(|(operation, name)| format!("{operation} by {name}: {}", Algorithm::known(operation)))
        .collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn more_bytes_and_more_ranks_take_longer() {
    let parts = machine::ri2(8, 1);
    let taken = |operation, name: &str, ranks, size| {
        let algorithm = Algorithm::named(operation, name).unwrap();
        let times = carry_out(&parts, &algorithm, call(operation, ranks, 1, size), Span::ZERO).unwrap();
        times.iter().map(|(_, left)| *left).max().unwrap() - times.iter().map(|(came, _)| *came).min().unwrap()
    };
    for (operation, name) in [(Kind::Allreduce, "recursive_doubling"), (Kind::Bcast, "binomial"), (Kind::Alltoall, "posted(32)")] {
        let table = [(2, 64), (4, 64), (8, 64), (8, 16_384), (8, 1 << 20)].map(|(ranks, size)| taken(operation, name, ranks, size));
        assert!(table.windows(2).all(|pair| pair[0] < pair[1]), "{operation} by {name}: {table:?}");
    }
    // Recursive doubling: log2 n rounds, each as long as the first: 8 ranks take three times what 2 take, to a fifth of it.
    let (two, eight) = (taken(Kind::Barrier, "recursive_doubling", 2, 0), taken(Kind::Barrier, "recursive_doubling", 8, 0));
    let ratio = eight.as_ps() as f64 / two.as_ps() as f64;
    assert!((2.4..3.6).contains(&ratio), "{two} and {eight}");
}

#[test]
fn a_ring_of_long_messages_by_its_formula() {
    // 2 (n − 1) steps of S / n at EDR: what 16 MiB more take is 2 · 7 / 8 · 16 MiB on the link, at 4096 of 4122 B per packet, and the
    // reduction of half of it: 14 MiB that a core adds up at no more than its memory moves.
    let parts = machine::ri2(8, 1);
    let algorithm = Algorithm::named(Kind::Allreduce, "ring").unwrap();
    let taken = |mib: u64| {
        let times = carry_out(&parts, &algorithm, call(Kind::Allreduce, 8, 1, mib << 20), Span::ZERO).unwrap();
        times.iter().map(|(_, left)| left.as_ps()).max().unwrap() as f64 / 1e6
    };
    let more = taken(32) - taken(16);
    let link = 14.0 / 8.0 * f64::from(16 << 20) * (4122.0 / 4096.0) * 8.0 / 100e3;
    // Three streams of memory at 10 to 25 GB/s for each byte that is added.
    let sums = |gigabytes: f64| 7.0 / 8.0 * f64::from(16 << 20) * 1.5 / gigabytes / 1000.0;
    assert!(more > link && more < link + sums(8.0), "{more} us, the link alone takes {link} us");
}
