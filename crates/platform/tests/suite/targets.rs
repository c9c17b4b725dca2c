//! What programs find on the catalogue's clusters: names of adapters as Linux has them, ports, memories, bindings.

use fabriscope_catalog::{AnyPart, Catalog, Interface};
use fabriscope_nccl::{Protocol, Release, Settings};
use fabriscope_platform::nccl::{JobLibrary, Library};
use fabriscope_platform::processor::{Bound, Pace};
use fabriscope_platform::{Binding, Layout, LinkType, PciAddress, Processor, Target, device, path_mtu};
use fabriscope_units::{Bytes, Rate};
use proptest::prelude::*;

const PAIR: Layout = Layout { nodes: 2, per_node: 1 };

fn target(catalog: &Catalog, name: &str) -> Target {
    Target::of(&catalog.target(name).unwrap(), PAIR, Binding::default())
}

#[test]
fn adapters_have_the_names_of_their_drivers() {
    // mlx5, hfi1, cxi, efa and cxgb4 as their drivers number them; thor is driven through verbs as well.
    let table = [
        ("ri2", vec!["mlx5_0"]),
        ("archer2", vec!["mlx5_0", "mlx5_1"]),
        ("csd3-opa", vec!["hfi1_0"]),
        ("lumi-g", vec!["cxi0", "cxi1", "cxi2", "cxi3"]),
        ("aws-c5n-efa", vec!["efa_0"]),
        ("lab-iwarp-t6", vec!["cxgb4_0"]),
    ];
    let catalog = Catalog::embedded().unwrap();
    for (name, devices) in table {
        assert_eq!(target(&catalog, name).devices, devices, "{name}");
    }
    assert_eq!(device(Interface::Portals, 3), "bxi3");
}

#[test]
fn ports_and_their_limits() {
    // Link, path MTU, inline, reads outstanding: mlx5 takes 828 B and 16, bnxt_re 96 B, cxgb4 32 reads.
    let table = [
        ("ri2", LinkType::InfiniBand, 4096, 828, 16),
        ("thor-roce-100g", LinkType::Ethernet, 4096, 96, 16),
        ("lumi-c", LinkType::Ethernet, 2048, 192, 16),
        ("lab-iwarp-t6", LinkType::Ethernet, 1024, 828, 32),
    ];
    let catalog = Catalog::embedded().unwrap();
    for (name, link, mtu, inline, reads) in table {
        let target = target(&catalog, name);
        assert_eq!((target.link, target.mtu, target.max_inline, target.max_outstanding_reads), (link, mtu, inline, reads), "{name}");
    }
    // SRD and Cassini deliver in any order; connections of verbs do not.
    assert_eq!(["aws-c5n-efa", "lumi-c", "ri2"].map(|name| target(&catalog, name).unordered), [true, true, false]);
}

#[test]
fn processors_move_what_their_parts_say() {
    // RI2: two sockets of 48.9 GB/s (STREAM), 18 GB/s a core, 35 MiB of cache each.
    let node = target(&Catalog::embedded().unwrap(), "ri2").processor.unwrap();
    let gb = |tenths: u64| Rate::from_bps(800_000_000 * tenths);
    let large = Bytes(1 << 30);
    assert_eq!(node.all_cores(), 28);
    assert_eq!(node.pace(1, 28, large), Pace { rate: gb(978), bound: Bound::Memory { sockets: 2 } });
    assert_eq!(node.pace(1, 1, large), Pace { rate: gb(180), bound: Bound::Cores { cores: 1 } });
    // 28 ranks share both: 97.8 / 28 = 3.49 GB/s each.
    assert_eq!(node.pace(28, 1, large).rate.as_bps(), gb(978).as_bps() / 28);
    // 70 MiB in all are held by the caches: 2 · 16 GB/s a core, as a copy reads and writes.
    assert_eq!(node.pace(28, 1, Bytes::from_mib(2)), Pace { rate: gb(320), bound: Bound::Caches { cores: 1 } });
}

