//! What an MPI library lets the cores of an adapter do: which operations, by how many workers, and what handing over costs.
//!
//! Source: M. Bayatpour et al., "BluesMPI: Efficient MPI Non-blocking Alltoall Offloading Designs on Modern BlueField Smart NICs", ISC 2021;
//! K. K. Suresh et al., "A Novel Framework for Efficient Offloading of Communication Operations to Bluefield SmartNICs", IPDPS 2023.
//! The model is in `fabriscope_mpi`, `offload`.

use std::collections::BTreeMap;

use fabriscope_collectives::{Algorithm, Kind as Operation};
use fabriscope_units::{Bytes, Remedy, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::sourced::Sourced;

/// Operations that workers on the adapter carry out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Offload {
    /// Collective operations whose non-blocking forms go there where nothing else is asked for, with the algorithm of the workers.
    pub operations: BTreeMap<String, String>,
    /// The algorithms of the workers for reductions, which go there where a user asks for it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reductions: BTreeMap<String, String>,
    /// Workers on each node, a core each; ranks of the node share them evenly.
    pub workers: Sourced<u32>,
    /// What a rank writes to its worker: operation, buffers, keys.
    pub descriptor: Sourced<Bytes>,
    /// More of it for each rank, where blocks have lengths of their own.
    pub descriptor_entry: Sourced<Bytes>,
    /// Time of the rank's core to write it down, beside the post.
    pub hand_over: Sourced<Span>,
    /// Time of a worker's core for one turn of its loop, beside polls.
    pub turn: Sourced<Span>,
    /// Time of a worker's core for each message beside the verbs: its task, its peer, its key.
    pub step: Sourced<Span>,
    /// What a worker sends to another: a receiver is ready.
    pub notice: Sourced<Bytes>,
}

impl Offload {
    /// The algorithm of the workers for an operation, where it goes to them by the library's own choice.
    pub fn algorithm(&self, operation: Operation) -> Option<&str> {
        self.operations.get(operation.word()).map(String::as_str)
    }
    /// The algorithm of the workers for a reduction, which goes to them where a user asks for it.
    pub fn reduction(&self, operation: Operation) -> Option<&str> {
        self.reductions.get(operation.word()).map(String::as_str)
    }
    fn check_reductions(&self) -> Result<(), Problem> {
        for (word, algorithm) in &self.reductions {
            let path = ["mpi", "offload", "reductions", word];
            let reducing = Operation::ALL.into_iter().filter(|kind| kind.reduces());
            let Some(operation) = reducing.clone().find(|kind| kind.word() == word) else {
                let known = reducing.map(|kind| format!("`{}`", kind.word())).collect::<Vec<_>>().join(", ");
                return Err(Problem::at(&path, format!("`{word}` is no reduction"), format!("these are: {known}")));
            };
            if let Err(unknown) = Algorithm::named(operation, algorithm) {
                return Err(Problem::at(&path, unknown.to_string(), unknown.remedy().unwrap_or_default()));
            }
        }
        Ok(())
    }
    pub(super) fn check(&self) -> Result<(), Problem> {
        self.check_reductions()?;
        if *self.workers == 0 {
            return Err(Problem::at(
                &["mpi", "offload", "workers", "value"],
                "no worker on the DPU",
                "use at least 1, or remove [mpi.offload]",
            ));
        }
        for (word, algorithm) in &self.operations {
            let path = ["mpi", "offload", "operations", word];
            let moving = Operation::ALL.into_iter().filter(|kind| !kind.reduces());
            let Some(operation) = moving.clone().find(|kind| kind.word() == word) else {
                let known = moving.map(|kind| format!("`{}`", kind.word())).collect::<Vec<_>>().join(", ");
                return Err(Problem::at(&path, format!("workers on a DPU do no `{word}`"), format!("they move data: {known}")));
            };
            if let Err(unknown) = Algorithm::named(operation, algorithm) {
                return Err(Problem::at(&path, unknown.to_string(), unknown.remedy().unwrap_or_default()));
            }
        }
        for (key, bytes) in [("descriptor", &self.descriptor), ("notice", &self.notice)] {
            if !(8..=4096).contains(&bytes.as_u64()) {
                let message = format!("`{key}` of {}", **bytes);
                return Err(Problem::at(&["mpi", "offload", key, "value"], message, "use 8 B to 4096 B"));
            }
        }
        Ok(())
    }
}
