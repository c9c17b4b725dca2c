//! Quality of service of a cluster: which lanes or classes there are, and how they share the links.
//!
//! What a packet asks for is one number of 0 to 15: InfiniBand's service level, Ethernet's priority, the number of a Slingshot
//! class. `[qos]` says which lane it takes and how lanes compete. Each such lane is a group of as many virtual lanes as the
//! routing needs against deadlock (as torus-2QoS and DFSSSP of OpenSM do it): lane *l* of a routing with *r* lanes of its own
//! has the virtual lanes *l · r* to *l · r + r - 1*.
//!
//! Modelled: the tables, and every contradiction in them. How they act is in the crate `switch`; docs/models/qos.md.

mod ethernet;
mod pairs;
mod slingshot;
mod vl;

use fabriscope_fabric::Fabric;
use fabriscope_units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use ethernet::{EthernetClass, EthernetQos};
pub use pairs::PortPairs;
pub use slingshot::{SlingshotQos, TrafficClass};
pub use vl::{FullTables, PortTables, SwitchTables, VlArb, VlQos, VlWeight};

use crate::cluster::{LinkLayer, ResolvedCluster};
use crate::error::Problem;

/// How traffic of different classes shares the links.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Qos {
    /// Service levels, virtual lanes and arbitration tables.
    #[serde(rename = "infiniband")]
    InfiniBand(VlQos),
    /// Priorities, pauses per priority, strict and shared classes.
    Ethernet(EthernetQos),
    /// Classes with a guaranteed and a largest rate.
    Slingshot(SlingshotQos),
}

/// The number that packets carry is below this (standard: four bits).
pub const LEVELS: u32 = 16;

impl Qos {
    /// How many lanes it needs; the routing multiplies them.
    pub fn lanes(&self) -> u32 {
        match self {
            Qos::InfiniBand(qos) => qos.max_vls,
            Qos::Ethernet(qos) => qos.priorities().count() as u32,
            Qos::Slingshot(qos) => qos.classes().len() as u32,
        }
    }
    fn key(&self) -> &'static str {
        match self {
            Qos::InfiniBand(_) => "infiniband",
            Qos::Ethernet(_) => "ethernet",
            Qos::Slingshot(_) => "slingshot",
        }
    }
}

/// Whether the tables fit each other and the cluster, all but its routing.
pub(crate) fn check(cluster: &ResolvedCluster) -> Result<(), Problem> {
    let Some(qos) = &cluster.qos else { return Ok(()) };
    let found = match (qos, cluster.link_layer) {
        (Qos::InfiniBand(_), layer) if layer != LinkLayer::InfiniBand => {
            Err(Problem::at(&[], "virtual lanes of InfiniBand on Ethernet links", "write [qos.ethernet], or choose another cluster"))
        }
        (Qos::Ethernet(_), LinkLayer::InfiniBand) => {
            Err(Problem::at(&[], "Ethernet priorities on InfiniBand links", "write [qos.infiniband], or choose another cluster"))
        }
        (Qos::InfiniBand(qos), _) => qos.check(),
        (Qos::Ethernet(qos), _) => qos.check(cluster.flow_control),
        (Qos::Slingshot(qos), _) => qos.check(),
    };
    found.and_then(|()| fits_parts(qos, cluster)).map_err(|problem| problem.under(qos.key()).under("qos"))
}

/// Whether adapters and switches have so many lanes.
fn fits_parts(qos: &Qos, cluster: &ResolvedCluster) -> Result<(), Problem> {
    let nic = cluster.groups.iter().map(|group| *group.node.nic.vls).min().unwrap_or(1);
    let most = cluster.switch_parts().map(|switch| *switch.vls).fold(nic, u32::min);
    if qos.lanes() <= most {
        return match qos {
            Qos::InfiniBand(qos) => {
                let adapter = cluster.groups.iter().map(|group| *group.node.nic.rx_buffer).min().unwrap_or(Bytes::ZERO);
                qos.check_buffers(cluster.switch_parts().map(|switch| *switch.buffer).fold(adapter, Bytes::min), cluster.mtu)
            }
            _ => Ok(()),
        };
    }
    let key = match qos {
        Qos::InfiniBand(_) => "max_vls",
        _ => "classes",
    };
    let message = format!("{} lanes, but adapter and switch have {most}", qos.lanes());
    Err(Problem::at(&[key], message, format!("use at most {most}, or other parts")))
}

/// Whether the switches that tables name exist.
pub(crate) fn check_fabric(qos: &Qos, fabric: &Fabric) -> Result<(), Problem> {
    match qos {
        Qos::InfiniBand(qos) => qos.check_switches(&fabric.graph).map_err(|problem| problem.under("infiniband").under("qos")),
        _ => Ok(()),
    }
}

/// What traffic asks for: at most one of the four.
#[derive(Clone, Copy, Debug, Default)]
pub struct QosRequest<'a> {
    /// InfiniBand's service level.
    pub service_level: Option<u32>,
    /// Ethernet's priority.
    pub priority: Option<u32>,
    /// The DSCP of its IP header.
    pub dscp: Option<u32>,
    /// Name of a Slingshot class.
    pub traffic_class: Option<&'a str>,
}

impl QosRequest<'_> {
    /// The number that its packets carry; 0 where nothing is asked for.
    ///
    /// # Errors
    /// Two ways at once, a way that the links do not know, a number or name that does not exist.
    pub fn level(&self, cluster: &ResolvedCluster) -> Result<u8, Problem> {
        let asked = [
            ("service_level", self.service_level.is_some()),
            ("priority", self.priority.is_some()),
            ("dscp", self.dscp.is_some()),
            ("traffic_class", self.traffic_class.is_some()),
        ];
        let mut keys = asked.iter().filter(|(_, given)| *given).map(|(key, _)| *key);
        let Some(key) = keys.next() else { return Ok(0) };
        if let Some(second) = keys.next() {
            return Err(Problem::at(&[second], format!("`{key}` and `{second}` together"), "keep one of them"));
        }
        let number = |given: u32, below: u32| match given < below {
            true => Ok(given as u8),
            false => Err(Problem::at(&[key], format!("there is no {key} {given}"), format!("use 0 to {}", below - 1))),
        };
        let infiniband = cluster.link_layer == LinkLayer::InfiniBand;
        match (self, &cluster.qos) {
            (QosRequest { traffic_class: Some(name), .. }, Some(Qos::Slingshot(qos))) => qos.class(name),
            (QosRequest { traffic_class: Some(name), .. }, _) => {
                let message = format!("the traffic class `{name}` on a cluster without classes");
                Err(Problem::at(&[key], message, "add [qos.slingshot], or use service_level or priority"))
            }
            (_, Some(Qos::Slingshot(_))) => {
                Err(Problem::at(&[key], format!("`{key}` on a cluster with classes"), "write traffic_class = \"name\""))
            }
            (QosRequest { service_level: Some(level), .. }, _) if infiniband => number(*level, LEVELS),
            (QosRequest { priority: Some(priority), .. }, _) if !infiniband => number(*priority, 8),
            (QosRequest { dscp: Some(dscp), .. }, qos) if !infiniband => {
                let dscp = number(*dscp, 64)?;
                Ok(match qos {
                    Some(Qos::Ethernet(qos)) => qos.priority_of(dscp),
                    _ => dscp >> 3,
                })
            }
            _ if infiniband => Err(Problem::at(&[key], format!("`{key}` on InfiniBand links"), "write service_level = 0 to 15")),
            _ => Err(Problem::at(&[key], format!("`{key}` on Ethernet links"), "write priority = 0 to 7, or dscp = 0 to 63")),
        }
    }
}
