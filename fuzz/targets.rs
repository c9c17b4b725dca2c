//! What is fuzzed: every reader of a file that a person may write. Used by the mutation fuzzer and by libFuzzer.

use std::cell::OnceCell;

use fabriscope_capture::{conversation, replay};
use fabriscope_catalog::{Catalog, Kind};
use fabriscope_fabric::export::{self, Dialect};
use fabriscope_fabric::{LinkSpec, Links, import};
use fabriscope_machine::export::Unknown;
use fabriscope_machine::picture::{self, Picture};
use fabriscope_report::render::FORMATS;
use fabriscope_report::validate::{Answer, Detail, Refusal, validate};
use fabriscope_report::{AllSettings, Question, Terms, Tolerances, measured};
use fabriscope_traces::{LowerOptions, Part, Unlowered, goal_binary, lower, read_parts, write_chakra, write_simai};
use fabriscope_units::{Rate, Span};

/// A reader and the files it is meant for.
pub struct Target {
    /// Its name, also of the libFuzzer binary.
    pub name: &'static str,
    /// Folders of the repository with files to begin with.
    pub folders: &'static [&'static str],
    /// Their extension.
    pub extension: &'static str,
    /// Reads an input; must return.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "measured_csv", folders: &["validation"], extension: "csv", run: measured_csv },
    Target { name: "raw_text", folders: &["crates/report/tests/raw"], extension: "txt", run: measured_csv },
    Target { name: "raw_json", folders: &["crates/report/tests/raw"], extension: "json", run: measured_csv },
    Target { name: "part_toml", folders: &["catalog"], extension: "toml", run: part_toml },
    Target { name: "cluster_toml", folders: &["catalog/clusters"], extension: "toml", run: cluster_toml },
    Target { name: "lab_toml", folders: &["labs", "catalog/clusters"], extension: "toml", run: lab_toml },
    Target { name: "fabric_dump", folders: &["fabrics"], extension: "ibnetdiscover", run: fabric_dump },
    Target { name: "subnet_lst", folders: &["fuzz/seeds"], extension: "lst", run: fabric_dump },
    Target { name: "edge_list", folders: &["fuzz/seeds"], extension: "edges", run: fabric_dump },
    Target { name: "slurm_conf", folders: &["fuzz/seeds"], extension: "conf", run: fabric_dump },
    Target { name: "slurm_yaml", folders: &["fuzz/seeds"], extension: "yaml", run: fabric_dump },
    Target { name: "cabling_dot", folders: &["fuzz/seeds"], extension: "dot", run: fabric_dump },
    Target { name: "htsim_topo", folders: &["fuzz/seeds"], extension: "htsim", run: fabric_dump },
    Target { name: "ns3_topology", folders: &["fuzz/seeds"], extension: "ns3", run: fabric_dump },
    Target { name: "node_xml", folders: &["fabrics/nodes"], extension: "xml", run: node_file },
    Target { name: "node_matrix", folders: &["fabrics/nodes"], extension: "topo", run: node_file },
    Target { name: "mock_profile", folders: &["examples/profiles"], extension: "yaml", run: mock_profile },
    Target { name: "lfts_dump", folders: &["fuzz/seeds", "fabrics"], extension: "lfts", run: lfts_dump },
    Target { name: "pcap", folders: &["labs"], extension: "pcap", run: capture_file },
    Target { name: "pcapng", folders: &["fuzz/seeds"], extension: "pcapng", run: capture_file },
    Target { name: "trace_goal", folders: &["examples/traces"], extension: "goal", run: trace_file },
    Target {
        name: "trace_simai",
        folders: &["examples/traces", "crates/traces/tests/files/aliyun__SimAI"],
        extension: "txt",
        run: trace_file,
    },
    Target { name: "trace_chakra", folders: &["crates/traces/tests/files/astra-sim__astra-sim"], extension: "et", run: trace_file },
    Target { name: "trace_dumpi", folders: &["crates/traces/tests/files/sstsimulator__sst-dumpi"], extension: "bin", run: trace_file },
    Target { name: "trace_ascii", folders: &["crates/traces/tests/files/sstsimulator__sst-dumpi"], extension: "txt", run: trace_file },
    Target { name: "trace_otf2", folders: &["crates/traces/tests/files/hpcgroup__pipit"], extension: "jsonl", run: trace_file },
    Target { name: "trace_tuner", folders: &["crates/traces/tests/files/NVIDIA__nccl"], extension: "csv", run: trace_file },
    Target { name: "tolerances_toml", folders: &["validation"], extension: "toml", run: tolerances_toml },
];

