//! What Ultra Ethernet and Tomahawk Ultra have of the link: credits in the place of pauses, short headers.

use fabriscope_catalog::ResolvedCluster;
use fabriscope_platform::{Binding, Layout, Target};
use fabriscope_units::{Bytes, Remedy};

use crate::machine::{changed, column, run_for, run_on};

/// Gb/s.
fn bandwidth(parts: &ResolvedCluster, line: &str) -> f64 {
    column(&run_on(parts, &format!("{line} --report_gbits")).0, "bandwidth")[0].1
}

/// A packet of 512 B is 512 + 82 on the wire, and 512 + 46 with the short header.
#[test]
fn short_headers_leave_the_wire_to_the_payload() {
    let [short, long] = ["roce_short", "roce_v2"].map(|layer| {
        let parts = changed("lab-tomahawk-ultra", &format!("link = \"100gbe\"\nlink_layer = \"{layer}\"\n")).unwrap();
        bandwidth(&parts, "ib_write_bw -s 65536 -n 400 -m 512 -q 8")
    });
    assert!((short / (100.0 * 512.0 / 558.0) - 1.0).abs() < 0.005, "{short} Gb/s");
    assert!((short / long / (594.0 / 558.0) - 1.0).abs() < 0.005, "{short} and {long} Gb/s");
}

/// Over 100 m a small buffer is less than a round trip: as many whole packets are in flight as it has credits for. Pauses let the wire be full.
#[test]
fn credits_cover_a_round_trip_or_bound_the_rate() {
    let far = "[cable]\npart = \"optical\"\nhost_length = { value = \"100 m\", basis = \"assumed\", note = \"far\" }\n";
    let rate = |change: &str, buffer: Option<u64>| {
        let mut parts = changed("lab-tomahawk-ultra", change).unwrap();
        if let Some(buffer) = buffer {
            parts.sole_mut().node.nic.rx_buffer.value = Bytes(buffer);
        }
        bandwidth(&parts, "ib_write_bw -s 1048576 -n 400 -q 4")
    };
    let [three, seven] = [16 << 10, 32 << 10].map(|buffer| rate(far, Some(buffer)));
    // There and back, 5 ns a metre, and what the packet takes at both ends.
    let most = 3.0 * 4096.0 * 8.0 / 1000.0;
    assert!(three < most && three > 0.7 * most, "{three} and {most} Gb/s");
    assert!((seven / three / (7.0 / 3.0) - 1.0).abs() < 0.02, "{three} and {seven} Gb/s");
    let pauses = rate(&format!("flow_control = \"lossless\"\n{far}"), Some(16 << 10));
    let near = rate("", None);
    assert!(pauses > 380.0 && near > 380.0, "{pauses} and {near} Gb/s");
}

/// Many send to one: nothing is lost, and nobody is paused.
#[test]
fn an_incast_with_credits_loses_and_pauses_nothing() {
    let parts = changed("lab-tomahawk-ultra", "").unwrap();
    let target = Target::of(&parts, Layout { nodes: 16, per_node: 1 }, Binding::default());
    let run = run_for(&target, &parts, "osu_gather -m 262144:262144 -i 3 -x 1").1.stats;
    assert_eq!((run.drops, run.pauses), (0, 0));
}

#[test]
fn switches_without_them_refuse() {
    for (base, change, expected) in [
        ("lab-uet", "flow_control = \"credits\"", "grants no credits"),
        ("lab-uet", "link_layer = \"roce_short\"", "knows no short header"),
        (
            "lab-tomahawk-ultra",
            "[qos.ethernet]\nlossless = [3]\nclasses = [{ priorities = [0], share = 50 }, { priorities = [3], share = 50 }]",
            "priorities without credits",
        ),
    ] {
        let message = changed(base, change).unwrap_err().in_full();
        assert!(message.contains(expected), "{message}");
    }
}
