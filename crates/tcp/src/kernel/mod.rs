//! The kernel between sockets and an adapter: what TCP costs a host.
//!
//! Source: the path as in Q. Cai et al., "Understanding Host Network Stack Overheads", SIGCOMM 2021, figure 1; Linux
//! Documentation/networking (NAPI, segmentation offloads, scaling); RFC 4391 and RFC 4755 (IP over InfiniBand).
//! Modelled: system calls; segments of up to 64 KiB that the adapter cuts (TSO) and the core merges again (GRO); checksums by
//! core or adapter; interrupts, held back by time and number of packets, also adaptively; the core of the interrupt as a
//! resource of its own or that of the program; the way from data in the socket to a sleeping program; IP over Ethernet and over
//! InfiniBand, datagrams or connections; sockets of UDP; TCP done by the adapter (a TCP offload engine), which leaves the core one request for
//! each write and one entry for what came in order; a virtual switch between the sockets of virtual machines and the adapter.
//! Not modelled: copies (the program's core makes them, in crate `node`), ARP and path queries, queueing disciplines and
//! their limits (TSQ), interrupts of sent packets, receive hashing beyond one queue per program, acknowledgements of
//! InfiniBand under connected mode, growth of buffers (they have their largest size at once).

mod datagram;
mod frame;
mod interface;
mod machines;
mod moderation;
mod queue;
mod receive;
mod settings;
mod socket;
mod switching;
mod transmit;
mod udp;
mod words;

#[cfg(test)]
mod tests;

pub use fabriscope_vswitch::Usage as SwitchingUsage;

pub use datagram::{Datagram, DatagramSocketId, Message};
pub use frame::{Carried, Outgoing};
pub use interface::Interface;
pub use settings::{Frames, Framing, KernelParameters, Settings, SettingsError};
pub use socket::{Awaited, SocketError, SocketId, SocketOptions, SocketView};
pub use udp::LONGEST_DATAGRAM;
