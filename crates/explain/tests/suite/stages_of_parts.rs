//! Which stages a message has, and that each part is in the stage that is named after it: a number of a part is raised by 1 us, and that
//! stage and the whole are longer by as many microseconds as the message passes the part.

use crate::ask;
use ask::{Explained, parts, tell};
use fabriscope_catalog::{BlueFlame, Length, ResolvedCluster};
use fabriscope_units::Span;

const MORE: Span = Span::from_us(1);

/// How much longer a stage is, and the whole, after a change of RI2.
fn grown(line: &str, size: u64, stage: &str, change: impl Fn(&mut ResolvedCluster)) -> (u64, u64) {
    let before = parts("ri2");
    let mut after = before.clone();
    change(&mut after);
    let (before, after) = (tell(&before, line, size), tell(&after, line, size));
    (after.of(stage).saturating_sub(before.of(stage)), after.total().saturating_sub(before.total()))
}

/// What is raised, the stage that it is in, and how.
type Part = (&'static str, fn(&mut ResolvedCluster));

const PARTS: [Part; 4] = [
    ("switch", |parts| parts.switch.as_mut().unwrap().latency.value += MORE),
    ("nic tx", |parts| parts.sole_mut().node.nic.tx_latency.value += MORE),
    ("nic rx", |parts| parts.sole_mut().node.nic.rx_latency.value += MORE),
    ("post", |parts| parts.sole_mut().node.cpu.wqe_build.value += MORE),
];

#[test]
fn a_write_passes_each_part_once() {
    // The core builds a request, the adapter sends, the switch forwards, the other adapter receives.
    for (stage, change) in PARTS {
        for size in [8, 4096] {
            assert_eq!(grown("ib_write_lat", size, stage, change), (1_000_000, 1_000_000), "{stage}, {size} B");
        }
    }
}

#[test]
fn a_read_passes_the_network_twice() {
    // The request goes there and the data come back: two adapters send, two receive, twice through the switch. One request is built.
    for (stage, change) in PARTS {
        let passed = if stage == "post" { 1_000_000 } else { 2_000_000 };
        assert_eq!(grown("ib_read_lat", 8, stage, change), (passed, passed), "{stage}");
    }
    // An atomic goes there and back as well.
    let there_and_back = grown("ib_atomic_lat", 8, "switch", PARTS[0].1);
    assert_eq!(there_and_back, (2_000_000, 2_000_000));
}

#[test]
fn a_cable_is_its_length() {
    // 30 m more at 5 ns/m of copper on both sides of the switch: 300 ns for each crossing.
    for (line, crossings) in [("ib_write_lat", 1), ("ib_send_lat", 1), ("ib_read_lat", 2)] {
        let longer = grown(line, 8, "propagation", |parts| parts.sole_mut().host_length.value = Length::from_mm(32_000));
        let metre = parts("ri2").cable.propagation_per_metre.as_ps();
        assert_eq!(longer, (crossings * 60 * metre, crossings * 60 * metre), "{line}");
    }
}

#[test]
fn payload_is_fetched_where_it_is_not_inline() {
    // Inline the core writes the payload with the request; otherwise the adapter reads it from memory, which takes at least what the root
    // complex takes for a read.
    let read = parts("ri2").sole().node.cpu.root_complex.dma_read_latency.as_ps();
    let inline = tell(&parts("ri2"), "ib_write_lat -I 64", 64);
    let fetched = tell(&parts("ri2"), "ib_write_lat -I 0", 64);
    assert!(!inline.has("payload fetch") && fetched.of("payload fetch") >= read, "{:?}", fetched.stages());
    assert!(fetched.total() >= inline.total() + read / 2, "{} and {}", inline.total(), fetched.total());
}

#[test]
fn requests_are_fetched_where_they_are_not_pushed() {
    // BlueFlame: the request is in the doorbell. Without: the adapter reads it behind the doorbell.
    let mut plain = parts("ri2");
    plain.sole_mut().node.nic.blueflame = BlueFlame::Never;
    let (pushed, fetched) = (tell(&parts("ri2"), "ib_write_lat", 8), tell(&plain, "ib_write_lat", 8));
    let read = plain.sole().node.cpu.root_complex.dma_read_latency.as_ps();
    assert_eq!(pushed.of("wqe fetch"), 0);
    assert!(fetched.of("wqe fetch") >= read, "{:?}", fetched.stages());
    assert_eq!(
        fetched.total() - pushed.total(),
        fetched.of("wqe fetch") + fetched.of("post") + fetched.of("doorbell") - pushed.of("post") - pushed.of("doorbell")
    );
}

#[test]
fn every_message_names_what_no_message_goes_without() {
    // Whatever the tool and the transport: a post, both pipelines, bits on a wire, a cable, memory at the end and a core that sees it.
    let names = ["post", "nic tx", "serialisation", "propagation", "nic rx", "poll"];
    let lines =
        [("ib_write_lat", "ri2"), ("ib_send_lat", "thor-roce-100g"), ("ib_read_lat", "oci-optimized3"), ("osu_latency", "alaska-roce25")];
    for (line, cluster) in lines {
        let told = tell(&parts(cluster), line, 1024);
        for name in names {
            assert!(told.has(name), "{line} on {cluster} has no `{name}`: {:?}", told.stages());
        }
        assert!(told.has("payload write"), "{line} on {cluster}");
        assert!(told.stages().iter().all(|(_, ps)| *ps > 0), "empty stages say nothing: {:?}", told.stages());
    }
}

#[test]
fn hops_are_counted_inside_the_fabric() {
    // On lab-1024 two nodes of one leaf are one switch apart, two of different pods three or more; each switch is the same part: the stage
    // is a whole number of its latency.
    let across = parts("lab-1024");
    let latency = across.switch.as_ref().unwrap().latency.as_ps();
    let told = tell(&across, "ib_write_lat", 8);
    let hops = told.of("switch") / latency;
    assert_eq!(told.of("switch"), hops * latency);
    assert!(hops == 1 || hops == 3 || hops == 5, "{hops} switches");
    // Back to back there is none, and one cable.
    let near = tell(&parts("lab-16"), "ib_write_lat", 8);
    assert_eq!(near.of("switch"), parts("lab-16").switch.as_ref().unwrap().latency.as_ps());
}

/// The one-way time that a tool prints in its explanation, in us.
fn printed(told: &Explained) -> f64 {
    let text = told.text();
    let words = text.split("prints a latency of ").nth(1).unwrap_or_else(|| panic!("{text}"));
    words.split_whitespace().next().unwrap().parse().unwrap()
}

/// The whole of the stages and what the tool prints, in us.
fn both(line: &str, cluster: &str, size: u64) -> (f64, f64) {
    let told = tell(&parts(cluster), line, size);
    (told.total() as f64 / 1e6, printed(&told))
}

#[test]
fn the_whole_is_what_the_tool_prints() {
    // Latency tests print half of a round trip (a whole one for reads and atomics) of the same run with two decimals. Typical and followed
    // exchange differ by less than two turns of a polling loop: 0.03 us.
    let cases =
        [("ib_write_lat", "ri2"), ("ib_send_lat", "ri2"), ("ib_read_lat", "ri2"), ("osu_latency", "ri2"), ("osu_latency", "betzy-hdr")];
    for (line, cluster) in cases {
        for size in [8, 32_768] {
            let (whole, printed) = both(line, cluster, size);
            assert!((whole - printed).abs() < 0.04, "{line} on {cluster}, {size} B: {whole} us and {printed} us");
        }
    }
    let (whole, printed) = both("osu_latency", "lumi-c", 8);
    assert!((whole - printed).abs() < 0.04, "{whole} us and {printed} us");
}

#[test]
fn a_rendezvous_over_slingshot_is_followed_from_end_to_end() {
    // 32 KiB are above the eager limit of Cray MPICH (8191 B): an announcement, a read of the receiver, the end. The tool prints 6.17 us; the
    // stages of the read alone make up 3.96 us.
    for cluster in ["lumi-c", "slingshot11-milan"] {
        let (whole, printed) = both("osu_latency", cluster, 32_768);
        assert!((whole - printed).abs() < 0.04, "{cluster}: {whole} us and {printed} us");
    }
}
