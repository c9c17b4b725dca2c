//! The nodes of the catalogue: each holds together, and its counts and rates are the published ones.
#![expect(clippy::disallowed_methods, reason = "UPDATE_GOLDEN writes the pinned file anew")]

use crate::embedded::catalog;
use std::collections::BTreeSet;

use fabriscope_catalog::{Catalog, Kind, Node, ResolvedNode};
use fabriscope_machine::{Access, LinkKind, Machine, PathClass, Purpose, VertexKind};
use fabriscope_units::{Bytes, Rate, Span};

fn node(catalog: &Catalog, name: &str) -> ResolvedNode {
    let node = Node { part: Some(name.to_owned()), ..Node::default() };
    catalog.resolve_node(&node).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn machine(catalog: &Catalog, name: &str) -> Machine {
    node(catalog, name).machine().unwrap()
}

#[test]
fn every_node_holds_together() {
    let catalog = catalog();
    for name in catalog.names(Kind::Node) {
        let node = node(&catalog, name);
        let machine = node.machine().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((machine.gpus().len(), machine.nics().len()), (node.gpus as usize, node.nics as usize), "{name}");
        for numa in machine.numas() {
            assert!(machine.memory_of(numa).is_some(), "{name}: {}", machine.vertex(numa).name);
        }
        for gpu in machine.gpus() {
            let memory = machine.memory_of(gpu).unwrap();
            let nic = machine.nearest(memory, &machine.nics(), Purpose::Copy).unwrap();
            assert!(machine.path(memory, nic, Purpose::Copy).unwrap().rate(&machine, Access::Read) > Rate::from_gbps(1), "{name}");
        }
    }
}

#[test]
fn every_cluster_has_a_machine() {
    let catalog = catalog();
    for name in catalog.names(Kind::Cluster) {
        let cluster = catalog.target(name).unwrap();
        for node in cluster.groups.iter().map(|group| &group.node) {
            let machine = node.machine().unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!((machine.nics().len(), machine.gpus().len()), (node.nics as usize, node.gpus as usize), "{name}");
        }
    }
}

#[test]
fn devices_are_as_many_as_published() {
    let catalog = catalog();
    for (name, sockets, gpus, nics) in [
        ("dgx-1v", 2, 8, 4),
        ("dgx-a100", 2, 8, 8),
        ("hgx-h100", 2, 8, 8),
        ("hgx-h200", 2, 8, 8),
        ("hgx-b200", 2, 8, 8),
        ("hgx-b300", 2, 8, 8),
        ("hgx-mi355x", 2, 8, 8),
        ("gb200-nvl72", 36, 72, 72),
        ("gh200-quad", 4, 4, 4),
        ("mi250x", 1, 8, 4),
        ("mi300a", 4, 4, 4),
        ("aurora-pvc", 2, 6, 8),
        ("aws-p4d", 2, 8, 4),
        ("aws-p5", 2, 8, 32),
        ("azure-ndv4", 2, 8, 8),
        ("hls-gaudi2", 2, 8, 24),
        ("hls-3", 2, 8, 24),
        ("opa100-a40", 2, 1, 1),
        ("ibex-a100x4", 1, 4, 2),
    ] {
        let node = node(&catalog, name);
        assert_eq!((node.sockets, node.gpus, node.nics), (sockets, gpus, nics), "{name}");
    }
}

/// Raw rate of all scale-up links of a GPU, both ways together, in GB/s.
fn both_ways(machine: &Machine, gpu: usize) -> u64 {
    let gpu = machine.gpus()[gpu];
    let links = machine.around(gpu).iter().map(|id| machine.link(*id)).filter(|link| link.kind.is_scale_up());
    links.map(|link| (link.rate[0].as_bps() + link.rate[1].as_bps()) / 8_000_000_000).sum()
}

#[test]
fn scale_up_totals_are_the_published_ones() {
    let catalog = catalog();
    // NVLink 2 to 5: 300, 600, 900 and 1800 GB/s for each GPU, both ways together.
    for (name, total) in [
        ("dgx-1v", 300),
        ("dgx-a100", 600),
        ("azure-ndv4", 600),
        ("aws-p4de", 600),
        ("hgx-h100", 900),
        ("hgx-h200", 900),
        ("gh200-quad", 900),
        ("hgx-b200", 1800),
        ("hgx-b300", 1800),
        ("gb200-nvl72", 1800),
        // Seven links of 64 GB/s each way; three ports of 100 GbE to each of seven.
        ("hgx-mi300x", 896),
        ("hls-gaudi2", 525),
        ("hls-3", 1050),
    ] {
        let machine = machine(&catalog, name);
        for gpu in 0..machine.gpus().len() {
            assert_eq!(both_ways(&machine, gpu), total, "{name}: gpu{gpu}");
        }
    }
    // Frontier: 400 GB/s within a card, 200 or 100 between cards, both ways.
    let mi250x = machine(&catalog, "mi250x");
    assert_eq!((both_ways(&mi250x, 0), both_ways(&mi250x, 1)), (700, 600));
}

fn class(machine: &Machine, a: &str, b: &str) -> PathClass {
    machine.class(machine.find(a).unwrap(), machine.find(b).unwrap())
}

#[test]
fn classes_are_those_of_nvidia_smi() {
    let catalog = catalog();
    let dgx = machine(&catalog, "dgx-a100");
    assert_eq!(class(&dgx, "gpu0", "gpu7"), PathClass::Nvl);
    assert_eq!(class(&dgx, "gpu0", "nic0"), PathClass::Pix);
    assert_eq!(class(&dgx, "gpu0", "nic2"), PathClass::Node);
    assert_eq!(class(&dgx, "gpu0", "nic4"), PathClass::Sys);
    // The cube has no link from corner to corner, and its GPUs do not pass traffic on.
    let cube = machine(&catalog, "dgx-1v");
    assert_eq!(class(&cube, "gpu0", "gpu4"), PathClass::Nvl);
    assert_eq!(class(&cube, "gpu0", "gpu7"), PathClass::Sys);
    // Dies of MI250X do.
    assert_eq!(class(&machine(&catalog, "mi250x"), "gpu0", "gpu7"), PathClass::Nvb);
    assert_eq!(class(&machine(&catalog, "hls-gaudi2"), "gpu3", "nic9"), PathClass::Pix);
}

#[test]
fn rates_follow_from_the_parts() {
    let catalog = catalog();
    let rate = |name: &str, from: &str, to: &str, purpose, access| {
        let machine = machine(&catalog, name);
        let path = machine.path(machine.find(from).unwrap(), machine.find(to).unwrap(), purpose).unwrap();
        path.rate(&machine, access).as_bps() as f64 / 8e9
    };
    let near = |found: f64, published: f64, share: f64| assert!((found / published - 1.0).abs() < share, "{found} for {published}");
    // nvbandwidth of ND A100 v4 and ND H100 v5, host to device; p2pBandwidthLatencyTest of A100 and H100 one way.
    near(rate("azure-ndv4", "numa1-memory", "gpu0-memory", Purpose::Copy, Access::Read), 26.28, 0.1);
    near(rate("azure-ndv5", "numa0-memory", "gpu0-memory", Purpose::Copy, Access::Read), 51.0, 0.1);
    near(rate("azure-ndv5", "gpu0-memory", "numa0-memory", Purpose::Copy, Access::Write), 52.0, 0.1);
    near(rate("azure-ndv4", "gpu0-memory", "gpu5-memory", Purpose::Copy, Access::Write), 274.0, 0.01);
    near(rate("azure-ndv5", "gpu0-memory", "gpu5-memory", Purpose::Copy, Access::Write), 376.0, 0.01);
    // Two links between dies of different cards: 80.3 GB/s at 1 GiB (table gpu-aware-on).
    near(rate("mi250x", "gpu0-memory", "gpu6-memory", Purpose::Copy, Access::Write), 80.3, 0.05);
    // An adapter below the GPU's switch is bound by its slot, one at another bridge by what the processor passes.
    near(rate("dgx-1v", "gpu0-memory", "nic0", Purpose::Dma, Access::Read), 12.5, 0.1);
    near(rate("dgx-1v", "gpu0-memory", "nic1", Purpose::Dma, Access::Read), 3.4, 0.01);
}

#[test]
fn a_processor_and_its_gpu_share_the_memory_of_mi300a() {
    let machine = machine(&catalog(), "mi300a");
    assert_eq!(machine.of(|kind| kind == VertexKind::HostMemory).count(), 0);
    let (gpu, numa) = (machine.find("gpu2").unwrap(), machine.find("numa2").unwrap());
    assert_eq!(machine.memory_of(gpu), machine.memory_of(numa));
}

#[test]
fn a_tray_reaches_the_others_by_nvlink_alone() {
    let machine = machine(&catalog(), "gb200-nvl72");
    assert_eq!(class(&machine, "gpu0", "gpu71"), PathClass::Nvl);
    assert_eq!(class(&machine, "gpu0", "nic71"), PathClass::Dis);
    let coherent = machine.links().iter().filter(|link| link.kind == LinkKind::Coherent).count();
    assert_eq!(coherent, 72);
    let seen = machine.system_of(machine.find("numa1").unwrap());
    let own: Vec<usize> = (0..72).filter(|gpu| seen[machine.gpus()[*gpu].index()]).collect();
    assert_eq!(own, [0, 1, 2, 3]);
}

/// Pearson, arXiv 2302.14827: a die reaches the memory of every domain by its own link to the processor, at the same rate; between dies
/// kernels get 4, 2 or 1 links (some 154, 77 and 38 GB/s here).
#[test]
fn dies_of_mi250x_reach_hosts_by_their_own_link_and_peers_by_as_many_as_there_are() {
    let machine = machine(&catalog(), "mi250x");
    let rate = |from: &str, to: &str| {
        let path = machine.path(machine.find(from).unwrap(), machine.find(to).unwrap(), Purpose::Copy).unwrap();
        let passed = path.steps.iter().filter(|step| machine.link(step.link).kind.is_scale_up()).count();
        (passed, (path.rate(&machine, Access::Write).as_bps() as f64 / 8e8).round() / 10.0)
    };
    for gpu in 0..8 {
        for numa in 0..4 {
            assert_eq!(rate(&format!("gpu{gpu}-memory"), &format!("numa{numa}-memory")), (0, 28.0), "gpu{gpu} numa{numa}");
        }
    }
    assert_eq!(["gpu1", "gpu6", "gpu2"].map(|to| rate("gpu0", to)), [(1, 154.0), (1, 77.0), (1, 38.5)]);
}

/// UALink 200G 1.0: 256 B in 268 B of transactions, 628 of 640 B of a flit: the consortium tells of 93 %. Broadcom: less than 400 ns from
/// accelerator to accelerator through Tomahawk Ultra.
#[test]
fn pods_carry_what_their_flits_leave() {
    let catalog = catalog();
    for (name, share, latency) in
        [("lab-ualink-64", 256.0 / 268.0 * 628.0 / 640.0, 450), ("lab-sue-64", 256.0 / 272.0 * 2176.0 / 2214.0, 400)]
    {
        let machine = machine(&catalog, name);
        let path = machine.path(machine.find("gpu0").unwrap(), machine.find("gpu63").unwrap(), Purpose::Copy).unwrap();
        let found = path.rate(&machine, Access::Write).as_bps() as f64 / 6.4e12;
        assert!((found / share - 1.0).abs() < 1e-4, "{name}: {found} for {share}");
        assert_eq!(path.latency(&machine), Span::from_ns(latency), "{name}");
        // Data one way, answers the other.
        let uses = machine.uses(&path, Access::Write);
        assert_eq!((path.steps.len(), uses.len()), (2, 4), "{name}");
    }
    // With credits for half of what is in flight a link carries half of its rate.
    let mut part = node(&catalog, "lab-ualink-64").layout.scale_up.unwrap().part;
    let loop_time = Span::from_ns(200);
    assert_eq!(part.credited_rate(4, loop_time), Rate::from_gbps(800));
    part.credits.as_mut().unwrap().value = Bytes(2500);
    assert_eq!(part.credited_rate(4, loop_time), Rate::from_gbps(400));
}

#[test]
fn fewer_devices_are_the_first_ones() {
    let catalog = catalog();
    let node = Node { part: Some("dgx-a100".to_owned()), gpus: Some(3), nics: Some(2), ..Node::default() };
    let machine = catalog.resolve_node(&node).unwrap().machine().unwrap();
    assert_eq!((machine.gpus().len(), machine.nics().len()), (3, 2));
    assert_eq!(both_ways(&machine, 0), 600);
}

/// The table of docs/models/nodes.md.
fn table(catalog: &Catalog) -> String {
    let mut text =
        String::from("| node | processors | GPUs | scale-up of a GPU (GB/s, both directions) | adapters | nearest adapter of a GPU |\n");
    text.push_str("|---|---|---|--:|---|---|\n");
    for name in catalog.names(Kind::Node) {
        let node = node(catalog, name);
        let machine = node.machine().unwrap();
        let (gpus, nics) = (machine.gpus(), machine.nics());
        let several = |number: u32, name: &str| if number == 1 { name.to_owned() } else { format!("{number} × {name}") };
        let of_gpu = node.gpu.as_ref().map_or("–".to_owned(), |gpu| several(node.gpus, &gpu.name));
        let total = (0..gpus.len()).map(|gpu| both_ways(&machine, gpu)).max().filter(|total| *total > 0);
        let classes: BTreeSet<PathClass> = gpus
            .iter()
            .filter_map(|gpu| machine.path(*gpu, machine.nearest(*gpu, &nics, Purpose::Copy)?, Purpose::Copy))
            .map(|path| machine.class_of(&path))
            .collect();
        let classes = classes.iter().map(PathClass::to_string).collect::<Vec<_>>().join(", ");
        let row = [
            format!("`{name}`"),
            several(node.sockets, &node.cpu.name),
            of_gpu,
            total.map_or("–".to_owned(), |total| total.to_string()),
            several(node.nics, &node.nic.name),
            if classes.is_empty() { "–".to_owned() } else { classes },
        ];
        text.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    text
}

#[test]
fn the_document_has_every_node() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/models/nodes.md");
    let document = std::fs::read_to_string(&path).unwrap();
    let wanted = table(&catalog());
    let start = document.find("| node | processors").unwrap();
    let end = start + document[start..].find("\n\n").unwrap() + 1;
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, format!("{}{wanted}{}", &document[..start], &document[end..])).unwrap();
        return;
    }
    assert!(document[start..end] == wanted, "UPDATE_GOLDEN=1 writes the table anew:\n{wanted}");
}

