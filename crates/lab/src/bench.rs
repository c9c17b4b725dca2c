//! A benchmark program on a cluster: what a person asks for, whether it can be had, its run, and the outcome.

use fabriscope_catalog::{
    Catalog, FlowControl, Interface, IpoibMode, LinkLayer, MpiTransport, NodeChoice, NodeGroup, Noise, ResolvedCluster, Vendor,
};
use fabriscope_engine::{Cluster, Run};
use fabriscope_engine::{Counting, Watch};
use fabriscope_platform::{Binding, Layout};
use fabriscope_report::Outcome;
use fabriscope_storage::Mount;
use fabriscope_tool::arguments;
pub use fabriscope_tools::{Listener, Said};
use fabriscope_tools::{Ranks, Tool, ToolOutput};
use fabriscope_units::{Bytes, Remedy, Span};
use serde_json::Value;

use crate::devices::DeviceOptions;
use crate::error::LabError;
use crate::flow_bench::FlowBench;
use crate::launch::{self, Launch, LaunchError, layout_of};
use crate::memory::Memory;
use crate::points::{grid, points};
use crate::tap::{CaptureRequest, Taps};
use crate::timeline::{KernelFile, Recorders, TimelineRequest};

/// What the OSU benchmarks run over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stack {
    /// The library of the cluster, over the adapter's own interface.
    #[default]
    Library,
    /// Sockets of the kernel: Ethernet or IPoIB.
    Tcp,
    /// The library of the cluster, over these queue pairs of verbs.
    QueuePairs(MpiTransport),
}

/// Which engine runs a benchmark program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BenchEngine {
    /// Packets where the job is not too large for them; what is too large goes to the flow engine, if that can do it.
    #[default]
    Auto,
    /// Every packet.
    Packet,
    /// Messages at the costs of the library.
    Flow,
}

/// A benchmark program as a person asks for it.
#[derive(Debug, Clone)]
pub struct BenchRequest {
    /// The tool.
    pub tool: Tool,
    /// Its own options.
    pub options: Vec<String>,
    /// What it runs over.
    pub stack: Stack,
    /// Nodes of the job; the tool's usual number if `None`.
    pub nodes: Option<u32>,
    /// Ranks on each of them; the tool's usual number if `None`.
    pub per_node: Option<u32>,
    /// Which nodes; as the cluster says if `None`.
    pub placement: Option<NodeChoice>,
    /// The hosts themselves, on an imported fabric: `gpu[01-04],gpu20`.
    pub hosts: Option<String>,
    /// Where ranks are within a node, and how the library moves bytes there.
    pub devices: DeviceOptions,
    /// What operating systems take of the cores; as the cluster says if `None`.
    pub noise: Option<Noise>,
    /// Where packets are captured.
    pub capture: CaptureRequest,
    /// What ports and adapters count.
    pub counting: Counting,
    /// Whether the load of each link is noted: for the energy of the run.
    pub link_loads: Watch,
    /// What is drawn over time.
    pub timeline: TimelineRequest,
    /// Which engine runs it.
    pub engine: BenchEngine,
    /// Cores for one run; the result does not depend on it.
    pub threads: usize,
    /// Memory that it may take.
    pub memory: Memory,
    /// The file system that an application's checkpoints go to; the one that the cluster mounts if `None`.
    pub file_system: Option<String>,
    /// Seed of everything random.
    pub seed: u64,
}

/// A benchmark program on a cluster that has what it takes.
#[derive(Debug, Clone)]
pub struct BenchSetup {
    request: BenchRequest,
    parts: ResolvedCluster,
    binding: Binding,
    chosen: Vec<u32>,
    /// What the file system says of checkpoints.
    told: Option<String>,
}

/// What came out of a benchmark program.
#[derive(Debug)]
pub struct BenchRun {
    /// What was asked for, and where it ran.
    pub setup: BenchSetup,
    /// What the tool printed.
    pub printed: ToolOutput,
    /// What happened.
    pub run: Run,
    /// The cluster, wired; where packets were captured or counted, or the energy is asked for.
    pub cluster: Option<Cluster>,
    /// Where packets were captured.
    pub taps: Option<Taps>,
    /// Timelines that are to be written now that the run is over.
    pub kernels: Vec<KernelFile>,
    layout: Option<Layout>,
}

