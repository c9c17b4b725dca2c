//! A run from its first event to its last: of a schedule, or of programs.

use crate::programs::Programs;
use crate::transfer::Transferring;
use crate::world::World;
use fabriscope_engine::{EngineError, Run};
use fabriscope_units::Time;

pub(crate) fn run_schedule(mut world: World<'_>, mut transfers: Transferring) -> Result<Run, EngineError> {
    transfers.begin(&mut world)?;
    world.run(&mut transfers)?;
    Transferring::join(vec![transfers], world.queue.now(), world.into_run())
}

pub(crate) fn run_programs(mut world: World<'_>, mut programs: Programs) -> Result<Run, EngineError> {
    programs.begin(&mut world);
    world.run(&mut programs)?;
    programs.check(&world)?;
    let (ranks, works) = (programs.ends(), programs.works());
    Ok(Run { end: ranks.iter().copied().max().unwrap_or(Time::ZERO), ranks, works, ..world.into_run() })
}
