//! What a core pays to hand commands to an adapter that wait there for counters.
//!
//! Source: Sandia, "The Portals 4.3 Network Programming Interface", §3.14; the model is in `fabriscope_verbs`, `nic::triggered`.
//! Modelled: each command is built as any work request is; one doorbell for all of them, behind which the adapter fetches them, or has
//! them with it where there is but one.
//! Not modelled: queues of commands that are full; following such messages through the machine (`explain`, timelines).

use fabriscope_units::Bytes;
use fabriscope_verbs::{PostError, QpNum, TriggeredAction, TriggeredWr};

use crate::process::{Doorbell, Process};
use crate::wqe::wqe_bytes;

impl Process {
    /// Hands commands that wait for counters to the adapter, under one doorbell.
    ///
    /// # Errors
    /// As `Nic::post_triggered`; commands before the bad one stay and are rung for.
    pub fn post_triggered(&self, nic: usize, wrs: &[TriggeredWr]) -> Result<(), PostError> {
        let posted = self.now();
        let (mut wqe_bytes_all, mut through, mut result) = (Bytes::ZERO, None, Ok(()));
        for wr in wrs {
            self.compute(self.cpu().wqe_build);
            let now = self.now();
            match self.nic(nic, |n| n.post_triggered(now, wr)) {
                Ok(index) => through = Some(index),
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
            wqe_bytes_all += match &wr.action {
                TriggeredAction::Send { wr, .. } => wqe_bytes(wr),
                TriggeredAction::Count { .. } | TriggeredAction::WriteBack { .. } => COMMAND,
            };
        }
        if let Some(through) = through {
            let (built, wqe_bytes) = (self.now(), wqe_bytes_all);
            self.ring(Doorbell {
                at: built + self.mmio_latency(nic),
                nic,
                qp: QpNum::TRIGGERED,
                through,
                pushed: self.doorbell_policy().pushes(wrs.len(), wqe_bytes, false),
                wqe_bytes,
                traced: false,
                wr_id: 0,
                posted,
                built,
            });
            self.compute(self.cpu().mmio_busy);
        }
        result
    }
}

/// A command that sends nothing. Basis: assumed, the smallest of Cassini's queues: 32 B.
const COMMAND: Bytes = Bytes(32);