/// The MPI library over sockets.
const OVER_TCP: &str = "openmpi-tcp";

impl BenchEngine {
    /// The engine of that name.
    ///
    /// # Errors
    /// There is none.
    pub fn parse(word: &str) -> Result<BenchEngine, LabError> {
        match word {
            "auto" => Ok(BenchEngine::Auto),
            "packet" => Ok(BenchEngine::Packet),
            "flow" => Ok(BenchEngine::Flow),
            other => Err(LabError::refused(format!("there is no engine `{other}`"), "use packet, flow or auto")),
        }
    }
}

impl Stack {
    /// The stack of that name.
    ///
    /// # Errors
    /// There is none.
    pub fn parse(word: &str) -> Result<Stack, LabError> {
        match word {
            "verbs" => Ok(Stack::Library),
            "tcp" => Ok(Stack::Tcp),
            other => match MpiTransport::WORDS.iter().find(|(word, _)| *word == other) {
                Some((_, transport)) => Ok(Stack::QueuePairs(*transport)),
                None => {
                    let help = "use verbs or tcp, or queue pairs of verbs: rc, rc-srq, xrc, dc, ud, srd, uet";
                    Err(LabError::refused(format!("there is no transport `{other}`"), help))
                }
            },
        }
    }
}

/// Interruptions of cores as `1ms:10us`: one every 1 ms that lasts 10 us, both on average.
///
/// # Errors
/// Another form, or no time between them.
pub fn noise(text: &str) -> Result<Noise, LabError> {
    let refused = || LabError::refused(format!("--noise {text}: no interruptions"), "write how often and how long, as 1ms:10us");
    let (every, lasts) = text.split_once(':').ok_or_else(refused)?;
    let noise = Noise { every: Span::parse(every).map_err(|_| refused())?, lasts: Span::parse(lasts).map_err(|_| refused())? };
    if !noise.leaves_time() {
        return Err(LabError::refused(format!("--noise {text} leaves a core no time"), "write how often and how long, as 1ms:10us"));
    }
    Ok(noise)
}

/// The placement of that name.
///
/// # Errors
/// There is none.
pub fn placement(word: &str) -> Result<NodeChoice, LabError> {
    match word {
        "same_leaf" => Ok(NodeChoice::SameLeaf),
        "across" => Ok(NodeChoice::Across),
        "scattered" => Ok(NodeChoice::Scattered),
        other => Err(LabError::refused(format!("there is no placement `{other}`"), "use same_leaf, across or scattered")),
    }
}

impl BenchRequest {
    /// A tool as it runs without any option.
    #[must_use]
    pub fn new(tool: Tool) -> BenchRequest {
        BenchRequest {
            tool,
            options: Vec::new(),
            stack: Stack::default(),
            nodes: None,
            per_node: None,
            placement: None,
            hosts: None,
            devices: DeviceOptions::default(),
            noise: None,
            capture: CaptureRequest::default(),
            counting: Counting::Off,
            link_loads: Watch::Off,
            timeline: TimelineRequest::default(),
            engine: BenchEngine::Auto,
            threads: 1,
            memory: Memory::default(),
            file_system: None,
            seed: 1,
        }
    }

    /// The tool of that name.
    ///
    /// # Errors
    /// There is none.
    pub fn named(tool: &str) -> Result<BenchRequest, LabError> {
        let tool = Tool::by_name(tool).map_err(|error| LabError::refused(error.in_full(), "`fabriscope bench` lists the tools"))?;
        Ok(BenchRequest::new(tool))
    }

