//! Solvers on simulated clusters: what the program prints, and what the links carried meanwhile.

use std::sync::OnceLock;

use fabriscope_catalog::{Catalog, ResolvedCluster};
use fabriscope_engine::{Cluster, Engine, Job, Run, RunOptions, Watch};
use fabriscope_engine_packet::PacketEngine;
use fabriscope_platform::{Binding, Layout, Target};
use fabriscope_tool::ToolOutput;

/// The catalogue, read once.
fn catalog() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    CATALOG.get_or_init(|| Catalog::embedded().unwrap())
}

/// So many nodes of a cluster.
pub fn nodes(cluster: &str, nodes: u32) -> ResolvedCluster {
    let catalog = catalog();
    let text = format!("name = \"{cluster}\"\nbase = \"{cluster}\"\nnodes = {nodes}\n");
    let cluster = catalog.parse_cluster("cluster.toml", &text).unwrap();
    catalog.resolve(&cluster, None).unwrap()
}

/// The program's command line on the first nodes, with so many ranks on each.
pub fn target(parts: &ResolvedCluster, (nodes, per_node): (u32, u32)) -> Target {
    Target::of(parts, Layout { nodes, per_node }, Binding::default())
}

pub fn run(parts: &ResolvedCluster, layout: (u32, u32), line: &str) -> (ToolOutput, Run) {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let prepared = fabriscope_krylov::prepare(&words, &target(parts, layout)).unwrap_or_else(|error| panic!("{line}: {error}"));
    let cluster = Cluster::new(parts.clone()).unwrap();
    let nodes = (0..prepared.mains.len() as u32).map(|rank| prepared.placing.seat(rank).0).collect();
    let options = RunOptions { link_loads: Watch::On, ..RunOptions::default() };
    let run = PacketEngine.run(&cluster, Job::programs(nodes, prepared.mains), &options, 1);
    let run = run.unwrap_or_else(|error| panic!("{line}: {error}"));
    ((prepared.finish)(), run)
}

/// A time of the table, in us.
pub fn value(output: &ToolOutput, metric: &str) -> f64 {
    output.points.iter().find(|point| point.metric == metric).unwrap_or_else(|| panic!("{metric}: {}", output.text)).value
}

/// A row of the printed table: calls, bytes, microseconds, percent.
pub fn row(output: &ToolOutput, operation: &str) -> [f64; 4] {
    let line = output.text.lines().find(|line| line.split_whitespace().next() == Some(operation));
    let line = line.unwrap_or_else(|| panic!("no row {operation}: {}", output.text));
    let numbers: Vec<f64> = line.split_whitespace().skip(1).map_while(|word| word.parse().ok()).collect();
    numbers[..4].try_into().unwrap_or_else(|_| panic!("{line}"))
}
