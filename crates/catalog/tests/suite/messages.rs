//! Every way an input can be wrong: the exact first line and remedy that a person reads.
#![expect(clippy::disallowed_methods, reason = "UPDATE_GOLDEN writes the pinned file anew")]

use std::fmt::Write as _;
use std::path::Path;

use fabriscope_catalog::{Catalog, CatalogError, Kind};
use miette::Diagnostic;

/// First line and help, as the table below has them.
fn told(error: &CatalogError) -> String {
    let help = error.help().map(|help| help.to_string()).unwrap_or_default();
    format!("{error}\n    help: {help}")
}

/// A small catalogue of its own: the messages do not change with the parts that come with the program.
fn fixtures() -> Catalog {
    Catalog::only(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")).unwrap()
}

/// A folder with all that is in it.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, into) = entry.map(|entry| (entry.path(), to.join(entry.file_name()))).unwrap();
        if path.is_dir() {
            copy(&path, &into);
        } else {
            std::fs::copy(path, into).unwrap();
        }
    }
}

/// The text of a part with one text in it replaced.
fn edited(catalog: &Catalog, kind: Kind, name: &str, from: &str, to: &str) -> String {
    let text = catalog.text_of(kind, name).unwrap();
    assert!(text.contains(from), "{name} has no {from}");
    text.replacen(from, to, 1)
}

