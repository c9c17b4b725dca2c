//! A job: what happens, where its ranks are placed, and how their connections are set up. How a run is watched is apart: [`RunOptions`].
//!
//! [`RunOptions`]: crate::RunOptions

use std::fmt;
use std::sync::Arc;

use fabriscope_collectives::Rounds;
use fabriscope_node::{Main, Ties};
use fabriscope_schedule::Schedule;

use crate::connections::Connections;

/// What to run.
#[derive(Debug)]
pub struct Job {
    /// Where the ranks are.
    pub placement: Placement,
    /// How connections between ranks are set up. Programs set up their own.
    pub connections: Connections,
    /// What the ranks do.
    pub work: Work,
}

/// Where the ranks of a job are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// Rank *r* is at adapter *r* / *n*, with a core of its own; adapters are counted over all nodes. Zero and one both mean one.
    PerAdapter(u32),
    /// Rank *r* is on node *r* / *n*.
    PerNode(u32),
    /// The node of each rank.
    Nodes(Vec<u32>),
}

impl Default for Placement {
    fn default() -> Placement {
        Placement::PerAdapter(1)
    }
}

/// What the ranks of a job do.
pub enum Work {
    /// Operations and what they wait for, all known before the run.
    Schedule(Arc<Schedule>),
    /// Rounds of messages that each rank makes when it gets there.
    Rounds(RoundsWork),
    /// Programs that post work requests as they go, one of each rank.
    Programs(ProgramsWork),
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Work::Schedule(schedule) => f.debug_tuple("Schedule").field(&schedule.ranks()).finish(),
            Work::Rounds(rounds) => f.debug_tuple("Rounds").field(&rounds.program.ranks()).finish(),
            Work::Programs(programs) => f.debug_tuple("Programs").field(&programs.mains.len()).field(&programs.ties).finish(),
        }
    }
}

/// Programs, one of each rank.
pub struct ProgramsWork {
    /// What each rank does.
    pub mains: Vec<Main>,
    /// What those of different nodes know of each other.
    pub ties: Ties,
    /// The last so many are beside the job, on the same nodes and fabric: they are none of its ranks, no barrier waits for them, and the
    /// run ends without them.
    pub beside: u32,
}

/// Ranks that say round by round what they do.
#[derive(Clone)]
pub struct RoundsWork {
    /// What each rank does.
    pub program: Arc<dyn RankRounds>,
    /// Whether one rank may run for others that do the same.
    pub folding: Folding,
}

/// Rounds of messages of each rank, such as those of a collective operation.
pub trait RankRounds: Send + Sync {
    /// How many ranks there are.
    fn ranks(&self) -> u32;
    /// The rounds of `rank`, from the first one, whenever asked.
    fn rounds(&self, rank: u32) -> Rounds;
}

/// A collective operation by an algorithm.
impl RankRounds for (fabriscope_collectives::Call, fabriscope_collectives::Algorithm) {
    fn ranks(&self) -> u32 {
        self.0.ranks
    }
    fn rounds(&self, rank: u32) -> Rounds {
        self.1.rounds(&self.0, rank)
    }
}

/// So many ranks, and a function that gives the rounds of each.
impl<F: Fn(u32) -> Rounds + Send + Sync> RankRounds for (u32, F) {
    fn ranks(&self) -> u32 {
        self.0
    }
    fn rounds(&self, rank: u32) -> Rounds {
        (self.1)(rank)
    }
}

/// When to run one rank for its class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Folding {
    /// Where there are at most a quarter as many classes as ranks.
    #[default]
    Auto,
    /// Whatever the number of classes.
    Always,
    /// Every rank runs.
    Never,
}

impl Job {
    /// A schedule with one rank at each adapter.
    #[must_use]
    pub fn schedule(schedule: impl Into<Arc<Schedule>>, connections: Connections) -> Job {
        Job { placement: Placement::default(), connections, work: Work::Schedule(schedule.into()) }
    }
    /// Rounds of so many ranks on each node.
    #[must_use]
    pub fn rounds(program: impl RankRounds + 'static, per_node: u32, folding: Folding) -> Job {
        let work = Work::Rounds(RoundsWork { program: Arc::new(program), folding });
        Job { placement: Placement::PerNode(per_node), connections: Connections::default(), work }
    }
    /// Programs, and the node of each; they may know anything of each other.
    #[must_use]
    pub fn programs(nodes: Vec<u32>, mains: Vec<Main>) -> Job {
        Job::tied(nodes, mains, Ties::Any)
    }
    /// The same, and what programs of different nodes know of each other.
    #[must_use]
    pub fn tied(nodes: Vec<u32>, mains: Vec<Main>, ties: Ties) -> Job {
        let work = Work::Programs(ProgramsWork { mains, ties, beside: 0 });
        Job { placement: Placement::Nodes(nodes), connections: Connections::default(), work }
    }
    /// Programs of a job, and then those that run beside it, each with its node.
    #[must_use]
    pub fn with_beside(mut job: (Vec<u32>, Vec<Main>), beside: Vec<(u32, Main)>) -> Job {
        let count = u32::try_from(beside.len()).unwrap_or(u32::MAX);
        for (node, main) in beside {
            job.0.push(node);
            job.1.push(main);
        }
        let work = Work::Programs(ProgramsWork { mains: job.1, ties: Ties::Any, beside: count });
        Job { placement: Placement::Nodes(job.0), connections: Connections::default(), work }
    }
    /// How many ranks it has.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        match &self.work {
            Work::Schedule(schedule) => schedule.ranks(),
            Work::Rounds(rounds) => rounds.program.ranks(),
            Work::Programs(programs) => (programs.mains.len() as u32).saturating_sub(programs.beside),
        }
    }
}
