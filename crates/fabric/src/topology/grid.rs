//! Switches at the points of a grid.

use std::fmt;

use super::Counts;
use crate::graph::SwitchId;

/// The shape of a grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {}

impl Grid {
    /// How many endpoints, switches and cables there are, from the shape alone.
    pub fn counts(&self) -> Counts {
        Counts { endpoints: 0, switches: 0, cables: 0 }
    }
    /// Links on the longest of the shortest paths between two endpoints.
    pub fn diameter(&self) -> u32 {
        0
    }
    pub(super) fn name(&self, switch: SwitchId) -> String {
        format!("switch {}", switch.0)
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Grid")
    }
}
