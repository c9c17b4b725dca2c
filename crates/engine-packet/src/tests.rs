//! Whole runs on small clusters: conservation, closed forms, repetition.

use fabriscope_catalog::{Catalog, Stop};
use fabriscope_engine::{Cluster, EngineError, FastForward, Prepared, ProgramsWork, Run, Seen, Tap};
use fabriscope_fabric::Topology;
use fabriscope_fabric::topology::BackToBack;
use fabriscope_node::{Main, Ties};
use fabriscope_schedule::{Builder, Schedule};
use fabriscope_streams::Streams;
use fabriscope_switch::Channel;
use fabriscope_units::Bytes;
use proptest::prelude::*;

use crate::transfer::Transferring;
use crate::{Loss, Scenario, Transfers, setup};

impl Scenario {
    /// Runs a schedule.
    pub(crate) fn run(&self, cluster: &Cluster, schedule: &Schedule, seed: u64) -> Result<Run, EngineError> {
        Box::new(self.connect(cluster, schedule, seed)?).run()
    }
    /// Runs programs, each on its node.
    pub(crate) fn execute(&self, cluster: &Cluster, (nodes, mains): (Vec<u32>, Vec<Main>), seed: u64) -> Result<Run, EngineError> {
        Box::new(self.start(cluster, nodes, ProgramsWork { mains, ties: Ties::Any, beside: 0 }, seed)?).run()
    }
}

pub(crate) fn cluster(topology: &str, nodes: u32, layer: &str, routing: &str) -> Cluster {
    let base = if layer == "roce_v2" { "alaska-roce25" } else { "lab-16" };
    let catalog = Catalog::embedded().expect("the catalogue is sound");
    let (wired, topology) = (topology.contains("back_to_back"), topology.replace("back_to_back", "single_switch"));
    let text = format!("name = \"small\"\nbase = \"{base}\"\nnodes = {nodes}\nrouting = \"{routing}\"\n{topology}\n");
    let parsed = catalog.parse_cluster("small.toml", &text).expect("the cluster is sound");
    let mut parts = catalog.resolve(&parsed, None).expect("its parts are there");
    if wired {
        (parts.topology, parts.switch) = (Topology::BackToBack(BackToBack::default()), None);
    }
    Cluster::new(parts).expect("it can be wired")
}

/// `messages` between random ranks, of random sizes up to `most`.
pub(crate) fn random_schedule(ranks: u32, messages: u32, most: u64, seed: u64) -> Schedule {
    let mut stream = Streams::new(seed).stream("test schedule", 0);
    let mut builder = Builder::new(ranks);
    for i in 0..messages {
        let from = stream.below(u64::from(ranks)) as u32;
        let to = (from + 1 + stream.below(u64::from(ranks) - 1) as u32) % ranks;
        let bytes = Bytes(stream.below(most + 1));
        match stream.below(4) {
            0 => drop(builder.put(from, to, bytes)),
            1 => drop(builder.get(to, from, bytes)),
            _ => {
                let _ = builder.send(from, to, bytes, i);
                let _ = builder.recv(to, from, bytes, i);
            }
        }
    }
    builder.build().expect("the schedule is sound")
}

/// Runs to the very end, until no packet is in flight, and checks that every lane has its credits back.
pub(crate) fn run_and_settle(engine: &Scenario, cluster: &Cluster, schedule: &Schedule, seed: u64) -> Result<Run, EngineError> {
    let mut world = setup::world(engine, cluster, seed)?;
    let before: Vec<i64> = world.links.lanes.iter().map(Channel::settled).collect();
    let mut transfers = Transferring::new(std::slice::from_mut(&mut world), schedule, engine.transfers, false)?.swap_remove(0);
    transfers.begin(&mut world)?;
    world.run(&mut transfers)?;
    let at = world.queue.now();
    world.run(&mut Idle)?;
    let after: Vec<i64> = world.links.lanes.iter().map(Channel::settled).collect();
    assert_eq!(before, after, "credits are conserved");
    Transferring::join(vec![transfers], at, world.into_run())
}

