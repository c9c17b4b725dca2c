//! `rpc` on simulated clusters: the rows of its table.

use crate::machine::{Row, printed, rows};

/// Runs a command line on the first nodes of a cluster.
pub fn run(cluster: &str, nodes: u32, line: &str) -> Vec<Row> {
    rows(printed((cluster, nodes, line), fabriscope_rpc::prepare).tables.into_iter().next().unwrap())
}
