//! What software and adapters cost that carry out commands of NVMe, in the node and over fabrics.
//!
//! Source: NVM Express Base Specification 2.0 and NVMe over RDMA Transport Specification 1.0 for what a command consists of.
//! Modelled: a core's time by command, what an interrupt adds, how much data a command may carry; adapters that serve commands by themselves.
//! Not modelled: authentication, encryption, multipath, namespaces that are spread over drives.

use fabriscope_units::{Bytes, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::sourced::Sourced;

/// Software that carries out commands of NVMe. Times of cores are those beside the calls of verbs and sockets, which cost what they cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NvmeStack {
    /// A core's time for a command to a drive of its node, from the program and back.
    pub local: Sourced<Span>,
    /// A core's time for a command to a drive behind a fabric, from the program and back.
    pub host: Sourced<Span>,
    /// A core's time for a command that a target serves.
    pub target: Sourced<Span>,
    /// From an interrupt until the thread runs that waits for it; zero where cores poll.
    pub wake_up: Sourced<Span>,
    /// Data of a write that travel with its command, at most; targets fetch more by themselves.
    pub in_capsule: Sourced<Bytes>,
}

/// An adapter that serves commands from fabrics by itself (target offload): it writes them into the queues of the node's drives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NvmeOffload {
    /// Between two commands that it takes.
    pub interval: Sourced<Span>,
    /// What it adds to a command: from its arrival until the drive has it, and from the drive's completion until the answer is posted.
    pub latency: Sourced<Span>,
}

impl NvmeStack {
    /// What contradicts itself.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        if self.in_capsule.0 > 1 << 20 {
            let message = format!("`in_capsule` of {}", *self.in_capsule);
            return Err(Problem::at(&["nvme", "in_capsule", "value"], message, "use at most 1 MiB"));
        }
        for (key, span) in [("local", *self.local), ("host", *self.host), ("target", *self.target)] {
            if span == Span::ZERO {
                let message = format!("`{key}` is zero: a core would carry out any number of commands");
                return Err(Problem::at(&["nvme", key, "value"], message, "use the time of one command"));
            }
        }
        Ok(())
    }
}
