//! Every transport service carries whole runs: everything arrives, credits return, loss is made good.

use fabriscope_catalog::Catalog;
use fabriscope_engine::Cluster;
use fabriscope_streams::Streams;
use fabriscope_units::{Bytes, Span};

use crate::tests::{cluster, divided, random_schedule, run_and_settle};
use fabriscope_verbs::Service;

use crate::{Loss, Scenario, Transfers};

const UET: Service = Service::Uet;
const RELIABLE: [Service; 7] = [Service::Rc, Service::Xrc, Service::Rd, Service::Dc, Service::Srd, UET, Service::UetRod];

fn engine(service: Service, loss: Loss) -> Scenario {
    Scenario { transfers: Transfers { service, ..Transfers::default() }, loss, ..Scenario::default() }
}

#[test]
fn every_service_delivers_the_same_messages() {
    for layer in ["infiniband", "roce_v2"] {
        let cluster = cluster("topology.leaf_spine = { leaves = 3, down = 3, spines = 2 }", 9, layer, "ecmp");
        // SENDs of SRD are one packet: 1 KiB fits the MTU of both clusters.
        let schedule = random_schedule(9, 120, 1024, 7);
        let stats = RELIABLE
            .map(|service| run_and_settle(&engine(service, Loss::None), &cluster, &schedule, 1).expect("everything arrives").stats)
            .map(|stats| (stats.messages, stats.drops));
        // A READ is counted at its responder and at its requester, by contexts at the requester only.
        assert!(stats.iter().all(|(messages, drops)| *messages >= 120 && *drops == 0), "{layer}: {stats:?}");
    }
}

#[test]
fn reliable_services_survive_loss() {
    let cluster = cluster("topology.leaf_spine = { leaves = 3, down = 3, spines = 2 }", 9, "roce_v2", "ecmp");
    let schedule = random_schedule(9, 200, 1024, 3);
    for service in RELIABLE {
        let one_in_a_hundred = Loss::Random((0.01 * f64::from(u32::MAX)) as u32);
        run_and_settle(&engine(service, one_in_a_hundred), &cluster, &schedule, 5).unwrap_or_else(|error| panic!("{service:?}: {error}"));
    }
}

/// Packets of SRD and UET take all paths; in one order they would pass one of them.
#[test]
fn contexts_spray_over_equal_paths() {
    let cluster = cluster("topology.leaf_spine = { leaves = 2, down = 4, spines = 4 }", 8, "roce_v2", "ecmp");
    let mut builder = fabriscope_schedule::Builder::new(8);
    for rank in 0..4 {
        let _ = builder.put(rank, rank + 4, Bytes(1 << 20));
    }
    let schedule = builder.build().expect("sound");
    let end = |service| run_and_settle(&engine(service, Loss::None), &cluster, &schedule, 1).expect("everything arrives").ranks[0];
    // Four flows hashed to four spines collide; sprayed they share them evenly.
    assert!(end(UET) < end(Service::Rc), "{:?} {:?}", end(UET), end(Service::Rc));
    let [ordered, idempotent] = [Service::UetRod, Service::UetRudi].map(end);
    assert!(idempotent < ordered, "RUDI takes all paths, ROD one: {idempotent:?} {ordered:?}");
}

/// The cluster with adapters that have connections over TCP.
fn over_tcp(mut cluster: Cluster) -> Cluster {
    let catalog = Catalog::embedded().expect("the catalogue is sound");
    let mut iwarp = catalog.nic("chelsio-t6").expect("it is there").iwarp.clone().expect("it does iWARP");
    iwarp.min_rto.value = Span::from_us(200);
    cluster.parts.sole_mut().node.nic.iwarp = Some(iwarp);
    cluster
}

#[test]
fn iwarp_carries_what_reliable_connections_do() {
    let schedule = random_schedule(9, 200, 20_000, 3);
    let cluster = || cluster("topology.leaf_spine = { leaves = 3, down = 3, spines = 2 }", 9, "roce_v2", "ecmp");
    let run = |loss| run_and_settle(&engine(Service::Rc, loss), &over_tcp(cluster()), &schedule, 5).expect("everything arrives");
    let whole = run(Loss::None).stats;
    assert!(whole.messages >= 200 && whole.drops == 0, "{whole:?}");
    let broken = run(Loss::Random((0.01 * f64::from(u32::MAX)) as u32)).stats;
    assert!(broken.drops > 0 && broken.bytes_delivered == whole.bytes_delivered, "{whole:?} {broken:?}");
    let refused = run_and_settle(&engine(UET, Loss::None), &over_tcp(cluster()), &schedule, 5).unwrap_err();
    assert!(refused.to_string().contains("transport = \"rc\""), "{refused}");
}

/// Unreliable connections end an operation when its last packet has left: what is in flight then arrives and is counted, in one part and
/// in several; what is lost is missing, and nobody is told.
#[test]
fn what_nobody_acknowledges_arrives_all_the_same() {
    let small = cluster("topology.leaf_spine = { leaves = 3, down = 3, spines = 2 }", 9, "infiniband", "ecmp");
    for cluster in [small, divided("d_mod_k").0] {
        let (ranks, mut stream) = (cluster.ranks(), Streams::new(3).stream("test schedule", 0));
        let mut builder = fabriscope_schedule::Builder::new(ranks);
        for rank in 0..ranks {
            let to = (rank + 1 + stream.below(u64::from(ranks) - 1) as u32) % ranks;
            let _ = builder.put(rank, to, Bytes(40_000 + stream.below(40_000)));
        }
        let schedule = builder.build().expect("sound");
        let run = |loss, threads| Scenario { threads, ..engine(Service::Uc, loss) }.run(&cluster, &schedule, 1).expect("it ends");
        let all = run(Loss::None, 1);
        assert_eq!((all.stats.messages, all.stats.bytes_delivered), (u64::from(ranks), schedule.stats().bytes.0));
        assert_eq!(all, run(Loss::None, 2));
        let some = run(Loss::Random(u32::MAX / 50), 1).stats;
        assert!(some.drops > 0 && some.messages < u64::from(ranks) && some.bytes_delivered < all.stats.bytes_delivered, "{some:?}");
    }
}