#[test]
fn the_cube_of_dgx_1_is_that_of_nvidia_smi() {
    // `nvidia-smi topo -m` of a DGX-1 with V100, as published: links to GPU 0 to 7, 0 where it says SYS.
    let published = [
        [0, 1, 1, 2, 2, 0, 0, 0],
        [1, 0, 2, 1, 0, 2, 0, 0],
        [1, 2, 0, 2, 0, 0, 1, 0],
        [2, 1, 2, 0, 0, 0, 0, 1],
        [2, 0, 0, 0, 0, 1, 1, 2],
        [0, 2, 0, 0, 1, 0, 2, 1],
        [0, 0, 1, 0, 1, 2, 0, 2],
        [0, 0, 0, 1, 2, 1, 2, 0],
    ];
    let machine = machine(&catalog(), "dgx-1v");
    let (gpus, nics) = (machine.gpus(), machine.nics());
    for (a, row) in published.iter().enumerate() {
        for (b, links) in row.iter().enumerate().filter(|(b, _)| *b != a) {
            let path = machine.path(gpus[a], gpus[b], Purpose::Copy).unwrap();
            let found = match machine.link(path.steps[0].link).kind {
                LinkKind::NvLink { links, .. } => links,
                _ => 0,
            };
            assert_eq!((found, machine.class_of(&path) == PathClass::Nvl), (*links, *links > 0), "gpu{a} gpu{b}");
        }
        // Its own switch, the other one of the socket, the other socket.
        for (nic, id) in nics.iter().enumerate() {
            let wanted = match (a / 2 == nic, a / 4 == nic / 2) {
                (true, _) => PathClass::Pix,
                (_, true) => PathClass::Phb,
                _ => PathClass::Sys,
            };
            assert_eq!(machine.class(gpus[a], *id), wanted, "gpu{a} nic{nic}");
        }
    }
}

