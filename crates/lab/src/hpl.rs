//! HPL on a cluster: what its processes compute with and what its messages cost, found from the parts.
//!
//! Source: messages as `osu_latency` has them on the cluster, by packets; GPUs of a node by the links between them.
//! Modelled: a process for each GPU, or for each processor of nodes without, or as many as are asked for; who of a process moves panels;
//! messages that workers on DPUs carry; adapters of a node that its processes share; the share of the adapters' rate that the fabric
//! carries when half of all messages cross its middle.
//! Not modelled: workers that several processes keep busy; messages from the memory of GPUs, which are taken as those from the memory of the host; several rails for one message
//! beyond what the library does.

use fabriscope_catalog::{NodeChoice, ResolvedCluster, ResolvedNode};
use fabriscope_engine::Cluster;
use fabriscope_fabric::analysis::{Backbone, bisection};
use fabriscope_hpl::{Grid, Machine, Movers, Options, Path, Problem, Processor, Times, run, unknowns};
use fabriscope_platform::{Layout, links_of_gpu};
use fabriscope_tools::Tool;
use fabriscope_units::{Bytes, Rate};

use crate::error::LabError;
use crate::launch::{Launch, LaunchError};

/// A cluster as HPL sees it.
#[derive(Debug, Clone)]
pub struct HplMachine {
    /// What it computes with, and what messages cost.
    pub machine: Machine,
    /// Nodes.
    pub nodes: u32,
    /// Bytes for the matrix on each process; none where nothing is said of the memory.
    pub memory: Option<Bytes>,
    /// Peak of a process, in operations per second.
    pub peak: f64,
    /// Columns of a panel where nothing else is said.
    pub block: u32,
    /// Capacity between halves of the fabric, as a share of what one half sends; none where there are no halves.
    pub bisection: Option<f64>,
}

/// A run of HPL on it.
#[derive(Debug, Clone, Copy)]
pub struct HplRun {
    /// What was solved.
    pub problem: Problem,
    /// What it took.
    pub times: Times,
    /// What it takes where nothing between nodes takes time.
    pub free: Times,
}

impl HplRun {
    /// The network's share of the time: what would be saved if messages between nodes took none.
    #[must_use]
    pub fn network_share(&self) -> f64 {
        1.0 - self.free.total / self.times.total
    }
}

impl HplMachine {
    /// Finds it out.
    ///
    /// # Errors
    /// Parts of which it is not known how they multiply, nodes that are not alike, and what the messages say that are measured.
    pub fn new(parts: &ResolvedCluster, seed: u64) -> Result<HplMachine, LabError> {
        HplMachine::with(parts, seed, &Options::default())
    }

    /// The same with the processes and the workers that these options ask for.
    ///
    /// # Errors
    /// As [`HplMachine::new`]; processes that have no cores, workers where adapters have none.
    pub fn with(parts: &ResolvedCluster, seed: u64, options: &Options) -> Result<HplMachine, LabError> {
        let Some(group) = parts.uniform() else {
            let help =
                format!("name one group behind a colon: --on {}:{}", parts.name, parts.groups.first().map_or("", |group| &group.name));
            return Err(LabError::refused(format!("HPL on unlike nodes of {}", parts.name), help));
        };
        let cluster = Cluster::new(parts.clone()).map_err(LaunchError::from)?;
        let usual = Process::of(&group.node)?;
        let Process { processor, per_node, memory, peak, cores } = match options.per_node {
            Some(count) => usual.divided(&group.node, count)?,
            None => usual,
        };
        let measure = Measure { parts, cluster: &cluster, seed, by: &[] };
        let alone = parts.nodes() < 2;
        let between = if alone { Path::FREE } else { measure.path(Layout { nodes: 2, per_node: 1 })? };
        let inside = match (per_node, &group.node.gpu) {
            (1, _) => Path::FREE,
            (_, Some(_)) => {
                let rate =
                    links_of_gpu(parts).ok_or_else(|| LabError::refused("GPUs that nothing joins", "look at the node's [scale_up]"))?;
                Path { latency: processor.start, per_byte: 8.0 / rate.as_bps() as f64 }
            }
            (_, None) => measure.path(Layout { nodes: 1, per_node: 2 })?,
        };
        // What a message reaches through one adapter, less than its link where host or headers hold it back.
        let link = group.link.data_rate().as_bps() as f64 / 8.0;
        let reached = if between.per_byte > 0.0 { link.min(1.0 / between.per_byte) } else { link };
        let halves = bisection(&cluster.fabric, &Backbone::new(&cluster.fabric)).map(|found| found.share);
        // Of messages to anywhere, half cross the middle.
        let fabric = halves.map_or(1.0, |share| (2.0 * share).min(1.0));
        let movers = match options.offload {
            Some(true) if group.node.dpu.is_none() => {
                let message = format!("hpl --offload dpu: the adapters of {} have no cores", parts.name);
                return Err(LabError::refused(message, "use a cluster with a DPU: lab-bluefield-2"));
            }
            Some(true) => {
                let handed = Measure { by: &["--offload", "dpu"], ..measure };
                let between = if alone { Path::FREE } else { handed.path(Layout { nodes: 2, per_node: 1 })? };
                let inside = if per_node < 2 { Path::FREE } else { handed.path(Layout { nodes: 1, per_node: 2 })? };
                Movers::Workers { inside, between }
            }
            _ if cores == 1 => Movers::Own,
            _ => Movers::Others,
        };
        let node_rate = reached * f64::from(group.node.nics);
        let machine = Machine { processor, per_node, inside, between, node_rate, fabric, movers };
        let block = if group.node.gpu.is_some() { BLOCK_OF_GPUS } else { BLOCK };
        Ok(HplMachine { machine, nodes: parts.nodes(), memory, peak, block, bisection: halves })
    }

