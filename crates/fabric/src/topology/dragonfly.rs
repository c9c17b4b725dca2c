//! Dragonfly: groups of switches, each switch joined to each other one of its group, each group to each other group.
//!
//! Source: J. Kim, W. Dally, S. Scott, D. Abts, "Technology-driven, highly-scalable dragonfly topology", ISCA 2008
//! (a = 2p = 2h balances the load of uniform traffic; up to a·h + 1 groups); D. De Sensi et al., "An in-depth analysis of
//! the Slingshot interconnect", SC 2020 (545 groups of 32 switches with 16 endpoints each).
//! Modelled: arrangements of the global cables, parallel cables inside and between groups, places without endpoints.
//! Not modelled: groups whose switches form a grid (Cray XC), cables of different speed among the global ones.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::groups::{Groups, Inside, Shape, filled, spread};
use super::{Arrangement, Fabric, Family, Links, TopologyError, check_ports, positive, radix};

/// Groups of switches, all joined to each other; every two groups joined by global cables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Dragonfly {
    /// How many groups there are. Default: as many as have global ports for one another.
    pub groups: Option<u32>,
    /// How many switches a group has. Default: twice the global ports of a switch.
    pub switches: Option<u32>,
    /// How many endpoints a switch has ports for. Default: as many as global ports.
    pub endpoints: Option<u32>,
    /// How many global ports a switch has. Default: `endpoints`, half of `switches`, or about a quarter of the radix.
    pub global: Option<u32>,
    /// How many cables join two switches of a group. Default: 1.
    pub local_links: Option<u32>,
    /// How many cables join two groups. Default: as many as all pairs can have alike; ports left over stay unused.
    pub global_links: Option<u32>,
    /// In which order the global ports of a group lead to the other groups. Default: by their numbers.
    pub arrangement: Arrangement,
    /// How many endpoints there are in all; the first places are taken. Default: all places.
    pub total_endpoints: Option<u32>,
    /// How many ports of each switch may be used. Default: all that the switch has.
    pub radix: Option<u32>,
}

impl Family for Dragonfly {
    fn build(&self, links: &Links, radix_limit: u32) -> Result<Fabric, TopologyError> {
        let radix = radix(self.radix, radix_limit)?;
        self.groups(radix)?.build(links, radix)
    }
}

impl Dragonfly {
    fn groups(&self, radix: u32) -> Result<Groups, TopologyError> {
        let local_links = positive("local_links", self.local_links.unwrap_or(1))?;
        // Balanced: p = h and a = 2h, so that h + (2h - 1) L + h ports fit the radix.
        let balanced = radix.saturating_add(local_links) / local_links.saturating_add(1).saturating_mul(2);
        let global = self.global.or(self.endpoints).or(self.switches.map(|switches| switches / 2)).unwrap_or(balanced);
        let global = if self.global.is_some() { positive("global", global)? } else { global.max(1) };
        let hosts = positive("endpoints", self.endpoints.unwrap_or(global))?;
        let switches = positive("switches", self.switches.unwrap_or(global.saturating_mul(2)))?;
        let local = u64::from(switches - 1) * u64::from(local_links);
        let remedy = "lower `endpoints`, `switches`, `global` or `local_links`, or choose a larger switch";
        check_ports("a switch", (u64::from(hosts), local.saturating_add(u64::from(global))), radix, remedy)?;
        let (groups, global_links) = spread(self.groups, self.global_links, u64::from(switches) * u64::from(global))?;
        let endpoints = filled(self.total_endpoints, u64::from(groups) * u64::from(switches) * u64::from(hosts))?;
        let inside = Inside::Mesh { switches };
        Groups::new(Shape { inside, groups, hosts, global, local_links, global_links, arrangement: self.arrangement, endpoints })
    }
}
