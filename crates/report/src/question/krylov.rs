//! Claims about Krylov solvers whose vector operations are shared with a DPU: by how much an iteration gets shorter, at the most.
//!
//! "Up to" is what a matrix gives that is too large for caches and for which hand-overs and messages are short: 7 points on 256³. The modes of the
//! DPU are taken as the row names them: "hybrid", or "onload" beside it.

use super::{Quantity, Question, Requested};
use crate::measured::Row;

/// The run that answers such a claim; none for other rows.
pub(super) fn ask(row: &Row) -> Option<Requested> {
    if !row.benchmark.trim().to_ascii_lowercase().starts_with("krylov vector ops offload") {
        return None;
    }
    let (metric, variant) = (row.metric.trim().to_ascii_lowercase(), row.variant.to_ascii_lowercase());
    let (Some(nodes), Some(ranks), "%", true) = (row.nodes, row.ranks, row.unit.as_str(), metric.starts_with("improvement")) else {
        return Some(Requested::Skip("a claim about solvers needs nodes, ranks and an improvement in percent".to_owned()));
    };
    if ranks % nodes.max(1) != 0 {
        return Some(Requested::Skip(format!("{ranks} ranks do not fill {nodes} nodes evenly")));
    }
    let mode = match (variant.contains("hybrid"), variant.contains("onload")) {
        (_, true) => "hybrid-onload",
        (true, false) => "hybrid",
        (false, false) => return Some(Requested::Skip("what the DPU does is not said".to_owned())),
    };
    let question = Question {
        cluster: row.cluster.clone(),
        tool: "krylov",
        options: ["--offload", mode, "-i", "2"].map(str::to_owned).into(),
        nodes,
        ranks,
        message_bytes: None,
        column: Some("saved"),
        ..Question::default()
    };
    Some(Requested::Run(question, Quantity::Share { percent: 1.0 }))
}
