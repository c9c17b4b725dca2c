//! `fabriscope trace`: what is in traces of real programs and in workload files, record by record, and whether their ranks agree.

use std::path::PathBuf;

use fabriscope_report::{Cell, Column, Grid, Outcome, Verdict};
use fabriscope_traces::{Gaps, Kind, LogGp, LowerOptions, Trace, loggp, read};
use fabriscope_units::{Bytes, Remedy, Span, Time};
use serde_json::json;

use crate::context::Context;
use crate::error::Failure;
use crate::output::{Output, OutputArgs};

/// Reads traces of real programs and workload files, and says what was read, used and left out.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Traces and workloads: Chakra, PyTorch execution traces, Kineto, logs of NCCL and NCCL Inspector, AICB, SimAI, GOAL, liballprof, DUMPI,
    /// converted OTF2; folders, archives and a .meta file of DUMPI stand for what is in them; may be compressed by gzip
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Extend a trace of one rank to N, each of which does the same within its own groups
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Option<u32>,
    /// Run them on a cluster, by packets and by flows: a name, a TOML file, either with :NODES
    #[arg(long, value_name = "CLUSTER")]
    on: Option<String>,
    /// Computation as recorded, times this, as `1`, `0` or `3/2`; with --on
    #[arg(long, value_name = "FACTOR", default_value = "1", requires = "on")]
    compute: String,
    /// Ranks begin as much later than the first as they were recorded to, and not together; with --on
    #[arg(long, requires = "on")]
    skew: bool,
    /// Say what each rank waited for others in collectives, and they for it
    #[arg(long)]
    waits: bool,
    /// Their times under LogGP, without a cluster: latency, overhead, gap, gap of a byte, the longest eager message; spans as `2.5us`
    #[arg(long, value_name = "L,o,g,G[,S]", value_parser = parameters)]
    loggp: Option<LogGp>,
    #[command(flatten)]
    output: OutputArgs,
}

/// The parameters of LogGP.
fn parameters(text: &str) -> Result<LogGp, String> {
    let words: Vec<&str> = text.split(',').map(str::trim).collect();
    let (spans, eager) = match words[..] {
        [l, o, g, per_byte] => ([l, o, g, per_byte], None),
        [l, o, g, per_byte, s] => ([l, o, g, per_byte], Some(s)),
        _ => return Err(format!("{} numbers: write L,o,g,G or L,o,g,G,S, as 2.5us,1.5us,1us,0.04ns,64KiB", words.len())),
    };
    let span = |word: &str| word.parse::<Span>().map_err(|error| error.in_full());
    let [latency, overhead, gap, per_byte] = [span(spans[0])?, span(spans[1])?, span(spans[2])?, span(spans[3])?];
    let eager = eager.map(|word| word.parse::<Bytes>().map_err(|error| error.in_full())).transpose()?;
    Ok(LogGp { latency, overhead, gap, per_byte, eager })
}

const EXAMPLES: &str = "\
Examples:
  fabriscope trace examples/traces/ping-pong.goal
  fabriscope trace examples/traces/ping-pong.goal --loggp 2.5us,1.5us,1us,0.04ns,64KiB
  fabriscope trace examples/traces/tensor-parallel.txt --ranks 8    the workload of one rank, for all eight
  fabriscope trace mine.0.et mine.1.et comm_group.json --json       files of one name but for their rank are one trace
  fabriscope trace my-run/testtrace.meta                            all ranks of a trace of DUMPI";

/// Runs the command.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    let mut traces = read(&args.files).map_err(Failure::of)?;
    if let Some(ranks) = args.ranks {
        traces = traces.iter().map(|trace| trace.spread(ranks)).collect::<Result<_, _>>().map_err(Failure::of)?;
    }
    let mut outcome = Outcome::new();
    outcome.table(summary(&traces)).text("\n").table(account(&traces));
    let mut verdict = Verdict::Good;
    let mut checks = Vec::new();
    for trace in &traces {
        let text = match trace.check() {
            Ok(checked) => format!(
                "{}: {} messages and {} collectives agree between ranks, {} messages and {} collectives are with ranks without a file",
                trace.name, checked.messages, checked.collectives, checked.open_messages, checked.partial_collectives
            ),
            Err(error) => {
                verdict = Verdict::Bad;
                format!("{}: {error}", trace.name)
            }
        };
        outcome.note(text.clone());
        checks.push(text);
    }
    if args.waits {
        outcome.text("\n").keyed_table("waits", waits(&traces));
    }
    if let Some(parameters) = &args.loggp {
        outcome.text("\n").keyed_table("loggp", under_loggp(&traces, parameters)?);
    }
    if let Some(cluster) = &args.on {
        let options = LowerOptions { gaps: gaps(&args.compute)?, skew: args.skew };
        let grid = fabriscope::replay(Some(context.catalog()?), &traces, cluster, options).map_err(Failure::of)?;
        outcome.text("\n").keyed_table("replayed", grid);
    }
    outcome.set("checks", json!(checks)).judge(verdict);
    args.output.write(&outcome, output)
}

