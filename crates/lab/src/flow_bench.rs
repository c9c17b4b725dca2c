//! Collective benchmarks and applications in the flow engine: which jobs go there, what their messages cost, and how far they are from packets.
//!
//! Costs are measured before each row, by ranks of the library in the packet engine on up to three nodes of the same cluster. Afterwards the
//! same benchmark runs on a few ranks in both engines, and the difference is told.
//!
//! Modelled: what [`fabriscope_engine_flow::library`] has. Not modelled: other tools. What is an application's
//! own stands in `flow_app.rs`.

use std::collections::BTreeSet;

use fabriscope_catalog::{NodeChoice, ResolvedCluster};
use fabriscope_collectives::{Outline, Round};
use fabriscope_engine::{Cluster, Engine, Job, Run, RunOptions};
use fabriscope_engine_flow::library::{self, Excerpt, LibraryWork, Queues, Step, Steps, excerpt};
use fabriscope_engine_packet::PacketEngine;
use fabriscope_fabric::routing::{Routing, Sharing};
use fabriscope_mpi::probe::{Costs, Probe, Probing};
use fabriscope_mpi::{Protocol, World};
use fabriscope_platform::{Binding, Layout, Target};
use fabriscope_tools::collective::{Between, Stepwise, StepwiseRow, stepwise};
use fabriscope_tools::{Listener, Tool, ToolOutput};
use fabriscope_units::{Bytes, Span, Time};

use crate::error::LabError;
use crate::launch::{Launch, LaunchError};

/// A collective benchmark, or an application, on some nodes of a cluster.
pub(crate) struct FlowBench<'a> {
    pub tool: Tool,
    pub options: &'a [String],
    pub parts: &'a ResolvedCluster,
    pub binding: &'a Binding,
    pub layout: Layout,
    pub nodes: NodeChoice,
    pub chosen: &'a [u32],
    pub seed: u64,
}

/// What a job asks of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Demand {
    pub ranks: u32,
    /// Messages of all ranks and iterations.
    pub messages: u64,
    /// Ranks on other nodes that a rank talks to.
    pub peers: u64,
    /// Connections of an adapter.
    pub connections: u64,
}

impl Demand {
    /// Why packets are not for it, if they are not.
    pub fn too_much(&self) -> Option<String> {
        let Demand { ranks, messages, peers, connections } = *self;
        if peers > PEERS {
            return Some(format!("each of {ranks} ranks talks to {peers} on other nodes"));
        }
        if connections > CONNECTIONS {
            return Some(format!("an adapter has {connections} connections"));
        }
        if ranks > RANKS {
            return Some(format!("there are {ranks} ranks"));
        }
        (messages > MESSAGES).then(|| format!("there are {messages} messages"))
    }
}

