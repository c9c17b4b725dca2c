//! `wafer_allreduce`, `wafer_reduce`, `wafer_bcast`: operations on the mesh of a wafer.
//!
//! Source: Luczynski et al., "Near-Optimal Wafer-Scale Reduce" (HPDC 2024), whose measurements are in cycles over bytes of a vector; the
//! programs are not published under a name, so these have one of their own. What runs is `fabriscope-wafer`.
//! Modelled: one wafer, whose cores are the part's.
//! Not modelled: the way of the vectors onto the wafer and off it.

use std::fmt::Write;

use fabriscope_catalog::Wafer;
use fabriscope_node::{Main, Ties};
use fabriscope_platform::Target;
use fabriscope_tool::arguments::Meaning::Usual;
use fabriscope_tool::arguments::{self, Given, Opt, Takes, opt};
use fabriscope_tool::{
    Data, Operation as Carried, Placing, Point, Prepared, Ranks, Rows, SizeOption, Suite, ToolOutput, Traits, UsageError,
};
use fabriscope_units::{Bytes, Remedy, Span};
use fabriscope_wafer::{Algorithm, Broadcast, Costs, Mesh, Operation, Plan, PlanError, estimate, simulate};

use crate::osu;

/// A program of the family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaferTool {
    /// The sum at all.
    AllReduce,
    /// The sum at the first core.
    Reduce,
    /// From the first core to all.
    Broadcast,
}

/// Every program, in the order of a list.
pub const TOOLS: [WaferTool; 3] = [WaferTool::AllReduce, WaferTool::Reduce, WaferTool::Broadcast];

pub(crate) const OPTIONS: &[Opt] = &[
    osu::message_size("smallest and largest vector of a core in bytes (default 4:65536)"),
    opt('\0', "mesh", Takes::Value("CxR"), Usual, "columns and rows of cores, or of tiles (default 64x64)"),
    opt('\0', "tile", Takes::Value("cores"), Usual, "tiles of so many by so many cores, with as many links abreast (default 1)"),
    opt('\0', "algorithm", Takes::Value("name"), Usual, "star, chain, tree, two-phase, auto, ring, snake or all (default auto)"),
    opt('\0', "broadcast", Takes::Value("flood|lines"), Usual, "how sums come back: to all at once, or line by line (default flood)"),
    osu::HELP,
];

const NOTES: &str = "\nCycles are those of the simulation; Model is the estimate of Luczynski et al. (2024) of the same plan.\n";

impl WaferTool {
    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            WaferTool::AllReduce => "wafer_allreduce",
            WaferTool::Reduce => "wafer_reduce",
            WaferTool::Broadcast => "wafer_bcast",
        }
    }
    /// One line of help.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            WaferTool::AllReduce => "the sum of vectors of all cores of a wafer, at all of them: cycles by algorithm",
            WaferTool::Reduce => "the sum of vectors of all cores of a wafer, at the first: cycles by algorithm",
            WaferTool::Broadcast => "a vector of the first core of a wafer to all: cycles",
        }
    }
    /// What the program is.
    #[must_use]
    pub fn traits(self) -> Traits {
        Traits { ranks: Ranks::One, sizes: SizeOption::Range, data: Data::OnGpus, ..Traits::new(Suite::Wafer, Carried::Exchange) }
    }
    const fn operation(self) -> Operation {
        match self {
            WaferTool::AllReduce => Operation::AllReduce,
            WaferTool::Reduce => Operation::Reduce,
            WaferTool::Broadcast => Operation::Broadcast,
        }
    }
    /// Reads the command line and makes the program.
    ///
    /// # Errors
    /// What is wrong with the command line; nodes that are no wafers, meshes that these do not have.
    pub fn prepare(self, args: &[String], target: &Target) -> Result<Prepared, UsageError> {
        let request = self.read(args, target)?;
        let rows = request.run(self.operation())?;
        let total: Span = rows.iter().map(|row| row.time).sum();
        let main: Main = Box::new(move |process| {
            Box::pin(async move {
                process.compute(total);
                Ok(())
            })
        });
        let finish = Box::new(move || report(self, &request, &rows));
        let placing = Placing::Blocks { per_node: 1 };
        Ok(Prepared { placing, mains: vec![main], ties: Ties::Any, finish, rows: Rows::default() })
    }

    fn read(self, args: &[String], target: &Target) -> Result<Request, UsageError> {
        let parsed = arguments::parse(self.name(), OPTIONS, args)?;
        let sizes = (2..=16).map(|power| 1 << power).collect();
        let mesh = Mesh { columns: 64, rows: 64 };
        let algorithms = vec![Algorithm::Auto];
        let (mut sizes, mut mesh, mut tile, mut algorithms, mut broadcast) = (sizes, mesh, 1, algorithms, Broadcast::Flood);
        for given in &parsed.options {
            let text = given.value.as_deref().unwrap_or_default();
            match given.name {
                "help" => return Err(UsageError::Help { text: arguments::help(self.name(), self.about(), OPTIONS, NOTES) }),
                "message-size" => sizes = osu::size_range(given, 4, 1 << 16)?,
                "mesh" => mesh = mesh_of(given)?,
                "tile" => tile = arguments::number(given, 1, 1024)? as u32,
                "algorithm" if text == "all" => {
                    algorithms = Algorithm::ALL.into_iter().filter(|algorithm| algorithm.has(self.operation())).collect();
                }
                "algorithm" => {
                    let named = Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == text);
                    algorithms = vec![named.ok_or_else(|| UsageError::Conflict {
                        what: format!("there is no algorithm `{text}` on wafers"),
                        remedy: format!("give one of {}, all", Algorithm::ALL.map(Algorithm::name).join(", ")),
                    })?];
                }
                "broadcast" => {
                    broadcast = match text {
                        "flood" => Broadcast::Flood,
                        "lines" => Broadcast::Lines,
                        _ => {
                            let (what, remedy) = (format!("--broadcast {text}"), "give flood or lines".to_owned());
                            return Err(UsageError::Conflict { what, remedy });
                        }
                    }
                }
                _ => {}
            }
        }
        parsed.no_operands(self.name())?;
        let wafer = target.wafer.clone().ok_or_else(|| UsageError::Conflict {
            what: format!("{} needs a wafer, and the nodes of this cluster are none", self.name()),
            remedy: "choose a cluster of wafers: cs-2-16 or cs-3-2048".to_owned(),
        })?;
        if mesh.columns.saturating_mul(tile) > *wafer.columns || mesh.rows.saturating_mul(tile) > *wafer.rows {
            return Err(UsageError::Conflict {
                what: format!("{} by {} tiles of {tile} by {tile} cores", mesh.columns, mesh.rows),
                remedy: format!("give no more than the {} by {} cores of the wafer", *wafer.columns, *wafer.rows),
            });
        }
        Ok(Request { wafer, sizes, mesh, tile, algorithms, broadcast })
    }
}

