//! What the adapters of the catalogue's nodes reach.

use fabriscope_catalog::{AnyPart, Catalog};
use fabriscope_engine::timing;
use fabriscope_node::{Memory, Reach};
use fabriscope_units::Span;
use fabriscope_verbs::MemoryId;

/// Every node with GPUs: as many adapters in its graph as in the cluster, and each reaches a GPU at a speed and in a time that exist.
#[test]
fn adapters_of_nodes_with_gpus_reach_some() {
    let catalog = Catalog::embedded().unwrap();
    let clusters = catalog.parts().filter_map(|part| if let AnyPart::Cluster(cluster) = part { Some(&cluster.name) } else { None });
    // Where nodes are unlike, each group by itself.
    let views = clusters
        .map(|name| catalog.target(name).unwrap())
        .flat_map(|parts| (0..parts.groups.len()).map(|group| parts.narrowed(group).unwrap_or_else(|| parts.clone())).collect::<Vec<_>>());
    // The ports of a wafer are its own.
    let with_gpus = views.filter(|parts| parts.sole().node.gpus > 0 && !parts.sole().node.layout.part.name.starts_with("cs-"));
    let mut seen = 0;
    for parts in with_gpus {
        let bus = timing::pcie(&parts);
        let machine = parts.sole().node.machine().unwrap_or_else(|error| panic!("{}: {error}", parts.name));
        let reach = Reach::of(&machine, &bus, true);
        assert_eq!(reach.nics(), parts.sole().node.nics as usize, "{}", parts.name);
        for nic in 0..reach.nics() {
            assert!(reach.path(nic, MemoryId::HOST).is_some_and(|host| host.read_latency == bus.read_latency), "{}", parts.name);
            let gpus = (0..parts.sole().node.gpus).filter_map(|gpu| reach.path(nic, reach.place_of(Memory::Device(gpu))?));
            let near = gpus.min_by_key(|path| path.read_latency).unwrap_or_else(|| panic!("{}: adapter {nic} reaches no GPU", parts.name));
            let crossings = near.reads.iter().chain(&near.writes);
            assert!(crossings.map(|crossing| crossing.rate.as_bps()).all(|bps| bps > 1_000_000_000), "{}: {near:?}", parts.name);
            assert!(near.read_latency < Span::from_us(2) && near.write_latency < Span::from_us(1), "{}: {near:?}", parts.name);
        }
        seen += 1;
    }
    assert!(seen >= 5, "{seen} clusters with GPUs");
}
