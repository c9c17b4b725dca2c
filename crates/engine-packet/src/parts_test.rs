//! Fabrics in parts: pause frames, drops, trims, marks, congestion control, losses and faults across borders. The same run with any
//! number of threads; what is sent is received; every lane has its credits back.

use fabriscope_catalog::{Catalog, FlowControl, LinkRetry};
use fabriscope_engine::{Cluster, Counter, CounterPlace, Recovery, Run, Service};
use fabriscope_fabric::{LinkId, Node};
use fabriscope_schedule::{Builder, Schedule};
use fabriscope_streams::Streams;
use fabriscope_switch::Channel;
use fabriscope_units::{Bytes, Span};

use crate::counting_test::{conserved, counters};
use crate::faults_test::patient_lab;
use crate::transfer::Transferring;
use crate::windows::{self, Until};
use crate::{Counting, Loss, Scenario, Transfers, run, setup};

/// A fabric with four parts and what is to cross their borders.
struct Case {
    name: &'static str,
    /// Lines of the cluster file.
    cluster: &'static str,
    service: Service,
    /// Packets take any path and come in any order.
    spray: bool,
    /// What has to happen for the case to show anything.
    shows: fn(&Run) -> bool,
}

const CASES: [Case; 9] = [
    Case { name: "pause frames", cluster: LOSSLESS, service: Service::Rc, spray: false, shows: |run| run.stats.pauses > 20 },
    Case {
        name: "DCQCN between pause frames",
        cluster: "base = \"lab-roce-1024\"\nrouting = \"ecmp\"\nflow_control = \"lossless\"\ncongestion = \"dcqcn\"",
        service: Service::Rc,
        spray: false,
        shows: |run| run.stats.pauses > 0 && run.stats.ecn_marks > 100,
    },
    Case {
        name: "NSCC over trimming switches",
        cluster: "base = \"lab-roce-1024\"\nrouting = \"spray\"\nflow_control = \"lossy\"\ncongestion = \"nscc\"",
        service: Service::Uet,
        spray: true,
        shows: |run| run.stats.trims > 20 && run.stats.ecn_marks > 100,
    },
    Case {
        name: "credits of receivers",
        cluster: "base = \"lab-roce-1024\"\nrouting = \"spray\"\nflow_control = \"lossy\"\ncongestion = \"rccc\"",
        service: Service::Uet,
        spray: true,
        shows: |run| run.stats.trims > 0,
    },
    Case {
        name: "SRD between pause frames",
        cluster: "base = \"lab-roce-1024\"\nrouting = \"spray\"\ncongestion = \"srd\"",
        service: Service::Srd,
        spray: false,
        shows: |run| run.stats.pauses > 0,
    },
    Case {
        name: "in-band telemetry",
        cluster: "base = \"lab-roce-1024\"\nrouting = \"ecmp\"\nflow_control = \"lossless\"\ncongestion = \"hpcc\"",
        service: Service::Rc,
        spray: false,
        shows: |run| run.stats.deepest_queue > 50_000,
    },
    Case {
        name: "drops behind DCTCP",
        cluster: "base = \"lab-roce-1024\"\nrouting = \"ecmp\"\nflow_control = \"lossy\"\ncongestion = \"dctcp\"",
        service: Service::Rc,
        spray: false,
        shows: |run| run.stats.trims + run.stats.drops > 0 && run.stats.ecn_marks > 100,
    },
    Case {
        name: "two classes",
        cluster: "base = \"lab-roce-1024\"\nrouting = \"ecmp\"\n[qos.ethernet]\n\
                  classes = [{ priorities = [0], share = 50 }, { priorities = [5], share = 50 }]",
        service: Service::Rc,
        spray: false,
        shows: |run| run.stats.pauses > 20,
    },
    Case {
        name: "UGAL on what waits, lanes that compete",
        cluster: "base = \"lab-1024\"\nnodes = 1056\nrouting = \"ugal_l\"\n\
                  topology.dragonfly = { groups = 33, switches = 8, endpoints = 4 }",
        service: Service::Rc,
        spray: true,
        shows: |run| run.stats.packets > 10_000,
    },
];

const LOSSLESS: &str = "base = \"lab-roce-1024\"\nrouting = \"ecmp\"\nflow_control = \"lossless\"";

fn fabric(lines: &str) -> Cluster {
    let catalog = Catalog::embedded().expect("the catalogue is sound");
    let parsed = catalog.parse_cluster("large.toml", &format!("name = \"large\"\n{lines}\n")).expect("the cluster is sound");
    let mut parts = catalog.resolve(&parsed, None).expect("its parts are there");
    if parts.flow_control == FlowControl::Lossy {
        let switch = parts.switch.as_mut().expect("there are switches");
        (switch.shared, switch.buffer.value) = (None, Bytes(400_000));
    }
    Cluster::new(parts).expect("it can be wired")
}

