//! Programs on the GPUs of one node, without a network: bandwidth of copies and of memory, stores and loads of a core, collective
//! operations by loads and stores.
//!
//! Source: one file each names its tool. All run on the first node of the cluster, on one core. Where a node is several trays with a
//! system each, programs see the GPUs of the first; collective operations take those of all.

mod babelstream;
mod copybw;
mod copylat;
mod gdrcopy;
mod nvbandwidth;
mod p2p;
mod pod;
mod scale_up;

use fabriscope_node::{Devices, Memory, Mover, Process, Program, ProgramError, Record, Ties};
use fabriscope_platform::{GpuTarget, Target};
use fabriscope_tool::arguments::Meaning::Usual;
use fabriscope_tool::arguments::{self, Opt, Takes, opt};
use fabriscope_tool::{Data, Measures, Operation, Placing, Prepared, Ranks, Rows, SizeOption, Suite, ToolOutput, Traits, UsageError};
use fabriscope_units::{Bytes, Span};

/// A tool for GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuTool {
    /// `gdrcopy_copylat`: stores and loads of a core by size.
    CopyLat,
    /// `gdrcopy_copybw`: the same at one size.
    CopyBw,
    /// `nvbandwidth`: copies among memories.
    NvBandwidth,
    /// `p2pBandwidthLatencyTest`: all pairs of GPUs.
    P2p,
    /// `babelstream`: kernels on the own memory.
    BabelStream,
    /// `scaleup_perf`: collective operations of accelerators behind switches, by loads and stores.
    ScaleUp,
}

/// Every tool, in the order of a list.
pub const TOOLS: [GpuTool; 6] =
    [GpuTool::CopyLat, GpuTool::CopyBw, GpuTool::NvBandwidth, GpuTool::P2p, GpuTool::BabelStream, GpuTool::ScaleUp];

impl GpuTool {
    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            GpuTool::CopyLat => "gdrcopy_copylat",
            GpuTool::CopyBw => "gdrcopy_copybw",
            GpuTool::NvBandwidth => "nvbandwidth",
            GpuTool::P2p => "p2pBandwidthLatencyTest",
            GpuTool::BabelStream => "babelstream",
            GpuTool::ScaleUp => "scaleup_perf",
        }
    }
    /// One line of help.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            GpuTool::CopyLat => "latency of a core's stores and loads in GPU memory (GDRCopy)",
            GpuTool::CopyBw => "bandwidth of a core's stores and loads in GPU memory (GDRCopy)",
            GpuTool::NvBandwidth => "bandwidth of copies between host and GPUs and among GPUs",
            GpuTool::P2p => "bandwidth and latency between all GPUs of a node",
            GpuTool::BabelStream => "bandwidth of a GPU's memory under STREAM kernels",
            GpuTool::ScaleUp => "collective operations of accelerators behind switches (UALink, Scale-Up Ethernet), by loads and stores",
        }
    }
    /// What the program is.
    #[must_use]
    pub fn traits(self) -> Traits {
        let measures = if matches!(self, GpuTool::CopyLat | GpuTool::ScaleUp) { Measures::Latency } else { Measures::Bandwidth };
        let operation = if self == GpuTool::ScaleUp { Operation::Exchange } else { Operation::Copy };
        Traits { measures, ranks: Ranks::One, sizes: SizeOption::Fixed, data: Data::OnGpus, ..Traits::new(Suite::Gpu, operation) }
    }
    pub(crate) fn options(self) -> &'static [Opt] {
        match self {
            GpuTool::CopyLat => copylat::OPTIONS,
            GpuTool::CopyBw => copybw::OPTIONS,
            GpuTool::NvBandwidth => nvbandwidth::OPTIONS,
            GpuTool::P2p => p2p::OPTIONS,
            GpuTool::BabelStream => babelstream::OPTIONS,
            GpuTool::ScaleUp => scale_up::OPTIONS,
        }
    }
    /// What stands below the options of its help.
    const fn notes(self) -> &'static str {
        if matches!(self, GpuTool::ScaleUp) { scale_up::NOTES } else { "" }
    }
    /// Reads the command line and makes the program.
    ///
    /// # Errors
    /// What is wrong with the command line; nodes without GPUs.
    pub fn prepare(self, args: &[String], target: &Target) -> Result<Prepared, UsageError> {
        let parsed = arguments::parse(self.name(), self.options(), args)?;
        if parsed.options.iter().any(|given| given.name == HELP.long) {
            return Err(UsageError::Help { text: arguments::help(self.name(), self.about(), self.options(), self.notes()) });
        }
        let all = gpus(self.name(), target)?;
        let gpu = if self == GpuTool::ScaleUp { all } else { all.of_one_system() };
        if let Some(operand) = parsed.operands.first().filter(|_| self != GpuTool::NvBandwidth) {
            return Err(UsageError::Operand { tool: self.name().to_owned(), operand: operand.clone() });
        }
        match self {
            GpuTool::CopyLat => copylat::prepare(&parsed, gpu),
            GpuTool::CopyBw => copybw::prepare(&parsed, gpu),
            GpuTool::NvBandwidth => nvbandwidth::prepare(&parsed, gpu),
            GpuTool::P2p => p2p::prepare(&parsed, gpu),
            GpuTool::BabelStream => babelstream::prepare(&parsed, gpu),
            GpuTool::ScaleUp => scale_up::prepare(&parsed, gpu),
        }
    }
}