/// Lets the last acknowledgements arrive.
pub(crate) struct Idle;

impl crate::world::Client for Idle {
    fn visible(&mut self, _: &mut crate::world::World<'_>, _: u32, _: Option<fabriscope_verbs::CqId>, _: fabriscope_units::Time) {}
    fn event(&mut self, _: &mut crate::world::World<'_>, _: fabriscope_units::Time, _: crate::event::EventKind) -> Result<(), EngineError> {
        Ok(())
    }
    fn finished(&self) -> bool {
        false
    }
}

pub(crate) const TOPOLOGIES: [(&str, u32); 4] = [
    ("topology.back_to_back = {}", 2),
    ("topology.single_switch = {}", 6),
    ("topology.leaf_spine = { leaves = 3, down = 3, spines = 2 }", 9),
    ("topology.fat_tree = { levels = 3, radix = 4 }", 16),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// A lossless fabric drops nothing and delivers every byte once.
    #[test]
    fn lossless_fabrics_deliver_every_byte_once(
        shape in 0usize..4, seed in 0u64..1000, messages in 1u32..40, most in 0u64..40_000,
        routing in prop::sample::select(vec!["d_mod_k", "ecmp"]), layer in prop::sample::select(vec!["infiniband", "roce_v2"]),
    ) {
        let (topology, nodes) = TOPOLOGIES[shape];
        let cluster = cluster(topology, nodes, layer, routing);
        let schedule = random_schedule(nodes, messages, most, seed);
        let run = run_and_settle(&Scenario::default(), &cluster, &schedule, seed).expect("it ends");
        prop_assert_eq!(run.stats.drops, 0);
        prop_assert_eq!(Bytes(run.stats.bytes_delivered), schedule.stats().bytes);
        prop_assert_eq!(run.stats.bytes_sent, run.stats.bytes_delivered);
    }

    /// Sprayed packets that arrive in any order are put together, each byte once.
    #[test]
    fn sprayed_messages_are_delivered_once(seed in 0u64..1000, messages in 1u32..20, most in 1u64..200_000) {
        let cluster = cluster(TOPOLOGIES[3].0, 16, "infiniband", "spray");
        let schedule = random_schedule(16, messages, most, seed);
        let engine = Scenario { transfers: Transfers { any_order: true, spray: true, ..Transfers::default() }, ..Scenario::default() };
        let run = run_and_settle(&engine, &cluster, &schedule, seed).expect("it ends");
        prop_assert_eq!(run.stats.drops, 0);
        prop_assert_eq!(Bytes(run.stats.bytes_delivered), schedule.stats().bytes);
    }

    /// Whatever is lost is sent again: every operation ends, and nothing is delivered twice.
    #[test]
    fn reliable_transport_recovers_from_loss(seed in 0u64..1000, shape in 1usize..4, loss in 1u32..20, any_order: bool) {
        let (topology, nodes) = TOPOLOGIES[shape];
        let cluster = cluster(topology, nodes, "infiniband", "d_mod_k");
        let schedule = random_schedule(nodes, 12, 30_000, seed);
        let transfers = Transfers { any_order, ..Transfers::default() };
        let engine = Scenario { loss: Loss::Random(loss * (u32::MAX / 1000)), transfers, ..Scenario::default() };
        let run = run_and_settle(&engine, &cluster, &schedule, seed).expect("it ends");
        prop_assert!(run.stats.bytes_sent >= schedule.stats().bytes.0);
    }

    /// The same input gives the same run, to the last counter.
    #[test]
    fn runs_repeat(seed in 0u64..1000) {
        let cluster = cluster(TOPOLOGIES[3].0, 16, "infiniband", "ecmp");
        let schedule = random_schedule(16, 30, 50_000, seed);
        let engine = Scenario { link_loads: true, ..Scenario::default() };
        prop_assert_eq!(engine.run(&cluster, &schedule, seed), engine.run(&cluster, &schedule, seed));
    }
}

/// One sender of two to one receiver gets half the wire: 2 × 4 MB through one 400 Gb/s link take at least
/// 8 MB · (wire bytes / payload) / 50 GB/s, and hardly more.
#[test]
fn incast_shares_the_last_link() {
    let cluster = cluster(TOPOLOGIES[1].0, 6, "infiniband", "d_mod_k");
    let mut builder = Builder::new(6);
    for from in [0, 1] {
        let _ = builder.send(from, 2, Bytes(4_000_000), 0);
        let _ = builder.recv(2, from, Bytes(4_000_000), 0);
    }
    let run = Scenario::default().run(&cluster, &builder.build().expect("sound"), 1).expect("it ends");
    let least = 8e6 * (4096.0 + 26.0) / 4096.0 / 50e9 * 1e6;
    let took = run.end.as_ps() as f64 / 1e6;
    assert!((least..least * 1.03 + 3.0).contains(&took), "{took} us, least {least} us");
}

/// A tree large enough to be divided; every host sends to a random other one.
pub(crate) fn divided(routing: &str) -> (Cluster, Schedule) {
    let catalog = Catalog::embedded().expect("the catalogue is sound");
    let text = format!("name = \"large\"\nbase = \"lab-1024\"\nrouting = \"{routing}\"\n");
    let parsed = catalog.parse_cluster("large.toml", &text).expect("the cluster is sound");
    let cluster = Cluster::new(catalog.resolve(&parsed, None).expect("its parts are there")).expect("it can be wired");
    (cluster, random_schedule(1024, 3000, 40_000, 5))
}

#[test]
fn any_number_of_threads_gives_the_same_run() {
    for routing in ["d_mod_k", "spray"] {
        let (cluster, schedule) = divided(routing);
        let transfers = Transfers { any_order: true, spray: routing == "spray", ..Transfers::default() };
        let run = |threads| {
            let engine = Scenario { transfers, threads, link_loads: true, times: true, ..Scenario::default() };
            engine.run(&cluster, &schedule, 1).expect("it ends")
        };
        let one = run(1);
        assert!(one.stats.messages >= 3000 && one.stats.drops == 0);
        assert_eq!(one.stats.bytes_delivered, schedule.stats().bytes.0, "all bytes arrive once");
        for threads in [2, 3, 7] {
            assert_eq!(one, run(threads), "{routing}, {threads} threads");
        }
    }
}

/// A run that nobody waits for ends with an error, in one part and in several.
#[test]
fn a_run_can_be_stopped() {
    let stop = Stop::new();
    let (mut large, schedule) = divided("d_mod_k");
    let mut small = cluster(TOPOLOGIES[1].0, 6, "infiniband", "d_mod_k");
    (large.parts.stop, small.parts.stop) = (stop.clone(), stop.clone());
    assert!(Scenario::default().run(&large, &schedule, 1).is_ok());
    assert!(!stop.set() && stop.set() && !Stop::default().set());
    for threads in [1, 2] {
        let ended = Scenario { threads, ..Scenario::default() }.run(&large, &schedule, 1);
        assert!(matches!(ended, Err(EngineError::Stopped { .. })), "{threads} threads");
    }
    let forward = Scenario { fast_forward: FastForward::Steady, ..Scenario::default() };
    for engine in [Scenario::default(), forward] {
        let ended = engine.run(&small, &random_schedule(6, 30, 40_000, 5), 1);
        assert!(matches!(ended, Err(EngineError::Stopped { .. })));
    }
}

/// Taps everywhere: what they see is what the links carried, in the order of time, and the run is the one without them.
#[test]
fn taps_see_every_packet_and_change_nothing() {
    let (cluster, schedule) = divided("d_mod_k");
    let graph = &cluster.fabric.graph;
    let transfers = Transfers { any_order: true, ..Transfers::default() };
    let taps: Vec<Tap> = (0..graph.link_count()).map(|link| Tap { link, arrival: false }).collect();
    let plain = Scenario { transfers, link_loads: true, ..Scenario::default() };
    let run = |threads| Scenario { taps: taps.clone(), threads, ..plain.clone() }.run(&cluster, &schedule, 1).expect("it ends");
    let one = run(1);
    assert_eq!(one, run(3));
    let mut counts = std::collections::BTreeMap::<u32, (u64, u64)>::new();
    for sighting in &one.sightings {
        let Seen::Packet { source, packet, .. } = &sighting.seen else { panic!("InfiniBand has no pause frames") };
        let count = counts.entry(sighting.tap.link).or_default();
        *count = (count.0 + 1, count.1 + u64::from(packet.wire_bytes));
        let from = graph.link(fabriscope_fabric::LinkId(sighting.tap.link)).from;
        assert!(from.0 >= 1024 || *source == Some(from.0), "{source:?} on the link of host {}", from.0);
        assert!(source.is_some_and(|source| source != packet.dest.0));
    }
    let loads: Vec<_> = one.links.iter().map(|load| (load.link, (load.packets, load.bytes.0))).collect();
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), loads);
    assert!(one.sightings.windows(2).all(|pair| pair[0].time <= pair[1].time));
    assert_eq!(Run { sightings: Vec::new(), ..one }, plain.run(&cluster, &schedule, 1).expect("it ends"));
}

