//! Counters against the counts of the run, against laws of conservation, and against closed forms.

use fabriscope_catalog::Catalog;
use fabriscope_engine::{Cluster, Counter, Counters, Engine, Place, Run};
use fabriscope_fabric::EndpointId;
use fabriscope_schedule::{Builder, Schedule};
use fabriscope_units::{Bytes, Span};
use proptest::prelude::*;

use crate::tests::{TOPOLOGIES, cluster, divided, random_schedule, run_and_settle};
use crate::{Counting, Loss, PacketEngine, Transfers};

/// The first `senders` ranks after rank 0 send it `bytes` each.
fn incast(ranks: u32, senders: u32, bytes: u64) -> Schedule {
    let mut builder = Builder::new(ranks);
    for from in 1..=senders {
        let _ = builder.put(from, 0, Bytes(bytes));
    }
    builder.build().expect("the schedule is sound")
}

fn counting() -> PacketEngine {
    PacketEngine { counting: Counting::Sums, link_loads: true, ..PacketEngine::default() }
}

fn counters(run: &Run) -> &Counters {
    run.counters.as_ref().expect("they were asked for")
}

/// When no packet is under way, what a port sent is what the port at the other end received, damaged or not; and the sums are
/// those of the run.
fn conserved(cluster: &Cluster, run: &Run) {
    let counters = counters(run);
    for link in 0..cluster.fabric.graph.link_count() {
        let (here, there) = (Place::Port(link), Place::far(link));
        let sent = counters.total(here, Counter::XmitPackets);
        let damaged = counters.total(there, Counter::RcvErrors);
        assert_eq!(sent, counters.total(there, Counter::RcvPackets) + damaged, "packets of link {link}");
        if damaged == 0 {
            assert_eq!(counters.total(here, Counter::XmitBytes), counters.total(there, Counter::RcvBytes), "bytes of link {link}");
        }
    }
    for load in &run.links {
        assert_eq!(counters.total(Place::Port(load.link), Counter::XmitPackets), load.packets);
        let outside = if cluster.parts.link_layer.wire().is_ethernet() { 24 } else { 4 };
        assert_eq!(counters.total(Place::Port(load.link), Counter::XmitBytes), load.bytes.0 - outside * load.packets);
    }
    let stats = &run.stats;
    assert_eq!(counters.sum(Counter::XmitPackets), stats.packet_hops);
    assert_eq!(counters.sum(Counter::TxPackets), stats.packets);
    assert_eq!(counters.sum(Counter::TxPayload), stats.bytes_sent);
    assert_eq!(counters.sum(Counter::TxPackets), counters.sum(Counter::RxPackets) + stats.drops);
    let drops = [Counter::RcvErrors, Counter::RcvDiscards, Counter::XmitDiscards].map(|counter| counters.sum(counter));
    assert_eq!(drops.iter().sum::<u64>(), stats.drops);
    assert_eq!(counters.sum(Counter::Trims), stats.trims);
    assert_eq!(counters.sum(Counter::XmitMarks), stats.ecn_marks);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_sent_is_received(
        shape in 0usize..4, seed in 0u64..1000, messages in 1u32..40, most in 0u64..40_000, loss in prop::sample::select(vec![0, 5]),
        layer in prop::sample::select(vec!["infiniband", "roce_v2"]),
    ) {
        let (topology, nodes) = TOPOLOGIES[shape];
        let cluster = cluster(topology, nodes, layer, "d_mod_k");
        let schedule = random_schedule(nodes, messages, most, seed);
        let loss = if loss == 0 { Loss::None } else { Loss::Random(loss * (u32::MAX / 1000)) };
        let run = run_and_settle(&PacketEngine { loss, ..counting() }, &cluster, &schedule, seed).expect("it ends");
        conserved(&cluster, &run);
        let plain = run_and_settle(&PacketEngine { loss, ..PacketEngine::default() }, &cluster, &schedule, seed).expect("it ends");
        prop_assert_eq!(Run { counters: None, links: Vec::new(), ..run }, plain, "counting changes nothing");
    }
}

