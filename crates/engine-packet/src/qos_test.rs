//! Quality of service in whole runs: nothing is lost and credits return under any tables; shares of saturated links.

use fabriscope_catalog::{Catalog, ResolvedCluster};
use fabriscope_engine::Cluster;
use fabriscope_schedule::{After, Builder, Schedule};
use fabriscope_units::{Bytes, Time};
use proptest::prelude::*;

use crate::Scenario;
use crate::tests::{random_schedule, run_and_settle};

/// Service levels of pairs of ranks.
type Levels = Vec<((u32, u32), u8)>;

/// A cluster for labs with this `[qos]`.
fn cluster(base: &str, nodes: u32, more: &str, qos: &str) -> Cluster {
    let catalog = Catalog::embedded().expect("the catalogue is sound");
    let text = format!("name = \"small\"\nbase = \"{base}\"\nnodes = {nodes}\n{more}\n{qos}\n");
    let parsed = catalog.parse_cluster("small.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let parts: ResolvedCluster = catalog.resolve(&parsed, None).unwrap_or_else(|error| panic!("{error}\n{text}"));
    Cluster::new(parts).expect("it can be wired")
}

const TREE: &str = "topology.leaf_spine = { leaves = 3, down = 3, spines = 2 }\nrouting = \"ecmp\"";

/// Each pair of ranks that talk gets a level of its own.
fn spread(ranks: u32, levels: &[u8]) -> Levels {
    let pairs = (0..ranks).flat_map(|a| (a + 1..ranks).map(move |b| (a, b)));
    pairs.enumerate().map(|(number, pair)| (pair, levels[number % levels.len()])).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// InfiniBand: any mapping, any tables in which every lane in use has a weight.
    #[test]
    fn random_lanes_lose_nothing(
        seed in 0u64..1000, vls in 1u32..8, map in prop::collection::vec(0u32..8, 16), limit in 0u32..256,
        high in prop::collection::vec((0u32..8, 0u32..256), 0..6), low in prop::collection::vec(1u32..256, 8),
    ) {
        let map: Vec<String> = map.iter().map(|vl| (vl % vls).to_string()).collect();
        let high: Vec<String> = high.iter().map(|(vl, weight)| format!("{}:{weight}", vl % vls)).collect();
        let low: Vec<String> = (0..vls).map(|vl| format!("{vl}:{}", low[vl as usize])).collect();
        let qos = format!(
            "[qos.infiniband]\nmax_vls = {vls}\nsl2vl = [{}]\nhigh_limit = {limit}\nvlarb_high = \"{}\"\nvlarb_low = \"{}\"",
            map.join(","), high.join(","), low.join(","),
        );
        let cluster = cluster("lab-16", 9, TREE, &qos);
        let schedule = random_schedule(9, 60, 60_000, seed);
        let engine = Scenario { levels: spread(9, &[0, 3, 7, 12, 15]), ..Scenario::default() };
        let run = run_and_settle(&engine, &cluster, &schedule, seed).expect("it ends");
        prop_assert_eq!(run.stats.drops, 0);
        prop_assert_eq!(Bytes(run.stats.bytes_delivered), schedule.stats().bytes);
    }

    /// Ethernet with pauses for all priorities, and Slingshot classes on credits.
    #[test]
    fn random_classes_lose_nothing(
        seed in 0u64..1000, share in 1u32..99, minimum in 0u32..50, maximum in 50u32..101, priority in 0u32..4, ethernet: bool,
    ) {
        let qos = match ethernet {
            true => format!(
                "[qos.ethernet]\nclasses = [{{ priorities = [0, 1], share = {share} }}, {{ priorities = [3], share = {} }}, \
                 {{ priorities = [6], strict = true }}]", 100 - share
            ),
            false => format!(
                "[qos.slingshot]\nclasses = [{{ name = \"a\", minimum = {minimum}, maximum = {} }}, \
                 {{ name = \"b\", priority = {priority}, minimum = {minimum} }}, {{ name = \"c\" }}]", maximum.min(100)
            ),
        };
        let more = if ethernet { "topology.leaf_spine = { leaves = 3, down = 3, spines = 2 }" } else { TREE };
        let cluster = cluster(if ethernet { "lab-roce-128" } else { "lab-16" }, 9, more, &qos);
        let schedule = random_schedule(9, 60, 200_000, seed);
        let engine = Scenario { levels: spread(9, &[0, 1, 2, 3, 6]), ..Scenario::default() };
        let run = run_and_settle(&engine, &cluster, &schedule, seed).expect("it ends");
        prop_assert_eq!(run.stats.drops, 0);
        prop_assert_eq!(Bytes(run.stats.bytes_delivered), schedule.stats().bytes);
    }

    /// Lanes of the routing against deadlock, times lanes of [qos].
    #[test]
    fn lanes_of_routing_and_quality_compose(seed in 0u64..100, routing in prop::sample::select(vec!["minimal", "valiant"])) {
        let more = format!("routing = \"{routing}\"");
        let qos = "[qos.infiniband]\nmax_vls = 2\nhigh_limit = 255\nvlarb_high = \"1:64\"";
        let cluster = cluster("lab-dragonfly-72", 72, &more, qos);
        let schedule = random_schedule(72, 200, 60_000, seed);
        let engine = Scenario { levels: spread(72, &[0, 1]), ..Scenario::default() };
        let run = run_and_settle(&engine, &cluster, &schedule, seed).expect("it ends");
        prop_assert_eq!((run.stats.drops, Bytes(run.stats.bytes_delivered)), (0, schedule.stats().bytes));
    }
}

/// Senders 1 to n each send `messages` of 256 KiB to host 0, four outstanding, with level n - 1.
fn funnel(senders: u32, messages: usize) -> (Schedule, Levels) {
    let mut builder = Builder::new(senders + 1);
    for from in 1..=senders {
        let mut sent = Vec::new();
        for at in 0..messages {
            let after: Vec<After> = at.checked_sub(4).map(|before| After::End(sent[before])).into_iter().collect();
            sent.push(builder.op_after(from, fabriscope_schedule::OpKind::Put { to: 0, bytes: Bytes::from_kib(256) }, &after));
        }
    }
    let levels = (1..=senders).map(|from| ((0, from), from as u8 - 1)).collect();
    (builder.build().expect("it is sound"), levels)
}

/// Messages of each sender that ended until the first sender had ended all of its own, which is the time all were busy.
fn shares(base: &str, qos: &str, senders: u32, messages: usize) -> Vec<usize> {
    let more = "topology.single_switch = {}\nrouting = \"d_mod_k\"";
    let cluster = cluster(base, senders + 1, more, qos);
    let (schedule, levels) = funnel(senders, messages);
    let engine = Scenario { levels, times: true, ..Scenario::default() };
    let run = engine.run(&cluster, &schedule, 1).expect("it ends");
    let ends: Vec<Vec<Time>> = run.ops.chunks(messages).map(|ops| ops.iter().map(|op| op.ended).collect()).collect();
    let first = ends.iter().filter_map(|ends| ends.last()).min().expect("somebody sends");
    ends.iter().map(|ends| ends.iter().filter(|end| *end <= first).count()).collect()
}

/// A saturated link is shared as the tables say: within the four messages that are outstanding.
#[test]
fn saturated_links_are_shared_as_the_tables_say() {
    let close = |found: Vec<usize>, expected: &[f64]| {
        let most = found[0].max(*found.iter().max().unwrap_or(&0)) as f64;
        let largest = expected.iter().copied().fold(0.0, f64::max);
        for (found, expected) in found.iter().zip(expected) {
            let wanted = most * expected / largest;
            assert!((*found as f64 - wanted).abs() <= 5.0, "{found} messages, {wanted} expected");
        }
    };
    let tables = "[qos.infiniband]\nmax_vls = 3\nvlarb_low = \"0:64,1:128,2:192\"";
    close(shares("lab-16", tables, 3, 96), &[1.0, 2.0, 3.0]);
    // Limit 3 · 4096 B: three packets of 4122 B of the high table for one of the low one.
    let limit = "[qos.infiniband]\nmax_vls = 2\nhigh_limit = 3\nvlarb_high = \"1:255\"";
    close(shares("lab-16", limit, 2, 96), &[1.0, 3.0]);
    let ets =
        "[qos.ethernet]\nclasses = [{ priorities = [0], share = 20 }, { priorities = [1], share = 30 }, { priorities = [2], share = 50 }]";
    close(shares("lab-roce-128", ets, 3, 96), &[20.0, 30.0, 50.0]);
    let minimums = "[qos.slingshot]\nclasses = [{ name = \"a\", minimum = 80 }, { name = \"b\", minimum = 10 }]";
    close(shares("lab-16", minimums, 2, 96), &[80.0, 20.0]);
    let strict = "[qos.ethernet]\nclasses = [{ priorities = [0], share = 100 }, { priorities = [1], strict = true }]";
    let found = shares("lab-roce-128", strict, 2, 96);
    assert!(found[0] <= 5 && found[1] == 96, "{found:?}");
}

const STALL: &str = "[[fault]]\nat = \"0 us\"\nkind.slow_receiver = { node = \"node 2\", rate = \"1 Gb/s\" }";
const TWO_LEAVES: &str =
    "base = \"lab-16\"\nnodes = 4\ntopology.leaf_spine = { leaves = 2, down = 2, spines = 1 }\nqos.infiniband.max_vls = 2";

/// How long 8 MiB from `from` to host 3 take while host 0 sends to host 2, which hardly takes anything; on lanes `bulk` and `quick`.
fn beside_a_stall(from: u32, bulk: Option<u8>, quick: u8) -> f64 {
    let (cluster, engine) = crate::faults_test::patient_lab(TWO_LEAVES, "d_mod_k", STALL, 20);
    let mut builder = Builder::new(4);
    let last = (0..8).map(|_| builder.put(from, 3, Bytes::from_mib(1))).last().expect("eight");
    if bulk.is_some() {
        // Several queue pairs' worth of work waits in the adapter of host 0.
        let _ = builder.put(0, 2, Bytes::from_mib(2));
    }
    let mut levels = vec![((0, 2), bulk.unwrap_or(0)), ((from, 3), quick)];
    levels.sort_unstable();
    let run = Scenario { levels, times: true, ..engine }.run(&cluster, &builder.build().expect("it is sound"), 1).expect("it ends");
    (run.ops[last.0 as usize].ended - Time::ZERO).as_us_f64()
}

/// A lane whose receiver stands still fills its buffers and stops; the other lane of the same cables, and of the same adapter, does not.
#[test]
fn a_stalled_lane_blocks_no_other() {
    for from in [1, 0] {
        let alone = beside_a_stall(from, None, 1);
        let (apart, together) = (beside_a_stall(from, Some(0), 1), beside_a_stall(from, Some(1), 1));
        assert!(apart < 1.06 * alone, "from {from}: {apart} us beside a stalled lane, {alone} us alone");
        assert!(together > 2.0 * alone, "from {from}: {together} us behind it, {alone} us alone");
    }
}

/// The buffer of a port is divided among its lanes, evenly or by shares; those of the routing within a lane have all of its part.
#[test]
fn lanes_have_parts_of_the_buffer() {
    let rooms = |qos: &str| -> Vec<i64> {
        let cluster = cluster("lab-16", 9, TREE, qos);
        let world = crate::setup::world(&Scenario::default(), &cluster, 1).expect("a world");
        let up = cluster.fabric.graph.uplink(fabriscope_fabric::EndpointId(0)).0;
        (0..world.links.vls).map(|vl| world.links.lanes[(up * world.links.vls + vl) as usize].settled() * 64).collect()
    };
    let all = rooms("")[0];
    assert_eq!(rooms("qos.infiniband.max_vls = 4"), [all / 4; 4]);
    assert_eq!(rooms("qos.infiniband = { max_vls = 2, vl_buffers = [3, 1] }"), [all / 4 * 3, all / 4]);
    assert_eq!(rooms("qos.infiniband.max_vls = 1"), [all]);
}

/// Switch 0 sends level 1 from its port 0 on lane 0, and from any other on lane 1.
#[test]
fn lanes_go_by_pairs_of_ports() {
    let qos = "[qos.infiniband]\nmax_vls = 2\nsl2vl = [0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0]\n\
               switches = [{ switches = [0], pairs = [{ inputs = [0], sl2vl = [0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0] }] }]";
    let cluster = cluster("lab-16", 9, TREE, qos);
    let world = crate::setup::world(&Scenario::default(), &cluster, 1).expect("a world");
    let graph = &cluster.fabric.graph;
    let up = graph.outputs(fabriscope_fabric::SwitchId(0)).last().expect("a port").1;
    let lane = |host: u32, sl: u32| {
        let input = graph.uplink(fabriscope_fabric::EndpointId(host));
        world.links.lane_across(graph.link(input).to.0 - world.links.endpoints, input.0 * world.links.vls + 1, up.0, sl, 0)
    };
    let port = |host: u32| graph.link(graph.uplink(fabriscope_fabric::EndpointId(host))).to_port.0;
    assert_eq!([port(0), port(1)], [0, 1]);
    assert_eq!([lane(0, 1), lane(1, 1), lane(0, 0), lane(1, 0)], [0, 1, 0, 0]);
    let engine = Scenario { levels: spread(9, &[0, 1]), ..Scenario::default() };
    let run = run_and_settle(&engine, &cluster, &random_schedule(9, 60, 60_000, 3), 3).expect("it ends");
    assert_eq!(run.stats.drops, 0);
}

/// A class with a largest share keeps to it on an idle network: 96 messages at a quarter of the link.
#[test]
fn a_largest_share_holds_on_an_idle_network() {
    let time = |maximum: u32| {
        let qos = format!("[qos.slingshot]\nclasses = [{{ name = \"a\", maximum = {maximum} }}]");
        let cluster = cluster("lab-16", 2, "topology.single_switch = {}\nrouting = \"d_mod_k\"", &qos);
        let (schedule, levels) = funnel(1, 96);
        let run = Scenario { levels, ..Scenario::default() }.run(&cluster, &schedule, 1).expect("it ends");
        (run.end - Time::ZERO).as_us_f64()
    };
    let ratio = time(25) / time(100);
    assert!((3.97..4.01).contains(&ratio), "{ratio}");
}
