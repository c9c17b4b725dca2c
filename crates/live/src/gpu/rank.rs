//! A GPU as a rank of the engine: it joins communicators and runs the kernels that its streams hold.

use std::collections::BTreeMap;

use fabriscope_nccl_runtime::{Communicator, Exchange, StreamId, Turn};
use fabriscope_node::{Process, ProgramError};
use fabriscope_units::{Bytes, Time};

use super::{Call, Due, Formed, Gpus, Work};
use crate::world::{Key, Shared};

/// A GPU at work.
struct Gpu {
    process: Process,
    shared: Shared,
    number: u32,
    communicators: BTreeMap<usize, Communicator>,
    /// Calls that come behind others which are not in their streams yet, in order.
    held: Vec<usize>,
    /// Calls whose kernels have not ended.
    running: Vec<(usize, usize, Turn)>,
}

/// Serves GPU `number` of the run until all programs have ended.
pub(crate) async fn serve(process: Process, shared: Shared, number: u32) -> Result<(), ProgramError> {
    let mut gpu = Gpu { process, shared, number, communicators: BTreeMap::new(), held: Vec::new(), running: Vec::new() };
    loop {
        while let Some(due) = gpu.next() {
            gpu.carry_out(due).await?;
            gpu.launch_held()?;
        }
        gpu.launch_held()?;
        if gpu.shared.world().is_over() {
            return Ok(());
        }
        gpu.attend().await?;
        gpu.note_ended();
    }
}

impl Gpu {
    fn with_gpus<R: Default>(&self, use_them: impl FnOnce(&mut Gpus) -> R) -> R {
        self.shared.world().gpus.as_mut().map(use_them).unwrap_or_default()
    }
    fn next(&self) -> Option<Due> {
        self.with_gpus(|gpus| gpus.due[self.number as usize].pop_front())
    }
    /// Tells GPUs that have something to do.
    fn tell_due(&self) {
        self.shared.world().tell_gpus(&self.process);
    }

    async fn carry_out(&mut self, due: Due) -> Result<(), ProgramError> {
        match due {
            Due::Open(id) => {
                let Some(formed) = self.formed(id) else { return Ok(()) };
                self.communicators.insert(id, Communicator::open(self.process.clone(), formed.ranks, &formed.wires)?);
                if self.with_gpus(|gpus| gpus.opened(id)) {
                    self.tell_due();
                }
            }
            Due::Connect(id) => {
                let Some(formed) = self.formed(id) else { return Ok(()) };
                if let Some(communicator) = self.communicators.get_mut(&id) {
                    communicator.connect(&formed.wires).await?;
                }
                self.with_gpus(|gpus| gpus.communicators[id].joined += 1);
                self.shared.world().tell(&self.process, Key::Communicator(id), self.process.now());
            }
            Due::Run(call) => self.held.push(call),
            Due::Abort(id) => {
                if let Some(communicator) = self.communicators.get(&id) {
                    communicator.abort();
                }
                let held = std::mem::take(&mut self.held);
                let (aborted, held): (Vec<_>, Vec<_>) =
                    held.into_iter().partition(|call| self.with_gpus(|gpus| gpus.calls[*call].communicator == id));
                self.held = held;
                aborted.into_iter().for_each(|call| self.end(call, self.process.engine_time()));
                self.note_ended();
            }
            Due::Close(id) => drop(self.communicators.remove(&id)),
        }
        Ok(())
    }

    /// The plan of a communicator; nothing where all have left it again.
    fn formed(&self, id: usize) -> Option<Formed> {
        self.with_gpus(|gpus| gpus.communicators[id].formed.clone())
    }

