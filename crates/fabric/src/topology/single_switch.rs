//! All endpoints on one switch.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tree::{Level, Tree};
use super::{Fabric, Family, Links, TopologyError, check_ports, positive, radix};

/// All endpoints on one switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SingleSwitch {
    /// How many endpoints there are. Default: one on every port.
    pub endpoints: Option<u32>,
    /// How many ports of the switch may be used. Default: all that the switch has.
    pub radix: Option<u32>,
}

impl Family for SingleSwitch {
    fn build(&self, links: &Links, radix_limit: u32) -> Result<Fabric, TopologyError> {
        let radix = radix(self.radix, radix_limit)?;
        let endpoints = positive("endpoints", self.endpoints.unwrap_or(radix))?;
        check_ports("the switch", (u64::from(endpoints), 0), radix, "lower `endpoints` or choose `[topology.leaf_spine]`")?;
        Tree::new(endpoints, vec![Level { children: endpoints, parents: 1, cables: 1 }])?.build(links, radix)
    }
    fn fill(&mut self, endpoints: u32, _: u32) {
        self.endpoints = self.endpoints.or(Some(endpoints));
    }
}
