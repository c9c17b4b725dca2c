//! `IMB-MPI1 Alltoall`: options and output.
//!
//! Source: Intel MPI Benchmarks 2019, user guide (options, "Parallel/Collective benchmarks output data").
//! Modelled: `-npmin`, `-msglog`, `-iter`; the table and what stands around it, but for date, machine and versions.

use std::fmt::Write;

use fabriscope_units::Bytes;

use super::{Means, Plan, programs, statistics};
use crate::error::UsageError;
use crate::output::{Point, ToolOutput};
use crate::target::Target;
use crate::tool::Prepared;

const HELP: &str = "\
IMB-MPI1: Alltoall among the ranks of several nodes (Intel MPI Benchmarks)
Usage: IMB-MPI1 [options] Alltoall

Options:
  -npmin N         smallest group; only all ranks are run
  -msglog MIN:MAX  blocks of 0 and of 2^MIN to 2^MAX bytes (default 0:22)
  -iter N          iterations (default 3, 1 above 8192 bytes; the real tool's are 1000 and fewer)
  -h, --help       show this page

Ranks fill the nodes one after the other: `fabriscope bench IMB-MPI1 Alltoall --nodes 4 --ppn 32` stands for
mpirun -np 128 -ppn 32. For PingPong use osu_latency, which times the same exchange.
";

pub(super) fn prepare(args: &[String], target: &Target) -> Result<Prepared, UsageError> {
    let mut plan = Plan { sizes: sizes(0, 22), iterations: None, warm_up: None, algorithm: None, separate: false };
    let mut asked = false;
    let mut rest = args.iter();
    while let Some(word) = rest.next() {
        let mut value = |what| rest.next().ok_or(UsageError::MissingValue { option: word.clone(), what });
        match word.to_ascii_lowercase().as_str() {
            "-h" | "--help" | "-help" => return Err(UsageError::Help { text: HELP.to_owned() }),
            "alltoall" => asked = true,
            "-npmin" => {
                let least = number(word, value("ranks")?, u64::from(u32::MAX))?;
                let ranks = u64::from(target.layout.ranks());
                if least < ranks {
                    let what = format!("-npmin {least} asks for smaller groups than the {ranks} ranks of the job");
                    return Err(UsageError::Conflict { what, remedy: "run once for each: --nodes and --ppn set the ranks".to_owned() });
                }
            }
            "-iter" => plan.iterations = Some(number(word, value("count")?, 1_000_000)?.max(1) as u32),
            "-msglog" => {
                let text = value("min:max")?;
                let (min, max) = text.split_once(':').unwrap_or(("0", text));
                let (min, max) = (number(word, min, 30)?, number(word, max, 30)?);
                if min > max {
                    let what = format!("-msglog {text}: the smallest block is larger than the largest");
                    return Err(UsageError::Conflict { what, remedy: format!("give {max}:{min}") });
                }
                plan.sizes = sizes(min as u32, max as u32);
            }
            option if option.starts_with('-') => {
                let nearest = "-npmin, -msglog or -iter".to_owned();
                return Err(UsageError::Unknown { tool: TOOL.to_owned(), option: word.clone(), nearest });
            }
            _ => {
                let what = format!("the benchmark {word} of {TOOL} is not modelled");
                return Err(UsageError::Conflict { what, remedy: "name Alltoall; osu_latency times what PingPong does".to_owned() });
            }
        }
    }
    if !asked {
        let what = format!("{TOOL} without a benchmark would run all of them, which are not modelled");
        return Err(UsageError::Conflict { what, remedy: "name Alltoall".to_owned() });
    }
    let line = args.join(" ");
    let ranks = target.layout.ranks();
    programs(TOOL, plan, target, move |plan, results| report(&line, ranks, plan, results))
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

fn report(line: &str, ranks: u32, plan: &Plan, results: &[Means]) -> ToolOutput {
    let largest = plan.sizes.last().copied().unwrap_or(0);
    let rule = format!("#{}", "-".repeat(64));
    let text = format!(
        "# Calling sequence was: \n\n# {TOOL} {line} \n\n# Minimum message length in bytes:   0\n\
         # Maximum message length in bytes:   {largest}\n#\n# MPI_Datatype                   :   MPI_BYTE \n\
         # MPI_Datatype for reductions    :   MPI_FLOAT \n# MPI_Op                         :   MPI_SUM  \n# \n# \n\n\
         # List of Benchmarks to run:\n\n# Alltoall\n\n{rule}\n# Benchmarking Alltoall \n# #processes = {ranks} \n{rule}\n       \
         #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]\n"
    );
    let mut output = ToolOutput { text, ..ToolOutput::default() };
    for (&size, means) in plan.sizes.iter().zip(results) {
        let (mean, least, most) = statistics(means);
        let _ = writeln!(output.text, "{size:>13} {:>12} {least:>12.2} {most:>12.2} {mean:>12.2}", plan.iterations(size));
        output.points.push(Point { size: Bytes(size.into()), metric: "latency", unit: "us", value: mean });
    }
    output.text += "\n\n# All processes entering MPI_Finalize\n\n";
    output
}

const TOOL: &str = "IMB-MPI1";

#[cfg(test)]
mod tests {
    use super::*;
    use fabriscope_units::Span;

    #[test]
    fn rows_stand_as_the_tool_prints_them() {
        let plan = Plan { sizes: sizes(3, 3), iterations: Some(1000), warm_up: None, algorithm: None, separate: false };
        let out = report("-npmin 2 Alltoall", 2, &plan, &[vec![Span::ZERO; 2], vec![Span::from_ns(680), Span::from_ns(6060)]]);
        let rows: Vec<&str> = out.text.lines().skip_while(|line| !line.contains("#repetitions")).collect();
        assert_eq!(rows[0], "       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]");
        assert_eq!(rows[1], "            0         1000         0.00         0.00         0.00");
        assert_eq!(rows[2], "            8         1000         0.68         6.06         3.37");
    }
}
