//! Communicators on simulated nodes: one operation carried out by all ranks, when each kernel ended and what it left.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use fabriscope_catalog::{Catalog, FlowControl, ResolvedCluster};
use fabriscope_engine::{Cluster, Engine, Job, Loss, RunOptions};
use fabriscope_engine_packet::PacketEngine;
use fabriscope_fabric::Routing;
use fabriscope_nccl::{Algorithm, Operation, Plan, Protocol, Settings, Tuner};
use fabriscope_nccl_runtime::{Communicator, Exchange, World, connections};
use fabriscope_node::{Main, ProgramError, Record};
use fabriscope_platform::nccl::Library;
use fabriscope_platform::{Binding, Layout, Target};
use fabriscope_units::{Bytes, Span};

fn catalog() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    CATALOG.get_or_init(|| Catalog::embedded().unwrap())
}

pub fn parts(cluster: &str) -> ResolvedCluster {
    catalog().target(cluster).unwrap()
}

/// Nodes of a cluster, a library on them, and variables that users set.
#[derive(Clone)]
pub struct Machine {
    pub parts: ResolvedCluster,
    pub library: Library,
    pub nodes: u32,
    /// Ranks of each node: its first GPUs.
    pub per_node: u32,
    pub variables: Vec<(&'static str, String)>,
    /// What the links lose.
    pub loss: Loss,
}

impl Machine {
    pub fn of(cluster: &str, nodes: u32, per_node: u32) -> Machine {
        let parts = parts(cluster);
        let library = Library::of(&parts).expect("GPUs with a library");
        Machine { parts, library, nodes, per_node, variables: Vec::new(), loss: Loss::None }
    }
    /// Nodes of AMD's GPUs on Ethernet, whose library runs over Ultra Ethernet: each packet takes a path of its own, and what finds no room is lost.
    pub fn over_uet(cluster: &str, nodes: u32, per_node: u32) -> Machine {
        let mut parts = parts(cluster);
        parts.routing = Routing::Spray;
        parts.flow_control = FlowControl::Lossy;
        parts.groups[0].nccl = Some(catalog().software("rccl-anp-uet").unwrap().clone());
        let library = Library::of(&parts).expect("GPUs with a library");
        Machine { library, parts, ..Machine::of(cluster, nodes, per_node) }
    }
    pub fn with(mut self, name: &'static str, value: impl ToString) -> Machine {
        self.variables.push((name, value.to_string()));
        self
    }
    pub fn ranks(&self) -> u32 {
        self.nodes * self.per_node
    }
    pub fn world(&self) -> World {
        let mut settings: Settings = self.library.settings.clone();
        for (name, value) in &self.variables {
            assert_eq!(settings.set(name, value), Ok(true), "{name}={value}");
        }
        let layout = Layout { nodes: self.nodes, per_node: self.per_node };
        let target = Target::of(&self.parts, layout, Binding::default());
        World::new(self.library.clone(), &target, (self.nodes, self.per_node), &settings).unwrap()
    }
    /// Packets that switches trimmed.
    fn run(&self, mains: Vec<Main>) -> Result<u64, String> {
        let nodes = (0..self.ranks()).map(|rank| rank / self.per_node).collect();
        let cluster = Cluster::new(self.parts.clone()).unwrap();
        let run = PacketEngine.run(&cluster, Job::programs(nodes, mains), &RunOptions { loss: self.loss, ..RunOptions::default() }, 1);
        run.map(|run| run.stats.trims).map_err(|error| error.to_string())
    }
}

/// A collective operation of `count` elements of 4 bytes in a block, by an algorithm with a protocol.
#[derive(Debug, Clone, Copy)]
pub struct Collective {
    pub operation: Operation,
    pub algorithm: Algorithm,
    pub protocol: Protocol,
    pub count: u64,
    pub root: u32,
    pub in_place: bool,
}

pub fn ring(operation: Operation, protocol: Protocol, count: u64) -> Collective {
    Collective { operation, algorithm: Algorithm::Ring, protocol, count, root: 0, in_place: false }
}

/// What ranks saw of one operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// From the call, out of a barrier, until the host of each rank goes on, by rank.
    pub hosts: Vec<Span>,
    /// Bytes that were kept with wrong contents, on all nodes.
    pub wrong: Bytes,
    /// Channels in use.
    pub channels: usize,
    /// Packets that switches trimmed.
    pub trims: u64,
}

