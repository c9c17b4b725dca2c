//! Terms of perftest: a number of a part is raised, and latencies and message rates change by as much as the verb passes that part.

use crate::machine;
use fabriscope_catalog::ResolvedCluster;
use fabriscope_units::{Rate, Span};
use machine::{column, parts, run_on};
use proptest::prelude::*;

const MORE: Span = Span::from_us(1);

fn measured(parts: &ResolvedCluster, line: &str, metric: &str) -> f64 {
    column(&run_on(parts, line).0, metric)[0].1
}

/// How many microseconds a latency rises by.
fn rise(line: &str, change: fn(&mut ResolvedCluster)) -> f64 {
    let before = parts("ri2");
    let mut after = before.clone();
    change(&mut after);
    measured(&after, line, "latency") - measured(&before, line, "latency")
}

fn switch(parts: &mut ResolvedCluster) {
    parts.switch.as_mut().unwrap().latency.value += MORE;
}

#[test]
fn verbs_cross_the_network_as_often_as_their_protocol_says() {
    // A ping-pong of writes or sends prints half of a round trip: one crossing. A read and an atomic print a whole one: request and response.
    let table = [
        ("ib_write_lat -s 8 -n 30", 1.0),
        ("ib_send_lat -s 8 -n 30", 1.0),
        ("ib_send_lat -s 8 -n 30 -c UD", 1.0),
        ("ib_write_lat -s 65536 -n 30", 1.0),
        ("ib_read_lat -s 8 -n 30", 2.0),
        ("ib_atomic_lat -n 30", 2.0),
    ];
    for (line, crossings) in table {
        let risen = rise(line, switch);
        assert!((risen - crossings).abs() < 0.02, "{line}: {risen} us");
    }
}

#[test]
fn pipelines_of_adapters_are_passed_on_every_crossing() {
    // Each crossing leaves by one adapter's transmit pipeline and comes in by the other's receive pipeline.
    for (line, crossings) in [("ib_write_lat -s 8 -n 30", 1.0), ("ib_read_lat -s 8 -n 30", 2.0)] {
        let out = rise(line, |parts| parts.sole_mut().node.nic.tx_latency.value += MORE);
        let into = rise(line, |parts| parts.sole_mut().node.nic.rx_latency.value += MORE);
        assert!((out - crossings).abs() < 0.02 && (into - crossings).abs() < 0.02, "{line}: {out} and {into} us");
    }
}

#[test]
fn streams_do_not_feel_latencies() {
    // 300 writes of 64 KiB in flight together: 1 us more on the way adds 1 us to 1.6 ms.
    let before = parts("ri2");
    let mut after = before.clone();
    switch(&mut after);
    let line = "ib_write_bw -s 65536 -n 300";
    let (fast, slow) = (measured(&before, line, "bandwidth"), measured(&after, line, "bandwidth"));
    assert!(slow <= fast && slow > 0.995 * fast, "{fast} and {slow}");
}

#[test]
fn a_message_rate_is_the_reciprocal_of_the_send_engine() {
    // Where the adapter takes 500 ns from message to message, longer than core, bus and wire take for 2 B, it sends two million in a
    // second: 2 Mpps. One send queue, as `wqe_interval` says, is the same limit.
    for engine in [false, true] {
        let mut slow = parts("ri2");
        let nic = &mut slow.sole_mut().node.nic;
        if engine {
            nic.message_interval.value = Span::from_ns(500);
        } else {
            nic.wqe_interval.value = Span::from_ns(500);
        }
        let rate = measured(&slow, "ib_write_bw -s 2 -n 2000", "message_rate");
        assert!((rate - 2.0).abs() < 0.03, "{rate} Mpps");
    }
}

#[test]
fn a_bus_of_half_the_lanes_carries_half() {
    // 64 KiB over PCIe 3.0 x16 of 113.7 Gb/s: completions of 108 B with 20 B each. With 8 lanes it is half, and the bus binds.
    let mut narrow = parts("ri2");
    narrow.sole_mut().node.pcie.lanes = 8;
    let gbps = |parts: &ResolvedCluster| measured(parts, "ib_write_bw -s 65536 -n 300 --report_gbits", "bandwidth");
    let (wide, half) = (gbps(&parts("ri2")), gbps(&narrow));
    let bus = 113.7 / 2.0 * 108.0 / 128.0;
    assert!((half / bus - 1.0).abs() < 0.02, "{half} of {bus} Gb/s");
    assert!((wide / half - 2.0).abs() < 0.05, "{wide} and {half} Gb/s");
}

#[test]
fn slower_links_bind() {
    // With the bus as it is and links of a quarter of the rate: 25 Gb/s with 4096 B in 4122 B.
    let mut slow = parts("ri2");
    for link in slow.link_speeds_mut() {
        link.lane_rate.value = Rate::from_bps(link.lane_rate.value.as_bps() / 4);
        link.data_rate.value = Rate::from_bps(link.data_rate.value.as_bps() / 4);
    }
    let gbps = measured(&slow, "ib_write_bw -s 65536 -n 300 --report_gbits", "bandwidth");
    let link = slow.sole().link.data_rate().as_bps() as f64 / 1e9 * 4096.0 / 4122.0;
    assert!(gbps < link && gbps > 0.98 * link, "{gbps} of {link} Gb/s");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    /// For any size: a stream is slower than the link, a read takes longer than a write, and twice the bytes take no less time.
    #[test]
    fn verbs_of_any_size(size in 1u32..300_000) {
        let parts = parts("ri2");
        let latency = |verb: &str, size: u32| measured(&parts, &format!("ib_{verb}_lat -s {size} -n 8"), "latency");
        let (write, read) = (latency("write", size), latency("read", size));
        prop_assert!(read > write, "{} B: a read in {} us, a write in {} us", size, read, write);
        // From inline to fetched there is a step up, and none down.
        prop_assert!(latency("write", 2 * size) >= write);
        let gbps = measured(&parts, &format!("ib_write_bw -s {size} -n 64 --report_gbits"), "bandwidth");
        prop_assert!(gbps < 100.0 * 4096.0 / 4122.0, "{} B: {} Gb/s", size, gbps);
        prop_assert!(write > f64::from(size) * 8.0 / 100e3, "{} B in {} us", size, write);
    }
}
