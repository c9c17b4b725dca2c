//! `fabriscope transports`: what each transport service promises and needs, from the properties the NIC decides by.
//!
//! The rows are those of the comparison in the HotI 2025 tutorial on high-performance networking: how many queue pairs M processes
//! on each of N nodes need, what becomes of corrupt, lost and late packets, who handles errors. `tests/promises.rs` of the verbs
//! tries every one of them.

use fabriscope_report::Table;
use fabriscope_verbs::{Order, QpType, Scale, WrOpcode};
use serde_json::json;

use crate::error::{Failure, Verdict};
use crate::output::Output;

/// Compares the transports.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Processes on each node, to count queue pairs
    #[arg(short = 'm', long, value_name = "M", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    processes: u64,
    /// Nodes, to count queue pairs
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    nodes: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope transports                    promises, queue pairs, operations
  fabriscope transports -m 128 -n 9408     queue pairs of 128 processes on each of 9,408 nodes
  fabriscope transports --json";

/// Runs the command.
pub fn run(args: &Args, output: &mut Output) -> Result<Verdict, Failure> {
    if args.json {
        let list: Vec<_> = QpType::ALL.iter().map(|qp| properties(*qp, args)).collect();
        output.json(&serde_json::Value::Array(list))?;
        return Ok(Verdict::Good);
    }
    output.text(&format!("# {} processes on each of {} nodes, all talking to all\n", args.processes, args.nodes))?;
    let mut table = Table::new(["transport", "scales as", "QPs per NIC", "corrupt data", "lost data", "delivery", "order", "recovery"]);
    for column in [1, 3, 4, 5, 6, 7] {
        table = table.words(column);
    }
    for qp in QpType::ALL {
        table.push([
            qp.name().to_owned(),
            formula(qp.scale()).to_owned(),
            qp.scale().count(args.processes, args.nodes).to_string(),
            if qp.detects_corruption() { "detected" } else { "by the link only" }.to_owned(),
            lost(qp).to_owned(),
            delivery(qp).to_owned(),
            order(qp.order()).to_owned(),
            recovery(qp).to_owned(),
        ]);
    }
    output.text(&table.to_string())?;
    output.text("\n")?;
    let mut operations =
        Table::new(["transport", "SEND", "SEND imm", "WRITE", "WRITE imm", "READ", "FETCH_ADD", "CMP_SWAP", "a SEND may be"]);
    for column in 1..9 {
        operations = operations.words(column);
    }
    for qp in QpType::ALL {
        let mut row = vec![qp.name().to_owned()];
        row.extend(WrOpcode::ALL.iter().map(|opcode| if qp.has(*opcode) { "yes" } else { "-" }.to_owned()));
        row.push(longest(qp).to_owned());
        operations.push(row);
    }
    output.text(&operations.to_string())?;
    output.text("\n# next: transport = \"srd\" in a lab, or fabriscope bench ib_write_bw -c DC --on CLUSTER\n")?;
    Ok(Verdict::Good)
}

fn properties(qp: QpType, args: &Args) -> serde_json::Value {
    let operations: Vec<String> = WrOpcode::ALL.iter().filter(|opcode| qp.has(**opcode)).map(|opcode| format!("{opcode:?}")).collect();
    json!({
        "transport": qp.name(), "scales_as": formula(qp.scale()), "queue_pairs": qp.scale().count(args.processes, args.nodes),
        "processes": args.processes, "nodes": args.nodes, "connected": qp.is_connected(), "reliable": qp.is_reliable(),
        "detects_corruption": qp.detects_corruption(), "detects_loss": qp.detects_loss(), "order": order(qp.order()),
        "operations": operations, "longest_send": longest(qp),
    })
}

const fn formula(scale: Scale) -> &'static str {
    match scale {
        Scale::EachPair => "M^2 N",
        Scale::EachNode => "M N",
        Scale::EachProcess => "M",
        Scale::One => "1",
    }
}

const fn delivery(qp: QpType) -> &'static str {
    match (qp.is_reliable(), qp.repeats()) {
        (true, false) => "exactly once",
        (true, true) => "at least once",
        (false, _) => "no guarantee",
    }
}

const fn lost(qp: QpType) -> &'static str {
    match (qp.is_reliable(), qp.detects_loss()) {
        (true, _) => "sent again",
        (false, true) => "detected",
        (false, false) => "not detected",
    }
}

const fn order(order: Order) -> &'static str {
    match order {
        Order::PerConnection => "per connection",
        Order::PerDestination => "per source and destination",
        Order::Gaps => "with gaps",
        Order::None => "none",
    }
}

const fn recovery(qp: QpType) -> &'static str {
    match (qp.is_reliable(), qp.detects_loss()) {
        (true, _) => "by the transport; fatal errors to the client",
        (false, true) => "errors reported to the responder",
        (false, false) => "none",
    }
}

const fn longest(qp: QpType) -> &'static str {
    match (qp.has(WrOpcode::Send), qp.message_is_packet(WrOpcode::Send)) {
        (false, _) => "-",
        (true, true) => "one packet",
        (true, false) => "2 GiB",
    }
}
