//! The families of fabrics that a user can choose, one file each.
//!
//! A family is a small struct of numbers, read from `[topology.fat_tree]` and the like. [`Topology::build`]
//! checks them once; what comes out is a [`Fabric`]: cables that fit their ports, and coordinates to route by.

mod arrangement;
mod conforms;
pub mod grid;
pub mod groups;
pub mod irregular;
mod oversubscription;
pub mod tree;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::graph::{Graph, GraphError, LinkSpec, Node};
use crate::routing::Routing;

pub use arrangement::Arrangement;
pub use cable_list::{CableError, NamedCable, NamedSwitch};
pub use conforms::{Defect, conforms};
pub use grid::Grid;
pub use groups::{Groups, Inside};
pub use irregular::{Irregular, Managed};
pub use oversubscription::{Oversubscription, OversubscriptionError};
pub use tree::Tree;

/// What a family of topologies does.
trait Family {
    /// The fabric, wired with `links` from switches of `radix_limit` ports.
    fn build(&self, links: &Links, radix_limit: u32) -> Result<Fabric, TopologyError>;
    /// Takes over how many endpoints a cluster has, on nodes with so many adapters, where the numbers do not say.
    fn fill(&mut self, _endpoints: u32, _adapters: u32) {}
}

/// Declares the families: description, file, key in files, and the routing for those who do not choose.
macro_rules! topologies {
    ($($(#[$about:meta])* [mod $file:ident] $topology:ident($family:ident) = $name:tt, routed by $routing:ident;)*) => {
        $(mod $file;)*
        $(pub use $file::$family;)*

        /// How the fabric is wired.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        #[non_exhaustive]
        pub enum Topology {
            $($(#[$about])* #[serde(rename = $name)] $topology($family),)*
        }

        impl Topology {
            /// The key in files.
            #[must_use]
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Topology::$topology(_) => $name,)*
                }
            }
            /// The routing that works on every member of the family, with every transport, for those who do not choose.
            #[must_use]
            pub const fn usual_routing(&self) -> Routing {
                match self {
                    $(Topology::$topology(_) => Routing::$routing,)*
                }
            }
            /// The fabric, wired with `links` from switches of `radix_limit` ports.
            ///
            /// # Errors
            /// Values that contradict each other, need more ports than a switch has, or hold fewer endpoints than asked for.
            pub fn build(&self, links: &Links, radix_limit: u32) -> Result<Fabric, TopologyError> {
                match self {
                    $(Topology::$topology(family) => family.build(links, radix_limit),)*
                }
            }
            /// The same for a cluster with so many endpoints, on nodes with so many adapters, where its numbers leave that open.
            #[must_use]
            pub fn filled(mut self, endpoints: u32, adapters: u32) -> Topology {
                match &mut self {
                    $(Topology::$topology(family) => family.fill(endpoints, adapters),)*
                }
                self
            }
        }
    };
}

topologies! {
    /// Two endpoints and one cable, no switch.
    [mod back_to_back] BackToBack(BackToBack) = "back_to_back", routed by DModK;
    /// All endpoints on one switch.
    [mod single_switch] SingleSwitch(SingleSwitch) = "single_switch", routed by DModK;
    /// Leaf switches below, spine switches above, every leaf connected to every spine.
    [mod leaf_spine] LeafSpine(LeafSpine) = "leaf_spine", routed by DModK;
    /// A fat tree (folded Clos network) of two to four levels, tapered or not.
    [mod fat_tree] FatTree(FatTree) = "fat_tree", routed by DModK;
    /// Groups of switches, all joined to each other; every two groups joined by global cables.
    [mod dragonfly] Dragonfly(Dragonfly) = "dragonfly", routed by Minimal;
    /// Groups of leaf and spine switches; every two groups joined by global cables between spines.
    [mod dragonfly_plus] DragonflyPlus(DragonflyPlus) = "dragonfly_plus", routed by Minimal;
    /// Endpoints, switches and cables one by one: any network.
    [mod cable_list] Irregular(CableList) = "irregular", routed by UpDown;
    /// A fabric that another tool described: a dump of a real one, a plan.
    [mod imported] Imported(Imported) = "imported", routed by UpDown;
    /// Nodes with several adapters, each of which goes to the leaf switch of its rail.
    [mod rail_optimised] RailOptimised(RailOptimised) = "rail_optimised", routed by DModK;
    /// A chassis of crossbars: line modules and spine modules, all joined.
    [mod director] Director(Director) = "director", routed by DModK;
    /// Switches in rings, in any number of dimensions.
    [mod torus] Torus(Torus) = "torus", routed by DimensionOrder;
    /// Switches in lines, in any number of dimensions.
    [mod mesh] Mesh(Mesh) = "mesh", routed by DimensionOrder;
    /// Two switches in each dimension.
    [mod hypercube] Hypercube(Hypercube) = "hypercube", routed by DimensionOrder;
    /// Switches of a row are all joined to each other, in any number of dimensions.
    [mod hyper_x] HyperX(HyperX) = "hyperx", routed by DimensionOrder;
    /// Switches, or processors with switches on the chip, all joined to each other.
    [mod full_mesh] FullMesh(FullMesh) = "full_mesh", routed by DimensionOrder;
}

impl Topology {
    /// What was imported, with the names and GUIDs of its devices; `None` for a fabric that is built here.
    pub fn subnet(&self) -> Option<&crate::import::Subnet> {
        if let Topology::Imported(imported) = self { imported.subnet() } else { None }
    }
}

/// The cables of a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Links {
    /// From an endpoint to its switch.
    pub host: LinkSpec,
    /// From switch to switch.
    pub trunk: LinkSpec,
    /// From switch to switch between groups, in topologies that have groups.
    pub global: LinkSpec,
}

