//! iperf3 and netperf: bytes of a TCP connection, and requests on one.
//!
//! What is sent in a fiftieth of a second at least is past the slow start on links that take minutes to simulate for longer.

use fabriscope_tools::Suite;

use super::names::{bandwidth, plain, tool_of};
use super::words::phrases;
use super::{Placement, Quantity, Question, Requested};
use crate::measured::Row;

/// The run that answers a row of a program on sockets; none for other rows.
pub(super) fn ask(row: &Row) -> Option<Requested> {
    let tool = tool_of(&row.benchmark).ok()?.tool;
    (tool.traits().suite == Suite::Sockets)
        .then(|| answered(row, tool.name()).map_or_else(Requested::Skip, |(question, quantity)| Requested::Run(question, quantity)))
}

fn answered(row: &Row, tool: &'static str) -> Result<(Question, Quantity), String> {
    if row.ranks.is_some_and(|ranks| ranks != 2) || row.nodes.is_some_and(|nodes| nodes != 2) {
        return Err(format!("{tool} runs between 2 nodes, a process on each"));
    }
    let mut options = Vec::new();
    for phrase in phrases(&row.variant) {
        if !phrase.starts_with('-') {
            return Err(format!("`{phrase}`: the variant of {tool} has its options alone"));
        }
        let words: Vec<&str> = phrase.split_whitespace().collect();
        match words[..] {
            // How long the real program ran says nothing of the rate.
            ["-t", time] if tool == "iperf3" && time.parse::<f64>().is_ok() => {}
            // A test's own options stand behind its name.
            ["-r", sizes] => options.extend(["--", "-r", sizes].map(str::to_owned)),
            _ => options.extend(words.iter().map(|word| (*word).to_owned())),
        }
    }
    let metric = plain(&row.metric);
    let (column, quantity) = match metric.as_str() {
        "bandwidth" | "throughput" | "bitrate" => (None, bandwidth(&row.unit)),
        "transactionrate" if row.unit == "1/s" => (Some("transaction_rate"), Some(Quantity::MessageRate { per_s: 1.0 })),
        _ => (None, None),
    };
    let quantity = quantity.ok_or_else(|| format!("{tool} does not give the metric `{}` in `{}`", row.metric, row.unit))?;
    options.splice(0..0, [if tool == "iperf3" { "-t" } else { "-l" }, LENGTH].map(str::to_owned));
    let question = Question {
        cluster: row.cluster.clone(),
        tool,
        options,
        placement: Placement::First,
        nodes: 2,
        ranks: 2,
        column,
        ..Question::default()
    };
    Ok((question, quantity))
}

/// How long it is simulated, in seconds.
const LENGTH: &str = "0.02";