    /// The same on a cluster.
    ///
    /// # Errors
    /// Options that the tool, the library or the nodes do not have.
    pub fn set_up(mut self, catalog: &Catalog, mut parts: ResolvedCluster) -> Result<BenchSetup, LabError> {
        match self.stack {
            Stack::Library => {}
            Stack::Tcp => self.over_tcp(catalog, &mut parts)?,
            Stack::QueuePairs(MpiTransport::Uet) if matches!(self.tool, Tool::NcclTests(_)) => over_uet(catalog, &mut parts)?,
            Stack::QueuePairs(transport) => self.over(transport, &mut parts)?,
        }
        let many = matches!(self.tool.traits().ranks, Ranks::Job(_) | Ranks::Pairs);
        parts.noise = self.noise.or(parts.noise);
        let (devices, told) = self.devices.for_tool(self.tool);
        self.options.splice(..0, told);
        let binding = devices.apply(&mut parts, if many { u32::MAX } else { 2 })?;
        self.check_capture(&parts)?;
        let chosen = match &self.hosts {
            Some(list) => parts.nodes_named(list).map_err(|problem| LabError::refused(problem.message, problem.help))?,
            None => Vec::new(),
        };
        let mut setup = BenchSetup { request: self, parts, binding, chosen, told: None };
        setup.time_checkpoints(catalog)?;
        Ok(setup)
    }

    /// Whether a tool of two ranks runs between two nodes and within one.
    fn takes_nodes(&self) -> bool {
        matches!(self.tool, Tool::Omb(_) | Tool::Shmem(_) | Tool::Xccl(_))
    }

    fn over_tcp(&self, catalog: &Catalog, parts: &mut ResolvedCluster) -> Result<(), LabError> {
        if !matches!(self.tool, Tool::Omb(_) | Tool::Collective(_) | Tool::Krylov) {
            let what = format!("--transport tcp is for the OSU benchmarks, not for {}", self.tool.name());
            return Err(LabError::refused(what, "iperf3 and netperf run over TCP by themselves; perftest is verbs only"));
        }
        let over = catalog.software(OVER_TCP)?;
        parts.groups.iter_mut().for_each(|group| group.software.clone_from(over));
        Ok(())
    }

    /// The library over other queue pairs.
    fn over(&self, transport: MpiTransport, parts: &mut ResolvedCluster) -> Result<(), LabError> {
        let word = transport.word();
        let refused = |what: String, help: &str| Err(LabError::refused(format!("--transport {word}: {what}"), help));
        if !matches!(self.tool, Tool::Omb(_) | Tool::Collective(_) | Tool::Krylov | Tool::Scattered | Tool::App(_)) {
            let help = "perftest has -c RC|XRC|UC|UD|DC|SRD, nccl-tests --transport uet; other programs run over what their library has";
            return refused(format!("{} is no program of MPI", self.tool.name()), help);
        }
        let lossy = parts.flow_control == FlowControl::Lossy;
        for group in &mut parts.groups {
            let name = group.software.name.clone();
            if group.software.interface != Interface::Verbs || group.node.nic.interface != Interface::Verbs {
                let what = format!("`{name}` on `{}` has no queue pairs of verbs to choose", group.node.nic.name);
                return refused(what, "choose a cluster whose library runs over verbs, or leave --transport out");
            }
            let Some(mpi) = &mut group.software.mpi else { continue };
            if transport == MpiTransport::Ud && mpi.datagrams.is_none() {
                let help = "choose software with an [mpi.datagrams] table, such as mvapich2-2.3.7 or openmpi-ucx";
                return refused(format!("`{name}` sends no datagrams"), help);
            }
            if transport == MpiTransport::Ud && lossy {
                let help = "use rc or dc, or a cluster with flow control at its links";
                return refused("the network loses packets, and datagrams would not be sent again".to_owned(), help);
            }
            mpi.transport = transport;
        }
        Ok(())
    }

