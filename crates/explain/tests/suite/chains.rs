//! Explanations on real clusters: stages add up to the whole, the bound is what is busy longest, and changes go in the right direction.

use std::collections::BTreeMap;

use fabriscope_catalog::Catalog;
use fabriscope_explain::{Changes, ExplainRequest, explain, occupancy};
use fabriscope_report::Outcome;
use fabriscope_units::Span;
use serde_json::Value;

fn ask(catalog: &Catalog, tool: &str, cluster: &str, size: Option<u64>, changes: Changes) -> Outcome {
    let request = ExplainRequest { tool: tool.to_owned(), size, changes, seed: 1, ..ExplainRequest::default() };
    let parts = catalog.target(cluster).unwrap();
    explain(&request, catalog, &parts, &|_, _| ()).unwrap_or_else(|error| panic!("{tool} on {cluster}: {error}"))
}

fn ps(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no picoseconds: {value}"))
}

fn stages(outcome: &Outcome) -> Vec<(String, u64)> {
    let rows = outcome.get("stages").and_then(Value::as_array).unwrap();
    rows.iter().map(|row| (row["stage"].as_str().unwrap().to_owned(), ps(&row["ps"]))).collect()
}

#[test]
fn stages_add_up_for_every_tool() {
    let catalog = Catalog::embedded().unwrap();
    let tools = [
        ("ib_write_lat", &["ri2", "thor-roce-100g", "lab-16"][..]),
        ("ib_read_lat", &["ri2", "oci-optimized3"]),
        ("ib_send_lat", &["ri2", "betzy-hdr"]),
        ("ib_atomic_lat", &["ri2"]),
        ("ib_write_bw", &["ri2"]),
        ("osu_latency", &["ri2", "csd3-opa", "lumi-c", "aws-c5n-efa", "lab-iwarp-t6", "alaska-roce25"]),
        ("osu_bw", &["ri2"]),
        ("osu_put_latency", &["ri2"]),
        ("osu_get_latency", &["betzy-hdr"]),
    ];
    for (tool, clusters) in tools {
        for cluster in clusters {
            for size in [8, 65_536] {
                let size = (tool != "ib_atomic_lat").then_some(size);
                let outcome = ask(&catalog, tool, cluster, size, Changes::Left);
                let (stages, total) = (stages(&outcome), ps(outcome.get("total_ps").unwrap()));
                assert!(!stages.is_empty() && total > 0, "{tool} on {cluster}: {size:?}");
                assert_eq!(stages.iter().map(|(_, ps)| ps).sum::<u64>(), total, "{tool} on {cluster}: {size:?}: {stages:?}");
                // The longest is the sum of its parts: a stage that comes twice counts twice.
                let mut sums = BTreeMap::<&str, u64>::new();
                stages.iter().for_each(|(name, ps)| *sums.entry(name).or_default() += ps);
                let longest = outcome.get("longest").and_then(Value::as_str).unwrap();
                assert_eq!(sums.values().max(), sums.get(longest), "{tool} on {cluster}: {sums:?}");
            }
        }
    }
}

#[test]
fn the_stages_of_a_write_by_hand() {
    // ib_write_lat, 8 B inline from the host, RI2 (the parts say each number): the switch and the two cables between are
    //   sb7790 port to port, 2 · 2 m · 5 ns/m = 20 ns of copper; the core builds the request in 40 ns.
    let catalog = Catalog::embedded().unwrap();
    let outcome = ask(&catalog, "ib_write_lat", "ri2", Some(8), Changes::Left);
    let of = |name: &str| stages(&outcome).iter().filter(|(stage, _)| stage == name).map(|(_, ps)| ps).sum::<u64>();
    let switch = catalog.switch("sb7790").unwrap();
    let latency = switch.latency.as_ps();
    assert_eq!(of("propagation"), 20_000);
    assert_eq!(of("switch"), latency);
    // Both pipelines of ConnectX-5 take 210 ns; the payload is written in 130 ns by the root complex and the time of one packet on the bus.
    assert_eq!((of("nic tx"), of("nic rx")), (210_000, 210_000));
    // 8 B + 16 B RETH + 26 B of other headers, and what the link adds, at 100 Gb/s: 4 to 6 ns for each time it is put on a wire anew.
    assert!((4_000..=12_000).contains(&of("serialisation")), "{}", of("serialisation"));
    // Nothing waits on an idle network.
    assert_eq!(of("queueing"), 0);
}

