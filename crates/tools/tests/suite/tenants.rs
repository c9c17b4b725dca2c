//! Programs in virtual machines of tenants: who switches their packets, and what that takes of whom.

use crate::machine;
use fabriscope_catalog::{Catalog, ResolvedCluster, StageKind, SwitchedBy};
use fabriscope_engine::timing;
use fabriscope_tool::ToolOutput;
use fabriscope_units::{Remedy, Span};
use machine::{column, parts, run_on};

fn by(switched: SwitchedBy) -> ResolvedCluster {
    let mut parts = parts("lab-tenants");
    if let Some(switch) = &mut parts.ip.virtual_switch {
        switch.by = switched;
    }
    parts
}
fn value(output: &ToolOutput, metric: &str) -> f64 {
    column(output, metric)[0].1
}
const ALL: [SwitchedBy; 3] = [SwitchedBy::Host, SwitchedBy::DpuCores, SwitchedBy::Adapter];

#[test]
fn what_moves_to_the_adapter_leaves_the_hosts_cores() {
    let [host, cores, adapter] = ALL.map(|switched| run_on(&by(switched), "iperf3 -t 0.005 -i 0 -V").0);
    for side in ["sender", "receiver"] {
        let used = |output: &ToolOutput, whose: &str| value(output, &format!("switch_{whose}_{side}"));
        // A worker that copies 1 to 2 GB/s or more, and the core that brings packets up; nothing of it is left with the others.
        assert!(used(&host, "host") > 20.0 && used(&host, "adapter") == 0.0, "{}", host.text);
        assert!(used(&cores, "host") == 0.0 && used(&cores, "adapter") > 20.0, "{}", cores.text);
        // Two upcalls and some packets before the rules: of 5 ms a few per cent.
        assert!(used(&adapter, "host") == 0.0 && used(&adapter, "adapter") < 10.0, "{}", adapter.text);
    }
    let rates = [&host, &cores, &adapter].map(|output| value(output, "bandwidth"));
    // A core of the host that merges packets spares the machine's own; all cores together carry less for it.
    let all = |output: &ToolOutput| {
        let metrics = ["cpu_sender", "cpu_receiver", "switch_host_sender", "switch_host_receiver"];
        value(output, "bandwidth") / metrics.map(|metric| value(output, metric)).iter().sum::<f64>()
    };
    assert!(rates.iter().all(|rate| *rate > 20.0) && all(&adapter) > 2.0 * all(&host), "{rates:?}, {} and {}", all(&adapter), all(&host));
    assert!(host.text.contains("Virtual switch: local/sender host "), "{}", host.text);
}

/// Each node adds the latencies of all stages on the way out and on the way in; headers of the tunnel are 50 B on 200 Gb/s.
#[test]
fn a_round_trip_takes_the_stages_four_times() {
    let mut plain = by(SwitchedBy::Adapter);
    let stages = &plain.sole().node.nic.pipeline.as_ref().unwrap().stages;
    let added = stages.iter().map(|stage| *stage.latency).sum::<Span>().as_us_f64() * 4.0;
    plain.ip.virtual_switch = None;
    let trip = |parts: &ResolvedCluster| value(&run_on(parts, "netperf -l -400").0, "round_trip");
    let [host, cores, adapter] = ALL.map(|switched| trip(&by(switched)));
    let plain = trip(&plain);
    assert!((adapter - plain - added).abs() < 0.3, "{adapter} us, {plain} us and {added} us");
    assert!(adapter < cores && cores < host, "{adapter}, {cores}, {host}");
}

#[test]
fn a_slow_stage_bounds_the_packets() {
    let mut parts = by(SwitchedBy::Adapter);
    let nic = &mut parts.sole_mut().node.nic;
    for stage in nic.pipeline.iter_mut().flat_map(|pipeline| &mut pipeline.stages).filter(|stage| stage.kind == StageKind::Exact) {
        stage.interval.value = Span::from_ns(2000);
    }
    // Datagrams of 1000 B every 2 us are 4 Gb/s; without that a core sends more.
    let line = "iperf3 -u -b 0 -l 1000 -t 0.004 -i 0";
    let [slow, usual] = [&parts, &by(SwitchedBy::Adapter)].map(|parts| value(&run_on(parts, line).0, "bandwidth"));
    assert!(slow < 4.05 && slow > 3.5 && usual > 1.2 * slow, "{slow} and {usual} Gb/s");
}

#[test]
fn tunnels_and_encryption_take_bytes_and_cores() {
    let with = |ipsec: &str, by: &str| {
        let text = format!(
            "name = \"changed\"\nbase = \"lab-tenants\"\nip.virtual_switch = {{ by = \"{by}\", tunnel = \"geneve\", ipsec = \"{ipsec}\" }}\n"
        );
        let catalog = Catalog::embedded().unwrap();
        catalog.resolve(&catalog.parse_cluster("changed.toml", &text).unwrap(), None).unwrap()
    };
    assert_eq!([with("none", "host"), with("cores", "host")].map(|parts| timing::ip(&parts).mtu), [1450, 1416]);
    let line = "iperf3 -t 0.004 -i 0 -V";
    let [plain, cores] = ["none", "cores"].map(|ipsec| run_on(&with(ipsec, "host"), line).0);
    let [stages, engine] = ["none", "engine"].map(|ipsec| run_on(&with(ipsec, "adapter"), line).0);
    let rate = |output| value(output, "bandwidth");
    assert!(rate(&cores) < 0.7 * rate(&plain) && rate(&engine) > 0.9 * rate(&stages), "{} {}", cores.text, engine.text);
    assert!(value(&engine, "switch_host_sender") == 0.0 && value(&cores, "switch_host_sender") > 50.0, "{}", cores.text);
}

#[test]
fn what_cannot_switch_is_refused() {
    let catalog = Catalog::embedded().unwrap();
    for (base, change, part) in [
        ("lab-n6000", "by = \"dpu_cores\"", "[dpu.switching]"),
        ("lab-tenants", "ipsec = \"cores\"", "ipsec = \"engine\""),
        ("lab-tenants", "tenants = 100000", "table of adapter bluefield-3 holds"),
        ("lab-tenants", "by = \"dpu_cores\"\nip.virtual_switch.cores = 17", "1 up to all"),
        ("thor-roce-100g", "by = \"adapter\"", "[pipeline]"),
        ("ibex-cpu", "by = \"host\"", "Ethernet"),
    ] {
        let text = format!("name = \"changed\"\nbase = \"{base}\"\nip.virtual_switch.{change}\n");
        let cluster = catalog.parse_cluster("changed.toml", &text).unwrap();
        let told = catalog.resolve(&cluster, None).unwrap_err().in_full();
        assert!(told.contains(part), "{base}, {change}: {told}");
    }
}