    fn check_capture(&self, parts: &ResolvedCluster) -> Result<(), LabError> {
        if self.capture.file.is_none() {
            return Ok(());
        }
        let over = |interface| parts.groups.iter().any(|group| group.software.interface == interface);
        let sockets = matches!(self.tool, Tool::Sockets(_)) || over(Interface::Sockets);
        let connected = parts.link_layer == LinkLayer::InfiniBand && parts.ip.mode == IpoibMode::Connected;
        if sockets && connected {
            let help = "leave --pcap out, or write ip.mode = \"datagram\" in the cluster";
            return Err(LabError::refused("packets of TCP inside reliable connections are not written to captures", help));
        }
        if sockets && parts.ip.virtual_switch.as_ref().is_some_and(|switch| switch.encapsulation().is_some()) {
            let help = "leave --pcap out, or remove `tunnel` and `ipsec` from the cluster";
            return Err(LabError::refused("headers of tunnels and of ESP are not written to captures", help));
        }
        if over(Interface::Psm2) {
            let help = "leave --pcap out, or capture a benchmark over verbs";
            return Err(LabError::refused("packets of PSM2 are not written to captures", help));
        }
        Ok(())
    }
}

/// The collective library of the GPUs over queue pairs of Ultra Ethernet.
fn over_uet(catalog: &Catalog, parts: &mut ResolvedCluster) -> Result<(), LabError> {
    for group in &mut parts.groups {
        if group.node.nic.interface != Interface::Verbs {
            let what = format!("--transport uet: `{}` has no queue pairs of verbs", group.node.nic.name);
            return Err(LabError::refused(what, "choose a cluster with adapters of verbs, as mi355x-pollara"));
        }
        let vendor = group.nccl.as_ref().and_then(|software| Some(software.nccl.as_ref()?.vendor));
        group.nccl = match vendor {
            Some(Vendor::Nvidia) => Some(catalog.software("nccl-ofi-uet")?.clone()),
            Some(Vendor::Amd) => Some(catalog.software("rccl-anp-uet")?.clone()),
            _ => continue,
        };
    }
    Ok(())
}

impl BenchSetup {
    /// What was asked for.
    #[must_use]
    pub fn request(&self) -> &BenchRequest {
        &self.request
    }

    /// The same on these nodes, in the order of the ranks.
    #[must_use]
    pub fn on_nodes(self, chosen: Vec<u32>) -> BenchSetup {
        BenchSetup { chosen, ..self }
    }

    /// The cluster with the library that is used.
    #[must_use]
    pub fn parts(&self) -> &ResolvedCluster {
        &self.parts
    }

    /// The placement, in one line.
    #[must_use]
    pub fn describe(&self) -> String {
        let parts = &self.parts;
        let titles: Vec<&str> = parts.groups.iter().map(|group| group.software.title.as_str()).collect();
        let tool = self.request.tool.name();
        format!("{tool} on {}: {}; MTU {}, {}", parts.name, parts.title, parts.mtu, titles.join(" and "))
    }

    /// Asks the file system how long a checkpoint of an application takes, where the command line does not say it.
    fn time_checkpoints(&mut self, catalog: &Catalog) -> Result<(), LabError> {
        let said = |name: &str| self.request.options.iter().position(|word| word == name || word.starts_with(&format!("{name}=")));
        let Tool::App(app) = self.request.tool else { return Ok(()) };
        let (Some(_), Some(_), None) = (said("--checkpoint-every"), said("--checkpoint-size"), said("--checkpoint-seconds")) else {
            return Ok(());
        };
        let parsed = arguments::parse(app.name(), app.options(), &self.request.options).map_err(LaunchError::from)?;
        let Some(size) = parsed.options.iter().find(|given| given.name == "checkpoint-size") else { return Ok(()) };
        let text = size.value.as_deref().unwrap_or_default();
        let bytes = Bytes(arguments::size(&size.typed, text, 1, 1 << 60).map_err(LaunchError::from)?);
        let layout = self.layout()?.unwrap_or_else(|| launch::layout(&self.parts, None, None));
        let refused = |error: &dyn miette::Diagnostic| {
            let (message, help) = error.halves("name a file system with --fs");
            LabError::refused(message, help)
        };
        let shape = (layout.nodes, layout.per_node);
        let mount = Mount::new(catalog, &self.parts, self.request.file_system.as_deref(), shape).map_err(|error| refused(&error))?;
        let written = fabriscope_storage::checkpoint(&mount, bytes).map_err(|error| refused(&error))?;
        self.request.options.push(format!("--checkpoint-seconds={:.6}", written.seconds));
        self.told = Some(format!("checkpoint on {}: {}", mount.describe(), written.binds));
        Ok(())
    }

