//! Nanoseconds per routing decision, and the time to build a fabric.
//!
//! The decisions are those that random packets ask for on their way through 8,192 endpoints.
#![allow(missing_docs)]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fabriscope_fabric::topology::FatTree;
use fabriscope_fabric::{EndpointId, Fabric, Head, Idle, LinkSpec, Links, Node, Route, Router, Routing, SwitchId, Topology, path};
use fabriscope_units::{Rate, Span};

fn fabric(radix: u32) -> Fabric {
    let cable = LinkSpec::new(Rate::from_gbps(400), Span::from_ns(25));
    let topology = Topology::FatTree(FatTree { levels: Some(3), ..FatTree::default() });
    topology.build(&Links::uniform(cable), radix).expect("the full tree fits")
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
        for link in path(fabric, router, src, dest, entropy) {
            if let Node::Switch(at) = fabric.graph.node(fabric.graph.link(link).to) {
                decisions.push((at, Head { dest, entropy, input: link, vl: 0, via: 0 }));
            }
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
}

fn build(criterion: &mut Criterion) {
    criterion.bench_function("build, 8192 endpoints", |bencher| bencher.iter(|| fabric(black_box(32))));
    let full = fabric(32);
    criterion.bench_function("router, 8192 endpoints", |bencher| bencher.iter(|| Router::new(black_box(&full), Routing::Spray)));
}

criterion_group!(benches, route, build);
criterion_main!(benches);
