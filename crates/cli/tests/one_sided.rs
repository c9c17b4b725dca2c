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

/// Long puts fill the link as writes do, both ways at once too.
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
