//! Simulated clusters for the tests of this crate.

use fabriscope_catalog::{Catalog, CatalogError, ResolvedCluster};
use fabriscope_engine::{Cluster, Engine, Job, Run, RunOptions};
use fabriscope_engine_packet::PacketEngine;
use fabriscope_node::Main;
use fabriscope_platform::{Binding, Layout, Target};
use fabriscope_tools::{Tool, ToolOutput};
use fabriscope_units::Remedy;

pub fn parts(cluster: &str) -> ResolvedCluster {
    let catalog = Catalog::embedded().unwrap();
    catalog.target(cluster).unwrap()
}

/// A cluster of the catalogue with changes.
pub fn changed(base: &str, change: &str) -> Result<ResolvedCluster, CatalogError> {
    let catalog = Catalog::embedded().unwrap();
    let cluster = catalog.parse_cluster("changed.toml", &format!("name = \"changed\"\nbase = \"{base}\"\n{change}"))?;
    catalog.resolve(&cluster, None)
}

/// The nodes of RI2 in another number, with another number of NICs each, on one switch.
pub fn ri2(nodes: u32, nics: u32) -> ResolvedCluster {
    let text = format!("name = \"ri2\"\nbase = \"ri2\"\nnodes = {nodes}\nnode.nics = {nics}\n");
    let catalog = Catalog::embedded().unwrap();
    let cluster = catalog.parse_cluster("ri2.toml", &text).unwrap();
    catalog.resolve(&cluster, None).unwrap()
}

pub fn target(parts: &ResolvedCluster) -> Target {
    Target::of(parts, Layout { nodes: 2, per_node: 1 }, Binding::default())
}

pub fn run_on(parts: &ResolvedCluster, line: &str) -> (ToolOutput, Run) {
    run_for(&target(parts), parts, line)
}

/// The same as the tool sees `target`.
pub fn run_for(target: &Target, parts: &ResolvedCluster, line: &str) -> (ToolOutput, Run) {
    let mut words = line.split_whitespace().map(str::to_owned);
    let tool = Tool::by_name(&words.next().unwrap()).unwrap();
    let prepared = tool.prepare(&words.collect::<Vec<_>>(), target).unwrap_or_else(|error| panic!("{line}: {error}"));
    let cluster = Cluster::new(parts.clone()).unwrap();
    let nodes = (0..prepared.mains.len() as u32).map(|rank| prepared.placing.seat(rank).0).collect();
    let run = PacketEngine.run(&cluster, Job::programs(nodes, prepared.mains), &RunOptions::default(), 1);
    let run = run.unwrap_or_else(|error| panic!("{line}: {error}"));
    ((prepared.finish)(), run)
}

pub fn run(line: &str) -> ToolOutput {
    run_on(&parts("ri2"), line).0
}

/// Values of one column by size.
pub fn column(output: &ToolOutput, metric: &str) -> Vec<(u64, f64)> {
    output.points.iter().filter(|point| point.metric == metric).map(|point| (point.size.0, point.value)).collect()
}

/// The first latency that a line prints.
pub fn latency(parts: &ResolvedCluster, line: &str) -> f64 {
    column(&run_on(parts, line).0, "latency")[0].1
}

/// Runs `mains` on the first nodes of `parts`, one rank per node.
pub fn execute(parts: &ResolvedCluster, mains: Vec<Main>) -> Result<Run, String> {
    let cluster = Cluster::new(parts.clone()).unwrap();
    let nodes = (0..mains.len() as u32).collect();
    PacketEngine.run(&cluster, Job::programs(nodes, mains), &RunOptions::default(), 1).map_err(|error| error.in_full())
}