#[test]
fn gpus_are_found_where_the_node_has_them() {
    let catalog = Catalog::embedded().unwrap();
    for part in catalog.parts() {
        let AnyPart::Cluster(cluster) = part else { continue };
        let parts = catalog.target(&cluster.name).unwrap();
        if parts.uniform().is_none() {
            continue;
        }
        let target = Target::of(&parts, PAIR, Binding::default());
        let gpus = parts.sole().node.gpus;
        assert_eq!(target.gpu.as_ref().map_or(0, |gpu| gpu.count), gpus, "{}", cluster.name);
        let Some(gpu) = target.gpu else { continue };
        let addresses = gpu.addresses();
        assert_eq!(addresses.len() as u32, gpus, "{}", cluster.name);
        let mut different: Vec<String> = addresses.iter().map(PciAddress::to_string).collect();
        different.sort();
        different.dedup();
        assert_eq!(different.len() as u32, gpus, "{}: two GPUs at one address: {different:?}", cluster.name);
        // A kernel reads at less than the peak of the memory, and more than a third of it.
        let peak = parts.sole().node.gpu.as_ref().unwrap().memory.peak.as_bps();
        assert!(gpu.read_rate.as_bps() <= peak && gpu.read_rate.as_bps() > peak / 3, "{}", cluster.name);
    }
}

#[test]
fn libraries_of_collectives_fit_the_vendor() {
    // NCCL on NVIDIA's GPUs, RCCL on AMD's; lines of 16 B with 8 B of data and of 128 B with 120 B.
    let catalog = Catalog::embedded().unwrap();
    let table = [("azure-ndh100v5", Some(("NCCL", 8, Some(90)))), ("lumi-g", Some(("RCCL", 8, None))), ("ri2", None)];
    for (name, expected) in table {
        let library = Library::of(&catalog.target(name).unwrap());
        assert_eq!(library.as_ref().map(|library| (library.name, library.gpus(), library.capability())), expected, "{name}");
        let Some(library) = library else { continue };
        assert_eq!(Protocol::ALL.map(|protocol| library.pace(protocol).taken), [(16, 8), (128, 120), (1, 1)], "{name}");
        assert_eq!(Protocol::ALL.map(|protocol| library.pace(protocol).fenced), [false, false, true], "{name}");
        // Two nodes with some GPUs each.
        let joined = JobLibrary::from(library).join(2, 4, &Settings::default()).unwrap();
        assert_eq!((joined.ranks(), joined.nodes()), (8, 2), "{name}");
    }
}

#[test]
fn calls_take_as_long_as_the_processor_needs_for_code() {
    // 3.5 us for a call and 2.5 for the start of a kernel on the core of reference; 85 % of it on Zen 2 at 3.4 GHz, 56 on Golden Cove at 3.8.
    let catalog = Catalog::embedded().unwrap();
    let call = |name| Library::of(&catalog.target(name).unwrap()).unwrap().call.as_us_f64();
    assert!((call("azure-nda100v4") - 5.1).abs() < 1e-6 && (call("azure-ndh100v5") - 3.36).abs() < 1e-6);
}

#[test]
fn clusters_name_the_library_of_collectives() {
    let catalog = Catalog::embedded().unwrap();
    let release = |name| Library::of(&catalog.target(name).unwrap()).unwrap().settings.release;
    assert_eq!((release("azure-nda100v4"), release("lab-gb200-nvl72")), (Release::V2_18, Release::Usual));
    for (named, problem) in [
        ("rccl", "`rccl` does not drive `h100-sxm5` over `connectx-7`"),
        ("hpcx-2.7", "`hpcx-2.7` has no collectives on GPUs"),
        ("nccl-9", "nccl-9"),
    ] {
        let text = format!("name = \"named\"\ntitle = \"t\"\nbase = \"azure-ndh100v5\"\ncollectives = \"{named}\"\n");
        let cluster = catalog.parse_cluster("named.toml", &text).unwrap();
        let error = catalog.resolve(&cluster, None).err().unwrap().to_string();
        assert!(error.contains(problem), "{error}");
    }
}