/// A lab in which something breaks, in its fifth line.
fn broken(kind: &str) -> String {
    format!("cluster = \"pair\"\n\n[[fault]]\nat = \"1 us\"\n{kind}\n\n[workload.shift]\nby = 1\nsize = \"1 B\"\n")
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table: one line for each mistake")]
fn wrong_parts_clusters_and_labs() {
    let catalog = fixtures();
    let mut table = String::new();
    let mut row = |what: &str, error: CatalogError| writeln!(table, "{what}\n    {}\n", told(&error)).unwrap();

    let parts: &[(&str, Kind, &str, &str, &str)] = &[
        ("unknown key", Kind::Nic, "adapter-5", "tx_latency =", "tx_latncy ="),
        ("missing key", Kind::Nic, "adapter-5", "ports = 1\n", ""),
        ("missing inner key", Kind::Cpu, "core-14", "max_payload =", "# max_payload ="),
        ("onload adapter without buffers", Kind::Nic, "adapter-5", "ports = 1\n", "interface = \"psm2\"\nports = 1\n"),
        (
            "switch that reduces what nobody has",
            Kind::Switch,
            "crossbar-36",
            "layer =",
            "aggregation = { protocol = \"own\", latency = { value = \"1 us\", basis = \"assumed\", note = \"n\" }, interval = { value = \"1 us\", basis = \"assumed\", note = \"n\" }, payload = { value = \"64 B\", basis = \"assumed\", note = \"n\" }, slots = { value = 1, basis = \"assumed\", note = \"n\" }, group_slots = { value = 1, basis = \"assumed\", note = \"n\" }, groups = { value = 1, basis = \"assumed\", note = \"n\" }, trees = { value = 1, basis = \"assumed\", note = \"n\" }, children = { value = 1, basis = \"assumed\", note = \"n\" }, operations = [\"allreduce\"], elements = [\"int12\"] }\nlayer =",
        ),
        ("text for a list", Kind::Nic, "adapter-5", "speeds = [\"edr\", \"100gbe\"]", "speeds = \"edr\""),
        ("number for a table", Kind::Nic, "adapter-5", "pcie = { generation = 3, lanes = 16 }", "pcie = 3"),
        ("number for a name", Kind::Cluster, "pair", "link = \"edr\"", "link = 100"),
        ("length without unit", Kind::Cluster, "pair", "\"2 m\"", "\"2\""),
        ("text for a choice", Kind::Cluster, "pair", "topology.single_switch = {}", "topology = \"single_switch\""),
        (
            "bare number",
            Kind::Nic,
            "adapter-5",
            "{ value = \"5 ns\", basis = \"datasheet\", source = \"ConnectX-5 product brief: 200 million messages per second\" }",
            "\"5 ns\"",
        ),
        ("no unit", Kind::Nic, "adapter-5", "value = \"5 ns\"", "value = \"5\""),
        ("foreign unit", Kind::Nic, "adapter-5", "value = \"5 ns\"", "value = \"5 GB\""),
        ("number for text", Kind::Nic, "adapter-5", "value = \"5 ns\"", "value = 5"),
        ("unknown basis", Kind::Nic, "adapter-5", "basis = \"datasheet\"", "basis = \"datasheets\""),
        ("no note", Kind::Nic, "adapter-5", ", note = \"a read and a write of the host's memory come on top\"", ""),
        ("no source", Kind::Nic, "adapter-5", ", source = \"table ri2-ib_write_lat\"", ""),
        ("unknown choice", Kind::Nic, "adapter-5", "blueflame = \"always\"", "blueflame = \"allways\""),
        ("other name", Kind::Nic, "adapter-5", "name = \"adapter-5\"", "name = \"adapter-55\""),
        ("too many lanes", Kind::Nic, "adapter-5", "lanes = 16", "lanes = 24"),
        ("wrong MTU", Kind::Nic, "adapter-5", "\"4096 B\"", "\"9000 B\""),
        ("syntax", Kind::Nic, "adapter-5", "ports = 1", "ports = "),
        ("key twice", Kind::Nic, "adapter-5", "ports = 1", "ports = 1\nports = 2"),
        ("unknown base", Kind::Nic, "adapter-4", "base = \"adapter-5\"", "base = \"adaptr-5\""),
        (
            "unknown decisions",
            Kind::Software,
            "mvapich2-2.3.7",
            "[mpi]\n",
            "decisions = { value = \"tree\", basis = \"assumed\", note = \"a try\" }\n\n[mpi]\n",
        ),
        (
            "decisions without a library",
            Kind::Software,
            "perftest",
            "[perftest]\n",
            "decisions = { value = \"trees\", basis = \"assumed\", note = \"a try\" }\n\n[perftest]\n",
        ),
        ("decisions without a last row", Kind::Decisions, "trees", ", { algorithm = \"scatter_ring\" }", ""),
        ("decisions for an unknown algorithm", Kind::Decisions, "trees", "scatter_ring", "scatter_rings"),
        ("levels of an unknown operation", Kind::Decisions, "trees", "hierarchical.bcast", "hierarchical.broadcast"),
        ("base is itself", Kind::Nic, "adapter-4", "base = \"adapter-5\"", "base = \"adapter-4\""),
        ("fault in an overridden key", Kind::Nic, "adapter-4", "6.667 ns", "6.667 nS"),
        (
            "cache without entries",
            Kind::Nic,
            "adapter-5",
            "ports = 1",
            "ports = 1\ncontexts = { cached = { value = 0, basis = \"assumed\", note = \"x\" }, size = { value = \"256 B\", basis = \"assumed\", note = \"x\" }, reads = { value = 4, basis = \"assumed\", note = \"x\" } }",
        ),
        ("DPU without cores", Kind::Nic, "adapter-dpu", "cores = 8", "cores = 0"),
        ("DPU without channels", Kind::Nic, "adapter-dpu", "channels = 1", "channels = 0"),
        ("keys across of a DPU that is apart", Kind::Nic, "adapter-dpu", "\"embedded\"", "\"separated\""),
        ("mode of a DPU unknown", Kind::Nic, "adapter-dpu", "\"embedded\"", "\"embeded\""),
        ("DPU of an adapter without verbs", Kind::Nic, "adapter-dpu", "base =", "interface = \"cxi\"\nbase ="),
        ("rate that does not follow", Kind::Link, "edr", "\"100 Gb/s\"", "\"120 Gb/s\""),
        ("faster than light", Kind::Cable, "copper", "\"5 ns\"", "\"3 ns\""),
        ("thresholds beyond the buffer", Kind::Switch, "ethernet-48", "xoff = { value = \"96 KiB\"", "xoff = { value = \"250 KiB\""),
        ("unknown cluster key", Kind::Cluster, "pair", "placement =", "placment ="),
        ("two topologies", Kind::Cluster, "tree", "levels = 2", "levels = 2\ntopology.single_switch = {}"),
        ("unknown topology", Kind::Cluster, "tree", "topology.fat_tree", "topology.fat_three"),
        ("no nodes", Kind::Cluster, "pair", "nodes = 2", "nodes = 0"),
        ("negative nodes", Kind::Cluster, "pair", "nodes = 2", "nodes = -2"),
        ("buffer that closes the window", Kind::Kernel, "linux-tcp", "value = \"3 MiB\"", "value = \"1 KiB\""),
        ("marks nobody asks for", Kind::Kernel, "linux-tcp", "\"cubic\"", "\"dctcp\""),
        ("unknown memory kind", Kind::Node, "four", "kind = \"ddr4\"", "kind = \"ddr9\""),
        ("GPU below no switch", Kind::Node, "four", "[\"left\", \"left\", \"right\"", "[\"left\", \"lft\", \"right\""),
        ("switch below a later one", Kind::Node, "four", "under = [\"numa0\", \"numa1\"]", "under = [\"later\", \"numa1\"]"),
        ("switch below a domain that is not there", Kind::Node, "four", "under = [\"numa0\", \"numa1\"]", "under = [\"numa0\", \"numa2\"]"),
        ("switch twice", Kind::Node, "four", "[\"left\", \"right\"]", "[\"left\", \"left\"]"),
        ("switch with the name of a GPU", Kind::Node, "four", "[\"left\", \"right\"]", "[\"left\", \"gpu1\"]"),
        ("more names than places", Kind::Node, "four", "[\"left\", \"right\"]", "[\"left\", \"right\", \"top\"]"),
        ("adapter below a GPU that is not there", Kind::Node, "four", "[\"left\", \"numa0\"]", "[\"left\", \"gpu4\"]"),
        ("pair of GPUs twice", Kind::Node, "four", "[2, 3, 2]", "[1, 0, 2]"),
        ("link to a GPU that is not there", Kind::Node, "four", "[2, 3, 2]", "[2, 4, 2]"),
        ("GPU linked to itself", Kind::Node, "four", "[2, 3, 2]", "[2, 2, 2]"),
        (
            "slot and link to one GPU",
            Kind::Node,
            "four",
            "\"right\", \"right\"]",
            "\"right\", \"right\"]\nslot = { generation = 4, lanes = 8 }\nhost_link = { interconnect = \"fast-link\", links = 1 }",
        ),
        (
            "mesh of another size",
            Kind::Node,
            "four",
            "[scale_up.point_to_point]\npairs = [[0, 1, 2], [1, 2, 2], [2, 3, 2]]",
            "[scale_up.mesh]\ncolumns = 3\nrows = 2\nlinks = 1",
        ),
        (
            "unknown scale-up network",
            Kind::Node,
            "four",
            "[scale_up.point_to_point]\npairs = [[0, 1, 2], [1, 2, 2], [2, 3, 2]]",
            "[scale_up.ring]\nlinks = 1",
        ),
        ("engines that are none", Kind::Gpu, "accel", "count = { value = 2", "count = { value = 0"),
        ("kind of interconnect unknown", Kind::Interconnect, "fast-link", "\"nvlink\"", "\"nvlnk\""),
        ("MTU no power of two", Kind::Cluster, "pair", "\"4096 B\"", "\"1500 B\""),
    ];
    for (what, kind, name, from, to) in parts {
        let text = edited(&catalog, *kind, name, from, to);
        row(what, catalog.parse_part(*kind, name, &text).expect_err(what));
    }

    let clusters: &[(&str, &str, &str, &str)] = &[
        ("missing part", "pair", "nic = \"adapter-5\"", "nic = \"adaptr-5\""),
        ("missing part, none near", "pair", "part = \"copper\"", "part = \"string\""),
        ("speed the adapter lacks", "pair", "link = \"edr\"", "link = \"ndr\""),
        ("speed the switch lacks", "pair", "switch = \"crossbar-36\"", "switch = \"ndr-64\""),
        ("speed between switches that the switch lacks", "tree", "link = \"edr\"", "link = \"edr\"\ntrunk_link = \"ndr\""),
        ("speed of the other layer between groups", "tree", "link = \"edr\"", "link = \"edr\"\nglobal_link = \"100gbe\""),
        ("speed of the other layer", "pair", "link = \"edr\"", "link = \"100gbe\""),
        ("switch of the other layer", "pair", "switch = \"crossbar-36\"", "switch = \"ethernet-48\""),
        ("topology that needs more ports", "tree", "levels = 2", "levels = 2\ntopology.fat_tree.down = 30\ntopology.fat_tree.up = 20"),
        ("adapter that no library drives", "pair", "nic = \"adapter-5\"", "nic = \"adapter-tcp\""),
        ("no switch", "pair", "switch = \"crossbar-36\"\n", ""),
        ("cable too long", "pair", "\"2 m\"", "\"20 m\""),
        ("slot of no generation", "pair", "generation = 3", "generation = 9"),
        ("more nodes than ports", "pair", "nodes = 2", "nodes = 37"),
        ("more nodes than the tree holds", "tree", "nodes = 64", "nodes = 5000"),
        (
            "global cable too long",
            "tree",
            "trunk_length",
            "global_length = { value = \"20 m\", basis = \"assumed\", note = \"a hall\" }\ntrunk_length",
        ),
        (
            "more lanes than the switch has",
            "tree",
            "topology.fat_tree.levels = 2",
            "topology.dragonfly = { switches = 4 }\nrouting = \"valiant\"\nqos.infiniband.max_vls = 4",
        ),
        ("more groups than global ports", "tree", "topology.fat_tree.levels = 2", "topology.dragonfly = { switches = 4, groups = 10 }"),
        (
            "routing of another family",
            "tree",
            "topology.fat_tree.levels = 2",
            "topology.dragonfly = { switches = 4 }\nrouting = \"dimension_order\"",
        ),
        ("IP packets longer than datagrams", "pair", "placement =", "ip.mtu = \"9000 B\"\nplacement ="),
        ("kernel that is not there", "pair", "placement =", "ip.kernel = \"linux\"\nplacement ="),
        ("lane that does not exist", "pair", "placement =", "qos.infiniband = { max_vls = 2, vlarb_low = \"0:64,2:64\" }\nplacement ="),
        (
            "service level to no lane",
            "pair",
            "placement =",
            "qos.infiniband = { max_vls = 2, sl2vl = [0,1,2,0,0,0,0,0,0,0,0,0,0,0,0,0] }\nplacement =",
        ),
        ("data on the lane of management", "pair", "placement =", "qos.infiniband = { max_vls = 2, vlarb_high = \"15:4\" }\nplacement ="),
        ("sixteen lanes for data", "pair", "placement =", "qos.infiniband.max_vls = 16\nplacement ="),
        ("levels left out", "pair", "placement =", "qos.infiniband = { max_vls = 2, sl2vl = [0, 1] }\nplacement ="),
        ("weight of nine bits", "pair", "placement =", "qos.infiniband = { max_vls = 2, vlarb_low = \"0:64,1:256\" }\nplacement ="),
        (
            "arbitration table in another language",
            "pair",
            "placement =",
            "qos.infiniband = { max_vls = 2, vlarb_low = \"0=64\" }\nplacement =",
        ),
        ("lane that would starve", "pair", "placement =", "qos.infiniband = { max_vls = 2, vlarb_low = \"0:64,1:0\" }\nplacement ="),
        ("limit of nine bits", "pair", "placement =", "qos.infiniband = { max_vls = 2, high_limit = 300 }\nplacement ="),
        (
            "tables of a switch that does not exist",
            "pair",
            "placement =",
            "qos.infiniband = { max_vls = 2, switches = [{ switches = [0] }, { switches = [1] }] }\nplacement =",
        ),
        (
            "pair of ports with two tables",
            "pair",
            "placement =",
            "qos.infiniband = { max_vls = 2, switches = [{ switches = [0], pairs = [{ inputs = [1, 2], sl2vl = [0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1] }, { outputs = [3], sl2vl = [0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0] }] }] }\nplacement =",
        ),
        (
            "pair of ports to no lane",
            "pair",
            "placement =",
            "qos.infiniband = { max_vls = 2, switches = [{ switches = [0], pairs = [{ sl2vl = [0,2,0,1,0,1,0,1,0,1,0,1,0,1,0,1] }] }] }\nplacement =",
        ),
        (
            "pair of ports to a lane that would starve",
            "pair",
            "placement =",
            "qos.infiniband = { max_vls = 2, sl2vl = [0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0], vlarb_low = \"0:64\", switches = [{ switches = [0], pairs = [{ sl2vl = [0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1] }] }] }\nplacement =",
        ),
        (
            "pair of ports that does not exist",
            "pair",
            "placement =",
            "qos.infiniband = { max_vls = 2, switches = [{ switches = [0], pairs = [{ inputs = [36], sl2vl = [0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1] }] }] }\nplacement =",
        ),
        ("shares of a buffer for other lanes", "pair", "placement =", "qos.infiniband = { max_vls = 2, vl_buffers = [1] }\nplacement ="),
        (
            "share of a buffer that holds no packet",
            "pair",
            "placement =",
            "qos.infiniband = { max_vls = 2, vl_buffers = [99, 1] }\nplacement =",
        ),
        ("P_Keys enforced on Ethernet", "roce", "switch =", "partition_enforcement = \"both\"\nswitch ="),
        ("enforcement in another language", "pair", "placement =", "partition_enforcement = \"inbound\"\nplacement ="),
        ("more lanes than the adapter has", "pair", "placement =", "qos.infiniband.max_vls = 9\nplacement ="),
        ("Ethernet classes on InfiniBand", "pair", "placement =", "qos.ethernet.classes = []\nplacement ="),
        ("unknown table of quality", "pair", "placement =", "qos.infinband.max_vls = 2\nplacement ="),
        (
            "minimum above maximum",
            "pair",
            "placement =",
            "qos.slingshot.classes = [{ name = \"a\", minimum = 20, maximum = 10 }]\nplacement =",
        ),
        (
            "minimums above the link",
            "pair",
            "placement =",
            "qos.slingshot.classes = [{ name = \"a\", minimum = 60 }, { name = \"b\", minimum = 50 }]\nplacement =",
        ),
        ("class twice", "pair", "placement =", "qos.slingshot.classes = [{ name = \"a\" }, { name = \"a\" }]\nplacement ="),
        ("unknown node", "gpus", "part = \"four\"", "part = \"for\""),
        ("processor beside a node", "pair", "[node]", "[node]\npart = \"four\""),
        ("processor over a node", "gpus", "part = \"four\"", "part = \"four\"\ncpu = \"core-14\""),
        ("node without a processor", "pair", "cpu = \"core-14\"\n", ""),
        ("GPUs of no node", "pair", "sockets = 2", "sockets = 2\ngpus = 4"),
        ("more adapters than slots", "gpus", "nics = 1", "nics = 3"),
        ("more GPUs than slots", "gpus", "part = \"four\"", "part = \"four\"\ngpus = 5"),
        ("unknown GPU in a node", "gpus", "part = \"four\"", "part = \"four\"\ngpu = \"acel\""),
        ("more nodes than numbers", "pair", "nodes = 2", "nodes = 4000000000"),
    ];
    for (what, name, from, to) in clusters {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.toml");
        std::fs::write(&path, edited(&catalog, Kind::Cluster, name, from, to)).unwrap();
        let error = catalog.target(&path.display().to_string()).expect_err(what);
        let told = told(&error).replace(&format!("{}/", folder.path().display()), "");
        writeln!(table, "{what}\n    {told}\n").unwrap();
    }
    for (what, from, to) in [
        ("GPU without a path to an adapter", "socket_link = { interconnect = \"fast-link\", links = 2 }\n", ""),
        ("links between sockets unknown", "interconnect = \"fast-link\"", "interconnect = \"fst-link\""),
        ("more links than a GPU has", "[1, 2, 2]", "[1, 2, 3]"),
        ("slot of a generation that is not there", "slot = { generation = 3, lanes = 16 }", "slot = { generation = 9, lanes = 16 }"),
        ("node without slots", "[nics]\npart = \"adapter-5\"\nunder = [\"left\", \"numa0\"]\nslot = { generation = 3, lanes = 16 }\n", ""),
    ] {
        let folder = tempfile::tempdir().unwrap();
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures"), folder.path());
        std::fs::write(folder.path().join("nodes/four.toml"), edited(&catalog, Kind::Node, "four", from, to)).unwrap();
        let broken = Catalog::only(folder.path()).unwrap().check();
        let text = |error: &CatalogError| told(error).replace(&format!("{}/", folder.path().display()), "");
        writeln!(table, "{what}\n    {}\n", broken.iter().map(text).collect::<Vec<_>>().join("\n    ")).unwrap();
    }
    for (what, from, to) in [
        ("DPU with an unknown processor", "cpu = \"core-14\"", "cpu = \"core-15\""),
        ("more cores than the processor has", "cores = 8", "cores = 15"),
        ("DPU at a generation that is not there", "pcie = { generation = 3", "pcie = { generation = 9"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures"), folder.path());
        std::fs::write(folder.path().join("nics/adapter-dpu.toml"), edited(&catalog, Kind::Nic, "adapter-dpu", from, to)).unwrap();
        let broken = Catalog::only(folder.path()).unwrap().check();
        let text = |error: &CatalogError| told(error).replace(&format!("{}/", folder.path().display()), "");
        writeln!(table, "{what}\n    {}\n", broken.iter().map(text).collect::<Vec<_>>().join("\n    ")).unwrap();
    }
    let mut row = |what: &str, error: CatalogError| writeln!(table, "{what}\n    {}\n", told(&error)).unwrap();

    for (what, target) in [("unknown cluster", "par"), ("no number of nodes", "pair:x"), ("too many asked for", "pair:99")] {
        row(what, catalog.target(target).expect_err(what));
    }
    row("unknown part", catalog.show("adaptr-4").expect_err("show"));

    let labs: &[(&str, &str)] = &[
        ("lab without workload", "cluster = \"pair\""),
        ("lab with unknown workload", "cluster = \"pair\"\n[workload.permutations]\nsize = \"1 B\""),
        ("lab with unknown cluster", "cluster = \"par\"\n[workload.permutation]\nsize = \"1 B\""),
        ("lab with ambiguous unit", "cluster = \"pair\"\n[workload.permutation]\nsize = \"1 KB\""),
        ("lab with too many senders", "cluster = \"pair\"\n[workload.incast]\nsenders = 2\nsize = \"1 B\""),
        ("lab with empty messages", "cluster = \"pair\"\n[workload.shift]\nby = 1\nsize = \"0 B\""),
        (
            "lab with nothing outstanding",
            "cluster = \"pair\"\n[workload.closed_loop]\npattern = \"uniform\"\nsize = \"1 KiB\"\nmessages = 4\noutstanding = [1, 0]",
        ),
        (
            "lab with a pattern unknown",
            "cluster = \"pair\"\n[workload.closed_loop]\npattern = \"unifrom\"\nsize = \"1 KiB\"\nmessages = 4\noutstanding = [1]",
        ),
        (
            "lab with more processes than nodes hold",
            "cluster = \"pair\"\n[workload.alltoallv]\nprocesses_per_node = 28\nprocesses = [56, 112]\nsizes = [\"4 B\"]",
        ),
        (
            "lab with two kinds of sizes",
            "cluster = \"pair\"\n[workload.alltoallv]\nprocesses_per_node = 2\nprocesses = [4]\nsizes = [\"4 B\"]\nvector = [\"4 B\"]",
        ),
        (
            "collective of an operation unknown",
            "cluster = \"pair\"\nengine = \"flow\"\n[workload.collective]\noperation = \"all_reduce\"\nalgorithm = \"ring\"\nsize = \"1 MiB\"",
        ),
        (
            "collective by an algorithm unknown",
            "cluster = \"pair\"\nengine = \"flow\"\n[workload.collective]\noperation = \"allreduce\"\nalgorithm = \"rings\"\nsize = \"1 MiB\"",
        ),
        (
            "collective that switches carry out",
            "cluster = \"pair\"\nengine = \"flow\"\n[workload.collective]\noperation = \"allreduce\"\nalgorithm = \"sharp\"\nsize = \"1 MiB\"",
        ),
        (
            "collective of more ranks than the cluster holds",
            "cluster = \"pair\"\nengine = \"flow\"\n[workload.collective]\noperation = \"allreduce\"\nalgorithm = \"ring\"\nsize = \"1 MiB\"\nranks = 5",
        ),
        (
            "collective with more ranks on a node than cores",
            "cluster = \"pair\"\nengine = \"flow\"\n[workload.collective]\noperation = \"barrier\"\nalgorithm = \"tree\"\nper_node = 1000",
        ),
        (
            "collective from a root out of range",
            "cluster = \"pair\"\nengine = \"flow\"\n[workload.collective]\noperation = \"bcast\"\nalgorithm = \"binomial\"\nsize = \"1 MiB\"\nroot = 4",
        ),
        (
            "collective with a root it does not have",
            "cluster = \"pair\"\nengine = \"flow\"\n[workload.collective]\noperation = \"allreduce\"\nalgorithm = \"ring\"\nsize = \"1 MiB\"\nroot = 0",
        ),
        (
            "collective whose elements do not divide",
            "cluster = \"pair\"\nengine = \"flow\"\n[workload.collective]\noperation = \"allreduce\"\nalgorithm = \"ring\"\nsize = \"1001 B\"\nwidth = \"8 B\"",
        ),
        (
            "collective without data",
            "cluster = \"pair\"\nengine = \"flow\"\n[workload.collective]\noperation = \"allreduce\"\nalgorithm = \"ring\"",
        ),
        (
            "barrier with data",
            "cluster = \"pair\"\nengine = \"flow\"\n[workload.collective]\noperation = \"barrier\"\nalgorithm = \"tree\"\nsize = \"8 B\"",
        ),
        (
            "collective of several ranks a node as packets",
            "cluster = \"pair\"\n[workload.collective]\noperation = \"barrier\"\nalgorithm = \"tree\"\nper_node = 2",
        ),
        ("lab that shifts to itself", "cluster = \"pair\"\n[workload.shift]\nby = 4\nsize = \"1 B\""),
        (
            "lab over datagrams without a library for them",
            "cluster = \"pair\"\n[workload.shift]\nby = 1\nsize = \"8 KiB\"\ntransport = \"ud\"",
        ),
        (
            "lab with a cluster key unknown",
            "[cluster]\nbase = \"pair\"\nnode.nics = 2\nnode.nick = 3\n[workload.shift]\nby = 1\nsize = \"1 B\"",
        ),
        ("lab with an impossible cluster", "[cluster]\nbase = \"pair\"\nnodes = 40\n[workload.shift]\nby = 1\nsize = \"1 B\""),
        (
            "lab with a priority twice",
            "cluster = \"roce\"\nqos.ethernet.classes = [{ priorities = [0, 1], share = 100 }, { priorities = [1], strict = true }]\n[workload.shift]\nby = 1\nsize = \"1 B\"",
        ),
        (
            "lab with shares that are not the whole",
            "cluster = \"roce\"\nqos.ethernet.classes = [{ priorities = [0], share = 60 }, { priorities = [1], share = 30 }]\n[workload.shift]\nby = 1\nsize = \"1 B\"",
        ),
        (
            "lab with a strict share",
            "cluster = \"roce\"\nqos.ethernet.classes = [{ priorities = [0], share = 100 }, { priorities = [1], strict = true, share = 3 }]\n[workload.shift]\nby = 1\nsize = \"1 B\"",
        ),
        (
            "lab with a lossless priority of no class",
            "cluster = \"roce\"\nqos.ethernet = { classes = [{ priorities = [0], share = 100 }], lossless = [3] }\n[workload.shift]\nby = 1\nsize = \"1 B\"",
        ),
        (
            "lab with a DSCP of seven bits",
            "cluster = \"roce\"\nqos.ethernet = { classes = [{ priorities = [0], share = 100 }], dscp = { 64 = 0 } }\n[workload.shift]\nby = 1\nsize = \"1 B\"",
        ),
        ("lab with a service level of five bits", "cluster = \"pair\"\nservice_level = 16\n[workload.shift]\nby = 1\nsize = \"1 B\""),
        ("lab with a priority on InfiniBand", "cluster = \"pair\"\npriority = 1\n[workload.shift]\nby = 1\nsize = \"1 B\""),
        ("lab with a class of nobody", "cluster = \"pair\"\ntraffic_class = \"bulk_io\"\n[workload.shift]\nby = 1\nsize = \"1 B\""),
        (
            "lab with an unknown class",
            "cluster = \"pair\"\nqos.slingshot = {}\ntraffic_class = \"bulk\"\n[workload.shift]\nby = 1\nsize = \"1 B\"",
        ),
        ("lab with a fault on an unknown switch", &broken("kind.link_down = { link = \"leef 0:1\" }")),
        ("lab with a fault on an unknown port", &broken("kind.link_down = { link = \"switch 0:77\" }")),
        ("lab with a fault on a switch without a port", &broken("kind.link_down = { link = \"switch 0\" }")),
        ("lab with a fault on an unknown node", &broken("kind.slow_receiver = { node = \"node 9\", rate = \"1 Gb/s\" }")),
        ("lab with a fault on no node", &broken("kind.paused_port = { node = \"switch 0\" }")),
        ("lab with a fault between strangers", &broken("kind.link_down = { link = \"node 0 -> node 1\" }")),
        ("lab with a death of an unknown switch", &broken("kind.switch_death = { switch = \"spine 7\" }")),
        ("lab with a death of a switch nearly named", &broken("kind.switch_death = { switch = \"swich\" }")),
        ("lab with a loss of more than all", &broken("kind.loss = { share = 1.5 }")),
        ("lab with a link up that is not down", &broken("kind.link_up = { link = \"node 0\" }")),
        ("lab with too many lanes left", &broken("kind.lane_loss = { link = \"node 0\", lanes = 4 }")),
        (
            "lab with a watchdog that comes too late",
            &broken("kind.paused_port = { node = \"node 0\", lasts = \"1 ms\", watchdog = \"2 ms\" }"),
        ),
        ("lab with a kind of fault unknown", &broken("kind.link_dwon = { link = \"node 0\" }")),
        ("lab with a flapping that never stops", &broken("kind.flapping = { link = \"node 0\", period = \"1 us\", count = 9999999 }")),
        ("lab with an unknown manager", &format!("manager = \"opensn\"\n{}", broken("kind.link_down = { link = \"node 0\" }"))),
        ("lab with a timeout out of range", "cluster = \"pair\"\n[recovery]\ntimeout = 40\n[workload.shift]\nby = 1\nsize = \"1 B\""),
        (
            "lab with a key of 16 bits",
            "cluster = \"pair\"\npartitions.a = { pkey = 0x8001, full = \"all\" }\n[workload.shift]\nby = 1\nsize = \"1 B\"",
        ),
        (
            "lab with a key of zero",
            "cluster = \"pair\"\npartitions.a = { pkey = 0, full = \"all\" }\n[workload.shift]\nby = 1\nsize = \"1 B\"",
        ),
        (
            "lab with the key of the default partition",
            "cluster = \"pair\"\npartitions.a = { pkey = 0x7fff, full = \"all\" }\n[workload.shift]\nby = 1\nsize = \"1 B\"",
        ),
        (
            "lab with a key twice",
            "cluster = \"pair\"\npartitions.a = { pkey = 3, full = \"0\" }\npartitions.b = { pkey = 3, full = \"1\" }\n[workload.shift]\nby = 1\nsize = \"1 B\"",
        ),
        (
            "lab with an unknown member",
            "cluster = \"pair\"\npartitions.a = { pkey = 3, full = \"0-2\" }\n[workload.shift]\nby = 1\nsize = \"1 B\"",
        ),
        (
            "lab with a member twice",
            "cluster = \"pair\"\npartitions.a = { pkey = 3, full = \"0\", limited = \"all\" }\n[workload.shift]\nby = 1\nsize = \"1 B\"",
        ),
        (
            "lab with members in another language",
            "cluster = \"pair\"\npartitions.a = { pkey = 3, full = \"0..1\" }\n[workload.shift]\nby = 1\nsize = \"1 B\"",
        ),
        (
            "lab with a workload across partitions",
            "cluster = \"pair\"\npartition = \"a\"\npartitions.a = { pkey = 3, full = \"0\" }\n[workload.shift]\nby = 1\nsize = \"1 B\"",
        ),
        (
            "lab between limited members",
            "cluster = \"pair\"\npartitions.default = { limited = \"all\" }\n[workload.shift]\nby = 1\nsize = \"1 B\"",
        ),
        (
            "lab with a partition of nobody",
            "cluster = \"pair\"\npartition = \"b\"\npartitions.a = { pkey = 3, full = \"0\" }\n[workload.shift]\nby = 1\nsize = \"1 B\"",
        ),
        (
            "lab with partitions on Ethernet",
            "cluster = \"roce\"\npartitions.a = { pkey = 3, full = \"0\" }\n[workload.shift]\nby = 1\nsize = \"1 B\"",
        ),
        (
            "lab with a job across partitions",
            "cluster = \"pair\"\npartitions.a = { pkey = 3, full = \"0\" }\n[[workload.jobs.jobs]]\nname = \"io\"\nhosts = \"0-1\"\npattern = \"ring\"\nsize = \"1 B\"\nmessages = 1\npartition = \"a\"",
        ),
        (
            "lab with a job on hosts that do not exist",
            "cluster = \"pair\"\n[[workload.jobs.jobs]]\nname = \"io\"\nhosts = \"0-2\"\npattern = \"ring\"\nsize = \"1 B\"\nmessages = 1",
        ),
        (
            "lab with classes of fluids",
            "cluster = \"pair\"\nengine = \"flow\"\nqos.infiniband.max_vls = 2\n[workload.shift]\nby = 1\nsize = \"1 B\"",
        ),
        ("lab with a benchmark in a class", "cluster = \"pair\"\nservice_level = 1\n[workload.bench]\ntool = \"ib_write_lat\""),
        (
            "lab with links that damage everything",
            "cluster = \"pair\"\nline.retry = { bit_errors = 0.1, latency = \"200 ns\" }\n[workload.shift]\nby = 1\nsize = \"1 B\"",
        ),
        (
            "lab with links that keep no lane",
            "cluster = \"pair\"\nline.rest = { after = \"1 us\", wake = \"5 us\", lanes = \"0/4\" }\n[workload.shift]\nby = 1\nsize = \"1 B\"",
        ),
        ("lab with a limit of nothing", "cluster = \"pair\"\nrate_limit = \"1 kb/s\"\n[workload.shift]\nby = 1\nsize = \"1 B\""),
        (
            "lab with two jobs on one connection",
            "cluster = \"pair\"\n[[workload.jobs.jobs]]\nname = \"a\"\nhosts = \"all\"\npattern = \"ring\"\nsize = \"1 B\"\nmessages = 1\n[[workload.jobs.jobs]]\nname = \"b\"\nhosts = \"all\"\npattern = \"ring\"\nsize = \"1 B\"\nmessages = 1\nservice_level = 1",
        ),
        (
            "lab with a group that is none",
            "cluster = \"pair\"\n[workload.multicast]\ngroup = \"10.0.0.1\"\nreceivers = [1]\nsize = \"1 B\"\nmessages = 1",
        ),
        (
            "lab with a member that is none",
            "cluster = \"pair\"\n[workload.multicast]\nmembers = [1, 5]\nreceivers = [1]\nsize = \"1 B\"\nmessages = 1",
        ),
        (
            "lab with a member of a group twice",
            "cluster = \"pair\"\n[workload.multicast]\nmembers = [1, 1]\nreceivers = [1]\nsize = \"1 B\"\nmessages = 1",
        ),
        (
            "lab that multicasts to itself",
            "cluster = \"pair\"\n[workload.multicast]\nmembers = [0]\nreceivers = [1]\nsize = \"1 B\"\nmessages = 1",
        ),
        (
            "lab with more receivers than nodes",
            "cluster = \"pair\"\n[workload.multicast]\nreceivers = [1, 2]\nsize = \"1 B\"\nmessages = 1",
        ),
        (
            "lab with a datagram to a group too long",
            "cluster = \"pair\"\n[workload.multicast]\nreceivers = [1]\nsize = \"8 KiB\"\nmessages = 1",
        ),
        (
            "lab whose subnet manager writes no table",
            "cluster = { base = \"pair\", multicast = { outstanding = 0 } }\n[workload.multicast]\nreceivers = [1]\nsize = \"1 B\"\nmessages = 1",
        ),
        (
            "lab with snooping on InfiniBand",
            "cluster = { base = \"pair\", multicast = { snooping = false } }\n[workload.multicast]\nreceivers = [1]\nsize = \"1 B\"\nmessages = 1",
        ),
        (
            "lab with a group across partitions",
            "cluster = \"pair\"\npartition = \"a\"\npartitions.a = { pkey = 3, full = \"0\" }\n[workload.multicast]\nreceivers = [1]\nsize = \"1 B\"\nmessages = 1",
        ),
        ("lab that includes from nowhere", "include = [\"other.toml\"]\ncluster = \"pair\""),
    ];
    for (what, text) in labs {
        row(what, fabriscope_lab::parse(&catalog, "lab.toml", text).expect_err(what));
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/messages.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &table).unwrap();
    }
    let expected = std::fs::read_to_string(&golden).unwrap_or_default();
    assert!(table == expected, "the messages changed; if they are better, run with UPDATE_GOLDEN=1 and review:\n{table}");
}

#[test]
fn files_that_are_no_files() {
    let catalog = Catalog::embedded().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let target = |path: &Path| catalog.target(&path.display().to_string()).unwrap_err();
    assert!(matches!(target(&folder.path().join("absent.toml")), CatalogError::Unreadable { .. }));
    assert!(matches!(target(&write("latin.toml", b"name = \"caf\xe9\"")), CatalogError::NotText { offset: 11, .. }));
    assert!(matches!(target(&write("huge.toml", &vec![b'#'; 2 << 20])), CatalogError::TooLarge { size: 2_097_152, .. }));
    std::fs::create_dir(folder.path().join("dir.toml")).unwrap();
    assert!(matches!(target(&folder.path().join("dir.toml")), CatalogError::Unreadable { .. }));
    write("catalog/nicks/a.toml", b"");
    assert!(matches!(Catalog::load(&folder.path().join("catalog")), Err(CatalogError::UnknownFolder { .. })));
    assert!(matches!(Catalog::load(&folder.path().join("absent")), Err(CatalogError::Unreadable { .. })));
}

#[test]
fn a_folder_replaces_and_adds() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    };
    let slow =
        "name = \"sb7790\"\ntitle = \"slow\"\nbase = \"sb7800\"\nlatency = { value = \"900 ns\", basis = \"assumed\", note = \"try\" }\n";
    write("switches/sb7790.toml", slow);
    write("clusters/mine.toml", "name = \"mine\"\ntitle = \"mine\"\nbase = \"ri2\"\nnodes = 4\n");
    let catalog = Catalog::load(folder.path()).unwrap();
    let mine = catalog.target("mine").unwrap();
    assert_eq!(mine.nodes(), 4);
    assert_eq!(mine.switch.unwrap().latency.to_string(), "900 ns");
    assert_eq!(catalog.target("betzy-hdr").unwrap().nodes(), 64);

    // Two that rest on each other.
    write("nics/a.toml", "name = \"a\"\nbase = \"b\"\n");
    write("nics/b.toml", "name = \"b\"\nbase = \"a\"\n");
    let error = Catalog::load(folder.path()).unwrap_err();
    assert_eq!(error.to_string(), "the NIC `a` rests on itself: a -> b -> a");
}

