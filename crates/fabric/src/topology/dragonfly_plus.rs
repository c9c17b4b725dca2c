//! Dragonfly+: groups of leaves and spines; the endpoints are on the leaves, the cables between groups on the spines.
//!
//! Source: A. Shpiner, Z. Haramaty, S. Eliad, V. Zdornov, B. Gafni, E. Zahavi, "Dragonfly+: low cost topology for scaling
//! datacenters", HiPINEB 2017 (with k-port switches: k²/4 endpoints in a group, up to k²/4 + 1 groups).
//! Modelled: as in [`super::dragonfly`]. Where a spine has as many global ports as there are other groups, it has one
//! cable to each of them.
//! Not modelled: groups that are taken as one switch of a larger dragonfly.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::groups::{Groups, Inside, Shape, filled, spread};
use super::{Arrangement, Fabric, Family, Links, TopologyError, check_ports, positive, radix};

/// Groups of leaf and spine switches; every two groups joined by global cables between spines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DragonflyPlus {
    /// How many groups there are. Default: as many as have global ports for one another.
    pub groups: Option<u32>,
    /// How many leaf switches a group has. Default: half the ports of a spine, shared by `local_links`.
    pub leaves: Option<u32>,
    /// How many spine switches a group has. Default: half the ports of a leaf, shared by `local_links`.
    pub spines: Option<u32>,
    /// How many endpoints a leaf has ports for. Default: the ports that the spines leave.
    pub endpoints: Option<u32>,
    /// How many global ports a spine has. Default: the ports that the leaves leave.
    pub global: Option<u32>,
    /// How many cables join a leaf and a spine. Default: 1.
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

impl Family for DragonflyPlus {
    fn build(&self, links: &Links, radix_limit: u32) -> Result<Fabric, TopologyError> {
        let radix = radix(self.radix, radix_limit)?;
        self.groups(radix)?.build(links, radix)
    }
}

impl DragonflyPlus {
    fn groups(&self, radix: u32) -> Result<Groups, TopologyError> {
        let local_links = positive("local_links", self.local_links.unwrap_or(1))?;
        let half = (radix / 2 / local_links).max(1);
        let (leaves, spines) = (positive("leaves", self.leaves.unwrap_or(half))?, positive("spines", self.spines.unwrap_or(half))?);
        let (up, down) = (u64::from(spines) * u64::from(local_links), u64::from(leaves) * u64::from(local_links));
        let rest = |used: u64| u64::from(radix).saturating_sub(used).max(1) as u32;
        let hosts = positive("endpoints", self.endpoints.unwrap_or(rest(up)))?;
        let global = positive("global", self.global.unwrap_or(rest(down)))?;
        let remedy = "lower `endpoints`, `spines` or `local_links`, or choose a larger switch";
        check_ports("a leaf", (u64::from(hosts), up), radix, remedy)?;
        let remedy = "lower `leaves`, `global` or `local_links`, or choose a larger switch";
        check_ports("a spine", (down, u64::from(global)), radix, remedy)?;
        let (groups, global_links) = spread(self.groups, self.global_links, u64::from(spines) * u64::from(global))?;
        let endpoints = filled(self.total_endpoints, u64::from(groups) * u64::from(leaves) * u64::from(hosts))?;
        let inside = Inside::LeafSpine { leaves, spines };
        Groups::new(Shape { inside, groups, hosts, global, local_links, global_links, arrangement: self.arrangement, endpoints })
    }
}
