//! `mpi_random_lat`: round trips between ranks that change their partner with every message, all ranks of a job.
//!
//! What a connection costs shows when many of them are in use in turn: an adapter that holds the state of some connections on the chip has
//! to read that of each other one. A ping-pong between two ranks never shows it.
//!
//! Source: none; partners are drawn as in the random access of HPCC, by shifts that are the same for all ranks, so that every rank sends and
//! answers once in each step.
//! Modelled: steps in each of which a rank sends to another node and waits for the answer, and answers whoever sends to it; first with one
//! rank of each node at work, then with all; the queue pairs of the library's transport; queues as short as the program needs;
//! connections that nobody uses in the run take their share of the adapters' caches of contexts.
//! Not modelled: the memory that those take.

use std::fmt::Write;
use std::sync::Arc;

use fabriscope_mpi::{Rank, World};
use fabriscope_node::{Main, Process, ProgramError, Record};
use fabriscope_platform::Target;
use fabriscope_streams::GOLDEN;
use fabriscope_tool::arguments::{self, Meaning::Usual, Opt, Takes, opt};
use fabriscope_tool::{Measures, Operation, PerNode, Placing, Point, Prepared, Ranks, Rows, SizeOption, Suite, ToolOutput, Traits};
use fabriscope_tool::{UsageError, mpi_for};
use fabriscope_units::{Bytes, Span};

/// The program's name.
pub const NAME: &str = "mpi_random_lat";
/// One line for a list of tools.
pub const ABOUT: &str = "round trips of MPI messages with another partner each time, among all ranks: what connections cost at scale";

pub(crate) const OPTIONS: &[Opt] = &[
    opt('m', "message-size", Takes::Value("bytes"), Usual, "size of the messages (default 8)"),
    opt('i', "iterations", Takes::Value("count"), Usual, "measured messages of each rank (default 12)"),
    opt('x', "warmup", Takes::Value("count"), Usual, "messages before those (default 4)"),
    opt('h', "help", Takes::Nothing, Usual, "show this page"),
];
const NOTES: &str = "\nPartners are on other nodes. The transport is that of the library, or what `fabriscope bench --transport` says:\n\
rc, rc-srq, xrc, dc, ud, srd, uet.\n";

/// What the program is.
#[must_use]
pub fn traits() -> Traits {
    Traits {
        measures: Measures::Latency,
        sizes: SizeOption::Fixed,
        ranks: Ranks::Job(PerNode::Cores),
        ..Traits::new(Suite::Single, Operation::Exchange)
    }
}

/// What happens.
#[derive(Debug, Clone, Copy)]
struct Plan {
    size: u32,
    warm_up: u32,
    iterations: u32,
    nodes: u32,
    per_node: u32,
}

/// Halves of round trips, of all ranks: with one rank of each node at work, and with all.
type Halves = Record<[Vec<Span>; 2]>;

/// Reads the command line and makes the programs of all ranks.
///
/// # Errors
/// A wrong command line; software without MPI; one node.
pub fn prepare(args: &[String], target: &Target) -> Result<Prepared, UsageError> {
    let parsed = arguments::parse(NAME, OPTIONS, args)?;
    parsed.no_operands(NAME)?;
    let (nodes, per_node) = (target.layout.nodes, target.layout.per_node);
    let mut plan = Plan { size: 8, warm_up: 4, iterations: 12, nodes, per_node };
    for given in &parsed.options {
        match given.name {
            "message-size" => {
                let text = given.value.as_deref().unwrap_or_default();
                plan.size = arguments::size(&given.typed, text, 0, 1 << 20)? as u32;
            }
            "iterations" => plan.iterations = arguments::number(given, 1, 10_000)? as u32,
            "warmup" => plan.warm_up = arguments::number(given, 0, 10_000)? as u32,
            "help" => return Err(UsageError::Help { text: arguments::help(NAME, ABOUT, OPTIONS, NOTES) }),
            _ => {}
        }
    }
    if plan.nodes < 2 {
        let what = format!("{NAME} has partners on other nodes, and the job has one node");
        return Err(UsageError::Conflict { what, remedy: "give --nodes 2 or more".to_owned() });
    }
    let mpi = mpi_for(NAME, target)?;
    let word = mpi.transport.word();
    // A message and its answer, and the credits for both.
    let world = World::short(mpi, target, target.layout.ranks(), 4);
    let halves: Halves = Record::new([Vec::new(), Vec::new()]);
    let shared = Arc::new((plan, world.clone()));
    let main = |_| -> Main {
        let (shared, halves) = (shared.clone(), halves.clone());
        Box::new(move |process| Box::pin(run(process, shared, halves)))
    };
    let mains = (0..target.layout.ranks()).map(main).collect();
    let finish = move || report(plan, word, &halves.lock());
    Ok(Prepared { placing: Placing::Blocks { per_node }, mains, ties: world.ties(), finish: Box::new(finish), rows: Rows::default() })
}