/// `64x32`.
fn mesh_of(given: &Given) -> Result<Mesh, UsageError> {
    let text = given.value.as_deref().unwrap_or_default();
    let sides = text.split_once('x').and_then(|(columns, rows)| Some((columns.parse().ok()?, rows.parse().ok()?)));
    let (columns, rows) = sides.ok_or_else(|| UsageError::Conflict {
        what: format!("{} {text} is no mesh", given.typed),
        remedy: "give columns and rows, as 64x64".to_owned(),
    })?;
    Ok(Mesh { columns, rows })
}

/// A resolved command line.
struct Request {
    wafer: Wafer,
    sizes: Vec<u32>,
    mesh: Mesh,
    tile: u32,
    algorithms: Vec<Algorithm>,
    broadcast: Broadcast,
}

/// A line of the table.
struct Row {
    bytes: u32,
    algorithm: Algorithm,
    cycles: u64,
    model: u64,
    time: Span,
}

impl Request {
    fn run(&self, operation: Operation) -> Result<Vec<Row>, UsageError> {
        let hop = u64::from(*self.wafer.hop) * u64::from(self.tile);
        let costs = Costs { ramp: u64::from(*self.wafer.ramp), hop, add: u64::from(*self.wafer.add) };
        // What links abreast take in a cycle.
        let wide = self.wafer.wavelet.0 * u64::from(self.tile);
        let only = self.algorithms.len() == 1;
        let mut rows = Vec::new();
        for bytes in &self.sizes {
            let elements = u64::from(*bytes).div_ceil(wide);
            for algorithm in &self.algorithms {
                let plan = match Plan::new(self.mesh, costs, operation, (*algorithm, self.broadcast), elements) {
                    Ok(plan) => plan,
                    // Of all algorithms, those that there are.
                    Err(PlanError::Parts { .. } | PlanError::Streams | PlanError::Ring) if !only => continue,
                    Err(error) => return Err(refused(&error)),
                };
                let cycles = simulate(self.mesh, costs, &plan).cycles;
                let model = estimate(self.mesh, &plan).iter().map(|phase| phase.cycles(costs)).sum();
                rows.push(Row { bytes: *bytes, algorithm: *algorithm, cycles, model, time: *self.wafer.cycle * cycles });
            }
        }
        Ok(rows)
    }
}

fn refused(error: &PlanError) -> UsageError {
    let remedy = miette::Diagnostic::help(error).map_or_else(String::new, |help| help.to_string());
    let _ = error.in_full();
    UsageError::Conflict { what: error.to_string(), remedy }
}

fn report(tool: WaferTool, request: &Request, rows: &[Row]) -> ToolOutput {
    let Mesh { columns, rows: lines } = request.mesh;
    let mut out = ToolOutput::default();
    let title = match tool {
        WaferTool::AllReduce => "Allreduce",
        WaferTool::Reduce => "Reduce",
        WaferTool::Broadcast => "Broadcast",
    };
    let what = if request.tile == 1 { "cores".to_owned() } else { format!("tiles of {0} x {0} cores", request.tile) };
    let _ = writeln!(out.text, "\n# Wafer {title}: {columns} x {lines} {what}, a cycle of {}", *request.wafer.cycle);
    let _ = writeln!(out.text, "{:<10}{:>12}{:>12}{:>12}{:>14}{:>12}", "# Size", "Algorithm", "Cycles", "Model", "Time (us)", "GB/s");
    for row in rows {
        let (microseconds, name) = (row.time.as_us_f64(), row.algorithm.name());
        let name = if tool == WaferTool::Broadcast { "flood" } else { name };
        let rate = f64::from(row.bytes) / microseconds.max(1e-9) / 1e3;
        let _ = writeln!(out.text, "{:<10}{name:>12}{:>12}{:>12}{microseconds:>14.3}{rate:>12.3}", row.bytes, row.cycles, row.model);
    }
    for bytes in &request.sizes {
        let least = rows.iter().filter(|row| row.bytes == *bytes).map(|row| row.time).min().unwrap_or_default();
        out.points.push(Point { size: Bytes(u64::from(*bytes)), metric: "latency", unit: "us", value: least.as_us_f64() });
    }
    out
}
