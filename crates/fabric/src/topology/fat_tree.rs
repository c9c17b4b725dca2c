//! Fat trees (folded Clos networks, extended generalised fat trees) of two to four levels.
//!
//! Source: C. Leiserson, "Fat-trees: universal networks for hardware-efficient supercomputing", IEEE Trans.
//! Computers 34(10), 1985; M. Al-Fares et al., "A scalable, commodity data center network architecture",
//! SIGCOMM 2008 (k³/4 endpoints on three levels of k-port switches); Zahavi 2012 for the parallel cables.
//!
//! With k ports and no taper: two levels hold k²/2 endpoints, three hold k³/4. A tree that is not full has
//! the fewest top switches that carry its uplinks, with parallel cables in between, as such trees are bought.
//! Modelled: taper at the leaves and at the level above. Not modelled: switches of different sizes in one tree.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tree::{Level, Tree};
use super::{Fabric, Family, Links, Oversubscription, TopologyError, check_ports, positive, radix};

/// A fat tree (folded Clos network) of two to four levels, tapered or not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FatTree {
    /// How many endpoints there are. Default: what the tree holds.
    pub endpoints: Option<u32>,
    /// How many levels of switches there are, 2 to 4. Default: the fewest that hold `endpoints`, or 2.
    #[schemars(range(min = 2, max = 4))]
    pub levels: Option<u32>,
    /// How many ports of each switch may be used. Default: all that the switch has.
    pub radix: Option<u32>,
    /// How many endpoints a leaf has ports for. Default: its share of the ports by `oversubscription`.
    pub down: Option<u32>,
    /// How many cables lead up from a leaf. Default: its share of the ports by `oversubscription`.
    pub up: Option<u32>,
    /// Ports down to ports up of a leaf, such as "2:1". Default: "1:1", full bisection bandwidth.
    pub oversubscription: Option<Oversubscription>,
    /// Ports down to ports up of the switches between leaf and top, in trees of three levels or more. Default: "1:1".
    pub upper_oversubscription: Option<Oversubscription>,
}

impl Family for FatTree {
    fn build(&self, links: &Links, radix_limit: u32) -> Result<Fabric, TopologyError> {
        let radix = radix(self.radix, radix_limit)?;
        self.tree(radix)?.build(links, radix)
    }
    fn fill(&mut self, endpoints: u32, _: u32) {
        self.endpoints = self.endpoints.or(Some(endpoints));
    }
}

impl FatTree {
    fn tree(&self, radix: u32) -> Result<Tree, TopologyError> {
        let leaf = self.leaf_ports(radix)?;
        let middle = self.upper_oversubscription.unwrap_or_default().split(radix);
        let holds = |levels: u32| {
            let middles = (2..levels).fold(u64::from(leaf.0), |all, _| all.saturating_mul(u64::from(middle.0)));
            middles.saturating_mul(u64::from(radix))
        };
        let levels = match (self.levels, self.endpoints) {
            (Some(levels), _) => levels,
            (None, None) => LEVELS.start().to_owned(),
            (None, Some(endpoints)) => LEVELS.into_iter().find(|&levels| holds(levels) >= u64::from(endpoints)).unwrap_or(*LEVELS.end()),
        };
        if !LEVELS.contains(&levels) {
            let expected = "write 2, 3 or 4; `[topology.single_switch]` is the tree of one level".to_owned();
            return Err(TopologyError::OutOfRange { name: "levels", value: u64::from(levels), expected });
        }
        match self.upper_oversubscription {
            Some(_) if levels == 2 => {
                let why = "a tree of 2 levels has no switch between leaf and top";
                return Err(TopologyError::NoEffect { name: "upper_oversubscription", why });
            }
            ratio if levels > 2 && middle.0 == 0 => return Err(no_share("a switch of level 2", ratio.unwrap_or_default(), radix)),
            _ => {}
        }
        let fits = holds(levels);
        // A tree that holds more than can be numbered is refused where its ports are counted.
        let endpoints = u64::from(positive("endpoints", self.endpoints.unwrap_or(u32::try_from(fits).unwrap_or(u32::MAX)))?);
        if endpoints > fits {
            let remedy = if levels < *LEVELS.end() { ", raise `levels` or `oversubscription`" } else { "" };
            return Err(TopologyError::TooManyEndpoints { endpoints, fits, remedy });
        }
        Tree::new(endpoints as u32, shape(endpoints, levels, radix, leaf, middle))
    }

    /// Ports down and up of a leaf.
    fn leaf_ports(&self, radix: u32) -> Result<(u32, u32), TopologyError> {
        let ratio = self.oversubscription.unwrap_or_default();
        let (down, up) = match (self.down, self.up) {
            (Some(_), Some(_)) if self.oversubscription.is_some() => {
                return Err(TopologyError::SaidTwice { one: "down and up", other: "oversubscription" });
            }
            (Some(down), Some(up)) => (down, up),
            (Some(down), None) => (down, ratio.up_for(down).ok_or(TopologyError::Uneven { down, ratio })?),
            (None, Some(up)) if self.oversubscription.is_some() => {
                (ratio.down_for(up).ok_or(TopologyError::Uneven { down: radix.saturating_sub(up), ratio })?, up)
            }
            (None, Some(up)) => (radix.saturating_sub(up), up),
            (None, None) if ratio.split(radix).0 == 0 => return Err(no_share("a leaf", ratio, radix)),
            (None, None) => ratio.split(radix),
        };
        let (down, up) = (positive("down", down)?, positive("up", up)?);
        check_ports("a leaf", (u64::from(down), u64::from(up)), radix, "lower `down` or `up`, or choose a larger switch")?;
        Ok((down, up))
    }
}

/// The switch has too few ports for the smallest split at this ratio.
fn no_share(switch: &'static str, ratio: Oversubscription, radix: u32) -> TopologyError {
    let (down, up) = (u64::from(ratio.down()), u64::from(ratio.up()));
    TopologyError::TooFewPorts { switch, needed: down + up, radix, down, up, remedy: "choose a smaller ratio or a larger switch" }
}

/// The levels from the bottom up; `leaf` and `middle` are ports down and up.
fn shape(endpoints: u64, levels: u32, radix: u32, leaf: (u32, u32), middle: (u32, u32)) -> Vec<Level> {
    let mut shape = vec![Level { children: leaf.0, parents: 1, cables: 1 }];
    let (mut span, mut up) = (u64::from(leaf.0), leaf.1);
    for _ in 2..levels {
        shape.push(Level { children: middle.0, parents: up, cables: 1 });
        (span, up) = (span * u64::from(middle.0), middle.1);
    }
    let children = endpoints.div_ceil(span) as u32;
    let cables = most_parallel_cables(up, radix / children);
    shape.push(Level { children, parents: up / cables, cables });
    shape
}

/// The largest divisor of the `up` ports that is at most `most`: more cables in parallel need fewer top switches.
fn most_parallel_cables(up: u32, most: u32) -> u32 {
    (1..=most.min(up)).rev().find(|cables| up.is_multiple_of(*cables)).unwrap_or(1)
}

/// Levels of switches that a fat tree may have.
const LEVELS: std::ops::RangeInclusive<u32> = 2..=4;
