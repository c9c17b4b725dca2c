//! A GPU as a rank of the engine: it joins communicators and runs the kernels that its streams hold.

use std::collections::VecDeque;

use fabriscope_nccl_runtime::{Communicator, Exchange};
use fabriscope_node::{Process, ProgramError};
use fabriscope_units::Bytes;

use super::{Due, Work};
use crate::world::{Key, Shared};

/// Serves GPU `gpu` of the run until all programs have ended.
pub(crate) async fn serve(process: Process, shared: Shared, gpu: u32) -> Result<(), ProgramError> {
    let mut communicator: Option<Communicator> = None;
    let mut running = VecDeque::new();
    loop {
        while let Some(due) = next(&shared, gpu) {
            match due {
                Due::Join(id) => communicator = Some(join(&process, &shared, id).await?),
                Due::Run(call) => {
                    let Some(communicator) = &communicator else { continue };
                    running.push_back((call, launch(communicator, &shared, call)?));
                }
            }
        }
        if shared.world().is_over() {
            return Ok(());
        }
        let key = [Key::Gpu(gpu)];
        shared.world().await_all(process.rank(), &key);
        let is_due = || {
            let world = shared.world();
            world.is_over() || world.gpus.as_ref().is_some_and(|gpus| !gpus.due[gpu as usize].is_empty())
        };
        let ended = match &communicator {
            Some(communicator) => communicator.attend(running.front().map(|(_, turn)| *turn), is_due).await?,
            None => {
                if !is_due() {
                    process.wait_any_until(&[], &[], fabriscope_units::Time::MAX).await;
                    drop(process.take_notes());
                }
                None
            }
        };
        shared.world().await_none(process.rank(), &key);
        if let Some(at) = ended
            && let Some((call, _)) = running.pop_front()
        {
            let mut world = shared.world();
            if let Some(gpus) = &mut world.gpus {
                gpus.calls[call].ended = Some(at);
            }
            world.tell(&process, Key::Kernel(call), process.now());
        }
    }
}

fn next(shared: &Shared, gpu: u32) -> Option<Due> {
    shared.world().gpus.as_mut()?.due[gpu as usize].pop_front()
}

async fn join(process: &Process, shared: &Shared, id: usize) -> Result<Communicator, ProgramError> {
    let formed = shared.world().gpus.as_ref().and_then(|gpus| gpus.communicators[id].formed.clone());
    let formed = formed.ok_or_else(|| ProgramError("a communicator without a plan".to_owned()))?;
    let communicator = Communicator::init(process.clone(), formed.ranks, &formed.wires).await?;
    let mut world = shared.world();
    if let Some(gpus) = &mut world.gpus {
        gpus.communicators[id].joined += 1;
    }
    world.tell(process, Key::Communicator(id), process.now());
    Ok(communicator)
}

fn launch(communicator: &Communicator, shared: &Shared, call: usize) -> Result<fabriscope_nccl_runtime::Turn, ProgramError> {
    let work = shared.world().gpus.as_ref().map(|gpus| gpus.calls[call].work.clone());
    match work {
        Some(Work::Collective { plan, .. }) => communicator.collective(&plan),
        Some(Work::Group(transfers)) => {
            let exchange = |of: &super::Transfer| Exchange { peer: of.peer, sends: of.sends, bytes: Bytes(of.bytes) };
            communicator.group(&transfers.iter().map(exchange).collect::<Vec<_>>())
        }
        None => communicator.group(&[]),
    }
}
