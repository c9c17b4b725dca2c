//! Clusters with groups of unlike nodes: how endpoints are numbered, at what rate links run, and every way to write them wrong.

use fabriscope_catalog::{Catalog, CatalogError, Kind, ResolvedCluster};
use fabriscope_fabric::EndpointId;
use miette::Diagnostic;

/// A cluster of two groups with some of its lines changed.
fn text(changes: &[(&str, &str)]) -> String {
    let mut text =
        include_str!("../../../../catalog/clusters/lab-gpu-storage.toml").replace("name = \"lab-gpu-storage\"", "name = \"mixed\"");
    for (from, to) in changes {
        assert!(text.contains(from), "no {from}");
        text = text.replacen(from, to, 1);
    }
    text
}

fn resolved(changes: &[(&str, &str)]) -> Result<ResolvedCluster, CatalogError> {
    let catalog = Catalog::embedded().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mixed.toml");
    std::fs::write(&file, text(changes)).unwrap();
    catalog.target(&file.display().to_string())
}

#[test]
fn endpoints_follow_the_adapters_of_each_group() {
    let cluster = resolved(&[]).unwrap();
    assert_eq!((cluster.nodes(), cluster.endpoints(), cluster.groups.len()), (24, 16 * 8 + 8 * 2, 2));
    assert_eq!(cluster.endpoints_of(15), Some(120..128));
    assert_eq!(cluster.endpoints_of(16), Some(128..130));
    assert_eq!(cluster.endpoints_of(24), None);
    assert_eq!(cluster.adapter_at(127), Some((0, 15, 7)));
    assert_eq!(cluster.adapter_at(131), Some((1, 17, 1)));
    assert_eq!(cluster.adapter_at(144), None);
    assert_eq!(cluster.hosts().count(), 144);
    assert!(cluster.uniform().is_none());
    // Alone, a group keeps its places.
    let storage = cluster.narrowed(1).unwrap();
    assert_eq!((storage.nodes(), storage.endpoints_of(0), storage.sole().node.nics), (8, Some(128..130), 2));
}

#[test]
fn a_link_runs_at_the_rate_of_its_slower_end() {
    let catalog = Catalog::embedded().unwrap();
    let cluster = catalog.target("lab-edr-hdr").unwrap();
    let (edr, hdr) = (catalog.link("edr").unwrap().data_rate(), catalog.link("hdr").unwrap().data_rate());
    let fabric = cluster.fabric().unwrap();
    let graph = &fabric.graph;
    for (endpoint, rate) in [(0, edr), (399, edr), (400, hdr), (799, hdr)] {
        let uplink = graph.uplink(EndpointId(endpoint));
        assert_eq!((graph.link(uplink).rate, graph.link(uplink.reverse()).rate), (rate, rate), "endpoint {endpoint}");
    }
    let trunks = graph.links().iter().filter(|link| link.from.0 >= graph.endpoint_count() && link.to.0 >= graph.endpoint_count());
    assert!(trunks.into_iter().all(|link| link.rate == hdr));
    // Without a word of it, ConnectX-5 and the switch agree on EDR.
    let negotiated = resolved(&[("nic = \"connectx-6\", nics = 2", "nic = \"connectx-5\", nics = 2")]).unwrap();
    assert_eq!(negotiated.groups[1].link.name, "edr");
    assert_eq!(negotiated.groups[0].link.name, "hdr");
}

#[test]
fn a_group_may_begin_at_a_leaf_of_its_own() {
    // 16 GPU nodes fill six leaves of 20 ports and eight of the seventh.
    let sized = ("levels = 2 }", "levels = 2, endpoints = 200 }");
    let cluster = resolved(&[sized, ("name = \"storage\"", "name = \"storage\"\nfirst_leaf = 8")]).unwrap();
    assert_eq!((cluster.groups[1].first_endpoint, cluster.endpoints()), (160, 176));
    assert_eq!((cluster.adapter_at(130), cluster.hosts().count()), (None, 144));
}

