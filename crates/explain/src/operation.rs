//! Collective operations of MPI and OpenSHMEM, programs on sockets and solvers: the whole run with one thing changed at a time.
//!
//! What binds is found by runs: each thing is made twice as fast, everything else as it was, and that which saves most binds. Where the library
//! takes another algorithm then, it is named. The other algorithms of an operation are run as `--algorithm` would have them.
//! Not modelled: two things that only help together; algorithms of two levels and in the network, which have no usual parameters.

use fabriscope_catalog::ResolvedCluster;
use fabriscope_collectives::Algorithm;
use fabriscope_lab::LabError;
use fabriscope_lab::launch::{self, Launch};
use fabriscope_platform::{Binding, Layout};
use fabriscope_report::{Cell, Column, Grid, Outcome};
use fabriscope_tools::{Operation, Point, SizeOption, Tool, ToolOutput};
use fabriscope_units::Bytes;
use rayon::prelude::*;

use crate::request::{Changes, ExplainRequest};
use crate::savings;
use crate::twice::{Change, changed, double, double_lanes, double_links, each_size, halve};

/// Explains a whole operation of `tool`.
pub(crate) fn explain_operation(
    tool: Tool,
    args: &ExplainRequest,
    original: &ResolvedCluster,
    progress: &dyn Fn(usize, usize),
) -> Result<Outcome, LabError> {
    let mut parts = original.clone();
    let binding = args.devices.apply(&mut parts, u32::MAX)?;
    let is_job = matches!(tool, Tool::Collective(_) | Tool::Shmem(_) | Tool::Krylov);
    if !is_job && (args.nodes.is_some() || args.per_node.is_some()) {
        return Err(LabError::refused(
            format!("--nodes and --ppn are for jobs, and {} is between two nodes", tool.name()),
            "leave them out",
        ));
    }
    let layout = is_job.then(|| launch::layout_of(tool, &parts, args.nodes, args.per_node));
    if let Some(layout) = layout {
        launch::check_cores(tool, &parts, layout)?;
    }
    let bench = Bench { tool, parts: &parts, layout, binding, seed: args.seed, options: &args.options };
    let sizes: Vec<Option<u64>> = match tool.traits().sizes {
        _ if !is_job => vec![None],
        SizeOption::Range | SizeOption::Powers => args.size.map_or(USUAL.map(Some).to_vec(), |size| vec![Some(size)]),
        SizeOption::One | SizeOption::BeginEnd | SizeOption::Fixed => vec![None],
    };
    if let (Some(size), [None]) = (args.size, &sizes[..]) {
        return Err(LabError::refused(format!("-s {size}: {} has no sizes of messages", tool.name()), "leave -s out"));
    }
    if let (Some(size), SizeOption::Powers) = (args.size.filter(|size| !size.is_power_of_two()), tool.traits().sizes) {
        return Err(LabError::refused(format!("-s {size}: {} takes powers of two", tool.name()), "use for example -s 64K"));
    }
    let told = each_size(&sizes, progress, |size| bench.size(size, args.changes == Changes::Tried))?;
    let mut outcome = text(args, &parts, layout, &told);
    let rows: Vec<serde_json::Value> = told.iter().map(Explained::json).collect();
    outcome.set("tool", args.tool.clone()).set("cluster", parts.name.clone()).set("operations", rows);
    Ok(outcome)
}

/// Sizes that are explained where none is given, in bytes.
const USUAL: [u64; 3] = [8, 1 << 10, 64 << 10];

/// The tool on a cluster.
struct Bench<'a> {
    tool: Tool,
    parts: &'a ResolvedCluster,
    /// The shape of a job.
    layout: Option<Layout>,
    binding: Binding,
    seed: u64,
    options: &'a [String],
}

/// What one run gave.
#[derive(Clone)]
struct Tried {
    /// The algorithm, where the tool says one.
    way: Option<String>,
    /// What the tool prints of it.
    point: Point,
}

/// A run with a thing changed.
struct Changed {
    what: String,
    tried: Tried,
}

/// An operation, explained.
struct Explained {
    taken: Tried,
    /// What was made twice as fast, and what that gave, the best first.
    faster: Vec<Changed>,
    /// Other algorithms, the best first.
    others: Vec<Changed>,
}

