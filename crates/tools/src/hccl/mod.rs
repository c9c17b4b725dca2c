//! `hccl_demo`: operations of HCL on the accelerators of a job.
//!
//! Source: hccl_demo (<https://github.com/HabanaAI/hccl_demo>), hccl_demo.cpp, run_hccl_demo.py: loop, factors, output as of release 1.18.
//! Modelled: calls one behind the other, waited for at the end; what the first accelerator prints.
//! Not modelled: checks of data, affinity of cores; broadcast, reduce, sends and receives.
//!
//! Calls repeat once as many slices are in progress as may be: those beyond are counted, not simulated.

use std::fmt::Write;
use std::sync::Arc;

use fabriscope_hcl::{HclError, HclJob, Operation, Settings};
use fabriscope_node::{Main, Ties};
use fabriscope_platform::Target;
use fabriscope_tool::arguments::Meaning::{Harmless, Refused, Usual};
use fabriscope_tool::arguments::{self, Opt, Takes, opt};
use fabriscope_tool::{
    Data, Measures, Operation as Carried, PerNode, Placing, Point, Prepared, Ranks, Rows, SizeOption, Suite, ToolOutput, Traits, UsageError,
};
use fabriscope_units::{Bytes, Remedy, Span};

/// The program's name.
pub const NAME: &str = "hccl_demo";
/// One line for a list of tools.
pub const ABOUT: &str = "all-reduce, all-gather, reduce-scatter and all-to-all of HCL on Gaudi (hccl_demo): bandwidth";

pub(crate) const OPTIONS: &[Opt] = &[
    opt('\0', "test", Takes::Value("name"), Usual, "all_reduce, all_gather, reduce_scatter or all2all (default all_reduce)"),
    opt('\0', "size", Takes::Value("bytes"), Usual, "what each accelerator puts in (default 32m)"),
    opt('\0', "size_range", Takes::Value("min max"), Usual, "from size to size, doubled, as `--size_range 1m 32m`"),
    opt('\0', "loop", Takes::Value("count"), Usual, "calls, one behind the other (default 10)"),
    opt('\0', "data_type", Takes::Value("type"), Usual, "float or bfloat16 (default float)"),
    opt('\0', "nranks", Takes::Value("count"), Harmless("--nodes and --ppn say it"), "accelerators"),
    opt('\0', "ranks_per_node", Takes::Value("count"), Harmless("--ppn says it"), "accelerators of a server"),
    opt('\0', "node_id", Takes::Value("number"), Harmless("all servers run"), "number of this server"),
    opt('\0', "test_root", Takes::Value("rank"), Refused("broadcast and reduce are not modelled; leave --test_root out"), ""),
    opt('\0', "ranks_list", Takes::Value("list"), Refused("sends and receives are not modelled; leave --ranks_list out"), ""),
    opt('\0', "csv_path", Takes::Value("file"), Refused("use --json of `bench` for the same as data"), ""),
    opt('h', "help", Takes::Nothing, Usual, "show this page"),
];

const NOTES: &str =
    "\nIn place of run_hccl_demo.py on each server: --nodes and --ppn, accelerators of each (default one server, all of them).\n";

/// What the program is.
#[must_use]
pub fn traits() -> Traits {
    Traits {
        measures: Measures::Bandwidth,
        ranks: Ranks::Job(PerNode::Gpus),
        sizes: SizeOption::Fixed,
        data: Data::OnGpus,
        ..Traits::new(Suite::Hccl, Carried::AnyCollective)
    }
}

/// A resolved command line.
struct Request {
    operation: Operation,
    sizes: Vec<u64>,
    /// A range of sizes has a table in the end.
    table: bool,
    calls: u32,
    data_type: &'static str,
    element: u64,
}

