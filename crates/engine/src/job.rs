//! A job: programs and where they run.

use fabriscope_node::Main;

/// Programs, one per rank, and the node of each.
pub struct Job {
    /// Node of each rank.
    pub nodes: Vec<u32>,
    /// Program of each rank.
    pub mains: Vec<Main>,
}
