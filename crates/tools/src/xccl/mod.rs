//! `osu_xccl_latency`, `osu_xccl_bw`, `osu_xccl_bibw`: OMB's point-to-point benchmarks over NCCL or RCCL.
//!
//! Source: OMB 7.4, c/xccl/pt2pt: loops and output.
//! Modelled: a kernel for each send and receive, `cudaStreamSynchronize` where the tools have it; in osu_xccl_bibw a send and a receive
//! form a group.
//! Not modelled: graphs, validation; two ranks only, as the tools.

use std::fmt::Write;
use std::sync::Arc;

use fabriscope_nccl::NcclError;
use fabriscope_nccl_runtime::{Communicator, Exchange, World};
use fabriscope_node::{Main, Process, ProgramError, Record, Ties};
use fabriscope_platform::Target;
use fabriscope_platform::nccl::{JobLibrary, Library};
use fabriscope_tool::arguments::Meaning::{Harmless, Refused};
use fabriscope_tool::arguments::{self, Opt, Takes, opt};
use fabriscope_tool::{Data, Direction, Measures, Operation, Placing, Point, Prepared, Rows, Suite, ToolOutput, Traits, UsageError};
use fabriscope_units::{Bytes, Remedy, Span};

use crate::osu::{self, Repeats};

/// One benchmark.
#[derive(Debug, PartialEq, Eq)]
pub struct Benchmark {
    /// The program's name.
    pub name: &'static str,
    /// One line for a list of tools.
    pub about: &'static str,
    title: &'static str,
    body: Body,
}

/// An iteration of a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    /// A message there and one back.
    PingPong,
    /// A window of messages.
    Window,
    /// A window each way.
    BothWindows,
}

/// Every benchmark, one row each.
pub static BENCHMARKS: &[Benchmark] = &[
    Benchmark {
        name: "osu_xccl_latency",
        about: "half round trip of ncclSend and ncclRecv between two GPUs (OSU Micro-Benchmarks)",
        title: "Latency",
        body: Body::PingPong,
    },
    Benchmark {
        name: "osu_xccl_bw",
        about: "bandwidth of a window of ncclSends (OSU Micro-Benchmarks)",
        title: "Bandwidth",
        body: Body::Window,
    },
    Benchmark {
        name: "osu_xccl_bibw",
        about: "bidirectional bandwidth (OSU Micro-Benchmarks)",
        title: "Bi-Directional Bandwidth",
        body: Body::BothWindows,
    },
];

pub(crate) const OPTIONS: &[Opt] = &[
    osu::message_size("smallest and largest message in bytes"),
    osu::iterations(
        "measured iterations (default 10, 4 above 8192 bytes; the real tool's are 10000/1000 for latency, 100/20 for bandwidth)",
    ),
    osu::warm_up("iterations before the measurement (default 2)"),
    osu::window("messages in flight (default 64)"),
    opt('d', "accelerator", Takes::Value("type"), Harmless("the GPUs say it"), "cuda or rocm"),
    opt('c', "validation", Takes::Nothing, Refused("a simulated GPU cannot corrupt data; leave -c out"), ""),
    osu::NO_TAILS,
    osu::HELP,
    osu::VERSION,
];

impl Benchmark {
    fn title(&self, library: &str, suffix: &str) -> String {
        format!("OSU {library}{suffix} {} Test v7.4", self.title)
    }
    /// What the program is.
    #[must_use]
    pub fn traits(&self) -> Traits {
        let both = self.body == Body::BothWindows;
        Traits {
            measures: if self.body == Body::PingPong { Measures::Latency } else { Measures::Bandwidth },
            direction: if both { Direction::Bidirectional } else { Direction::OneWay },
            data: Data::OnGpus,
            ..Traits::new(Suite::OmbXccl, Operation::Message)
        }
    }
}