    /// The shape of the job; `None` is two nodes as the tool takes them.
    fn layout(&self) -> Result<Option<Layout>, LabError> {
        let BenchRequest { tool, nodes, per_node, .. } = self.request;
        let parts = &self.parts;
        let job = matches!(tool.traits().ranks, Ranks::Job(_));
        let named = u32::try_from(self.chosen.len()).ok().filter(|named| *named == 1 || (job && *named > 0));
        let nodes = nodes.or(named);
        let per_node = per_node.or_else(|| tool.gpus_of_process(&self.request.options));
        Ok(match (job, nodes, per_node) {
            (true, ..) => {
                let job = layout_of(tool, parts, nodes, per_node);
                launch::check_cores(tool, &self.parts, job)?;
                Some(job)
            }
            (_, None, None) => None,
            (_, Some(nodes @ (1 | 2)), per_node) if self.request.takes_nodes() && (nodes == 1 || per_node.is_none()) => {
                Some(launch::layout(parts, Some(nodes), per_node))
            }
            _ => {
                let what = format!("--nodes and --ppn are for collective benchmarks, not for {}", tool.name());
                let help =
                    "leave them out: it runs between two nodes, or with --nodes 1 within one; osu_mbw_mr and osu_multi_lat have --pairs";
                return Err(LabError::refused(what, help));
            }
        })
    }

    /// The benchmark for the flow engine, where that runs it, and why it was not asked for by name.
    fn without_packets(&self, layout: Option<Layout>, watched: bool) -> Result<Option<(FlowBench<'_>, Option<String>)>, LabError> {
        let BenchRequest { tool, engine, .. } = self.request;
        let refused = |what: String| LabError::refused(what, "leave --engine out, or use --engine packet");
        let layout = match (engine, layout) {
            (BenchEngine::Packet, _) => return Ok(None),
            (BenchEngine::Flow, _) if watched => {
                let what = "the flow engine has no packets to capture, to count or to draw, and no links at work".to_owned();
                return Err(LabError::refused(what, "leave --pcap, --counters, --energy and --trace out, or use --engine packet"));
            }
            (_, Some(layout)) if matches!(tool, Tool::Collective(_) | Tool::App(_)) && !watched => layout,
            (BenchEngine::Flow, _) => {
                let what = format!("the flow engine runs benchmarks of collective operations of MPI and applications, not {}", tool.name());
                return Err(refused(what));
            }
            (BenchEngine::Auto, _) => return Ok(None),
        };
        let bench = FlowBench {
            tool,
            options: &self.request.options,
            parts: &self.parts,
            binding: &self.binding,
            layout,
            nodes: self.request.placement.unwrap_or(self.parts.placement),
            chosen: &self.chosen,
            seed: self.request.seed,
        };
        if engine == BenchEngine::Flow {
            return Ok(Some((bench, None)));
        }
        let why = bench.beyond_packets();
        Ok(why.map(|why| (bench, Some(why))))
    }

    /// Runs the tool.
    ///
    /// # Errors
    /// The tool's own refusal of its options (its `--help` is one), taps that do not exist, what the engine does not do.
    pub fn run(self) -> Result<BenchRun, LabError> {
        self.run_heard(None)
    }

    /// The same; a listener hears of the rows of the tool's table as they are done.
    ///
    /// # Errors
    /// As [`BenchSetup::run`].
    pub fn run_heard(self, listener: Option<Listener>) -> Result<BenchRun, LabError> {
        self.run_with(None, listener)
    }

    /// The same on a cluster of its parts that is wired already, where there is one.
    ///
    /// # Errors
    /// As [`BenchSetup::run`].
    pub fn run_on(self, cluster: Option<&Cluster>) -> Result<BenchRun, LabError> {
        self.run_with(cluster, None)
    }