/// A file of measurements, through reading, mapping to runs, statistics and printing.
pub fn measured_csv(bytes: &[u8]) {
    if let Err(error) = measured::read("input.csv", bytes) {
        shown(&error);
    }
    let table = match measured::read_all("input.csv", bytes) {
        Ok(table) => table,
        Err(error) => return shown(&error),
    };
    let twice = |question: &Question| match question.message_bytes {
        Some(size) => Ok(Answer {
            latency_us: Some(1.0 + size as f64),
            bytes_per_s: Some(2.0 * size as f64),
            messages_per_s: Some(2.0),
            percent: Some(2.0),
            line_bytes_per_s: Some(2.0),
        }),
        None => Err(Refusal::Skip("no size".to_owned())),
    };
    let report = validate(&[table], &[], &Terms::default(), &twice);
    drop(FORMATS.map(|format| format.render(&report.outcome(Detail::Points))));
}

/// The catalogue that comes with the program, read once.
fn catalog(use_it: impl FnOnce(&Catalog)) {
    thread_local!(static CATALOG: OnceCell<Catalog> = const { OnceCell::new() });
    CATALOG.with(|cell| use_it(cell.get_or_init(|| Catalog::embedded().expect("the catalogue of the program is right"))));
}

/// A part of any kind: the first key that only one kind has would tell which, so all are tried.
pub fn part_toml(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let name = text.lines().find_map(|line| line.strip_prefix("name = \"")?.split('"').next()).unwrap_or("input");
    catalog(|catalog| {
        for kind in Kind::ALL {
            match catalog.parse_part(kind, name, text) {
                Ok(part) => drop((part.numbers(), part.to_json())),
                Err(error) => shown(&error),
            }
        }
    });
}

/// A cluster, with the check that its parts fit together. Clusters of more than a few thousand nodes are only read.
pub fn cluster_toml(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    catalog(|catalog| match catalog.parse_cluster("input.toml", text) {
        Ok(cluster) if nodes(&cluster) <= u64::from(MOST_NODES) => {
            if let Err(error) = catalog.resolve(&cluster, None) {
                shown(&error);
            }
        }
        Ok(_) => {}
        Err(error) => shown(&error),
    });
}

/// A profile of a hardware mock, with the check that it is a cluster; on two nodes, so that none takes long to wire.
pub fn mock_profile(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    catalog(|catalog| match catalog.cluster_from_profile("input.yaml", text, Some(2)) {
        Ok(cluster) => drop(cluster.title),
        Err(error) => shown(&error),
    });
}

/// The nodes that a cluster asks for, of all its groups.
fn nodes(cluster: &fabriscope_catalog::Cluster) -> u64 {
    let grouped = cluster.group.iter().filter_map(|group| group.nodes);
    cluster.nodes.into_iter().chain(grouped).map(u64::from).sum()
}

/// A lab without includes.
pub fn lab_toml(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    catalog(|catalog| {
        if let Err(error) = fabriscope_lab::parse(catalog, "input.toml", text) {
            shown(&error);
        }
    });
}

/// Larger fabrics are right, but take longer to wire than a fuzzer should wait.
const MOST_NODES: u32 = 4096;

/// A file of tolerances.
pub fn tolerances_toml(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Err(error) = Tolerances::parse("input.toml", text) {
        drop(error.to_string());
    }
    if let Err(error) = Tolerances::default().with_off("input.toml", text) {
        drop(error.to_string());
    }
    if let Err(error) = AllSettings::parse("input.toml", text) {
        drop(error.to_string());
    }
}

