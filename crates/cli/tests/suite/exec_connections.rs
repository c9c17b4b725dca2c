//! Programs that make their connections by librdmacm: Debian's rdmacm-utils, `-R` of perftest, libfabric.

use std::process::Command;

use crate::exec::{exec, is_installed, pair, rows, stdout, text};

/// The same program on two hosts, where the client takes the server's name behind an option.
fn served(cluster: &str, words: &[&str], option: &str) -> String {
    let client: Vec<&str> = words.iter().copied().chain([option, "a"]).collect();
    let output = exec(&[&["--on", cluster, "--host", "a:"], words, &["--host", "b:"], &client].concat());
    stdout(&output)
}

#[test]
fn rping_pings() {
    is_installed("rping");
    for cluster in ["ri2", "alaska-roce25"] {
        let words =
            ["--on", cluster, "--host", "a:", "rping", "-s", "-v", "-C", "3", "--host", "b:", "rping", "-c", "-a", "a", "-v", "-C", "3"];
        let printed = stdout(&exec(&words));
        for side in ["server ping data: rdma-ping-", "ping data: rdma-ping-"] {
            let pings = printed.lines().filter(|line| line.starts_with(side)).count();
            assert_eq!(pings, 3, "{cluster}\n{printed}");
        }
    }
}

#[test]
fn connections_and_datagrams_are_made_and_end() {
    is_installed("ucmatose");
    for tool in ["ucmatose", "udaddy"] {
        let printed = served("ri2", &[tool], "-s");
        assert_eq!(printed.matches("data transfers complete").count(), 2, "{tool}\n{printed}");
        assert_eq!(printed.matches("return status 0").count(), 2, "{tool}\n{printed}");
    }
    // Streams of librdmacm's own sockets, which check what arrives.
    let printed = served("ri2", &["rstream", "-I", "20", "-S", "4096", "-T", "v"], "-s");
    assert_eq!(printed.lines().filter(|line| line.starts_with("custom")).count(), 2, "{printed}");
}

#[test]
fn a_group_is_joined_by_its_address() {
    is_installed("mckey");
    let words =
        ["--host", "a:", "mckey", "-m", "239.1.2.3", "-b", "10.0.0.1", "--host", "b:", "mckey", "-s", "-m", "239.1.2.3", "-b", "10.0.0.2"];
    let printed = stdout(&exec(&[&["--on", "ri2"], &words[..]].concat()));
    assert_eq!(printed.matches("joined dgid: ff12:4001:ffff::f01:203").count(), 2, "{printed}");
    assert_eq!(printed.matches("data transfers complete").count(), 2, "{printed}");
}

/// A hundred connections; the server goes on for ever, as on hardware, and is told so.
#[test]
fn cmtime_counts_the_steps_of_connections() {
    is_installed("cmtime");
    let output = exec(&["--on", "ri2", "--host", "a:", "cmtime", "--host", "b:", "cmtime", "-s", "a"]);
    let (printed, errors) = (text(&output.stdout), text(&output.stderr));
    let row = |step: &str| {
        let line = printed.lines().find(|line| line.starts_with(step)).unwrap_or_else(|| panic!("{step}\n{printed}{errors}"));
        line.split_whitespace().rev().take(4).map(|number| number.parse::<f64>().unwrap()).collect::<Vec<f64>>()
    };
    // us of the fastest: a round trip of messages, each of which the kernel works on for 10 us.
    let connect = row("connect ")[1];
    assert!((20.0..60.0).contains(&connect), "{connect}\n{printed}");
    assert!(row("disconnect ")[2] < 10.0, "{printed}");
    assert!(errors.contains("a: cmtime (process 1000) waits for an event of a connection"), "{errors}");
}

