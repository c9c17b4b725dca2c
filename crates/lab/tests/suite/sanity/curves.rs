//! What the benchmarks print on a cluster, by size.

use std::collections::BTreeMap;

use fabriscope_catalog::ResolvedCluster;
use fabriscope_lab::launch::Launch;
use fabriscope_platform::Layout;
use fabriscope_tools::Tool;
use fabriscope_units::Bytes;

/// How much is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The three benchmarks that people run first, at some sizes.
    Short,
    /// All of them, at all sizes up to 4 MiB.
    Long,
}

/// One value for each size.
pub type Curve = BTreeMap<u64, f64>;

/// What the benchmarks print on one cluster: times in microseconds, rates in bytes a second.
pub struct Curves {
    /// The cluster.
    pub cluster: String,
    /// What the adapters of a node send at the most, in bytes a second.
    pub line: f64,
    /// Sizes above which the library does something else, in bytes.
    pub switches: Vec<u64>,
    /// The benchmarks that run, by name; `within` behind those between two ranks of one node.
    pub of: BTreeMap<String, Curve>,
}

/// Benchmarks of MPI, with their options; on GPUs where there are any.
const MPI: [(&str, &str, Extent); 5] = [
    ("osu_latency", "-i 4 -x 1", Extent::Short),
    ("osu_bw", "-i 2 -x 1", Extent::Short),
    ("osu_bibw", "-i 2 -x 1", Extent::Long),
    ("osu_latency", "-i 2 -x 1 D D", Extent::Long),
    ("osu_bw", "-i 1 -x 1 D D", Extent::Long),
];
/// Benchmarks of verbs.
const VERBS: [(&str, &str, Extent); 6] = [
    ("ib_write_lat", "-a -n 6", Extent::Short),
    ("ib_send_lat", "-a -n 6", Extent::Long),
    ("ib_read_lat", "-a -n 6", Extent::Long),
    ("ib_write_bw", "-a -n 80", Extent::Long),
    ("ib_send_bw", "-a -n 80", Extent::Long),
    ("ib_read_bw", "-a -n 80", Extent::Long),
];

impl Curves {
    /// Runs them.
    pub fn of(parts: &ResolvedCluster, extent: Extent) -> Curves {
        let group = parts.uniform().expect("one kind of node");
        let line = group.link.data_rate().as_bps() as f64 / 8.0 * f64::from(group.node.nics.max(1));
        let largest = if extent == Extent::Short { 256 << 10 } else { 4 << 20 };
        let wanted = |of: Extent| extent == Extent::Long || of == Extent::Short;
        let mut of = BTreeMap::new();
        for (tool, options, _) in MPI.into_iter().filter(|(.., of)| wanted(*of)) {
            let smallest = u8::from(tool != "osu_latency");
            let options = format!("-m {smallest}:{largest} {options}");
            let name = format!("{tool}{}", if options.ends_with("D D") { " D D" } else { "" });
            for (within, nodes) in [("", 2), (" within", 1)] {
                if let Some(curve) = curve(parts, tool, &options, nodes) {
                    of.insert(format!("{name}{within}"), curve);
                }
            }
        }
        for (tool, options, _) in VERBS.into_iter().filter(|(.., of)| wanted(*of)) {
            if let Some(mut curve) = curve(parts, tool, options, 2) {
                curve.retain(|size, _| *size <= largest);
                of.insert(tool.to_owned(), curve);
            }
        }
        Curves { cluster: parts.name.clone(), line, switches: switches(&serde_json::to_value(&group.software).unwrap()), of }
    }
}

/// The limits of a library, wherever they stand in its part: `eager_limit`, `above`, `from`.
fn switches(part: &serde_json::Value) -> Vec<u64> {
    let Some(table) = part.as_object() else { return Vec::new() };
    let of = |(key, inner): (&String, &serde_json::Value)| match inner.get("value").and_then(|value| value.as_str()) {
        Some(text) if key.ends_with("_limit") || matches!(key.as_str(), "above" | "from") => {
            Bytes::parse(text).map(|bytes| vec![bytes.as_u64()]).unwrap_or_default()
        }
        _ => switches(inner),
    };
    table.iter().flat_map(of).collect()
}

/// One benchmark; nothing where the cluster does not have it.
fn curve(parts: &ResolvedCluster, tool: &str, options: &str, nodes: u32) -> Option<Curve> {
    if nodes > parts.nodes() {
        return None;
    }
    let tool = Tool::by_name(tool).unwrap();
    let options: Vec<String> = options.split(' ').map(str::to_owned).collect();
    let layout = Layout { nodes, per_node: 2 / nodes };
    let (output, _) = Launch { layout: Some(layout), ..Launch::new(tool, &options, parts) }.run().ok()?;
    let value = |metric: &str, unit: &str, value: f64| match (metric, unit) {
        ("latency", "us") => Some(value),
        ("bandwidth", "MB/s") => Some(value * 1e6),
        ("bandwidth", "MiB/s") => Some(value * 1_048_576.0),
        ("bandwidth", "Gb/s") => Some(value * 1e9 / 8.0),
        _ => None,
    };
    let points = output.points.iter().filter_map(|point| Some((point.size.as_u64(), value(point.metric, point.unit, point.value)?)));
    Some(points.collect())
}