/// Messages between random hosts of all parts, and two incasts from all parts.
fn crowded() -> Schedule {
    let mut stream = Streams::new(11).stream("test schedule", 0);
    let mut builder = Builder::new(1024);
    for _ in 0..1000 {
        let from = stream.below(1024) as u32;
        let to = (from + 1 + stream.below(1023) as u32) % 1024;
        let _ = builder.put(from, to, Bytes(stream.below(60_000)));
    }
    for (to, first) in [(3, 5), (700, 12)] {
        for from in (0..40).map(|sender| first + 25 * sender).filter(|from| *from != to) {
            let _ = builder.put(from, to, Bytes(200_000));
        }
    }
    builder.build().expect("the schedule is sound")
}

/// Runs all parts to the very end, until no packet is in flight, and checks that every lane has its credits back.
fn settle(engine: &Scenario, cluster: &Cluster, schedule: &Schedule, threads: usize) -> Run {
    let mut worlds = setup::worlds(engine, cluster, 1).expect("it is sound");
    assert_eq!(worlds.len(), 4, "the fabric is divided");
    let settled = |worlds: &[crate::world::World<'_>]| -> Vec<Vec<i64>> {
        // What an owner does not keep account of stands still, so that all lanes can be asked.
        let lanes = |world: &crate::world::World<'_>| world.links.lanes.iter().map(Channel::settled).collect::<Vec<_>>();
        let guards = |world: &crate::world::World<'_>| world.links.guards.buffers.iter().map(Channel::settled).collect::<Vec<_>>();
        worlds.iter().map(lanes).chain(worlds.iter().map(guards)).collect()
    };
    let before = settled(&worlds);
    let transfers = Transferring::new(&mut worlds, schedule, engine.transfers, false).expect("it can be connected");
    let mut parts: Vec<_> = worlds.into_iter().zip(transfers).collect();
    parts.iter_mut().for_each(|(world, transfers)| transfers.begin(world).expect("it begins"));
    let parts = windows::advance(parts, threads, Until::Settled).expect("it ends");
    let (worlds, transfers): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
    let after = settled(&worlds);
    let run = run::join(worlds.into_iter().zip(transfers).collect()).expect("it ends well");
    // What a trimmed packet gives back is rounded up to blocks twice.
    assert!(before == after || run.stats.trims > 0, "credits are conserved");
    run
}

fn scenario(case: &Case) -> Scenario {
    let transfers = Transfers { service: case.service, any_order: case.spray, spray: case.spray, ..Transfers::default() };
    Scenario { transfers, link_loads: true, allow_deadlock: true, ..Scenario::default() }
}

#[test]
fn any_number_of_threads_gives_the_same_run() {
    threads_give_the_same_run(&[4]);
}

#[test]
#[ignore = "long: more numbers of threads"]
fn every_number_of_threads_gives_the_same_run() {
    threads_give_the_same_run(&[2, 3]);
}

fn threads_give_the_same_run(numbers: &[usize]) {
    let schedule = crowded();
    for case in &CASES {
        let cluster = fabric(case.cluster);
        let engine = Scenario { counting: Counting::Sums, ..scenario(case) };
        let run = |threads| settle(&engine, &cluster, &schedule, threads);
        let one = run(1);
        assert!((case.shows)(&one), "{}: {:?}", case.name, one.stats);
        conserved(&cluster, &one);
        if cluster.parts.flow_control == FlowControl::Lossless {
            assert_eq!((one.stats.drops, one.stats.bytes_delivered), (0, schedule.stats().bytes.0), "{}", case.name);
        }
        for &threads in numbers {
            assert_eq!(one, run(threads), "{}, {threads} threads", case.name);
        }
    }
}

/// An incast that fills the buffers of its spines pauses links between parts. Each pause is counted once, by the part that asks for it, and begins
/// and ends with a frame.
#[test]
fn pauses_across_borders_are_counted_once() {
    let mut builder = Builder::new(1024);
    for from in 256..512 {
        let _ = builder.put(from, 3, Bytes(600_000));
    }
    let (cluster, schedule) = (fabric(LOSSLESS), builder.build().expect("the schedule is sound"));
    let run = settle(&Scenario { counting: Counting::Sums, ..scenario(&CASES[0]) }, &cluster, &schedule, 1);
    let counters = counters(&run);
    let graph = &cluster.fabric.graph;
    let is_trunk = |link: &u32| {
        let link = graph.link(LinkId(*link));
        [link.from, link.to].into_iter().all(|end| matches!(graph.node(end), Node::Switch(_)))
    };
    let paused = |link: &u32| counters.total(CounterPlace::Port(*link), Counter::RxPause(0)) > 0;
    let between = (0..graph.link_count()).filter(is_trunk).filter(paused);
    assert!(between.count() > 0, "{:?}", run.stats);
    assert_eq!(counters.sum(Counter::TxPause(0)), 2 * run.stats.pauses);
    assert_eq!(counters.sum(Counter::TxPauseTime(0)), counters.sum(Counter::RxPauseTime(0)));
}

