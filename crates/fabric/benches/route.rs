//! Nanoseconds per routing decision, and the time to build a fabric.
//!
//! The decisions are those that random packets ask for on their way through 8,192 endpoints of a fat tree, and through
//! 1,056 of a dragonfly and the 279,040 of the largest one, past queues that are empty or not.
#![allow(missing_docs)]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fabriscope_fabric::topology::{Dragonfly, FatTree};
use fabriscope_fabric::{
    EndpointId, Fabric, Head, Hop, Idle, LinkId, LinkSpec, Links, Memory, Node, Route, Router, Routing, SwitchId, SwitchView, Topology,
};
use fabriscope_units::{Bytes, Rate, Span, Time};

fn fabric(radix: u32) -> Fabric {
    let cable = LinkSpec::new(Rate::from_gbps(400), Span::from_ns(25));
    let topology = Topology::FatTree(FatTree { levels: Some(3), ..FatTree::default() });
    topology.build(&Links::uniform(cable), radix).expect("the full tree fits")
}

fn dragonfly(groups: u32, switches: u32, endpoints: u32, global: u32) -> Fabric {
    let cable = LinkSpec::new(Rate::from_gbps(200), Span::from_ns(25));
    let (groups, switches, endpoints, global) = (Some(groups), Some(switches), Some(endpoints), Some(global));
    let topology = Topology::Dragonfly(Dragonfly { groups, switches, endpoints, global, ..Dragonfly::default() });
    topology.build(&Links::uniform(cable), 64).expect("the groups fit")
}

/// Queues of which every other one is long.
struct Busy;

impl SwitchView for Busy {
    fn depth(&self, link: LinkId) -> Bytes {
        Bytes(u64::from(link.0.wrapping_mul(0x9e37_79b9) >> 31) * 100_000)
    }
    fn now(&self) -> Time {
        Time::ZERO
    }
    fn memory(&mut self, _: SwitchId, _: u32) -> &mut Memory {
        unreachable!("nothing is remembered by these algorithms")
    }
}

/// Every switch on the way of random packets, in random order.
fn decisions(fabric: &Fabric, router: &Router) -> Vec<(SwitchId, Head)> {
    let mut state = 1u64;
    let mut random = |below: u32| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % u64::from(below)) as u32
    };
    let count = fabric.graph.endpoint_count();
    let mut decisions = Vec::new();
    while decisions.len() < 1 << 16 {
        let (src, dest, entropy) = (EndpointId(random(count)), EndpointId(random(count)), random(1 << 16));
        let mut hop = Hop { link: fabric.graph.uplink(src), vl: 0, via: 0 };
        while let Node::Switch(at) = fabric.graph.node(fabric.graph.link(hop.link).to) {
            let head = Head { dest, entropy, input: hop.link, vl: hop.vl, via: hop.via };
            decisions.push((at, head));
            hop = router.output(at, head, &mut Idle::new());
        }
    }
    for last in (1..decisions.len()).rev() {
        decisions.swap(last, random(last as u32 + 1) as usize);
    }
    decisions
}

fn route(criterion: &mut Criterion) {
    let fabric = fabric(32);
    let mut group = criterion.benchmark_group("output, 8192 endpoints");
    for routing in [Routing::DModK, Routing::Ecmp, Routing::Spray] {
        let router = Router::new(&fabric, routing).expect("trees are routable");
        let decisions = decisions(&fabric, &router);
        group.throughput(Throughput::Elements(decisions.len() as u64));
        group.bench_function(format!("{routing:?}"), |bencher| {
            bencher.iter(|| {
                decisions
                    .iter()
                    .fold(0u32, |sum, (at, head)| sum.wrapping_add(black_box(router.output(*at, *head, &mut Idle::new())).link.0))
            });
        });
    }
    group.finish();
    for (fabric, name) in [(dragonfly(33, 8, 4, 4), "1056"), (dragonfly(545, 32, 16, 17), "279040")] {
        let mut group = criterion.benchmark_group(format!("output, dragonfly of {name} endpoints"));
        for routing in [Routing::Minimal, Routing::Valiant, Routing::UgalL, Routing::Adaptive] {
            let router = Router::new(&fabric, routing).expect("dragonflies are routable");
            let decisions = decisions(&fabric, &router);
            group.throughput(Throughput::Elements(decisions.len() as u64));
            group.bench_function(format!("{routing:?}"), |bencher| {
                bencher.iter(|| {
                    decisions.iter().fold(0u32, |sum, (at, head)| sum.wrapping_add(black_box(router.output(*at, *head, &mut Busy)).link.0))
                });
            });
        }
        group.finish();
    }
}

fn build(criterion: &mut Criterion) {
    criterion.bench_function("build, 8192 endpoints", |bencher| bencher.iter(|| fabric(black_box(32))));
    criterion.bench_function("build, dragonfly of 279040 endpoints", |bencher| bencher.iter(|| dragonfly(black_box(545), 32, 16, 17)));
    let full = fabric(32);
    criterion.bench_function("router, 8192 endpoints", |bencher| bencher.iter(|| Router::new(black_box(&full), Routing::Spray)));
}

criterion_group!(benches, route, build);
criterion_main!(benches);