impl Links {
    /// The same cable everywhere.
    pub const fn uniform(cable: LinkSpec) -> Links {
        Links { host: cable, trunk: cable, global: cable }
    }
}

/// A network ready to be simulated: what is wired where, and where each switch stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fabric {
    /// Endpoints, switches and links.
    pub graph: Graph,
    /// The order in it, which routing computes with.
    pub coordinates: Coordinates,
    /// Ports of each switch, used or not.
    pub radix: u32,
}

/// Where the endpoints and switches stand in their family.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Coordinates {
    /// Two endpoints on one cable.
    Direct,
    /// Levels of switches.
    Tree(Tree),
    /// Groups of switches, joined by global links.
    Dragonfly(Groups),
    /// Switches at the points of a grid.
    Grid(Grid),
    /// No order that routing could compute with.
    Irregular(Irregular),
}

impl Coordinates {
    /// How many endpoints, switches and cables the family has by its closed form.
    pub fn counts(&self) -> Counts {
        match self {
            Coordinates::Direct => Counts { endpoints: 2, switches: 0, cables: 1 },
            Coordinates::Tree(tree) => tree.counts(),
            Coordinates::Dragonfly(groups) => groups.counts(),
            Coordinates::Grid(grid) => grid.counts(),
            Coordinates::Irregular(irregular) => irregular.counts(),
        }
    }
    /// Links on the longest of the shortest paths between two endpoints.
    pub fn diameter(&self) -> u32 {
        match self {
            Coordinates::Direct => 1,
            Coordinates::Tree(tree) => 2 * tree.height(),
            Coordinates::Dragonfly(groups) => groups.diameter(),
            Coordinates::Grid(grid) => grid.diameter(),
            Coordinates::Irregular(irregular) => irregular.diameter(),
        }
    }
}

/// How large a fabric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// NIC ports.
    pub endpoints: u32,
    /// Switches.
    pub switches: u32,
    /// Cables, those of the endpoints included.
    pub cables: u32,
}

impl Fabric {
    /// How large it is.
    pub fn counts(&self) -> Counts {
        let graph = &self.graph;
        Counts { endpoints: graph.endpoint_count(), switches: graph.switch_count(), cables: graph.cable_count() }
    }

    /// What reports call an endpoint or a switch, such as `leaf 3`.
    pub fn name(&self, node: Node) -> String {
        match (node, &self.coordinates) {
            (_, Coordinates::Irregular(irregular)) => irregular.name(node),
            (Node::Endpoint(endpoint), _) => format!("endpoint {}", endpoint.0),
            (Node::Switch(switch), Coordinates::Tree(tree)) => tree.name(switch),
            (Node::Switch(switch), Coordinates::Dragonfly(groups)) => groups.name(switch),
            (Node::Switch(switch), Coordinates::Grid(grid)) => grid.name(switch),
            (Node::Switch(switch), Coordinates::Direct) => format!("switch {}", switch.0),
        }
    }
}

impl fmt::Display for Fabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.coordinates {
            Coordinates::Direct => f.write_str("back to back")?,
            Coordinates::Tree(tree) if tree.height() == 1 => f.write_str("one switch")?,
            Coordinates::Tree(tree) => write!(f, "tree of {} levels", tree.height())?,
            Coordinates::Dragonfly(groups) => write!(f, "{groups}")?,
            Coordinates::Grid(grid) => write!(f, "{grid}")?,
            Coordinates::Irregular(_) => f.write_str("irregular")?,
        }
        write!(f, ": {}", self.counts())
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} endpoints, {} switches, {} cables", self.endpoints, self.switches, self.cables)
    }
}

