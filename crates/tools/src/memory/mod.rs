//! Programs that measure the memories of a node by loads and stores of its cores, without a network.
//!
//! Source: one file each names its tool. The time of a run is simulated before the program starts; it then takes as long.
//! Modelled: see `simulate` and `system`.
//! Not modelled: caches of any level, TLBs: every access goes to a memory.

mod dram;
mod flits;
mod mlc;
mod pool;
mod simulate;
mod system;
#[cfg(test)]
mod tests;

use fabriscope_platform::loads::LINE;
use fabriscope_platform::{Loads, Target};
use fabriscope_tool::arguments::{self, Opt, Parsed};
use fabriscope_tool::{Measures, Operation, Point, Prepared, Ranks, SizeOption, Suite, ToolOutput, Traits, UsageError};
use fabriscope_units::Span;

use simulate::{Measured, Thread, simulate};
use system::{Hop, System};

/// A tool for memories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryTool {
    /// `mlc`: latencies and bandwidths between cores and memories.
    Mlc,
    /// `cxl_pool`: expanders that hosts and an accelerator share.
    Pool,
}

/// Every tool, in the order of a list.
pub const TOOLS: [MemoryTool; 2] = [MemoryTool::Mlc, MemoryTool::Pool];

impl MemoryTool {
    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            MemoryTool::Mlc => "mlc",
            MemoryTool::Pool => "cxl_pool",
        }
    }
    /// One line of help.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            MemoryTool::Mlc => "latency and bandwidth of loads from memories of a node, CXL expanders included (Memory Latency Checker)",
            MemoryTool::Pool => "loads of several hosts from shared CXL expanders, back-invalidation, reads of an accelerator",
        }
    }
    /// What the program is.
    #[must_use]
    pub fn traits(self) -> Traits {
        let measures = Measures::Latency;
        Traits { measures, ranks: Ranks::One, sizes: SizeOption::Fixed, ..Traits::new(Suite::Memory, Operation::Copy) }
    }
    pub(crate) fn options(self) -> &'static [Opt] {
        match self {
            MemoryTool::Mlc => mlc::OPTIONS,
            MemoryTool::Pool => pool::OPTIONS,
        }
    }
    /// Reads the command line and makes the program.
    ///
    /// # Errors
    /// What is wrong with the command line; nodes whose parts do not say what loads take.
    pub fn prepare(self, args: &[String], target: &Target) -> Result<Prepared, UsageError> {
        let parsed = arguments::parse(self.name(), self.options(), args)?;
        if parsed.options.iter().any(|given| given.name == "help") {
            let notes = if self == MemoryTool::Mlc { mlc::NOTES } else { pool::NOTES };
            return Err(UsageError::Help { text: arguments::help(self.name(), self.about(), self.options(), notes) });
        }
        parsed.no_operands(self.name())?;
        let loads = target.loads.as_ref().map_err(|untold| UsageError::Conflict {
            what: format!("{} cannot run here: {}", self.name(), untold.what),
            remedy: untold.remedy.clone(),
        })?;
        let (time, output) = self.run(&parsed, loads)?;
        Ok(Prepared::of_known_time(time, output))
    }

    fn run(self, parsed: &Parsed, loads: &Loads) -> Result<(Span, ToolOutput), UsageError> {
        match self {
            MemoryTool::Mlc => mlc::run(parsed, loads),
            MemoryTool::Pool => pool::run(parsed, loads),
        }
    }
}

/// A wish for a node or a host that is not there.
fn missing(what: String, remedy: String) -> UsageError {
    UsageError::Conflict { what, remedy }
}

/// Adds one measured value, of lines.
fn point(out: &mut ToolOutput, metric: &'static str, unit: &'static str, value: f64) {
    out.points.push(Point { size: LINE, metric, unit, value });
}

/// One core that follows pointers.
fn chase(read: Vec<Hop>) -> Thread {
    Thread { read, write: Vec::new(), mix: (1, 0), outstanding: 1, pause: Span::ZERO }
}

/// Every core of a domain of a host reads a node, and writes back lines to it as `mix` says.
fn streams(system: &System, loads: &Loads, (host, from, to): (u32, u32, u32), mix: (u32, u32), outstanding: u32) -> Vec<Thread> {
    let [read, write] = [false, true].map(|write| system.access(host, from, to, write));
    vec![Thread { read, write, mix, outstanding, pause: Span::ZERO }; loads.cores as usize]
}

/// The latency of one core's loads, one after the other, with nothing else.
fn idle(loads: &Loads, hosts: u32, way: impl Fn(&System) -> Option<Vec<Hop>>) -> Option<Measured> {
    let mut system = System::new(loads, hosts);
    let read = way(&system)?;
    simulate(&mut system, &[chase(read)], Span::ZERO, IDLE).first().copied()
}

/// How long a chase is followed: some hundred loads, over several refreshes. Basis: assumed.
const IDLE: Span = Span::from_us(50);
/// Until queues are as full as they get. Basis: assumed.
const WARM: Span = Span::from_us(4);
/// How long streams are measured: two intervals of refresh of DDR5, one of DDR4.
const WINDOW: Span = Span::from_ps(7_800_000);
