//! What a library's progress loop does to operations of many ranks.

use crate::machine;

use fabriscope_catalog::{Catalog, ResolvedCluster};
use fabriscope_platform::{Binding, Layout, Target};
use machine::{column, parts, run_for};

fn latency_of(parts: &ResolvedCluster, (nodes, per_node): (u32, u32), line: &str) -> f64 {
    let target = Target::of(parts, Layout { nodes, per_node }, Binding::default());
    column(&run_for(&target, parts, line).0, "latency")[0].1
}

/// A ring of p ranks takes 2 (p − 1) steps of one message. A rank goes on as soon as it has what it waits for: where it handled all that
/// had come before it sent on, messages gathered into crowds that move one behind the other, and steps took as long as a crowd.
#[test]
fn messages_of_a_ring_do_not_gather() {
    let line = "osu_allreduce -m 65536:65536 -i 2 -x 1";
    let betzy = parts("betzy-hdr:2");
    let [twenty, forty] = [20, 40].map(|per_node| latency_of(&betzy, (2, per_node), line));
    // Ring among 80 ranks: 158 steps of 1 to 2 us; 1,160 us in crowds.
    assert!((100.0..480.0).contains(&forty), "{forty} us");
    assert!(forty < 2.5 * twenty, "{forty} and {twenty} us");
}

/// Adapters that take packets in order alone, on a network that lets them overtake: what is sent again may be overtaken once more, and then
/// a timer has to see it. Messages of three packets among 128 ranks on two adapters a node.
#[test]
fn what_is_overtaken_twice_arrives() {
    let catalog = Catalog::embedded().unwrap();
    let text = "name = \"archer2\"\nbase = \"archer2\"\nrouting = \"adaptive\"\n";
    let parts = catalog.resolve(&catalog.parse_cluster("archer2.toml", text).unwrap(), None).unwrap();
    let taken = latency_of(&parts, (16, 8), "osu_alltoall -m 128:128 -i 1 -x 0");
    assert!(taken > 10.0, "{taken} us");
}
