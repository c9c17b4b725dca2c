//! A run from its first event to its last: of a schedule, or of programs.

use crate::events::observe;
use crate::host::Host;
use crate::programs::Programs;
use crate::series::Sampler;
use crate::transfer::Transferring;
use crate::world::World;
use fabriscope_engine::{EngineError, Run};
use fabriscope_units::Time;
use rustc_hash::FxHashMap;

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

impl World<'_> {
    /// The result, but for what the workload knows.
    pub(crate) fn into_run(mut self) -> Run {
        let senders = observe::senders(std::iter::once(&mut self));
        self.into_run_with(&senders)
    }

    /// The same of one of several parts; `senders` are those of all of them.
    pub(crate) fn into_run_with(mut self, senders: &FxHashMap<(u32, u32), u32>) -> Run {
        self.observe_outages();
        let (links, sightings, breakage) = (self.link_loads(), self.sightings(senders), self.breakage());
        self.watch.stats.queue_pairs = self.hosts.iter_mut().map(|host| u64::from(host.nic().queue_pairs())).max().unwrap_or(0);
        self.watch.stats.context_misses = self.hosts.iter().map(|host| host.pipeline.context_misses()).sum();
        self.watch.stats.pkey_violations += self.hosts.iter().map(Host::pkey_violations).sum::<u64>();
        let series = self.watch.observer.as_mut().and_then(|observer| observer.series.take()).map(Sampler::into_series);
        let counters = self.watch.observer.and_then(|observer| observer.into_counters());
        Run {
            end: self.queue.now(),
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