    /// The problem that is meant by these options.
    ///
    /// # Errors
    /// No size of the matrix where nothing is known of the memory.
    pub fn problem(&self, options: &Options) -> Result<Problem, LabError> {
        let per_node = self.machine.per_node;
        let all = u64::from(self.nodes) * u64::from(per_node);
        let usual = Grid::filling(self.nodes, per_node);
        let rest = |one: u32| u32::try_from(all / u64::from(one)).unwrap_or(u32::MAX).max(1);
        let grid = match (options.rows, options.columns) {
            (None, None) => usual,
            (Some(rows), Some(columns)) => Grid { rows, columns },
            (Some(rows), None) => Grid { rows, columns: rest(rows) },
            (None, Some(columns)) => Grid { rows: rest(columns), columns },
        };
        let block = options.block.unwrap_or(self.block);
        let asked = match (options.unknowns, self.memory) {
            (Some(unknowns), _) => unknowns,
            (None, Some(memory)) => {
                let share = f64::from(options.memory.unwrap_or(MEMORY)) / 100.0;
                unknowns(memory.0 as f64 * grid.processes() as f64, share, block)
            }
            (None, None) => {
                return Err(LabError::refused("nothing is said of the memory of the nodes, which sizes the matrix", "give -N"));
            }
        };
        let usual = Problem::new(asked, block, grid);
        Ok(Problem {
            mapping: options.mapping,
            broadcast: options.broadcast.unwrap_or(usual.broadcast),
            swap: options.swap.unwrap_or(usual.swap),
            look_ahead: options.look_ahead.unwrap_or(usual.look_ahead),
            ..usual
        })
    }

    /// Runs it.
    ///
    /// # Errors
    /// What is wrong with the problem.
    pub fn run(&self, problem: &Problem) -> Result<HplRun, LabError> {
        let processes = u64::from(self.nodes) * u64::from(self.machine.per_node);
        let times = run(problem, &self.machine, processes)?;
        let free = run(problem, &self.machine.without_network(), processes)?;
        Ok(HplRun { problem: *problem, times, free })
    }
}

/// A process of a node.
struct Process {
    /// What it computes with.
    processor: Processor,
    /// How many there are.
    per_node: u32,
    /// The memory of each.
    memory: Option<Bytes>,
    /// Its peak.
    peak: f64,
    /// Cores that it has, or that are beside its GPU.
    cores: u32,
}

