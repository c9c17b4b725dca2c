//! Laws that every benchmark keeps on every cluster: nothing is faster than the wire, the bus or the adapter; two directions are at most
//! twice one; more ranks take no less time.

use std::sync::OnceLock;

use fabriscope::{Catalog, Outcome, bench};
use serde_json::Value;

/// The catalogue, read once.
fn catalog() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    CATALOG.get_or_init(|| Catalog::embedded().unwrap())
}

fn ask(tool: &str, cluster: &str, args: &[&str]) -> Outcome {
    let question = bench(tool, cluster).catalog(catalog()).args(args.iter().copied());
    question.outcome().unwrap_or_else(|error| panic!("{tool} on {cluster} {args:?}: {error}"))
}

/// The values of a metric, by size.
fn values(outcome: &Outcome, metric: &str) -> Vec<(u64, f64)> {
    let points = outcome.get("points").and_then(Value::as_array).unwrap();
    let of = points.iter().filter(|point| point["metric"] == metric);
    of.map(|point| (point["bytes"].as_u64().unwrap(), point["value"].as_f64().unwrap())).collect()
}

fn one(tool: &str, cluster: &str, metric: &str, args: &[&str]) -> f64 {
    let outcome = ask(tool, cluster, args);
    values(&outcome, metric).first().unwrap_or_else(|| panic!("{tool} on {cluster}: no {metric} in {}", outcome.data())).1
}

/// Clusters with the rate of their links in Gb/s, and what 16 lanes of the slot leave for packets.
const CLUSTERS: [(&str, f64, f64); 6] = [
    ("ri2", 100.0, 113.7),
    ("betzy-hdr", 100.0, 227.4),
    ("oci-optimized3", 100.0, 227.4),
    ("thor-roce-100g", 100.0, 227.4),
    ("lab-16", 400.0, 454.8),
    ("alaska-roce25", 25.0, 113.7),
];

/// The rate of the host link of a cluster as its parts have it, in Gb/s.
fn link(cluster: &str) -> f64 {
    catalog().target(cluster).unwrap().links().host.rate.as_bps() as f64 / 1e9
}

#[test]
fn links_are_as_the_table_says() {
    for (cluster, gbps, _) in CLUSTERS {
        let found = link(cluster);
        assert!((found - gbps).abs() < 0.1 || cluster == "betzy-hdr" && found <= 200.0, "{cluster}: {found} Gb/s");
    }
}

#[test]
fn no_stream_is_faster_than_the_wire_or_the_bus() {
    for (cluster, _, bus) in CLUSTERS {
        let limit = link(cluster).min(bus);
        for tool in ["ib_write_bw", "ib_read_bw", "ib_send_bw"] {
            let gbps = one(tool, cluster, "bandwidth", &["-s", "1048576", "-n", "40", "--report_gbits"]);
            assert!(gbps < limit, "{tool} on {cluster}: {gbps} Gb/s of {limit}");
            assert!(gbps > 0.8 * limit, "{tool} on {cluster}: {gbps} Gb/s of {limit}");
        }
    }
}

#[test]
fn two_directions_are_at_most_twice_one() {
    for (cluster, ..) in CLUSTERS {
        for size in ["4096", "1048576"] {
            let range = format!("{size}:{size}");
            let args = ["-m", range.as_str(), "-i", "10", "-x", "2"];
            let (one_way, both) = (one("osu_bw", cluster, "bandwidth", &args), one("osu_bibw", cluster, "bandwidth", &args));
            assert!(both <= 2.0 * one_way * 1.02, "{cluster}, {size} B: {both} MB/s both, {one_way} one way");
            assert!(both >= one_way * 0.95, "{cluster}, {size} B: {both} MB/s both, {one_way} one way");
        }
    }
}

#[test]
fn messages_are_no_more_than_the_adapter_sends() {
    // One queue pair of ConnectX-5 sends a request each 26 ns: 38.5 million a second.
    for cluster in ["ri2", "oci-optimized3"] {
        let rate = one("ib_write_bw", cluster, "message_rate", &["-s", "2", "-n", "2000"]);
        assert!(rate <= 1000.0 / 26.0 && rate > 1.0, "{cluster}: {rate} million messages per second");
    }
}

