//! `spark-shuffle` on simulated clusters: the rows of its tables.

use crate::machine::{Row, printed, rows};

/// What a command line printed.
pub struct Output {
    pub stages: Vec<Row>,
    pub tasks: Vec<Row>,
}

/// Runs a command line on the first nodes of a cluster.
pub fn run(cluster: &str, nodes: u32, line: &str) -> Output {
    let mut tables = printed((cluster, nodes, line), fabriscope_spark::prepare).tables.into_iter().map(rows);
    Output { stages: tables.next().unwrap(), tasks: tables.next().unwrap() }
}
