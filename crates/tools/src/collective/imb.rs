//! `IMB-MPI1`: options and output.
//!
//! Source: Intel MPI Benchmarks 2019, user guide (options, "Parallel/Collective benchmarks output data").
//! Modelled: `-npmin`, `-msglog`, `-iter`; one benchmark a run; the table and what stands around it, but for date, machine and versions.
//! Transfers between ranks are in `imb_transfers`.
//! Not modelled: groups that run side by side (`-multi`), other orders of ranks (`-map`).

use std::fmt::Write;

use fabriscope_collectives::Kind;
use fabriscope_platform::Target;
use fabriscope_tool::{Point, Prepared, ToolOutput, UsageError};
use fabriscope_units::Bytes;
use fabriscope_wire::Element;

use super::imb_transfers::{self, TRANSFERS, Transfer};
use super::measure::{RankMeans, Report, programs, statistics};
use super::plan::Plan;
use super::stepwise::Stepwise;
use crate::osu::Repeats;

const HELP: &str = "\
Usage: IMB-MPI1 [options] PingPong|PingPing|Sendrecv|Exchange|Uniband|Biband
       IMB-MPI1 [options] Allreduce|Reduce|Reduce_scatter|Allgather|Allgatherv|Gather|Gatherv|Scatter|Scatterv|Alltoall|Alltoallv|Bcast|Barrier

Options:
  -npmin N         smallest group; only all ranks are run
  -msglog MIN:MAX  blocks of 0 and of 2^MIN to 2^MAX bytes (default 0:22)
  -iter N          iterations (default up to 100, 10 above 8192 bytes, fewer of
                   many messages; the real tool's are 1000 and fewer)
  -h, --help       show this page

Ranks fill the nodes one after the other: `fabriscope bench IMB-MPI1 Alltoall --nodes 4 --ppn 32` stands for
mpirun -np 128 -ppn 32. PingPong and PingPing are between ranks 0 and 1: on two nodes with --ppn 1, else on one.
";

/// The benchmarks by the names of the tool.
const KINDS: [(&str, Kind); 13] = [
    ("Allreduce", Kind::Allreduce),
    ("Reduce", Kind::Reduce),
    ("Reduce_scatter", Kind::ReduceScatter),
    ("Allgather", Kind::Allgather),
    ("Allgatherv", Kind::Allgatherv),
    ("Gather", Kind::Gather),
    ("Gatherv", Kind::Gatherv),
    ("Scatter", Kind::Scatter),
    ("Scatterv", Kind::Scatterv),
    ("Alltoall", Kind::Alltoall),
    ("Alltoallv", Kind::Alltoallv),
    ("Bcast", Kind::Bcast),
    ("Barrier", Kind::Barrier),
];

/// What a command line asks for.
struct CommandLine {
    what: What,
    /// As it was typed.
    line: String,
    iterations: Option<u32>,
    blocks: Vec<u32>,
    /// The smallest group, where it is said.
    least: Option<u64>,
}

/// A benchmark.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Collective(&'static str, Kind),
    Transfer(&'static Transfer),
}

impl What {
    fn by_name(name: &str) -> Option<What> {
        let kind = KINDS.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        let transfer = || TRANSFERS.iter().find(|transfer| transfer.name.eq_ignore_ascii_case(name));
        kind.map(|(name, kind)| What::Collective(name, kind)).or_else(|| transfer().map(What::Transfer))
    }
    fn name(self) -> &'static str {
        match self {
            What::Collective(name, _) => name,
            What::Transfer(transfer) => transfer.name,
        }
    }
}

pub(super) fn prepare(args: &[String], target: &Target) -> Result<Prepared, UsageError> {
    let asked = read(args)?;
    match asked.what {
        What::Transfer(transfer) => {
            if !transfer.is_of_two() {
                all_ranks(&asked, target)?;
            }
            imb_transfers::prepare(transfer, asked.line, asked.blocks, asked.iterations, target)
        }
        What::Collective(name, kind) => {
            all_ranks(&asked, target)?;
            let (plan, report) = collective(asked, name, kind, target);
            programs(TOOL, plan, target, report)
        }
    }
}

