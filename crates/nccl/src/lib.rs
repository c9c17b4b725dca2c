//! NCCL and RCCL: how the libraries see a node, the channels they find in it, how they choose, and what each rank then does.
//!
//! Nothing here takes time and nothing does I/O. [`Topology`] is the library's own view of a node, [`search()`] finds channels in it,
//! [`Communicator`] joins those of all nodes, [`Communicator::transport`] says how two neighbours talk, [`Tuner`] chooses algorithm
//! and protocol, and [`Plan`] has the steps of each rank. What runs the steps, and what they cost, is elsewhere.
//!
//! Source: NCCL 2.22.3 (<https://github.com/NVIDIA/nccl>); for Blackwell, which it does not know, the constants of 2.27; RCCL
//! (<https://github.com/ROCm/rccl>). Numbers are in [`tables`](self): they are what the library believes of hardware and never
//! a rate or time of the model.
//! Modelled: see `docs/models/nccl.md`.
//!
//! ```
//! use fabriscope_machine::{Link, LinkKind, Machine, Vertex, VertexKind};
//! use fabriscope_nccl::{Architecture, Communicator, Facts, NodeKind, Operation, Plan, Processor, RankPlacement, Settings, Topology, Tuner, search};
//! use fabriscope_units::{Bytes, Rate, Span};
//!
//! // Two A100 joined by twelve NVLinks.
//! let mut builder = Machine::builder();
//! let numa = builder.vertex(Vertex::new(VertexKind::Numa { package: 0 }, "numa0"));
//! let bridge = builder.vertex(Vertex::new(VertexKind::HostBridge, "bridge0"));
//! let gpus = ["gpu0", "gpu1"].map(|name| builder.vertex(Vertex::new(VertexKind::Gpu, name)));
//! let (rate, latency) = (Rate::from_gbps(200), Span::from_ns(100));
//! builder.link(Link::new(numa, bridge, LinkKind::Die, rate, latency));
//! for gpu in gpus {
//!     builder.link(Link::new(bridge, gpu, LinkKind::Pcie { generation: 4, lanes: 16 }, rate, latency));
//! }
//! builder.link(Link::new(gpus[0], gpus[1], LinkKind::NvLink { generation: 3, links: 12 }, rate, latency));
//! let machine = builder.build()?;
//!
//! let settings = Settings::default();
//! let facts = Facts { architecture: Architecture::Sm(80), processor: Processor::Amd, adapters: Vec::new(), hosts: 1, rails: 1 };
//! let topology = Topology::new(&machine, &gpus, facts, &settings, true)?;
//! let graphs = search(&topology, &settings);
//! let seats = [0, 1].map(|gpu| RankPlacement { node: 0, gpu });
//! let communicator = Communicator::new(vec![NodeKind { topology, graphs }], &[0], &seats, settings)?;
//! assert_eq!(communicator.channels(), 24);
//!
//! let choice = Tuner::new(&communicator).choose(Operation::AllReduce, Bytes::from_mib(64))?;
//! let plan = Plan::new(&communicator, choice, 16 << 20, Bytes(4), 0, false)?;
//! for part in &plan.parts {
//!     for lane in plan.lanes(&communicator, 0, part) {
//!         assert!(lane.iter().all(|step| step.bytes <= part.chunk));
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![warn(missing_docs)]

mod algorithm;
mod architecture;
mod communicator;
mod error;
mod path_type;
mod plan;
mod search;
mod settings;
mod tables;
mod topology;
mod transport;
mod trees;
mod tuner;

pub use algorithm::{Algorithm, Operation, Protocol};
pub use architecture::{Architecture, Processor};
pub use communicator::{Communicator, NodeKind, RankPlacement, RingPlace, Tree};
pub use error::NcclError;

pub use path_type::PathType;
pub use plan::{Course, Direction, Lane, Part, Peer, Peers, Plan, SLOTS, Slice, Step, point_to_point};
pub use search::{Channel, Graph, Graphs, Pattern, search};
pub use settings::{Release, Set, Settings};
pub use topology::{Adapter, Facts, Topology};
pub use transport::{NetWay, Transport};
pub use tuner::{Choice, Entry, GroupEstimate, GroupPart, Rule, Rules, Tuner};
