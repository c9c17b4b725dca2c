//! perftest from the command line to the table, on simulated clusters.

use crate::machine;
use fabriscope_catalog::ResolvedCluster;
use fabriscope_platform::Target;
use machine::{column, parts, ri2, run, run_for, run_on, target};

#[test]
fn every_program_fills_its_table() {
    for (line, rows) in [
        ("ib_send_lat -n 20 -a", 23),
        ("ib_send_lat -n 20 -c UC", 1),
        ("ib_send_lat -n 20 -c UD -a", 12),
        ("ib_write_lat -n 20 -c UC", 1),
        ("ib_read_lat -n 20", 1),
        ("ib_atomic_lat -n 20", 1),
        ("ib_atomic_lat -n 20 -A CMP_AND_SWAP", 1),
        ("ib_send_bw -n 20 -a", 23),
        ("ib_send_bw -n 300 -b -q 3", 1),
        ("ib_send_bw -n 300 -c UC -b", 1),
        ("ib_send_bw -n 300 -c UD -a", 12),
        ("ib_write_bw -n 20 -a", 23),
        ("ib_write_bw -n 160 -l 16 -s 64", 1),
        ("ib_write_bw -n 300 -c UC -q 2", 1),
        ("ib_read_bw -n 20 -a -b", 23),
        ("ib_atomic_bw -n 200", 1),
    ] {
        let output = run(line);
        let metric = if line.contains("_lat") { "latency" } else { "bandwidth" };
        let values = column(&output, metric);
        assert_eq!(values.len(), rows, "{line}\n{}", output.text);
        assert!(values.iter().all(|(_, value)| *value > 0.0 && value.is_finite()), "{line}\n{}", output.text);
    }
}

#[test]
fn a_short_write_takes_about_a_microsecond_on_edr() {
    // Published for this machine: 0.94 us (ib_write_lat), 2.0 us (ib_read_lat); wrong by a third is a mistake.
    let latency = |line| column(&run(line), "latency")[0].1;
    let (write, read) = (latency("ib_write_lat -n 50"), latency("ib_read_lat -n 50"));
    assert!((0.65..1.3).contains(&write), "{write}");
    assert!((1.4..2.7).contains(&read), "{read}");
    assert!(latency("ib_send_lat -n 50") > write);
    assert!(latency("ib_write_lat -n 50 -I 0") > write + 0.2, "the payload has to be fetched");
}

#[test]
fn bandwidth_is_bounded_by_the_link() {
    let average = |line| column(&run(line), "bandwidth")[0].1;
    // EDR carries 100 Gb/s; of 4096-byte packets at least 0.98 is payload.
    let one_way = average("ib_write_bw -n 500 --report_gbits");
    assert!((90.0..100.0).contains(&one_way), "{one_way}");
    let both_ways = average("ib_write_bw -n 500 -b --report_gbits");
    assert!((1.7..=2.0).contains(&(both_ways / one_way)), "{both_ways} and {one_way}");
    let average_only = average("ib_write_bw -n 500 --report_gbits -N");
    assert!((average_only - one_way).abs() < 1e-9, "{average_only} without and {one_way} with a peak");
    let mebibytes = average("ib_write_bw -n 500");
    assert!((mebibytes * 1_048_576.0 * 8.0 / 1e9 - one_way).abs() < 0.01, "{mebibytes} MiB/s are {one_way} Gb/s");
}

#[test]
fn latency_grows_with_size() {
    let values = column(&run("ib_write_lat -a -n 10"), "latency");
    assert!(values.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{values:?}");
    // 8 MiB at 100 Gb/s take 671 us, and little else counts.
    let (_, last) = values[22];
    assert!((671.0..800.0).contains(&last), "{last}");
}

#[test]
fn a_receiver_that_is_late_is_waited_for() {
    // Few receives: the peer's NIC answers receiver-not-ready, and the sender tries again after a while.
    let rate = |line| column(&run(line), "message_rate")[0].1;
    let (late, ready) = (rate("ib_send_bw -s 64 -n 500 -b -r 16"), rate("ib_send_bw -s 64 -n 500 -b"));
    assert!(late > 0.0 && late < ready / 2.0, "{late} and {ready}");
}

#[test]
fn post_lists_save_doorbells() {
    let rate = |line| column(&run(line), "message_rate")[0].1;
    assert!(rate("ib_write_bw -s 8 -n 1600 -l 16") > 1.02 * rate("ib_write_bw -s 8 -n 1600"));
}

#[test]
fn a_duration_measures_what_iterations_measure() {
    for tool in ["ib_send_bw -s 65536 -q 2", "ib_send_bw -c UD -s 4096"] {
        let average = |length| column(&run(&format!("{tool} {length}")), "bandwidth")[0].1;
        let (iterations, duration) = (average("-n 5000"), average("-D 1"));
        assert!((iterations / duration - 1.0).abs() < 0.02, "{tool}: {iterations} and {duration}");
    }
    let latency = |length| column(&run(&format!("ib_write_lat {length}")), "latency")[0].1;
    assert!((latency("-n 100") / latency("-D 1") - 1.0).abs() < 0.02);
}

/// The figures of all iterations, with fewer packets; where receives are posted and both ways none is left out.
#[test]
fn what_repeats_is_counted() {
    let parts = parts("ri2");
    let counted = Target { every_iteration: false, ..target(&parts) };
    for (line, metric, fewer) in [
        ("ib_write_lat -s 65536 -n 100", "latency", 10),
        ("ib_read_lat -s 16384 -n 100", "latency", 10),
        ("ib_write_bw -s 1048576 -n 1000", "bandwidth", 2),
        ("ib_read_bw -s 262144 -n 1200 -q 2", "bandwidth", 2),
        ("ib_write_bw -s 262144 -n 300 -b", "bandwidth", 1),
        ("ib_send_lat -s 65536 -n 50", "latency", 1),
    ] {
        let ((all, long), (some, short)) = (run_on(&parts, line), run_for(&counted, &parts, line));
        assert!(short.stats.packets * fewer <= long.stats.packets, "{line}: {} of {}", short.stats.packets, long.stats.packets);
        assert!(fewer > 1 || some.text == all.text, "{line}");
        let (all, some) = (column(&all, metric)[0].1, column(&some, metric)[0].1);
        assert!((some / all - 1.0).abs() < 0.001, "{line}: {some} and {all}");
    }
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    let line = "ib_send_bw -s 65536 -b -n 128 -q 2";
    assert_eq!(run(line), run(line));
}

#[test]
fn a_device_is_a_nic_of_the_node() {
    let (output, _) = run_on(&ri2(2, 2), "ib_write_lat -d mlx5_1 -n 10");
    // Endpoints are counted node by node: the second NICs are LIDs 2 and 4.
    assert!(output.text.contains(" local address: LID 0x02 ") && output.text.contains(" remote address: LID 0x04 "), "{}", output.text);
}

/// Packets that leave their subnet have a header of 40 B more, those within it have none. The two nodes are at one switch.
#[test]
fn packets_between_subnets_have_a_global_header() {
    let within = parts("lab-ib-router");
    let with = |subnet_nodes| ResolvedCluster { subnet_nodes, ..within.clone() };
    let latency = |parts: &ResolvedCluster| column(&run_on(parts, "ib_write_lat -n 20 -s 8").0, "latency")[0].1;
    assert_eq!(latency(&within), latency(&with(None)), "nodes of one subnet");
    // 40 B at 100 Gb/s are 3.2 ns, once on a way that is cut through.
    let header = latency(&with(Some(1))) - latency(&within);
    assert!((header - 0.0032).abs() < 0.0002, "{header} us");
}
