//! The findings for machines; units stand in the names of the keys.

use fabriscope_fabric::analysis::Spread;
use fabriscope_fabric::routing::deadlock::Verdict;
use serde_json::{Value, json};

use super::examine::Examined;
use super::source::Source;
use super::text::length_mm;

/// The whole answer.
pub fn json(source: &Source, examined: &Examined) -> Value {
    let Examined { census, distances, diversity, bisection, pressure, .. } = examined;
    let counts = source.fabric.counts();
    let graph = &source.fabric.graph;
    let switch = source.cluster().and_then(|cluster| cluster.switch.as_ref()).map(|switch| switch.name.clone());
    let switches: Vec<Value> = census
        .switches
        .iter()
        .map(|class| {
            json!({
                "class": class.name, "model": switch, "switches": class.switches, "ports": class.ports,
                "to_endpoints": class.to_endpoints, "to_switches": class.to_switches, "free": class.free(),
            })
        })
        .collect();
    let cables: Vec<Value> = census
        .cables
        .iter()
        .map(|class| {
            json!({
                "kind": class.kind.to_string(), "cables": class.cables, "rate_bps": class.rate.as_bps(),
                "length_m": length_mm(source, class).map(|mm| mm as f64 / 1000.0),
            })
        })
        .collect();
    let busiest = pressure.busiest.map(|link| {
        let ends = graph.link(link);
        json!({
            "from": source.port(ends.from, ends.from_port), "to": source.port(ends.to, ends.to_port), "load": pressure.links[link.index()],
        })
    });
    let cycle = if let Verdict::Cycle(hops) = &examined.deadlock { hops.len() } else { 0 };
    json!({
        "fabric": source.name, "topology": source.fabric.to_string(),
        "endpoints": counts.endpoints, "switches": counts.switches, "cables": counts.cables,
        "switch_classes": switches, "cable_classes": cables,
        "distances": {
            "pairs_by_switches": distances.pairs, "apart": distances.apart, "diameter_switches": distances.diameter(),
            "mean_switches": distances.mean(), "sampled_switches": distances.sampled,
        },
        "bisection": bisection.as_ref().map(|found| json!({
            "cables": found.cables, "rate_bps": found.rate.as_bps(), "share": found.share, "halves_tried": found.tried, "exact": found.exact,
        })),
        "shortest_paths": spread(&diversity.shortest), "disjoint_paths": spread(&diversity.disjoint),
        "load": {
            "pattern": examined.pattern, "note": examined.note, "routing": examined.routing.name(), "idle_network": examined.adaptive,
            "busiest": busiest, "mean": pressure.mean, "endpoints": pressure.endpoints, "worst": pressure.worst(),
            "ideal": pressure.ideal, "factor": pressure.factor(), "lost": pressure.unreachable,
        },
        "lanes": examined.lanes,
        "deadlock": {
            "free": examined.deadlock.is_free(), "verdict": examined.deadlock.describe(&source.fabric), "cycle_links": cycle,
        },
    })
}

fn spread(spread: &Spread) -> Value {
    json!({ "min": spread.min, "median": spread.median, "max": spread.max, "pairs": spread.of, "sampled": spread.sampled })
}
