//! Hypercube: two switches in each of many dimensions.
//!
//! Source: Dally and Towles 2004, §5 (2-ary n-cube).
//! Numbers and ports: [`super::grid`]. SGI Altix and NASA Pleiades have up to ten dimensions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::grid::{Dimension, Grid, Row};
use super::{Fabric, Family, Links, TopologyError, positive, radix};

/// Two switches in each dimension.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Hypercube {
    /// How many dimensions: 2 to this power is the number of switches. Default: 4.
    #[schemars(range(min = 1, max = 20))]
    pub dimensions: Option<u32>,
    /// How many cables join two neighbours. Default: 1.
    pub cables: Option<u32>,
    /// How many endpoints a switch has. Default: 1.
    pub endpoints: Option<u32>,
    /// How many ports of each switch may be used. Default: all that the switch has.
    pub radix: Option<u32>,
}

impl Family for Hypercube {
    fn build(&self, links: &Links, radix_limit: u32) -> Result<Fabric, TopologyError> {
        let radix = radix(self.radix, radix_limit)?;
        let hosts = positive("endpoints", self.endpoints.unwrap_or(1))?;
        let count = self.dimensions.unwrap_or(4);
        if !(1..=20).contains(&count) {
            let expected = "write 1 to 20".to_owned();
            return Err(TopologyError::OutOfRange { name: "dimensions", value: u64::from(count), expected });
        }
        let cables = positive("cables", self.cables.unwrap_or(1))?;
        Grid::new(vec![Dimension { size: 2, row: Row::Line, cables }; count as usize], hosts)?.build(links, radix)
    }
}