/// One message after the other meets nobody, so no port ever waits.
#[test]
fn nothing_waits_on_an_idle_fabric() {
    for (topology, nodes) in TOPOLOGIES {
        let cluster = cluster(topology, nodes, "infiniband", "d_mod_k");
        let mut builder = Builder::new(nodes);
        let _ = builder.put(nodes - 1, 0, Bytes(3_000_000));
        let run = counting().run(&cluster, &builder.build().expect("sound"), 1).expect("it ends");
        assert!(counters(&run).sum(Counter::XmitBytes) > 3_000_000);
        assert_eq!(counters(&run).sum(Counter::XmitWait), 0, "{topology}");
    }
}

/// n senders of P packets share the last link, a packet of each in turn. The switch has room for b packets of each, so the last
/// one leaves its sender when P − b of its own, and as many of all others, have left the switch: n (P − b) t after the start.
/// It sent for P t of that and waited for the rest. The switch itself never waits: its receiver is quick enough.
#[test]
fn senders_of_an_incast_wait_as_long_as_the_others_send() {
    for senders in [2u32, 3, 5] {
        let cluster = cluster(TOPOLOGIES[1].0, 6, "infiniband", "d_mod_k");
        let (packets, wire) = (2000u64, 4096u64 + 26);
        let run = counting().run(&cluster, &incast(6, senders, packets * 4096), 1).expect("it ends");
        let time = 8.0 * wire as f64 / cluster.parts.link.data_rate().as_bps() as f64 * 1e12;
        let buffer = cluster.parts.switch.as_ref().expect("there is one").buffer.value.0;
        let room = (buffer / 64) as f64 / wire.div_ceil(64) as f64;
        let expected = time * (f64::from(senders) * (packets as f64 - room) - packets as f64);
        let graph = &cluster.fabric.graph;
        let uplinks = (1..=senders).map(|host| Place::Port(graph.uplink(EndpointId(host)).0));
        let waited: u64 = uplinks.map(|port| counters(&run).total(port, Counter::XmitWait)).sum();
        let mean = waited as f64 / f64::from(senders);
        assert!((mean / expected - 1.0).abs() < 0.02, "{senders} senders: {mean} ps, expected {expected}");
        let last = Place::far(graph.uplink(EndpointId(0)).0);
        assert_eq!(counters(&run).total(last, Counter::XmitWait), 0);
    }
}

/// Every pause is asked for and ended with a frame; who obeys is who waits.
#[test]
fn pauses_are_counted_at_both_ends() {
    let cluster = cluster(TOPOLOGIES[1].0, 6, "roce_v2", "d_mod_k");
    let run = run_and_settle(&counting(), &cluster, &incast(6, 5, 4_000_000), 1).expect("it ends");
    conserved(&cluster, &run);
    let counters = counters(&run);
    let frames = counters.sum(Counter::TxPause(0));
    assert!(run.stats.pauses > 0 && counters.sum(Counter::RxPause(0)) == frames);
    assert_eq!(frames, 2 * run.stats.pauses);
    for host in 1..6 {
        let uplink = Place::Port(cluster.fabric.graph.uplink(EndpointId(host)).0);
        let (paused, waited) = (counters.total(uplink, Counter::RxPauseTime(0)), counters.total(uplink, Counter::XmitWait));
        assert!(waited > 0 && waited <= paused, "waited {waited} ps, paused {paused} ps");
    }
}

