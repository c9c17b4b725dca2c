//! What is refused, and what to type instead.

use fabriscope_units::Remedy;

use crate::machine::{parts, target, words};

#[test]
fn errors_name_the_remedy() {
    for (cluster, nodes, line, part) in [
        ("ri2", 2, "--over udp", "tcp, rdma-get, rdma-am"),
        ("ri2", 2, "--over rdma-am,rdma-am", "each once"),
        ("ri2", 1, "", "--nodes 2"),
        ("ri2", 2, "--drive floppy", "nvme-gen3"),
        ("ri2", 2, "--drive nvme-gen3 --over rdma-get", "rdma-am"),
        ("ri2", 2, "-d 1024G --maps 1 --reducers 1", "more maps or reducers"),
        ("ri2", 2, "-j wordcount", "groupby, sortby, terasort"),
        ("ri2", 2, "--skew zipf", "zipf-0.5"),
        ("ri2", 2, "--reduce-rate fast", "--reduce-rate 200"),
        ("ri2", 2, "-d 64KB", "64kB"),
        ("csd3-opa", 2, "--over rdma-am", "--over tcp"),
    ] {
        let error = fabriscope_spark::prepare(&words(line), &target(&parts(cluster), nodes)).map(drop).unwrap_err().in_full();
        assert!(error.contains(part), "{line}: {error}");
    }
}
