//! Other switches at some levels of a fabric: older leaves below a newer spine, edge switches below directors.
//!
//! ```toml
//! switch = "qm8700"
//! switch_levels = { leaf = "sb7800" }
//! ```
//!
//! The level of a switch is its distance from the nodes: leaves are next to them. Modelled of each level: ports, speeds, the latency from
//! port to port, buffers, virtual lanes. Everything else is one for the fabric, and parts that differ in it are refused; what reduces in
//! the network spans all levels, and is there only where all parts have the same.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Names of switches by level, where they are not the cluster's `switch`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SwitchLevels {
    /// The switches that nodes are at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaf: Option<String>,
    /// Those next to leaves that no node is at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spine: Option<String>,
    /// Those beyond.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core: Option<String>,
}