/// What is carried out, where it is a collective operation.
pub(super) fn plan(args: &[String], target: &Target) -> Option<Result<Plan, UsageError>> {
    match read(args) {
        Ok(asked) => match asked.what {
            What::Transfer(_) => None,
            What::Collective(name, kind) => Some(Ok(collective(asked, name, kind, target).0)),
        },
        Err(error) => Some(Err(error)),
    }
}

/// The same as data.
pub(super) fn stepwise(args: &[String], target: &Target) -> Result<Result<Stepwise, String>, UsageError> {
    let asked = read(args)?;
    match asked.what {
        What::Transfer(transfer) => Ok(Err(format!("the loop of {TOOL} {}", transfer.name))),
        What::Collective(name, kind) => {
            all_ranks(&asked, target)?;
            let (plan, report) = collective(asked, name, kind, target);
            Stepwise::of(TOOL, plan, target, report)
        }
    }
}

fn read(args: &[String]) -> Result<CommandLine, UsageError> {
    let mut what: Option<What> = None;
    let (mut iterations, mut blocks, mut least) = (None, sizes(0, 22), None);
    let mut rest = args.iter();
    while let Some(word) = rest.next() {
        let mut value = |what| rest.next().ok_or(UsageError::MissingValue { option: word.clone(), what });
        match word.to_ascii_lowercase().as_str() {
            "-h" | "--help" | "-help" => {
                return Err(UsageError::Help { text: format!("{TOOL}: {}\n{HELP}", super::Benchmark::Imb.about()) });
            }
            "-npmin" => least = Some(number(word, value("ranks")?, u64::from(u32::MAX))?),
            "-iter" => iterations = Some(number(word, value("count")?, 1_000_000)?.max(1) as u32),
            "-msglog" => {
                let text = value("min:max")?;
                let (min, max) = text.split_once(':').unwrap_or(("0", text));
                let (min, max) = (number(word, min, 30)?, number(word, max, 30)?);
                if min > max {
                    let what = format!("-msglog {text}: the smallest block is larger than the largest");
                    return Err(UsageError::Conflict { what, remedy: format!("give {max}:{min}") });
                }
                blocks = sizes(min as u32, max as u32);
            }
            option if option.starts_with('-') => {
                let nearest = "-npmin, -msglog or -iter".to_owned();
                return Err(UsageError::Unknown { tool: TOOL.to_owned(), option: word.clone(), nearest });
            }
            name => {
                let Some(found) = What::by_name(name) else {
                    let what = format!("the benchmark {word} of {TOOL} is not modelled");
                    let remedy = "name PingPong, Sendrecv, Allreduce, Alltoall, Bcast … (-h lists them)";
                    return Err(UsageError::Conflict { what, remedy: remedy.to_owned() });
                };
                if let Some(first) = what.filter(|first| *first != found) {
                    let what = format!("{TOOL} is asked for {} and for {}", first.name(), found.name());
                    return Err(UsageError::Conflict { what, remedy: "run once for each".to_owned() });
                }
                what = Some(found);
            }
        }
    }
    let Some(what) = what else {
        let what = format!("{TOOL} without a benchmark would run all of them, one after the other");
        return Err(UsageError::Conflict { what, remedy: "name one, for example Alltoall".to_owned() });
    };
    Ok(CommandLine { what, line: args.join(" "), iterations, blocks, least })
}

/// Refuses groups that are smaller than all ranks.
fn all_ranks(asked: &CommandLine, target: &Target) -> Result<(), UsageError> {
    let ranks = target.layout.ranks();
    let Some(least) = asked.least.filter(|least| *least < u64::from(ranks)) else { return Ok(()) };
    let what = format!("-npmin {least} asks for smaller groups than the {ranks} ranks of the job");
    Err(UsageError::Conflict { what, remedy: "run once for each: --nodes and --ppn set the ranks".to_owned() })
}

/// The plan of a collective operation, and its report.
fn collective(asked: CommandLine, name: &'static str, operation: Kind, target: &Target) -> (Plan, Report) {
    let CommandLine { line, iterations, mut blocks, .. } = asked;
    if operation == Kind::Barrier {
        blocks = vec![0];
    }
    // Reductions are of MPI_FLOAT.
    let width = if operation.reduces() { 4 } else { 1 };
    blocks.retain(|size| size % width == 0);
    let element = if operation.reduces() { Element::F32 } else { Element::I8 };
    let repeats = Repeats { iterations, warm_up: None };
    let plan = Plan { repeats, width, element, ..Plan::new(operation, blocks, false) };
    let ranks = target.layout.ranks();
    (plan, Box::new(move |plan, results| report((&line, name), ranks, plan, results)))
}