impl FlowBench<'_> {
    /// The same on the first of the nodes.
    pub fn at(&self, layout: Layout) -> FlowBench<'_> {
        FlowBench { layout, chosen: self.chosen.get(..layout.nodes as usize).unwrap_or(&[]), ..*self }
    }

    pub fn target(&self, layout: Layout) -> Result<Target, LabError> {
        Ok(Target::common(self.parts, layout, self.binding.clone()).map_err(LaunchError::from)?)
    }

    /// The benchmark as data; or what of it only packets can do.
    fn steps(&self) -> Result<Result<Stepwise, String>, LabError> {
        let Tool::Collective(benchmark) = self.tool else { return Ok(Err(format!("the programs of {}", self.tool.name()))) };
        let target = self.target(self.layout)?;
        let data = stepwise(benchmark, self.options, &target).map_err(LaunchError::from)?;
        Ok(data.and_then(|data| match library::supports(self.parts) {
            Ok(()) => Ok(data),
            Err(refused) => Err(refused.what),
        }))
    }

    /// Why it has to go without packets; nothing where it need not, or cannot.
    pub fn beyond_packets(&self) -> Option<String> {
        if let Tool::App(app) = self.tool {
            return self.app_beyond_packets(app);
        }
        // What is wrong with the command line is said by who runs it.
        let data = self.steps().ok()?.ok()?;
        self.demand(&data).too_much()
    }

    fn demand(&self, data: &Stepwise) -> Demand {
        let ranks = self.layout.ranks();
        let of_row = |row: &StepwiseRow| {
            let all = excerpt(&row.call, &row.algorithm, u64::MAX).map_or(0, |whole| whole.messages.0);
            let peers = self.most_peers([row.call.root, ranks / 2, ranks - 1], |rank| row.algorithm.peers(&row.call, rank));
            (all.saturating_mul(u64::from(row.iterations + row.warm_up)), peers)
        };
        let rows: Vec<(u64, u64)> = data.rows.iter().map(of_row).collect();
        let peers = rows.iter().map(|(_, peers)| *peers).max().unwrap_or(0);
        let messages = rows.iter().fold(0, |sum: u64, (messages, _)| sum.saturating_add(*messages));
        self.demanded(messages, peers)
    }
    /// Of those among which one talks to the most, how many there are on other nodes.
    pub fn most_peers(&self, ranks: [u32; 3], peers: impl Fn(u32) -> Vec<u32>) -> u64 {
        let per_node = self.layout.per_node;
        let elsewhere = |rank: u32| peers(rank).into_iter().filter(|peer| peer / per_node != rank / per_node).count() as u64;
        ranks.map(elsewhere).into_iter().max().unwrap_or(0)
    }
    /// What so many messages, each rank with so many peers on other nodes, ask.
    pub fn demanded(&self, messages: u64, peers: u64) -> Demand {
        let adapters = u64::from(self.parts.groups.iter().map(|group| group.node.nics).min().unwrap_or(1).max(1));
        let connections = peers * u64::from(self.layout.per_node) / adapters;
        Demand { ranks: self.layout.ranks(), messages, peers, connections }
    }

    /// Runs it; a listener hears of rows as they are done.
    pub fn run(&self, why: Option<String>, listener: Option<Listener>) -> Result<(ToolOutput, Run), LabError> {
        if let Tool::App(app) = self.tool {
            return self.run_app(app, why);
        }
        let data = self.steps()?.map_err(|what| {
            let help = "leave --engine out, or use --engine packet";
            LabError::refused(format!("the flow engine has no model of {what}"), help)
        })?;
        let (parts, own) = shortest(self.parts.clone());
        let cluster = Cluster::new(parts).map_err(LaunchError::from)?;
        if let Some(listener) = listener {
            data.listened().listen(listener);
        }
        let Carried { printed, end, excerpts } = self.carry(&cluster, &data)?;
        let mut remarks = printed.remarks;
        remarks.extend(why.map(|why| format!("flow engine, as {why}; --engine packet simulates every packet all the same")));
        remarks.extend(own.map(|own| {
            format!("flow engine: {own} looks at queues, here messages take the shortest paths; so they do where packets are asked")
        }));
        remarks.extend(self.first_use(&data));
        remarks.extend(parts_of(&data, &excerpts));
        remarks.push(self.compared(&cluster));
        let run = Run { end, ..Run::default() };
        Ok((ToolOutput { remarks, ..printed }, run))
    }

    /// What the first call takes, where connections are made by it.
    fn first_use(&self, data: &Stepwise) -> Option<String> {
        let each = self.target(self.layout).ok()?.mpi.as_ref().and_then(|mpi| Protocol::from(mpi).first_use)?;
        let ends = self.demand(data).peers * u64::from(self.layout.per_node);
        (ends > 0).then(|| {
            format!("the library makes connections on first use: {ends} ends on a node take {} before what is measured", each * ends)
        })
    }

    /// The same in the packet engine.
    pub fn launch(&self) -> Launch<'_> {
        Launch {
            nodes: self.nodes,
            chosen: self.chosen,
            layout: Some(self.layout),
            seed: self.seed,
            binding: self.binding.clone(),
            ..Launch::new(self.tool, self.options, self.parts)
        }
    }

    /// All rows, one after the other.
    fn carry(&self, cluster: &Cluster, data: &Stepwise) -> Result<Carried, LabError> {
        let seats = self.launch().seated(cluster, self.layout.nodes)?;
        let target = self.target(self.layout)?;
        let slots = target.mpi.as_ref().and_then(|mpi| Protocol::from(mpi).slots);
        let (mut means, mut excerpts, mut end) = (Vec::new(), Vec::new(), Time::ZERO);
        let mut printed = data.printed(&means);
        for row in &data.rows {
            let part = excerpt(&row.call, &row.algorithm, MOST).ok_or_else(|| {
                let message = format!("{} among {} ranks is too much even without packets", row.algorithm, row.call.ranks);
                LabError::refused(message, "use fewer ranks, or another --algorithm")
            })?;
            let (costs, measured) = self.measure(cluster, &seats, sizes(data, row, &part), row.call.footprint())?;
            let work = LibraryWork {
                nodes: &seats,
                per_node: self.layout.per_node,
                costs: &costs,
                measured,
                packing: data.packing,
                slots,
                footprint: row.call.footprint(),
                queues: Queues::Refused,
            };
            let steps = |rank: u32| steps(data, row, &part, rank);
            let done = library::run(cluster, &work, &steps).map_err(LaunchError::from)?;
            end = end.max(done.end);
            let mean = |timed: &Span| scaled(*timed, part.factor()) / u64::from(row.iterations);
            means.push(done.timed.iter().map(mean).collect());
            excerpts.push(part);
            printed = data.printed(&means);
        }
        Ok(Carried { printed, end, excerpts })
    }

    /// What messages of these sizes cost, and on which nodes that was measured.
    pub fn measure(&self, cluster: &Cluster, seats: &[u32], sizes: Vec<u32>, footprint: Bytes) -> Result<(Costs, [u32; 3]), LabError> {
        let per_node = self.layout.per_node;
        let nodes = self.layout.nodes.min(3);
        let probe = Probe { sizes, per_node, nodes, footprint };
        let target = self.target(Layout { nodes, per_node })?;
        let Some(mpi) = &target.mpi else {
            return Err(LabError::refused(format!("{} needs an MPI library", self.tool.name()), "take a cluster with one"));
        };
        // What is measured is a message over a connection that is there; what making connections takes is told apart.
        let mut mpi = mpi.clone();
        if let Some(connections) = &mut mpi.connections {
            connections.on_first_use = None;
        }
        let world = World::of_hosts(&mpi, &target, nodes * per_node);
        let (probing, mains) = Probing::new(probe, &world);
        let last = seats.len() - 1;
        let places = [0, 1.min(last), last];
        let of_rank = |rank: u32| seats[places[(rank / per_node) as usize]];
        let job = Job::programs((0..nodes * per_node).map(of_rank).collect(), mains);
        PacketEngine.run(cluster, job, &RunOptions::default(), self.seed).map_err(LaunchError::from)?;
        Ok((probing.costs(), places.map(|place| place as u32)))
    }

    /// How far a few ranks are from packets.
    fn compared(&self, cluster: &Cluster) -> String {
        self.compared_with(cluster, |small| {
            let data = small.steps()?.map_err(|what| LabError::refused(what, "use packets"))?;
            Ok(small.carry(cluster, &data)?.printed)
        })
    }

    /// The same, of what `carried` prints without packets.
    pub fn compared_with(&self, cluster: &Cluster, carried: impl Fn(&FlowBench<'_>) -> Result<ToolOutput, LabError>) -> String {
        let layout = Layout { nodes: self.layout.nodes.min(SAMPLE.0), per_node: self.layout.per_node.min(SAMPLE.1) };
        let on = format!("{} x {} ranks", layout.nodes, layout.per_node);
        let small = self.at(layout);
        let flow = || carried(&small);
        let packets = || -> Result<ToolOutput, LabError> { Ok(small.launch().run_on(cluster)?.0) };
        // Whoever cannot go without packets says so before packets run.
        let both = flow().and_then(|flow| Ok((flow, packets()?)));
        match both {
            Ok((flow, packets)) => {
                let apart = |(flow, packets): (&fabriscope_tools::Point, &fabriscope_tools::Point)| {
                    (packets.value > 0.0).then(|| (flow.value / packets.value - 1.0) * 100.0)
                };
                let apart: Vec<f64> = flow.points.iter().zip(&packets.points).filter_map(apart).collect();
                match apart.as_slice() {
                    [] => format!("flow engine: nothing to compare with packets on {on}"),
                    [one] => format!("flow engine: {one:+.1} % against packets on {on}"),
                    all => {
                        let least = all.iter().copied().fold(f64::INFINITY, f64::min);
                        let most = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                        format!("flow engine: {least:+.1} % to {most:+.1} % against packets on {on}")
                    }
                }
            }
            Err(error) => format!("flow engine: not compared with packets on {on}: {error}"),
        }
    }
}

