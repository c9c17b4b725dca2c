//! EFA: messages of a library and perftest over SRD, whose packets overtake each other.

use crate::machine;
use fabriscope_catalog::{Catalog, ResolvedCluster};
use fabriscope_mpi::{Rank, World};
use fabriscope_node::{Main, ProgramError};
use machine::{column, execute, parts, run_on, target};

/// Every rank sends to every other, all at once; the receives are posted in the order of the sends and take no longer message.
async fn exchange(rank: Rank) -> Result<(), ProgramError> {
    const SIZES: [u32; 9] = [0, 8, 64, 3000, 9000, 50_000, 65_536, 65_537, 600_000];
    let others: Vec<u32> = (0..rank.ranks()).filter(|other| *other != rank.rank()).collect();
    let mut requests = Vec::new();
    for size in SIZES {
        for other in &others {
            requests.push(rank.irecv(Some(*other), None, size)?);
            requests.push(rank.isend(*other, size, size)?);
        }
    }
    rank.wait_all(requests).await
}

#[test]
fn messages_that_overtake_each_other_are_put_in_order() {
    let parts = parts("aws-c5n-efa:20");
    let world = World::new(parts.sole().software.mpi.as_ref().unwrap(), &target(&parts), 20);
    let main = || -> Main {
        let world = world.clone();
        Box::new(move |process| Box::pin(async move { exchange(Rank::init_all(process, world).await?).await }))
    };
    let run = execute(&parts, (0..20).map(|_| main()).collect()).unwrap();
    let payload: u64 = 20 * 19 * (8 + 64 + 3000 + 9000 + 50_000 + 65_536 + 65_537 + 600_000);
    assert!((payload..payload + payload / 25).contains(&run.stats.bytes_delivered), "{} of {payload}", run.stats.bytes_delivered);
}

/// 1 MiB are 128 packets, four grants of 32: three more times there and back than with one grant.
#[test]
fn a_grant_covers_32_packets() {
    let latency = |parts: &ResolvedCluster, size| column(&run_on(parts, &format!("osu_latency -m {size}:{size}")).0, "latency")[0].1;
    let granted = parts("aws-c5n-efa");
    let mut whole = granted.clone();
    whole.sole_mut().software.mpi.as_mut().unwrap().grant = None;
    let [short, long, once] = [latency(&granted, 8), latency(&granted, 1 << 20), latency(&whole, 1 << 20)];
    let trips = (long - once) / short;
    assert!((4.0..7.0).contains(&trips), "{trips} messages of {short} us: {long} and {once} us");
}

#[test]
fn reliability_costs_a_ping_pong_little() {
    let parts = parts("aws-c5n-efa");
    let latency = |connection: &str| column(&run_on(&parts, &format!("ib_send_lat -c {connection} -n 200")).0, "latency")[0].1;
    let (srd, ud) = (latency("SRD"), latency("UD"));
    // Published: 9 % (`srd_latency` of the adapter).
    assert!((1.07..1.11).contains(&(srd / ud)), "{srd} and {ud} us");
}

/// From 1 MiB on Open MPI 5 has the receiver read where the adapter can: the third generation does, and ends near the 12.5 GB/s of its link; the first
/// has no reads, and goes on by sends.
#[test]
fn long_messages_are_read_where_the_adapter_reads() {
    let bandwidth = |parts: &ResolvedCluster, size: &str| {
        let (output, _) = run_on(parts, &format!("osu_bw -m {size}:{size} -i 2 -x 1"));
        column(&output, "bandwidth")[0].1
    };
    let p5 = parts("aws-p5");
    let (sent, read) = (bandwidth(&p5, "512K"), bandwidth(&p5, "1M"));
    assert!(sent < 9_000.0 && (11_500.0..12_500.0).contains(&read), "{sent} and {read} MB/s");
    let of = |software: &str| {
        let mut parts = parts("aws-c5n-efa");
        parts.sole_mut().software = Catalog::embedded().unwrap().software(software).unwrap().clone();
        bandwidth(&parts, "1M")
    };
    assert_eq!(of("openmpi-5-efa"), of("openmpi-efa"));
}