impl Seen {
    pub fn slowest(&self) -> Span {
        self.hosts.iter().copied().max().unwrap_or_default()
    }
}

type Shared = Record<(Vec<Span>, Bytes)>;

async fn note<F>(c: Communicator, seen: Shared, call: F) -> Result<(), ProgramError>
where
    F: Fn(&Communicator) -> Result<u64, ProgramError>,
{
    // The first sets up what is set up once; the second counts.
    for turn in 0..2 {
        c.barrier().await?;
        let begun = c.now();
        let kernel = call(&c)?;
        c.synchronise(kernel).await?;
        if turn == 1 {
            seen.lock().0[c.rank() as usize] = c.now().since(begun);
        }
    }
    c.barrier().await?;
    if c.is_first() {
        seen.lock().1 += c.wrong();
    }
    Ok(())
}

/// Carries out operations one after the other in one kernel each; the times are those of all of them together.
pub fn collectives(machine: &Machine, all: &[Collective]) -> Result<Seen, String> {
    let world = machine.world();
    let tuner = Tuner::new(world.plan());
    let element = Bytes(4);
    let plans: Result<Vec<Arc<Plan>>, _> = all
        .iter()
        .map(|case| {
            let counted = matches!(case.operation, Operation::AllGather | Operation::Broadcast);
            let count = if counted { case.count * 4 } else { case.count };
            let choice = tuner.with(case.operation, case.algorithm, case.protocol, Bytes(4 * case.count.max(1)))?;
            Plan::new(world.plan(), choice, count, element, case.root, case.in_place).map(Arc::new)
        })
        .collect();
    let plans: Vec<Arc<Plan>> = plans.map_err(|error| error.to_string())?;
    let ways = connections(&world, plans.iter().map(|plan| &**plan));
    let seen: Shared = Record::new((vec![Span::ZERO; machine.ranks() as usize], Bytes::ZERO));
    let main = |_| -> Main {
        let (world, ways, plans, seen) = (world.clone(), ways.clone(), plans.clone(), seen.clone());
        Box::new(move |process| {
            Box::pin(async move {
                let c = Communicator::init(process, world, &ways).await?;
                let call = move |c: &Communicator| {
                    let mut last = 0;
                    for plan in &plans {
                        last = c.collective(plan)?;
                    }
                    Ok(last)
                };
                note(c, seen, call).await
            })
        })
    };
    let trims = machine.run((0..machine.ranks()).map(main).collect())?;
    let (hosts, wrong) = seen.take();
    Ok(Seen { hosts, wrong, channels: plans.iter().map(|plan| plan.parts.len()).max().unwrap_or(0), trims })
}

pub fn collective(machine: &Machine, case: Collective) -> Seen {
    collectives(machine, &[case]).unwrap_or_else(|error| panic!("{case:?}: {error}"))
}

/// Carries out a group of sends and receives on every rank: `exchanges` of (rank, ranks).
pub fn group(machine: &Machine, exchanges: impl Fn(u32, u32) -> Vec<Exchange>) -> Result<Seen, String> {
    let world = machine.world();
    let ranks = machine.ranks();
    let all: Vec<Vec<Exchange>> = (0..ranks).map(|rank| exchanges(rank, ranks)).collect();
    let sends = |rank: u32| all[rank as usize].iter().filter(|exchange| exchange.sends).map(move |exchange| (rank, exchange.peer));
    let senders: Vec<(u32, u32)> = (0..ranks).flat_map(sends).collect();
    let lengths: BTreeSet<u64> = all.iter().flatten().map(|exchange| exchange.bytes.0).collect();
    let lengths: Vec<Bytes> = lengths.into_iter().map(Bytes).collect();
    let seen: Shared = Record::new((vec![Span::ZERO; ranks as usize], Bytes::ZERO));
    let main = |rank: u32| -> Main {
        let (world, senders, lengths, seen, own) =
            (world.clone(), senders.clone(), lengths.clone(), seen.clone(), all[rank as usize].clone());
        Box::new(move |process| {
            Box::pin(async move {
                let c = Communicator::init_pairs(process, world, &senders, &lengths).await?;
                note(c, seen, move |c: &Communicator| c.group(&own)).await
            })
        })
    };
    let trims = machine.run((0..ranks).map(main).collect())?;
    let (hosts, wrong) = seen.take();
    Ok(Seen { hosts, wrong, channels: 0, trims })
}