/// The collective library of the target.
///
/// # Errors
/// Nodes without GPUs, and GPUs or adapters without such a library.
pub(crate) fn library(tool: &str, target: &Target) -> Result<JobLibrary, UsageError> {
    if let Some(between) = &target.nccl_between {
        return between.clone().map_err(|unlike| UsageError::Conflict {
            what: format!("{tool}: {unlike}"),
            remedy: "name one group of nodes with GPUs behind a colon, as --on lab-gpu-storage:gpu".to_owned(),
        });
    }
    target.nccl.clone().map(JobLibrary::from).ok_or_else(|| {
        let what = format!("{tool} needs GPUs with NCCL or RCCL over the adapters of their nodes, and this cluster has none");
        UsageError::Conflict { what, remedy: "choose a cluster whose node part has GPUs of NVIDIA or AMD".to_owned() }
    })
}

/// What the library says to a command line.
pub(crate) fn refused(tool: &str, error: &NcclError) -> UsageError {
    UsageError::Conflict { what: tool.to_owned(), remedy: error.in_full() }
}

#[derive(Debug, Clone)]
struct Request {
    benchmark: &'static Benchmark,
    sizes: Vec<u32>,
    repeats: Repeats,
    window: u32,
}

impl Request {
    fn iterations(&self, size: u32) -> u32 {
        self.repeats.iterations.unwrap_or(if size > LARGE { ITERATIONS_LARGE } else { ITERATIONS })
    }
    fn warm_up(&self) -> u32 {
        self.repeats.warm_up.unwrap_or(WARM_UP)
    }
}

/// Reads the command line of `benchmark` and makes its programs.
///
/// # Errors
/// A wrong command line; a cluster without NCCL.
pub fn prepare(benchmark: &'static Benchmark, args: &[String], target: &Target) -> Result<Prepared, UsageError> {
    let tool = benchmark.name;
    let parsed = arguments::parse(tool, OPTIONS, args)?;
    if let Some(operand) = parsed.operands.iter().find(|operand| *operand != "D") {
        return Err(UsageError::Operand { tool: tool.to_owned(), operand: operand.clone() });
    }
    let sizes = (0..23).map(|power| 1 << power).collect();
    let mut s = Request { benchmark, sizes, repeats: Repeats::default(), window: WINDOW };
    for given in &parsed.options {
        match given.name {
            "message-size" => s.sizes = osu::size_range(given, 1, LARGEST)?,
            "iterations" | "warmup" => s.repeats.take(given, 1_000_000)?,
            "window-size" => s.window = arguments::number(given, 1, 4096)? as u32,
            "help" => return Err(UsageError::Help { text: arguments::help(tool, benchmark.about, OPTIONS, "") }),
            "version" => return Err(UsageError::Help { text: format!("{}\n", benchmark.title("NCCL", "")) }),
            _ => {}
        }
    }
    let library = library(tool, target)?;
    let shape = if target.layout.nodes == 1 { (1, 2) } else { (2, 1) };
    let world = World::new(library.clone(), target, shape, &library.first().settings).map_err(|error| refused(tool, &error))?;
    let s = Arc::new(s);
    let results: Record<Vec<Span>> = Record::default();
    let rows = Rows::default();
    let mains = (0..2).map(|_| -> Main {
        let (s, world, results) = (s.clone(), world.clone(), (results.clone(), rows.clone()));
        Box::new(move |process| Box::pin(run(process, world, s, results)))
    });
    let placing = if target.layout.nodes == 1 { Placing::Blocks { per_node: 2 } } else { Placing::TwoNodes };
    let mains = mains.collect();
    let finish = move || report(&s, library.first(), &results.lock());
    Ok(Prepared { placing, mains, ties: Ties::Any, finish: Box::new(finish), rows })
}