fn sizes(min: u32, max: u32) -> Vec<u32> {
    std::iter::once(0).chain((min..=max).map(|power| 1 << power)).collect()
}

fn number(option: &str, text: &str, high: u64) -> Result<u64, UsageError> {
    let wrong = || UsageError::NotANumber { option: option.to_owned(), value: text.to_owned() };
    let value = text.parse().map_err(|_| wrong())?;
    if value > high {
        return Err(UsageError::OutOfRange { option: option.to_owned(), value, low: 0, high });
    }
    Ok(value)
}

/// What stands above a table of so many columns.
pub(super) fn head((line, name): (&str, &str), largest: u32, processes: &str, columns: &[&str]) -> String {
    let rule = format!("#{}", "-".repeat(columns.len() * WIDTH - 1));
    let columns: String = columns.iter().map(|column| format!("{column:>WIDTH$}")).collect();
    format!(
        "# Calling sequence was: \n\n# {TOOL} {line} \n\n# Minimum message length in bytes:   0\n\
         # Maximum message length in bytes:   {largest}\n#\n# MPI_Datatype                   :   MPI_BYTE \n\
         # MPI_Datatype for reductions    :   MPI_FLOAT \n# MPI_Op                         :   MPI_SUM  \n# \n# \n\n\
         # List of Benchmarks to run:\n\n# {name}\n\n{rule}\n# Benchmarking {name} \n{processes}{rule}\n{columns}\n"
    )
}

fn report((line, name): (&str, &str), ranks: u32, plan: &Plan, results: &[RankMeans]) -> ToolOutput {
    let largest = plan.sizes.last().copied().unwrap_or(0);
    let barrier = plan.operation == Kind::Barrier;
    let columns = if barrier { &HEAD[1..] } else { &HEAD };
    let text = head((line, name), largest, &format!("# #processes = {ranks} \n"), columns);
    let mut output = ToolOutput { text, ..ToolOutput::default() };
    for (&size, means) in plan.sizes.iter().zip(results) {
        let (mean, least, most) = statistics(means.iter().map(|mean| mean.overall));
        if !barrier {
            let _ = write!(output.text, "{size:>13}");
        }
        let _ = writeln!(output.text, " {:>12} {least:>12.2} {most:>12.2} {mean:>12.2}", means.first().map_or(0, |mean| mean.iterations));
        output.points.push(Point { size: Bytes(size.into()), metric: "latency", unit: "us", value: mean });
    }
    if results.len() < plan.sizes.len() {
        return output;
    }
    output.text += END;
    output
}

/// The columns (basis: the tool).
const HEAD: [&str; 5] = ["#bytes", "#repetitions", "t_min[usec]", "t_max[usec]", "t_avg[usec]"];
/// Characters of a column.
pub(super) const WIDTH: usize = 13;
/// What stands below the last row.
pub(super) const END: &str = "\n\n# All processes entering MPI_Finalize\n\n";
pub(super) const TOOL: &str = "IMB-MPI1";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::measure::Mean;
    use fabriscope_units::Span;

    #[test]
    fn rows_stand_as_the_tool_prints_them() {
        let plan = Plan::new(Kind::Alltoall, sizes(3, 3), false);
        let mean = |overall| Mean { overall, iterations: 1000, ..Mean::default() };
        let results = [vec![mean(Span::ZERO); 2], vec![mean(Span::from_ns(680)), mean(Span::from_ns(6060))]];
        let out = report(("-npmin 2 Alltoall", "Alltoall"), 2, &plan, &results);
        let rows: Vec<&str> = out.text.lines().skip_while(|line| !line.contains("#repetitions")).collect();
        assert_eq!(rows[0], "       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]");
        assert_eq!(rows[1], "            0         1000         0.00         0.00         0.00");
        assert_eq!(rows[2], "            8         1000         0.68         6.06         3.37");
    }
}