/// Why a topology cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum TopologyError {
    /// Nothing to build.
    #[error("the topology has no endpoints or a level without ports")]
    #[diagnostic(help("give every number a value of at least 1"))]
    Empty,
    /// A value is outside its range.
    #[error("`{name} = {value}` is out of range")]
    #[diagnostic(help("{expected}"))]
    OutOfRange {
        /// The key.
        name: &'static str,
        /// Its value.
        value: u64,
        /// What would be accepted.
        expected: String,
    },
    /// More ports than the switch has.
    #[error("{switch} needs {needed} ports but the switch has {radix}: {down} down and {up} up")]
    #[diagnostic(help("{remedy}"))]
    TooFewPorts {
        /// What the switch is in the tree.
        switch: &'static str,
        /// Ports it needs.
        needed: u64,
        /// Ports it has.
        radix: u32,
        /// Of those needed, towards the endpoints.
        down: u64,
        /// Of those needed, away from them.
        up: u64,
        /// What to change.
        remedy: &'static str,
    },
    /// A value that nothing reads.
    #[error("`{name}` has no effect: {why}")]
    #[diagnostic(help("leave it out"))]
    NoEffect {
        /// The key.
        name: &'static str,
        /// Why nothing reads it.
        why: &'static str,
    },
    /// More endpoints than the tree holds.
    #[error("{endpoints} endpoints do not fit: the tree holds {fits}")]
    #[diagnostic(help("lower `endpoints`{remedy} or choose a larger switch"))]
    TooManyEndpoints {
        /// Endpoints asked for.
        endpoints: u64,
        /// Endpoints that fit.
        fits: u64,
        /// Other keys to change, with a leading comma; may be empty.
        remedy: &'static str,
    },
    /// Ports do not divide as the ratio says.
    #[error("{down} ports down at {ratio} need {}/{} ports up, not a whole number", u64::from(*down) * u64::from(ratio.up()), ratio.down())]
    #[diagnostic(help("make `down` a multiple of {} or give `up`", ratio.down()))]
    Uneven {
        /// Ports towards the endpoints.
        down: u32,
        /// The ratio asked for.
        ratio: Oversubscription,
    },
    /// The same thing said twice, differently or not.
    #[error("`{one}` and `{other}` say the same thing")]
    #[diagnostic(help("keep one of them"))]
    SaidTwice {
        /// One key.
        one: &'static str,
        /// The other key.
        other: &'static str,
    },
    /// More ports than can be numbered.
    #[error("the fabric needs {ports} ports, more than the {most} that can be numbered")]
    #[diagnostic(help("lower `endpoints`, `levels` or `groups`"))]
    TooLarge {
        /// Ports needed.
        ports: u64,
        /// Ports that have numbers.
        most: u32,
    },
    /// A file that nobody read.
    #[error("the file `{file}` was not read")]
    #[diagnostic(help("name the cluster by its file, so that it can be found beside it"))]
    NotRead {
        /// The file.
        file: String,
    },
    /// A file that describes no fabric.
    #[error("`{file}`: {error}")]
    #[diagnostic(forward(error))]
    Imported {
        /// The file.
        file: String,
        /// What is wrong with it.
        error: Box<crate::import::ImportError>,
    },
    /// An imported switch is larger than that of the cluster.
    #[error("{switch} has a cable in port {port}, but the switch of the cluster has {radix} ports")]
    #[diagnostic(help("choose a larger switch"))]
    PortBeyond {
        /// Which switch.
        switch: String,
        /// Its last port with a cable.
        port: u32,
        /// Ports of the switch of the cluster.
        radix: u32,
    },
    /// The list of cables makes no network.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Cable(#[from] CableError),
    /// The cables do not fit.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Graph(#[from] GraphError),
}

/// The radix to build with: the one asked for, or what the switch has.
fn radix(asked: Option<u32>, limit: u32) -> Result<u32, TopologyError> {
    let radix = asked.unwrap_or(limit);
    let most = limit.min(tree::MOST_PORTS);
    if radix == 0 || radix > most {
        return Err(TopologyError::OutOfRange {
            name: "radix",
            value: u64::from(radix),
            expected: format!("the switch has {limit} ports: write 1 to {most}, or leave `radix` out to use all of them"),
        });
    }
    Ok(radix)
}

/// A value of at least 1.
fn positive(name: &'static str, value: u32) -> Result<u32, TopologyError> {
    match value {
        0 => Err(TopologyError::OutOfRange { name, value: 0, expected: "write at least 1, or leave it out for the default".to_owned() }),
        _ => Ok(value),
    }
}

/// Checks that a switch has enough ports for those `(down, up)`.
fn check_ports(switch: &'static str, (down, up): (u64, u64), radix: u32, remedy: &'static str) -> Result<(), TopologyError> {
    let needed = down.saturating_add(up);
    if needed > u64::from(radix) {
        return Err(TopologyError::TooFewPorts { switch, needed, radix, down, up, remedy });
    }
    Ok(())
}