/// A pause that begins ends again, and both frames pass the cable that carries the packets the other way.
#[test]
fn pause_frames_pass_taps() {
    let cluster = cluster(TOPOLOGIES[1].0, 6, "roce_v2", "d_mod_k");
    let mut builder = Builder::new(6);
    for from in 1..6 {
        let _ = builder.put(from, 0, Bytes(4_000_000));
    }
    let taps = (0..cluster.fabric.graph.link_count()).flat_map(|link| [false, true].map(|arrival| Tap { link, arrival })).collect();
    let engine = Scenario { taps, ..Scenario::default() };
    let run = engine.run(&cluster, &builder.build().expect("sound"), 1).expect("it ends");
    let mut open = std::collections::BTreeMap::new();
    let mut frames = 0;
    for sighting in &run.sightings {
        if let Seen::Pause { quanta, priority: 0 } = sighting.seen {
            let paused = open.insert(sighting.tap, quanta > 0).unwrap_or(false);
            assert_ne!(paused, quanta > 0, "{sighting:?}");
            frames += 1;
        }
    }
    assert!(frames >= 4 && run.stats.pauses > 0, "{frames} frames");
}

/// Parts learn of each other's credits a window later than they would within one part. That may change the order of
/// packets that meet, but no more: the run as a whole takes the same time.
#[test]
fn a_divided_run_is_the_same_network() {
    let (cluster, schedule) = divided("d_mod_k");
    let engine = Scenario { transfers: Transfers { any_order: true, ..Transfers::default() }, ..Scenario::default() };
    let apart = engine.run(&cluster, &schedule, 1).expect("it ends");
    let whole = run_and_settle(&engine, &cluster, &schedule, 1).expect("it ends");
    assert_eq!((apart.stats.messages, apart.stats.packets), (whole.stats.messages, whole.stats.packets));
    assert_eq!(apart.stats.packet_hops, whole.stats.packet_hops);
    let mean = |run: &Run| run.ranks.iter().map(|t| t.as_ps() as f64).sum::<f64>() / run.ranks.len() as f64;
    assert!((mean(&apart) / mean(&whole) - 1.0).abs() < 0.01, "{} ps and {} ps", mean(&apart), mean(&whole));
}

