//! Exchanges of tokens among experts: the test programs of DeepEP and UCCL-EP, the benchmark of pplx-kernels, UCCL-EP's all-to-all over rails.
//!
//! Source: one file each names its program. What runs is `fabriscope-experts`.

mod deepep;
mod pplx;
mod rails;

use fabriscope_experts::{ExchangeError, Job, Kernel, NamedLibrary};
pub use fabriscope_experts::{Routing, Shape};
use fabriscope_node::{Main, Ties};
use fabriscope_platform::Target;
use fabriscope_tool::arguments::Meaning::Usual;
use fabriscope_tool::arguments::{self, Given, Opt, Parsed, Takes, opt};
use fabriscope_tool::{
    Data, Measures, Operation, PerNode, Placing, Prepared, Ranks, Rows, SizeOption, Suite, ToolOutput, Traits, UsageError,
};
use fabriscope_units::{Remedy, Span};
use std::sync::Arc;

/// A program of the family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpertTool {
    /// DeepEP's `test_internode.py` and `test_intranode.py`.
    Normal,
    /// DeepEP's `test_low_latency.py`.
    LowLatency,
    /// `bench_all_to_all.py` of pplx-kernels.
    Pplx,
    /// UCCL-EP's `test_alltoall` and `test_alltoall_rail`.
    Rails,
}

/// Every program, in the order of a list.
pub const TOOLS: [ExpertTool; 4] = [ExpertTool::Normal, ExpertTool::LowLatency, ExpertTool::Pplx, ExpertTool::Rails];

impl ExpertTool {
    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ExpertTool::Normal => "deepep_normal",
            ExpertTool::LowLatency => "deepep_low_latency",
            ExpertTool::Pplx => "pplx_alltoall",
            ExpertTool::Rails => "efa_alltoall",
        }
    }
    /// One line of help.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            ExpertTool::Normal => "tokens to experts and back by way of a GPU of each node (DeepEP, UCCL-EP): bandwidth",
            ExpertTool::LowLatency => "few tokens to experts and back, each by itself (DeepEP, UCCL-EP): latency and bandwidth",
            ExpertTool::Pplx => "dispatch and combine of pplx-kernels beside the all-to-all of NCCL and NVSHMEM: latency",
            ExpertTool::Rails => "all-to-all of GPUs on several nodes along rails or across them (UCCL-EP): bandwidth",
        }
    }
    /// What the program is.
    #[must_use]
    pub fn traits(self) -> Traits {
        let measures = if self == ExpertTool::Rails || self == ExpertTool::Normal { Measures::Bandwidth } else { Measures::Latency };
        Traits {
            measures,
            ranks: Ranks::Job(PerNode::Gpus),
            sizes: SizeOption::Fixed,
            data: Data::OnGpus,
            ..Traits::new(Suite::Experts, Operation::Exchange)
        }
    }
    pub(crate) fn options(self) -> &'static [Opt] {
        match self {
            ExpertTool::Normal => deepep::NORMAL,
            ExpertTool::LowLatency => deepep::LOW_LATENCY,
            ExpertTool::Pplx => pplx::OPTIONS,
            ExpertTool::Rails => rails::OPTIONS,
        }
    }
    /// Reads the command line and makes the programs.
    ///
    /// # Errors
    /// What is wrong with the command line; nodes without GPUs, experts that do not fit them.
    pub fn prepare(self, args: &[String], target: &Target) -> Result<Prepared, UsageError> {
        let parsed = arguments::parse(self.name(), self.options(), args)?;
        if parsed.options.iter().any(|given| given.name == HELP.long) {
            return Err(UsageError::Help { text: arguments::help(self.name(), self.about(), self.options(), "") });
        }
        parsed.no_operands(self.name())?;
        let gpus = target.gpu.as_ref().map_or(0, |gpu| gpu.count);
        if gpus == 0 || gpus < target.layout.per_node {
            let what = format!("{} needs a GPU for each rank, and nodes here have {gpus}", self.name());
            let remedy = "choose a cluster whose nodes have GPUs, or give fewer ranks with --ppn".to_owned();
            return Err(UsageError::Conflict { what, remedy });
        }
        match self {
            ExpertTool::Normal => deepep::normal(&parsed, target),
            ExpertTool::LowLatency => deepep::low_latency(&parsed, target),
            ExpertTool::Pplx => pplx::prepare(&parsed, target),
            ExpertTool::Rails => rails::prepare(&parsed, target),
        }
    }
}

