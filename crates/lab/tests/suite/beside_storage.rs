//! A program beside a file system: an RPC alone takes what its parts do, classes part data and messages, refusals.

use crate::labs::catalog;

use fabriscope_lab::parse;
use fabriscope_lab::run::{RunSettings, run};
use fabriscope_lustre::Access;
use fabriscope_report::Outcome;
use fabriscope_storage::Mount;
use fabriscope_units::{Bytes, Rate};
use serde_json::Value;

/// Two leaves of eight nodes, one cable between them.
const HEAD: &str = "[cluster]
base = \"ibex-cpu\"
nodes = 16
topology.leaf_spine = { leaves = 2, down = 8, spines = 1 }
";
/// Flash on lane 0 or 1, all else on lane 0.
const LANES: &str = "[qos.infiniband]
max_vls = 2
sl2vl = [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
high_limit = 255
vlarb_high = \"0:64\"
vlarb_low = \"1:64\"
";
const PROGRAM: &str = "[workload.beside_storage]
tool = \"osu_allreduce\"
args = [\"-m\", \"8192:8192\", \"-x\", \"2\", \"-i\", \"ITERATIONS\"]
nodes = \"0-1, 8-9\"
per_node = 1
";

fn outcome(iterations: u32, storage: &str) -> Outcome {
    let text = format!(
        "{}[workload.beside_storage.storage]\nfile_system = \"lumi-f\"\n{storage}\n",
        format!("{HEAD}{LANES}{PROGRAM}").replace("ITERATIONS", &iterations.to_string())
    );
    ran(&text)
}

fn number(outcome: &Outcome, table: &str, row: usize, key: &str) -> f64 {
    let rows = outcome.get(table).and_then(Value::as_array).unwrap_or_else(|| panic!("no {table}"));
    rows[row][key].as_f64().unwrap_or_else(|| panic!("no {key} in {}", rows[row]))
}

/// A write of 1 MiB that waits for nobody: three messages that wake somebody (request, fragment, reply), the server's core before and after
/// the data, the fragment on a link of 12.5 GB/s, and the drives; wires, switches and headers add some microseconds.
#[test]
fn an_rpc_takes_what_its_parts_add_up_to() {
    let found = outcome(300, "clients = \"2\"\nservers = \"3\"\nburst = { bytes = \"1 MiB\", every = \"1 ms\" }");
    let took = number(&found, "storage", 1, "alone");
    let parts = catalog().target("ibex-cpu").unwrap();
    let system = Mount::new(catalog(), &parts, Some("lumi-f"), (1, 1)).unwrap().system;
    let (oss, lnet, bytes) = (&system.costs.oss, &system.costs.lnet, Bytes::from_mib(1));
    let drives = system.oss.array.service(Access { write: true, bytes, sequential: true }, 0);
    let link = Rate::from_gbps(100).time(bytes);
    let parts = *lnet.message * 3 + *oss.rpc + *oss.page * 256 + link + drives.occupied + drives.besides;
    let parts = parts.as_us_f64() / 1000.0;
    assert!((1.0..1.07).contains(&(took / parts)), "{took} ms, parts add up to {parts}");
}

/// Four clients send through the one cable. On the same lane messages of the all-reduce wait behind their data; on a lane of higher priority
/// they wait for a packet at a time at most.
#[test]
fn a_class_parts_messages_from_data() {
    let storage =
        "clients = \"4-7\"\nservers = \"12-15\"\nprocesses = 8\nburst = { bytes = \"2 MiB\", every = \"10 us\" }\nservice_level = 1";
    let found = outcome(300, storage);
    let [one, own] = ["one_class_to_alone", "own_class_to_alone"].map(|key| number(&found, "program", 0, key));
    assert!(one > 1.2 && own < 1.1, "{one} with one class, {own} with two");
    assert!(number(&found, "storage", 1, "own_class_to_alone") < 1.15, "an RPC loses what the messages take of the cable");
}

#[test]
fn servers_are_nothing_else() {
    let text = |storage: &str| format!("{HEAD}{LANES}{PROGRAM}[workload.beside_storage.storage]\nfile_system = \"lumi-f\"\n{storage}\n");
    for (storage, told) in [
        ("clients = \"2-7\"\nservers = \"1\"", "node 1 is a server"),
        ("clients = \"2-7\"\nservers = \"16\"", "node 16 of a cluster"),
        ("clients = \"2\"\nservers = \"3\"\nstripe_count = 9", "9 stripes on 1 OSTs"),
        ("clients = \"2\"\nservers = \"3\"\nprocesses = 0", "without processes"),
    ] {
        let error = parse(catalog(), "lab.toml", &text(storage)).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
}

/// Two nodes of eight GPUs on leaves of their own, and a node on each leaf for servers.
const STEP: &str = "[cluster]
base = \"azure-ndh100v5\"
nodes = 4
topology.leaf_spine = { leaves = 2, down = 16, spines = 2 }
";
const MODEL: &str = "model = \"mpt-125m\"\ndp = 16\nglobal_batch = 16\nsequence = 256\n";

fn step_beside(storage: &str) -> Outcome {
    let text = format!(
        "{STEP}{LANES}[workload.beside_storage]\nnodes = \"0, 2\"\n[workload.beside_storage.training]\n{MODEL}\
         [workload.beside_storage.storage]\nfile_system = \"lumi-f\"\n{storage}\n"
    );
    ran(&text)
}

fn ran(text: &str) -> Outcome {
    let lab = parse(catalog(), "lab.toml", text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let run = run(catalog(), &lab, &RunSettings::default()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    run.outcome(&lab)
}

fn step(found: &Outcome, key: &str) -> f64 {
    let rows = found.get("program").and_then(Value::as_array).unwrap();
    rows.last().and_then(|row| row[key].as_f64()).unwrap_or_else(|| panic!("no {key} in {rows:?}"))
}

/// Programs that post a step's messages take what the engine takes that has them as operations, but for the core's time of posts and polls.
#[test]
fn a_step_by_programs_takes_what_it_takes_by_operations() {
    // Nodes 0 and 1 are below leaves of their own in both.
    let lab = format!("{STEP}{LANES}[workload.training]\n{MODEL}").replace("nodes = 4", "nodes = 2").replace("down = 16", "down = 8");
    let by_operations = ran(&lab).get("step_by_messages_s").and_then(Value::as_f64).unwrap() * 1e3;
    let found = step_beside("clients = \"1\"\nservers = \"3\"\nburst = { bytes = \"1 MiB\", every = \"10 ms\" }");
    let by_programs = step(&found, "alone");
    assert!((0.99..1.03).contains(&(by_programs / by_operations)), "{by_programs} ms by programs, {by_operations} by operations");
}

/// Gradients wait behind a checkpoint that the same nodes drain, and hardly where it has a lane of lower priority.
#[test]
fn a_checkpoint_slows_the_step_down_that_it_is_drained_beside() {
    let storage =
        "clients = \"0, 2\"\nservers = \"1, 3\"\nprocesses = 8\nburst = { bytes = \"8 MiB\", every = \"10 us\" }\nservice_level = 1";
    let found = step_beside(storage);
    let [one, own] = ["one_class_to_alone", "own_class_to_alone"].map(|key| step(&found, key));
    assert!(one > 1.05 && own < one && own < 1.05, "{one} with one class, {own} with two");
}

#[test]
fn a_step_is_refused_that_is_not_there() {
    for (program, told) in [
        ("nodes = \"0, 2\"", "neither a benchmark nor a step"),
        ("nodes = \"0, 2\"\ntool = \"osu_bw\"\ntraining = { model = \"mpt-125m\" }", "and a benchmark"),
        ("nodes = \"0, 2\"\ntraining = { model = \"mpt-125m\", dp = 17, global_batch = 17 }", "17 GPUs for the step"),
        ("nodes = \"0, 2\"\ntraining = { model = \"mpt-125m\", any_order = true }", "reliable connections"),
        ("nodes = \"0, 2\"\ntraining = { model = \"resnet-50\" }", "time line alone"),
    ] {
        let text = format!(
            "{STEP}{LANES}[workload.beside_storage]\n{program}\n[workload.beside_storage.storage]\nfile_system = \"lumi-f\"\nclients = \"0\"\nservers = \"1\"\n"
        );
        let error = parse(catalog(), "lab.toml", &text).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
}
