//! Programs on sockets, on simulated clusters.

use crate::machine;
use fabriscope_catalog::{Catalog, ResolvedCluster};
use fabriscope_units::Bytes;
use machine::{column, parts, run_on};

/// A cluster that rests on another one.
fn changed(base: &str, change: &str) -> ResolvedCluster {
    machine::changed(base, change).unwrap()
}

fn value(parts: &ResolvedCluster, line: &str, metric: &str) -> f64 {
    column(&run_on(parts, line).0, metric)[0].1
}

const SHORT: &str = "iperf3 -t 0.01 -i 0";

#[test]
fn a_round_trip_is_what_the_kernel_and_the_wire_cost() {
    let ethernet = parts("thor-roce-100g");
    let kernel = &ethernet.ip.kernel;
    let one_way =
        *kernel.syscall * 2 + *kernel.send_segment + *kernel.interrupt + *kernel.receive_packet + *kernel.receive_segment + *kernel.wake_up;
    let trip = value(&ethernet, "netperf -l -20", "round_trip");
    let least = 2.0 * one_way.as_us_f64();
    // Adapter, bus, switch and the 2 us of the adaptive interrupt come on top, at most 5 us each way.
    assert!(trip > least && trip < least + 10.0, "{trip} us against {least} us in the kernels");
    // What a wake-up takes longer is in the round trip twice; the acknowledgements of the first 16 exchanges come in between.
    let mut slow = ethernet.clone();
    slow.ip.kernel.wake_up.value = *kernel.wake_up * 2;
    let more = value(&slow, "netperf -l -400", "round_trip") - value(&ethernet, "netperf -l -400", "round_trip");
    assert!((more - 2.0 * kernel.wake_up.as_us_f64()).abs() < 0.3, "{more}");
}

/// A transaction takes each core two calls, a segment out and one in with its interrupt, and a wake-up; the share is of all cores of the node.
#[test]
fn core_time_is_what_calls_and_interrupts_take() {
    let ethernet = parts("thor-roce-100g");
    let kernel = &ethernet.ip.kernel;
    let calls = *kernel.syscall * 2 + *kernel.send_segment + *kernel.wake_up;
    let expected = (calls + *kernel.interrupt + *kernel.receive_packet + *kernel.receive_segment).as_us_f64();
    let output = run_on(&ethernet, "netperf -l -400 -c -C").0;
    let row = output.text.lines().find(|line| line.starts_with("16384  131072 1")).unwrap();
    let columns: Vec<f64> = row.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let [.., rate, local, remote, by_local, by_remote] = columns[..] else { panic!("{row}") };
    assert!(by_local > expected && by_local < 1.1 * expected, "{by_local} us against {expected}");
    assert!((by_local - by_remote).abs() < 0.05 * expected, "{row}");
    let node = &ethernet.sole().node;
    let share = 100.0 * by_local * rate / 1e6 / f64::from(node.sockets * node.cpu.cores);
    assert!((local - share).abs() < 0.02 && (remote - local).abs() < 0.1, "{share} in {row}");
    // One flow: the sender has time left, and the receiver's core is full with the program and the interrupts.
    let output = run_on(&ethernet, "iperf3 -t 0.01 -i 0 -V").0;
    let loads = [column(&output, "cpu_sender")[0].1, column(&output, "cpu_receiver")[0].1];
    assert!(loads.iter().all(|load| *load > 10.0 && *load < 100.0), "{loads:?}");
    assert!(output.text.contains("CPU Utilization: local/sender "), "{}", output.text);
}

#[test]
fn throughput_depends_on_the_offloads_and_the_mtu() {
    let usual = parts("thor-roce-100g");
    let rate = |parts: &ResolvedCluster, line: &str| value(parts, line, "bandwidth");
    let with = |change: fn(&mut ResolvedCluster)| {
        let mut parts = usual.clone();
        change(&mut parts);
        rate(&parts, SHORT)
    };
    let all = rate(&usual, SHORT);
    let no_gro = with(|parts| parts.ip.kernel.receive_offload = false);
    let no_tso = with(|parts| parts.ip.kernel.segmentation_offload = false);
    let sums = with(|parts| parts.ip.kernel.checksum_offload = false);
    let jumbo = with(|parts| parts.ip.mtu = Bytes(9000));
    let apart = with(|parts| parts.ip.kernel.flow_steering = false);
    // One core of a tuned host: published single flows reach 20 to 45 Gb/s with an MTU of 1500.
    assert!((20.0..50.0).contains(&all), "{all}");
    assert!(no_gro < 0.3 * all && sums < 0.9 * all && no_tso <= all, "{no_gro}, {sums}, {no_tso} against {all}");
    assert!(jumbo > 1.1 * all && apart > 1.1 * all, "{jumbo} and {apart} against {all}");
    // More streams take more cores, up to the wire.
    let four = rate(&usual, "iperf3 -t 0.005 -i 0 -P 4");
    assert!(four > 85.0 && four < 100.0, "{four}");
    // A window of w bytes gives w per round trip.
    let windowed = rate(&usual, "iperf3 -t 0.01 -i 0 -w 64K");
    assert!(windowed < 0.7 * all, "{windowed}");
    assert!((rate(&usual, "iperf3 -t 0.01 -i 0 -R") / all - 1.0).abs() < 0.05);
}

