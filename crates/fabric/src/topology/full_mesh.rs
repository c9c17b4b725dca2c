//! Full mesh: every switch joined to every other.
//!
//! Source: HLS-Gaudi2 (eight processors with on-chip switches, three 100 GbE cables between each two: 21 of 24 ports inside).
//! Numbers and ports: [`super::grid`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::grid::{Dimension, Grid, Row};
use super::{Fabric, Family, Links, TopologyError, positive, radix};

/// Switches, or processors with switches on the chip, all joined to each other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FullMesh {
    /// How many switches there are. Default: 8.
    pub switches: Option<u32>,
    /// How many cables join two of them. Default: 1.
    pub cables: Option<u32>,
    /// How many endpoints a switch has. Default: 1.
    pub endpoints: Option<u32>,
    /// How many ports of each switch may be used. Default: all that the switch has.
    pub radix: Option<u32>,
}

impl Family for FullMesh {
    fn build(&self, links: &Links, radix_limit: u32) -> Result<Fabric, TopologyError> {
        let radix = radix(self.radix, radix_limit)?;
        let hosts = positive("endpoints", self.endpoints.unwrap_or(1))?;
        let size = positive("switches", self.switches.unwrap_or(8))?;
        let cables = positive("cables", self.cables.unwrap_or(1))?;
        Grid::new(vec![Dimension { size, row: Row::Full, cables }], hosts)?.build(links, radix)
    }
}
