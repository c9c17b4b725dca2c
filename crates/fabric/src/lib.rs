//! The fabric: endpoints, switches and cables, the regular topologies, and routing.
//!
//! ```text
//!  [topology.fat_tree] ──build(links, radix)──► Fabric { graph, coordinates, radix }
//!                                                  │
//!  routing = "spray" ───Router::new(fabric)────────┴──► output(switch, head, view) -> Hop { link, vl }
//! ```
//!
//! * [`Graph`]: a multigraph of directed links in flat arrays, whatever the topology.
//! * [`Topology`]: the families a user can choose, one file each. Building checks everything once.
//! * [`Coordinates`]: where each endpoint and switch stands in its family. Routing is arithmetic on them.
//! * [`Routing`]: the algorithm a user can choose; [`Router`] is that algorithm on one fabric. Any
//!   algorithm implements [`Route`]: from the switch, what it reads of the packet and the depths of its
//!   output queues, to an output link and a virtual lane.
//! * [`aggregation`]: trees of switches that reduce, and who gets them.
//! * [`multicast`]: groups, and the trees along which switches copy packets to their members.
//! * [`topology::conforms`] and [`routing::delivers`] check any fabric and any routing; [`routing::deadlock`] proves
//!   that packets cannot wait for each other in a cycle, or shows the cycle.
//!
//! ```
//! use fabriscope_fabric::{Head, Idle, LinkSpec, Links, Route, Router, Routing, Topology, path};
//! use fabriscope_fabric::{EndpointId, SwitchId};
//! use fabriscope_fabric::topology::FatTree;
//! use fabriscope_units::{Rate, Span};
//!
//! let cable = LinkSpec::new(Rate::from_gbps(400), Span::from_ns(25));
//! let topology = Topology::FatTree(FatTree { levels: Some(3), ..FatTree::default() });
//! let fabric = topology.build(&Links::uniform(cable), 16)?;
//! assert_eq!(fabric.graph.endpoint_count(), 1024); // 16³ / 4
//!
//! let router = Router::new(&fabric, Routing::Spray)?;
//! assert_eq!(path(&fabric, &router, EndpointId(0), EndpointId(1023), 7).len(), 6);
//! let head = Head { dest: EndpointId(1), entropy: 0, input: fabric.graph.uplink(EndpointId(0)), vl: 0, via: 0 };
//! let hop = router.output(SwitchId(0), head, &mut Idle::new());
//! assert_eq!(hop.link, fabric.graph.uplink(EndpointId(1)).reverse());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`analysis`] says what a fabric is worth before anything runs on it, [`picture`] draws it.

pub mod aggregation;
pub mod analysis;
mod divisor;
pub mod export;
pub mod graph;
mod graph_distance;
mod graph_levels;
pub mod import;
mod length;
pub mod multicast;
pub mod picture;
pub mod routing;
pub mod topology;

pub use graph::{Builder, EndpointId, Graph, GraphError, Link, LinkId, LinkSpec, Node, PortId, SetRate, Socket, SwitchId, Vertex};
pub use graph_distance::distances_to_endpoints;
pub use length::{Length, LengthError};
pub use routing::{
    Choice, Head, Hop, Idle, Memory, Route, RoutePrototype, Router, Routing, RoutingError, SwitchView, Tables, path, switch_hops,
};
pub use topology::{Coordinates, Counts, Fabric, Links, Topology, TopologyError};
