//! What is refused, and what to type instead.

use fabriscope_units::Remedy;

use crate::machine::{parts, target, words};

#[test]
fn errors_name_the_remedy() {
    for (cluster, nodes, line, part) in [
        ("ri2", 2, "--over udp", "tcp, rdma-send, rdma-write"),
        ("ri2", 2, "--over tcp,tcp", "each once"),
        ("ri2", 2, "-k 4", "--nodes 5"),
        ("ri2", 5, "--servers 2 -k 3", "--servers 3"),
        ("ri2", 5, "-k 3 --first 4", "--first 3"),
        ("ri2", 2, "-r 0", "-r 10"),
        ("ri2", 2, "-n 0", "1 to 4096"),
        ("ri2", 2, "--request 4KB", "64kB"),
        ("ri2", 2, "--service pareto", "constant, exponential"),
        ("ri2", 2, "--service-time -3", "--service-time 10"),
        ("csd3-opa", 2, "--over rdma-send", "--over tcp"),
        ("ri2", 2, "somewhere", "leave it out"),
    ] {
        let error = fabriscope_rpc::prepare(&words(line), &target(&parts(cluster), nodes)).map(drop).unwrap_err().in_full();
        assert!(error.contains(part), "{line}: {error}");
    }
}
