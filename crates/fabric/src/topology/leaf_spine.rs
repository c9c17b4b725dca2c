//! Leaf–spine: every leaf switch is connected to every spine switch with the same number of cables.
//!
//! Source: C. Clos, "A study of non-blocking switching networks", Bell System Technical Journal 32(2), 1953,
//! folded. The two-level fat tree is the same network; here the number of spines is given, not the taper.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tree::{Level, Tree};
use super::{Fabric, Links, TopologyError, check_ports, positive, radix};

/// Leaf switches below, spine switches above, every leaf connected to every spine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LeafSpine {
    /// How many endpoints there are. Default: `leaves` × `down`.
    pub endpoints: Option<u32>,
    /// How many leaf switches there are. Default: as many as `endpoints` need, or as a spine has ports for.
    pub leaves: Option<u32>,
    /// How many spine switches there are. Default: half the ports of a leaf, shared by `links_per_uplink`.
    pub spines: Option<u32>,
    /// How many endpoints a leaf has ports for. Default: the ports that the spines leave.
    pub down: Option<u32>,
    /// How many cables there are between a leaf and a spine. Default: 1.
    pub links_per_uplink: Option<u32>,
    /// How many ports of each switch may be used. Default: all that the switch has.
    pub radix: Option<u32>,
}

impl LeafSpine {
    pub(super) fn build(&self, links: &Links, radix_limit: u32) -> Result<Fabric, TopologyError> {
        let radix = radix(self.radix, radix_limit)?;
        let cables = positive("links_per_uplink", self.links_per_uplink.unwrap_or(1))?;
        let spines = positive("spines", self.spines.unwrap_or((radix / 2 / cables).max(1)))?;
        let up = spines.saturating_mul(cables);
        let down = positive("down", self.down.unwrap_or(radix.saturating_sub(up).max(1)))?;
        let leaves = match (self.leaves, self.endpoints) {
            (Some(leaves), _) => positive("leaves", leaves)?,
            (None, Some(endpoints)) => positive("endpoints", endpoints)?.div_ceil(down),
            (None, None) => (radix / cables).max(1),
        };
        let endpoints = match self.endpoints {
            Some(endpoints) => positive("endpoints", endpoints)?,
            None => leaves.saturating_mul(down),
        };
        let ports = |switches: u32, cables: u32| u64::from(switches) * u64::from(cables);
        let remedy = "lower `down`, `spines` or `links_per_uplink`, or choose a larger switch";
        check_ports("a leaf", (u64::from(down), ports(spines, cables)), radix, remedy)?;
        let remedy = "lower `leaves`, `endpoints` or `links_per_uplink`, or choose a larger switch";
        check_ports("a spine", (ports(leaves, cables), 0), radix, remedy)?;
        let fits = u64::from(leaves) * u64::from(down);
        if u64::from(endpoints) > fits {
            return Err(TopologyError::TooManyEndpoints { endpoints: u64::from(endpoints), fits, remedy: ", raise `leaves` or `down`" });
        }
        if endpoints.div_ceil(down) < leaves {
            let fewest = u64::from(leaves - 1) * u64::from(down) + 1;
            let expected = format!("{leaves} leaves of {down} hold {fewest} to {fits}: raise `endpoints` or lower `leaves`");
            return Err(TopologyError::OutOfRange { name: "endpoints", value: u64::from(endpoints), expected });
        }
        let levels = vec![Level { children: down, parents: 1, cables: 1 }, Level { children: leaves, parents: spines, cables }];
        Tree::new(endpoints, levels)?.build(links, radix)
    }
}
