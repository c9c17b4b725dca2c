//! Torus: rings in every dimension.
//!
//! Source: Dally and Towles 2004, §5 (k-ary n-cube). A ring of two switches is one set of cables.
//! Numbers and ports: [`super::grid`]. A torus of three dimensions is usual (Sandia Red Sky, SDSC Gordon).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::grid::{Grid, Row};
use super::{Fabric, Family, Links, TopologyError, positive, radix};

/// Switches in rings, in any number of dimensions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Torus {
    /// Switches in each dimension: [4, 4, 4].
    pub sizes: Vec<u32>,
    /// How many cables there are between neighbours in each dimension. Default: one.
    pub cables: Option<Vec<u32>>,
    /// How many endpoints a switch has. Default: 1.
    pub endpoints: Option<u32>,
    /// How many ports of each switch may be used. Default: all that the switch has.
    pub radix: Option<u32>,
}

impl Family for Torus {
    fn build(&self, links: &Links, radix_limit: u32) -> Result<Fabric, TopologyError> {
        let radix = radix(self.radix, radix_limit)?;
        let hosts = positive("endpoints", self.endpoints.unwrap_or(1))?;
        let dimensions = super::grid::rows(&self.sizes, self.cables.as_deref(), Row::Ring)?;
        Grid::new(dimensions, hosts)?.build(links, radix)
    }
}
