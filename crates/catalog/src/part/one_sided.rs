//! What libraries do for one-sided operations beyond put and get: MPI's accumulates, and OpenSHMEM.
//!
//! Source: the libraries' code; each part says which.
//! Modelled: who applies an accumulate; what carries out a single element; the costs, the memory and the collective operations of an OpenSHMEM library.
//! Not modelled: teams and contexts, threads.

use std::collections::BTreeMap;

use fabriscope_units::{Bytes, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CollectiveRules, collective_rules};
use crate::error::Problem;
use crate::sourced::Sourced;

/// Who applies an accumulate to the target's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Accumulate {
    /// The target's progress engine, to which the operand goes as a message.
    ActiveMessage,
    /// The origin: it takes the window's lock, reads, computes, writes, and gives the lock back.
    LockGetPut,
}

/// What carries out an operation on one element of 4 or 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SingleElement {
    /// An atomic of the adapter.
    Adapter,
    /// The same, between taking and giving back the window's lock.
    LockedAdapter,
    /// Whatever carries out an accumulate.
    Software,
}

/// One-sided operations of an MPI library beyond put and get.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OneSidedRules {
    /// Who applies an accumulate.
    pub accumulate: Sourced<Accumulate>,
    /// What carries out a sum, a replacement or a comparison of one element.
    pub single: Sourced<SingleElement>,
    /// Core time of the target's progress engine per active message of an accumulate, beyond matching it and its arithmetic.
    pub apply_overhead: Sourced<Span>,
}

/// By what the collective operations of an OpenSHMEM library move data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ShmemCollectives {
    /// Messages of the MPI library beside it.
    Messages,
    /// Its own puts, each followed by a flag that the receiver waits for.
    Puts,
}

/// An OpenSHMEM library over the transport of the `[mpi]` table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shmem {
    /// What it is called.
    pub library: String,
    /// Whether there is one: software that is based on other software may be without.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub provided: bool,
    /// Core time of a put, get or atomic above the transport: checks, translation of the symmetric address.
    pub overhead: Sourced<Span>,
    /// Largest put that is copied, so that the call returns at once; a longer one returns when the target has it.
    pub bounce_limit: Sourced<Bytes>,
    /// What carries out its atomics.
    pub atomics: Sourced<SingleElement>,
    /// Size of the symmetric heap where SHMEM_SYMMETRIC_SIZE is not set.
    pub heap: Sourced<Bytes>,
    /// By what its collective operations move data.
    pub collectives_by: Sourced<ShmemCollectives>,
    /// Which algorithms they are; those of the MPI library where nothing is said.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub collectives: BTreeMap<String, CollectiveRules>,
}

/// A library is there unless its part says otherwise.
fn yes() -> bool {
    true
}

impl Shmem {
    pub(crate) fn check(&self) -> Result<(), Problem> {
        if *self.atomics == SingleElement::LockedAdapter {
            let help = "use \"adapter\" or \"software\"";
            return Err(Problem::at(&["shmem", "atomics", "value"], "OpenSHMEM has no window whose lock could be taken", help));
        }
        if *self.heap == Bytes::ZERO {
            return Err(Problem::at(&["shmem", "heap", "value"], "a symmetric heap without room", "use for example \"256 MiB\""));
        }
        collective_rules::check_in("shmem", "collectives", &self.collectives, true)
    }
}
