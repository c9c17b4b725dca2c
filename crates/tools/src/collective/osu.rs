//! `osu_allreduce`, `osu_ibcast`, …: options and output.
//!
//! Source: OMB 7.4 (format: docs/formats.md); osu_coll's loops: each iteration timed by itself, a barrier between them; for non-blocking operations first the
//! operation alone, then computation of that length beside it.

use std::fmt::Write;

use fabriscope_collectives::Kind;
use fabriscope_platform::Target;
use fabriscope_tool::arguments::Meaning::Usual;
use fabriscope_tool::arguments::{self, Opt, Takes, opt};
use fabriscope_tool::{Point, Prepared, ToolOutput, UsageError};
use fabriscope_units::Bytes;
use fabriscope_wire::Element;

use super::benchmark::{Benchmark, Calling, OsuOperation};
use super::measure::{RankMeans, Report, programs, statistics};
use super::plan::{Form, Plan};
use super::stepwise::Stepwise;
use crate::omb::Buffers;
use crate::osu;
use fabriscope_tool::offload::{OFFLOAD, WORKERS};

pub(super) const OPTIONS: &[Opt] = &[
    osu::message_size("smallest and largest block in bytes"),
    osu::iterations(
        "measured iterations (default up to 100, 10 above 8192 bytes, fewer of many messages; the real tool's are 1000 and 100)",
    ),
    osu::warm_up("iterations before the measurement (default 1, 0 where one is measured)"),
    osu::full("also print least, most and the iterations"),
    opt('c', "validation", Takes::Nothing, Usual, "follow every byte of up to 64 ranks, and add the column"),
    opt(
        '\0',
        "algorithm",
        Takes::Value("name"),
        Usual,
        "instead of the library's own choice; sharp or inc for switches that reduce (not of the real tool)",
    ),
    opt('\0', "root", Takes::Value("rank"), Usual, "root of bcast, reduce, gather and scatter (default 0; not of the real tool)"),
    opt('t', "num_test_calls", Takes::Value("calls"), Usual, "MPI_Test calls within the computation (default 0; non-blocking only)"),
    opt('T', "type", Takes::Value("mpi_char|mpi_int|mpi_float"), Usual, "data type; reductions do not split an element (default mpi_char)"),
    osu::HELP,
    osu::VERSION,
    osu::NO_TAILS,
    osu::no_memory_limit("no memory is allocated; use -m for the largest block"),
    ACCELERATOR,
    OFFLOAD,
    WORKERS,
];

const NOTES: &str = "\nRanks fill the nodes one after the other: `fabriscope bench osu_alltoall --nodes 4 --ppn 32` stands for\n\
mpirun -np 128 -ppn 32. Every message is simulated. --algorithm takes what the library's rules may name: give a wrong one for the list.\n";

pub(super) fn prepare(row: &'static OsuOperation, calling: Calling, args: &[String], target: &Target) -> Result<Prepared, UsageError> {
    let (plan, report) = read(row, calling, args, target)?;
    programs(row.name(calling), plan, target, report)
}

/// What is carried out.
pub(super) fn plan(row: &'static OsuOperation, calling: Calling, args: &[String], target: &Target) -> Result<Plan, UsageError> {
    Ok(read(row, calling, args, target)?.0)
}

/// The same as data.
pub(super) fn stepwise(
    row: &'static OsuOperation,
    calling: Calling,
    args: &[String],
    target: &Target,
) -> Result<Result<Stepwise, String>, UsageError> {
    let (plan, report) = read(row, calling, args, target)?;
    Stepwise::of(row.name(calling), plan, target, report)
}

