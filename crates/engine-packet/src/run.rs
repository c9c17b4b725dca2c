//! A run from its first event to its last: of a schedule, or of programs.

use crate::host::Host;
use crate::programs::{Mains, Programs, ProgramsEnd};
use crate::series::Sampler;
use crate::transfer::Transferring;
use crate::windows::{self, Until};
use crate::world::World;
use fabriscope_engine::{EngineError, Run};
use fabriscope_units::Time;
use rustc_hash::{FxHashMap, FxHashSet};

pub(crate) fn run_schedule(mut world: World<'_>, mut transfers: Transferring) -> Result<Run, EngineError> {
    transfers.begin(&mut world)?;
    world.begin_series();
    world.run(&mut transfers)?;
    Transferring::join(vec![transfers], world.queue.now(), world.into_run())
}

pub(crate) fn run_programs(mut world: World<'_>, mut programs: Programs) -> Result<Run, EngineError> {
    programs.begin(&mut world);
    world.begin_series();
    world.run(&mut programs)?;
    programs.check(&world)?;
    let (ranks, works) = (programs.ends(), programs.works());
    Ok(Run { end: ranks.iter().copied().max().unwrap_or(Time::ZERO), ranks, works, ..world.into_run() })
}

/// Runs a schedule whose parts have been set up, on up to `threads` cores.
pub(crate) fn run_schedule_apart(mut parts: Vec<(World<'_>, Transferring)>, threads: usize) -> Result<Run, EngineError> {
    for (world, transfers) in &mut parts {
        transfers.begin(world)?;
        world.begin_series();
    }
    join(windows::advance(parts, threads, Until::Done)?)
}

/// Runs programs that have been set up, those of each part in its thread, on up to `threads` cores.
pub(crate) fn run_programs_apart(parts: Vec<(World<'_>, Mains)>, threads: usize) -> Result<Run, EngineError> {
    let (worlds, ends): (Vec<_>, Vec<_>) = windows::advance(parts, threads, Until::Done)?.into_iter().unzip();
    let (run, at) = join_worlds(worlds);
    ProgramsEnd::join(ends, at, run)
}

/// One result of all parts of a schedule.
pub(crate) fn join(parts: Vec<(World<'_>, Transferring)>) -> Result<Run, EngineError> {
    let (worlds, states): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
    let (run, at) = join_worlds(worlds);
    Transferring::join(states, at, run)
}

/// One result of all parts but for what their workloads know, and when the last event happened.
pub(crate) fn join_worlds(mut worlds: Vec<World<'_>>) -> (Run, Time) {
    let ending = Ending::of(worlds.iter_mut());
    let mut run = Run::default();
    for world in worlds {
        let one = world.into_run_with(&ending);
        run.stats.add(&one.stats);
        run.links.extend(one.links);
        run.sightings.extend(one.sightings);
        match (&mut run.counters, one.counters) {
            (Some(all), Some(more)) => all.absorb(more),
            (all, more) => *all = more,
        }
        crate::events::faults::absorb(&mut run.breakage, one.breakage);
        match (&mut run.series, one.series) {
            (Some(all), Some(more)) => all.absorb(more),
            (all, more) => *all = more,
        }
    }
    run.links.sort_unstable_by_key(|load| load.link);
    crate::events::observe::sort(&mut run.sightings);
    (run, ending.at)
}

/// What is known of all parts when a run is over.
pub(crate) struct Ending {
    /// When the last event happened.
    pub(crate) at: Time,
    /// Who sends to a queue pair, where anything is tapped.
    pub(crate) senders: FxHashMap<(u32, u32), u32>,
    /// Link and time of arrivals that came to nothing, where anything is tapped.
    pub(crate) lost: FxHashSet<(u32, Time)>,
}

impl Ending {
    /// What `parts` know together.
    pub(crate) fn of<'a, 'b: 'a>(parts: impl Iterator<Item = &'a mut World<'b>>) -> Ending {
        let mut ending = Ending { at: Time::ZERO, senders: FxHashMap::default(), lost: FxHashSet::default() };
        for world in parts {
            ending.at = ending.at.max(world.queue.now());
            if let Some(observer) = &mut world.watch.observer {
                ending.senders.extend(std::mem::take(&mut observer.senders));
                ending.lost.extend(std::mem::take(&mut observer.lost));
            }
        }
        ending
    }
}

impl World<'_> {
    /// The result, but for what the workload knows.
    pub(crate) fn into_run(mut self) -> Run {
        let ending = Ending::of(std::iter::once(&mut self));
        self.into_run_with(&ending)
    }

    /// The same of one of several parts.
    pub(crate) fn into_run_with(mut self, ending: &Ending) -> Run {
        self.observe_outages(ending.at);
        let (links, sightings, breakage) = (self.link_loads(ending.at), self.sightings(ending), self.breakage(ending.at));
        self.watch.stats.queue_pairs = self.hosts.iter_mut().map(|host| u64::from(host.nic().queue_pairs())).max().unwrap_or(0);
        self.watch.stats.context_misses = self.hosts.iter().map(|host| host.pipeline.context_misses()).sum();
        self.watch.stats.pkey_violations += self.hosts.iter().map(Host::pkey_violations).sum::<u64>();
        let series = self.watch.observer.as_mut().and_then(|observer| observer.series.take()).and_then(Sampler::into_series);
        let counters = self.watch.observer.and_then(|observer| observer.into_counters());
        Run {
            end: ending.at,
            stats: self.watch.stats,
            links,
            traces: self.watch.trace.into_traces(),
            breakage,
            sightings,
            counters,
            series,
            ..Run::default()
        }
    }
}
