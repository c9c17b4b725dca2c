//! Counters against the counts of the run, against laws of conservation, and against closed forms.

use std::pin::Pin;

use fabriscope_catalog::{Catalog, FlowControl};
use fabriscope_engine::{Cluster, Counter, CounterPlace, Counters, Run};
use fabriscope_fabric::EndpointId;
use fabriscope_node::{Main, Process, ProgramError, Record};
use fabriscope_schedule::{Builder, Schedule};
use fabriscope_units::{Bytes, Span};
use fabriscope_verbs::{Access, CqId, Lid, Mr, Mtu, Peer, QpInit, QpNum, QpType, RecvWr, Remote, Rkey, SendWr, Sge, WcStatus};
use proptest::prelude::*;

use crate::faults_test;
use crate::tests::{TOPOLOGIES, cluster, divided, random_schedule, run_and_settle};
use crate::{Counting, Loss, Scenario, Transfers};

/// The first `senders` ranks after rank 0 send it `bytes` each.
fn incast(ranks: u32, senders: u32, bytes: u64) -> Schedule {
    let mut builder = Builder::new(ranks);
    for from in 1..=senders {
        let _ = builder.put(from, 0, Bytes(bytes));
    }
    builder.build().expect("the schedule is sound")
}

fn counting() -> Scenario {
    Scenario { counting: Counting::Sums, link_loads: true, ..Scenario::default() }
}

pub(crate) fn counters(run: &Run) -> &Counters {
    run.counters.as_ref().expect("they were asked for")
}

/// When no packet is in flight, what a port sent is what the port at the other end received, damaged or not; and the sums are
/// those of the run.
pub(crate) fn conserved(cluster: &Cluster, run: &Run) {
    let counters = counters(run);
    for link in 0..cluster.fabric.graph.link_count() {
        let (here, there) = (CounterPlace::Port(link), CounterPlace::far(link));
        let sent = counters.total(here, Counter::XmitPackets);
        let damaged = counters.total(there, Counter::RcvErrors);
        // What a full queue discards was never sent; a dead link discards what was.
        let discarded = if cluster.parts.flow_control == FlowControl::Lossy { 0 } else { counters.total(here, Counter::XmitDiscards) };
        let lost = damaged + discarded;
        assert_eq!(sent, counters.total(there, Counter::RcvPackets) + lost, "packets of link {link}");
        if lost == 0 {
            assert_eq!(counters.total(here, Counter::XmitBytes), counters.total(there, Counter::RcvBytes), "bytes of link {link}");
        }
    }
    for load in &run.links {
        assert_eq!(counters.total(CounterPlace::Port(load.link), Counter::XmitPackets), load.packets);
        let outside = if cluster.parts.link_layer.wire().is_ethernet() { 24 } else { 4 };
        assert_eq!(counters.total(CounterPlace::Port(load.link), Counter::XmitBytes), load.bytes.0 - outside * load.packets);
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
        let run = run_and_settle(&Scenario { loss, ..counting() }, &cluster, &schedule, seed).expect("it ends");
        conserved(&cluster, &run);
        let plain = run_and_settle(&Scenario { loss, ..Scenario::default() }, &cluster, &schedule, seed).expect("it ends");
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
        let time = 8.0 * wire as f64 / cluster.parts.sole().link.data_rate().as_bps() as f64 * 1e12;
        let buffer = cluster.parts.switch.as_ref().expect("there is one").buffer.value.0;
        let room = (buffer / 64) as f64 / wire.div_ceil(64) as f64;
        let expected = time * (f64::from(senders) * (packets as f64 - room) - packets as f64);
        let graph = &cluster.fabric.graph;
        let uplinks = (1..=senders).map(|host| CounterPlace::Port(graph.uplink(EndpointId(host)).0));
        let waited: u64 = uplinks.map(|port| counters(&run).total(port, Counter::XmitWait)).sum();
        let mean = waited as f64 / f64::from(senders);
        assert!((mean / expected - 1.0).abs() < 0.02, "{senders} senders: {mean} ps, expected {expected}");
        let last = CounterPlace::far(graph.uplink(EndpointId(0)).0);
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
        let uplink = CounterPlace::Port(cluster.fabric.graph.uplink(EndpointId(host)).0);
        let (paused, waited) = (counters.total(uplink, Counter::RxPauseTime(0)), counters.total(uplink, Counter::XmitWait));
        assert!(waited > 0 && waited <= paused, "waited {waited} ps, paused {paused} ps");
        let switch = CounterPlace::far(cluster.fabric.graph.uplink(EndpointId(host)).0);
        assert_eq!(counters.total(switch, Counter::TxPauseTime(0)), paused);
    }
}

