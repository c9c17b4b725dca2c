//! nccl-tests: the bottleneck of each size, what the other algorithms and protocols would give.
//!
//! What binds is found by runs: each thing is made twice as fast, everything else as it was and with the same algorithm and protocol, and that
//! which saves most binds. The others are run as `NCCL_ALGO` and `NCCL_PROTO` would have them.
//! Not modelled: two things that only help together.

use fabriscope_catalog::{Rdma, ResolvedCluster, ScaleUp};
use fabriscope_lab::LabError;
use fabriscope_lab::launch::{self, Launch, LaunchError};
use fabriscope_platform::{Binding, Layout};
use fabriscope_report::{Cell, Column, Grid, Outcome};
use fabriscope_tools::{Tool, ToolOutput};
use fabriscope_units::Bytes;
use rayon::prelude::*;

use crate::request::{Changes, ExplainRequest};
use crate::savings;
use crate::twice::{Change, changed, double, double_lanes, double_links, each_size, halve};

/// Explains a collective operation of `tool`.
pub(crate) fn explain_collective(
    tool: Tool,
    args: &ExplainRequest,
    original: &ResolvedCluster,
    progress: &dyn Fn(usize, usize),
) -> Result<Outcome, LabError> {
    let mut parts = original.clone();
    let (devices, mut options) = args.devices.for_tool(tool);
    options.extend(args.options.iter().cloned());
    let binding = devices.apply(&mut parts, u32::MAX)?;
    if args.per_node.is_some() {
        return Err(LabError::refused("--ppn: nccl-tests have a rank on each GPU", "leave it out"));
    }
    if let Some(given) = args.options.iter().find(|option| SIZES.iter().any(|name| option.starts_with(name))) {
        return Err(LabError::refused(format!("{given} behind the two dashes"), "give one size with -s; without it, some sizes are taken"));
    }
    let layout = launch::layout(&parts, Some(args.nodes.unwrap_or(1)), Some(parts.sole().node.gpus.max(1)));
    let bench = Bench { tool, parts: &parts, layout, binding, seed: args.seed, options: &options };
    let sizes = args.size.map_or(USUAL.to_vec(), |size| vec![size]);
    let told = each_size(&sizes, progress, |size| Ok(bench.size(size, args.changes == Changes::Tried)?))?;
    let mut outcome = text(args, &parts, layout, &told);
    let sizes: Vec<serde_json::Value> = told.iter().map(ExplainedSize::json).collect();
    outcome.set("tool", args.tool.clone()).set("cluster", parts.name.clone()).set("nodes", layout.nodes).set("sizes", sizes);
    Ok(outcome)
}

/// Options of the tool that say sizes.
const SIZES: [&str; 6] = ["-b", "-e", "-f", "-i", "--minbytes", "--maxbytes"];
/// Sizes that are explained where none is given, in bytes: latency, the middle, bandwidth.
const USUAL: [u64; 5] = [1 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20];
/// From here on fewer operations are measured, in bytes. Basis: assumed; they differ by less than a hundredth.
const LONG: u64 = 16 << 20;

/// The tool on a cluster.
struct Bench<'a> {
    tool: Tool,
    parts: &'a ResolvedCluster,
    layout: Layout,
    binding: Binding,
    seed: u64,
    options: &'a [String],
}

/// What one run gave.
#[derive(Clone)]
struct Tried {
    /// Algorithm, protocol, channels; nothing for sends and receives.
    choice: Option<String>,
    us: f64,
    busbw: f64,
}

impl Tried {
    fn of(printed: &ToolOutput) -> Tried {
        let value = |metric: &str| printed.points.iter().find(|point| point.metric == metric).map_or(0.0, |point| point.value);
        let choice = printed.remarks.first().and_then(|remark| Some(remark.split_once(": ")?.1.to_owned()));
        Tried { choice, us: value("time"), busbw: value("busbw") }
    }
    fn saved(&self, from: &Tried) -> f64 {
        100.0 * (from.us - self.us) / from.us.max(f64::MIN_POSITIVE)
    }
    /// `Ring LL128` of the choice.
    fn way(&self) -> &str {
        self.choice.as_deref().map_or("sends and receives", |choice| choice.split(',').next().unwrap_or(choice))
    }
}