#[test]
fn ip_over_infiniband_has_two_modes() {
    let datagram = parts("ibex-cpu");
    let connected = changed("ibex-cpu", "ip.mode = \"connected\"\n");
    assert_eq!((datagram.ip.mtu, connected.ip.mtu), (Bytes(4092), Bytes(65_520)));
    let small = changed("ibex-cpu", "ip.mtu = \"2044 B\"\n");
    let rates = [&small, &datagram, &connected].map(|parts| value(parts, SHORT, "bandwidth"));
    assert!(rates[0] < rates[1], "{rates:?}");
    assert!(rates.iter().all(|rate| (15.0..70.0).contains(rate)), "{rates:?}");
}

#[test]
fn losses_cost_throughput_and_nothing_is_lost() {
    let mut lossy = changed("thor-roce-100g", "flow_control = \"lossy\"\n");
    lossy.switch.as_mut().unwrap().buffer.value = Bytes(40_000);
    let (output, run) = run_on(&lossy, "iperf3 -n 20M -i 0 -P 2");
    assert!(run.stats.drops == 0 || column(&output, "retransmissions")[0].1 > 0.0, "{}", output.text);
    let received = output.text.lines().find(|line| line.starts_with("[SUM]") && line.ends_with("receiver")).unwrap();
    assert!(received.contains("40.0 MBytes"), "{received}");
}

#[test]
fn the_library_runs_over_sockets_too() {
    let native = parts("ibex-cpu");
    let mut over_tcp = native.clone();
    over_tcp.sole_mut().software = Catalog::embedded().unwrap().software("openmpi-tcp").unwrap().clone();
    let latency = |parts: &ResolvedCluster| value(parts, "osu_latency -m 8:8 -i 20", "latency");
    let (fast, slow) = (latency(&native), latency(&over_tcp));
    assert!(slow > 5.0 * fast && slow < 15.0, "{fast} and {slow}");
    for line in ["osu_bw -m 1048576:1048576 -i 5 -x 1", "osu_bibw -m 65536:65536 -i 5 -x 1", "osu_mbw_mr -p 3 -m 4096:4096 -i 5 -x 1"] {
        let (fast, slow) = (value(&native, line, "bandwidth"), value(&over_tcp, line, "bandwidth"));
        assert!(slow > 100.0 && slow < 0.9 * fast, "{line}: {fast} and {slow}");
    }
}

/// A datagram takes of each core what its parts say, asks for no acknowledgement, and is quicker than a segment by what TCP does.
#[test]
fn datagrams_are_quicker_than_segments_and_promise_nothing() {
    let ethernet = parts("thor-roce-100g");
    let kernel = &ethernet.ip.kernel;
    let [tcp, udp] = ["netperf -l -400", "netperf -t UDP_RR -l -400"].map(|line| value(&ethernet, line, "round_trip"));
    // Acknowledgements ride on answers, but for those of the first 16, which begin the wait for an interrupt earlier.
    let less = 2.0 * (*kernel.send_segment - *kernel.send_datagram + (*kernel.receive_segment - *kernel.receive_datagram)).as_us_f64();
    assert!((tcp - udp - less).abs() < 1.0, "{tcp} us and {udp} us, {less} us less");
    // A core sends one after the other: a call, its copy, its datagram and its share of a page.
    let output = run_on(&ethernet, "netperf -t UDP_STREAM -l 0.003 -- -m 1472").0;
    let [sent, came] = ["sent", "bandwidth"].map(|metric| column(&output, metric)[0].1);
    let each = (*kernel.syscall + *kernel.send_datagram + *kernel.page * 1472 / 4096).as_us_f64();
    let most = 1472.0 * 8.0 / each / 1e3;
    assert!(sent < most && sent > 0.75 * most, "{sent} Gb/s of at most {most}");
    assert!(came <= sent, "{came}");
    // Fragments of 4072 B: the receiver's core cannot follow, and its buffer drops what it cannot hold.
    let output = run_on(&parts("ibex-cpu"), "netperf -t UDP_STREAM -l 0.003 -- -m 65507").0;
    let [sent, came] = ["sent", "bandwidth"].map(|metric| column(&output, metric)[0].1);
    assert!(came < 0.95 * sent && came > 5.0, "{came} of {sent}");
    let output = run_on(&ethernet, "iperf3 -u -b 2G -t 0.003 -P 2 -i 0").0;
    let [rate, lost] = ["bandwidth", "lost"].map(|metric| column(&output, metric)[0].1);
    assert!((rate - 4.0).abs() < 0.1 && lost == 0.0, "{rate} and {lost}");
    assert!(output.text.lines().any(|line| line.starts_with("[SUM]") && line.ends_with("receiver")), "{}", output.text);
}

#[test]
fn tcp_in_the_adapter_spares_cores() {
    let (kernel, offload) = (parts("lab-iwarp-t6"), parts("lab-toe-t6"));
    let [slow, fast] = [&kernel, &offload].map(|parts| value(parts, "netperf -l -50", "round_trip"));
    assert!(fast < slow - 1.0, "{fast} against {slow}");
    let [slow, fast] = [&kernel, &offload].map(|parts| run_on(parts, "iperf3 -t 0.005 -i 0 -V").0);
    let rate = |output: &_| column(output, "bandwidth")[0].1;
    assert!(rate(&fast) > 1.3 * rate(&slow), "{} against {}", rate(&fast), rate(&slow));
    let wrong = Catalog::embedded().unwrap();
    let cluster = wrong.parse_cluster("wrong.toml", "name = \"wrong\"\nbase = \"ibex-cpu\"\nip.offload = true").unwrap();
    assert!(wrong.resolve(&cluster, None).unwrap_err().to_string().contains("no TCP of its own"));
}