    /// Puts calls into their streams as far as those are there which they come behind.
    fn launch_held(&mut self) -> Result<(), ProgramError> {
        let mut launched = false;
        for call in std::mem::take(&mut self.held) {
            if !self.with_gpus(|gpus| gpus.can_launch(call)) {
                self.held.push(call);
                continue;
            }
            launched |= self.launch(call)?;
        }
        let (own, waits) = (self.number, !self.held.is_empty());
        self.with_gpus(|gpus| if waits { gpus.held.insert(own) } else { gpus.held.remove(&own) });
        if launched {
            let others: Vec<u32> = self.with_gpus(|gpus| gpus.held.iter().copied().filter(|other| *other != own).collect());
            let mut world = self.shared.world();
            others.into_iter().for_each(|other| world.tell(&self.process, Key::Gpu(other), self.process.now()));
        }
        Ok(())
    }

    fn launch(&mut self, call: usize) -> Result<bool, ProgramError> {
        let found = self.with_gpus(|gpus| {
            let of = gpus.calls.get(call)?.clone();
            let behind = |before: &usize| {
                let Call { communicator, member, launched, ended, .. } = &gpus.calls[*before];
                let stream = StreamId { gpu: member.at.gpu, stream: *communicator as u32 };
                Some((stream, (*launched)?)).filter(|_| ended.is_none() && *communicator != of.communicator)
            };
            let behind: Vec<(StreamId, Turn)> = of.before.iter().filter_map(behind).collect();
            Some((of, behind))
        });
        let Some((Call { communicator: id, work, .. }, behind)) = found else { return Ok(false) };
        let Some(communicator) = self.communicators.get(&id) else { return Ok(false) };
        // One thread calls all.
        let called = self.communicators.values().map(Communicator::now).max().unwrap_or_default();
        communicator.compute(called.since(communicator.now()));
        communicator.wait_for(behind);
        let turn = match work {
            Work::Collective { plan, .. } => communicator.collective(&plan)?,
            Work::Group(transfers) => {
                let exchange = |of: &super::Transfer| Exchange { peer: of.peer, sends: of.sends, bytes: Bytes(of.bytes) };
                communicator.group(&transfers.iter().map(exchange).collect::<Vec<_>>())?
            }
            Work::All(_) => communicator.group(&[])?,
        };
        self.running.push((call, id, turn));
        self.with_gpus(|gpus| gpus.calls[call].launched = Some(turn));
        Ok(true)
    }

    /// Works on until a kernel has ended or something is due.
    async fn attend(&mut self) -> Result<(), ProgramError> {
        let (process, key) = (&self.process, [Key::Gpu(self.number)]);
        self.shared.world().await_all(process.rank(), &key);
        let is_due = || {
            let world = self.shared.world();
            let due = |gpus: &Gpus| !gpus.due[self.number as usize].is_empty() || self.held.iter().any(|call| gpus.can_launch(*call));
            world.is_over() || world.gpus.as_ref().is_some_and(due)
        };
        let all: Vec<&Communicator> = self.communicators.values().collect();
        let places: BTreeMap<usize, usize> = self.communicators.keys().copied().zip(0..).collect();
        let turns: Vec<(usize, Turn)> = self.running.iter().filter_map(|(_, id, turn)| Some((*places.get(id)?, *turn))).collect();
        if !all.is_empty() {
            Communicator::attend(&all, &turns, is_due).await?;
        } else if !is_due() {
            process.wait_any_until(&[], &[], Time::MAX).await;
            drop(process.take_notes());
        }
        self.shared.world().await_none(process.rank(), &key);
        Ok(())
    }

    /// Tells of kernels that have ended by now.
    fn note_ended(&mut self) {
        let now = self.process.engine_time();
        for (call, id, turn) in std::mem::take(&mut self.running) {
            let ended = self.communicators.get(&id).and_then(|communicator| communicator.ended(turn));
            match ended.filter(|at| *at <= now) {
                Some(at) => self.end(call, at),
                None => self.running.push((call, id, turn)),
            }
        }
    }
    fn end(&self, call: usize, at: Time) {
        let mut world = self.shared.world();
        if let Some(gpus) = &mut world.gpus {
            gpus.end(call, at);
        }
        world.tell(&self.process, Key::Kernel(call), self.process.now());
        world.tell_gpus(&self.process);
    }
}