/// A size, explained.
struct ExplainedSize {
    size: u64,
    taken: Tried,
    /// What was made twice as fast, and what that gave, the best first.
    faster: Vec<(&'static str, Tried)>,
    /// Other algorithms and protocols, the best first.
    others: Vec<Tried>,
}

impl Bench<'_> {
    fn size(&self, size: u64, changes: bool) -> Result<ExplainedSize, LaunchError> {
        let taken = self.run(self.parts, size, &[])?;
        let way: Vec<&str> = taken.way().split(' ').collect();
        let same = match (&taken.choice, &way[..]) {
            (Some(_), [algorithm, protocol]) => variables(algorithm, protocol),
            _ => Vec::new(),
        };
        let changed = if changes { changed(self.parts, &CHANGES, self.layout.nodes) } else { Vec::new() };
        let protocols = if self.simple_only() { &PROTOCOLS[2..] } else { &PROTOCOLS[..] };
        let pairs = ALGORITHMS.iter().flat_map(|algorithm| protocols.iter().map(move |protocol| (*algorithm, *protocol)));
        // What the library does not have here it refuses, or takes another.
        let is_other = |(algorithm, protocol): &(&str, &str)| {
            let way = format!("{algorithm} {protocol}");
            let options = self.options(size, &variables(algorithm, protocol));
            let unrun = || self.launch(self.parts, &options).unrun();
            way != taken.way() && unrun().is_ok_and(|output| Tried::of(&output).way() == way)
        };
        let pairs: Vec<(&str, &str)> = if taken.choice.is_some() { pairs.filter(is_other).collect() } else { Vec::new() };
        let faster = || -> Result<Vec<_>, LaunchError> {
            let tried: Vec<_> = changed.par_iter().map(|(what, parts)| Ok((*what, self.run(parts, size, &same)?))).collect();
            tried.into_iter().collect()
        };
        let others = || -> Vec<Tried> {
            let run = |(algorithm, protocol): &(&str, &str)| self.run(self.parts, size, &variables(algorithm, protocol)).ok();
            pairs.par_iter().filter_map(run).collect()
        };
        let (faster, mut others) = rayon::join(faster, others);
        let mut faster = faster?;
        faster.sort_by(|a, b| a.1.us.total_cmp(&b.1.us));
        others.sort_by(|a, b| a.us.total_cmp(&b.us));
        Ok(ExplainedSize { size, taken, faster, others })
    }

    /// The plugin forbids the other protocols, which would not be safe.
    fn simple_only(&self) -> bool {
        let forbids =
            self.parts.sole().nccl.as_ref().and_then(|software| software.nccl.as_ref()).is_some_and(|nccl| nccl.lines_need_writes);
        forbids && self.parts.sole().node.nic.rdma != Rdma::ReadWrite
    }

    fn run(&self, parts: &ResolvedCluster, size: u64, more: &[String]) -> Result<Tried, LaunchError> {
        Ok(Tried::of(&self.launch(parts, &self.options(size, more)).run()?.0))
    }

    /// The options of a size, with more of them.
    fn options(&self, size: u64, more: &[String]) -> Vec<String> {
        // Operations that follow one another differ by how they begin, which long ones do not show.
        let iterations = if size >= LONG { "2" } else { "4" };
        let size = size.to_string();
        let ours = ["-b", &size, "-e", &size, "-n", iterations].map(str::to_owned);
        ours.iter().chain(self.options).chain(more).cloned().collect()
    }

    fn launch<'a>(&self, parts: &'a ResolvedCluster, options: &'a [String]) -> Launch<'a> {
        let (layout, seed, binding) = (Some(self.layout), self.seed, self.binding.clone());
        Launch { layout, seed, binding, ..Launch::new(self.tool, options, parts) }
    }
}

