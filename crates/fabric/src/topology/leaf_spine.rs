//! Leaf–spine: every leaf switch is connected to every spine switch with the same number of cables.
//!
//! Source: C. Clos, "A study of non-blocking switching networks", Bell System Technical Journal 32(2), 1953,
//! folded. The two-level fat tree is the same network; here the number of spines is given, not the taper.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tree::{Level, Tree};
use super::{Fabric, Family, Links, TopologyError, check_ports, positive, radix};

/// Leaf switches below, spine switches above, every leaf connected to every spine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LeafSpine {
    /// How many endpoints there are. Default: `leaves` × `down`.
    pub endpoints: Option<u32>,
    /// How many leaf switches there are. Default: as many as `endpoints` need, or as a spine has ports for.
    pub leaves: Option<u32>,
    /// How many spine switches there are. Default: the fewest that carry all that the endpoints of every leaf send.
    pub spines: Option<u32>,
    /// How many endpoints a leaf has ports for. Default: the ports that `spines` leave, else half of the ports.
    pub down: Option<u32>,
    /// How many cables there are between a leaf and a spine. Default: 1 where `spines` are given, else as many as let every leaf
    /// carry what its endpoints send.
    pub links_per_uplink: Option<u32>,
    /// How many ports of each switch may be used. Default: all that the switch has.
    pub radix: Option<u32>,
}

/// What the ports of a leaf lead to.
struct Ports {
    down: u32,
    spines: u32,
    cables: u32,
}

impl LeafSpine {
    /// The ports of a leaf of `radix`: without a number of spines the fewest, and cables to each, that carry all that comes from below.
    fn ports(&self, radix: u32) -> Result<Ports, TopologyError> {
        let cables = self.links_per_uplink.map(|cables| positive("links_per_uplink", cables)).transpose()?;
        if let Some(spines) = self.spines {
            let (spines, cables) = (positive("spines", spines)?, cables.unwrap_or(1));
            let rest = radix.saturating_sub(spines.saturating_mul(cables)).max(1);
            return Ok(Ports { down: positive("down", self.down.unwrap_or(rest))?, spines, cables });
        }
        let down = positive("down", self.down.unwrap_or((radix / 2).max(1)))?;
        let leaves = self.leaves.or(self.endpoints.map(|endpoints| endpoints.div_ceil(down))).unwrap_or(radix);
        let fits = |spines: u32, cables: u32| {
            let [spines, cables] = [spines, cables].map(u64::from);
            spines * cables + u64::from(down) <= u64::from(radix) && u64::from(leaves) * cables <= u64::from(radix)
        };
        let by_spines = (1..=radix.min(down)).map(|spines| (spines, cables.unwrap_or(down.div_ceil(spines))));
        let enough = |&(spines, cables): &(u32, u32)| u64::from(spines) * u64::from(cables) >= u64::from(down) && fits(spines, cables);
        // Where nothing fits, what stands here is what the error shows.
        let half = ((radix / 2 / cables.unwrap_or(1)).max(1), cables.unwrap_or(1));
        let (spines, cables) = by_spines.into_iter().find(enough).unwrap_or(half);
        Ok(Ports { down, spines, cables })
    }
}

impl Family for LeafSpine {
    fn build(&self, links: &Links, radix_limit: u32) -> Result<Fabric, TopologyError> {
        let radix = radix(self.radix, radix_limit)?;
        let Ports { down, spines, cables } = self.ports(radix)?;
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
    fn fill(&mut self, endpoints: u32, _: u32) {
        self.endpoints = self.endpoints.or(Some(endpoints));
    }
}
