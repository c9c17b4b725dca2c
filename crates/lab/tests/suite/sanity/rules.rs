//! The rules, and what breaks them.

use super::curves::{Curve, Curves};

/// A value that no machine can give.
#[derive(Debug, Clone, PartialEq)]
pub struct Violation {
    cluster: String,
    benchmark: String,
    rule: &'static str,
    size: u64,
    /// The values that do not go together.
    pub what: String,
}

impl Violation {
    /// Its name, which stays as long as the rule is broken at that place.
    pub fn name(&self) -> String {
        format!("{} {} {} {}", self.cluster, self.benchmark, self.rule, self.size)
    }
}

/// What breaks a rule on a cluster.
pub fn examine(curves: &Curves) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut broken = |benchmark: &str, rule: &'static str, size: u64, what: String| {
        found.push(Violation { cluster: curves.cluster.clone(), benchmark: benchmark.to_owned(), rule, size, what });
    };
    for (name, curve) in &curves.of {
        let within = name.ends_with("within");
        let is_time = name.contains("lat");
        let most = curves.line * if name.contains("bibw") { 2.0 } else { 1.0 };
        for ((before, earlier), (size, value)) in curve.iter().zip(curve.iter().skip(1)) {
            let switch = curves.switches.iter().any(|limit| (*before..*size).contains(limit));
            if is_time && *value < earlier * (1.0 - if switch { SWITCH } else { NEAR }) {
                broken(name, "sooner-when-longer", *size, format!("{before} B take {earlier:.3} us, {size} B {value:.3} us"));
            }
            if !is_time && *value < earlier * (1.0 - if switch { SWITCH } else { DIP }) {
                broken(
                    name,
                    "less-when-longer",
                    *size,
                    format!("{before} B at {:.1} MB/s, {size} B at {:.1} MB/s", earlier / 1e6, value / 1e6),
                );
            }
        }
        for (size, value) in curve.iter().filter(|_| !within) {
            if !is_time && *value > most * (1.0 + NEAR) {
                broken(name, "above-the-line", *size, format!("{:.1} MB/s of {:.1} MB/s", value / 1e6, most / 1e6));
            }
            let wire = *size as f64 / curves.line * 1e6;
            if is_time && *value < wire {
                broken(name, "sooner-than-the-line", *size, format!("{value:.3} us, the line takes {wire:.3} us"));
            }
        }
    }
    // Two measurements of one machine: the first is not below so much of the second, at the sizes of both up to a largest.
    for (first, second, share, largest, rule) in ORDERS {
        let (Some(above), Some(below)) = (curves.of.get(first), curves.of.get(second)) else { continue };
        for (size, value, other) in both(above, below).filter(|(size, ..)| *size <= largest) {
            if value < other * share {
                let unit = if first.contains("lat") { "us" } else { "B/s" };
                broken(first, rule, size, format!("{value:.3} {unit}, {second} has {other:.3} {unit}"));
            }
        }
    }
    found
}

fn both<'a>(one: &'a Curve, other: &'a Curve) -> impl Iterator<Item = (u64, f64, f64)> + 'a {
    one.iter().filter_map(|(size, value)| Some((*size, *value, *other.get(size)?)))
}

/// What counts as the same. Basis: assumed; a benchmark prints two decimals.
const NEAR: f64 = 0.005;
/// How far a rate may fall from one size to the next. Basis: assumed; a second packet, a second page.
const DIP: f64 = 0.05;
/// How far it may fall where the library takes another way, by a limit of its part. Basis: assumed; the published falls at the change to a
/// rendezvous are 10 % to 25 %.
const SWITCH: f64 = 0.3;

/// Orders of two benchmarks: the first is at least so much of the second, at sizes up to a largest.
const ORDERS: [(&str, &str, f64, u64, &str); 7] = [
    // Short messages between two ranks of one node do not cross an adapter twice.
    ("osu_latency", "osu_latency within", 1.0, 8192, "sooner-than-within-the-node"),
    // A library adds to what it posts; a write is the shortest of it.
    ("osu_latency", "ib_write_lat", 0.95, 4096, "sooner-than-its-writes"),
    // Whole round trips are not shorter than halves.
    ("ib_read_lat", "ib_write_lat", 1.0, 4 << 20, "sooner-than-half-a-round-trip"),
    ("ib_send_lat", "ib_write_lat", 0.95, 4 << 20, "sooner-than-its-writes"),
    // Both directions together carry no less than one.
    ("osu_bibw", "osu_bw", 0.95, 4 << 20, "less-than-one-way"),
    ("osu_bibw within", "osu_bw within", 0.9, 4 << 20, "less-than-one-way"),
    // Messages from GPU to GPU are not faster than between hosts while they are short.
    ("osu_latency D D", "osu_latency", 0.995, 4096, "sooner-than-between-hosts"),
];

#[test]
fn every_rule_can_be_broken() {
    let curve = |points: &[(u64, f64)]| points.iter().copied().collect::<Curve>();
    let names = |of: &[(&str, Curve)]| {
        let of = of.iter().map(|(name, curve)| ((*name).to_owned(), curve.clone())).collect();
        let found = examine(&Curves { cluster: "c".to_owned(), line: 1e9, switches: vec![100], of });
        found.iter().map(Violation::name).collect::<Vec<_>>()
    };
    // 1 GB/s are 1 KiB in 1.024 us.
    assert_eq!(names(&[("osu_latency", curve(&[(8, 1.0), (16, 1.0), (1024, 2.0)]))]), Vec::<String>::new());
    assert_eq!(names(&[("osu_latency", curve(&[(8, 1.0), (16, 0.9)]))]), ["c osu_latency sooner-when-longer 16"]);
    // A limit at 100 B: the library may copy too long.
    assert_eq!(names(&[("osu_latency", curve(&[(64, 1.0), (128, 0.8)]))]), Vec::<String>::new());
    assert_eq!(names(&[("osu_latency", curve(&[(64, 1.0), (128, 0.6)]))]), ["c osu_latency sooner-when-longer 128"]);
    assert_eq!(names(&[("osu_latency", curve(&[(1024, 1.0)]))]), ["c osu_latency sooner-than-the-line 1024"]);
    assert_eq!(names(&[("osu_bw", curve(&[(8, 1e6), (16, 0.9e6)]))]), ["c osu_bw less-when-longer 16"]);
    // A limit at 100 B: from 64 B to 128 B the library may lose more, but not half.
    assert_eq!(names(&[("osu_bw", curve(&[(64, 1e6), (128, 0.8e6)]))]), Vec::<String>::new());
    assert_eq!(names(&[("osu_bw", curve(&[(64, 1e6), (128, 0.6e6)]))]), ["c osu_bw less-when-longer 128"]);
    assert_eq!(names(&[("osu_bw", curve(&[(8, 1.1e9)]))]), ["c osu_bw above-the-line 8"]);
    assert_eq!(names(&[("osu_bibw", curve(&[(8, 1.1e9)]))]), Vec::<String>::new());
    // What stays within a node crosses no line.
    assert_eq!(names(&[("osu_bw within", curve(&[(8, 1.1e9)]))]), Vec::<String>::new());
    let pair = names(&[("osu_latency", curve(&[(8, 1.0)])), ("osu_latency within", curve(&[(8, 1.5)]))]);
    assert_eq!(pair, ["c osu_latency sooner-than-within-the-node 8"]);
    assert_eq!(names(&[("osu_bw", curve(&[(8, 1e6)])), ("osu_bibw", curve(&[(8, 0.5e6)]))]), ["c osu_bibw less-than-one-way 8"]);
}
