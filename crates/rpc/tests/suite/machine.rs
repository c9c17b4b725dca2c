//! Tools on simulated clusters, and the rows of their tables.

use std::sync::OnceLock;

use fabriscope_catalog::{Catalog, ResolvedCluster};
use fabriscope_engine::{Cluster, Engine, Job, RunOptions};
use fabriscope_engine_packet::PacketEngine;
use fabriscope_platform::{Binding, Layout, Target};
use fabriscope_tool::{DataTable, Datum, Prepared, ToolOutput, UsageError};

/// The catalogue, read once.
fn catalog() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    CATALOG.get_or_init(|| Catalog::embedded().unwrap())
}

pub fn parts(cluster: &str) -> ResolvedCluster {
    catalog().target(cluster).unwrap()
}

/// The cluster, with more nodes where it has fewer.
fn of_size(cluster: &str, nodes: u32) -> ResolvedCluster {
    let parts = parts(cluster);
    if parts.nodes() >= nodes {
        return parts;
    }
    let text = format!("name = \"{cluster}\"\nbase = \"{cluster}\"\nnodes = {nodes}\n");
    catalog().resolve(&catalog().parse_cluster("cluster.toml", &text).unwrap(), None).unwrap()
}

pub fn target(parts: &ResolvedCluster, nodes: u32) -> Target {
    Target::of(parts, Layout { nodes, per_node: 1 }, Binding::default())
}

pub fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// What a tool printed that a command line ran on the first nodes of a cluster.
pub fn printed((cluster, nodes, line): (&str, u32, &str), prepare: fn(&[String], &Target) -> Result<Prepared, UsageError>) -> ToolOutput {
    let parts = of_size(cluster, nodes);
    let prepared = prepare(&words(line), &target(&parts, nodes)).unwrap_or_else(|error| panic!("{line}: {error}"));
    let cluster = Cluster::new(parts.clone()).unwrap();
    let nodes = (0..prepared.mains.len() as u32).map(|rank| prepared.placing.seat(rank).0).collect();
    let run = PacketEngine.run(&cluster, Job::programs(nodes, prepared.mains), &RunOptions::default(), 1);
    run.unwrap_or_else(|error| panic!("{line}: {error}"));
    (prepared.finish)()
}

/// A row of a table.
#[derive(Debug, Clone)]
pub struct Row(Vec<(&'static str, Datum)>);

impl Row {
    pub fn of(&self, key: &str) -> f64 {
        match self.0.iter().find(|(known, _)| *known == key) {
            Some((_, Datum::Number(number))) => *number,
            Some((_, Datum::Count(count))) => *count as f64,
            other => panic!("{key}: {other:?}"),
        }
    }
}

pub fn rows(table: DataTable) -> Vec<Row> {
    let columns = table.columns;
    table.rows.into_iter().map(|row| Row(columns.iter().copied().zip(row).collect())).collect()
}
