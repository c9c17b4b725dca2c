//! Messages between nodes of two groups, in both engines.
//!
//! One packet from A to B takes what A spends before the wire, the wire, and what B spends after it. With the same links and one
//! switch between any two nodes,
//!
//! ```text
//!   L(A → B) = out(A) + way + in(B),   so   L(A → B) + L(B → A) = L(A → A') + L(B → B')
//! ```
//!
//! to the picosecond in the packet engine, whatever the parts; in the flow engine but for a part of the time on the wire. Bandwidth is that of the slower of two links.

use fabriscope_catalog::Catalog;
use fabriscope_engine::{Cluster, Connections, Engine, EngineError, Feature, Folding, Job, Run, RunOptions};
use fabriscope_engine_flow::FlowEngine;
use fabriscope_engine_packet::PacketEngine;
use fabriscope_schedule::Builder;
use fabriscope_units::{Bytes, Rate, Span, Time};

/// Two nodes with old parts, two with new ones, at one switch.
fn cluster(new_link: &str) -> Cluster {
    let text = format!(
        r#"
        name = "mixed"
        link = "edr"
        link_layer = "infiniband"
        mtu = "4096 B"
        routing = "d_mod_k"
        switch = "qm8700"
        software = "hpcx-2.7"
        topology.single_switch = {{}}
        group = [
            {{ name = "old", nodes = 2, node = {{ cpu = "xeon-e5-2680v4", sockets = 1, nic = "connectx-5", pcie = {{ generation = 3, lanes = 16 }} }} }},
            {{ name = "new", nodes = 2, link = "{new_link}", node = {{ cpu = "epyc-7742", sockets = 1, nic = "connectx-6" }} }},
        ]
        [cable]
        part = "optical"
        host_length = {{ value = "2 m", basis = "assumed", note = "within a rack" }}
        trunk_length = {{ value = "2 m", basis = "assumed", note = "within a rack" }}
        "#
    );
    let catalog = Catalog::embedded().unwrap();
    let written = catalog.parse_cluster("mixed.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    Cluster::new(catalog.resolve(&written, None).unwrap_or_else(|error| panic!("{error}"))).unwrap()
}

fn run(engine: &dyn Engine, cluster: &Cluster, builder: Builder) -> Run {
    let options = RunOptions::default();
    engine.run(cluster, Job::schedule(builder.build().unwrap(), Connections::default()), &options, 1).unwrap()
}

/// From the post of a send until the receiver sees it.
fn latency(engine: &dyn Engine, cluster: &Cluster, (from, to): (u32, u32), bytes: u64) -> Span {
    let mut builder = Builder::new(4);
    let _ = builder.send(from, to, Bytes(bytes), 0);
    let _ = builder.recv(to, from, Bytes(bytes), 0);
    run(engine, cluster, builder).ranks[to as usize] - Time::ZERO
}

fn engines() -> [(&'static str, Box<dyn Engine>); 2] {
    [("packet", Box::new(PacketEngine)), ("flow", Box::new(FlowEngine))]
}

#[test]
fn half_of_the_latency_is_that_of_either_side() {
    let cluster = cluster("edr");
    for (name, engine) in engines() {
        for bytes in [8, 512, 4096] {
            let of = |from, to| latency(&*engine, &cluster, (from, to), bytes);
            let (there, back, old, new) = (of(0, 2), of(2, 0), of(0, 1), of(2, 3));
            let (mixed, alike) = (there + back, old + new);
            if name == "packet" {
                assert_eq!(mixed, alike, "{name}, {bytes} B: {there} + {back}, {old} + {new}");
            } else {
                // The fluid of a message moves at the slower of two slots and links in both directions, between new nodes at that of
                // theirs: what differs is a part of its time on the wire, in which the slot of ConnectX-5 is slower than EDR.
                let wire = Rate::from_gbps(100).time(Bytes(bytes + 64));
                assert!(mixed >= alike && (mixed - alike) * 10 < wire, "{name}, {bytes} B: {there} + {back}, {old} + {new}");
            }
            assert!(old != new && there != back, "{name}, {bytes} B: the groups differ: {old}, {new}, {there}, {back}");
        }
    }
}

#[test]
fn the_slower_link_bounds_the_bandwidth() {
    let cluster = cluster("hdr");
    let size = 8_000_000;
    for (name, engine) in engines() {
        let time = |from, to| latency(&*engine, &cluster, (from, to), size).as_ps() as f64 / 1e6;
        let wire = |gbps: f64| size as f64 * 8.0 * (4096.0 + 26.0) / 4096.0 / gbps / 1e3;
        let edr = cluster.parts.groups[0].link.data_rate().as_bps() as f64 / 1e9;
        for pair in [(0, 2), (2, 0), (0, 1)] {
            let took = time(pair.0, pair.1);
            assert!((wire(edr)..wire(edr) * 1.05 + 5.0).contains(&took), "{name}, {pair:?}: {took} us, {} us", wire(edr));
        }
        assert!(time(2, 3) < 0.6 * wire(edr), "{name}: two nodes with faster links");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let cluster = cluster("hdr");
    for (name, engine) in engines() {
        let exchange = || {
            let mut builder = Builder::new(4);
            for (from, to) in (0..4).flat_map(|from| (0..4).map(move |to| (from, to))).filter(|(from, to)| from != to) {
                let _ = builder.send(from, to, Bytes(100_000), from);
                let _ = builder.recv(to, from, Bytes(100_000), from);
            }
            run(&*engine, &cluster, builder)
        };
        assert_eq!(exchange(), exchange(), "{name}");
    }
}

#[test]
fn ranks_laid_out_on_alike_nodes_are_refused() {
    use fabriscope_collectives::{Algorithm, Call, Kind};
    let operation = Kind::Allreduce;
    let call = Call { operation, ranks: 4, per_node: 1, root: 0, size: Bytes(4096), width: Bytes(4) };
    let work = (call, Algorithm::named(operation, "ring").unwrap());
    let refused = FlowEngine.run(&cluster("hdr"), Job::rounds(work, 1, Folding::Never), &RunOptions::default(), 1).unwrap_err();
    assert!(matches!(&refused, EngineError::Unsupported(refused) if refused.feature == Feature::NodeGroups), "{refused}");
}