fn read(row: &'static OsuOperation, calling: Calling, args: &[String], target: &Target) -> Result<(Plan, Report), UsageError> {
    let (tool, operation) = (row.name(calling), row.kind);
    let parsed = arguments::parse(tool, OPTIONS, args)?;
    parsed.no_operands(tool)?;
    let sizes = if operation == Kind::Barrier { vec![0] } else { (0..=20).map(|power| 1 << power).collect() };
    let mut plan = Plan::new(operation, sizes, true);
    let (mut full, mut tests, mut datatype) = (false, 0, "MPI_CHAR");
    for given in &parsed.options {
        match given.name {
            "message-size" if operation == Kind::Barrier => {
                let what = format!("{tool} has no messages of its own; {} has no use", given.typed);
                return Err(UsageError::Conflict { what, remedy: "leave it out".to_owned() });
            }
            "message-size" => plan.sizes = osu::size_range(given, 1, LARGEST)?,
            "iterations" | "warmup" => plan.repeats.take(given, 1_000_000)?,
            "full" => full = true,
            "validation" => plan.validate = true,
            "algorithm" => plan.algorithm = given.value.clone(),
            "offload" | "workers" => plan.offload.take(given)?,
            "root" if !operation.has_root() => {
                let what = format!("{operation} has no root, and --root was given");
                return Err(UsageError::Conflict { what, remedy: "leave it out".to_owned() });
            }
            "root" => plan.root = arguments::number(given, 0, u64::from(u32::MAX))? as u32,
            "num_test_calls" if calling == Calling::Blocking => {
                let what = format!("{tool} waits inside the call, and {} is for computation beside it", given.typed);
                return Err(UsageError::Conflict { what, remedy: format!("leave it out, or run {}", row.name(Calling::NonBlocking)) });
            }
            "num_test_calls" => tests = arguments::number(given, 0, 1_000_000)? as u32,
            "accelerator" => plan.buffers = on_device(tool, given, target)?,
            "type" => (datatype, plan.width, plan.element) = data_type(given)?,
            "help" => {
                return Err(UsageError::Help { text: arguments::help(tool, Benchmark::Osu(row, calling).about(), OPTIONS, NOTES) });
            }
            "version" => return Err(UsageError::Help { text: format!("{} v7.4\n", row.title(calling, "")) }),
            _ => {}
        }
    }
    if plan.width > 1 {
        plan.sizes.retain(|size| *size >= plan.width);
    }
    if calling == Calling::NonBlocking {
        plan.form = Form::NonBlocking { tests };
    }
    let title = row.title(calling, plan.buffers.suffix());
    let columns = Columns { full, validate: plan.validate };
    Ok((plan, Box::new(move |plan, results| report(&title, datatype, plan, results, columns))))
}

/// The option that [`on_device`] reads.
pub(super) const ACCELERATOR: Opt =
    opt('d', "accelerator", Takes::Value("cuda|rocm|openacc"), Usual, "data in the memory of GPUs (default: of the host)");

/// Data of all ranks in the memory of GPUs.
pub(super) fn on_device(tool: &str, given: &arguments::Given, target: &Target) -> Result<Buffers, UsageError> {
    if given.value.as_deref() == Some("managed") {
        let what = format!("{tool} on managed memory is not modelled: who touches its pages between iterations is not said");
        return Err(UsageError::Conflict { what, remedy: "use -d cuda, or osu_latency M M for messages".to_owned() });
    }
    let buffers = Buffers::parse(tool, Some(given), &["D".to_owned(), "D".to_owned()], target)?;
    if buffers.staged {
        let what = format!("{tool} -d: the MPI library knows nothing of GPUs");
        return Err(UsageError::Conflict { what, remedy: "choose software with [mpi.gpu], for example mvapich2-gdr-2.3.7".to_owned() });
    }
    Ok(buffers)
}

fn data_type(given: &arguments::Given) -> Result<(&'static str, u32, Element), UsageError> {
    match given.value.as_deref().unwrap_or_default().to_ascii_lowercase().as_str() {
        "mpi_char" | "char" => Ok(("MPI_CHAR", 1, Element::I8)),
        "mpi_int" | "int" => Ok(("MPI_INT", 4, Element::I32)),
        "mpi_float" | "float" => Ok(("MPI_FLOAT", 4, Element::F32)),
        other => Err(UsageError::NotOneOf { option: given.typed.clone(), value: other.to_owned(), known: "mpi_char, mpi_int, mpi_float" }),
    }
}

/// Columns beside the mean.
#[derive(Debug, Clone, Copy, Default)]
struct Columns {
    full: bool,
    validate: bool,
}

