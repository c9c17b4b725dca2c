//! Broadcasts by hardware multicast, into the memory of GPUs or of the host, that lose nothing.
//!
//! ```text
//! source   GPU ─ copy ─▶ pinned chunk ─┐ payload
//!                        header ───────┴▶ adapter ─▶ switches copy ─▶ adapter ─┬▶ header: host memory
//! receiver                                                                     └▶ payload: buffer on the GPU
//! ```
//! Source: D. K. Panda's group at OSU: A. Venkatesh et al., "High Performance Broadcast Design for GPUs with InfiniBand Hardware Multicast", HiPC 2014
//! (header from the host, payload from the GPU); C.-H. Chu et al., SBAC-PAD 2016 (data in the host, one leader a node, IPC); COMHPC 2016
//! (timeout of the receiver, RMA get from the sender's backup); ICPP 2017 (pipeline through a pinned buffer, zero-copy receive); known
//! from the slides of a talk, not read again.
//! Modelled: datagrams of an MTU; the copy of chunks beside sending; receives in the program's buffer, posted ahead of the data; numbers in the header, by which
//! a receiver sees gaps; a wait after which it reads the sender's progress; RDMA reads of what is missing; where each packet landed, and copies that put it right;
//! one receiver a node that passes chunks on by copies from GPU to GPU.
//! A chunk is sent when every receiver has given credit, 8 bytes written up a tree of the receivers: its receives are posted, and a chunk that lies some way back is all
//! there, with what had to be read. So no packet finds no receive, and no place of the pinned buffer is used again before everybody has
//! what it held; a loss that is repaired meanwhile holds up nobody.
//! Not modelled: receivers that join late, a switch point between this and other algorithms.

mod arrivals;
mod broadcast;
mod broadcast_state;
mod open;
mod receiver;
mod relay;
mod sender;
mod settings;

pub use broadcast_state::{Outcome, Step};
pub use open::{Casting, Multicast};
pub use settings::{Gather, NAMES, Settings, Unable, Within};