fn variables(algorithm: &str, protocol: &str) -> Vec<String> {
    [format!("NCCL_ALGO={algorithm}"), format!("NCCL_PROTO={protocol}")].into_iter().flat_map(|set| ["--env".to_owned(), set]).collect()
}

const ALGORITHMS: [&str; 6] = ["Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree"];
const PROTOCOLS: [&str; 3] = ["LL", "LL128", "Simple"];

/// Changes among so many nodes.
const CHANGES: [Change<u32>; 8] = [
    ("links between GPUs", |parts, _| {
        parts.sole_mut().node.layout.scale_up.as_mut().is_some_and(|links| {
            double([&mut links.part.link_rate]);
            true
        })
    }),
    ("blocks of the kernels", |parts, _| {
        let Some(block) = parts.sole_mut().node.gpu.as_mut().and_then(|gpu| gpu.block.as_mut()) else { return false };
        double([&mut block.ll, &mut block.ll128, &mut block.simple]);
        true
    }),
    ("memory of the GPUs", |parts, _| {
        parts.sole_mut().node.gpu.as_mut().is_some_and(|gpu| {
            double([&mut gpu.memory.peak]);
            true
        })
    }),
    ("latency of steps", |parts, _| {
        let Some(nccl) = parts.sole_mut().nccl.as_mut().and_then(|software| software.nccl.as_mut()) else { return false };
        for step in [&mut nccl.ll, &mut nccl.ll128, &mut nccl.simple] {
            halve([&mut step.begin, &mut step.end]);
        }
        if let Some(links) = &mut parts.sole_mut().node.layout.scale_up {
            halve(links.part.latencies_mut());
        }
        if let Some(ScaleUp::Switched(switched)) = &mut parts.sole_mut().node.layout.part.scale_up {
            halve([&mut switched.latency]);
        }
        true
    }),
    ("host threads and starts of kernels", |parts, _| {
        let group = parts.sole_mut();
        let Some(nccl) = group.nccl.as_mut().and_then(|software| software.nccl.as_mut()) else { return false };
        let Some(calls) = group.node.gpu.as_mut().map(|gpu| &mut gpu.calls) else { return false };
        halve([&mut nccl.ll.start, &mut nccl.ll128.start, &mut nccl.simple.start, &mut nccl.call].into_iter().chain(&mut nccl.nvls_start));
        halve([&mut calls.kernel_launch, &mut calls.kernel_start, &mut calls.stream_synchronize]);
        true
    }),
    ("PCI Express", |parts, nodes| {
        let node = &mut parts.sole_mut().node;
        let layout = &mut node.layout;
        double_lanes(layout.uplinks.iter_mut().chain(&mut layout.gpu_slot).chain([&mut node.pcie]));
        nodes > 1 || layout.scale_up.is_none()
    }),
    ("proxies", |parts, nodes| {
        let Some(nccl) = parts.sole_mut().nccl.as_mut().and_then(|software| software.nccl.as_mut()) else { return false };
        halve([&mut nccl.proxy_step].into_iter().chain(&mut nccl.plugin_overhead));
        nodes > 1
    }),
    ("adapters and network", |parts, nodes| {
        double_links(parts);
        let nic = &mut *parts.sole_mut().node.nic;
        halve([&mut nic.tx_latency, &mut nic.rx_latency, &mut nic.message_interval].into_iter().chain(&mut nic.srd_latency));
        nodes > 1
    }),
];

impl ExplainedSize {
    /// What binds, if anything saves a hundredth, and how much it saves.
    fn bound(&self) -> Option<(&'static str, f64)> {
        let (what, faster) = self.faster.first()?;
        Some((*what, faster.saved(&self.taken))).filter(|(_, saved)| *saved >= 1.0)
    }

