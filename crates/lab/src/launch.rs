//! From a tool and a cluster to what the tool prints: the machine as the tool sees it, the job, the run.

use fabriscope_catalog::{NodeChoice, ResolvedCluster};
use fabriscope_engine::{Cluster, Counting, Engine, EngineError, FaultPlan, Job, Run, RunOptions, Tap, Timeline, Watch};
use fabriscope_engine_packet::PacketEngine;
use fabriscope_fabric::topology::TopologyError;
use fabriscope_node::{Main, Ties};
use fabriscope_platform::{Binding, Layout, Target, Unlike};
use fabriscope_tools::{Listener, PerNode, Prepared, Ranks, Tool, ToolOutput, UsageError};
use fabriscope_units::{Bytes, Remedy};
use miette::Diagnostic;

use crate::error::LabError;
use crate::memory::Memory;

/// Why a tool did not run.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum LaunchError {
    /// The tool's command line.
    #[error("{}", .0.in_full())]
    #[diagnostic(code(bench::usage), help("`fabriscope bench TOOL --help` lists the tool's options"))]
    Usage(UsageError),
    /// Nodes that do not understand each other.
    #[error(transparent)]
    #[diagnostic(
        code(bench::unlike),
        help("name one group of nodes behind a colon, as --on lumi:lumi-c; `fabriscope clusters` lists them")
    )]
    Unlike(#[from] Unlike),
    /// The cluster's wiring.
    #[error("{}", .0.in_full())]
    #[diagnostic(code(bench::topology))]
    Topology(TopologyError),
    /// It does not fit the memory.
    #[error("{0}")]
    #[diagnostic(
        code(bench::memory),
        help(
            "use fewer ranks, smaller sizes or --engine flow, which holds the outstanding messages of one rank; or a machine with more memory"
        )
    )]
    Memory(String),
    /// The run.
    #[error("{}", .0.in_full())]
    #[diagnostic(code(bench::run))]
    Engine(EngineError),
    /// Two nodes are needed.
    #[error("{cluster} has {nodes} node, and a benchmark between two nodes needs two")]
    #[diagnostic(code(bench::nodes), help("take more nodes of it: --on {cluster}:2"))]
    OneNode {
        /// The cluster.
        cluster: String,
        /// Its nodes.
        nodes: u32,
    },
    /// The job takes more nodes than there are.
    #[error("the job takes {taken} nodes, and {cluster} has {nodes}")]
    #[diagnostic(code(bench::nodes), help("give --nodes {nodes} or less, or another cluster"))]
    TooFewNodes {
        /// The cluster.
        cluster: String,
        /// Its nodes.
        nodes: u32,
        /// Nodes of the job.
        taken: u32,
    },
    /// Hosts are named, and they are not as many as the job takes.
    #[error("the job takes {taken} nodes, and {named} hosts are named")]
    #[diagnostic(code(bench::hosts), help("name {taken} hosts, or give --nodes {named} where the benchmark takes so many"))]
    Hosts {
        /// Hosts that are named.
        named: u32,
        /// Nodes of the job.
        taken: u32,
    },
}

// Not `#[from]`: what these say is told in full already, and a cause would repeat it.
impl From<UsageError> for LaunchError {
    fn from(error: UsageError) -> LaunchError {
        LaunchError::Usage(error)
    }
}

impl From<TopologyError> for LaunchError {
    fn from(error: TopologyError) -> LaunchError {
        LaunchError::Topology(error)
    }
}

impl From<EngineError> for LaunchError {
    fn from(error: EngineError) -> LaunchError {
        LaunchError::Engine(error)
    }
}

/// A tool with its options on a cluster.
pub struct Launch<'a> {
    /// The tool.
    pub tool: Tool,
    /// Its own options.
    pub options: &'a [String],
    /// Where.
    pub parts: &'a ResolvedCluster,
    /// Which nodes.
    pub nodes: NodeChoice,
    /// The nodes themselves, in the order of the ranks; as `nodes` says where there are none.
    pub chosen: &'a [u32],
    /// The shape of a collective job; without it, two full nodes.
    pub layout: Option<Layout>,
    /// Which GPU each rank of a node has.
    pub binding: Binding,
    /// Seed of everything random.
    pub seed: u64,
    /// Follow every message through the machine.
    pub traced: bool,
    /// Where every packet is noted.
    pub taps: Vec<Tap>,
    /// What ports and adapters count.
    pub counting: Counting,
    /// Whether the load of each link is noted.
    pub link_loads: Watch,
    /// Who hears what happens, while it does.
    pub timeline: Option<Timeline>,
    /// What breaks.
    pub faults: Option<FaultPlan>,
    /// Cores for one run; the result does not depend on it.
    pub threads: usize,
    /// Memory that it may take.
    pub memory: Memory,
    /// Whether every iteration is simulated, as something beside the job may change it.
    pub every_iteration: bool,
}