#[test]
fn groups_are_named_behind_a_colon() {
    let catalog = Catalog::embedded().unwrap();
    assert_eq!(catalog.target("lumi:lumi-g").unwrap().sole().node.nics, 4);
    assert_eq!(catalog.target("lumi:lumi-g+lumi-c").unwrap().groups[0].name, "lumi-g");
    let told = |name: &str| catalog.target(name).unwrap_err().to_string();
    assert!(told("lumi:lumi-x").contains("the groups of `lumi` are `lumi-c`, `lumi-g`"), "{}", told("lumi:lumi-x"));
    assert!(told("lumi:lumi-c+lumi-c").contains("duplicate entry"));
    assert!(told("ri2:cpu").contains("no number of nodes"));
}

#[test]
fn every_cluster_with_groups_is_read_back_from_its_own_text() {
    let catalog = Catalog::embedded().unwrap();
    for name in catalog.names(Kind::Cluster) {
        let cluster = catalog.cluster(name).unwrap();
        let resolved = catalog.resolve(cluster, None).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(resolved.groups.len(), cluster.group.len().max(1), "{name}");
        assert_eq!(
            resolved.hosts().map(|host| resolved.adapter_at(host).is_some()).filter(|found| *found).count(),
            resolved.hosts().count()
        );
    }
}

#[test]
fn every_wrong_group_says_what_to_write() {
    let cases: &[(&str, &str, &str, &str)] = &[
        ("switch = \"qm8700\"", "switch = \"qm8700\"\nnodes = 4", "`nodes` beside [[group]]", "make it a [[group]] of its own"),
        ("nodes = 16", "nodes = 0", "a group without nodes", "at least 1 node"),
        ("name = \"storage\"", "name = \"gpu\"", "there are two groups `gpu`", "a name of its own"),
        ("name = \"storage\"", "name = \"7 servers\"", "`7 servers` is no name of a group", "begin with a letter"),
        ("node = \"dgx-a100\"", "node = \"dgx-a101\"", "there is no node called `dgx-a101`", "did you mean `dgx-a100`"),
        ("node = \"dgx-a100\"", "node = 3", "found integer `3`", "the name of a node, or a [group.node] table"),
        ("node = \"dgx-a100\"", "nodule = \"dgx-a100\"", "unknown key `nodule`", "`node`"),
        ("nics = 2 }", "nics = 0 }", "nodes without an adapter", "at least 1"),
        ("name = \"storage\"", "name = \"storage\"\nlink = \"hdrr\"", "`hdrr`", "did you mean `hdr`"),
        (
            "name = \"storage\"",
            "name = \"storage\"\nlink = \"fdr\"",
            "the switch `qm8700` does not run at `fdr`",
            "it runs at `hdr`, `hdr100`, `edr`",
        ),
        ("name = \"storage\"", "name = \"storage\"\nlink = \"ndr\"", "the adapter `connectx-6` does not run at `ndr`", "it runs at"),
        ("nic = \"connectx-6\"", "nic = \"cassini\"", "the adapter `cassini`", ""),
        ("name = \"storage\"", "name = \"storage\"\nsoftware = \"hpcx-9\"", "`hpcx-9`", "did you mean"),
        ("name = \"storage\"", "name = \"storage\"\nsoftware = \"cray-mpich-cxi\"", "drives adapters through", "use one of"),
        ("name = \"storage\"", "name = \"storage\"\nfirst_leaf = 99", "there is no leaf switch 99", "or make the topology larger"),
        ("name = \"storage\"", "name = \"storage\"\nfirst_leaf = 0", "leaf switch 0 has nodes of the group before", "write 7 or more"),
        ("name = \"storage\"", "name = \"storage\"\ncable = { part = \"string\" }", "`string`", ""),
        ("nodes = 16", "nodes = 4000", "do not fit: the topology holds", "use fewer nodes"),
        ("topology.fat_tree = { levels = 2 }", "topology.rail_optimised = {}", "on rails", "as many adapters as there are rails"),
    ];
    for (from, to, message, remedy) in cases {
        let error = resolved(&[(from, to)]).expect_err(to);
        let help = error.help().map(|help| help.to_string()).unwrap_or_default();
        assert!(error.to_string().contains(message), "{to}: {error}");
        assert!(help.contains(remedy), "{to}: {error}\nhelp: {help}");
    }
}