/// Host and cores are beyond one switch: what it adds is on both ways, and all that the adapter moves goes through its one port.
#[test]
fn cores_on_an_adapter_share_its_port_with_the_host() {
    let catalog = catalog();
    for name in ["lab-bluefield-2", "lab-bluefield-3", "lab-ipu-e2000"] {
        let cluster = catalog.target(name).unwrap();
        let (node, dpu) = (&cluster.sole().node, cluster.sole().node.dpu.as_ref().unwrap());
        let machine = node.machine().unwrap();
        let (nic, cores) = (machine.nics()[0], machine.dpus()[0]);
        let host = machine.host_memory_of(nic).unwrap();
        let own = machine.memory_of(cores).unwrap();
        let path = |memory| machine.path(nic, memory, Purpose::Dma).unwrap();
        let switch = *dpu.part.switch_latency;
        assert_eq!(path(host).latency(&machine), *node.cpu.root_complex.dma_write_latency + switch, "{name}");
        assert_eq!(path(own).latency(&machine), *dpu.cpu.root_complex.dma_write_latency + switch, "{name}");
        assert_eq!(path(host).steps[0].link, path(own).steps[0].link, "{name}: one port");
        // From the host's memory to that of the cores there is a way that does not pass the adapter.
        let across = machine.path(host, own, Purpose::Copy).unwrap();
        assert!(!across.vertices(&machine).contains(&nic), "{name}");
        let rate = path(own).rate(&machine, Access::Write);
        assert!(rate <= dpu.memory_rate() && rate > Rate::from_gbps(100), "{name}: {rate}");
    }
}