impl Tried {
    /// What a tool printed of `size`, or of all that it did.
    fn of(printed: &ToolOutput, size: Option<u64>) -> Option<Tried> {
        // Some print a row for messages without data as well.
        let of_size = |point: &&Point| size.is_none_or(|size| point.size.0 == size);
        let main = MAIN.iter().find_map(|metric| printed.points.iter().filter(of_size).find(|point| point.metric == *metric));
        let point = main.or_else(|| printed.points.last())?.clone();
        // `allreduce: ring from 8 to 64 bytes`.
        let way = printed.remarks.iter().find_map(|remark| {
            let (_, way) = remark.split_once(": ")?;
            let end = [" at ", " from "].iter().filter_map(|word| way.find(word)).min().unwrap_or(way.len());
            Some(way[..end].to_owned())
        });
        Some(Tried { way, point })
    }
    /// Whether more is better.
    fn is_rate(&self) -> bool {
        self.point.unit.ends_with("/s")
    }
    /// How much less time it takes, in hundredths.
    fn saved(&self, from: &Tried) -> f64 {
        let (now, before) = if self.is_rate() { (from.point.value, self.point.value) } else { (self.point.value, from.point.value) };
        100.0 * (before - now) / before.max(f64::MIN_POSITIVE)
    }
}

/// What tools are run for, the first that one prints.
const MAIN: [&str; 6] = ["latency", "overall", "iteration", "bandwidth", "round_trip", "message_rate"];

impl Bench<'_> {
    fn size(&self, size: Option<u64>, changes: bool) -> Result<Explained, LabError> {
        let taken = self.run(self.parts, size, None)?;
        let between = self.layout.is_none_or(|layout| layout.nodes > 1);
        let sockets = matches!(self.tool, Tool::Sockets(_));
        let changed = if changes { changed(self.parts, &CHANGES, Where { between, sockets }) } else { Vec::new() };
        let faster = || -> Vec<Changed> {
            let run = |(what, parts): &(&str, ResolvedCluster)| {
                let tried = self.run(parts, size, None).ok()?;
                Some(Changed { what: (*what).to_owned(), tried })
            };
            changed.par_iter().filter_map(run).collect()
        };
        let others = || -> Vec<Changed> {
            let given = self.options.iter().any(|option| option.starts_with("--algorithm"));
            let kind = match self.tool.traits().operation {
                Operation::Collective(kind) if changes && !given && taken.way.is_some() => kind,
                _ => return Vec::new(),
            };
            let run = |algorithm: &Algorithm| {
                // What it does not take is not among what can be chosen.
                let tried = self.run(self.parts, size, Some(algorithm.to_string())).ok()?;
                Some(Changed { what: tried.way.clone()?, tried })
            };
            let mut others: Vec<Changed> = Algorithm::usual(kind).par_iter().filter_map(run).collect();
            others.retain(|other| Some(&other.what) != taken.way.as_ref());
            others
        };
        let (mut faster, mut others) = rayon::join(faster, others);
        for rows in [&mut faster, &mut others] {
            rows.sort_by(|a, b| b.tried.saved(&taken).total_cmp(&a.tried.saved(&taken)));
        }
        others.dedup_by(|a, b| a.what == b.what);
        Ok(Explained { taken, faster, others })
    }

    /// The options of a size, and of an algorithm that is asked for.
    fn options(&self, size: Option<u64>, algorithm: Option<String>) -> Vec<String> {
        let sizes = self.tool.traits().sizes;
        let mut options: Vec<String> = Vec::new();
        if matches!(sizes, SizeOption::Range | SizeOption::Fixed) && self.layout.is_some() && !matches!(self.tool, Tool::Krylov) {
            options.extend(["-i", "4", "-x", "1"].map(str::to_owned));
        }
        if let (SizeOption::Range, Some(size)) = (sizes, size) {
            options.extend(["-m".to_owned(), format!("{size}:{size}")]);
        }
        options.extend_from_slice(self.options);
        if let (SizeOption::Powers, Some(size)) = (sizes, size) {
            options.extend(["-msglog".to_owned(), format!("{0}:{0}", size.ilog2())]);
        }
        options.extend(algorithm.into_iter().flat_map(|name| ["--algorithm".to_owned(), name]));
        options
    }

    fn run(&self, parts: &ResolvedCluster, size: Option<u64>, algorithm: Option<String>) -> Result<Tried, LabError> {
        let options = &self.options(size, algorithm);
        let (layout, seed, binding) = (self.layout, self.seed, self.binding.clone());
        let (printed, _) = Launch { layout, seed, binding, ..Launch::new(self.tool, options, parts) }.run().map_err(LabError::from)?;
        let nothing =
            || LabError::refused(format!("{} printed no figure", self.tool.name()), "name a test or a size of it behind the two dashes");
        Tried::of(&printed, size).ok_or_else(nothing)
    }
}