/// What came of all rows.
struct Carried {
    printed: ToolOutput,
    end: Time,
    excerpts: Vec<Excerpt>,
}

/// What a rank does for a row.
fn steps(data: &Stepwise, row: &StepwiseRow, part: &Excerpt, rank: u32) -> Steps {
    let works = row.call.size.0 > 0 || row.call.works_on_nothing();
    let iterations = row.warm_up + row.iterations;
    let (row, part, between) = (row.clone(), part.clone(), data.between.clone());
    let iteration = move |number: u32| -> Steps {
        let timed = number >= row.warm_up;
        let rounds = if works { part.rounds(&row.algorithm, &row.call, rank) } else { Box::new(std::iter::empty()) };
        let after: Steps = match &between {
            Between::Nothing => Box::new(std::iter::empty()),
            Between::Meeting => Box::new(std::iter::once(Step::Meet)),
            Between::Barrier(call, barrier) => Box::new(barrier.outlines(call, rank).map(Step::Round)),
        };
        let begin = timed.then_some(Step::Begin).into_iter();
        Box::new(begin.chain(rounds.map(Step::Round)).chain(timed.then_some(Step::End)).chain(after))
    };
    Box::new((0..iterations).flat_map(iteration))
}

/// The lengths of the messages of a row and of what is between its iterations: of those that are nearly alike, one.
fn sizes(data: &Stepwise, row: &StepwiseRow, part: &Excerpt) -> Vec<u32> {
    let (ranks, per_node) = (row.call.ranks, row.call.per_node);
    let spread = (0..LOOKED_AT).map(|number| (u64::from(number) * u64::from(ranks) / u64::from(LOOKED_AT)) as u32);
    let some = [0, 1, per_node - 1, per_node, ranks / 2, ranks - 1, row.call.root];
    let looked: BTreeSet<u32> = spread.chain(some).filter(|rank| *rank < ranks).collect();
    let mut all: BTreeSet<u64> = BTreeSet::new();
    let mut look = |round: Round| all.extend(round.sends.iter().filter(|message| !message.slot).map(|message| message.piece.bytes.0));
    for rank in looked {
        part.rounds(&row.algorithm, &row.call, rank).for_each(|Outline { round, .. }| look(round));
        if let Between::Barrier(call, barrier) = &data.between {
            barrier.rounds(call, rank).for_each(&mut look);
        }
    }
    unlike(&all)
}