#[test]
fn nodes_that_cannot_talk_are_refused() {
    let catalog = Catalog::embedded().unwrap();
    // LUMI: both partitions have Cassini; the lesser of both holds.
    let lumi = Target::common(&catalog.target("lumi").unwrap(), PAIR, Binding::default()).unwrap();
    assert_eq!((lumi.interface, lumi.nodes, lumi.devices.len()), (Interface::Cxi, 2048 + 2978, 1));
    assert_eq!(lumi.gpu, None, "only some of the nodes have GPUs");
    // The same nodes with PSM2 on one side cannot: another interface.
    let text = "name = \"apart\"\ntitle = \"t\"\nbase = \"lab-edr-hdr\"\n[[group]]\nname = \"a\"\nnodes = 4\nnode = { cpu = \"epyc-7742\", sockets = 2, nic = \"connectx-6\" }\n[[group]]\nname = \"b\"\nnodes = 4\nsoftware = \"mvapich2-2.3.7\"\nnode = { cpu = \"epyc-7742\", sockets = 2, nic = \"connectx-6\" }\n";
    let Ok(cluster) = catalog.parse_cluster("apart.toml", text) else { panic!("{:?}", catalog.parse_cluster("apart.toml", text).err()) };
    let parts = catalog.resolve(&cluster, None).unwrap();
    let error = Target::common(&parts, PAIR, Binding::default()).unwrap_err().to_string();
    assert!(error.contains("two libraries that cannot talk") && error.contains("mvapich2-2.3.7"), "{error}");
}

proptest! {
    /// A port negotiates the largest MTU of the standard that both carry: 256 B times a power of two, 4096 B at most.
    #[test]
    fn path_mtus_are_those_of_the_standard(bytes in 256u32..20_000) {
        let mtu = path_mtu(bytes).bytes().0 as u32;
        prop_assert!([256, 512, 1024, 2048, 4096].contains(&mtu));
        prop_assert!(mtu <= bytes && (mtu == 4096 || bytes < 2 * mtu));
    }

    /// An address prints as it is read.
    #[test]
    fn addresses_are_read_as_printed(domain in 0u32..0x1_0000, bus in 0u32..0x100, device in 0u32..0x20) {
        let address = PciAddress { domain, bus, device };
        prop_assert_eq!(PciAddress::parse(&format!("{address}.0")), Some(address));
    }

    /// Ranks never get more than the memories together, nor more than their cores; more ranks never get more each.
    #[test]
    fn memory_is_shared(sockets in 1u32..5, cores in 1u32..65, ranks in 1u32..130, threads in 1u32..9, memory in 10u64..500, core in 5u64..40) {
        let gb = |rate: u64| Rate::from_gbps(8 * rate);
        let node = Processor { sockets, cores, memory: gb(memory), core: gb(core), cached: gb(40), caches: Bytes(1 << 20), complexes: 1 };
        let large = Bytes(1 << 40);
        let pace = node.pace(ranks, threads, large).rate.as_bps();
        prop_assert!(pace * u64::from(ranks) <= gb(memory).as_bps() * u64::from(sockets));
        prop_assert!(pace <= gb(core).as_bps() * u64::from(threads));
        prop_assert!(node.pace(ranks + 1, threads, large).rate.as_bps() <= pace);
    }

    /// GPUs are taken in turn, or as the list says, also in turn.
    #[test]
    fn ranks_take_gpus_in_turn(list in prop::collection::vec(0u32..8, 0..5), rank in 0u32..40, count in 1u32..9) {
        let binding = Binding::new(list.clone());
        let expected = if list.is_empty() { rank % count } else { list[rank as usize % list.len()] };
        prop_assert_eq!(binding.gpu(rank, count), Some(expected));
        prop_assert_eq!(binding.gpu(rank, 0), None);
        prop_assert_eq!(binding.largest(), list.iter().max().copied());
        prop_assert_eq!(binding.at(vec![3, 1]).domain(rank), Some(if rank % 2 == 0 { 3 } else { 1 }));
    }
}
