//! Operations that switches carry out: a rank's group, and the rounds that ask for it.
//!
//! Source: HCOLL and MVAPICH2 with SHARP, over libsharp: the library packs short vectors into a buffer of its own, long ones stream from
//! where they are.
//! Modelled: what a send and a receive cost the core, copies of short vectors, the progress of other messages meanwhile.
//! Not modelled: groups of libraries without verbs (PSM2, sockets).

use fabriscope_collectives::Joint;
use fabriscope_node::ProgramError;
use fabriscope_node::aggregation::{Group, GroupError, Member, Reduction, Region, Rules};
use fabriscope_units::{Bytes, Remedy};
use fabriscope_verbs::{CqId, Denied, Wc};
use fabriscope_wire::{Collective, Element, Reducer, Task};

use super::rank::Rank;

/// A rank's group, and what its vectors are made of.
pub(super) struct InNetwork {
    group: Group,
    element: Element,
    region: Region,
    rules: Rules,
}

/// An operation that the network has begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct NetworkOperation {
    reduction: Reduction,
    /// Bytes that the library copies back.
    copied: Bytes,
}

impl Rank {
    /// Joins a group of ranks whose operations switches carry out; every member has to. Without verbs of its own a library has none.
    ///
    /// # Errors
    /// A queue pair that cannot be made; inside, why there is no group.
    pub async fn join_network(&self, member: Member, rules: Rules, element: Element) -> Result<Result<(), Denied>, ProgramError> {
        let rail = self.state.borrow().rails.first().map(|rail| (rail.nic, rail.pd, rail.user, rail.mr.lkey));
        let Some((nic, pd, addr, lkey)) = rail else { return Ok(Err(Denied::NoUnit)) };
        match Group::join(&self.process, nic, pd, member, rules).await.map_err(told)? {
            Ok(group) => {
                let region = Region { addr, lkey };
                *self.network.borrow_mut() = Some(InNetwork { group, element, region, rules });
                Ok(Ok(()))
            }
            Err(denied) => Ok(Err(denied)),
        }
    }

    /// Begins what a round asks of the network.
    pub(super) fn ask_network(&self, joint: &Joint) -> Result<NetworkOperation, ProgramError> {
        let network = &mut *self.network.borrow_mut();
        let none = || ProgramError("a round asks the network, and this rank has no group; join one, or take another algorithm".to_owned());
        let InNetwork { group, element, region, rules } = network.as_mut().ok_or_else(none)?;
        let bytes = u32::try_from(joint.to.bytes.0).map_err(|_| ProgramError("a vector of 4 GiB or more; use smaller ones".to_owned()))?;
        let reducer = if joint.collective == Collective::Bcast { Reducer::Or } else { Reducer::Sum };
        let task = Task { collective: joint.collective, reducer, element: *element, root: joint.root };
        self.process.compute(self.state.borrow().protocol.send_overhead);
        let packed = if bytes < rules.from { joint.to.bytes } else { Bytes::ZERO };
        let (is_root, collective) = (joint.member == joint.root, joint.collective);
        let gives = collective != Collective::Bcast || is_root;
        let gets = collective == Collective::Allreduce
            || collective == Collective::Reduce && is_root
            || collective == Collective::Bcast && !is_root;
        if gives {
            self.copy(packed);
        }
        let reduction = group.post(task, *region, *region, bytes).map_err(told)?;
        Ok(NetworkOperation { reduction, copied: if gets { packed } else { Bytes::ZERO } })
    }

    /// Where the network tells of results.
    pub(super) fn network_queue(&self) -> Option<(usize, CqId)> {
        self.network.borrow().as_ref().map(|network| network.group.queue())
    }

    /// Takes what the network has told by now.
    pub(super) async fn look_at_network(&self) -> Result<(), ProgramError> {
        let Some((nic, cq)) = self.network_queue() else { return Ok(()) };
        while self.process.earliest(&[(nic, cq)], &[]).is_some_and(|at| at <= self.process.now()) {
            let completions = self.process.poll_cq(nic, cq, AT_A_TIME).await;
            self.hear_network(&completions)?;
        }
        Ok(())
    }

    /// Whether an operation of the network is over, as far as this rank has looked.
    pub(super) fn is_answered(&self, asked: NetworkOperation) -> bool {
        self.network.borrow().as_ref().is_none_or(|network| network.group.is_done(asked.reduction))
    }

    /// Waits for the operation.
    pub(super) async fn wait_for_network(&self, asked: NetworkOperation) -> Result<(), ProgramError> {
        while !self.is_answered(asked) {
            self.turn().await?;
        }
        self.process.compute(self.state.borrow().protocol.recv_overhead);
        self.copy(asked.copied);
        Ok(())
    }

    fn hear_network(&self, completions: &[Wc]) -> Result<(), ProgramError> {
        let network = &mut *self.network.borrow_mut();
        let Some(InNetwork { group, .. }) = network.as_mut() else { return Ok(()) };
        completions.iter().try_for_each(|wc| group.complete(wc).map_err(told))
    }
}

fn told(error: GroupError) -> ProgramError {
    ProgramError(error.in_full())
}

/// Completions that one poll takes. Basis: assumed; polling again costs little.
const AT_A_TIME: usize = 16;