/// What becomes of computation that takes `factor` times what was recorded.
fn gaps(factor: &str) -> Result<Gaps, Failure> {
    let (numerator, denominator) = factor.split_once('/').unwrap_or((factor, "1"));
    match (numerator.trim().parse(), denominator.trim().parse()) {
        (Ok(1), Ok(1)) => Ok(Gaps::Kept),
        (Ok(numerator), Ok(denominator)) if denominator > 0 => Ok(Gaps::Scaled { numerator, denominator }),
        _ => Err(Failure::told(format!("computation times `{factor}`"), "write a number or a fraction, such as 2, 0 or 3/2")),
    }
}

/// When the ranks of each trace are done under LogGP.
fn under_loggp(traces: &[Trace], parameters: &LogGp) -> Result<Grid, Failure> {
    let columns = [("ranks", "ranks"), ("messages", "messages"), ("LogGP us", "loggp_us"), ("first rank us", "first_us")];
    let mut grid = Grid::new(
        std::iter::once(Column::words("trace", "trace")).chain(columns.into_iter().map(|(title, key)| Column::number(title, key))),
    );
    for trace in traces {
        let times = loggp(trace, parameters).map_err(Failure::of)?;
        let first = times.ranks.iter().copied().min().unwrap_or_default();
        let us = |at: Time| Cell::number(at.since(Time::ZERO).as_us_f64(), 3);
        grid.push([
            Cell::word(trace.name.as_str()),
            Cell::count(times.ranks.len()),
            Cell::count(times.messages),
            us(times.end()),
            us(first),
        ]);
    }
    Ok(grid)
}

/// A row for each rank of each trace.
fn waits(traces: &[Trace]) -> Grid {
    let mut grid = Grid::new([
        Column::words("trace", "trace"),
        Column::number("rank", "rank"),
        Column::number("clock ahead us", "ahead_us"),
        Column::number("collectives", "collectives"),
        Column::number("came last", "last"),
        Column::number("waited us", "waited_us"),
        Column::number("late us", "late_us"),
    ]);
    for trace in traces {
        for of in trace.waits() {
            let clock = trace.reading.clocks.iter().find(|clock| clock.rank == of.rank && clock.is_off());
            grid.push([
                Cell::word(trace.name.as_str()),
                Cell::count(u64::from(of.rank)),
                clock.map_or_else(Cell::none, |clock| Cell::number(clock.ahead_ps as f64 / 1e6, 3)),
                Cell::count(of.operations),
                Cell::count(of.last),
                Cell::number(of.waited.as_us_f64(), 3),
                Cell::number(of.late.as_us_f64(), 3),
            ]);
        }
    }
    grid
}

/// A row for each trace.
fn summary(traces: &[Trace]) -> Grid {
    let mut grid = Grid::new([
        Column::words("trace", "trace"),
        Column::words("format", "format"),
        Column::words("version", "version"),
        Column::number("ranks", "ranks"),
        Column::number("of", "world"),
        Column::number("read", "records_read"),
        Column::number("used", "records_used"),
        Column::number("left out", "records_left_out"),
        Column::number("compute", "compute"),
        Column::number("collectives", "collectives"),
        Column::number("messages", "messages"),
        Column::number("bytes", "bytes"),
    ]);
    for trace in traces {
        let count = |test: fn(&Kind) -> bool| trace.all().filter(|(_, record)| test(&record.kind)).count() as u64;
        let bytes = trace.all().fold(0_u64, |sum, (_, record)| sum.saturating_add(bytes(&record.kind)));
        grid.push([
            Cell::word(trace.name.as_str()),
            Cell::word(trace.format.name()),
            Cell::word(trace.version.as_deref().unwrap_or("-")),
            Cell::count(trace.ranks.len() as u64),
            Cell::count(u64::from(trace.world)),
            Cell::count(trace.reading.records),
            Cell::count(trace.reading.used),
            Cell::count(trace.reading.left_out_in_all()),
            Cell::count(count(|kind| *kind == Kind::Compute)),
            Cell::count(count(|kind| matches!(kind, Kind::Collective(_)))),
            Cell::count(count(|kind| matches!(kind, Kind::Send(_)))),
            Cell::bytes(Bytes(bytes)),
        ]);
    }
    grid.named("traces")
}

/// Bytes of a collective or a message.
fn bytes(kind: &Kind) -> u64 {
    match kind {
        Kind::Collective(collective) => collective.bytes.map_or(0, Bytes::as_u64),
        Kind::Send(message) => message.bytes.as_u64(),
        _ => 0,
    }
}

/// A row for each reason, assumption and note.
fn account(traces: &[Trace]) -> Grid {
    let mut grid = Grid::new([
        Column::words("trace", "trace"),
        Column::words("what", "what"),
        Column::number("records", "records"),
        Column::words("why", "why"),
    ]);
    for trace in traces {
        let reading = &trace.reading;
        for (what, lines) in [("left out", &reading.left_out), ("assumed", &reading.assumed), ("note", &reading.notes)] {
            for (why, count) in lines {
                let count = if *count == 0 { Cell::none() } else { Cell::count(*count) };
                grid.push([Cell::word(trace.name.as_str()), Cell::word(what), count, Cell::word(why.as_str())]);
            }
        }
    }
    grid.named("account")
}