impl<'a> Launch<'a> {
    /// As a user starts it who says nothing else: on nodes and in a shape as usual, with nothing watched.
    #[must_use]
    pub fn new(tool: Tool, options: &'a [String], parts: &'a ResolvedCluster) -> Launch<'a> {
        Launch {
            tool,
            options,
            parts,
            nodes: parts.placement,
            chosen: &[],
            layout: None,
            binding: Binding::default(),
            seed: 1,
            traced: false,
            taps: Vec::new(),
            counting: Counting::Off,
            link_loads: Watch::Off,
            timeline: None,
            faults: None,
            threads: 1,
            memory: Memory::default(),
            every_iteration: false,
        }
    }

    /// Wires the cluster and runs the tool on it.
    ///
    /// # Errors
    /// Wiring that the switches cannot form, and as [`Launch::run_on`].
    pub fn run(&self) -> Result<(ToolOutput, Run), LaunchError> {
        self.run_heard(None, None)
    }

    /// What the tool says of a job before anything of it has run: its choices are among the remarks.
    ///
    /// # Errors
    /// The tool's command line, and what does not fit the cluster.
    pub fn unrun(&self) -> Result<ToolOutput, LaunchError> {
        Ok((self.prepared(None)?.finish)())
    }

    /// Runs the tool on a cluster of its parts that is wired already.
    ///
    /// # Errors
    /// The tool's command line, too few nodes, and what the engine says.
    pub fn run_on(&self, cluster: &Cluster) -> Result<(ToolOutput, Run), LaunchError> {
        self.run_heard(Some(cluster), None)
    }

    /// The same on a cluster that is wired already, or on one of its own; a listener hears of rows as they are done.
    ///
    /// # Errors
    /// As [`Launch::run`].
    pub fn run_heard(&self, cluster: Option<&Cluster>, listener: Option<Listener>) -> Result<(ToolOutput, Run), LaunchError> {
        let Some(cluster) = cluster else {
            if self.parts.uniform().is_none() {
                return self.run_heard(Some(&Cluster::new(self.parts.clone())?), listener);
            }
            let prepared = self.prepared(None)?;
            return self.carried(prepared, &Cluster::new(self.parts.clone())?, listener);
        };
        self.carried(self.prepared(Some(cluster))?, cluster, listener)
    }

    /// The same while programs run beside the job, each on its node: they are none of its ranks, and the run ends with the job.
    ///
    /// # Errors
    /// As [`Launch::run`].
    pub fn run_beside(&self, cluster: &Cluster, beside: Vec<(u32, Main)>) -> Result<(ToolOutput, Run), LaunchError> {
        let prepared = self.prepared(Some(cluster))?;
        let nodes = self.nodes_of(&prepared, cluster)?;
        let options = RunOptions { threads: self.threads, faults: self.faults.clone(), ..RunOptions::default() };
        let run = PacketEngine.run(cluster, Job::with_beside((nodes, prepared.mains), beside), &options, self.seed)?;
        Ok(((prepared.finish)(), run))
    }

    /// The node of each rank.
    fn nodes_of(&self, prepared: &Prepared, cluster: &Cluster) -> Result<Vec<u32>, LaunchError> {
        let ranks = u32::try_from(prepared.mains.len()).expect("a layout counts its ranks in 32 bits");
        let seats = self.seated(cluster, prepared.placing.nodes(ranks))?;
        Ok((0..ranks).map(|rank| seats[prepared.placing.seat(rank).0 as usize]).collect())
    }

    fn prepared(&self, cluster: Option<&Cluster>) -> Result<Prepared, LaunchError> {
        let layout = self.layout.unwrap_or_else(|| layout(self.parts, None, None));
        let mut target = Target::common(self.parts, layout, self.binding.clone())?;
        let noted = self.counting != Counting::Off || self.link_loads == Watch::On;
        let watched = self.traced || self.timeline.is_some() || !self.taps.is_empty() || noted || self.faults.is_some();
        target.every_iteration = watched || self.every_iteration || self.parts.is_random();
        if let (Some(cluster), Tool::NcclTests(_) | Tool::Xccl(_)) = (cluster, self.tool) {
            // What these find on a node depends on its kind: which nodes they get is known before they start.
            let pairs = matches!(self.tool, Tool::Xccl(_)) && layout.nodes != 1;
            let taken = if pairs { 2 } else { layout.nodes };
            target = target.joined(self.parts, &self.seats(cluster, taken));
        }
        let mut options = self.options.to_vec();
        if self.timeline.is_some() && matches!(self.tool, Tool::NcclTests(_)) && !options.iter().any(|word| word == EXACT) {
            // A timeline shows the kernels that there are, and not those that stand for others.
            options.push(EXACT.to_owned());
        }
        if let Some(need) = self.tool.memory(&options, &target) {
            self.memory.fits(need).map_err(LaunchError::Memory)?;
        }
        Ok(self.tool.prepare(&options, &target)?)
    }

    /// What the run takes of memory, about; nothing where that is little.
    #[must_use]
    pub fn need(&self) -> Option<Bytes> {
        let layout = self.layout.unwrap_or_else(|| layout(self.parts, None, None));
        let target = Target::common(self.parts, layout, self.binding.clone()).ok()?;
        self.tool.memory(self.options, &target)
    }

    /// The nodes of a job of so many, in the order of its ranks, if there are so many, and as many hosts as are named.
    pub(crate) fn seated(&self, cluster: &Cluster, taken: u32) -> Result<Vec<u32>, LaunchError> {
        if cluster.nodes() < 2 && taken > 1 {
            return Err(LaunchError::OneNode { cluster: self.parts.name.clone(), nodes: cluster.nodes() });
        }
        if taken > cluster.nodes() {
            return Err(LaunchError::TooFewNodes { cluster: self.parts.name.clone(), nodes: cluster.nodes(), taken });
        }
        // Saturated: no job takes so many nodes, which is said below.
        let named = u32::try_from(self.chosen.len()).unwrap_or(u32::MAX);
        if named > 0 && named != taken {
            return Err(LaunchError::Hosts { named, taken });
        }
        Ok(self.seats(cluster, taken))
    }

    fn seats(&self, cluster: &Cluster, taken: u32) -> Vec<u32> {
        if self.chosen.is_empty() { cluster.some(taken, self.nodes, self.seed) } else { self.chosen.to_vec() }
    }

    fn carried(&self, prepared: Prepared, cluster: &Cluster, listener: Option<Listener>) -> Result<(ToolOutput, Run), LaunchError> {
        let nodes = self.nodes_of(&prepared, cluster)?;
        let mains = match (&self.timeline, self.traced) {
            (Some(_), _) => prepared.mains.into_iter().map(|main| traced(main, true)).collect(),
            (None, true) => prepared.mains.into_iter().map(|main| traced(main, false)).collect(),
            (None, false) => prepared.mains,
        };
        // Stages of a message are noted where it is, which is one part.
        let ties = if self.traced || self.timeline.is_some() { Ties::Any } else { prepared.ties };
        let (taps, faults) = (self.taps.clone(), self.faults.clone());
        let timeline = self.timeline.clone();
        let (threads, counting, link_loads) = (self.threads, self.counting, self.link_loads);
        let options = RunOptions { threads, taps, counting, link_loads, timeline, faults, ..RunOptions::default() };
        if let Some(listener) = listener {
            prepared.rows.listen(listener);
        }
        let run = PacketEngine.run(cluster, Job::tied(nodes, mains, ties), &options, self.seed)?;
        Ok(((prepared.finish)(), run))
    }
}

