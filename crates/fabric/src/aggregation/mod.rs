//! Reductions inside switches: the trees along which they go, and the manager that grants them.
//!
//! ```text
//!  members ─ Manager::grant ─▶ Tree: leaf switches ─ up ─▶ … ─▶ root      a node for each switch with something below it
//!                 │
//!                 └─ Refusal: too few, no way, no tree, no group, no slots
//! ```
//! Source: R. L. Graham et al., "Scalable Hierarchical Aggregation Protocol (SHArP): a hardware architecture for efficient data
//! reduction", COMHPC 2016, §III (aggregation nodes, trees, groups, outstanding operations); NVIDIA SHARP manual (aggregation
//! manager: quotas of operations and groups for each job, trees over links that are alive).
//! Modelled: the root that makes the tree lowest, links of other trees avoided, resources of each switch, what is cut off.
//! Not modelled: trees made beforehand for the whole fabric, priorities of jobs, reservations of UFM.

mod manager;
mod tree;

pub use manager::{Limits, Manager, Refusal};
pub use tree::{Apart, Tree, TreeNode};