#[test]
fn changes_go_in_the_right_direction() {
    let catalog = Catalog::embedded().unwrap();
    let outcome = ask(&catalog, "ib_write_lat", "ri2", Some(4096), Changes::Tried);
    let total = ps(outcome.get("total_ps").unwrap());
    let changes = outcome.get("changes").and_then(Value::as_array).unwrap();
    let change = |words: &str| {
        let found = changes.iter().find(|change| change["change"].as_str().unwrap().contains(words));
        ps(&found.unwrap_or_else(|| panic!("no `{words}` in {changes:?}"))["ps"])
    };
    // Half of the lanes: the payload takes longer over the bus. Twice the generation: shorter. No switch: shorter by its latency and a
    // cable at least. Faster links: shorter. Requests that are fetched: longer, by a read of the bus.
    assert!(change("PCIe x8 instead of x16") > total);
    assert!(change("PCIe generation 4 instead of 3") < total);
    let hop = catalog.switch("sb7790").unwrap().latency.as_ps();
    let without = change("no switch between the nodes");
    assert!(without + hop <= total, "{without} + {hop} > {total}");
    assert!(change("links of") < total);
    assert!(change("work requests fetched") > total + 400_000);
    // One message alone does not care for the rate of messages.
    assert_eq!(change("twice the message rate"), total);
    // A smaller MTU cuts the message in two: the first half is on its way while the second is put on the wire.
    assert_ne!(change("MTU 2048 B instead of 4096 B"), total);
}

#[test]
fn rates_care_for_what_latencies_do_not() {
    let catalog = Catalog::embedded().unwrap();
    let outcome = ask(&catalog, "ib_write_bw", "ri2", Some(65_536), Changes::Tried);
    let interval = ps(outcome.get("interval_ps").unwrap());
    // 64 KiB are 16 packets of 4096 B with 26 B of headers: 5.28 us at 100 Gb/s. From memory come 607 completions of 108 B with 20 B
    // each: 77,676 B at 113.70 Gb/s, 5.465 us. So the sender's bus binds, and not the link.
    let bus = (65_536.0 + 607.0 * 20.0) * 8.0 / 113.70 * 1000.0;
    assert!((interval as f64 / bus - 1.0).abs() < 0.015, "{interval} ps, not {bus}");
    let changes = outcome.get("changes").and_then(Value::as_array).unwrap();
    let change = |words: &str| {
        let found = changes.iter().find(|change| change["change"].as_str().unwrap().contains(words)).unwrap();
        ps(&found["ps"]) as f64 / interval as f64
    };
    // A stream feels neither a hop less nor a faster link; half of the lanes double what binds, and with the next generation of the bus
    // the link binds.
    assert!((change("no switch between the nodes") - 1.0).abs() < 0.01);
    assert!((change("links of") - 1.0).abs() < 0.01);
    assert!((change("PCIe x8 instead of x16") - 2.0).abs() < 0.03);
    let link = 16.0 * 4122.0 * 8.0 / 100.0 * 1000.0;
    assert!((change("PCIe generation 4 instead of 3") * interval as f64 / link - 1.0).abs() < 0.015);
}

#[test]
fn what_a_message_keeps_busy_by_hand() {
    // 64 KiB on RI2. Link: 16 · 4122 B and 16 B less at 100 Gb/s. Sender's bus: completions of 108 B with 20 B each: 607 of them,
    // 65,536 + 12,140 B at 113.70 Gb/s. Receiver's: 256 writes of 256 B with 24 B: 71,680 B.
    let parts = Catalog::embedded().unwrap().target("ri2").unwrap();
    let busy: BTreeMap<String, Span> =
        occupancy::resources(&parts, 65_536, true, None).into_iter().map(|busy| (busy.what.into_owned(), busy.span)).collect();
    let near = |what: &str, bytes: f64, gbps: f64| {
        let (found, expected) = (busy[what].as_ps() as f64, bytes * 8.0 / gbps * 1000.0);
        assert!((found / expected - 1.0).abs() < 0.003, "{what}: {found} ps, not {expected}");
    };
    near("link", 16.0 * 4122.0, 100.0);
    near("PCIe of the sender", 65_536.0 + 607.0 * 20.0, 113.70);
    near("PCIe of the receiver", 65_536.0 + 256.0 * 24.0, 113.70);
    // One send queue of ConnectX-5: 26 ns from request to request.
    assert_eq!(busy["NIC's send engine"], Span::from_ns(26));
}

