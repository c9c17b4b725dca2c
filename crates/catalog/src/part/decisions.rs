//! Which algorithms an MPI library takes for collective operations: tables that several pieces of software share.
//!
//! Source: the libraries' decision functions; each table says which.
//! Modelled: rows of [`CollectiveRule`](super::CollectiveRule). They lie under the tables of software that names them (`decisions`).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CollectiveRules, Kind, Part, collective_rules};
use crate::error::Problem;

/// The decisions of one version of a library.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Decisions {
    /// The name others refer to it by; equals the name of its file.
    pub name: String,
    /// One line that tells a person what it is.
    pub title: String,
    /// What a reader should know besides.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// What lies under the table of the same name of software.
    pub mpi: DecisionTables,
}

/// Rows by operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DecisionTables {
    /// Which algorithm is taken, by the word for each operation: `allreduce`, `bcast` …
    pub collectives: BTreeMap<String, CollectiveRules>,
    /// Rows that come before those where a job has several nodes with several ranks each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hierarchical: BTreeMap<String, CollectiveRules>,
}

impl Part for Decisions {
    const KIND: Kind = Kind::Decisions;
    fn name(&self) -> &str {
        &self.name
    }
    fn title(&self) -> &str {
        &self.title
    }
    fn check(&self) -> Result<(), Problem> {
        collective_rules::check("collectives", &self.mpi.collectives, true)?;
        collective_rules::check("hierarchical", &self.mpi.hierarchical, false)
    }
}
