//! Claims about broadcasts of GPUs by multicast: by how much they shorten what was there before, at the most.
//!
//! "Up to" is the most over sizes from 64 KiB to 16 MiB ("large messages"), each against the best of the others: k-nomial trees of two degrees and a
//! pipelined ring. Shares of a training's time need the computing beside it, which is not published with them.

use super::{Quantity, Question, Requested};
use crate::measured::Row;

/// The run that answers such a claim; none for other rows.
pub(super) fn ask(row: &Row) -> Option<Requested> {
    let metric = row.metric.trim().to_ascii_lowercase();
    if metric != "latency reduction (up to)" {
        return None;
    }
    let benchmark = row.benchmark.trim().to_ascii_lowercase();
    if benchmark != "mpi_bcast latency" {
        return Some(Requested::Skip(format!("the time that {} computes beside its exchange is not published", row.benchmark)));
    }
    let (Some(nodes), Some(ranks), "%") = (row.nodes, row.ranks, row.unit.as_str()) else {
        return Some(Requested::Skip("a broadcast needs the nodes and the ranks of the row, and a share in percent".to_owned()));
    };
    let question = Question {
        cluster: row.cluster.clone(),
        tool: "bcast_stream",
        options: OPTIONS.map(str::to_owned).into(),
        nodes,
        ranks,
        message_bytes: None,
        column: Some("saved"),
        ..Question::default()
    };
    Some(Requested::Run(question, Quantity::Share { percent: 1.0 }))
}

const OPTIONS: [&str; 14] = [
    "-d",
    "cuda",
    "-m",
    "65536:16777216",
    "-n",
    "2",
    "--algorithm",
    "multicast_gdr",
    "--algorithm",
    "k_nomial_gdr(2)",
    "--algorithm",
    "k_nomial_gdr(4)",
    "--algorithm",
    "ring_gdr",
];