/// Of sizes that are nearly alike, one.
pub(crate) fn unlike(all: &BTreeSet<u64>) -> Vec<u32> {
    let mut kept: Vec<u32> = Vec::new();
    let last = all.last().copied();
    for &size in all {
        let near = kept.last().is_some_and(|before| size.saturating_sub(u64::from(*before)) * NEARLY <= size);
        if !near || Some(size) == last {
            kept.push(u32::try_from(size).unwrap_or(u32::MAX));
        }
    }
    kept.dedup();
    if kept.is_empty() { vec![0] } else { kept }
}

/// A fabric whose routing looks at queues with the shortest paths in its place, and what that was: fluids have no queues.
fn shortest(mut parts: ResolvedCluster) -> (ResolvedCluster, Option<Routing>) {
    let own = parts.routing;
    if !matches!(own.sharing(), Sharing::Load | Sharing::Pause) {
        return (parts, None);
    }
    for routing in [Routing::Ecmp, Routing::Minimal, Routing::Spray] {
        parts.routing = routing;
        if Cluster::new(parts.clone()).is_ok() {
            return (parts, Some(own));
        }
    }
    parts.routing = own;
    (parts, None)
}

fn scaled(span: Span, factor: f64) -> Span {
    if factor <= 1.0 { span } else { Span::from_ps((span.as_ps() as f64 * factor).round() as u64) }
}

/// What was left out of rows, in words.
fn parts_of(data: &Stepwise, excerpts: &[Excerpt]) -> Vec<String> {
    let of_row = |(row, part): (&StepwiseRow, &Excerpt)| {
        let (all, ran) = part.messages;
        part.is_part().then(|| format!("flow engine: at {} bytes {ran} of {all} messages stand for all of them", row.call.size.0))
    };
    data.rows.iter().zip(excerpts).filter_map(of_row).collect()
}

/// Ranks and messages beyond which packets take minutes or gigabytes. Basis: measured, see docs/performance.md.
const RANKS: u32 = 16_384;
const MESSAGES: u64 = 20_000_000;
/// Connections of a rank: a completion queue has 2^22 entries, of which the libraries take up to 1,300 a connection. Basis: estimated.
const PEERS: u64 = 3000;
/// Connections of an adapter, which has room for 2^18 queue pairs. Basis: estimated.
const CONNECTIONS: u64 = 250_000;
/// Messages of a row that run at the most, where others can be left out. Basis: assumed; a few seconds.
const MOST: u64 = 6_000_000;
/// Nodes, and ranks on each, for the comparison with packets. Basis: assumed; packets take a second a row.
const SAMPLE: (u32, u32) = (4, 8);
/// Ranks whose messages are looked at. Basis: assumed.
const LOOKED_AT: u32 = 24;
/// Sizes closer than a fiftieth cost the same. Basis: assumed.
const NEARLY: u64 = 50;