impl Plan {
    /// By how many ranks the partner of step `step` is away: another for each step as long as there are any, and never on the same node.
    fn shift(&self, step: u32) -> u32 {
        let ranks = u64::from(self.nodes) * u64::from(self.per_node);
        let (first, count) = (u64::from(self.per_node), ranks + 1 - 2 * u64::from(self.per_node));
        // Steps of a whole number of turns and the golden part of one are spread evenly.
        let spread = (u128::from(GOLDEN.wrapping_mul(u64::from(step) + 1)) * u128::from(count)) >> 64;
        (first + spread as u64) as u32
    }
}

/// One rank.
async fn run(process: Process, shared: Arc<(Plan, World)>, halves: Halves) -> Result<(), ProgramError> {
    let (plan, world) = (&shared.0, shared.1.clone());
    let (me, ranks) = (process.rank(), process.ranks());
    let steps = 2 * (plan.warm_up + plan.iterations);
    let to = |step: u32| (me + plan.shift(step)) % ranks;
    let from = |step: u32| (me + ranks - plan.shift(step)) % ranks;
    let mut peers: Vec<u32> = (0..steps).flat_map(|step| [to(step), from(step)]).collect();
    peers.sort_unstable();
    peers.dedup();
    let rank = Rank::init(process, world, &peers).await?;
    rank.stands_for_all(plan.nodes, plan.per_node);
    for step in 0..steps {
        let alone = step < steps / 2;
        let measured = step % (steps / 2) >= plan.warm_up;
        rank.synchronise().await?;
        // In the first half the ranks with this number on their nodes send; others answer.
        let turn = step % plan.per_node;
        let sends = |rank: u32| !alone || rank % plan.per_node == turn;
        let size = plan.size;
        let asked = if sends(from(step)) { Some(rank.irecv(Some(from(step)), Some(PING), size)?) } else { None };
        let begun = rank.now();
        let mut open = Vec::new();
        let mut answer = None;
        if sends(me) {
            answer = Some(rank.irecv(Some(to(step)), Some(PONG), size)?);
            open.push(rank.isend(to(step), PING, size)?);
        }
        if let Some(asked) = asked {
            rank.wait(asked).await?;
            open.push(rank.isend(from(step), PONG, size)?);
        }
        if let Some(answer) = answer {
            rank.wait(answer).await?;
            if measured {
                halves.lock()[usize::from(!alone)].push(rank.now().since(begun) / 2);
            }
        }
        rank.wait_all(open).await?;
    }
    rank.synchronise().await
}

fn report(plan: Plan, word: &str, halves: &[Vec<Span>; 2]) -> ToolOutput {
    let Plan { nodes, per_node, size, iterations, .. } = plan;
    let mut text = format!(
        "# MPI random partner latency: {nodes} nodes of {per_node} ranks, over {word}, {size} bytes, {iterations} messages of each rank\n"
    );
    let _ = writeln!(text, "{:<24}{:>16}{:>16}{:>16}", "# Ranks at work", "Avg Latency(us)", "Min Latency(us)", "Max Latency(us)");
    let mut points = Vec::new();
    for (name, metric, spans) in [("one on each node", "latency_alone", &halves[0]), ("all", "latency", &halves[1])] {
        let mean = spans.iter().copied().sum::<Span>() / (spans.len() as u64).max(1);
        let (least, most) = (spans.iter().min().copied().unwrap_or_default(), spans.iter().max().copied().unwrap_or_default());
        let _ = writeln!(text, "{name:<24}{:>16.2}{:>16.2}{:>16.2}", mean.as_us_f64(), least.as_us_f64(), most.as_us_f64());
        points.push(Point { size: Bytes(size.into()), metric, unit: "us", value: mean.as_us_f64() });
    }
    ToolOutput { text, points, ..ToolOutput::default() }
}

/// Tags of messages and of their answers.
const PING: u32 = 1;
const PONG: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    /// Partners are on other nodes, and no two steps in a row have the same.
    #[test]
    fn partners_change_and_are_elsewhere() {
        for (nodes, per_node) in [(2, 1), (2, 3), (4, 2), (128, 64)] {
            let plan = Plan { size: 8, warm_up: 0, iterations: 0, nodes, per_node };
            let (ranks, shifts) = (nodes * per_node, (0..64).map(|step| plan.shift(step)).collect::<Vec<_>>());
            for me in [0, per_node - 1, ranks - 1] {
                assert!(shifts.iter().all(|shift| (me + shift) % ranks / per_node != me / per_node), "{nodes} {per_node}");
            }
            let different: std::collections::BTreeSet<u32> = shifts.iter().copied().collect();
            let most = ranks + 1 - 2 * per_node;
            assert!(different.len() as u32 >= (most.min(64) * 3).div_ceil(4), "{} of {most}", different.len());
        }
    }
}
