//! Parts as data and back: what a part becomes as JSON is, written as TOML, the same part; and names that parts refer to exist.

use fabriscope_catalog::{AnyPart, Catalog, Kind};
use serde_json::Value;

/// JSON without nulls, which TOML does not have.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            Value::Object(map.into_iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| (key, without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

#[test]
fn every_part_survives_json_and_toml() {
    let catalog = Catalog::embedded().unwrap();
    let mut seen = 0;
    for part in catalog.parts().filter(|part| part.kind() != Kind::Cluster) {
        let json = without_nulls(part.to_json());
        let text = toml::to_string(&json).unwrap_or_else(|error| panic!("{}: {error}", part.name()));
        // Bases are resolved: the text stands alone.
        assert!(!text.contains("\nbase = "), "{}", part.name());
        let again = catalog.parse_part(part.kind(), part.name(), &text).unwrap_or_else(|error| panic!("{}: {error}\n{text}", part.name()));
        assert_eq!(without_nulls(again.to_json()), json, "{}", part.name());
        seen += 1;
    }
    assert!(seen > 200, "{seen} parts");
}

#[test]
fn every_cluster_survives_json_and_toml() {
    let catalog = Catalog::embedded().unwrap();
    for part in catalog.parts() {
        let AnyPart::Cluster(cluster) = part else { continue };
        let json = without_nulls(part.to_json());
        let text = toml::to_string(&json).unwrap_or_else(|error| panic!("{}: {error}", part.name()));
        let again = catalog.parse_cluster("again.toml", &text).unwrap_or_else(|error| panic!("{}: {error}\n{text}", part.name()));
        // What it names resolves to the same parts and numbers.
        let (one, other) = (catalog.resolve(cluster, None).unwrap(), catalog.resolve(&again, None).unwrap());
        let json = |resolved| serde_json::to_value(resolved).unwrap();
        assert_eq!(json(&one), json(&other), "{}", part.name());
    }
}

/// Numbers anywhere in a part: the value with its basis and what stands behind it.
fn numbers<'v>(value: &'v Value, found: &mut Vec<(&'v Value, &'v str, bool)>) {
    if let Value::Object(map) = value {
        if let (Some(number), Some(Value::String(basis))) = (map.get("value"), map.get("basis")) {
            let told = ["source", "note"].iter().any(|key| map.get(*key).and_then(Value::as_str).is_some_and(|text| text.len() > 2));
            found.push((number, basis, told));
        }
        map.values().for_each(|value| numbers(value, found));
    } else if let Value::Array(items) = value {
        items.iter().for_each(|value| numbers(value, found));
    }
}

#[test]
fn every_number_says_where_it_comes_from() {
    let known = ["datasheet", "standard", "measured", "published", "fitted", "estimated", "assumed"];
    let catalog = Catalog::embedded().unwrap();
    let mut all = 0;
    for part in catalog.parts() {
        let json = part.to_json();
        let mut found = Vec::new();
        numbers(&json, &mut found);
        for (number, basis, told) in &found {
            assert!(known.contains(basis) && *told, "{}: {number} is {basis}", part.name());
        }
        all += found.len();
        // A number of physics without unit is a text with digits at its end.
        for (number, ..) in found.iter().filter(|(number, ..)| number.is_string()) {
            let text = number.as_str().unwrap();
            let bare = text.chars().all(|letter| letter.is_ascii_digit() || letter == '.');
            assert!(!bare, "{}: `{text}` has no unit", part.name());
        }
    }
    assert!(all > 3000, "{all} numbers");
}