/// Priorities have counters of their own, by the number that the cluster gives them.
#[test]
fn priorities_are_counted_apart() {
    let catalog = Catalog::embedded().expect("the catalogue is sound");
    let text = "name = \"small\"\nbase = \"lab-roce-128\"\nnodes = 6\ntopology.single_switch = {}\nrouting = \"d_mod_k\"\n\
                [qos.ethernet]\nclasses = [{ priorities = [0], share = 50 }, { priorities = [5], share = 50 }]";
    let parsed = catalog.parse_cluster("small.toml", text).expect("the cluster is sound");
    let cluster = Cluster::new(catalog.resolve(&parsed, None).expect("its parts are there")).expect("it can be wired");
    let engine = Scenario { levels: vec![((0, 1), 5), ((0, 2), 5), ((0, 3), 5)], ..counting() };
    let run = run_and_settle(&engine, &cluster, &incast(6, 5, 2_000_000), 1).expect("it ends");
    conserved(&cluster, &run);
    let counters = counters(&run);
    for (priority, senders) in [(0, 2u64), (5, 3)] {
        assert!(counters.sum(Counter::TxPause(priority)) > 0);
        assert_eq!(counters.sum(Counter::TxPause(priority)), counters.sum(Counter::RxPause(priority)));
        assert_eq!(counters.sum(Counter::XmitBytesAt(priority)), counters.sum(Counter::RcvBytesAt(priority)));
        let payload = 2 * senders * 2_000_000;
        assert!((payload..payload + payload / 20).contains(&counters.sum(Counter::XmitBytesAt(priority))), "each byte crosses two links");
    }
    let sums = [Counter::XmitPacketsAt(0), Counter::XmitPacketsAt(5)].map(|counter| counters.sum(counter));
    assert_eq!(sums.iter().sum::<u64>(), counters.sum(Counter::XmitPackets));
    assert_eq!(counters.sum(Counter::XmitPacketsAt(1)), 0);
}

/// Parts count for themselves, and the result does not depend on who counts; intervals add up to the sums.
#[test]
fn counters_are_the_same_with_any_number_of_threads() {
    let (cluster, schedule) = divided("d_mod_k");
    let transfers = Transfers { any_order: true, ..Transfers::default() };
    let run = |threads, counting| {
        let engine = Scenario { transfers, threads, counting, ..Scenario::default() };
        engine.run(&cluster, &schedule, 1).expect("it ends")
    };
    let sums = run(1, Counting::Sums);
    assert_eq!(sums, run(2, Counting::Sums));
    let every = run(3, Counting::Every(Span::from_us(1)));
    let (sums, every) = (counters(&sums), counters(&every));
    let bins = every.bins();
    assert!(bins > 5);
    assert_eq!(sums.series().count(), every.series().count());
    for series in every.series() {
        let values: Vec<u64> = series.cumulative(bins).collect();
        assert!(values.windows(2).all(|pair| pair[0] <= pair[1]));
        assert_eq!(values.last().copied(), Some(sums.total(series.place, series.counter)));
    }
}