#[test]
fn a_read_takes_longer_than_a_write() {
    // A read goes there and back; half of a ping-pong of writes goes there. The round trip is in it once more than in the write.
    for (cluster, ..) in CLUSTERS {
        let args = ["-s", "8", "-n", "20"];
        let latency = |tool| {
            let outcome = ask(tool, cluster, &args);
            ["typical", "latency", "t_typical", "t_avg", "average"]
                .iter()
                .find_map(|metric| values(&outcome, metric).first().map(|(_, us)| *us))
        };
        let (write, read) = (latency("ib_write_lat").unwrap(), latency("ib_read_lat").unwrap());
        assert!(read > write && read < 3.5 * write, "{cluster}: {read} us to read, {write} us to write");
        let send = latency("ib_send_lat").unwrap();
        assert!(send >= write, "{cluster}: {send} us to send, {write} us to write");
    }
}

#[test]
fn latency_rises_with_the_size() {
    for (cluster, ..) in CLUSTERS {
        let points = values(&ask("osu_latency", cluster, &["-m", "1:65536", "-i", "10", "-x", "2"]), "latency");
        assert_eq!(points.len(), 17, "{cluster}");
        // Limits of protocols may cost a little, and save a little at the next size: a fifth at the most.
        assert!(points.windows(2).all(|pair| pair[1].1 > pair[0].1 * 0.8), "{cluster}: {points:?}");
        let (first, last) = (points[0].1, points[16].1);
        // 64 KiB on the link are the least that it takes more.
        assert!(last - first > 65_536.0 * 8.0 / (link(cluster) * 1e3) * 0.9, "{cluster}: {points:?}");
    }
}

#[test]
fn more_ranks_take_no_less_time() {
    for tool in ["osu_barrier", "osu_allreduce", "osu_bcast", "osu_alltoall"] {
        let taken = |nodes: u32| {
            let question = bench(tool, "betzy-hdr").catalog(catalog()).nodes(nodes).ranks_per_node(1);
            let args: &[&str] = if tool == "osu_barrier" { &["-i", "3", "-x", "1"] } else { &["-m", "4096:4096", "-i", "3", "-x", "1"] };
            let outcome = question.args(args.iter().copied()).outcome().unwrap();
            outcome.get("points").unwrap()[0]["value"].as_f64().unwrap()
        };
        let all = [2, 4, 8, 16].map(taken);
        assert!(all.windows(2).all(|pair| pair[1] > pair[0] * 0.99), "{tool}: {all:?}");
        // Logarithmic or linear, but never worse than that.
        assert!(all[3] < all[0] * 20.0, "{tool}: {all:?}");
    }
}

#[test]
fn an_all_reduce_is_no_slower_than_its_halves() {
    // Who can reduce and broadcast can all-reduce: a library that takes longer than both has a wrong table.
    for size in ["64", "65536"] {
        let range = format!("{size}:{size}");
        let taken = |tool: &str| {
            let question = bench(tool, "ri2:2").catalog(catalog()).nodes(2).ranks_per_node(4);
            let outcome = question.args(["-m", range.as_str(), "-i", "4", "-x", "1"]).outcome().unwrap();
            outcome.get("points").unwrap()[0]["value"].as_f64().unwrap()
        };
        let (all, halves) = (taken("osu_allreduce"), taken("osu_reduce") + taken("osu_bcast"));
        assert!(all < halves * 1.25, "{size} B: {all} us, {halves} us for reduce and broadcast");
    }
}

#[test]
fn gpus_reduce_within_their_links() {
    // Eight H100: 18 links of 25 GB/s each way are 450 GB/s; an A100 has 12 of them, 300 GB/s. The bus bandwidth of a ring is what each
    // link carries; switches that reduce let a sum of 8 ranks pass in less.
    for (cluster, limit) in [("aws-p5", 2.0 * 450.0), ("azure-nda100v4", 300.0)] {
        let outcome = ask("all_reduce_perf", cluster, &["-b", "256M", "-e", "256M", "-n", "2", "-w", "1"]);
        let points = outcome.get("points").and_then(Value::as_array).unwrap();
        let buses: Vec<f64> = points
            .iter()
            .filter(|point| point["metric"].as_str().unwrap().contains("busbw"))
            .map(|point| point["value"].as_f64().unwrap())
            .collect();
        assert!(!buses.is_empty(), "{}", outcome.data());
        assert!(buses.iter().all(|bus| *bus < limit && *bus > 0.25 * limit.min(450.0)), "{cluster}: {buses:?} GB/s of {limit}");
    }
}