#[test]
fn links_carry_what_their_standard_says() {
    // Lanes · signalling rate · encoding: 8b/10b until QDR, 64b/66b until EDR, 256b/257b with RS(544,514) = 16/17 from HDR on.
    let table = [
        ("sdr", 4.0 * 2.5 * 0.8, 8.0),
        ("ddr", 4.0 * 5.0 * 0.8, 16.0),
        ("qdr", 4.0 * 10.0 * 0.8, 32.0),
        ("fdr10", 4.0 * 10.3125 * 64.0 / 66.0, 40.0),
        ("fdr", 4.0 * 14.0625 * 64.0 / 66.0, 54.545),
        ("edr", 4.0 * 25.78125 * 64.0 / 66.0, 100.0),
        ("hdr100", 2.0 * 53.125 * 16.0 / 17.0, 100.0),
        ("hdr", 4.0 * 53.125 * 16.0 / 17.0, 200.0),
        ("ndr200", 2.0 * 106.25 * 16.0 / 17.0, 200.0),
        ("ndr", 4.0 * 106.25 * 16.0 / 17.0, 400.0),
        ("xdr", 4.0 * 212.5 * 16.0 / 17.0, 800.0),
        ("1gbe", 1.25 * 0.8, 1.0),
        ("10gbe", 10.3125 * 64.0 / 66.0, 10.0),
        ("25gbe", 25.78125 * 64.0 / 66.0, 25.0),
        ("40gbe", 4.0 * 10.3125 * 64.0 / 66.0, 40.0),
        ("50gbe", 53.125 * 16.0 / 17.0, 50.0),
        ("100gbe", 4.0 * 25.78125 * 64.0 / 66.0, 100.0),
        ("200gbe", 4.0 * 53.125 * 16.0 / 17.0, 200.0),
        ("400gbe", 4.0 * 106.25 * 16.0 / 17.0, 400.0),
        ("800gbe", 8.0 * 106.25 * 16.0 / 17.0, 800.0),
    ];
    let catalog = Catalog::embedded().unwrap();
    for (name, derived, called) in table {
        let rate = catalog.link(name).unwrap().data_rate().as_bps() as f64 / 1e9;
        assert!((rate - derived).abs() < derived / 1000.0, "{name}: {rate} Gb/s, not {derived}");
        assert!((rate - called).abs() < 0.01, "{name}: {rate} Gb/s, called {called}");
    }
}

#[test]
fn light_is_no_faster_than_light() {
    // 299,792,458 m/s: at least 3.336 ns a metre. Fibre with an index of 1.468 takes 4.9 ns, copper between 4.3 and 5.
    let catalog = Catalog::embedded().unwrap();
    for name in catalog.names(Kind::Cable) {
        let AnyPart::Cable(cable) = catalog.part(Kind::Cable, name).unwrap() else { panic!("{name} is no cable") };
        let delay = cable.delay(fabriscope_catalog::Length::parse("100 m").unwrap()).as_ps();
        assert!((333_600..600_000).contains(&delay), "{name}: {delay} ps for 100 m");
    }
}

#[test]
fn published_machines_have_their_nodes_and_adapters() {
    // Nodes and adapters per node as their operators publish them.
    let table = [
        // cluster, nodes, adapters of each, GPUs of each, cores of each
        ("frontier", 9408, 4, 8, 64),
        ("lumi-c", 2048, 1, 0, 128),
        ("lumi-g", 2978, 4, 8, 64),
        ("archer2", 5860, 2, 0, 128),
        ("aurora", 10_624, 8, 6, 104),
        ("el-capitan", 11_136, 4, 4, 96),
    ];
    let catalog = Catalog::embedded().unwrap();
    for (name, nodes, nics, gpus, cores) in table {
        let cluster = catalog.target(name).unwrap();
        let node = &cluster.sole().node;
        assert_eq!((cluster.nodes(), node.nics, node.gpus), (nodes, nics, gpus), "{name}");
        assert_eq!(node.cpu.cores * node.sockets, cores, "{name}");
        assert_eq!(cluster.endpoints(), nodes * nics, "{name}");
    }
}

#[test]
fn topologies_have_room_for_their_nodes() {
    let catalog = Catalog::embedded().unwrap();
    for part in catalog.parts().filter(|part| part.kind() == Kind::Cluster) {
        let cluster = catalog.target(part.name()).unwrap();
        // The largest take seconds to wire; their counts are above.
        if cluster.endpoints() > 10_000 {
            continue;
        }
        let fabric = cluster.fabric().unwrap_or_else(|error| panic!("{}: {error}", part.name()));
        assert!(fabric.graph.endpoint_count() >= cluster.endpoints(), "{}", part.name());
        let ports = cluster.radix();
        for switch in 0..fabric.graph.switch_count() {
            let used = u32::from(fabric.graph.port_count(fabriscope_fabric::SwitchId(switch)));
            assert!(used <= ports, "{}: switch {switch} uses {used} of {ports} ports", part.name());
        }
    }
}
