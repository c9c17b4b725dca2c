//! HyperX: full meshes in every dimension.
//!
//! Source: J. Ahn et al., "HyperX: topology, routing, and packaging of efficient large-scale networks", SC 2009.
//! Numbers and ports: [`super::grid`]. Hypercube and full mesh are special cases with files of their own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::grid::{Grid, Row};
use super::{Fabric, Family, Links, TopologyError, positive, radix};

/// Switches of a row are all joined to each other, in any number of dimensions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HyperX {
    /// Switches in each dimension: [4, 4, 4].
    pub sizes: Vec<u32>,
    /// How many cables there are between neighbours in each dimension. Default: one.
    pub cables: Option<Vec<u32>>,
    /// How many endpoints a switch has. Default: 1.
    pub endpoints: Option<u32>,
    /// How many ports of each switch may be used. Default: all that the switch has.
    pub radix: Option<u32>,
}

impl Family for HyperX {
    fn build(&self, links: &Links, radix_limit: u32) -> Result<Fabric, TopologyError> {
        let radix = radix(self.radix, radix_limit)?;
        let hosts = positive("endpoints", self.endpoints.unwrap_or(1))?;
        let dimensions = super::grid::rows(&self.sizes, self.cables.as_deref(), Row::Full)?;
        Grid::new(dimensions, hosts)?.build(links, radix)
    }
}
