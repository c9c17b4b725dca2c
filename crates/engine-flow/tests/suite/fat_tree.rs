//! The known results on fat trees with static routing (docs/models/fat-tree.md): shifts at full rate, random patterns not.

use std::fmt::Write;

use fabriscope_catalog::Catalog;
use fabriscope_engine::{Cluster, Connections, Engine, Job, PacketOrder, RunOptions, Spraying, Watch};
use fabriscope_engine_flow::FlowEngine;
use fabriscope_engine_packet::PacketEngine;
use fabriscope_fabric::routing::Flowlet;
use fabriscope_fabric::topology::FatTree;
use fabriscope_fabric::{EndpointId, Fabric, LinkSpec, Links, Router, Routing, Topology, path};
use fabriscope_streams::Streams;
use fabriscope_traffic::{Config, Pattern, schedule};
use fabriscope_units::{Bytes, Rate, Span};

const SPEC: LinkSpec = LinkSpec::new(Rate::from_gbps(400), Span::from_ns(25));

fn tree(levels: u32, radix: u32) -> Fabric {
    let family = FatTree { levels: Some(levels), ..FatTree::default() };
    Topology::FatTree(family).build(&Links { host: SPEC, trunk: SPEC, global: SPEC }, radix).unwrap()
}

/// What the flows of a pattern get if each link is shared evenly and a flow has what its worst link leaves it: the mean and
/// the least, as shares of the rate of a host.
fn shares(fabric: &Fabric, router: &Router, pairs: &[(u32, u32)]) -> (f64, f64) {
    let mut flows = vec![0u32; fabric.graph.links().len()];
    let entropy = |from: u32, to: u32| from.wrapping_mul(0x9e37_79b9) ^ to;
    let paths: Vec<_> = pairs.iter().map(|&(from, to)| path(fabric, router, EndpointId(from), EndpointId(to), entropy(from, to))).collect();
    paths.iter().flatten().for_each(|link| flows[link.index()] += 1);
    let most = |path: &Vec<fabriscope_fabric::LinkId>| f64::from(path.iter().map(|link| flows[link.index()]).max().unwrap());
    let all: Vec<f64> = paths.iter().map(|path| 1.0 / most(path)).collect();
    (all.iter().sum::<f64>() / all.len() as f64, all.iter().copied().fold(1.0, f64::min))
}

fn mixed(hosts: u32, seed: u64) -> Vec<u32> {
    let mut stream = Streams::new(seed).stream("order of hosts", 0);
    let mut order: Vec<u32> = (0..hosts).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, stream.below(last as u64 + 1) as usize);
    }
    order
}

/// Two halves drawn at random; each host exchanges with one of the other half.
fn bisection(hosts: u32, seed: u64) -> Vec<(u32, u32)> {
    let order = mixed(hosts, seed);
    let (one, other) = order.split_at(order.len() / 2);
    one.iter().zip(other).flat_map(|(&a, &b)| [(a, b), (b, a)]).collect()
}

fn permutation(hosts: u32, seed: u64) -> Vec<(u32, u32)> {
    mixed(hosts, seed).into_iter().enumerate().map(|(from, to)| (from as u32, to)).filter(|(from, to)| from != to).collect()
}

fn mean(patterns: u32, one: impl Fn(u64) -> (f64, f64)) -> (f64, f64) {
    let sum = (1..=u64::from(patterns)).map(one).fold((0.0, 0.0), |sum, (mean, least)| (sum.0 + mean, sum.1 + least));
    (sum.0 / f64::from(patterns), sum.1 / f64::from(patterns))
}

/// Every shift among 128, 648 and 1,024 hosts, one in 61 among 8,192; 20 random patterns, 3 among 8,192.
#[test]
fn shifts_are_free_and_random_patterns_are_not() {
    let mut table = String::new();
    for (levels, radix, step, patterns) in [(3, 8, 1, 20), (2, 36, 1, 20), (3, 16, 1, 20), (3, 32, 61, 3)] {
        let fabric = tree(levels, radix);
        let hosts = fabric.graph.endpoint_count();
        for routing in [Routing::DModK, Routing::Ecmp] {
            let router = Router::new(&fabric, routing).unwrap();
            let shift = |by: u32| shares(&fabric, &router, &(0..hosts).map(|from| (from, (from + by) % hosts)).collect::<Vec<_>>()).1;
            // Under ECMP a few shifts show it.
            let step = if routing == Routing::DModK { step } else { hosts / 8 - 1 };
            let worst = (1..hosts).step_by(step as usize).map(shift).fold(1.0, f64::min);
            if routing == Routing::DModK {
                assert_eq!(worst, 1.0, "{hosts} hosts: a shift shares a link");
            }
            let (bisections, _) = mean(patterns, |seed| shares(&fabric, &router, &bisection(hosts, seed)));
            let (permutations, least) = mean(patterns, |seed| shares(&fabric, &router, &permutation(hosts, seed)));
            let _ = writeln!(
                table,
                "| {hosts} | {levels} × {radix} ports | {routing} | {worst:.2} | {bisections:.2} | {permutations:.2} | {least:.2} |"
            );
        }
    }
    let page = include_str!("../../../../docs/models/fat-tree.md");
    assert!(page.contains(&table), "the table of docs/models/fat-tree.md is now\n{table}");
}

/// The same with engines: the rate of each flow of a random permutation, as a share of what a shift gets.
#[test]
fn permutations_through_the_engines() {
    let mut table = String::new();
    for routing in [Routing::DModK, Routing::Ecmp, Routing::Flowlet(Flowlet { gap: Span::from_ns(500) }), Routing::Adaptive, Routing::Spray]
    {
        let mut parts = Catalog::embedded().unwrap().target("lab-1024").unwrap();
        parts.routing = routing;
        let cluster = Cluster::new(parts).unwrap();
        let spraying = if routing.reorders() { Spraying::PerPacket } else { Spraying::PerFlow };
        let connections = Connections { order: PacketOrder::Any, spraying, ..Connections::default() };
        let options = RunOptions { op_times: Watch::On, ..RunOptions::default() };
        let _ = write!(table, "| {routing} |");
        for engine in [&PacketEngine as &dyn Engine, &FlowEngine] {
            // What looks at queues has no fluid.
            if matches!(routing, Routing::Adaptive | Routing::Flowlet(_)) && engine.name() == "flow" {
                table.push_str(" | |");
                continue;
            }
            let rates = |pattern| {
                let work = schedule(1024, &Config::new(pattern, Bytes::from_mib(1)), 1).unwrap();
                let run = engine.run(&cluster, Job::schedule(work, connections.clone()), &options, 1).unwrap();
                let mut all: Vec<f64> = run.ops.iter().map(|op| 1e6 / (op.ended - op.started).as_ps() as f64).collect();
                all.sort_by(f64::total_cmp);
                all
            };
            let (alone, drawn) = (rates(Pattern::Shift { distance: 512 }), rates(Pattern::Permutation));
            let best = alone.last().copied().unwrap();
            let mean = drawn.iter().sum::<f64>() / drawn.len() as f64 / best;
            let _ = write!(table, " {mean:.2} | {:.2} |", drawn[0] / best);
        }
        table.push('\n');
    }
    let page = include_str!("../../../../docs/models/fat-tree.md");
    assert!(page.contains(&table), "the table of docs/models/fat-tree.md is now\n{table}");
}