/// A border tells of pauses, credits and marks a window later than one part knows them; the network is the same.
#[test]
fn a_divided_run_is_the_same_network() {
    let schedule = crowded();
    for case in CASES.iter().filter(|case| !case.cluster.contains("\"lossy\"")).step_by(3) {
        let cluster = fabric(case.cluster);
        let engine = Scenario { times: true, ..scenario(case) };
        let apart = engine.run(&cluster, &schedule, 1).expect("it ends");
        let whole = crate::tests::run_and_settle(&engine, &cluster, &schedule, 1).expect("it ends");
        let mean = |run: &Run| run.ranks.iter().map(|t| t.as_ps() as f64).sum::<f64>() / run.ranks.len() as f64;
        assert!((mean(&apart) / mean(&whole) - 1.0).abs() < 0.03, "{}: {} ps and {} ps", case.name, mean(&apart), mean(&whole));
    }
}

#[test]
fn losses_and_repairs_do_not_depend_on_threads() {
    let schedule = crowded();
    let transfers = Transfers { recovery: Recovery { timeout: Some(8), ..Recovery::default() }, ..Transfers::default() };
    let lossy = Scenario {
        loss: Loss::Random(u32::MAX / 2000),
        transfers,
        counting: Counting::Sums,
        link_loads: true,
        allow_deadlock: true,
        ..Scenario::default()
    };
    let mut parts = fabric("base = \"lab-1024\"\nrouting = \"d_mod_k\"").parts;
    let plain = Cluster::new(parts.clone()).expect("it can be wired");
    parts.line.retry = Some(LinkRetry { bit_errors: 1e-8, latency: Span::from_ns(200) });
    let retrying = Cluster::new(parts).expect("it can be wired");
    for (engine, cluster) in [(&lossy, &plain), (&Scenario { loss: Loss::None, ..lossy.clone() }, &retrying)] {
        let run = |threads| settle(engine, cluster, &schedule, threads);
        let one = run(1);
        assert!(one.stats.drops > 20 || one.stats.link_retries > 5, "{:?}", one.stats);
        conserved(cluster, &one);
        assert_eq!(one, run(2));
        assert_eq!(one, run(4));
    }
}

/// Faults of every kind at once, some at borders: what they did is the same however many threads look.
#[test]
fn faults_do_the_same_in_parts() {
    let faults = "[[fault]]\nat = \"5 us\"\nkind.switch_death = { switch = \"switch 300\", lasts = \"30 us\" }\n\
                  [[fault]]\nat = \"0 us\"\nkind.loss = { share = 5e-4 }\n\
                  [[fault]]\nat = \"10 us\"\nkind.flapping = { link = \"switch 130:9\", period = \"40 us\", count = 3 }\n\
                  [[fault]]\nat = \"2 us\"\nkind.lane_loss = { link = \"switch 131:10\", lanes = 1, lasts = \"50 us\" }\n\
                  [[fault]]\nat = \"0 us\"\nkind.slow_receiver = { node = \"node 700\", rate = \"50 Gb/s\" }\n\
                  [[fault]]\nat = \"3 us\"\nkind.paused_port = { node = \"node 3\", lasts = \"20 us\" }";
    for (base, routing) in [("lab-1024", "d_mod_k"), ("lab-roce-1024", "ecmp")] {
        let (cluster, engine) = patient_lab(&format!("base = \"{base}\""), routing, faults, 8);
        let schedule = crowded();
        let run = |threads| {
            Scenario { threads, counting: Counting::Sums, allow_deadlock: true, ..engine.clone() }
                .run(&cluster, &schedule, 1)
                .expect("it ends")
        };
        let one = run(1);
        let breakage = one.breakage.as_ref().expect("there were faults");
        assert!(breakage.faults.iter().map(|fault| fault.repaired).sum::<u64>() > 10, "{breakage:?}");
        for threads in [2, 4] {
            assert_eq!(one, run(threads), "{base}, {routing}, {threads} threads");
        }
        let whole = crate::tests::run_and_settle(&engine, &cluster, &schedule, 1).expect("it ends");
        let (apart, whole) = (breakage, whole.breakage.expect("there were faults"));
        assert_eq!(apart.tables.len(), whole.tables.len());
        for (apart, whole) in apart.faults.iter().zip(&whole.faults) {
            let (lost, expected) = (apart.packets_lost as f64, whole.packets_lost as f64);
            assert!((lost - expected).abs() <= 20.0 + 0.4 * expected, "{apart:?} and {whole:?}");
        }
    }
}
