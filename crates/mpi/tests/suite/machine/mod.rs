//! Simulated clusters for the tests of this crate.

use std::sync::OnceLock;

use fabriscope_catalog::{Catalog, ResolvedCluster};
use fabriscope_platform::{Binding, Layout, Target};

/// The catalogue, read once.
pub fn catalog() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    CATALOG.get_or_init(|| Catalog::embedded().unwrap())
}

pub fn parts(cluster: &str) -> ResolvedCluster {
    catalog().target(cluster).unwrap()
}

/// The nodes of RI2 in another number, with another number of NICs each, on one switch.
pub fn ri2(nodes: u32, nics: u32) -> ResolvedCluster {
    let text = format!("name = \"ri2\"\nbase = \"ri2\"\nnodes = {nodes}\nnode.nics = {nics}\n");
    let cluster = catalog().parse_cluster("ri2.toml", &text).unwrap();
    catalog().resolve(&cluster, None).unwrap()
}

pub fn target(parts: &ResolvedCluster) -> Target {
    Target::of(parts, Layout { nodes: 2, per_node: 1 }, Binding::default())
}
