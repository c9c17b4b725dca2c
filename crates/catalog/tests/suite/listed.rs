//! The machines of the lists: every cluster of the catalogue holds together, and bad entries are refused with what to do.

use fabriscope_catalog::{Catalog, CatalogError, Kind};

fn catalog() -> Catalog {
    Catalog::embedded().expect("the catalogue of the program is right")
}

/// Every cluster resolves, and every one of a list has parts of which it is known how they multiply.
#[test]
fn every_cluster_resolves() {
    let catalog = catalog();
    let mut listed = 0;
    for name in catalog.names(Kind::Cluster) {
        let cluster = catalog.cluster(name).unwrap();
        let parts = catalog.target(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        let Some(entry) = &cluster.listed else { continue };
        listed += 1;
        let node = &parts.sole().node;
        assert!(node.gpu.as_ref().map_or(node.cpu.dgemm.is_some(), |gpu| gpu.dgemm.is_some()), "{name} does not say how it multiplies");
        assert!(entry.nodes.as_ref().is_none_or(|nodes| **nodes <= parts.nodes()), "{name}: more nodes took part than there are");
        let sane = |rmax: f64, rpeak: f64| rmax > 0.3 * rpeak && rmax < rpeak;
        if let (Some(rmax), Some(rpeak)) = (&entry.rmax, &entry.rpeak) {
            assert!(sane(rmax.as_f64(), rpeak.as_f64()), "{name}: {} of {}", **rmax, **rpeak);
        }
    }
    assert!(listed >= 48, "{listed}");
}

/// Cores of the list, where they are whole nodes: what a node counts there divides them.
#[test]
fn cores_of_the_list_are_whole_nodes() {
    let catalog = catalog();
    for (name, per_node) in
        [("frontier", 944), ("aurora", 872), ("alps", 816), ("el-capitan", 1008), ("eagle", 1152), ("eos", 1168), ("selene", 992)]
    {
        let cluster = catalog.cluster(name).unwrap();
        let entry = cluster.listed.as_ref().unwrap();
        let nodes = entry.nodes.as_ref().map_or(cluster.nodes.unwrap(), |nodes| **nodes);
        assert_eq!(entry.cores.unwrap(), nodes * per_node, "{name}");
    }
}

#[test]
fn bad_entries_are_refused() {
    let catalog = catalog();
    let text = |entry: &str| format!("base = \"frontier\"\nname = \"mine\"\n\n[listed]\n{entry}\n");
    let error = |entry: &str| match catalog.parse_cluster("mine.toml", &text(entry)) {
        Err(CatalogError::Fault(fault)) => fault.to_string(),
        other => panic!("{entry}: {other:?}"),
    };
    assert!(error("group = \"gpu\"").contains("no group is called `gpu`"));
    assert!(error("rmax = { value = \"0 PFLOP/s\", basis = \"published\", source = \"a list\" }").contains("`rmax` is zero"));
    assert!(error("nodes = { value = 0, basis = \"published\", source = \"a list\" }").contains("no nodes"));
    assert!(error("place = 3").contains("place"));
}
