//! A job and the options of its run, as the set-up of this engine reads them.

use std::collections::BTreeSet;
use std::sync::Arc;

use fabriscope_collectives::schedule;
use fabriscope_engine::{
    Cluster, Connections, Control, Counting, DeadlockPolicy, EngineError, FastForward, FaultPlan, Job, Library, Loss, PacketOrder, Peers,
    Placement, Prepared, ProgramsWork, RankRounds, Recovery, Run, RunOptions, Service, Spraying, Tap, Timeline, Watch, Work,
};
use fabriscope_node::Ties;
use fabriscope_schedule::Schedule;
use fabriscope_units::{Rate, Remedy, Span};

use crate::host::TimerUse;
use crate::programs::{Mains, Programs};
use crate::transfer::Transferring;
use crate::world::World;
use crate::{fast_forward, on_demand, run, setup};

/// Everything that the set-up of a run asks for beside the cluster and the work.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scenario {
    pub loss: Loss,
    pub peers: Peers,
    pub faults: Option<FaultPlan>,
    pub link_loads: bool,
    pub taps: Vec<Tap>,
    pub counting: Counting,
    pub jobs: Arc<[u16]>,
    pub series: Option<Span>,
    pub timeline: Option<Timeline>,
    pub control: Option<Control>,
    pub times: bool,
    pub transfers: Transfers,
    pub levels: Vec<((u32, u32), u8)>,
    pub pkeys: Vec<((u32, u32), u16)>,
    pub rates: Vec<((u32, u32), Rate)>,
    pub libraries: Vec<(u32, Library)>,
    pub allow_deadlock: bool,
    pub threads: usize,
    pub fast_forward: FastForward,
}

/// How queue pairs of a schedule are set up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Transfers {
    pub service: Service,
    /// Receivers accept packets in any order.
    pub any_order: bool,
    /// Senders give every packet of a message its own path.
    pub spray: bool,
    /// The service level of all connections, but for those of [`Scenario::levels`].
    pub level: u8,
    /// Retransmission settings, if not the defaults.
    pub recovery: Recovery,
    /// The P_Key of all connections but for those of [`Scenario::pkeys`], without the bit of membership.
    pub pkey: u16,
    /// The rate that connections keep to, but for those of [`Scenario::rates`].
    pub rate: Option<Rate>,
    /// Ranks that share an adapter; 0 and 1 both mean one.
    pub per_host: u32,
    /// The library that carries the messages; without one, ranks post to the verbs themselves.
    pub library: Option<Library>,
}

impl Transfers {
    pub(crate) fn per_host(&self) -> u32 {
        self.per_host.max(1)
    }
}

impl Scenario {
    pub(crate) fn new(placement: &Placement, connections: Connections, options: &RunOptions) -> Scenario {
        let Connections { service, order, spraying, level, pkey, rate, recovery, library, libraries, levels, pkeys, rates } = connections;
        let per_host = match placement {
            Placement::PerAdapter(count) => *count,
            Placement::PerNode(_) | Placement::Nodes(_) => 1,
        };
        let RunOptions {
            threads,
            taps,
            counting,
            jobs,
            series,
            timeline,
            control,
            link_loads,
            op_times,
            faults,
            loss,
            peers,
            deadlock,
            fast_forward,
        } = options.clone();
        let (any_order, spray) = (order == PacketOrder::Any, spraying == Spraying::PerPacket);
        Scenario {
            loss,
            peers,
            faults,
            link_loads: link_loads == Watch::On,
            taps,
            counting,
            jobs,
            series,
            timeline,
            control,
            times: op_times == Watch::On,
            transfers: Transfers { service, any_order, spray, level, recovery, pkey, rate, per_host, library },
            levels,
            pkeys,
            rates,
            libraries,
            allow_deadlock: deadlock == DeadlockPolicy::Allow,
            threads: threads.max(1),
            fast_forward,
        }
    }