    fn json(&self) -> serde_json::Value {
        let outcome = |outcome: &Tried| serde_json::json!({ "choice": outcome.choice, "us": outcome.us, "busbw_gb_per_s": outcome.busbw });
        serde_json::json!({
            "bytes": self.size,
            "taken": outcome(&self.taken),
            "bound": self.bound().map(|(what, _)| what),
            "twice_as_fast": self.faster.iter().map(|(what, faster)| serde_json::json!({ "what": what, "us": faster.us })).collect::<Vec<_>>(),
            "others": self.others.iter().map(outcome).collect::<Vec<_>>(),
        })
    }
}

/// What making each thing twice as fast saves, and what other algorithms do.
fn saved(explained: &ExplainedSize) -> (Bytes, Vec<(String, f64)>) {
    let faster = explained.faster.iter().map(|(what, tried)| (format!("{what} twice as fast"), tried.saved(&explained.taken)));
    let others = explained.others.iter().map(|tried| (format!("{} instead", tried.way()), tried.saved(&explained.taken)));
    (Bytes(explained.size), faster.chain(others).collect())
}

fn text(args: &ExplainRequest, parts: &ResolvedCluster, layout: Layout, told: &[ExplainedSize]) -> Outcome {
    let ranks = layout.nodes * layout.per_node;
    let mut outcome = Outcome::new();
    outcome
        .note(format!("{} on {}: {}", args.tool, parts.name, parts.title))
        .note(format!("{ranks} GPUs on {} nodes", layout.nodes))
        .text("\n")
        .table(summary(told));
    for size in told {
        let choice = size.taken.choice.as_deref().unwrap_or("sends and receives");
        outcome.text(format!("\n{}: {choice}, {:.2} us\n", Bytes(size.size), size.taken.us));
        if !size.faster.is_empty() {
            let saves = Column::number("saves (%)", "saves_percent");
            let mut grid = Grid::new([Column::words("twice as fast", "twice_as_fast"), Column::number("time (us)", "us"), saves]);
            for (what, faster) in &size.faster {
                grid.push([Cell::word(*what), Cell::number(faster.us, 2), Cell::number(faster.saved(&size.taken), 1)]);
            }
            outcome.table(grid.named(&format!("twice_as_fast_{}", size.size)));
        }
        if !size.others.is_empty() {
            let mut grid = Grid::new([
                Column::words("instead", "choice"),
                Column::number("time (us)", "us"),
                Column::number("busbw (GB/s)", "busbw_gb_per_s"),
                Column::number("saves (%)", "saves_percent"),
            ]);
            for other in &size.others {
                let choice = Cell::word(other.choice.clone().unwrap_or_default());
                let saves = Cell::number(other.saved(&size.taken), 1);
                grid.push([choice, Cell::number(other.us, 2), Cell::number(other.busbw, 2), saves]);
            }
            outcome.text("\n").table(grid.named(&format!("others_{}", size.size)));
        }
    }
    outcome.draw(savings::figure(format!("{} on {}", args.tool, parts.name), told.iter().map(saved)));
    outcome
}

/// A row for each size: what was taken, what binds it, what comes next.
fn summary(told: &[ExplainedSize]) -> Grid {
    let mut grid = Grid::new([
        Column::words("size", "bytes"),
        Column::words("taken", "taken"),
        Column::number("time (us)", "us"),
        Column::number("busbw (GB/s)", "busbw_gb_per_s"),
        Column::words("bound", "bound"),
        Column::words("next best", "next_best"),
        Column::number("time (us)", "next_us"),
        Column::number("busbw (GB/s)", "next_busbw_gb_per_s"),
    ]);
    let figures = |outcome: &Tried| [Cell::number(outcome.us, 2), Cell::number(outcome.busbw, 2)];
    for size in told {
        let bound = size.bound().map_or_else(Cell::none, |(what, _)| Cell::word(what));
        let next = size.others.first();
        let name = next.map_or_else(Cell::none, |other| Cell::word(other.way()));
        let mut row = vec![Cell::told(Bytes(size.size).to_string(), size.size), Cell::word(size.taken.way())];
        row.extend(figures(&size.taken));
        row.extend([bound, name]);
        row.extend(next.map_or([Cell::none(), Cell::none()], figures));
        grid.push(row);
    }
    grid.named("summary")
}