/// What takes part.
#[derive(Clone, Copy)]
pub(crate) struct Where {
    /// Several nodes.
    pub between: bool,
    /// The kernel's TCP, not MPI.
    pub sockets: bool,
}

pub(crate) const CHANGES: [Change<Where>; 7] = [
    ("code of the library on the cores", |parts, taking| {
        let group = parts.sole_mut();
        let cpu = &mut *group.node.cpu;
        halve([
            &mut cpu.wqe_build,
            &mut cpu.mmio_busy,
            &mut cpu.poll_hit,
            &mut cpu.poll_empty,
            &mut cpu.post_recv,
            &mut cpu.detect,
            &mut cpu.copy_call,
        ]);
        if let Some(mpi) = &mut group.software.mpi {
            halve([&mut mpi.send_overhead, &mut mpi.recv_overhead, &mut mpi.progress_overhead, &mut mpi.rendezvous_overhead]);
            halve(
                mpi.block_overhead
                    .iter_mut()
                    .chain(&mut mpi.layout_overhead)
                    .chain(&mut mpi.wqe_build)
                    .chain(&mut mpi.poll_hit)
                    .chain(&mut mpi.match_step),
            );
            if let Some(psm2) = &mut mpi.psm2 {
                halve([&mut psm2.send, &mut psm2.packet, &mut psm2.post, &mut psm2.receive, &mut psm2.matching, &mut psm2.entry]);
            }
        }
        !taking.sockets
    }),
    ("code of the kernel on the cores", |parts, taking| {
        let kernel = &mut parts.ip.kernel;
        halve([
            &mut kernel.syscall,
            &mut kernel.send_segment,
            &mut kernel.send_packet,
            &mut kernel.receive_packet,
            &mut kernel.receive_segment,
            &mut kernel.interrupt,
            &mut kernel.wake_up,
            &mut kernel.page,
        ]);
        taking.sockets
    }),
    ("copies by the cores, and memory", |parts, _| {
        let cpu = &mut *parts.sole_mut().node.cpu;
        double([&mut cpu.copy_rate_cached, &mut cpu.copy_rate_streaming, &mut cpu.copy_rate_long]);
        if let Some(memory) = &mut cpu.memory {
            double([&mut memory.copy_rate].into_iter().chain(&mut memory.core_rate));
        }
        true
    }),
    ("PCI Express and the way to memory", |parts, taking| {
        let node = &mut parts.sole_mut().node;
        let cpu = &mut *node.cpu;
        halve([&mut cpu.root_complex.dma_read_latency, &mut cpu.root_complex.dma_write_latency, &mut cpu.mmio_latency]);
        double_lanes(node.layout.uplinks.iter_mut().chain([&mut node.pcie]));
        taking.between
    }),
    ("adapters", |parts, taking| {
        let nic = &mut *parts.sole_mut().node.nic;
        halve([&mut nic.tx_latency, &mut nic.rx_latency, &mut nic.message_interval, &mut nic.wqe_interval]);
        halve(&mut nic.srd_latency);
        taking.between
    }),
    ("rate of the links", |parts, taking| {
        double_links(parts);
        taking.between
    }),
    ("latency of the switches", |parts, taking| {
        let switches = parts.switch.iter_mut().chain(parts.switch_levels.iter_mut().flatten());
        let mut any = false;
        for switch in switches {
            halve([&mut switch.latency]);
            any = true;
        }
        any && taking.between
    }),
];

impl Explained {
    /// What binds, if anything saves a hundredth, and how much it saves.
    fn bound(&self) -> Option<(&str, f64)> {
        let faster = self.faster.first()?;
        Some((&*faster.what, faster.tried.saved(&self.taken))).filter(|(_, saved)| *saved >= 1.0)
    }

