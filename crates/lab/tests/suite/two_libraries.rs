//! Jobs beside each other with a library each: none pays for another's, and what a library or an engine does not do is refused.

use crate::labs::catalog;

use fabriscope_lab::parse;
use fabriscope_lab::run::{LabRun, RunSettings, run};
use fabriscope_units::{Bytes, Rate};
use miette::Diagnostic;
use serde_json::Value;

/// Jobs of pairs: name, hosts, size and what else a line says.
fn text(head: &str, jobs: &[(&str, &str, &str, &str)]) -> String {
    let job = |(name, hosts, size, more): &(&str, &str, &str, &str)| {
        format!(
            "[[workload.jobs.jobs]]\nname = \"{name}\"\nhosts = \"{hosts}\"\npattern = \"pairs\"\nsize = \"{size}\"\nmessages = 4\n{more}\n"
        )
    };
    format!("{head}\n{}", jobs.iter().map(job).collect::<String>())
}

fn rows(text: &str) -> Vec<Value> {
    let lab = parse(catalog(), "lab.toml", text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    match run(catalog(), &lab, &RunSettings::default()).unwrap_or_else(|error| panic!("{error}\n{text}")) {
        LabRun::Sweep(outcome) => outcome.get("jobs").and_then(Value::as_array).unwrap().clone(),
        LabRun::One(_) => panic!("jobs are a sweep"),
    }
}

const NODES: &str = "cluster = \"lab-16\"";
const OPEN_MPI: &str = "software = \"openmpi-ucx\"";
const MVAPICH2: &str = "software = \"mvapich2-2.3.7\"";

#[test]
fn each_job_pays_for_its_own_library() {
    let together = rows(&text(
        NODES,
        &[("a", "0, 1", "1 KiB", OPEN_MPI), ("b", "2, 3", "1 KiB", MVAPICH2), ("c", "4, 5", "1 KiB", ""), ("d", "6, 7", "1 KiB", OPEN_MPI)],
    ));
    let names: Vec<&str> = together.iter().map(|row| row["library"].as_str().unwrap()).collect();
    assert_eq!(names, ["openmpi-ucx", "mvapich2-2.3.7", "verbs", "openmpi-ucx"]);
    // Hosts of one switch share nothing: beside the others a job takes as long as in a lab of its own.
    for (row, library) in together.iter().zip([OPEN_MPI, MVAPICH2, "", OPEN_MPI]) {
        let alone = &rows(&text(NODES, &[("x", "8, 9", "1 KiB", library)]))[0];
        assert_eq!(row["own_class"]["median_ps"], alone["alone"]["median_ps"], "{row}");
        assert_eq!(row["own_class"]["last_ps"], alone["alone"]["last_ps"], "{row}");
    }
    // The same nodes with other costs above the verbs.
    let median = |row: usize| together[row]["own_class"]["median_ps"].as_u64().unwrap();
    assert_eq!(median(0), median(3));
    assert!(median(0) != median(1) && median(1) != median(2));
    // A message takes at least what its library's cores pay at both ends, and a way on the wire: 1 KiB at 400 Gb/s.
    for (row, name) in [(0, "openmpi-ucx"), (1, "mvapich2-2.3.7")] {
        let mpi = catalog().software(name).unwrap().mpi.as_ref().unwrap();
        let least = *mpi.send_overhead + *mpi.recv_overhead + Rate::from_gbps(400).time(Bytes(1024));
        assert!(median(row) > least.as_ps(), "{name}: {} of at least {least}", median(row));
    }
}

#[test]
fn what_a_library_does_not_do_is_refused() {
    let table = [
        (NODES, vec![("a", "0, 1", "1 KiB", "software = \"openmpi-ucy\"")], "openmpi-ucy", "openmpi-ucx"),
        (NODES, vec![("a", "0, 1", "64 KiB", OPEN_MPI)], "longer than the 8246 B that `openmpi-ucx` sends at once", "shorter"),
        (NODES, vec![("a", "0, 1", "1 KiB", "software = \"nccl\"")], "does not say what connections take", "mpi.connections"),
        (NODES, vec![("a", "0, 1", "1 KiB", "software = \"openmpi-psm2\"")], "which is driven through", "over verbs"),
        (
            NODES,
            vec![("a", "0, 1", "1 KiB", OPEN_MPI), ("b", "1, 2", "1 KiB", MVAPICH2)],
            "host 1 is in `a` over openmpi-ucx",
            "other hosts",
        ),
        (NODES, vec![("a", "0, 1", "1 KiB", ""), ("b", "1, 2", "1 KiB", MVAPICH2)], "over the verbs and in `b`", "other hosts"),
        ("cluster = \"lab-16\"\nengine = \"flow\"", vec![("a", "0, 1", "1 KiB", OPEN_MPI)], "the flow engine does not model", "`software`"),
    ];
    for (head, jobs, says, remedy) in table {
        let error = parse(catalog(), "lab.toml", &text(head, &jobs)).map(|lab| lab.name().to_owned()).expect_err(says);
        let help = error.help().map(|help| help.to_string()).unwrap_or_default();
        assert!(error.to_string().contains(says), "{says}: {error}");
        assert!(help.contains(remedy), "{remedy}: {help}");
    }
}
