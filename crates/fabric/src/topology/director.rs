//! Director switch: a chassis of crossbars, line modules with ports to the outside and spine modules between them.
//!
//! Source: chassis switches of the InfiniBand generations, such as one with 144 ports made of 24-port crossbars: twelve line
//! modules with twelve ports each to the outside, six spine modules, two cables of the backplane between each pair.
//! The links of the backplane are those of the fabric between switches: give them the length of a backplane.
//! Not modelled: modules of several crossbars (give the number of crossbars).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tree::{Level, Parlance, Tree};
use super::{Fabric, Family, Links, TopologyError, check_ports, positive, radix};

/// A chassis of crossbars: line modules and spine modules, all joined.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Director {
    /// How many endpoints are plugged in. Default: one in each port.
    pub endpoints: Option<u32>,
    /// How many line modules there are. Default: 12.
    pub line_modules: Option<u32>,
    /// How many spine modules there are. Default: 6.
    pub spine_modules: Option<u32>,
    /// Ports of a line module to the outside. Default: half the ports of its crossbar.
    pub ports: Option<u32>,
    /// Links of the backplane between a line module and a spine module. Default: 2.
    pub backplane_links: Option<u32>,
    /// How many ports of each crossbar may be used. Default: all that it has.
    pub radix: Option<u32>,
}

impl Family for Director {
    fn build(&self, links: &Links, radix_limit: u32) -> Result<Fabric, TopologyError> {
        let radix = radix(self.radix, radix_limit)?;
        let lines = positive("line_modules", self.line_modules.unwrap_or(12))?;
        let spines = positive("spine_modules", self.spine_modules.unwrap_or(6))?;
        let cables = positive("backplane_links", self.backplane_links.unwrap_or(2))?;
        let ports = positive("ports", self.ports.unwrap_or((radix / 2).max(1)))?;
        let up = u64::from(spines) * u64::from(cables);
        let remedy = "lower `ports`, `spine_modules` or `backplane_links`, or choose a larger crossbar";
        check_ports("a line module", (u64::from(ports), up), radix, remedy)?;
        let remedy = "lower `line_modules` or `backplane_links`, or choose a larger crossbar";
        check_ports("a spine module", (u64::from(lines) * u64::from(cables), 0), radix, remedy)?;
        let fits = u64::from(lines) * u64::from(ports);
        let endpoints = u64::from(positive("endpoints", self.endpoints.unwrap_or(fits.min(u64::from(u32::MAX)) as u32))?);
        if endpoints > fits {
            return Err(TopologyError::TooManyEndpoints { endpoints, fits, remedy: ", raise `line_modules` or `ports`" });
        }
        if endpoints.div_ceil(u64::from(ports)) < u64::from(lines) {
            let expected = format!("every line module has endpoints: write {} to {fits}", u64::from(lines - 1) * u64::from(ports) + 1);
            return Err(TopologyError::OutOfRange { name: "endpoints", value: endpoints, expected });
        }
        let levels = vec![Level { children: ports, parents: 1, cables: 1 }, Level { children: lines, parents: spines, cables }];
        Tree::new(endpoints as u32, levels)?.called(Parlance::Chassis).build(links, radix)
    }
}