/// One rank: all sizes in turn.
async fn run(process: Process, world: World, s: Arc<Request>, (results, rows): (Record<Vec<Span>>, Rows)) -> Result<(), ProgramError> {
    let first = process.rank() == 0;
    let peer = 1 - process.rank();
    let lengths: Vec<Bytes> = s.sizes.iter().map(|size| Bytes(u64::from(*size))).chain([Bytes(1)]).collect();
    let c = Communicator::init_pairs(process, world, &[(0, 1), (1, 0)], &lengths).await?;
    let tell = |done: &[Span]| rows.tell((done.len(), s.sizes.len()), || report(&s, c.library(), done).text);
    if first {
        tell(&[]);
    }
    for &size in &s.sizes {
        c.barrier().await?;
        let (bytes, mut total) = (Bytes(size.into()), Span::ZERO);
        for iteration in 0..s.warm_up() + s.iterations(size) {
            let begun = c.now();
            match s.benchmark.body {
                Body::PingPong => ping_pong(&c, first, peer, bytes).await?,
                Body::Window => window(&c, first, peer, bytes, s.window).await?,
                Body::BothWindows => both_ways(&c, peer, bytes, s.window).await?,
            }
            if iteration >= s.warm_up() {
                total += c.now().since(begun);
            }
        }
        if first {
            let mut results = results.lock();
            results.push(total);
            tell(&results);
        }
    }
    c.barrier().await
}

/// There and back, each call waited for.
async fn ping_pong(c: &Communicator, first: bool, peer: u32, bytes: Bytes) -> Result<(), ProgramError> {
    let both = [Exchange::send(peer, bytes), Exchange::receive(peer, bytes)];
    for place in if first { [0, 1] } else { [1, 0] } {
        let turn = c.group(&both[place..=place])?;
        c.synchronise(turn).await?;
    }
    Ok(())
}

/// A window of messages one way, all waited for; then a byte back, for which the tool does not wait.
async fn window(c: &Communicator, first: bool, peer: u32, bytes: Bytes, window: u32) -> Result<(), ProgramError> {
    let (there, back) = if first {
        (Exchange::send(peer, bytes), Exchange::receive(peer, Bytes(1)))
    } else {
        (Exchange::receive(peer, bytes), Exchange::send(peer, Bytes(1)))
    };
    let mut last = None;
    for _ in 0..window {
        last = Some(c.group(&[there])?);
    }
    if let Some(last) = last {
        c.synchronise(last).await?;
    }
    c.group(&[back]).map(drop)
}

/// A window of messages each way, a send and a receive in a group.
async fn both_ways(c: &Communicator, peer: u32, bytes: Bytes, window: u32) -> Result<(), ProgramError> {
    let mut last = None;
    for _ in 0..window {
        last = Some(c.group(&[Exchange::send(peer, bytes), Exchange::receive(peer, bytes)])?);
    }
    match last {
        Some(last) => c.synchronise(last).await.map(drop),
        None => Ok(()),
    }
}

fn report(s: &Request, library: &Library, totals: &[Span]) -> ToolOutput {
    let suffix = if library.name == "NCCL" { "-CUDA" } else { "-ROCM" };
    let column = if s.benchmark.body == Body::PingPong { "Latency (us)" } else { "Bandwidth (MB/s)" };
    let mut text = format!("\n# {}\n", s.benchmark.title(library.name, suffix));
    text += "# Send Buffer on DEVICE (D) and Receive Buffer on DEVICE (D)\n";
    let _ = writeln!(text, "{:<10}{column:>20}", "# Size");
    let mut points = Vec::new();
    for (&size, total) in s.sizes.iter().zip(totals) {
        let iterations = f64::from(s.iterations(size));
        let ways = if s.benchmark.body == Body::BothWindows { 2.0 } else { 1.0 };
        let (metric, unit, value) = match s.benchmark.body {
            Body::PingPong => ("latency", "us", total.as_us_f64() / iterations / 2.0),
            _ => ("bandwidth", "MB/s", ways * f64::from(size) / 1e6 * iterations * f64::from(s.window) / total.as_s_f64()),
        };
        let _ = writeln!(text, "{size:<10}{value:>20.2}");
        points.push(Point { size: Bytes(size.into()), metric, unit, value });
    }
    ToolOutput { text, points, ..ToolOutput::default() }
}

/// Iterations up to [`LARGE`] bytes, and above. Basis: assumed; in the steady state each takes the same time.
const ITERATIONS: u32 = 10;
const ITERATIONS_LARGE: u32 = 4;
const WARM_UP: u32 = 2;
/// Where messages are large, in bytes; messages in flight; largest message by default (basis: the tool).
const LARGE: u32 = 8192;
const WINDOW: u32 = 64;
const LARGEST: u32 = 4 << 20;