/// `-R` gives the numbers of the connection over sockets.
#[test]
fn perftest_connects_by_librdmacm() {
    is_installed("ib_send_lat");
    for tool in ["ib_send_lat", "ib_write_lat", "ib_read_lat", "ib_atomic_lat"] {
        let row = |words: &[&str]| rows(&stdout(&pair("ri2", words))).pop();
        let (by_socket, by_manager) = (row(&[tool, "-n", "100"]), row(&[tool, "-n", "100", "-R"]));
        assert_eq!(by_socket, by_manager, "{tool}");
    }
}

#[test]
fn libfabric_runs_over_verbs() {
    is_installed("fi_pingpong");
    for (provider, kind) in [("verbs", "msg"), ("verbs", "dgram"), ("verbs;ofi_rxm", "rdm"), ("verbs;ofi_rxd", "rdm")] {
        let printed = stdout(&pair("ri2", &["fi_pingpong", "-p", provider, "-e", kind, "-I", "20", "-S", "256"]));
        let times: Vec<f64> = printed
            .lines()
            .filter(|line| line.starts_with("256 "))
            .map(|line| line.split_whitespace().nth(6).unwrap().parse().unwrap())
            .collect();
        assert_eq!(times.len(), 2, "{provider} {kind}\n{printed}");
    }
    // Once it is connected, a message takes what verbs take and some more.
    let printed = stdout(&pair("ri2", &["fi_pingpong", "-p", "verbs", "-e", "msg", "-I", "100", "-S", "256"]));
    let time: f64 = printed.lines().last().and_then(|line| line.split_whitespace().nth(6)).unwrap().parse().unwrap();
    assert!((1.0..2.0).contains(&time), "{printed}");
}

/// Nobody listens: what the client hears is what it would hear on hardware.
#[test]
fn a_connection_that_nobody_takes_is_refused() {
    is_installed("rping");
    let output = exec(&["--on", "ri2", "--host", "a:", "true", "--host", "b:", "rping", "-c", "-a", "a", "-C", "1"]);
    let errors = text(&output.stderr) + &text(&output.stdout);
    assert!(!output.status.success() && errors.contains("RDMA_CM_EVENT_REJECTED, error 8"), "{errors}");
}

/// Datagrams go by the management network: 25 us each way, and 48 us for 60,000 bytes at 10 Gbit/s.
#[test]
fn datagrams_of_udp_go_between_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("main.c"), folder.path().join("main"));
    std::fs::write(&source, include_str!("../programs/exec_datagrams.c")).unwrap();
    assert!(Command::new("cc").arg("-o").arg(&program).arg(&source).status().unwrap().success());
    let printed = stdout(&pair("ri2", &[program.to_str().unwrap()]));
    let golden = "1 bytes from 192.168.0.1 in 51 us, right\n60000 bytes from 192.168.0.1 in 148 us, right\n\
                  0 bytes from 192.168.0.1 in 51 us, right\nI am 192.168.0.2\nnothing more: 0\ntoo large: -1 Message too long\n\
                  nobody there: -1 Connection refused\n";
    assert_eq!(printed, golden);
}

/// Datagrams of rsockets: the server sleeps in a set of descriptors to which another thread adds the queue that the first message needs, and the
/// client polls such a set. Where the server is up too late, the first message is sent again.
#[test]
fn rsockets_carry_datagrams() {
    is_installed("udpong");
    for (server, late) in [("b", "0"), ("a", "0"), ("b", "2")] {
        let serve = format!("sleep {late}; udpong -T {server} -b a & sleep 9; kill $!");
        let ask = "sleep 1; exec udpong -T e -s a -S 64 -C 100";
        let printed = stdout(&exec(&["--on", "ri2", "--host", "a:", "sh", "-c", &serve, "--host", "b:", "sh", "-c", ask]));
        let row: Vec<&str> = printed.lines().last().unwrap_or_default().split_whitespace().collect();
        assert_eq!(row[..3], ["custom", "64", "200"], "{printed}");
        let time: f64 = row[6].parse().unwrap();
        assert!((1.3..2.0).contains(&time), "{printed}");
    }
}