fn report(title: &str, datatype: &str, plan: &Plan, results: &[RankMeans], columns: Columns) -> ToolOutput {
    let mut output = ToolOutput { text: format!("\n# {title} v7.4\n"), ..ToolOutput::default() };
    let without_size = plan.operation == Kind::Barrier;
    if !without_size {
        let _ = writeln!(output.text, "# Datatype: {datatype}.");
    }
    let mut head: Vec<&str> = match plan.form {
        Form::Blocking => vec!["Avg Latency(us)"],
        Form::NonBlocking { .. } => {
            output.text += "# Overall = Coll. Init + Compute + MPI_Test + MPI_Wait\n\n";
            vec!["Overall(us)", "Compute(us)", "Pure Comm.(us)", "Overlap(%)"]
        }
    };
    if columns.full {
        head.extend(["Min Latency(us)", "Max Latency(us)"]);
    }
    let _ = if without_size { write!(output.text, "# ") } else { write!(output.text, "{:<10}", "# Size") };
    for (at, column) in head.iter().enumerate() {
        let _ = if without_size && at == 0 { write!(output.text, "{column}") } else { write!(output.text, "{column:>WIDTH$}") };
    }
    if columns.full {
        let _ = write!(output.text, "{:>12}", "Iterations");
    }
    if columns.validate {
        let _ = write!(output.text, "{:>WIDTH$}", "Validation");
    }
    output.text.push('\n');
    for (&size, means) in plan.sizes.iter().zip(results) {
        let (mean, least, most) = statistics(means.iter().map(|mean| mean.overall));
        let mut values = vec![mean];
        if let Form::NonBlocking { .. } = plan.form {
            let (pure, ..) = statistics(means.iter().map(|mean| mean.pure));
            let hidden = if pure > 0.0 { 100.0 - (mean - pure) / pure * 100.0 } else { 0.0 };
            values.extend([pure, pure, hidden.clamp(0.0, 100.0)]);
        }
        if columns.full {
            values.extend([least, most]);
        }
        if !without_size {
            let _ = write!(output.text, "{size:<10}");
        }
        for value in values {
            let _ = write!(output.text, "{value:>WIDTH$.2}");
        }
        if columns.full {
            let _ = write!(output.text, "{:>12}", means.first().map_or(0, |mean| mean.iterations));
        }
        if columns.validate {
            let _ = write!(output.text, "{:>WIDTH$}", "Pass");
        }
        output.text.push('\n');
        output.points.push(Point { size: Bytes(size.into()), metric: "latency", unit: "us", value: mean });
    }
    output
}

/// Largest block by default, in bytes (basis: the tool).
const LARGEST: u32 = 1 << 20;
/// Characters of a column of values (basis: docs/formats.md).
const WIDTH: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::measure::Mean;
    use fabriscope_units::Span;

    fn title(name: &str) -> String {
        let found = Benchmark::all().find(|benchmark| benchmark.name() == name);
        let Some(Benchmark::Osu(row, calling)) = found else { panic!("{name}") };
        row.title(calling, "")
    }
    fn mean(us: u64) -> Mean {
        Mean { overall: Span::from_us(us), iterations: 7, ..Mean::default() }
    }

    #[test]
    fn means_of_the_ranks_are_printed_as_the_tool_does() {
        let plan = Plan::new(Kind::Alltoall, vec![8, 1_048_576], true);
        let results = [vec![mean(1), mean(3)], vec![mean(212)]];
        let columns = Columns { full: true, validate: false };
        let out = report(&title("osu_alltoall"), "MPI_CHAR", &plan, &results, columns);
        assert_eq!(
            out.text,
            "\n# OSU MPI All-to-All Personalized Exchange Latency Test v7.4\n# Datatype: MPI_CHAR.\n\
             # Size         Avg Latency(us)     Min Latency(us)     Max Latency(us)  Iterations\n\
             8                         2.00                1.00                3.00           7\n\
             1048576                 212.00              212.00              212.00           7\n"
        );
        assert_eq!((out.points.len(), out.points[0].value), (2, 2.0));
    }

    /// 10 µs alone, 12 µs with 10 µs of computation: 80 % of it is hidden.
    #[test]
    fn overlap_is_what_computation_hides() {
        let form = Form::NonBlocking { tests: 0 };
        let plan = Plan { form, ..Plan::new(Kind::Bcast, vec![64], true) };
        let overlapped = Mean { overall: Span::from_us(12), pure: Span::from_us(10), iterations: 7 };
        let out = report(&title("osu_ibcast"), "MPI_CHAR", &plan, &[vec![overlapped; 2]], Columns::default());
        assert_eq!(
            out.text,
            "\n# OSU MPI Non-Blocking Broadcast Latency Test v7.4\n# Datatype: MPI_CHAR.\n\
             # Overall = Coll. Init + Compute + MPI_Test + MPI_Wait\n\n\
             # Size             Overall(us)         Compute(us)      Pure Comm.(us)          Overlap(%)\n\
             64                       12.00               10.00               10.00               80.00\n"
        );
    }

    #[test]
    fn a_barrier_has_no_sizes() {
        let plan = Plan::new(Kind::Barrier, vec![0], true);
        let out = report(&title("osu_barrier"), "MPI_CHAR", &plan, &[vec![mean(3)]], Columns::default());
        assert_eq!(out.text, "\n# OSU MPI Barrier Latency Test v7.4\n# Avg Latency(us)\n                3.00\n");
    }
}