#[test]
fn a_fault_in_what_is_rested_on_is_told_with_its_own_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("nics")).unwrap();
    std::fs::write(folder.path().join("nics/a.toml"), "name = \"a\"\ntitle = \"a\"\nbase = \"b\"\nports = 2\n").unwrap();
    std::fs::write(folder.path().join("nics/b.toml"), "name = \"b\"\nbase = \"connectx-5\"\n\n\nvls = \"8\"\n").unwrap();
    let error = Catalog::load(folder.path()).unwrap_err().to_string();
    assert!(error.contains("nics/b.toml:5:7: "), "{error}");
}

#[test]
fn labs_include_and_say_when_they_include_each_other() {
    let catalog = Catalog::embedded().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("base.toml", "seed = 7\n[workload.permutation]\nsize = \"1 KiB\"\n");
    write("lab.toml", "include = [\"base.toml\"]\ncluster = \"lab-16\"\n[workload.shift]\nby = 3\nsize = \"2 KiB\"\n");
    let lab = fabriscope_lab::load(&catalog, &folder.path().join("lab.toml")).unwrap();
    assert_eq!((lab.lab.seed, lab.lab.workload.name()), (7, "shift"));

    write("a.toml", "include = [\"b.toml\"]\n");
    write("b.toml", "include = [\"a.toml\"]\n");
    let error = fabriscope_lab::load(&catalog, &folder.path().join("a.toml")).unwrap_err();
    assert_eq!(error.to_string(), "the file `a.toml` includes itself: a.toml -> b.toml -> a.toml");

    // A fault in an included file is told with that file; one in the [cluster] of a lab with a base, at its line.
    write("base.toml", "seed = 7\n\nsed = 8\n");
    let error = fabriscope_lab::load(&catalog, &folder.path().join("lab.toml")).unwrap_err().to_string();
    assert!(error.contains("base.toml:3:1: unknown key `sed`"), "{error}");
    write("base.toml", "seed = 7\n");
    write(
        "lab.toml",
        "include = [\"base.toml\"]\nseed = 1\n[cluster]\nbase = \"ri2\"\nnodes = 99\n[workload.shift]\nby = 3\nsize = \"2 KiB\"\n",
    );
    let error = fabriscope_lab::load(&catalog, &folder.path().join("lab.toml")).unwrap_err().to_string();
    assert!(error.contains("lab.toml:5:9: "), "{error}");
    write("lab.toml", "include = [\"none.toml\"]\n");
    let error = fabriscope_lab::load(&catalog, &folder.path().join("lab.toml")).unwrap_err().to_string();
    assert!(error.contains("lab.toml:1:12: there is no file"), "{error}");
}
