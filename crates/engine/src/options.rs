//! How a run is carried out and watched, apart from what happens in it: cores, taps, counters, and what breaks.

use std::sync::Arc;

use fabriscope_units::Span;

use crate::control::Control;
use crate::fault_plan::FaultPlan;
use crate::sighting::Tap;
use crate::timeline::Timeline;

/// Options of a run. Results depend on none of them but `control`, `faults`, `loss`, `peers`, `deadlock` and `fast_forward`.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// Cores to use for one run; 0 and 1 both mean one.
    pub threads: usize,
    /// Places where every packet is noted: [`Run::sightings`](crate::Run::sightings).
    pub taps: Vec<Tap>,
    /// What ports and adapters count: [`Run::counters`](crate::Run::counters).
    pub counting: Counting,
    /// The job of each endpoint, by number: where ports are counted, links also count what they carry for each job. Packets belong to the
    /// job of the host that they go to; [`NO_JOB`] has none. Empty: jobs are not told apart.
    pub jobs: Arc<[u16]>,
    /// Looks at queues and rates at every step of this length: [`Run::series`](crate::Run::series).
    pub series: Option<Span>,
    /// Where the run tells what happens, while it goes.
    pub timeline: Option<Timeline>,
    /// Who manages the fabric while the run goes.
    pub control: Option<Control>,
    /// Whether the load of each link is noted: [`Run::links`](crate::Run::links).
    pub link_loads: Watch,
    /// Whether start and end of each operation of a schedule are noted: [`Run::ops`](crate::Run::ops).
    pub op_times: Watch,
    /// What breaks: [`Run::breakage`](crate::Run::breakage).
    pub faults: Option<FaultPlan>,
    /// Losses on purpose, for tests of recovery.
    pub loss: Loss,
    /// Whether queue pairs may be missing where packets arrive.
    pub peers: Peers,
    /// What to do with a routing that can deadlock, or of which nobody knows.
    pub deadlock: DeadlockPolicy,
    /// What to do with steady states: [`Run::skipped`](crate::Run::skipped).
    pub fast_forward: FastForward,
}

/// What to do with steady states, in which every window of time is like the one before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FastForward {
    /// Every packet is simulated.
    #[default]
    Never,
    /// The run goes on where they end.
    Steady,
}

/// Whether something is noted during a run (a little slower).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Watch {
    /// It is not.
    #[default]
    Off,
    /// It is.
    On,
}

/// What to do with a routing that can deadlock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DeadlockPolicy {
    /// Refuse the run.
    #[default]
    Refuse,
    /// Run, and see.
    Allow,
}

/// What ports and adapters count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Counting {
    /// Nothing.
    #[default]
    Off,
    /// Sums of ports alone: what a [`Control`] can ask for.
    Ports,
    /// Sums over the whole run.
    Sums,
    /// Sums at the end of every interval of this length.
    Every(Span),
    /// The same, in intervals that double in length whenever there would be more than `most` of them: memory has a bound, however
    /// long the run.
    Sampled {
        /// The length of the first intervals.
        every: Span,
        /// How many there are at most, at least 2.
        most: u32,
    },
}

/// An endpoint without a job, in [`RunOptions::jobs`].
pub const NO_JOB: u16 = u16::MAX;

/// Whether queue pairs are there when packets arrive for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Peers {
    /// They are: where the fabric loses nothing, nobody waits for an answer in vain.
    #[default]
    Lasting,
    /// They may come late, and go: whoever sends keeps a timer.
    Passing,
}

/// Losses on purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Every packet is lost on each link with this probability, in 1/2³².
    Random(u32),
}
