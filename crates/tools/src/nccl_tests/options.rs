//! The options of nccl-tests, resolved.
//!
//! Source: nccl-tests 2.19.6, src/common.cu.

use std::sync::Arc;

use fabriscope_nccl as nccl;
use fabriscope_platform::nccl::set_variable;
use fabriscope_tool::UsageError;
use fabriscope_tool::arguments::Meaning::{Harmless, Refused, Usual};
use fabriscope_tool::arguments::{self, Given, Opt, Takes, opt};
use fabriscope_units::Remedy;

use super::operation::Operation;

pub(crate) const OPTIONS: &[Opt] = &[
    opt('t', "nthreads", Takes::Value("count"), Usual, "threads of a process (default 1)"),
    opt('g', "ngpus", Takes::Value("count"), Usual, "GPUs of a thread, which starts their kernels one after the other (default 1)"),
    opt('b', "minbytes", Takes::Value("bytes"), Usual, "smallest size (default 32M)"),
    opt('e', "maxbytes", Takes::Value("bytes"), Usual, "largest size (default 32M)"),
    opt('i', "stepbytes", Takes::Value("bytes"), Usual, "from size to size (default 1M)"),
    opt('f', "stepfactor", Takes::Value("factor"), Usual, "from size to size as a factor"),
    opt('n', "iters", Takes::Value("count"), Usual, "measured iterations (default 20)"),
    opt('w', "warmup_iters", Takes::Value("count"), Usual, "iterations before the measurement (default 1)"),
    opt('m', "agg_iters", Takes::Value("count"), Refused("several operations in a group are not modelled; leave -m out"), ""),
    opt('c', "check", Takes::Value("0|1"), Usual, "the column of wrong elements, from contents that go with every slice (default 1)"),
    opt('o', "op", Takes::Value("sum|prod|min|max|avg"), Usual, "how it adds up (default sum)"),
    opt('d', "datatype", Takes::Value("type"), Usual, "type of the elements (default float)"),
    opt('r', "root", Takes::Value("rank"), Usual, "root of broadcast, reduce, gather and scatter (default 0)"),
    opt('z', "blocking", Takes::Value("0|1"), Refused("operations are enqueued and then waited for; leave -z out"), ""),
    opt('G', "cudagraph", Takes::Value("count"), Refused("CUDA graphs are not modelled; leave -G out"), ""),
    opt('C', "report_cputime", Takes::Value("0|1"), Refused("only times of GPUs are reported; leave -C out"), ""),
    opt('a', "average", Takes::Value("0|1|2|3"), Usual, "time of: 0 rank 0, 1 the mean, 2 the least, 3 the most of all ranks (default 1)"),
    opt('p', "parallel_init", Takes::Value("0|1"), Harmless("connecting takes no time"), "threads connect side by side"),
    opt('R', "local_register", Takes::Value("0|1|2"), Refused("registered buffers are not modelled; leave -R out"), ""),
    opt('T', "timeout", Takes::Value("seconds"), Harmless("a simulated job that waits for ever ends with an error"), "timeout"),
    opt('J', "output_file", Takes::Value("file"), Refused("use --json of `bench` for the same as data"), ""),
    opt('\0', "env", Takes::Value("NAME=VALUE"), Usual, "a variable of the library, as NCCL_ALGO=Ring (not of the real tool)"),
    opt('\0', "tuner-line", Takes::Value("LINE"), Usual, "choose by this line of a tuner's file; may be repeated (not of the real tool)"),
    opt('\0', "estimate", Takes::Nothing, Usual, "say beside each size what NCCL itself would expect (not of the real tool)"),
    opt('\0', "exact", Takes::Nothing, Usual, "simulate every iteration and every loop of long messages (not of the real tool)"),
    opt('h', "help", Takes::Nothing, Usual, "show this page"),
];

const NOTES: &str = "\nIn place of mpirun: --nodes and --ppn, ranks on each node (default one node, all its GPUs).\n\
Variables: NCCL_ALGO, NCCL_PROTO, NCCL_MIN_NCHANNELS, NCCL_MAX_NCHANNELS, NCCL_BUFFSIZE, NCCL_P2P_LEVEL, NCCL_NET_GDR_LEVEL, \
NCCL_TUNER_CONFIG_FILE, …\n";

/// A resolved command line.
pub(super) struct Settings {
    pub threads: u32,
    pub gpus: u32,
    pub sizes: Vec<u64>,
    /// What the header says of the steps.
    pub step: String,
    pub iterations: u32,
    pub warm_up: u32,
    pub check: bool,
    pub operator: &'static str,
    pub type_name: &'static str,
    /// Bytes of an element.
    pub element: u64,
    pub root: u32,
    pub average: u64,
    /// Nothing is left out.
    pub exact: bool,
    /// What the library itself expects is said as well.
    pub estimate: bool,
    pub variables: nccl::Settings,
}