    /// A schedule whose queue pairs are connected and whose receives are posted.
    pub(crate) fn connect<'a>(&self, cluster: &'a Cluster, schedule: &Schedule, seed: u64) -> Result<Transfer<'a>, EngineError> {
        let mut worlds = self.worlds(cluster, seed)?;
        let transfers = Transferring::new(&mut worlds, schedule, self.transfers, self.times)?;
        let forward = match self.fast_forward {
            FastForward::Never => None,
            FastForward::Steady => Some(fast_forward::refusal(self, &worlds[0])),
        };
        Ok(Transfer { parts: worlds.into_iter().zip(transfers).collect(), threads: self.threads.max(1), forward })
    }

    /// Rounds of ranks that make them as they go.
    pub(crate) fn live<'a>(&self, cluster: &'a Cluster, program: &Arc<dyn RankRounds>, seed: u64) -> Result<Transfer<'a>, EngineError> {
        if self.fast_forward != FastForward::Never {
            // What skips knows all operations.
            return self.connect(cluster, &of_rounds(program.as_ref())?, seed);
        }
        let mut worlds = self.worlds(cluster, seed)?;
        let transfers = match worlds[0].hosts.timers {
            // Some class of the fabric drops packets.
            TimerUse::Sending => Transferring::new(&mut worlds, &of_rounds(program.as_ref())?, self.transfers, self.times)?,
            TimerUse::Refusals | TimerUse::Everything => Transferring::live(&mut worlds, program, self.transfers)?,
        };
        Ok(Transfer { parts: worlds.into_iter().zip(transfers).collect(), threads: self.threads.max(1), forward: None })
    }

    /// The parts of a run with connections.
    fn worlds<'a>(&self, cluster: &'a Cluster, seed: u64) -> Result<Vec<World<'a>>, EngineError> {
        match self.transfers.service {
            // What a packet of a library holds, its receiver looks up at its sender: both are in one part.
            Service::Ud => Ok(vec![setup::world(self, cluster, seed)?]),
            // The same holds of the tags of messages that carry none.
            _ if cluster.parts.groups.iter().any(|group| group.node.nic.iwarp.is_some()) => Ok(vec![setup::world(self, cluster, seed)?]),
            // Stages of a message are noted where it is, which is one part.
            _ if self.timeline.is_some() => Ok(vec![setup::world(self, cluster, seed)?]),
            // A run that skips is moved on as a whole.
            _ if self.fast_forward != FastForward::Never => Ok(vec![setup::world(self, cluster, seed)?]),
            _ => setup::worlds(self, cluster, seed),
        }
    }

    /// Programs at rest on their cores.
    pub(crate) fn start<'a>(
        &self,
        cluster: &'a Cluster,
        homes: Vec<u32>,
        work: ProgramsWork,
        seed: u64,
    ) -> Result<Started<'a>, EngineError> {
        let ties = if work.beside > 0 { Ties::Any } else { work.ties };
        let mut worlds = match ties {
            Ties::Fences if self.timeline.is_none() && self.control.is_none() => setup::worlds_of_programs(self, cluster, &homes, seed)?,
            Ties::Fences | Ties::Any => vec![setup::world(self, cluster, seed)?],
        };
        if worlds.len() == 1 {
            let world = worlds.swap_remove(0);
            let programs = Programs::with_beside(&world, cluster, &homes, (work.mains, work.beside))?;
            return Ok(Started::Whole(Box::new((world, programs))));
        }
        let homes: Arc<[u32]> = homes.into();
        let mut parts: Vec<_> = worlds.into_iter().map(|world| (world, Mains { homes: Arc::clone(&homes), mains: Vec::new() })).collect();
        for (rank, (node, main)) in (0..).zip(homes.iter().zip(work.mains)) {
            let adapters = cluster.parts.endpoints_of(*node);
            let part = adapters.and_then(|adapters| parts[0].0.layout.part_of_host(adapters.start));
            let part = part.ok_or(EngineError::NoSuchNode { rank, node: *node, nodes: cluster.parts.nodes() })?;
            parts[part as usize].1.mains.push((rank, main));
        }
        Ok(Started::Apart { parts, threads: self.threads })
    }
}