#[test]
fn messages_that_are_cut_over_rails_keep_each_busy_for_less() {
    // Two adapters share what MPI sends above its limit for striping: the link of each has half. perftest uses one adapter.
    let parts = Catalog::embedded().unwrap().target("archer2").unwrap();
    let link = |size, perftest, pieces| occupancy::resources(&parts, size, perftest, pieces)[0].span.as_ps() as f64;
    let whole = link(1 << 20, true, None);
    assert!((link(1 << 20, true, Some(2)) / whole - 0.5).abs() < 0.01);
    assert!((link(2 << 20, true, None) / whole - 2.0).abs() < 0.01);
}

#[test]
fn the_busiest_resource_binds_a_stream() {
    let catalog = Catalog::embedded().unwrap();
    for (tool, cluster, size) in [("ib_write_bw", "ri2", 262_144), ("ib_write_bw", "lab-16", 262_144), ("osu_bw", "betzy-hdr", 262_144)] {
        let outcome = ask(&catalog, tool, cluster, Some(size), Changes::Left);
        let interval = ps(outcome.get("interval_ps").unwrap());
        let busy = occupancy::resources(&catalog.target(cluster).unwrap(), size, tool.starts_with("ib_"), None);
        let most = busy.iter().max_by_key(|busy| busy.span).unwrap();
        // Nothing is busy for longer than a message takes, and the busiest nearly all the time.
        assert!(most.span.as_ps() <= interval + interval / 50, "{tool} on {cluster}: {} in {interval} ps", most.span);
        assert!(most.span.as_ps() > interval * 8 / 10, "{tool} on {cluster}: {} in {interval} ps", most.span);
        let text = occupancy::text(&busy, Span::from_ps(interval));
        assert!(text.contains(&*most.what), "{text}");
    }
}

#[test]
fn copies_and_collectives_of_gpus() {
    let catalog = Catalog::embedded().unwrap();
    let copies = ask(&catalog, "nvbandwidth", "aws-p5", Some(16 << 20), Changes::Left);
    for copy in copies.get("copies").and_then(Value::as_array).unwrap() {
        let sum: u64 = copy["stages"].as_array().unwrap().iter().map(|stage| ps(&stage["ps"])).sum();
        assert_eq!(sum, ps(&copy["total_ps"]), "{copy}");
    }
    // All-reduce of 1 MiB in one node: each thing twice as fast saves or changes nothing, never costs; what binds saves most.
    let outcome = ask(&catalog, "all_reduce_perf", "aws-p5", Some(1 << 20), Changes::Tried);
    let size = &outcome.get("sizes").unwrap()[0];
    let taken = size["taken"]["us"].as_f64().unwrap();
    let faster: Vec<(&str, f64)> =
        size["twice_as_fast"].as_array().unwrap().iter().map(|row| (row["what"].as_str().unwrap(), row["us"].as_f64().unwrap())).collect();
    assert!(faster.iter().all(|(_, us)| *us <= taken * 1.001 && *us >= taken / 2.0 * 0.999), "{taken}: {faster:?}");
    assert!(faster.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{faster:?}");
    assert_eq!(size["bound"].as_str(), faster.first().map(|(what, _)| *what));
}

#[test]
fn what_cannot_be_explained_is_refused() {
    let catalog = Catalog::embedded().unwrap();
    let refused = |tool: &str, cluster: &str, nodes: Option<u32>| {
        let request = ExplainRequest { tool: tool.to_owned(), nodes, changes: Changes::Left, seed: 1, ..ExplainRequest::default() };
        let error = explain(&request, &catalog, &catalog.target(cluster).unwrap(), &|_, _| ()).unwrap_err();
        let help = miette::Diagnostic::help(&error).map(|help| help.to_string()).unwrap_or_default();
        assert!(!help.is_empty(), "{tool}: {error}");
        error.to_string()
    };
    assert!(refused("osu_latncy", "ri2", None).contains("`osu_latency`"));
    assert!(refused("osu_latency", "ri2", Some(3)).contains("two nodes"));
    assert!(refused("ib_write_lat", "ri2", Some(2)).contains("--nodes is for the OSU benchmarks"));
    assert!(refused("nvbandwidth", "ri2", None).contains("GPU"));
}