impl Process {
    /// The usual one: of a GPU, or of a processor.
    fn of(node: &ResolvedNode) -> Result<Process, LabError> {
        let unknown = |kind: &str, name: &str| {
            let help = format!("give it [dgemm], or take another cluster: `fabriscope schema {kind}` has the keys");
            LabError::refused(format!("it is not known how `{name}` multiplies matrices of double precision"), help)
        };
        let cpu = &node.cpu;
        let cores = cpu.cores.saturating_mul(node.sockets);
        if let Some(gpu) = &node.gpu {
            let dgemm = gpu.dgemm.as_ref().ok_or_else(|| unknown("gpu", &gpu.name))?;
            if dgemm.rate().as_f64() == 0.0 {
                let message = format!("`{}` has no units for matrices of double precision", gpu.name);
                return Err(LabError::refused(message, "HPL needs them: take a cluster of other GPUs or of processors"));
            }
            let processor = Processor {
                dgemm: dgemm.rate().as_f64(),
                memory: gpu.memory.copy_rate().as_bps() as f64 / 8.0,
                start: gpu.calls.kernel_start.as_ps() as f64 * 1e-12,
                split: SPLIT,
            };
            let cores = (cores / node.gpus.max(1)).max(2);
            return Ok(Process { processor, per_node: node.gpus, memory: Some(*gpu.memory.size), peak: dgemm.peak.as_f64(), cores });
        }
        let dgemm = cpu.dgemm.as_ref().ok_or_else(|| unknown("cpu", &cpu.name))?;
        let all = Rate::from_bps(cpu.copy_rate_streaming.as_bps().saturating_mul(2 * u64::from(cpu.cores)));
        let memory = cpu.memory.as_ref().map_or(all, |memory| *memory.copy_rate);
        let processor =
            Processor { dgemm: dgemm.rate(cpu.cores, *cpu.clock).as_f64(), memory: memory.as_bps() as f64 / 8.0, start: 0.0, split: 0.0 };
        let memory = node.layout.part.memory.as_ref().map(|memory| *memory.size);
        let peak = dgemm.peak(cpu.cores, *cpu.clock).as_f64();
        Ok(Process { processor, per_node: node.sockets, memory, peak, cores: cpu.cores })
    }

    /// So many of a node, each with its share of the cores and of the memory.
    fn divided(self, node: &ResolvedNode, count: u32) -> Result<Process, LabError> {
        let all = self.cores.saturating_mul(self.per_node);
        if node.gpu.is_some() {
            let message = format!("hpl --per-node {count} on nodes with GPUs, of which each has a process");
            return Err(LabError::refused(message, "leave --per-node out, or take a cluster without GPUs"));
        }
        if count > all {
            let message = format!("hpl --per-node {count}, and a node has {all} cores");
            return Err(LabError::refused(message, format!("give --per-node {all} or less")));
        }
        let share = f64::from(self.per_node) / f64::from(count.max(1));
        let of = |whole: f64| whole * share;
        let processor = Processor { dgemm: of(self.processor.dgemm), memory: of(self.processor.memory), ..self.processor };
        let memory = self.memory.map(|memory| Bytes(memory.0.saturating_mul(self.per_node.into()) / u64::from(count.max(1))));
        Ok(Process { processor, per_node: count, memory, peak: of(self.peak), cores: all / count.max(1) })
    }
}

/// Messages that are measured.
#[derive(Clone, Copy)]
struct Measure<'a> {
    parts: &'a ResolvedCluster,
    cluster: &'a Cluster,
    seed: u64,
    /// Options that say who carries them.
    by: &'a [&'a str],
}

impl Measure<'_> {
    /// A short message and a long one.
    fn path(&self, layout: Layout) -> Result<Path, LabError> {
        let (short, long) = (self.latency(layout, SHORT)?, self.latency(layout, LONG)?);
        Ok(Path { latency: short, per_byte: (long - short).max(0.0) / (LONG - SHORT) as f64 })
    }
    /// Seconds of a message, one way.
    fn latency(&self, layout: Layout, bytes: u64) -> Result<f64, LabError> {
        let tool = Tool::by_name("osu_latency").map_err(LaunchError::from)?;
        let size = format!("{bytes}:{bytes}");
        let words = ["-m", &size, "-i", "4", "-x", "2"];
        let options: Vec<String> = words.iter().chain(self.by).map(|word| (*word).to_owned()).collect();
        let launch = Launch { nodes: NodeChoice::Across, layout: Some(layout), seed: self.seed, ..Launch::new(tool, &options, self.parts) };
        let (printed, _) = launch.run_on(self.cluster)?;
        let found = printed.points.first().map(|point| point.value * 1e-6);
        found.ok_or_else(|| LabError::refused("no message could be measured", "try `fabriscope bench osu_latency` on the cluster"))
    }
}

/// The two messages. Basis: assumed; a row of pivots fits the first many times, panels are longer than the second.
const SHORT: u64 = 8;
const LONG: u64 = 1 << 22;
/// Columns of a panel. Basis: published, N. Chalmers et al., arXiv 2304.10397, on GPUs; assumed, as sites choose on processors.
const BLOCK_OF_GPUS: u32 = 512;
const BLOCK: u32 = 256;
/// Percent of the memory that the matrix fills. Basis: assumed; those of the TOP500 fill 85 to 95.
const MEMORY: u32 = 90;
/// Share of the columns behind whose update the swaps of the others go on. Basis: published, arXiv 2304.10397: half.
const SPLIT: f64 = 0.5;