    fn run_with(self, wired: Option<&Cluster>, listener: Option<Listener>) -> Result<BenchRun, LabError> {
        let layout = self.layout()?;
        let request = &self.request;
        let drawn = !request.timeline.is_empty();
        if drawn {
            request.timeline.check(request.tool)?;
        }
        let watched = request.capture.file.is_some() || request.counting != Counting::Off || request.link_loads == Watch::On || drawn;
        if let Some((bench, why)) = self.without_packets(layout, watched)? {
            let (mut printed, run) = bench.run(why, listener)?;
            printed.remarks.extend(self.told.clone());
            return Ok(BenchRun { setup: self, printed, run, cluster: None, taps: None, kernels: Vec::new(), layout });
        }
        let cluster = if watched { Some(Cluster::new(self.parts.clone()).map_err(LaunchError::from)?) } else { None };
        let taps = cluster.as_ref().map_or(Ok(None), |cluster| request.capture.taps(cluster))?;
        let mut recorders = cluster.as_ref().map_or(Ok(None), |cluster| request.timeline.recorders(cluster))?;
        let launch = Launch {
            timeline: recorders.as_ref().map(|recorders| recorders.timeline.clone()),
            nodes: request.placement.unwrap_or(self.parts.placement),
            chosen: &self.chosen,
            layout,
            seed: request.seed,
            binding: self.binding.clone(),
            taps: taps.as_ref().map(Taps::list).unwrap_or_default(),
            counting: request.counting,
            link_loads: request.link_loads,
            threads: request.threads,
            memory: self.request.memory,
            ..Launch::new(request.tool, &request.options, &self.parts)
        };
        let (mut printed, run) = launch.run_heard(cluster.as_ref().or(wired), listener)?;
        printed.remarks.extend(self.told.clone());
        let kernels = recorders.as_mut().map_or(Ok(Vec::new()), Recorders::finish)?;
        Ok(BenchRun { setup: self, printed, run, cluster, taps, kernels, layout })
    }
}

impl BenchRun {
    /// The shape of the job; `None` is two nodes as the tool takes them.
    #[must_use]
    pub fn layout(&self) -> Option<Layout> {
        self.layout
    }
    /// The outcome: the tool's own bytes for people; for programs the resolved settings and every number of its table.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let BenchSetup { request, parts, .. } = &self.setup;
        // Of unlike nodes, the job has some of each: a list of them stands in the place of one.
        let of = |value: fn(&NodeGroup) -> Value| match parts.groups.as_slice() {
            [group] => value(group),
            groups => Value::Array(groups.iter().map(value).collect()),
        };
        let mut outcome = Outcome::new();
        outcome
            .set("tool", request.tool.name())
            .set("options", request.options.clone())
            .set("cluster", parts.name.clone())
            .set("title", parts.title.clone())
            .set("nodes", self.layout.map_or(2, |layout| layout.nodes))
            .set("ranks_per_node", self.layout.map(|layout| layout.per_node))
            .set("hosts", self.setup.chosen.iter().filter_map(|node| parts.host_name(*node)).map(Value::from).collect::<Vec<_>>())
            .set("seed", request.seed)
            .set("nic", of(|group| group.node.nic.name.clone().into()))
            .set("nics_per_node", of(|group| group.node.nics.into()))
            .set("gpu", of(|group| group.node.gpu.as_ref().map(|gpu| gpu.name.clone()).into()))
            .set("link_bits_per_s", of(|group| group.link.data_rate().as_bps().into()))
            .set("mtu_bytes", parts.mtu.as_u64())
            .set("software", of(|group| group.software.name.clone().into()))
            .set("routing", parts.routing.to_string())
            .set("remarks", self.printed.remarks.clone())
            .data_table("points", points(&self.printed.points));
        for table in &self.printed.tables {
            outcome.data_table(table.name, grid(table));
        }
        outcome.set("text", self.printed.text.clone()).text(self.printed.text.clone());
        outcome
    }
}
