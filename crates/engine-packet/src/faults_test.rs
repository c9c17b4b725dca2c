//! Faults on small fabrics: what is lost comes again, tables are new when the manager is done, credits come back.

use fabriscope_catalog::Catalog;
use fabriscope_engine::{Breakage, Cluster, EngineError, Run};
use fabriscope_schedule::{Builder, Schedule};
use fabriscope_units::{Bytes, Span, Time};
use proptest::prelude::*;

use crate::tests::{random_schedule, run_and_settle};
use crate::{Scenario, Transfers};

pub(crate) const TREE: &str = "base = \"lab-16\"\ntopology.leaf_spine = { leaves = 4, down = 4, spines = 4 }\n";
/// Two addresses for each endpoint.
const LMC: &str = "lmc";
const ROCE: &str = "base = \"alaska-roce25\"\nnodes = 6\ntopology.single_switch = {}\n";

/// A cluster and an engine with the faults of a lab.
pub(crate) fn lab(cluster: &str, routing: &str, faults: &str) -> (Cluster, Scenario) {
    patient_lab(cluster, routing, faults, 5)
}

/// The same with another exponent of the time to wait for an acknowledgement.
pub(crate) fn patient_lab(cluster: &str, routing: &str, faults: &str, timeout: u8) -> (Cluster, Scenario) {
    let catalog = Catalog::embedded().expect("the catalogue is sound");
    let routing = if routing == LMC { "routing.lmc = { bits = 1 }".to_owned() } else { format!("routing = \"{routing}\"") };
    let text =
        format!("{routing}\n{faults}\n[recovery]\ntimeout = {timeout}\n[cluster]\n{cluster}\n[workload.permutation]\nsize = \"1 B\"\n");
    let lab = fabriscope_lab::parse(&catalog, "test.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let any_order = lab.cluster.routing.reorders();
    let recovery = lab.lab.recovery.unwrap_or_default();
    let transfers = Transfers { any_order, spray: any_order, recovery, ..Transfers::default() };
    let cluster = Cluster::new(lab.cluster).expect("it can be wired");
    (cluster, Scenario { faults: lab.faults, transfers, ..Scenario::default() })
}

fn run(lab: &(Cluster, Scenario), schedule: &Schedule) -> (Run, Breakage) {
    let run = run_and_settle(&lab.1, &lab.0, schedule, 1).expect("it ends");
    let breakage = run.breakage.clone().expect("there were faults");
    (run, breakage)
}

/// `count` messages of `bytes` from one rank to another, one after the other or all at once.
fn stream(ranks: u32, (from, to): (u32, u32), count: u32, bytes: u64) -> Schedule {
    let mut builder = Builder::new(ranks);
    for _ in 0..count {
        let _ = builder.put(from, to, Bytes(bytes));
    }
    builder.build().expect("sound")
}

/// Node 0 and node 4 are on different leaves; `d_mod_k` sends what is for node 4 by spine 0.
#[test]
fn tables_are_new_when_the_manager_is_done() {
    let fault = "[[fault]]\nat = \"20 us\"\nkind.link_down = { link = \"leaf 0 -> spine 0\" }";
    let lab = patient_lab(TREE, "d_mod_k", fault, 6);
    let (run, breakage) = run(&lab, &stream(16, (0, 4), 40, 1 << 20));
    // 10 us + 1 ms until the manager knows; (16 + 8) · 30 us, 16 · 8 · 20 ns; 20 us for each of 8 switches.
    let written = Time::from_ps(20_000_000 + 10_000_000 + 1_000_000_000 + 720_000_000 + 2_560_000 + 8 * 20_000_000);
    assert_eq!(breakage.tables.len(), 1);
    assert_eq!(breakage.tables[0].written, written);
    let fault = &breakage.faults[0];
    assert_eq!(fault.new_tables, Some(written));
    assert!(fault.packets_lost > 100 && fault.repaired > 0, "{fault:?}");
    assert_eq!((run.stats.drops, breakage.failed, breakage.cut_off), (fault.packets_lost, 0, 0));
    // The leaf has its tables first, so that data flows before the last switch is written; not before the first is.
    let first = written - Span::from_us(7 * 20) - Time::ZERO;
    assert!(run.end > Time::ZERO + first, "{:?}", run.end);
    let rest = fabriscope_units::Rate::from_gbps(300).time(Bytes(40 << 20));
    assert!(run.end < written + rest + Span::from_us(200), "{:?}", run.end);
}

/// With several ways a switch leaves out its dead port after 15 us, long before new tables.
#[test]
fn switches_with_a_choice_go_around_by_themselves() {
    let fault = "[[fault]]\nat = \"20 us\"\nkind.link_down = { link = \"leaf 0 -> spine 0\" }";
    for routing in ["ecmp", "spray", "adaptive"] {
        let lab = lab(TREE, routing, fault);
        let (run, breakage) = run(&lab, &stream(16, (0, 4), 10, 1 << 20));
        assert!(run.end < Time::ZERO + Span::from_us(900), "{routing}: {:?} {breakage:?}", run.end);
        assert!(breakage.tables.is_empty(), "the run is over before the tables are new");
    }
}

#[test]
fn a_dead_link_of_a_node_ends_in_errors_and_nothing_else_suffers() {
    let fault = "[[fault]]\nat = \"20 us\"\nkind.link_down = { link = \"node 4\" }";
    let lab = lab(TREE, "d_mod_k", fault);
    let mut builder = Builder::new(16);
    for from in [0, 1] {
        let _ = builder.send(from, 4, Bytes(4 << 20), 0);
        let _ = builder.recv(4, from, Bytes(4 << 20), 0);
        let _ = builder.send(from, 5, Bytes(4 << 20), 0);
        let _ = builder.recv(5, from, Bytes(4 << 20), 0);
    }
    let (_, breakage) = run(&lab, &builder.build().expect("sound"));
    assert_eq!((breakage.failed, breakage.cut_off), (2, 2), "two sends fail, two receives wait in vain: {breakage:?}");
}

/// A link on one of four lanes carries a quarter: 8 MiB take four times as long.
#[test]
fn lanes_that_fail_slow_a_link_down() {
    let fault = "[[fault]]\nat = \"0 us\"\nkind.lane_loss = { link = \"node 4\", lanes = 1 }";
    let lab = lab(TREE, "d_mod_k", fault);
    let (run, breakage) = run(&lab, &stream(16, (0, 4), 8, 1 << 20));
    let least = (8u64 << 20) as f64 * (4096.0 + 26.0) / 4096.0 * 8.0 / 100e9 * 1e6;
    let took = run.end.as_ps() as f64 / 1e6;
    assert!((least..least * 1.02 + 5.0).contains(&took), "{took} us, least {least} us");
    assert_eq!((run.stats.drops, breakage.repeated), (0, 0));
}

/// A receiver that takes 50 Gb/s holds the senders back by credits: nothing is lost.
#[test]
fn a_slow_receiver_holds_senders_back() {
    let fault = "[[fault]]\nat = \"0 us\"\nkind.slow_receiver = { node = \"node 4\", rate = \"50 Gb/s\" }";
    for cluster in [TREE, ROCE] {
        let routing = if cluster == ROCE { "ecmp" } else { "d_mod_k" };
        let lab = patient_lab(cluster, routing, &fault.replace("50 Gb/s", if cluster == ROCE { "5 Gb/s" } else { "50 Gb/s" }), 12);
        let (run, _) = run(&lab, &stream(lab.0.ranks(), (0, 4), 8, 1 << 20));
        let rate = if cluster == ROCE { 5e9 } else { 50e9 };
        let least = (8u64 << 20) as f64 * 8.0 / rate * 1e6;
        let took = run.end.as_ps() as f64 / 1e6;
        // The last acknowledgement comes while the last buffer is still being emptied.
        assert!((least * 0.9..least * 1.02 + 10.0).contains(&took), "{took} us, least {least} us");
        assert_eq!(run.stats.drops, 0);
    }
}

/// A port that is paused for 300 us delays what is for it by that; for ever, it fails; a watchdog drops instead.
#[test]
fn a_paused_port_holds_up_what_is_for_it() {
    for (cluster, routing) in [(TREE, "d_mod_k"), (ROCE, "ecmp")] {
        let storm = |keys: &str| {
            let fault = format!("[[fault]]\nat = \"5 us\"\nkind.paused_port = {{ node = \"node 4\"{keys} }}");
            let lab = lab(cluster, routing, &fault);
            let ranks = lab.0.ranks();
            let mut builder = Builder::new(ranks);
            let _ = builder.put(0, 4, Bytes(1 << 20));
            let _ = builder.put(1, 5, Bytes(1 << 10));
            (lab, builder.build().expect("sound"))
        };
        let (lab, schedule) = storm(", lasts = \"300 us\"");
        let (short, breakage) = run(&lab, &schedule);
        assert!(short.end > Time::ZERO + Span::from_us(305) && short.end < Time::ZERO + Span::from_us(2000), "{:?}", short.end);
        assert_eq!((short.stats.drops, breakage.failed), (0, 0));
        let (lab, schedule) = storm("");
        let endless = lab.1.run(&lab.0, &schedule, 1).expect("it ends");
        let breakage = endless.breakage.expect("there was a fault");
        assert_eq!((endless.stats.drops, breakage.failed), (0, 1), "the connection gives up");
        let (lab, schedule) = storm(", lasts = \"500 us\", watchdog = \"100 us\"");
        let (watched, breakage) = run(&lab, &schedule);
        assert!(watched.stats.drops > 0 && breakage.failed == 0, "{breakage:?}");
        assert!(watched.end > Time::ZERO + Span::from_us(505), "{:?}", watched.end);
    }
}

/// With two addresses per endpoint a connection has another path: when the first one does not answer, it takes that, long before
/// the tables are new. Both directions change, so that it helps where the other path of both avoids the dead switch; connections
/// without it fail.
#[test]
fn connections_migrate_to_their_alternate_path() {
    let (mut migrated, mut failed) = (0, [0; 2]);
    for spine in 0..4 {
        let fault = format!("[[fault]]\nat = \"20 us\"\nkind.switch_death = {{ switch = \"spine {spine}\" }}");
        let (cluster, mut engine) = patient_lab(TREE, LMC, &fault, 4);
        engine.transfers.recovery.retry_cnt = Some(2);
        for (with, failed) in failed.iter_mut().enumerate() {
            engine.transfers.recovery.alternate_path = with == 1;
            let mut builder = Builder::new(16);
            for from in 0..4 {
                let _ = builder.put(from, from + 4, Bytes(4 << 20));
            }
            let lab = (cluster.clone(), engine.clone());
            let (run, breakage) = run(&lab, &builder.build().expect("sound"));
            *failed += breakage.failed;
            migrated += breakage.migrated;
            assert!(run.end < Time::ZERO + Span::from_us(1_800), "nobody waits for new tables: {:?}", run.end);
        }
    }
    assert!(migrated >= 2 && failed[1] < failed[0], "{migrated} ends migrated, failed without and with: {failed:?}");
}

/// Connections with order lose the message of an error; without a fault plan that ends the run.
#[test]
fn without_faults_an_error_ends_the_run() {
    let (cluster, mut engine) = lab(TREE, "d_mod_k", "[[fault]]\nat = \"0 us\"\nkind.link_down = { link = \"node 4\" }");
    engine.faults = None;
    engine.loss = crate::Loss::Random(u32::MAX);
    let error = engine.run(&cluster, &stream(16, (0, 4), 1, 100), 1).expect_err("nothing arrives");
    assert!(matches!(error, EngineError::Transfer { .. }), "{error}");
}

fn faults() -> impl Strategy<Value = String> {
    let place = || (0u32..4, 0u32..4).prop_map(|(leaf, spine)| format!("leaf {leaf} -> spine {spine}"));
    let fault = prop_oneof![
        (place(), 1u32..300).prop_map(|(link, lasts)| format!("kind.link_down = {{ link = \"{link}\", lasts = \"{lasts} us\" }}")),
        (place(), 5u32..200, 1u32..5).prop_map(|(link, period, count)| format!(
            "kind.flapping = {{ link = \"{link}\", period = \"{period} us\", count = {count} }}"
        )),
        (0u32..4, 1u32..100)
            .prop_map(|(spine, lasts)| format!("kind.switch_death = {{ switch = \"spine {spine}\", lasts = \"{lasts} us\" }}")),
        (1u32..30).prop_map(|share| format!("kind.loss = {{ share = {} }}", f64::from(share) / 10_000.0)),
        (place(), 1u32..4)
            .prop_map(|(link, lanes)| format!("kind.lane_loss = {{ link = \"{link}\", lanes = {lanes}, lasts = \"50 us\" }}")),
        (1u32..9).prop_map(|rate| format!("kind.bit_errors = {{ rate = {rate}e-9, link = \"leaf 1:5\" }}")),
        (0u32..16, 1u32..200).prop_map(|(node, lasts)| format!("kind.paused_port = {{ node = \"node {node}\", lasts = \"{lasts} us\" }}")),
    ];
    prop::collection::vec((0u32..200, fault), 1..5)
        .prop_map(|faults| faults.iter().map(|(at, kind)| format!("[[fault]]\nat = \"{at} us\"\n{kind}\n")).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever breaks for a while: every message ends well or is told to have failed, credits come back, runs repeat.
    #[test]
    fn faults_that_pass_leave_nothing_behind(
        faults in faults(), seed in 0u64..1000, messages in 1u32..60, most in 0u64..200_000,
        routing in prop::sample::select(vec!["d_mod_k", "ecmp", "spray", "adaptive", "min_hop", "up_down"]),
    ) {
        let lab = lab(TREE, routing, &faults);
        let schedule = random_schedule(16, messages, most, seed);
        let (once, breakage) = run(&lab, &schedule);
        prop_assert!(breakage.failed == 0 && breakage.cut_off == 0, "{breakage:?}");
        prop_assert_eq!(once.stats.messages, run(&lab, &schedule).0.stats.messages);
        prop_assert_eq!(breakage, run(&lab, &schedule).1);
        let lost: u64 = once.breakage.iter().flat_map(|breakage| &breakage.faults).map(|fault| fault.packets_lost).sum();
        prop_assert_eq!(once.stats.drops, lost, "every loss has its fault");
    }
}
