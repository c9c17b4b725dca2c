//! What a list of machines says of a cluster: the TOP500 above all.
//!
//! Source: the lists; each entry names its own.
//! Modelled: nothing; these are figures to compare with, and the size of the problem that was solved.

use fabriscope_units::OperationRate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::sourced::Sourced;

/// The entry of a cluster in a list of machines: `[listed]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    /// The list: `TOP500 2025-06`.
    pub list: String,
    /// Its place there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// What HPL reached; none where it could not be looked up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rmax: Option<Sourced<OperationRate>>,
    /// The peak that the list counts; none where it could not be looked up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rpeak: Option<Sourced<OperationRate>>,
    /// Cores as the list counts them, those of accelerators included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// Nodes that took part, where they were fewer than all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Sourced<u32>>,
    /// The group of nodes that took part, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Unknowns of the system that was solved (Nmax).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknowns: Option<Sourced<u32>>,
}

impl Listed {
    /// What is wrong with it in a cluster with these groups of nodes.
    pub(crate) fn check<'g>(&self, mut groups: impl Iterator<Item = &'g str>) -> Result<(), Problem> {
        for (key, rate) in [("rmax", self.rmax.as_ref()), ("rpeak", self.rpeak.as_ref())] {
            if rate.is_some_and(|rate| rate.as_f64() == 0.0) {
                return Err(Problem::at(&["listed", key, "value"], format!("`{key}` is zero"), "write what the list says, or remove it"));
            }
        }
        for (key, count) in [("nodes", &self.nodes), ("unknowns", &self.unknowns)] {
            if count.as_ref().is_some_and(|count| **count == 0) {
                return Err(Problem::at(&["listed", key, "value"], format!("no {key}"), "write what the list says, or remove it"));
            }
        }
        if let Some(named) = &self.group
            && !groups.any(|group| group == named)
        {
            return Err(Problem::at(&["listed", "group"], format!("no group is called `{named}`"), "name one of the [[group]] tables"));
        }
        Ok(())
    }
}
