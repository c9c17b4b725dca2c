//! Routings by the names that clusters and OpenSM give them.

use fabriscope_fabric::Routing;
use fabriscope_fabric::routing::{Lmc, Nue};

use crate::error::Failure;

/// A routing that `--routing` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Algorithm(pub Routing);

impl Algorithm {
    /// Every routing that needs no parameter.
    pub fn all() -> impl Iterator<Item = Routing> {
        Routing::ALL.iter().copied().filter(|routing| !matches!(routing, Routing::Lmc(_) | Routing::Table))
    }

    /// Those that OpenSM does not have.
    pub fn computed() -> impl Iterator<Item = Routing> {
        Algorithm::all().filter(|routing| !Algorithm::by_tables(*routing))
    }

    /// Whether a routing makes forwarding tables for any fabric.
    pub fn by_tables(routing: Routing) -> bool {
        matches!(
            routing,
            Routing::MinHop
                | Routing::UpDown
                | Routing::Ftree
                | Routing::Dnup
                | Routing::Sssp
                | Routing::Dfsssp
                | Routing::Lash
                | Routing::Nue(_)
                | Routing::Torus2Qos
        )
    }

    /// The routing of a name.
    pub fn parse(text: &str) -> Result<Algorithm, Failure> {
        if let Some(bits) = text.strip_prefix("lmc:") {
            let bits = bits.parse().map_err(|_| Failure::told(format!("`{bits}` is no number of bits"), "write lmc:0 to lmc:7"))?;
            return Ok(Algorithm(Routing::Lmc(Lmc { bits })));
        }
        if let Some(lanes) = text.strip_prefix("nue:") {
            let lanes = lanes.parse().map_err(|_| Failure::told(format!("`{lanes}` is no number of lanes"), "write nue:1 to nue:15"))?;
            return Ok(Algorithm(Routing::Nue(Nue { lanes })));
        }
        let name = match text {
            "minhop" => "min_hop",
            "updn" => "up_down",
            "dor" => "dimension_order",
            "torus-2QoS" => "torus_2qos",
            other => other,
        };
        Algorithm::all().find(|routing| routing.name() == name).map(Algorithm).ok_or_else(|| {
            let names: Vec<&str> = Algorithm::all().map(Routing::name).collect();
            Failure::told(format!("there is no routing `{text}`"), format!("use {}, lmc:BITS or nue:LANES", names.join(", ")))
        })
    }
}