/// The last row of every list of options.
const HELP: Opt = opt('h', "help", Takes::Nothing, Usual, "show this page");

/// The GPUs of the target.
fn gpus(tool: &str, target: &Target) -> Result<GpuTarget, UsageError> {
    target.gpu.clone().ok_or_else(|| {
        let what = format!("{tool} needs GPUs, and the nodes of this cluster have none");
        UsageError::Conflict { what, remedy: "choose a cluster whose node part has GPUs; `fabriscope clusters` lists them".to_owned() }
    })
}

/// One program on one node whose result `report` prints.
fn alone<R: Default + Send + 'static>(
    run: impl FnOnce(Process, Record<R>) -> Program + Send + 'static,
    report: impl FnOnce(&R) -> ToolOutput + 'static,
) -> Prepared {
    let results = Record::new(R::default());
    let filled = results.clone();
    Prepared {
        placing: Placing::Blocks { per_node: 1 },
        mains: vec![Box::new(move |process| run(process, filled))],
        ties: Ties::Any,
        finish: Box::new(move || report(&results.lock())),
        rows: Rows::default(),
    }
}

/// A stream of equal copies.
#[derive(Debug, Clone, Copy)]
struct Lane {
    mover: Mover,
    from: Memory,
    to: Memory,
    bytes: Bytes,
    times: u32,
}

/// Runs all lanes from the same moment on; what each took.
async fn race(process: &Process, lanes: &[Lane]) -> Result<Vec<Span>, ProgramError> {
    let devices: &Devices = process.devices()?;
    process.sleep_until(process.now() + Span::from_us(1)).await;
    let begun = process.now();
    let mut last = Vec::with_capacity(lanes.len());
    for lane in lanes {
        let mut id = None;
        for _ in 0..lane.times.max(1) {
            id = Some(devices.start_on(begun, lane.mover, lane.from, lane.to, lane.bytes)?);
        }
        last.extend(id);
    }
    let mut spans = Vec::with_capacity(lanes.len());
    for id in &last {
        spans.push(devices.end(begun, *id).ok_or_else(|| ProgramError("a copy that never ends".to_owned()))? - begun);
    }
    for id in last {
        process.wait_copy(id).await?;
    }
    Ok(spans)
}

/// GB/s of 10⁹ bytes.
fn gigabytes(bytes: u64, span: Span) -> f64 {
    bytes as f64 / span.as_s_f64() / 1e9
}
