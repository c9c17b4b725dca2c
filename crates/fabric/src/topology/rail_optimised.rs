//! Rail-optimised fat tree: nodes with several adapters, each of which goes to the leaf switch of its rail.
//!
//! A unit of nodes shares one leaf switch for each rail, so that adapters of the same rail are one switch apart throughout
//! the unit, which is what collectives over GPUs of the same number need. All leaves go to all spines.
//!
//! Source: NVIDIA DGX SuperPOD reference architecture (units of 32 nodes with 8 rails).
//! Endpoint = node × rails + rail. Modelled: full units. Not modelled: three levels.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tree::{Level, Rails, Tree};
use super::{Fabric, Family, Links, TopologyError, check_ports, positive, radix};

/// Nodes with several adapters, each of which goes to the leaf switch of its rail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RailOptimised {
    /// How many adapters there must be room for. Default: those of all `units`.
    pub endpoints: Option<u32>,
    /// Adapters of a node. Default: those of the cluster's nodes; 8 without a cluster.
    pub rails: Option<u32>,
    /// Nodes of a unit. Default: half the ports of a leaf.
    pub nodes: Option<u32>,
    /// How many units there are. Default: enough for the endpoints; 1 where they are left open.
    pub units: Option<u32>,
    /// How many spine switches there are. Default: as many uplinks as a leaf has nodes.
    pub spines: Option<u32>,
    /// How many cables there are between a leaf and a spine. Default: 1.
    pub links_per_uplink: Option<u32>,
    /// How many ports of each switch may be used. Default: all that the switch has.
    pub radix: Option<u32>,
}

impl Family for RailOptimised {
    fn build(&self, links: &Links, radix_limit: u32) -> Result<Fabric, TopologyError> {
        let radix = radix(self.radix, radix_limit)?;
        let rails = positive("rails", self.rails.unwrap_or(8))?;
        let nodes = positive("nodes", self.nodes.unwrap_or((radix / 2).max(1)))?;
        let unit = u64::from(nodes) * u64::from(rails);
        let enough = self.endpoints.map_or(1, |endpoints| u64::from(endpoints).div_ceil(unit).max(1) as u32);
        let units = positive("units", self.units.unwrap_or(enough))?;
        if let Some(endpoints) = self.endpoints.map(u64::from).filter(|&endpoints| endpoints > unit.saturating_mul(units.into())) {
            let fits = unit.saturating_mul(units.into());
            return Err(TopologyError::TooManyEndpoints { endpoints, fits, remedy: ", raise `units` or `nodes`" });
        }
        let cables = positive("links_per_uplink", self.links_per_uplink.unwrap_or(1))?;
        let spines = positive("spines", self.spines.unwrap_or((nodes / cables).max(1)))?;
        let up = u64::from(spines) * u64::from(cables);
        check_ports("a leaf", (u64::from(nodes), up), radix, "lower `nodes`, `spines` or `links_per_uplink`, or choose a larger switch")?;
        let leaves = u64::from(units).saturating_mul(u64::from(rails));
        let remedy = "lower `units`, `rails` or `links_per_uplink`, or choose a larger switch";
        check_ports("a spine", (leaves.saturating_mul(u64::from(cables)), 0), radix, remedy)?;
        let levels = vec![Level { children: nodes, parents: 1, cables: 1 }, Level { children: leaves as u32, parents: spines, cables }];
        Tree::new(leaves as u32 * nodes, levels)?.with_rails(Rails { rails, nodes }).build(links, radix)
    }
    fn fill(&mut self, endpoints: u32, adapters: u32) {
        self.rails = self.rails.or(Some(adapters));
        self.endpoints = self.endpoints.or(Some(endpoints));
    }
}
