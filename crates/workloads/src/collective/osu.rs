//! `osu_alltoall`: options and output.
//!
//! Source: FORMATS.md §10 (OMB 7.4).

use std::fmt::Write;

use fabriscope_units::Bytes;

use super::{Means, Plan, programs, statistics};
use crate::arguments::Meaning::{Refused, Usual};
use crate::arguments::{self, Opt, Takes};
use crate::error::UsageError;
use crate::omb::size_range;
use crate::output::{Point, ToolOutput};
use crate::target::Target;
use crate::tool::Prepared;

const OPTIONS: &[Opt] = &[
    Opt { short: 'm', long: "message-size", takes: Takes::Value("[min:]max"), meaning: Usual, help: "smallest and largest block in bytes" },
    Opt {
        short: 'i',
        long: "iterations",
        takes: Takes::Value("count"),
        meaning: Usual,
        help: "measured iterations (default 3, 1 above 8192 bytes; the real tool's are 1000 and 100)",
    },
    Opt {
        short: 'x',
        long: "warmup",
        takes: Takes::Value("count"),
        meaning: Usual,
        help: "iterations before the measurement (default 1, 0 above 8192 bytes)",
    },
    Opt { short: 'f', long: "full", takes: Takes::Nothing, meaning: Usual, help: "also print least, most and the iterations" },
    Opt { short: 'c', long: "validation", takes: Takes::Nothing, meaning: Usual, help: "add the column of validation" },
    Opt {
        short: '\0',
        long: "algorithm",
        takes: Takes::Value("bruck|posted|pairwise"),
        meaning: Usual,
        help: "instead of the library's own choice (not of the real tool)",
    },
    Opt { short: 'h', long: "help", takes: Takes::Nothing, meaning: Usual, help: "show this page" },
    Opt { short: 'v', long: "version", takes: Takes::Nothing, meaning: Usual, help: "print the version whose output this follows" },
    Opt {
        short: 'z',
        long: "tail-lat",
        takes: Takes::Optional("p1,p2,…"),
        meaning: Refused("iterations hardly differ; leave -z out"),
        help: "",
    },
    Opt {
        short: 'M',
        long: "mem-limit",
        takes: Takes::Value("bytes"),
        meaning: Refused("no memory is allocated; use -m for the largest block"),
        help: "",
    },
    Opt {
        short: 'd',
        long: "accelerator",
        takes: Takes::Value("cuda"),
        meaning: Refused("GPU memory is not modelled by these programs yet; leave -d out"),
        help: "",
    },
];

const NOTES: &str = "\nRanks fill the nodes one after the other: `fabriscope bench osu_alltoall --nodes 4 --ppn 32` stands for\n\
mpirun -np 128 -ppn 32. Every message is simulated.\n";

pub(super) fn prepare(args: &[String], target: &Target) -> Result<Prepared, UsageError> {
    let parsed = arguments::parse(TOOL, OPTIONS, args)?;
    if let Some(operand) = parsed.operands.first() {
        return Err(UsageError::Operand { tool: TOOL.to_owned(), operand: operand.clone() });
    }
    let sizes = (0..=20).map(|power| 1 << power).collect();
    let mut plan = Plan { sizes, iterations: None, warm_up: None, algorithm: None, separate: true };
    let (mut full, mut validate) = (false, false);
    for given in &parsed.options {
        match given.name {
            "message-size" => plan.sizes = size_range(given, 1, LARGEST)?,
            "iterations" => plan.iterations = Some(arguments::number(given, 1, 1_000_000)? as u32),
            "warmup" => plan.warm_up = Some(arguments::number(given, 0, 1_000_000)? as u32),
            "full" => full = true,
            "validation" => validate = true,
            "algorithm" => plan.algorithm = given.value.clone(),
            "help" => {
                let about = super::Benchmark::OsuAlltoall.about();
                return Err(UsageError::Help { text: arguments::help(TOOL, about, OPTIONS, NOTES) });
            }
            "version" => return Err(UsageError::Help { text: format!("{TITLE} v7.4\n") }),
            _ => {}
        }
    }
    programs(TOOL, plan, target, move |plan, results| report(plan, results, full, validate))
}

fn report(plan: &Plan, results: &[Means], full: bool, validate: bool) -> ToolOutput {
    let mut columns = format!("{:>WIDTH$}", "Avg Latency(us)");
    if full {
        let _ = write!(columns, "{:>WIDTH$}{:>WIDTH$}{:>12}", "Min Latency(us)", "Max Latency(us)", "Iterations");
    }
    if validate {
        let _ = write!(columns, "{:>WIDTH$}", "Validation");
    }
    let text = format!("\n# {TITLE} v7.4\n# Datatype: MPI_CHAR.\n{:<10}{columns}\n", "# Size");
    let mut output = ToolOutput { text, ..ToolOutput::default() };
    for (&size, means) in plan.sizes.iter().zip(results) {
        let (mean, least, most) = statistics(means);
        let _ = write!(output.text, "{size:<10}{mean:>WIDTH$.2}");
        if full {
            let _ = write!(output.text, "{least:>WIDTH$.2}{most:>WIDTH$.2}{:>12}", plan.iterations(size));
        }
        if validate {
            let _ = write!(output.text, "{:>WIDTH$}", "Pass");
        }
        output.text.push('\n');
        output.points.push(Point { size: Bytes(size.into()), metric: "latency", unit: "us", value: mean });
    }
    output
}

const TOOL: &str = "osu_alltoall";
const TITLE: &str = "OSU MPI All-to-All Personalized Exchange Latency Test";
/// Largest block by default, in bytes (basis: the tool).
const LARGEST: u32 = 1 << 20;
/// Characters of a column of values (basis: FORMATS.md §10).
const WIDTH: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use fabriscope_units::Span;

    #[test]
    fn means_of_the_ranks_are_printed_as_the_tool_does() {
        let plan = Plan { sizes: vec![8, 1048576], iterations: Some(7), warm_up: None, algorithm: None, separate: true };
        let results = [vec![Span::from_us(1), Span::from_us(3)], vec![Span::from_us(212)]];
        let out = report(&plan, &results, true, false);
        assert_eq!(
            out.text,
            "\n# OSU MPI All-to-All Personalized Exchange Latency Test v7.4\n# Datatype: MPI_CHAR.\n\
             # Size         Avg Latency(us)     Min Latency(us)     Max Latency(us)  Iterations\n\
             8                         2.00                1.00                3.00           7\n\
             1048576                 212.00              212.00              212.00           7\n"
        );
        assert_eq!((out.points.len(), out.points[0].value), (2, 2.0));
    }
}
