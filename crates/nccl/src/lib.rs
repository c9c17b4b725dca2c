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

#![warn(missing_docs)]

mod architecture;
mod communicator;
mod error;
mod plan;
mod search;
mod settings;
mod tables;
mod topology;
mod transport;
mod trees;
mod tuner;

pub use architecture::{Architecture, Processor};
pub use communicator::{Communicator, NodeKind, RingPlace, Seat, Tree};
pub use error::NcclError;

pub use plan::{Direction, Lane, Part, Peer, Plan, SLOTS, Slice, Step, point_to_point};
pub use search::{Channel, Graph, Graphs, Pattern, search};
pub use settings::{Set, Settings};
pub use topology::{Adapter, Facts, PathType, Topology};
pub use transport::{NetWay, Transport};
pub use tuner::{Algorithm, Choice, Entry, Operation, Protocol, Tuner};