impl Settings {
    /// Elements are of eight bits with a point.
    pub fn is_fp8(&self) -> bool {
        self.type_name.starts_with("f8")
    }

    pub fn parse(operation: Operation, args: &[String], usual: &nccl::Settings) -> Result<Settings, UsageError> {
        let tool = operation.tool();
        let parsed = arguments::parse(tool, OPTIONS, args)?;
        parsed.no_operands(tool)?;
        let (mut least, mut most, mut by, mut factor) = (32u64 << 20, 32u64 << 20, 1u64 << 20, 1u64);
        let mut s = Settings {
            threads: 1,
            gpus: 1,
            sizes: Vec::new(),
            step: String::new(),
            iterations: 20,
            warm_up: 1,
            check: true,
            operator: "sum",
            type_name: "float",
            element: 4,
            root: 0,
            average: 1,
            exact: false,
            estimate: false,
            variables: usual.clone(),
        };
        let mut lines = Vec::new();
        for given in &parsed.options {
            let number = |low, high| arguments::number(given, low, high);
            let size = || arguments::size(&given.typed, given.value.as_deref().unwrap_or_default(), 1, MOST_BYTES);
            match given.name {
                "nthreads" => s.threads = number(1, 1024)? as u32,
                "ngpus" => s.gpus = number(1, 1024)? as u32,
                "minbytes" => least = size()?,
                "maxbytes" => most = size()?,
                "stepbytes" => by = size()?,
                "stepfactor" => factor = number(2, 1024)?,
                "iters" => s.iterations = number(1, 1_000_000)? as u32,
                "warmup_iters" => s.warm_up = number(0, 1_000_000)? as u32,
                "check" => s.check = number(0, 1 << 20)? != 0,
                "op" => s.operator = word(given, &OPERATORS, "sum, prod, min, max, avg")?.0,
                "datatype" => {
                    let known = "int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16, f8e4m3, f8e5m2";
                    (s.type_name, s.element) = word(given, &TYPES, known)?;
                }
                "root" => s.root = number(0, u64::from(u32::MAX))? as u32,
                "average" => s.average = number(0, 3)?,
                "exact" => s.exact = true,
                "estimate" => s.estimate = true,
                "tuner-line" => lines.push(tuner_line(given)?),
                "env" => variable(given, &mut s.variables)?,
                "help" => return Err(UsageError::Help { text: arguments::help(tool, operation.about(), OPTIONS, NOTES) }),
                _ => {}
            }
        }
        if !lines.is_empty() {
            s.variables.rules = Some(Arc::new(nccl::Rules { rules: lines }));
        }
        if least > most {
            let what = format!("-b {least} -e {most}: the smallest size is larger than the largest");
            return Err(UsageError::Conflict { what, remedy: format!("give -b {most} -e {least}") });
        }
        s.step = if factor > 1 { format!("{factor}(factor)") } else { format!("{by}(bytes)") };
        let next = |size: &u64| Some(if factor > 1 { size * factor } else { size + by });
        s.sizes = std::iter::successors(Some(least), next).take_while(|size| *size <= most).collect();
        Ok(s)
    }
}

fn word(given: &Given, known: &[(&'static str, u64)], names: &'static str) -> Result<(&'static str, u64), UsageError> {
    let value = given.value.clone().unwrap_or_default();
    let found = known.iter().find(|(name, _)| *name == value).copied();
    found.ok_or(UsageError::NotOneOf { option: given.typed.clone(), value, known: names })
}

fn tuner_line(given: &Given) -> Result<nccl::Rule, UsageError> {
    let text = given.value.clone().unwrap_or_default();
    text.parse().map_err(|remedy| UsageError::Conflict { what: format!("{} {text}", given.typed), remedy })
}

fn variable(given: &Given, variables: &mut nccl::Settings) -> Result<(), UsageError> {
    let text = given.value.clone().unwrap_or_default();
    let conflict = |remedy: String| UsageError::Conflict { what: format!("{} {text}", given.typed), remedy };
    let (name, value) = text.split_once('=').ok_or_else(|| conflict("write NAME=VALUE, as NCCL_ALGO=Ring".to_owned()))?;
    match set_variable(variables, name, value) {
        Ok(true) => Ok(()),
        Ok(false) => Err(conflict("no such variable matters here; `--help` names those that do".to_owned())),
        Err(error) => Err(conflict(error.in_full())),
    }
}

const OPERATORS: [(&str, u64); 5] = [("sum", 0), ("prod", 0), ("min", 0), ("max", 0), ("avg", 0)];
const TYPES: [(&str, u64); 12] = [
    ("int8", 1),
    ("uint8", 1),
    ("int32", 4),
    ("uint32", 4),
    ("int64", 8),
    ("uint64", 8),
    ("half", 2),
    ("float", 4),
    ("double", 8),
    ("bfloat16", 2),
    ("f8e4m3", 1),
    ("f8e5m2", 1),
];
/// Largest size that can be asked for, in bytes.
const MOST_BYTES: u64 = 1 << 40;
