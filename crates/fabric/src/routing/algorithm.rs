//! The routings that a user can choose: one line each.
//!
//! A line of the table holds what files, command lines and documents say of a routing: its description, its name, its
//! parameters, and by what it divides traffic among paths. The algorithms themselves are registered where they compute:
//! with the coordinates of a family (`tree`, `dragonfly`, `grid`) or for any fabric (`graph`).

use std::fmt;

use fabriscope_units::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What decides among several paths to one destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Nothing but the destination: one path from each switch to each address.
    Destination,
    /// The flow: all its packets take one path.
    Flow,
    /// The flow, anew after each pause.
    Pause,
    /// The packet.
    Packet,
    /// The packet and the queues, or a random draw that balances them.
    Load,
}

/// Declares [`Routing`]: description, name in files, and what it shares paths by.
macro_rules! routings {
    ($($(#[$about:meta])* $routing:ident $(($parameters:ident))? = $name:tt, shared by $sharing:ident;)*) => {
        /// The routing algorithm.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        #[non_exhaustive]
        pub enum Routing {
            $($(#[$about])* #[serde(rename = $name)] $routing $(($parameters))?,)*
        }

        impl Routing {
            /// Every routing, those with parameters with their usual ones.
            pub const ALL: &'static [Routing] = &[$(Routing::$routing $(($parameters::USUAL))?),*];

            /// The name in files and on the command line, without parameters.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Routing::$routing { .. } => $name,)*
                }
            }
            /// What decides among several paths to one destination.
            pub const fn sharing(self) -> Sharing {
                match self {
                    $(Routing::$routing { .. } => Sharing::$sharing,)*
                }
            }
        }
    };
}

routings! {
    /// The destination alone selects the way up, as subnet managers of InfiniBand set their tables up (OpenSM `ftree`).
    #[default]
    DModK = "d_mod_k", shared by Destination;
    /// A hash of the flow selects among the shortest paths: all packets of a flow take one path (Ethernet, RoCE).
    Ecmp = "ecmp", shared by Flow;
    /// Each packet of a flow takes the next shortest path: round robin over all of them (Ultra Ethernet, adaptive InfiniBand).
    Spray = "spray", shared by Packet;
    /// Each packet takes the least loaded of a few ways, detours included where the topology has them (Slingshot).
    Adaptive = "adaptive", shared by Load;
    /// A flow may change its path whenever it pauses for longer than a gap.
    Flowlet(Flowlet) = "flowlet", shared by Pause;
    /// One dimension after the other (torus, mesh, hypercube, HyperX, full mesh).
    DimensionOrder = "dimension_order", shared by Destination;
    /// The shortest path of a dragonfly: at most one global link.
    Minimal = "minimal", shared by Destination;
    /// By way of a random intermediate stop, whatever the load.
    Valiant = "valiant", shared by Load;
    /// Minimal or by a random intermediate stop, whichever queue at the first switch promises the shorter wait.
    UgalL = "ugal_l", shared by Load;
    /// The same with knowledge of the queues of all switches of the group: a bound for what local knowledge can reach.
    UgalG = "ugal_g", shared by Load;
    /// Shortest paths, balanced over the ports (OpenSM `minhop`). Can deadlock on a fabric with cycles.
    MinHop = "min_hop", shared by Destination;
    /// Shortest paths that never go up again after going down (OpenSM `updn`).
    UpDown = "up_down", shared by Destination;
    /// Tables for shift traffic on any fat tree, regular or not (OpenSM `ftree`).
    Ftree = "ftree", shared by Destination;
    /// Shortest paths that never go away from the endpoints again after coming nearer (OpenSM `dnup`).
    Dnup = "dnup", shared by Destination;
    /// Shortest paths balanced over the whole fabric (OpenSM `sssp`). Can deadlock on a fabric with cycles.
    Sssp = "sssp", shared by Destination;
    /// Those of `sssp`, with cycles broken up over virtual lanes (OpenSM `dfsssp`).
    Dfsssp = "dfsssp", shared by Destination;
    /// One shortest path for each pair of switches, on the first virtual lane that it closes no cycle on (OpenSM `lash`).
    Lash = "lash", shared by Destination;
    /// Paths found in the channel dependency graph, free of deadlock on any number of virtual lanes (OpenSM `nue`).
    Nue(Nue) = "nue", shared by Destination;
    /// Dimension order on a torus, with the datelines that a path crosses in its service level (OpenSM `torus-2QoS`).
    Torus2Qos = "torus_2qos", shared by Destination;
    /// Several addresses per endpoint, each with a path of its own (InfiniBand LMC).
    Lmc(Lmc) = "lmc", shared by Destination;
    /// The forwarding tables that came with an imported fabric.
    Table = "table", shared by Destination;
}

/// When a flow may change its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flowlet {
    /// The shortest pause: longer than the paths differ in delay, so that packets stay in order.
    pub gap: Span,
}

impl Flowlet {
    /// A pause longer than the paths of a machine room differ in delay.
    pub const USUAL: Flowlet = Flowlet { gap: Span::from_ns(1000) };
}

/// Several addresses per endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lmc {
    /// LID mask control: an endpoint has 2^bits addresses.
    #[schemars(range(min = 0, max = 7))]
    pub bits: u8,
}

impl Lmc {
    /// Four addresses.
    pub const USUAL: Lmc = Lmc { bits: 2 };
}

/// How many lanes there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nue {
    /// Virtual lanes, of which each destination has one.
    #[schemars(range(min = 1, max = 15))]
    pub lanes: u8,
}

impl Nue {
    /// One lane, as OpenSM takes without `nue_max_num_vls`.
    pub const USUAL: Nue = Nue { lanes: 1 };
}

impl Routing {
    /// Whether packets of one flow take different paths at once, so that receivers must accept them in any order.
    pub const fn reorders(self) -> bool {
        matches!(self.sharing(), Sharing::Packet | Sharing::Load)
    }
    /// Whether a packet may overtake one of its flow: as with [`Routing::reorders`], and where a flowlet overtakes the one before it because
    /// queues differ by more than the gap.
    pub const fn overtakes(self) -> bool {
        self.reorders() || matches!(self.sharing(), Sharing::Pause)
    }
    /// The routing of this name, with the usual parameters.
    pub fn named(name: &str) -> Option<Routing> {
        Routing::ALL.iter().copied().find(|routing| routing.name() == name)
    }
}

impl fmt::Display for Routing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files say a routing by its name, or by its name and parameters.
    #[test]
    fn names_in_files() {
        for &routing in Routing::ALL {
            let json = serde_json::to_value(routing).unwrap();
            let name = json.as_str().or_else(|| json.as_object()?.keys().next().map(String::as_str));
            assert_eq!(name, Some(routing.name()));
            assert_eq!(serde_json::from_value::<Routing>(json).unwrap(), routing);
            assert_eq!(Routing::named(routing.name()), Some(routing));
        }
        assert_eq!((Routing::default(), Routing::named("DModK")), (Routing::DModK, None));
    }
}
