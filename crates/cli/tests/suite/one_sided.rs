//! One-sided MPI beside the verbs below it.

use assert_cmd::Command;

/// The first number of the row of `size` in column `column`.
fn row(line: &str, size: &str, column: usize) -> f64 {
    let output = Command::cargo_bin("fabriscope").unwrap().args(line.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let found = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).find(|words| words.first() == Some(&size));
    found.unwrap_or_else(|| panic!("{text}"))[column].parse().unwrap()
}

/// A put that is flushed is a write until its acknowledgement, a get is a read; the library adds what a send and a turn of its loop cost.
#[test]
fn a_put_is_a_write_and_a_get_is_a_read() {
    let (put, get) = (row("bench osu_put_latency --on ri2 -m 8:8", "8", 1), row("bench osu_get_latency --on ri2 -m 8:8", "8", 1));
    let (write, read) = (row("bench ib_write_lat --on ri2 -s 8", "8", 4), row("bench ib_read_lat --on ri2 -s 8", "8", 4));
    assert!(put > write && put < 2.0 * write, "{put} {write}");
    assert!(get > read && get < read + 0.5, "{get} {read}");
}

/// Long puts fill the link as writes do, bidirectional too.
#[test]
fn long_puts_fill_the_link() {
    let bandwidth = |tool: &str| row(&format!("bench {tool} --on ri2 -m 1048576:1048576"), "1048576", 1);
    let write = row("bench ib_write_bw --on ri2 -s 1048576 -n 64", "1048576", 3) * 1.048_576;
    for tool in ["osu_put_bw", "osu_get_bw"] {
        assert!((bandwidth(tool) / write - 1.0).abs() < 0.03, "{tool}: {} {write}", bandwidth(tool));
    }
    assert!((bandwidth("osu_put_bibw") / write / 2.0 - 1.0).abs() < 0.03);
}

#[test]
fn without_rdma_there_is_none() {
    for line in [
        "bench osu_put_latency --on opa100-a40",
        "bench osu_get_bw --on aws-c5n-efa",
        "bench osu_put_latency --on ri2 -s post",
        "bench osu_put_bibw --on ri2 -s flush",
        "bench osu_put_bw --on opa100-a40 --nodes 1 D D",
        "bench osu_latency --on ri2 -w allocate",
    ] {
        let output = Command::cargo_bin("fabriscope").unwrap().args(line.split(' ')).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// A lock costs a round trip before and one behind, post and complete a message each; within a node there is none of the network.
#[test]
fn what_ends_an_operation_costs() {
    let put = |options: &str| row(&format!("bench osu_put_latency --on ri2 -m 8:8 {options}"), "8", 1);
    let (flush, lock) = (put("-s flush"), put("-s lock"));
    assert!(lock > 2.0 * flush && lock < 4.0 * flush, "{lock} {flush}");
    assert_eq!(flush, put(""));
    assert!(put("-s pscw") > flush && put("-s fence") > flush);
    let within = put("--nodes 1");
    assert!(within < flush / 2.0 && put("--nodes 1 -s lock") > within, "{within} {flush}");
}

/// What has no meaning is refused with status 2, and the message says what to type instead.
#[test]
fn what_has_no_meaning_is_refused() {
    for (line, words) in [
        ("bench osu_acc_latency --on ri2 -T mpi_complex", "mpi_char, mpi_int, mpi_long_long, mpi_float, mpi_double"),
        ("bench osu_acc_latency --on ri2 -T mpi_double -m 1:4", "-m 8: for sizes from 8 bytes on"),
        ("bench osu_fop_latency --on ri2 -m 64", "is of one element"),
        ("bench osu_put_latency --on ri2 -T mpi_int", "all data is sent as MPI_CHAR"),
        ("bench osu_acc_latency --on opa100-a40", "needs RDMA between two nodes"),
        ("bench osu_cas_latency --on ri2-gpu D D", "in the memory of GPUs are not modelled"),
        ("bench osu_oshm_put --on ri2", "takes one operand, heap or global, not nothing"),
        ("bench osu_oshm_put --on ri2 stack", "not `stack`"),
        ("bench osu_oshm_put --on ri2 heap -p 2", "an option of the message rates"),
        ("bench osu_oshm_atomics --on ri2 heap -m 8", "an option of tools with messages"),
        ("bench osu_oshm_put_mr --on ri2 heap --symmetric-size 64M", "--symmetric-size 209719296"),
        ("bench osu_oshm_put_mr --on alps heap", "the symmetric heap of 64 MiB"),
        ("bench osu_oshm_get --on opa100-a40 heap", "needs an OpenSHMEM library, and the cluster's software has none"),
        ("bench osu_oshm_get --on thor-roce-100g heap", "needs an OpenSHMEM library"),
        ("bench osu_oshm_put --on aws-c5n-efa heap", "adapters that read and write the memory of their peers"),
        ("bench osu_oshm_barrier --on ri2 --nodes 1 --ppn 1", "at least two PEs"),
        ("bench osu_oshm_reduce --on ri2 heap", "`heap` is not an option"),
        ("bench osu_oshm_reduce --on ri2 --algorithm fast", "fast"),
    ] {
        let output = Command::cargo_bin("fabriscope").unwrap().args(line.split(' ')).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{line}: {message}");
        let flat = message.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ");
        assert!(flat.contains(words), "{line}: {flat}");
    }
}

/// Within a node the core does what the adapter does between two.
#[test]
fn within_a_node_cores_act() {
    for tool in ["osu_oshm_put heap -m 8:8", "osu_oshm_get heap -m 8:8", "osu_fop_latency", "osu_acc_latency -m 8:8"] {
        let (within, between) = (row(&format!("bench {tool} --on ri2 --nodes 1"), "8", 1), row(&format!("bench {tool} --on ri2"), "8", 1));
        assert!(within < between / 4.0, "{tool}: {within} {between}");
    }
}

/// The stages of what is followed there and back add up to what the tool prints, less what the core does between two of them.
#[test]
fn explained_operations_add_up() {
    for tool in ["osu_fop_latency", "osu_acc_latency", "osu_oshm_get"] {
        let line = format!("explain {tool} --on ri2 -s 8 --no-changes --json");
        let output = Command::cargo_bin("fabriscope").unwrap().args(line.split(' ')).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let total = told["total_ps"].as_u64().unwrap();
        let stages: u64 = told["stages"].as_array().unwrap().iter().map(|stage| stage["ps"].as_u64().unwrap()).sum();
        assert_eq!(stages, total, "{tool}");
        let options = if tool.contains("oshm") {
            "heap -m 8:8"
        } else if tool.contains("acc") {
            "-m 8:8"
        } else {
            ""
        };
        let printed = row(&format!("bench {tool} --on ri2 {options}"), "8", 1);
        assert!((printed - total as f64 / 1e6).abs() < 0.02, "{tool}: {printed} {total}");
    }
}
