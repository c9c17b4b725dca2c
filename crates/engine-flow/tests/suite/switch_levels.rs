//! Switches that differ from level to level, in both engines.
//!
//! A message of one packet from leaf to leaf passes leaf, spine, leaf. With `l` and `s` from port to port of the two kinds,
//!
//! ```text
//!   L(other leaves) - L(one kind) = 2 (l' - l),   L(other spines) - L(one kind) = s' - s
//! ```
//!
//! to the picosecond in both engines, and nothing changes below one leaf but its own `l' - l`.

use fabriscope_catalog::{Catalog, ResolvedCluster};
use fabriscope_engine::{Cluster, Connections, Engine, Job, RunOptions};
use fabriscope_engine_flow::FlowEngine;
use fabriscope_engine_packet::PacketEngine;
use fabriscope_schedule::Builder;
use fabriscope_units::{Bytes, Span, Time};

fn parts(more: &str) -> Result<ResolvedCluster, String> {
    let text = format!(
        r#"
        name = "levels"
        nodes = 8
        link = "edr"
        link_layer = "infiniband"
        mtu = "4096 B"
        routing = "d_mod_k"
        switch = "qm8700"
        {more}
        software = "hpcx-2.7"
        topology.leaf_spine = {{ leaves = 2, down = 4, spines = 2 }}
        [node]
        cpu = "epyc-7742"
        sockets = 1
        nic = "connectx-6"
        [cable]
        part = "optical"
        host_length = {{ value = "2 m", basis = "assumed", note = "within a rack" }}
        trunk_length = {{ value = "2 m", basis = "assumed", note = "within a rack" }}
        "#
    );
    let catalog = Catalog::embedded().unwrap();
    let written = catalog.parse_cluster("levels.toml", &text).map_err(|error| error.to_string())?;
    catalog.resolve(&written, None).map_err(|error| error.to_string())
}

/// From the start of a message until the receiver has it, between two hosts.
fn latency(engine: &dyn Engine, more: &str, to: u32, bytes: u64) -> Span {
    let cluster = Cluster::new(parts(more).unwrap()).unwrap();
    let mut builder = Builder::new(8);
    let _ = builder.send(0, to, Bytes(bytes), 0);
    let _ = builder.recv(to, 0, Bytes(bytes), 0);
    let job = Job::schedule(builder.build().unwrap(), Connections::default());
    let run = engine.run(&cluster, job, &RunOptions::default(), 1).unwrap();
    run.ranks[to as usize] - Time::ZERO
}

const OLD_LEAVES: &str = "switch_levels = { leaf = \"sb7800\" }";
const OLD_SPINES: &str = "switch_levels = { spine = \"sb7800\" }";

#[test]
fn each_switch_takes_its_own_time() {
    let catalog = Catalog::embedded().unwrap();
    let of = |name: &str| catalog.switch(name).unwrap().latency.value;
    let (new, old) = (of("qm8700"), of("sb7800"));
    assert!(old < new);
    let saved = new - old;
    for engine in [&PacketEngine as &dyn Engine, &FlowEngine] {
        let name = engine.name();
        // Host 5 is at the other leaf, host 1 at the same.
        let [far, near] = [5, 1].map(|to| latency(engine, "", to, 8));
        assert_eq!(far - latency(engine, OLD_LEAVES, 5, 8), saved * 2, "{name}");
        assert_eq!(far - latency(engine, OLD_SPINES, 5, 8), saved, "{name}");
        assert_eq!(near - latency(engine, OLD_LEAVES, 1, 8), saved, "{name}");
        assert_eq!(near, latency(engine, OLD_SPINES, 1, 8), "{name}");
        // The same parts under another name of the level change nothing.
        assert_eq!(far, latency(engine, "switch_levels = { leaf = \"qm8700\", spine = \"qm8700\" }", 5, 8), "{name}");
    }
}

#[test]
fn credits_are_those_of_the_buffer_behind_a_link() {
    // Eight lanes share the buffer of a port where QoS has them; 64 KiB hold half the packets of 128 KiB. An incast fills them: with
    // smaller buffers at the leaves the senders stop earlier, and all bytes arrive in both cases.
    let run = |more: &str| {
        let cluster = Cluster::new(parts(more).unwrap()).unwrap();
        let mut builder = Builder::new(8);
        for from in 1..8 {
            let _ = builder.put(from, 0, Bytes(1 << 20));
        }
        let job = Job::schedule(builder.build().unwrap(), Connections::default());
        PacketEngine.run(&cluster, job, &RunOptions::default(), 1).unwrap()
    };
    let (usual, small) = (run(""), run(OLD_LEAVES));
    assert_eq!(usual.stats.bytes_delivered, 7 << 20);
    assert_eq!(small.stats.bytes_delivered, 7 << 20);
    assert_ne!(usual.ranks, small.ranks);
}

#[test]
fn levels_that_do_not_fit_are_refused() {
    let table = [
        ("switch_levels = { core = \"sb7800\" }", "no core switches"),
        ("switch_levels = { leaf = \"qm8701\" }", "qm8701"),
        ("switch_levels = { leaf = \"sn5600\" }", "speaks"),
        ("switch_levels = { leaf = \"lab-400g-16\" }", "the leaf switch `lab-400g-16` does not run at `edr`"),
        ("switch_levels = { spine = \"lab-400g-16\" }", "does not run at `edr`"),
        ("switch_levels = { top = \"qm8700\" }", "top"),
    ];
    for (more, says) in table {
        let error = parts(more).map(|_| ()).expect_err(more);
        assert!(error.contains(says), "{more}: {error}");
    }
}