/// `lab-16` with a NIC that holds so many contexts.
fn with_contexts(nodes: u32, cached: u32, reads: u32) -> Cluster {
    let mut parts = cluster("topology.single_switch = {}", nodes, "infiniband", "d_mod_k").parts;
    let contexts = parts.sole_mut().node.nic.contexts.as_mut().expect("the adapter has contexts");
    (contexts.cached.value, contexts.reads.value, contexts.size.value) = (cached, reads, Bytes(256));
    Cluster::new(parts).expect("it can be wired")
}

/// Rank 0 puts an empty message to each of the others in turn, one after the other.
fn in_turn(nodes: u32, rounds: u32) -> Schedule {
    let mut builder = Builder::new(nodes);
    let mut last = None;
    for peer in (0..rounds).flat_map(|_| 1..nodes) {
        let put = builder.put(0, peer, Bytes(0));
        last.inspect(|&last| builder.requires(0, put, last));
        last = Some(put);
    }
    builder.build().expect("sound")
}

/// One message at a time, without payload: each waits for its context, and the answer finds it there. So a miss adds one read of a context, latency and completions, to each message.
#[test]
fn a_miss_adds_one_read_to_a_message() {
    let (nodes, rounds) = (5, 6);
    let run = |cached| {
        let cluster = with_contexts(nodes, cached, 1);
        let timing = fabriscope_engine::timing::pcie(&cluster.parts);
        let miss = timing.read_latency + timing.completion_time(Bytes(256));
        (Scenario::default().run(&cluster, &in_turn(nodes, rounds), 1).expect("it ends"), miss)
    };
    let (fits, miss) = run(nodes - 1);
    assert_eq!(fits.stats.context_misses, 0);
    // One context too few, used in turn: every message misses.
    let (thrashes, _) = run(nodes - 2);
    let messages = u64::from(rounds * (nodes - 1));
    assert_eq!(thrashes.stats.context_misses, messages);
    assert_eq!((thrashes.end - fits.end).as_ps(), messages * miss.as_ps());
    assert_eq!(thrashes.stats.bytes_delivered, fits.stats.bytes_delivered);
}