/// Parts count for themselves, and the result does not depend on who counts; intervals add up to the sums.
#[test]
fn counters_are_the_same_with_any_number_of_threads() {
    let (cluster, schedule) = divided("d_mod_k");
    let transfers = Transfers { any_order: true, ..Transfers::default() };
    let run = |threads, counting| {
        let engine = PacketEngine { transfers, threads, counting, ..PacketEngine::default() };
        engine.run(&cluster, &schedule, 1).expect("it ends")
    };
    let sums = run(1, Counting::Sums);
    assert_eq!(sums, run(2, Counting::Sums));
    let every = run(1, Counting::Every(Span::from_us(1)));
    assert_eq!(every, run(3, Counting::Every(Span::from_us(1))));
    let (sums, every) = (counters(&sums), counters(&every));
    assert!(every.bins() > 5);
    assert_eq!(sums.series().count(), every.series().count());
    for series in every.series() {
        let values: Vec<u64> = series.cumulative(every.bins()).collect();
        assert!(values.windows(2).all(|pair| pair[0] <= pair[1]));
        assert_eq!(values.last().copied(), Some(sums.total(series.place, series.counter)));
    }
}

/// What is lost shows at the receiver as a gap, at the sender as a NAK or a timeout, and is sent again.
#[test]
fn losses_leave_their_traces() {
    let cluster = cluster(TOPOLOGIES[1].0, 6, "infiniband", "d_mod_k");
    let mut builder = Builder::new(6);
    for from in 1..4 {
        let _ = builder.put(from, 0, Bytes(4_000_000));
        let _ = builder.get(0, from + 1, Bytes(4_000_000));
    }
    let engine = PacketEngine { loss: Loss::Random(u32::MAX / 500), ..counting() };
    let run = run_and_settle(&engine, &cluster, &builder.build().expect("sound"), 3).expect("it ends");
    conserved(&cluster, &run);
    let sum = |counter| counters(&run).sum(counter);
    assert!(sum(Counter::RcvErrors) > 5);
    // One NAK answers all packets behind a gap, and some NAKs are lost.
    assert!(sum(Counter::PacketSeqErr) > 0 && sum(Counter::PacketSeqErr) <= sum(Counter::OutOfSequence));
    assert!(sum(Counter::ImpliedNakSeqErr) > 0, "responses were lost");
    assert!(sum(Counter::Retransmissions) > 0);
    let again = sum(Counter::TxPayload) - run.stats.bytes_delivered;
    assert!(sum(Counter::RetransmittedPayload) <= again + sum(Counter::RcvErrors) * 4096);
    assert_eq!((sum(Counter::ReqCqeError), sum(Counter::OutOfBuffer)), (0, 0));
}

/// Switches that drop count it where the packet was to leave; those that trim likewise.
#[test]
fn drops_and_trims_are_counted_where_they_happen() {
    for scheme in ["dcqcn", "nscc"] {
        let catalog = Catalog::embedded().expect("the catalogue is sound");
        let text = format!("name = \"small\"\nbase = \"lab-roce-128\"\nflow_control = \"lossy\"\ncongestion = \"{scheme}\"\n");
        let parsed = catalog.parse_cluster("small.toml", &text).expect("the cluster is sound");
        let cluster = Cluster::new(catalog.resolve(&parsed, None).expect("its parts are there")).expect("it can be wired");
        let transfers = Transfers { any_order: true, ..Transfers::default() };
        let run = run_and_settle(&PacketEngine { transfers, ..counting() }, &cluster, &incast(128, 16, 2_000_000), 1).expect("it ends");
        let counters = counters(&run);
        assert!(run.stats.ecn_marks > 0, "{scheme}");
        assert_eq!(counters.sum(Counter::XmitMarks), run.stats.ecn_marks);
        assert_eq!(counters.sum(Counter::XmitDiscards), run.stats.drops);
        assert_eq!(counters.sum(Counter::Trims), run.stats.trims);
        assert!(counters.sum(Counter::RcvMarks) <= run.stats.ecn_marks);
        assert_eq!(counters.sum(Counter::CnpSent), counters.sum(Counter::CnpHandled));
        assert_eq!(counters.sum(Counter::CnpSent) > 0, scheme == "dcqcn");
    }
}