/// The last row of every list of options.
const HELP: Opt = opt('h', "help", Takes::Nothing, Usual, "show this page");
const SEED: Opt = opt('\0', "seed", Takes::Value("number"), Usual, "seed of the experts' draw (default 0)");
const LIBRARY: Opt = opt('\0', "library", Takes::Value("part"), Usual, "library, a part of the kind software with a table [experts]");

/// The library that the command line names, or the usual one.
fn library<'t>(parsed: &Parsed, target: &'t Target, usual: &str) -> Result<NamedLibrary<'t>, UsageError> {
    let name =
        parsed.options.iter().rev().find(|given| given.name == LIBRARY.long).and_then(|given| given.value.as_deref()).unwrap_or(usual);
    let found = target.experts.iter().find(|(known, ..)| known == name);
    found.map(|(name, interface, library)| NamedLibrary { name, interface: *interface, library }).ok_or_else(|| UsageError::Conflict {
        what: format!("there is no library `{name}` that exchanges tokens among experts"),
        remedy: format!("give one of {}", target.experts.iter().map(|(name, ..)| name.as_str()).collect::<Vec<_>>().join(", ")),
    })
}

/// The shape of the job, with defaults of the program.
fn shape(parsed: &Parsed, target: &Target, usual: Shape) -> Result<Shape, UsageError> {
    let mut shape = Shape { nodes: target.layout.nodes, per_node: target.layout.per_node, ..usual };
    for given in &parsed.options {
        let count = |most| arguments::number(given, 1, most).map(|count| count as u32);
        match given.name {
            "num-tokens" => shape.tokens = count(1 << 16)?,
            "hidden" => shape.hidden = count(1 << 16)?,
            "num-topk" => shape.topk = count(64)?,
            "num-topk-groups" => shape.groups = count(1024)?,
            "num-experts" => shape.experts = count(65536)?,
            "seed" => shape.seed = arguments::number(given, 0, u64::MAX)?,
            _ => {}
        }
    }
    shape.groups = shape.groups.min(shape.nodes);
    Ok(shape)
}

fn refused(error: &ExchangeError) -> UsageError {
    let remedy = miette::Diagnostic::help(error).map_or_else(String::new, |help| help.to_string());
    let _ = error.in_full();
    UsageError::Conflict { what: error.to_string(), remedy }
}

/// A job of kernels whose times `report` prints.
fn prepared(
    library: NamedLibrary<'_>,
    target: &Target,
    (shape, kernels): (Shape, Vec<Kernel>),
    report: impl FnOnce(&Job) -> ToolOutput + 'static,
) -> Result<Prepared, UsageError> {
    let job = Arc::new(Job::new(library, target, shape, kernels).map_err(|error| refused(&error))?);
    let main = |_| -> Main {
        let job = job.clone();
        Box::new(move |process| Box::pin(fabriscope_experts::run(process, job)))
    };
    let mains = (0..shape.ranks()).map(main).collect();
    let placing = Placing::Blocks { per_node: shape.per_node };
    Ok(Prepared { placing, mains, ties: Ties::Fences, finish: Box::new(move || report(&job)), rows: Rows::default() })
}

/// GB/s of 10⁹ bytes.
fn gigabytes(bytes: f64, span: Span) -> f64 {
    bytes / span.as_s_f64().max(1e-12) / 1e9
}

/// The mean.
fn mean(spans: &[Span]) -> Span {
    spans.iter().copied().fold(Span::ZERO, |all, span| all + span) / spans.len().max(1) as u64
}

fn list(given: &Given, low: u64, high: u64) -> Result<Vec<u64>, UsageError> {
    let text = given.value.as_deref().unwrap_or_default();
    text.split(',').map(|part| arguments::number(&Given { value: Some(part.trim().to_owned()), ..given.clone() }, low, high)).collect()
}