/// Everything at once: reads of contexts are the bound, `latency / reads` each, at the receiver of all as at the sender of all.
#[test]
fn misses_bound_the_rate_of_messages() {
    let (nodes, rounds, reads) = (16, 40, 4);
    let cluster = with_contexts(nodes, 2, reads);
    let timing = fabriscope_engine::timing::pcie(&cluster.parts);
    let miss = (timing.read_latency + timing.completion_time(Bytes(256))).as_ps();
    for into_one in [false, true] {
        let mut builder = Builder::new(nodes);
        for peer in (0..rounds).flat_map(|_| 1..nodes) {
            let (from, to) = if into_one { (peer, 0) } else { (0, peer) };
            let _ = builder.put(from, to, Bytes(8));
        }
        let run = Scenario::default().run(&cluster, &builder.build().expect("sound"), 1).expect("it ends");
        assert_eq!(run.stats.bytes_delivered, u64::from(rounds * (nodes - 1)) * 8, "each arrives once");
        let least = run.stats.context_misses * miss / u64::from(reads);
        assert!(run.stats.context_misses >= u64::from(rounds * (nodes - 1)), "{} misses", run.stats.context_misses);
        let took = run.end.as_ps();
        assert!(took >= least && took < least * 5 / 4 + 5_000_000, "{took} ps, least {least} ps");
    }
}

/// Packets that wait for contexts on the way in stay in order within their connection, and nothing is lost or sent twice.
#[test]
fn messages_that_wait_for_contexts_arrive_once() {
    for seed in 0..8 {
        let cluster = with_contexts(9, 1 + seed as u32 % 3, 1 + seed as u32 % 2);
        let schedule = random_schedule(9, 60, 20_000, seed);
        let run = run_and_settle(&Scenario::default(), &cluster, &schedule, seed).expect("it ends");
        assert_eq!((run.stats.bytes_delivered, run.stats.bytes_sent), (schedule.stats().bytes.0, schedule.stats().bytes.0));
        assert!(run.stats.context_misses > 0);
    }
}
