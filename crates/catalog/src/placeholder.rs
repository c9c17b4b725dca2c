//! Stand-ins for the topology and routing of the fabric crate.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How switches and nodes are wired.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Topology {
    /// All nodes at one switch.
    SingleSwitch {},
    /// Two nodes, one cable.
    BackToBack {},
}

/// How packets find their way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Routing {
    /// By destination.
    #[default]
    Deterministic,
}
