//! `fabriscope transports`: what each transport service promises and needs, from the properties the NIC decides by.
//!
//! The rows are those of the comparison in the HotI 2025 tutorial on high-performance networking: how many queue pairs M processes
//! on each of N nodes need, what becomes of corrupt, lost and late packets, who handles errors. `tests/promises.rs` of the verbs
//! tries every one of them.

use fabriscope_lab::mpi_transports::{Comparison, compare};
use fabriscope_report::{Cell, Column, Grid, Outcome};
use fabriscope_verbs::{Order, QpType, Scale, WrOpcode};
use serde_json::json;

use crate::context::Context;
use crate::error::{Failure, Verdict};
use crate::output::{Output, OutputArgs};

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
    /// Compare MPI over them instead, for the library of this cluster: contexts and memory with M processes on each of N nodes
    #[arg(long, value_name = "CLUSTER")]
    on: Option<String>,
    /// With --on: also what messages take between partners that change, every packet simulated
    #[arg(long, requires = "on")]
    measure: bool,
    /// With --measure: options of `fabriscope bench mpi_random_lat`, in one word
    #[arg(long, value_name = "OPTIONS", requires = "measure", allow_hyphen_values = true)]
    with: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope transports                    promises, queue pairs, operations
  fabriscope transports -m 128 -n 9408     queue pairs of 128 processes on each of 9,408 nodes
  fabriscope transports --on frontera -m 32 -n 256    MPI of 8,192 ranks: contexts and memory by transport
  fabriscope transports --on ri2 -m 4 -n 2 --measure    and what messages take
  fabriscope transports --json";

/// Runs the command.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    if let Some(cluster) = &args.on {
        return over_mpi(args, cluster, context, output);
    }
    let mut outcome = Outcome::new();
    outcome
        .note(format!("{} processes on each of {} nodes, all talking to all", args.processes, args.nodes))
        .table(promises(args))
        .text("\n")
        .table(operations())
        .text("\n")
        .note("next: transport = \"srd\" in a lab, or fabriscope bench ib_write_bw -c DC --on CLUSTER")
        .whole(QpType::ALL.iter().map(|qp| properties(*qp, args)).collect());
    args.output.write(&outcome, output)
}

/// The transports of an MPI library.
fn over_mpi(args: &Args, cluster: &str, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    let count = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let options = || args.with.as_deref().unwrap_or_default().split_whitespace().map(str::to_owned).collect();
    let asked = Comparison {
        nodes: count(args.nodes),
        per_node: count(args.processes),
        measured: args.measure.then(options),
        threads: super::cores(0),
        seed: context.seed(),
    };
    let outcome = compare(context.catalog()?, &context.alike(cluster)?, &asked)?;
    args.output.write(&outcome, output)
}

/// What each transport promises, and how its queue pairs grow.
fn promises(args: &Args) -> Grid {
    let mut grid = Grid::new([
        Column::words("transport", "transport"),
        Column::words("scales as", "scales_as"),
        Column::number("QPs per NIC", "queue_pairs"),
        Column::words("corrupt data", "corrupt_data"),
        Column::words("lost data", "lost_data"),
        Column::words("delivery", "delivery"),
        Column::words("order", "order"),
        Column::words("recovery", "recovery"),
    ]);
    for &qp in QpType::ALL {
        grid.push([
            Cell::word(qp.name()),
            Cell::word(formula(qp.scale())),
            Cell::count(qp.scale().count(args.processes, args.nodes)),
            Cell::word(if qp.detects_corruption() { "detected" } else { "by the link only" }),
            Cell::word(lost(qp)),
            Cell::word(delivery(qp)),
            Cell::word(order(qp.order())),
            Cell::word(recovery(qp)),
        ]);
    }
    grid.named("promises")
}

/// Which operations each transport has.
fn operations() -> Grid {
    let names = ["transport", "SEND", "SEND imm", "WRITE", "WRITE imm", "READ", "FETCH_ADD", "CMP_SWAP", "a SEND may be"];
    let mut grid = Grid::new(names.map(|name| Column::words(name, name)));
    for &qp in QpType::ALL {
        let has = WrOpcode::ALL.iter().map(|opcode| Cell::word(if qp.has(*opcode) { "yes" } else { "-" }));
        grid.push(std::iter::once(Cell::word(qp.name())).chain(has).chain([Cell::word(longest(qp))]));
    }
    grid.named("operations")
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