/// Intervals that double are few, hold the same sums, and are the same whoever counts; what links carry for jobs is what they carry.
#[test]
fn intervals_double_and_jobs_add_up() {
    let (cluster, schedule) = divided("d_mod_k");
    let transfers = Transfers { any_order: true, ..Transfers::default() };
    let hosts = cluster.fabric.graph.endpoint_count();
    let jobs: std::sync::Arc<[u16]> = (0..hosts).map(|host| (host % 3) as u16).collect();
    let run = |threads, counting| {
        let engine = Scenario { transfers, threads, counting, jobs: std::sync::Arc::clone(&jobs), ..Scenario::default() };
        engine.run(&cluster, &schedule, 1).expect("it ends")
    };
    let sums = run(1, Counting::Sums);
    let sampled = |threads| run(threads, Counting::Sampled { every: Span::from_ns(10), most: 16 });
    let (one, three) = (sampled(1), sampled(3));
    assert_eq!(counters(&one), counters(&three));
    let (sums, sampled) = (counters(&sums), counters(&one));
    assert!((9..=16).contains(&sampled.bins()), "{} intervals", sampled.bins());
    assert!(sampled.every > Some(Span::from_ns(10)));
    assert_eq!(sums.series().count(), sampled.series().count());
    for series in sampled.series() {
        assert_eq!(sums.total(series.place, series.counter), sampled.total(series.place, series.counter));
    }
    for link in 0..cluster.fabric.graph.link_count() {
        let place = CounterPlace::Port(link);
        let of_jobs = |counter: fn(u16) -> Counter| (0..3).map(|job| sums.total(place, counter(job))).sum::<u64>();
        assert_eq!(of_jobs(Counter::XmitBytesOf), sums.total(place, Counter::XmitBytes), "bytes of link {link}");
        assert_eq!(of_jobs(Counter::XmitWaitOf), sums.total(place, Counter::XmitWait), "waiting of link {link}");
    }
    // The links to a host carry for its job alone.
    let to_host = CounterPlace::far(cluster.fabric.graph.uplink(EndpointId(4)).0);
    assert!(sums.total(to_host, Counter::XmitBytesOf(1)) > 0 && sums.total(to_host, Counter::XmitBytesOf(0)) == 0);
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
    let engine = Scenario { loss: Loss::Random(u32::MAX / 500), ..counting() };
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

/// A link that goes down says so at both ends; what was sent into it was discarded.
#[test]
fn links_that_go_down_are_counted() {
    let fault = "[[fault]]\nat = \"20 us\"\nkind.flapping = { link = \"leaf 0 -> spine 1\", period = \"100 us\", duty = 0.5, count = 3 }";
    let (cluster, engine) = faults_test::patient_lab(faults_test::TREE, "d_mod_k", fault, 4);
    let engine = Scenario { counting: Counting::Every(Span::from_us(10)), link_loads: true, ..engine };
    let run = run_and_settle(&engine, &cluster, &random_schedule(16, 300, 1_000_000, 4), 1).expect("it ends");
    conserved(&cluster, &run);
    let counters = counters(&run);
    assert_eq!((counters.sum(Counter::LinkDowned), counters.sum(Counter::RcvErrors)), (6, 0));
    let ends: Vec<CounterPlace> =
        counters.series().filter(|series| series.counter == Counter::LinkDowned).map(|series| series.place).collect();
    let CounterPlace::Port(link) = ends[0] else { panic!("links have ports") };
    assert_eq!(ends, [CounterPlace::Port(link), CounterPlace::far(link)]);
    let series = counters.series().find(|series| series.counter == Counter::LinkDowned).expect("it went down");
    assert_eq!(series.amounts().collect::<Vec<_>>(), [(2, 1), (12, 1), (22, 1)], "at 20, 120 and 220 us");
    let lost = run.breakage.as_ref().expect("there were faults").faults[0].packets_lost;
    let discards: u64 = ends.iter().map(|end| counters.total(*end, Counter::XmitDiscards)).sum();
    assert!(lost > 0 && discards == lost && lost == run.stats.drops);
}

/// Wrong bits are errors of symbols and of the packet; a link that loses lanes is trained anew, and again when it has them back.
#[test]
fn wrong_bits_and_lost_lanes_are_counted() {
    let faults = "[[fault]]\nat = \"0 us\"\nkind.bit_errors = { rate = 1e-7 }\n\
                  [[fault]]\nat = \"10 us\"\nkind.lane_loss = { link = \"node 1\", lanes = 1, lasts = \"20 us\" }";
    let (cluster, engine) = faults_test::lab(faults_test::TREE, "d_mod_k", faults);
    let run = run_and_settle(&Scenario { counting: Counting::Sums, ..engine }, &cluster, &random_schedule(16, 200, 300_000, 4), 1);
    let run = run.expect("it ends");
    conserved(&cluster, &run);
    let sum = |counter| counters(&run).sum(counter);
    assert!(sum(Counter::SymbolErrors) > 0);
    assert_eq!((sum(Counter::SymbolErrors), sum(Counter::LinkRecoveries)), (sum(Counter::RcvErrors), 4), "two ports, twice each");
}

/// What contexts of UET count: packets that take several ways come in any order, and what is sent again comes twice at times.
#[test]
fn contexts_count_order_and_duplicates() {
    let cluster = cluster(TOPOLOGIES[1].0, 6, "infiniband", "d_mod_k");
    let transfers = Transfers { service: fabriscope_verbs::Service::Uet, ..Transfers::default() };
    let count = |loss| {
        let engine = Scenario { transfers, loss, ..counting() };
        let run = run_and_settle(&engine, &cluster, &incast(6, 3, 3_000_000), 3).expect("it ends");
        [Counter::OutOfSequence, Counter::DuplicateRequest, Counter::Retransmissions].map(|counter| counters(&run).sum(counter))
    };
    assert_eq!(count(Loss::None), [0; 3], "one way, nothing lost");
    let [early, twice, again] = count(Loss::Random(u32::MAX / 20));
    assert!(early > 0 && twice > 0 && twice <= again, "{early} {twice} {again}");
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
        let run = run_and_settle(&Scenario { transfers, ..counting() }, &cluster, &incast(128, 16, 2_000_000), 1).expect("it ends");
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

/// Where each rank writes what the other must know.
type Board = Record<[Option<(Lid, QpNum, Rkey)>; 2]>;

/// Two ranks on two nodes, connected; `act` says what each does with its queue pair.
fn pair<F>(act: F) -> Run
where
    F: Fn(Process, CqId, QpNum, Mr, Rkey) -> Pin<Box<dyn Future<Output = Result<(), ProgramError>>>> + Clone + Send + 'static,
{
    let catalog = Catalog::embedded().expect("the catalogue is sound");
    let cluster = Cluster::new(catalog.target("lab-16:2").expect("its parts are there")).expect("it can be wired");
    let board: Board = Record::default();
    let main = |_| -> Main {
        let (board, act) = (board.clone(), act.clone());
        Box::new(move |process: Process| {
            Box::pin(async move {
                let me = process.rank() as usize;
                let (cq, qp, mr) = process.nic(0, |nic| {
                    let pd = nic.alloc_pd();
                    let cq = nic.create_cq(64).expect("a CQ");
                    let mr = nic.reg_mr(pd, 0, Bytes(1 << 16), Access::ALL).expect("an MR");
                    (cq, nic.create_qp(&QpInit::new(pd, QpType::Rc, cq)).expect("a QP"), mr)
                });
                board.lock()[me] = Some((process.lid(0), qp, mr.rkey));
                process.barrier().await;
                let (lid, peer, rkey) = board.lock()[1 - me].expect("both wrote their line");
                process.nic(0, |nic| nic.connect(qp, &Peer { lid, qp: peer, sl: 0, mtu: Mtu::B4096 }, Access::ALL)).expect("connected");
                process.barrier().await;
                act(process, cq, qp, mr, rkey).await
            })
        })
    };
    let job = (vec![0, 1], (0..2).map(main).collect());
    counting().execute(&cluster, job, 1).expect("it ends")
}

/// A message for which no receive is posted is refused and comes again until there is one.
#[test]
fn receivers_that_are_not_ready_are_counted() {
    let run = pair(|process, cq, qp, mr, _| {
        Box::pin(async move {
            let sge = Sge { addr: 0, length: 100, lkey: mr.lkey };
            if process.rank() == 0 {
                process.post_send(0, qp, &SendWr::send(1, sge).signaled()).map_err(ProgramError::from)?;
            } else {
                let late = process.now() + Span::from_us(20_000);
                process.sleep_until(late).await;
                process.post_recv(0, qp, &RecvWr::new(2, sge)).map_err(ProgramError::from)?;
            }
            assert_eq!(process.wait_cq(0, cq, 1).await[0].status, WcStatus::Success);
            Ok(())
        })
    });
    let refused = counters(&run).total(CounterPlace::Adapter(1), Counter::OutOfBuffer);
    assert!(refused >= 1);
    assert_eq!(counters(&run).total(CounterPlace::Adapter(0), Counter::RnrNakRetryErr), refused);
    assert_eq!(counters(&run).total(CounterPlace::Adapter(0), Counter::Retransmissions), refused);
    assert_eq!(counters(&run).sum(Counter::ReqCqeError), 0);
}

/// A wrong key ends one request in error, and those behind it are flushed.
#[test]
fn failed_and_flushed_requests_are_counted() {
    let run = pair(|process, cq, qp, mr, rkey| {
        Box::pin(async move {
            if process.rank() > 0 {
                return Ok(());
            }
            let sge = Sge { addr: 0, length: 100, lkey: mr.lkey };
            let wrong = Remote { addr: 1 << 40, rkey };
            for wr_id in 0..3 {
                process.post_send(0, qp, &SendWr::write(wr_id, sge, wrong).signaled()).map_err(ProgramError::from)?;
            }
            let mut ended = 0;
            while ended < 3 {
                ended += process.wait_cq(0, cq, 16).await.len();
            }
            Ok(())
        })
    });
    let at = |counter| counters(&run).total(CounterPlace::Adapter(0), counter);
    assert_eq!((at(Counter::RemoteAccessErr), at(Counter::ReqCqeError), at(Counter::ReqCqeFlushError)), (1, 1, 2));
    assert_eq!(counters(&run).sum(Counter::RespCqeError) + counters(&run).sum(Counter::RespCqeFlushError), 0);
}