/// Reads the command line and makes the programs.
///
/// # Errors
/// A wrong command line; accelerators of another library.
pub fn prepare(args: &[String], target: &Target) -> Result<Prepared, UsageError> {
    let parsed = arguments::parse(NAME, OPTIONS, args)?;
    let conflict = |what: String, remedy: &str| UsageError::Conflict { what, remedy: remedy.to_owned() };
    let mut operands = parsed.operands.iter();
    let mut s = Request { operation: Operation::AllReduce, sizes: vec![32 << 20], table: false, calls: 10, data_type: "float", element: 4 };
    for given in &parsed.options {
        let text = given.value.as_deref().unwrap_or_default();
        match given.name {
            "help" => return Err(UsageError::Help { text: arguments::help(NAME, ABOUT, OPTIONS, NOTES) }),
            "test" => {
                let known = TESTS.iter().find(|(_, name, _)| *name == text);
                let remedy = "give all_reduce, all_gather, reduce_scatter or all2all";
                s.operation = known.ok_or_else(|| conflict(format!("--test {text} is not modelled"), remedy))?.0;
            }
            "size" => s.sizes = vec![arguments::size(&given.typed, text, 1, MOST)?],
            "size_range" => {
                let (low, high) = (arguments::size(&given.typed, text, 1, MOST)?, operands.next());
                let high = high.ok_or_else(|| conflict("--size_range with one size".to_owned(), "give two: --size_range 1m 32m"))?;
                let high = arguments::size(&given.typed, high, low, MOST)?;
                s.sizes = std::iter::successors(Some(low), |size| size.checked_mul(2)).take_while(|size| *size <= high).collect();
                s.table = true;
            }
            "loop" => s.calls = arguments::number(given, 1, 1 << 20)? as u32,
            "data_type" => {
                (s.data_type, s.element) = match text {
                    "float" => ("float", 4),
                    "bfloat16" => ("bfloat16", 2),
                    _ => return Err(conflict(format!("--data_type {text}"), "give float or bfloat16")),
                }
            }
            _ => {}
        }
    }
    if let Some(operand) = operands.next() {
        return Err(UsageError::Operand { tool: NAME.to_owned(), operand: operand.clone() });
    }
    let layout = target.layout;
    let gpus = target.gpu.as_ref().map_or(0, |gpu| gpu.count);
    if gpus < layout.per_node {
        return Err(conflict(format!("{} accelerators of servers with {gpus}", layout.per_node), "give fewer ranks with --ppn"));
    }
    let rounds = if layout.ranks() > FEW { ROUNDS_OF_MANY } else { ROUNDS };
    let job = |bytes: &u64| {
        let whole =
            Settings { operation: s.operation, servers: layout.nodes, per_server: layout.per_node, bytes: Bytes(*bytes), calls: s.calls };
        let job = HclJob::new(target, whole)?;
        let calls = rounds.saturating_mul(job.beside());
        if target.every_iteration || s.calls <= calls {
            return Ok(Arc::new(job));
        }
        HclJob::new(target, Settings { calls, ..whole }).map(Arc::new)
    };
    let jobs: Vec<Arc<HclJob>> = s.sizes.iter().map(job).collect::<Result<_, _>>().map_err(|error: HclError| refused(&error))?;
    let main = |_| -> Main {
        let jobs = jobs.clone();
        Box::new(move |process| {
            Box::pin(async move {
                for job in jobs {
                    fabriscope_hcl::run(process.clone(), job).await?;
                }
                Ok(())
            })
        })
    };
    let mains = (0..layout.ranks()).map(main).collect();
    let placing = Placing::Blocks { per_node: layout.per_node };
    Ok(Prepared { placing, mains, ties: Ties::Fences, finish: Box::new(move || report(&s, &jobs)), rows: Rows::default() })
}

fn refused(error: &HclError) -> UsageError {
    let (what, remedy) = error.halves("");
    UsageError::Conflict { what, remedy }
}

/// Seconds of a call, over all of them, where so many are in progress at a time.
fn mean(ends: &[Span], calls: u32, beside: usize) -> f64 {
    let Some(last) = ends.last() else { return 0.0 };
    let simulated = ends.len();
    let more = f64::from(calls) - simulated as f64;
    if more <= 0.0 || simulated <= 2 * beside {
        return last.as_s_f64() / simulated as f64;
    }
    // A call more takes as long as those that others are before and behind.
    let (begin, end) = (ends[beside - 1], ends[simulated - 1 - beside]);
    let slope = (end - begin).as_s_f64() / (simulated - 2 * beside) as f64;
    (last.as_s_f64() + slope * more) / f64::from(calls)
}

