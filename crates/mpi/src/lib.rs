//! The point-to-point layer of an MPI library over verbs.
//!
//! Source: MVAPICH2 (Liu, Wu, Kini, Wyckoff, Panda, "High Performance RDMA-Based MPI Implementation over InfiniBand",
//! ICS 2003: ring written by RDMA, credits on the back of traffic; Sur, Jin, Chai, Panda, "RDMA Read Based Rendezvous
//! Protocol for MPI over InfiniBand", PPoPP 2006) and UCX (eager by send, rendezvous by read).
//! Modelled: posted and unexpected queues with tags, wildcards and MPI's order; eager messages by RDMA write into a
//! polled ring or by send into posted receives; copies at both ends, zero-copy above a limit; rendezvous by read, write
//! or send with its control messages on the wire; matching by the core or by the adapter; sockets of the kernel or PSM2 in place of
//! verbs; credits; sparse completions; several rails, whole messages in turn or striped; the queue pairs of RC, XRC,
//! DC, UD, SRD and UET (`queue_pairs.rs`), put in order by the receiver where messages may overtake each other; shared memory between ranks of a node. What costs core time is charged to the core of the rank.
//! [`Buffer`]s may lie in the memory of a GPU; `gpu.rs` says how such messages go.
//! Not modelled: registration caches that run full, threads, derived data types; tag
//! matching takes the same time however long the queues are.
//!
//! A [`Rank`] is what a program holds after `MPI_Init`; a [`World`] is what the ranks of a job share out of band.
//! Collective operations are rounds of `fabriscope_collectives` that a rank carries out ([`Rank::carry_out`]).

mod accumulate;
mod active_message;
mod atomic;
mod atomic_op;
mod buffer;
mod connection;
mod contents;
mod decision;
mod element;
mod exchange;
mod first_use;
mod gpu;
mod in_network;
mod intra_node_gpu;
mod layout;
mod local;
mod managed;
mod matching;
mod multicast;
mod offload;
mod one_sided;
mod onload;
mod order;
pub mod probe;
mod progress;
mod protocol;
mod queue_pairs;
mod rank;
mod remote;
mod rendezvous;
mod request;
mod rounds;
mod service;
mod setup;
pub mod shmem;
mod slots;
mod sockets;
mod staged;
mod staging;
mod state;
mod stream;
mod trace;
mod triggered;
mod wire;
mod world;

pub use accumulate::{Operands, Update};
pub use atomic::Fetch;
pub use atomic_op::{AtomicOp, Width};
pub use buffer::{Buffer, RankLocation};
pub use decision::{Between, CopyMethod, Decision};
pub use element::{Datatype, Reduction};
pub use multicast::{Casting, Gather, Multicast, NAMES as MULTICAST_NAMES, Outcome, Settings as MulticastSettings, Step, Unable, Within};
pub use offload::{OffloadState, Product, Settings as OffloadSettings};
pub use one_sided::OneSided;
pub use protocol::Protocol;
pub use protocol::gpu::Gpu;
pub use protocol::local::{Local, Single};
pub use protocol::slots::parts_of_slots;
pub use protocol::transport::INITIATORS as DC_INITIATORS;
pub use rank::Rank;
pub use request::Request;
pub use rounds::{Packing, UnderWay, reduction_streams};
pub use triggered::TriggeredState;

pub use world::World;
