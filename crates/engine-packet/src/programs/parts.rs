//! Programs of a job in several parts: those of the ranks of each part are made, run and dropped in the thread of the part.
//!
//! Modelled: a barrier of all ranks, for which parts stop ([`Meeting`]); the store of the job is shared and says what is behind fences.

use std::sync::Arc;

use fabriscope_engine::{EngineError, Run};
use fabriscope_node::{Main, Work};
use fabriscope_units::Time;

use super::{AcrossParts, NAMED, Programs};
use crate::workload::{Divided, Meeting, Workload};
use crate::world::World;

/// Programs of a job that have not begun.
pub(crate) struct Mains {
    /// The node of each rank of the job.
    pub homes: Arc<[u32]>,
    /// Ranks of the part, in their order, with their programs.
    pub mains: Vec<(u32, Main)>,
}

impl Divided for Programs {
    fn done(&self) -> bool {
        self.running == 0
    }
    fn failed(&self) -> bool {
        false
    }
    fn meeting(&self) -> Meeting {
        match self.barrier {
            AcrossParts::Alone => Meeting::Nobody,
            AcrossParts::Among { meeting, .. } => meeting,
        }
    }
    fn open(&mut self, world: &mut World<'_>, at: Time) {
        if let AcrossParts::Among { meeting: meeting @ Meeting::There(_), .. } = &mut self.barrier {
            *meeting = Meeting::Expected;
            self.go_on(world, at);
        }
    }
}

impl Workload for Mains {
    type Client = Programs;
    type WorkloadEnd = ProgramsEnd;

    fn begin(self, world: &mut World<'_>) -> Result<Programs, EngineError> {
        let mut programs = Programs::of_part(world, world.cluster, &self.homes, (self.mains, 0))?;
        programs.begin(world);
        world.begin_series();
        Ok(programs)
    }

    fn end(client: Programs) -> ProgramsEnd {
        let slots = &client.slots[..client.ranks];
        ProgramsEnd {
            ranks: slots.iter().map(|slot| (slot.process.rank(), slot.ended, slot.process.take_works())).collect(),
            running: client.running,
            waiting: client.waiting(),
        }
    }
}

/// What is left of the programs of a part: each rank with its end and its work beside the network; who has not ended.
pub(crate) struct ProgramsEnd {
    pub ranks: Vec<(u32, Time, Vec<Work>)>,
    pub running: usize,
    pub waiting: Vec<String>,
}

impl ProgramsEnd {
    /// What the workload knows, of all parts.
    ///
    /// # Errors
    /// Programs that never ended.
    pub fn join(parts: Vec<ProgramsEnd>, at: Time, run: Run) -> Result<Run, EngineError> {
        let mut ranks: Vec<(u32, Time, Vec<Work>)> = Vec::new();
        let (mut waiting, mut who) = (0, Vec::new());
        for mut part in parts {
            ranks.append(&mut part.ranks);
            waiting += part.running;
            who.append(&mut part.waiting);
        }
        if waiting > 0 {
            who.truncate(NAMED);
            return Err(EngineError::Stalled { at, waiting, ranks: ranks.len(), who: who.join("\n") });
        }
        ranks.sort_unstable_by_key(|(rank, ..)| *rank);
        let mut joined = Run { ranks: Vec::with_capacity(ranks.len()), works: Vec::new(), ..run };
        for (_, end, mut works) in ranks {
            joined.ranks.push(end);
            joined.works.append(&mut works);
        }
        joined.end = joined.ranks.iter().copied().max().unwrap_or(Time::ZERO);
        Ok(joined)
    }
}