    fn json(&self) -> serde_json::Value {
        let tried = |tried: &Tried| {
            let Tried { way, point } = tried;
            serde_json::json!({ "algorithm": way, "metric": point.metric, "unit": point.unit, "value": point.value })
        };
        let rows = |rows: &[Changed]| {
            let row = |row: &Changed| serde_json::json!({ "what": row.what, "ran": tried(&row.tried) });
            rows.iter().map(row).collect::<Vec<_>>()
        };
        serde_json::json!({
            "bytes": self.taken.point.size.0,
            "taken": tried(&self.taken),
            "bound": self.bound().map(|(what, _)| what),
            "twice_as_fast": rows(&self.faster),
            "others": rows(&self.others),
        })
    }

    /// The columns of a figure of it: `latency (us)`.
    fn column(&self) -> Column {
        let Point { metric, unit, .. } = &self.taken.point;
        Column::number(&format!("{} ({unit})", metric.replace('_', " ")), "value")
    }

    fn grids(&self, outcome: &mut Outcome, number: usize) {
        let saves = || Column::number("saves (%)", "saves_percent");
        if !self.faster.is_empty() {
            let differs = self.faster.iter().any(|row| row.tried.way != self.taken.way);
            let mut columns = vec![Column::words("twice as fast", "twice_as_fast"), self.column(), saves()];
            columns.extend(differs.then(|| Column::words("by", "algorithm")));
            let mut grid = Grid::new(columns);
            for Changed { what, tried } in &self.faster {
                let mut row = vec![Cell::word(what.clone()), Cell::number(tried.point.value, 2), Cell::number(tried.saved(&self.taken), 1)];
                row.extend(differs.then(|| Cell::word(tried.way.clone().unwrap_or_default())));
                grid.push(row);
            }
            outcome.table(grid.named(&format!("twice_as_fast_{number}")));
        }
        if !self.others.is_empty() {
            let mut grid = Grid::new([Column::words("instead", "algorithm"), self.column(), saves()]);
            for Changed { what, tried } in &self.others {
                grid.push([Cell::word(what.clone()), Cell::number(tried.point.value, 2), Cell::number(tried.saved(&self.taken), 1)]);
            }
            outcome.text("\n").table(grid.named(&format!("others_{number}")));
        }
    }
}

/// What making each thing twice as fast saves, and what other algorithms do.
fn saved(explained: &Explained) -> (Bytes, Vec<(String, f64)>) {
    let faster = explained.faster.iter().map(|row| (format!("{} twice as fast", row.what), row.tried.saved(&explained.taken)));
    let others = explained.others.iter().take(6).map(|row| (format!("{} instead", row.what), row.tried.saved(&explained.taken)));
    (explained.taken.point.size, faster.chain(others).collect())
}

fn text(args: &ExplainRequest, parts: &ResolvedCluster, layout: Option<Layout>, told: &[Explained]) -> Outcome {
    let mut outcome = Outcome::new();
    outcome.note(format!("{} on {}: {}", args.tool, parts.name, parts.title));
    if let Some(layout) = layout {
        outcome.note(format!("{} ranks on {} nodes", layout.nodes * layout.per_node, layout.nodes));
    }
    outcome.note("the whole is run again with each change; saved is time, for a rate that of a byte");
    for (number, explained) in told.iter().enumerate() {
        let Tried { way, point } = &explained.taken;
        let size = if point.size == Bytes::ZERO { String::new() } else { format!("{}: ", point.size) };
        let by = way.as_ref().map_or_else(String::new, |way| format!(" by {way}"));
        outcome.text(format!("\n{size}{} {:.2} {}{by}\n", point.metric.replace('_', " "), point.value, point.unit));
        match (explained.bound(), explained.faster.is_empty()) {
            (Some((what, saved)), _) => outcome.text(format!("bound: {what}, which saves {saved:.1} % if it is twice as fast\n")),
            (None, false) => outcome.text("bound: nothing below saves a hundredth\n"),
            (None, true) => &mut outcome,
        };
        if let Some(other) = explained.others.first().filter(|other| other.tried.saved(&explained.taken) >= 1.0) {
            let saved = other.tried.saved(&explained.taken);
            outcome.text(format!("best change: --algorithm '{}' instead, saves {saved:.1} %\n", other.what));
        }
        outcome.text("\n");
        explained.grids(&mut outcome, number);
    }
    outcome.draw(savings::figure(format!("{} on {}", args.tool, parts.name), told.iter().map(saved)));
    outcome
}