/// The option of nccl-tests by which every kernel is simulated as it is.
const EXACT: &str = "--exact";

/// The same program, with every message it posts followed through the machine; with `activities`, also what it says that it does.
fn traced(main: Main, activities: bool) -> Main {
    Box::new(move |process| {
        process.trace(true);
        if activities {
            process.keep_activities();
        }
        main(process)
    })
}

/// The shape of a collective job on `parts`: two nodes and every core of them, where nothing else is asked for.
pub fn layout(parts: &ResolvedCluster, nodes: Option<u32>, per_node: Option<u32>) -> Layout {
    let cores = parts.groups.iter().map(|group| group.node.cpu.cores.saturating_mul(group.node.sockets)).min().unwrap_or(1);
    Layout { nodes: nodes.unwrap_or(2), per_node: per_node.unwrap_or(cores.max(1)) }
}

/// Refuses more ranks of a node than it has cores: two of a core would take turns.
///
/// # Errors
/// There are more.
pub fn check_cores(tool: Tool, parts: &ResolvedCluster, job: Layout) -> Result<(), LabError> {
    let cores = layout(parts, None, None).per_node;
    if !matches!(tool.traits().ranks, Ranks::Job(PerNode::Cores)) || job.per_node <= cores {
        return Ok(());
    }
    let what = format!("--ppn {}: nodes of {} have {cores} cores, and ranks that share one are not modelled", job.per_node, parts.name);
    Err(LabError::refused(what, format!("give --ppn {cores} or less")))
}

/// The shape of the job of a tool: so many nodes and ranks on each; as many as the tool usually has where nothing is asked for.
pub fn layout_of(tool: Tool, parts: &ResolvedCluster, nodes: Option<u32>, per_node: Option<u32>) -> Layout {
    match tool.traits().ranks {
        Ranks::Job(PerNode::One) => layout(parts, nodes, Some(per_node.unwrap_or(1))),
        Ranks::Job(PerNode::Gpus) => {
            let gpus = parts.groups.iter().map(|group| group.node.gpus).min().unwrap_or(0).max(1);
            layout(parts, Some(nodes.unwrap_or(1)), Some(per_node.unwrap_or(gpus)))
        }
        _ => layout(parts, nodes, per_node),
    }
}