fn report(s: &Request, jobs: &[Arc<HclJob>]) -> ToolOutput {
    let mut out = ToolOutput::default();
    let Some((_, test, call)) = TESTS.iter().find(|(operation, ..)| *operation == s.operation) else { return out };
    let sums = matches!(s.operation, Operation::AllReduce | Operation::ReduceScatter);
    let mut rows = Vec::new();
    for job in jobs {
        let (bytes, ranks) = (job.settings().bytes, f64::from(job.settings().ranks()));
        let seconds = mean(&job.ends(), s.calls, job.beside() as usize);
        let algorithm = bytes.0 as f64 / seconds.max(1e-12) / 1e9;
        let network = algorithm
            * match s.operation {
                Operation::AllReduce => 2.0 * (ranks - 1.0) / ranks,
                Operation::AllGather => ranks - 1.0,
                Operation::ReduceScatter | Operation::AllToAll => (ranks - 1.0) / ranks,
            };
        let count = bytes.0 / s.element;
        if s.table {
            let _ = writeln!(out.text, "Processing data_size {}", bytes.0);
        } else {
            let title = format!(
                "[BENCHMARK] {call}(src!=dst, data_size={}, count={count}, dtype={}, iterations={})",
                bytes.0, s.data_type, s.calls
            );
            let line = "#".repeat(title.len());
            let _ = writeln!(out.text, "{line}\n{title}\n[BENCHMARK]     NW Bandwidth   : {network:.6} GB/s");
            let _ = writeln!(out.text, "[BENCHMARK]     Algo Bandwidth : {algorithm:.6} GB/s\n{line}");
        }
        rows.push((bytes.0, count, seconds * 1e6, algorithm, network));
        for (metric, unit, value) in [("bandwidth", "GB/s", network), ("latency", "us", seconds * 1e6)] {
            out.points.push(Point { size: bytes, metric, unit, value });
        }
    }
    if s.table {
        let name = format!("(src!=dst, collective={test}, iterations={})", s.calls);
        let _ = writeln!(out.text, "\n{}\n[SUMMARY REPORT]\n{name}\n", "#".repeat(name.len() + 1));
        let redop = |text: &str| if sums { format!("{text:<14}") } else { String::new() };
        let _ = writeln!(
            out.text,
            "{:<14}{:<14}{:<14}{}{:<14}{:<14}{:<14}",
            "size",
            "count",
            "type",
            redop("redop"),
            "time",
            "algo_bw",
            "nw_bw"
        );
        let _ =
            writeln!(out.text, "{:<14}{:<14}{:<14}{}{:<14}{:<14}{:<14}", "(B)", "(elements)", "", redop(""), "(us)", "(GB/s)", "(GB/s)");
        for (bytes, count, time, algorithm, network) in rows {
            let (kind, sum) = (s.data_type, redop("sum"));
            let _ = writeln!(out.text, "{bytes:<14}{count:<14}{kind:<14}{sum}{time:<14.3}{algorithm:<14.6}{network:<14.6}");
        }
    }
    out
}

/// Operations, their names as tests, and their calls.
const TESTS: [(Operation, &str, &str); 4] = [
    (Operation::AllReduce, "all_reduce", "hcclAllReduce"),
    (Operation::AllGather, "all_gather", "hcclAllGather"),
    (Operation::ReduceScatter, "reduce_scatter", "hcclReduceScatter"),
    (Operation::AllToAll, "all2all", "hcclAlltoAll"),
];
/// Bytes of an accelerator. Basis: assumed; beyond its memory.
const MOST: u64 = 1 << 37;
/// Calls that are simulated, in times of those that are in progress together; of jobs with more than [`FEW`] accelerators. Basis: assumed; calls
/// are alike where others are before and behind them.
const ROUNDS: u32 = 8;
const ROUNDS_OF_MANY: u32 = 3;
const FEW: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// Two calls at a time that end at 3, 4, 7, 8, 11, 11 µs: a call more takes 2, so that 10 of them take 19. As many as were simulated take what
    /// these took.
    #[test]
    fn calls_beyond_go_on() {
        let ends: Vec<Span> = [3, 4, 7, 8, 11, 11].map(Span::from_us).into();
        assert!((mean(&ends, 10, 2) - 1.9e-6).abs() < 1e-15 && (mean(&ends, 6, 2) - 11e-6 / 6.0).abs() < 1e-15);
    }
}