/// A schedule that is ready to run, in one part or in several.
pub(crate) struct Transfer<'a> {
    pub(crate) parts: Vec<(World<'a>, Transferring)>,
    threads: usize,
    /// Steady states are skipped, or why they cannot be.
    forward: Option<Option<String>>,
}

impl Prepared for Transfer<'_> {
    fn run(self: Box<Self>) -> Result<Run, EngineError> {
        let Transfer { mut parts, threads, forward } = *self;
        match parts.len() {
            1 => {
                let (world, transfers) = parts.swap_remove(0);
                match forward {
                    None => run::run_schedule(world, transfers),
                    Some(refused) => fast_forward::run_schedule(world, transfers, refused),
                }
            }
            _ => run::run_schedule_apart(parts, threads),
        }
    }
}

/// Programs that are ready to run, in one part or in several.
pub(crate) enum Started<'a> {
    Whole(Box<(World<'a>, Programs)>),
    Apart { parts: Vec<(World<'a>, Mains)>, threads: usize },
}

impl Prepared for Started<'_> {
    fn run(self: Box<Self>) -> Result<Run, EngineError> {
        match *self {
            Started::Whole(whole) => run::run_programs(whole.0, whole.1),
            Started::Apart { parts, threads } => run::run_programs_apart(parts, threads),
        }
    }
}

/// Everything that comes before the first event of a job.
pub(crate) fn prepare<'a>(cluster: &'a Cluster, job: Job, options: &RunOptions, seed: u64) -> Result<Box<dyn Prepared + 'a>, EngineError> {
    let Job { placement, connections, work } = job;
    let scenario = Scenario::new(&placement, connections, options);
    let schedule = match work {
        Work::Schedule(schedule) => schedule,
        Work::Rounds(work) if on_demand::suits(&cluster.parts, &scenario) => {
            return Ok(Box::new(scenario.live(cluster, &work.program, seed)?));
        }
        Work::Rounds(work) => Arc::new(of_rounds(work.program.as_ref())?),
        Work::Programs(work) => {
            let nodes = nodes(placement, work.mains.len());
            return Ok(Box::new(scenario.start(cluster, nodes, work, seed)?));
        }
    };
    Ok(Box::new(scenario.connect(cluster, &schedule, seed)?))
}

/// The node of each of `ranks` programs.
fn nodes(placement: Placement, ranks: usize) -> Vec<u32> {
    match placement {
        Placement::Nodes(nodes) => nodes,
        Placement::PerNode(count) | Placement::PerAdapter(count) => (0..ranks as u32).map(|rank| rank / count.max(1)).collect(),
    }
}

/// The rounds of all ranks as one schedule.
fn of_rounds(program: &dyn RankRounds) -> Result<Schedule, EngineError> {
    schedule(program.ranks(), |rank| program.rounds(rank)).map_err(|error| EngineError::Schedule(error.in_full()))
}

/// How many messages ranks exchange, and how many pairs of them, judged by three ranks.
pub(crate) fn exchanged(program: &dyn RankRounds) -> (u64, u64) {
    let ranks = program.ranks();
    let of = |rank: u32| {
        let mut peers = BTreeSet::new();
        let mut messages = 0u64;
        for round in program.rounds(rank) {
            messages += round.sends.len() as u64;
            peers.extend(round.sends.iter().map(|send| send.peer));
        }
        (messages, peers.len() as u64)
    };
    let sample = [0, ranks / 3, ranks.saturating_sub(1)];
    let most = |most: (u64, u64), this: (u64, u64)| (most.0.max(this.0), most.1.max(this.1));
    let (messages, peers) = sample.into_iter().map(of).fold((0, 0), most);
    (messages * u64::from(ranks), peers * u64::from(ranks))
}
