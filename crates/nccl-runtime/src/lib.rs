//! NCCL and RCCL at work: kernels that move slices from GPU to GPU, and proxies that carry them between nodes.
//!
//! Source: NCCL (<https://github.com/NVIDIA/nccl>), src/device, src/transport, src/proxy.cc. The longer story: `docs/models/nccl-runtime.md`.
//! Modelled: what each file says. [`Kernels`] and [`Fifo`] are state machines without I/O; [`Communicator`] drives them on a [`Process`].
//! Not modelled: copy engines (NCCL_P2P_USE_CUDA_MEMCPY), one-sided operations, GIN, symmetric kernels.
//!
//! [`Process`]: fabriscope_node::Process

mod collective;
mod communicator;
mod contents;
mod fifo;
mod in_network;
mod kernels;
mod net;
mod notes;
mod nvls;
mod point_to_point;
mod proxy;
mod slices;
mod world;

pub use collective::connections;
pub use communicator::Communicator;
pub use contents::Contents;
pub use fifo::{Fifo, FifoEnd, FifoId, FifoPath, Filled};
pub use kernels::{BlockPlan, Kernels, Move, StreamId, Turn};
pub use point_to_point::{Exchange, pairs};
pub use world::{Gpus, MemberPlacement, RankPlacement, SLOTS, Wire, WireKind, World};
