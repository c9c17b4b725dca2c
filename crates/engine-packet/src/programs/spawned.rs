//! Programs that ranks start: on cores of adapters, or on further cores of their node.

use std::rc::Rc;

use fabriscope_engine::{EngineError, timing};
use fabriscope_node::process::{RankPlacement, Wait};
use fabriscope_node::{Core, Main, Process, Sockets};
use fabriscope_units::Time;

use super::{Programs, Slot};
use crate::world::World;

/// Programs that others start.
impl Programs {
    /// Starts what `rank` asked for.
    pub(super) fn start_spawned(&mut self, world: &mut World<'_>, index: u32) -> Result<(), EngineError> {
        let spawned = self.slots[index as usize].process.take_spawned();
        if spawned.is_empty() {
            return Ok(());
        }
        let parent = self.slots[index as usize].process.clone();
        let here = spawned.iter().filter(|(core, _)| matches!(core, Core::Adapter(_))).count() as u32;
        let mut memories: Vec<(usize, Option<Rc<Sockets>>)> = Vec::new();
        for (core, main) in spawned {
            let number = self.slots.len() as u32;
            let Core::Adapter(nic) = core else {
                self.start(world, &parent, (parent.now(), parent.beside(number)), main);
                continue;
            };
            let group = world.cluster.group_of(parent.node());
            let parts = world.cluster.seen_by(group);
            let dpu = parts.sole().node.dpu.as_ref().ok_or_else(|| {
                EngineError::Setup(format!(
                    "a program for the cores of `{}`, which has none; use a cluster with a DPU",
                    parts.sole().node.nic.name
                ))
            })?;
            if here > dpu.part.cores {
                let (name, cores) = (&parts.sole().node.nic.name, dpu.part.cores);
                return Err(EngineError::Setup(format!("{here} programs for the {cores} cores of `{name}`; start at most {cores}")));
            }
            let reach = world.cluster.groups[group].reach.as_deref();
            let known = memories.iter().find(|(other, _)| *other == nic).map(|(_, memory)| memory.clone());
            let memory = known.unwrap_or_else(|| reach.and_then(|reach| timing::on_adapter(parts, reach, nic, here)).map(Rc::new));
            memories.push((nic, memory.clone()));
            let process = Process::new(RankPlacement {
                rank: number,
                ranks: self.ranks as u32,
                node: parent.node(),
                lids: (0..parent.nics()).map(|nic| parent.lid(nic)).collect(),
                cpu: dpu.cpu.core(),
                doorbell: timing::doorbell(parts),
                sockets: memory,
                devices: None,
                segments: Rc::clone(parent.segments()),
                noise: None,
            });
            self.start(world, &parent, (world.queue.now(), process), main);
        }
        Ok(())
    }

    fn start(&mut self, world: &mut World<'_>, parent: &Process, (at, process): (Time, Process), main: Main) {
        let number = self.slots.len() as u32;
        process.trace(parent.is_traced());
        let program = main(process.clone());
        self.on_node[parent.node() as usize].push(number);
        self.slot_of.push(number);
        self.slots.push(Slot {
            process,
            program: Some(program),
            wait: Wait::Nothing,
            wake_at: Time::MAX,
            ended: Time::ZERO,
            serves: false,
        });
        self.wake(world, number, at.max(world.queue.now()));
    }
}