/// A fabric that another tool described: reading, review, wiring, and writing it again.
pub fn fabric_dump(bytes: &[u8]) {
    let subnet = match import::text(bytes).and_then(|text| import::read(&text)) {
        Ok(subnet) => subnet,
        Err(error) => return drop(error.to_string()),
    };
    drop(import::review(&subnet));
    let cable = LinkSpec::new(Rate::from_gbps(100), Span::from_ns(10));
    if let Err(error) = subnet.fabric(&Links::uniform(cable)) {
        drop(error.to_string());
    }
    drop((export::slurm_conf(&subnet), export::slurm_yaml(&subnet), export::graphml(&subnet), export::dot(&subnet)));
    drop(export::ibnetdiscover(&subnet, Dialect::Ibsim));
}

/// A node that another tool described: reading, review, drawing, and writing it again. Nodes of more than some devices are only read.
pub fn node_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    catalog(|catalog| {
        let rates = catalog.node_file_rates("nccl").expect("the catalogue of the program is right");
        let machine = match fabriscope_machine::import::read(text, &rates) {
            Ok(file) => file.machine,
            Err(error) => return drop(error.to_string()),
        };
        if machine.vertices().len() > MOST_VERTICES {
            return;
        }
        drop(fabriscope_machine::import::review(&machine));
        drop(picture::svg(&machine, &Picture::default()));
        drop(fabriscope_machine::export::nvidia_smi(&machine));
        if let Ok(written) = fabriscope_machine::export::nccl(&machine, Unknown { ability: Some(90), port: None }) {
            let again = fabriscope_machine::import::read(&written, &rates).expect("what was written can be read");
            assert_eq!(again.machine.gpus().len(), machine.gpus().len(), "GPUs are lost");
        }
    });
}

/// Paths between all devices take the square of their number.
const MOST_VERTICES: usize = 200;

/// Forwarding tables, for the small fabric.
pub fn lfts_dump(bytes: &[u8]) {
    const SMALL: &str = include_str!("../fabrics/small.ibnetdiscover");
    thread_local!(static SUBNET: OnceCell<import::Subnet> = const { OnceCell::new() });
    SUBNET.with(|cell| {
        let subnet = cell.get_or_init(|| import::read(SMALL).expect("the small fabric is right"));
        if let Err(error) = import::read_lfts(subnet, bytes) {
            drop(error.to_string());
        }
    });
}

/// A packet capture, through its messages to a schedule.
pub fn capture_file(bytes: &[u8]) {
    match conversation(bytes) {
        Ok(found) => {
            if let Err(error) = replay(&found, &[], 64) {
                drop(error.to_string());
            }
        }
        Err(error) => drop(error.to_string()),
    }
}

/// A message must be printable whatever it points at.
fn shown(error: &dyn miette::Diagnostic) {
    let mut text = String::new();
    let told = miette::GraphicalReportHandler::new_themed(miette::GraphicalTheme::none()).render_report(&mut text, error);
    assert!(told.is_ok() && !text.is_empty(), "a message that cannot be printed");
}

/// A trace of any format, through reading, comparing ranks, extending, a schedule, and writing.
pub fn trace_file(bytes: &[u8]) {
    let traces = match read_parts(vec![Part::new("input", bytes.to_vec())]) {
        Ok(traces) => traces,
        Err(error) => return shown(&error),
    };
    for trace in traces {
        let reading = &trace.reading;
        assert_eq!(reading.records, reading.used + reading.left_out_in_all(), "every record is used or left out");
        drop(trace.check());
        drop(trace.spread(8));
        drop((write_chakra(&trace), write_simai(&trace)));
        if let Ok(lowered) = lower(&trace, &LowerOptions::default(), &mut Unlowered) {
            drop(goal_binary(&lowered.schedule));
        }
    }
}
